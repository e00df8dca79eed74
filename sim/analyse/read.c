#include "sim/analyse/read.h"

#include <string.h>

// Adds the failure of the JSON reader, if any; the file then counts as cut off.
static void failure_add(struct rondo_analyse_record *r, const struct rondo_analyse_json *j) {
  if (!j->failed) {
    return;
  }
  rondo_analyse_record_problem(r, j->error_line, j->error_offset, "%s", j->message);
  for (size_t i = 0; i < r->track_count; i++) {
    r->tracks[i].cut_off = true;
  }
}

// Reads the value of one key of the outermost object. The key tells the format.
static void member_read(struct rondo_analyse_record *r, struct rondo_analyse_json *j,
                        struct rondo_analyse_flight *flight, struct rondo_analyse_slice key) {
  static const struct {
    const char *key;
    void (*read)(struct rondo_analyse_record *, struct rondo_analyse_json *);
  } readers[] = {{"traceEvents", rondo_analyse_read_kineto_events},
                 {"distributedInfo", rondo_analyse_read_kineto_info},
                 {"communicators", rondo_analyse_read_ras},
                 {"rondo", rondo_analyse_read_rondo}};
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    if (rondo_analyse_slice_is(key, readers[i].key)) {
      readers[i].read(r, j);
      return;
    }
  }
  if (!rondo_analyse_flight_read(flight, j, key)) {
    rondo_analyse_json_skip(j);
  }
}

static void json_read(struct rondo_analyse_record *r, struct rondo_analyse_input *in) {
  struct rondo_analyse_flight *flight = rondo_analyse_flight_create(r);
  struct rondo_analyse_json j;
  struct rondo_analyse_slice key;
  rondo_analyse_json_init(&j, in);
  if (rondo_analyse_json_peek(&j) == '[') {
    rondo_analyse_read_kineto_events(r, &j); // a trace may be its bare list of events
  } else if (rondo_analyse_json_open(&j, '{')) {
    // A Rondo flight record continues after its first object; its reader reads to the end.
    while (r->source != RONDO_ANALYSE_RONDO && rondo_analyse_json_key(&j, &key)) {
      member_read(r, &j, flight, key);
    }
  }
  if (r->source != RONDO_ANALYSE_RONDO) {
    rondo_analyse_json_end(&j);
  }
  failure_add(r, &j);
  rondo_analyse_flight_finish(flight);
  if (!j.failed && r->track_count == 0) {
    rondo_analyse_record_problem(
        r, 0, 0, "is JSON of no known kind: no entries, traceEvents, communicators or rondo in it");
  }
}

static bool has_magic(const struct rondo_analyse_input *in, const char *magic, size_t bytes) {
  return in->end - in->begin >= bytes && memcmp(in->data + in->begin, magic, bytes) == 0;
}

// True if the first line that is not empty begins with a bracket of JSON.
static bool looks_like_json(const struct rondo_analyse_input *in) {
  size_t i = in->begin;
  while (i < in->end && strchr(" \t\r\n", in->data[i])) {
    i++;
  }
  // A log line may begin with "[timestamp]" or "[rank0]:"; an array of events begins with "[{" or
  // "[]".
  if (i < in->end && in->data[i] == '[') {
    do {
      i++;
    } while (i < in->end && in->data[i] && strchr(" \t\r\n", in->data[i]));
    return i < in->end && (in->data[i] == '{' || in->data[i] == ']');
  }
  return i < in->end && in->data[i] == '{';
}

void rondo_analyse_read(struct rondo_analyse_record *r, struct rondo_analyse_input *in) {
  rondo_analyse_input_need(in, 4096);
  if (in->begin == in->end) {
    rondo_analyse_record_problem(r, 0, 0, "%s", in->error ? strerror(in->error) : "is empty");
  } else if (has_magic(in, "\x80", 1)) {
    rondo_analyse_read_pickle(r, in);
  } else if (has_magic(in, "\x1f\x8b", 2)) {
    rondo_analyse_record_problem(r, 0, 0, "is compressed with gzip: run gunzip on it first");
  } else if (has_magic(in, "PK\x03\x04", 4)) {
    rondo_analyse_record_problem(r, 0, 0, "is a zip archive: unpack it first");
  } else if (looks_like_json(in)) {
    json_read(r, in);
  } else {
    rondo_analyse_read_nccl(r, in);
  }
  if (in->error) {
    rondo_analyse_record_problem(r, 0, rondo_analyse_input_offset(in), "%s", strerror(in->error));
  }
  r->unusable |= r->track_count == 0;
}
