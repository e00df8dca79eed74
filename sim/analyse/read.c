#include "sim/analyse/read.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/common/text.h"

#define MOST_THREADS 64
#define TICKS_PER_S 4

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

struct load {
  struct rondo_analyse_record *records;
  char **paths;
  size_t count;
  const struct rondo_analyse_load_options *options;
  regex_t after_rank, last_number;
  atomic_size_t next, done;
  atomic_uint_fast64_t bytes;
};

// The rank in a file's name: what the first group of the pattern matches; -1 if nothing.
static int64_t name_rank(const char *name, const regex_t *pattern) {
  regmatch_t match[2];
  if (regexec(pattern, name, 2, match, 0) != 0 || match[1].rm_so < 0) {
    return -1;
  }
  struct rondo_analyse_slice digits = {name + match[1].rm_so,
                                       (size_t)(match[1].rm_eo - match[1].rm_so)};
  int64_t number = rondo_analyse_slice_integer(digits, -1);
  return number <= RONDO_ANALYSE_HIGHEST_RANK ? number : -1;
}

// Finds the rank in a file's name: by the user's pattern if there is one; else the last number
// after "rank", or else the last number in the name (rank_named tells which).
static void rank_find(struct rondo_analyse_record *r, const struct load *load) {
  const char *slash = strrchr(r->path, '/');
  const char *name = slash ? slash + 1 : r->path;
  const regex_t *pattern = load->options->rank_pattern;
  r->rank_hint = name_rank(name, pattern ? pattern : &load->after_rank);
  r->rank_named = r->rank_hint >= 0;
  if (!pattern && !r->rank_named) {
    r->rank_hint = name_rank(name, &load->last_number);
  }
}

static void file_read(struct load *load, size_t at) {
  struct rondo_analyse_record *r = &load->records[at];
  struct rondo_analyse_input in;
  rondo_analyse_record_init(r, load->paths[at]);
  rank_find(r, load);
  if (rondo_analyse_input_open(&in, r->path)) {
    rondo_analyse_record_problem(r, 0, 0, "cannot be opened: %s", strerror(errno));
    r->unusable = true;
    return;
  }
  in.progress_bytes = &load->bytes;
  rondo_analyse_read(r, &in);
  rondo_analyse_input_close(&in);
}

static void *worker_run(void *argument) {
  struct load *load = argument;
  size_t at;
  while ((at = atomic_fetch_add(&load->next, 1)) < load->count) {
    file_read(load, at);
    atomic_fetch_add(&load->done, 1);
  }
  return NULL;
}

static uint64_t total_bytes(char **paths, size_t count) {
  uint64_t total = 0;
  struct stat info;
  for (size_t i = 0; i < count; i++) {
    total += stat(paths[i], &info) == 0 ? (uint64_t)info.st_size : 0;
  }
  return total;
}

static void progress_show(struct load *load, uint64_t total, double elapsed_s) {
  double bytes = (double)atomic_load(&load->bytes);
  double left_s = bytes > 0 ? elapsed_s * ((double)total / bytes - 1) : 0;
  fprintf(stderr, "\rread %zu of %zu files, %.0f of %.0f MB, about %.0f s left   ",
          atomic_load(&load->done), load->count, bytes * 1e-6, (double)total * 1e-6,
          left_s > 0 ? left_s : 0);
  fflush(stderr);
}

// Waits for the workers and shows the progress four times a second.
static void workers_join(struct load *load, const pthread_t *threads, unsigned count) {
  uint64_t total = total_bytes(load->paths, load->count);
  unsigned ticks = 0;
  bool shown = false;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  for (unsigned i = 0; i < count;) {
    if (pthread_timedjoin_np(threads[i], NULL, &until) == 0) {
      i++;
      continue;
    }
    until.tv_nsec += 1000000000 / TICKS_PER_S;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    double elapsed_s = (double)ticks++ / TICKS_PER_S;
    if (load->options->progress && elapsed_s > 1) { // shorter work says nothing
      progress_show(load, total, elapsed_s);
      shown = true;
    }
  }
  if (shown) {
    fputc('\n', stderr);
  }
}

static unsigned threads_wanted(const struct load *load) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  size_t wanted =
      load->options->thread_count ? load->options->thread_count : (size_t)(cores > 0 ? cores : 1);
  wanted = wanted < load->count ? wanted : load->count;
  return (unsigned)(wanted < MOST_THREADS ? wanted : MOST_THREADS);
}

void rondo_analyse_load(struct rondo_analyse_record *records, char **paths, size_t count,
                        const struct rondo_analyse_load_options *options) {
  struct load load = {.records = records, .paths = paths, .count = count, .options = options};
  pthread_t threads[MOST_THREADS];
  unsigned wanted = threads_wanted(&load), started = 0;
  regcomp(&load.after_rank, ".*rank[-_. ]?([0-9]+)", REG_EXTENDED | REG_ICASE);
  regcomp(&load.last_number, "([0-9]+)[^0-9]*$", REG_EXTENDED);
  while (started < wanted && pthread_create(&threads[started], NULL, worker_run, &load) == 0) {
    started++;
  }
  if (!started) {
    worker_run(&load); // no thread could be started: read here
  }
  workers_join(&load, threads, started);
  regfree(&load.after_rank);
  regfree(&load.last_number);
}
