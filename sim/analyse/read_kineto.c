// Kineto traces. The CPU side of a collective is an event "record_param_comms"; its kernel on the
// device is another event; "External id" joins the two. A kernel that never finished is in no
// trace.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/arrays.h"
#include "sim/analyse/read.h"

#define NO_COUNT INT64_MIN

struct event {
  bool is_call, is_kernel, decided;
  double start_us, duration_us;
  uint32_t name, dtype, group, desc, ranks, stream, thread;
  int64_t in_count, out_count, size, seq, source, target, external, root;
};

// What a finished kernel says about its call.
struct kernel {
  uint64_t key;
  double start_us, duration_us;
  uint32_t stream;
};

struct reader {
  struct rondo_analyse_record *record;
  struct rondo_analyse_json *json;
  struct kernel *kernels;
  uint64_t *keys; // keys[i] belongs to the track's call i
  size_t kernel_count, kernel_capacity, key_count, key_capacity;
};

static void track_begin(struct rondo_analyse_record *r) {
  r->source = RONDO_ANALYSE_KINETO;
  if (!r->track_count) {
    rondo_analyse_record_track(r)->rank = r->rank_hint;
  }
}

// The group that an event or the trace's list of groups describes; makes it if it is new.
static struct rondo_analyse_group_decl *group_of(struct rondo_analyse_record *r,
                                                 const struct event *e) {
  struct rondo_analyse_group_decl *g = rondo_analyse_track_find(&r->tracks[0], e->group);
  if (g) {
    return g;
  }
  g = rondo_analyse_track_group(&r->tracks[0], e->group);
  g->desc = e->desc;
  g->next_seq = 1;
  g->size = e->size > 0 ? e->size : 0;
  // A long list is abbreviated with "..."; then only its size is known.
  const char *ranks = rondo_analyse_record_text(r, e->ranks);
  if (!strstr(ranks, "...")) {
    rondo_analyse_group_members(g, ranks);
  }
  return g;
}

// Reads one group of the trace's list.
static void info_group_read(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  static const struct rondo_analyse_field fields[] = {
      {"pg_name", RONDO_ANALYSE_READ_STRING, offsetof(struct event, group)},
      {"pg_desc", RONDO_ANALYSE_READ_STRING, offsetof(struct event, desc)},
      {"pg_size", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, size)},
      {"ranks", RONDO_ANALYSE_READ_LIST, offsetof(struct event, ranks)},
      {0}};
  struct event e = {0};
  rondo_analyse_read_object(r, j, fields, &e);
  group_of(r, &e);
}

void rondo_analyse_read_kineto_info(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  struct rondo_analyse_slice key;
  track_begin(r);
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    if (rondo_analyse_slice_is(key, "rank")) {
      r->tracks[0].rank = rondo_analyse_json_integer(j, r->rank_hint);
    } else if (rondo_analyse_slice_is(key, "pg_config") && rondo_analyse_json_peek(j) == '[') {
      rondo_analyse_json_open(j, '[');
      while (rondo_analyse_json_item(j)) {
        info_group_read(r, j);
      }
    } else {
      rondo_analyse_json_skip(j);
    }
  }
}

static void args_read(struct reader *reader, struct event *e) {
  static const struct rondo_analyse_field fields[] = {
      {"In msg nelems", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, in_count)},
      {"Out msg nelems", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, out_count)},
      {"Group size", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, size)},
      {"Seq", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, seq)},
      {"Src Rank", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, source)},
      {"Dst Rank", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, target)},
      {"External id", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, external)},
      {"Root", RONDO_ANALYSE_READ_NUMBER, offsetof(struct event, root)},
      {"Collective name", RONDO_ANALYSE_READ_STRING, offsetof(struct event, name)},
      {"dtype", RONDO_ANALYSE_READ_STRING, offsetof(struct event, dtype)},
      {"Process Group Name", RONDO_ANALYSE_READ_STRING, offsetof(struct event, group)},
      {"Process Group Description", RONDO_ANALYSE_READ_STRING, offsetof(struct event, desc)},
      {"Process Group Ranks", RONDO_ANALYSE_READ_LIST, offsetof(struct event, ranks)},
      {"stream", RONDO_ANALYSE_READ_STRING, offsetof(struct event, stream)},
      {0}};
  if (rondo_analyse_json_peek(reader->json) == '{' && (!e->decided || e->is_call || e->is_kernel)) {
    rondo_analyse_read_object(reader->record, reader->json, fields, e);
  } else {
    rondo_analyse_json_skip(reader->json);
  }
}

static void name_read(struct rondo_analyse_json *j, struct event *e) {
  struct rondo_analyse_slice text;
  if (rondo_analyse_json_peek(j) != '"') {
    rondo_analyse_json_skip(j);
    return;
  }
  rondo_analyse_json_string(j, &text);
  e->decided = true;
  e->is_call = rondo_analyse_slice_is(text, "record_param_comms");
  e->is_kernel = (text.size_bytes > 14 && memcmp(text.data, "ncclDevKernel_", 14) == 0) ||
                 (text.size_bytes > 11 && memcmp(text.data, "ncclKernel_", 11) == 0);
}

static double real_read(struct rondo_analyse_json *j) {
  struct rondo_analyse_number number = {0};
  int c = rondo_analyse_json_peek(j);
  if (c == '-' || (c >= '0' && c <= '9')) {
    rondo_analyse_json_number(j, &number);
  } else if (c == '"') {
    struct rondo_analyse_slice text;
    char copy[40];
    rondo_analyse_json_string(j, &text);
    size_t n = text.size_bytes < sizeof copy ? text.size_bytes : sizeof copy - 1;
    memcpy(copy, text.data, n);
    copy[n] = 0;
    number.real = strtod(copy, NULL);
  } else {
    rondo_analyse_json_skip(j);
  }
  return number.real;
}

static struct event event_read(struct reader *reader) {
  struct rondo_analyse_json *j = reader->json;
  struct rondo_analyse_slice key;
  struct event e = {.in_count = NO_COUNT,
                    .out_count = NO_COUNT,
                    .size = -1,
                    .seq = -1,
                    .source = -1,
                    .target = -1,
                    .external = -1,
                    .root = -1};
  if (rondo_analyse_json_peek(j) != '{') {
    rondo_analyse_json_skip(j);
    return e;
  }
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    if (rondo_analyse_slice_is(key, "name")) {
      name_read(j, &e);
    } else if (rondo_analyse_slice_is(key, "ts")) {
      e.start_us = real_read(j);
    } else if (rondo_analyse_slice_is(key, "dur")) {
      e.duration_us = real_read(j);
    } else if (rondo_analyse_slice_is(key, "tid") && !(e.decided && !e.is_call)) {
      e.thread = rondo_analyse_read_string(reader->record, j);
    } else if (rondo_analyse_slice_is(key, "args")) {
      args_read(reader, &e);
    } else {
      rondo_analyse_json_skip(j);
    }
  }
  return e;
}

static uint64_t key_of(const struct event *e) {
  return e->external >= 0 ? (uint64_t)e->external << 1
                          : ((uint64_t)e->group << 40 ^ (uint64_t)e->seq << 1) | 1;
}

static int64_t nanoseconds(double us) { return us > 0 && us < 9e15 ? (int64_t)(us * 1e3) : 0; }

static void call_add(struct reader *reader, const struct event *e) {
  const char *name = rondo_analyse_record_text(reader->record, e->name);
  bool uneven;
  enum rondo_analyse_kind kind = rondo_analyse_kind_of(name, &uneven);
  if (kind == RONDO_ANALYSE_OTHER) { // "wait", "init" and the like are not operations
    return;
  }
  struct rondo_analyse_track *t = &reader->record->tracks[0];
  const struct rondo_analyse_group_decl *g = group_of(reader->record, e);
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  call->group = (uint32_t)(g - t->groups);
  call->kind = (uint8_t)kind;
  call->name = e->name;
  call->seq = e->seq;
  call->created_ns = nanoseconds(e->start_us);
  call->in_count = e->in_count > 0 ? (uint64_t)e->in_count : 0;
  call->out_count = e->out_count > 0 ? (uint64_t)e->out_count : 0;
  bool has_counts = e->in_count != NO_COUNT || e->out_count != NO_COUNT;
  call->flags =
      (has_counts ? RONDO_ANALYSE_COUNTS_KNOWN : 0) | (uneven ? RONDO_ANALYSE_UNEVEN_OK : 0);
  call->dtype =
      (uint8_t)rondo_analyse_dtype_of(rondo_analyse_record_text(reader->record, e->dtype));
  call->queue = e->thread;
  int64_t peer = kind == RONDO_ANALYSE_SEND ? e->target : e->source;
  call->peer = kind >= RONDO_ANALYSE_SEND && kind <= RONDO_ANALYSE_RECV ? (int32_t)peer : -1;
  RONDO_SIM_GROW(reader->keys, reader->key_count, reader->key_capacity, 64);
  reader->keys[reader->key_count++] = key_of(e);
}

static void kernel_add(struct reader *reader, const struct event *e) {
  RONDO_SIM_GROW(reader->kernels, reader->kernel_count, reader->kernel_capacity, 64);
  reader->kernels[reader->kernel_count++] =
      (struct kernel){key_of(e), e->start_us, e->duration_us, e->stream};
}

// Marks the calls whose kernels finished.
static void kernels_join(struct reader *reader) {
  struct rondo_analyse_track *t = &reader->record->tracks[0];
  if (!reader->kernel_count) {
    return;
  }
  t->states_known = true;
  qsort(reader->kernels, reader->kernel_count, sizeof *reader->kernels, rondo_analyse_compare_u64);
  for (size_t i = 0; i < t->call_count; i++) {
    struct rondo_analyse_call *call = &t->calls[i];
    const struct kernel *found = bsearch(&reader->keys[i], reader->kernels, reader->kernel_count,
                                         sizeof *reader->kernels, rondo_analyse_compare_u64);
    call->state = found ? RONDO_ANALYSE_COMPLETED : RONDO_ANALYSE_SCHEDULED;
    if (found) {
      call->started_ns = nanoseconds(found->start_us);
      call->completed_ns = nanoseconds(found->start_us + found->duration_us);
      call->queue = found->stream ? found->stream : call->queue;
      call->flags |= found->stream ? RONDO_ANALYSE_STREAM : 0;
    }
  }
}

// Orders the calls by time, because the events of a trace have no order, and numbers those without
// a number.
static void calls_order(struct rondo_analyse_track *t) {
  if (t->call_count) {
    qsort(t->calls, t->call_count, sizeof *t->calls, rondo_analyse_compare_u64);
  }
  for (size_t i = 0; i < t->call_count; i++) {
    struct rondo_analyse_group_decl *g = &t->groups[t->calls[i].group];
    t->calls[i].seq = t->calls[i].seq > 0 ? t->calls[i].seq : g->next_seq;
    g->next_seq = t->calls[i].seq + 1;
  }
}

void rondo_analyse_read_kineto_events(struct rondo_analyse_record *r,
                                      struct rondo_analyse_json *j) {
  struct reader reader = {.record = r, .json = j};
  track_begin(r);
  rondo_analyse_json_open(j, '[');
  while (rondo_analyse_json_item(j)) {
    struct event e = event_read(&reader);
    if (j->failed) {
      break;
    }
    if (e.is_call) {
      call_add(&reader, &e);
    } else if (e.is_kernel) {
      kernel_add(&reader, &e);
    }
  }
  if (!r->tracks[0].call_count && !j->failed) {
    rondo_analyse_record_problem(r, 0, rondo_analyse_input_offset(j->in),
                                 "no record_param_comms event is in this trace: the backend's "
                                 "collectives are not traced with their groups");
  }
  kernels_join(&reader);
  calls_order(&r->tracks[0]);
  r->tracks[0].front_missing = true; // a trace is a window on the run
  free(reader.kernels);
  free(reader.keys);
}
