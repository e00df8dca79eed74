// Kineto traces. The CPU side of a collective is an event "record_param_comms"; its kernel on the
// device is another event; "External id" joins the two. A kernel that never finished is in no
// trace.
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/arrays.h"
#include "sim/analyse/read.h"

#define NO_COUNT INT64_MIN

struct event {
  bool is_call, is_kernel, decided;
  double start_us, duration_us;
  uint32_t thread;
  struct rondo_analyse_value args;
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
  struct rondo_analyse_values values; // of one event
  struct kernel *kernels;
  uint64_t *keys;    // keys[i] belongs to the call first_call + i of the track
  size_t first_call; // that this reader has added
  size_t kernel_count, kernel_capacity, key_count, key_capacity;
};

static void track_begin(struct rondo_analyse_record *r) {
  r->source = RONDO_ANALYSE_KINETO;
  if (!r->track_count) {
    rondo_analyse_record_track(r)->rank = r->rank_hint;
  }
}

// What an event and the trace's list of groups call the facts about a group.
struct group_keys {
  const char *name, *desc, *size, *ranks;
};

static void members_read(struct rondo_analyse_group_decl *g, const struct rondo_analyse_values *v,
                         struct rondo_analyse_value dict, const struct group_keys *keys) {
  int64_t size = rondo_analyse_get_integer(v, dict, keys->size, 0);
  struct rondo_analyse_value ranks = rondo_analyse_value_get(v, dict, keys->ranks);
  rondo_analyse_group_members(g, v, ranks);
  bool is_short = strstr(rondo_analyse_value_text(v, ranks), "...");
  if (is_short || (size > 0 && g->size != size)) { // abbreviated: only the size is known
    free(g->members);
    g->members = NULL;
    g->member_count = 0;
    g->size = size > 0 ? size : 0;
  }
}

// The group that a dictionary describes; makes it if it is new.
static struct rondo_analyse_group_decl *group_of(struct rondo_analyse_record *r,
                                                 const struct rondo_analyse_values *v,
                                                 struct rondo_analyse_value dict,
                                                 const struct group_keys *keys) {
  uint32_t name = rondo_analyse_get_string(v, dict, keys->name);
  struct rondo_analyse_group_decl *g = rondo_analyse_track_find(&r->tracks[0], name);
  if (!g) {
    g = rondo_analyse_track_group(&r->tracks[0], name);
    g->desc = rondo_analyse_get_string(v, dict, keys->desc);
    g->next_seq = 1;
    members_read(g, v, dict, keys);
  }
  return g;
}

void rondo_analyse_read_kineto_info(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  static const struct group_keys keys = {"pg_name", "pg_desc", "pg_size", "ranks"};
  struct rondo_analyse_values v = {.strings = &r->strings};
  track_begin(r);
  struct rondo_analyse_value info = rondo_analyse_json_value(j, &v);
  struct rondo_analyse_container groups =
      rondo_analyse_value_items(&v, rondo_analyse_value_get(&v, info, "pg_config"));
  r->tracks[0].rank = rondo_analyse_get_integer(&v, info, "rank", r->tracks[0].rank);
  for (uint32_t i = 0; i < groups.count; i++) {
    if (groups.items[i].type == RONDO_ANALYSE_DICT) {
      struct rondo_analyse_group_decl *g = group_of(r, &v, groups.items[i], &keys);
      if (!g->member_count) // an event before has abbreviated them
        members_read(g, &v, groups.items[i], &keys);
    }
  }
  rondo_analyse_values_fini(&v);
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
  struct event e = {0};
  reader->values.count = 0;
  if (rondo_analyse_json_peek(j) != '{') {
    rondo_analyse_json_skip(j);
    return e;
  }
  rondo_analyse_json_open(j, '{');
  while (rondo_analyse_json_key(j, &key)) {
    bool may_count = !e.decided || e.is_call || e.is_kernel;
    if (rondo_analyse_slice_is(key, "name")) {
      name_read(j, &e);
    } else if (rondo_analyse_slice_is(key, "ts")) {
      e.start_us = real_read(j);
    } else if (rondo_analyse_slice_is(key, "dur")) {
      e.duration_us = real_read(j);
    } else if (may_count && rondo_analyse_slice_is(key, "tid")) {
      e.thread =
          rondo_analyse_value_string(&reader->values, rondo_analyse_json_value(j, &reader->values));
    } else if (may_count && rondo_analyse_slice_is(key, "args")) {
      e.args = rondo_analyse_json_value(j, &reader->values);
    } else {
      rondo_analyse_json_skip(j);
    }
  }
  return e;
}

static int64_t number_of(const struct reader *reader, const struct event *e, const char *key,
                         int64_t otherwise) {
  return rondo_analyse_get_integer(&reader->values, e->args, key, otherwise);
}

// What a call and its kernel have in common.
static uint64_t key_of(const struct reader *reader, const struct event *e) {
  int64_t external = number_of(reader, e, "External id", -1);
  uint64_t group = rondo_analyse_get_string(&reader->values, e->args, "Process Group Name");
  uint64_t seq = (uint64_t)number_of(reader, e, "Seq", -1);
  return external >= 0 ? (uint64_t)external << 1 : (group << 40 ^ seq << 1) | 1;
}

static int64_t us_to_ns(double us) { return us > 0 && us < 9e15 ? (int64_t)(us * 1e3) : 0; }

static void call_add(struct reader *reader, const struct event *e) {
  static const struct group_keys keys = {"Process Group Name", "Process Group Description",
                                         "Group size", "Process Group Ranks"};
  const struct rondo_analyse_values *v = &reader->values;
  uint32_t name = rondo_analyse_get_string(v, e->args, "Collective name");
  bool uneven;
  enum rondo_analyse_kind kind =
      rondo_analyse_kind_of(rondo_analyse_record_text(reader->record, name), &uneven);
  if (kind == RONDO_ANALYSE_OTHER) { // "wait", "init" and the like are not operations
    return;
  }
  struct rondo_analyse_track *t = &reader->record->tracks[0];
  const struct rondo_analyse_group_decl *g = group_of(reader->record, v, e->args, &keys);
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  int64_t in_count = number_of(reader, e, "In msg nelems", NO_COUNT);
  int64_t out_count = number_of(reader, e, "Out msg nelems", NO_COUNT);
  bool has_counts = in_count != NO_COUNT || out_count != NO_COUNT;
  call->group = (uint32_t)(g - t->groups);
  call->kind = (uint8_t)kind;
  call->name = name;
  call->seq = number_of(reader, e, "Seq", -1);
  call->created_ns = us_to_ns(e->start_us);
  call->in_count = in_count > 0 ? (uint64_t)in_count : 0;
  call->out_count = out_count > 0 ? (uint64_t)out_count : 0;
  call->flags =
      (has_counts ? RONDO_ANALYSE_COUNTS_KNOWN : 0) | (uneven ? RONDO_ANALYSE_UNEVEN_OK : 0);
  call->dtype = (uint8_t)rondo_analyse_dtype_of(rondo_analyse_get_text(v, e->args, "dtype"));
  call->queue = e->thread;
  if (kind == RONDO_ANALYSE_SEND || kind == RONDO_ANALYSE_RECV) {
    const char *peer = kind == RONDO_ANALYSE_SEND ? "Dst Rank" : "Src Rank";
    call->peer = (int32_t)number_of(reader, e, peer, -1);
  }
  RONDO_SIM_GROW(reader->keys, reader->key_count, reader->key_capacity, 64);
  reader->keys[reader->key_count++] = key_of(reader, e);
}

static void kernel_add(struct reader *reader, const struct event *e) {
  RONDO_SIM_GROW(reader->kernels, reader->kernel_count, reader->kernel_capacity, 64);
  reader->kernels[reader->kernel_count++] =
      (struct kernel){key_of(reader, e), e->start_us, e->duration_us,
                      rondo_analyse_get_string(&reader->values, e->args, "stream")};
}

// Marks the calls whose kernels finished.
static void kernels_join(struct reader *reader) {
  struct rondo_analyse_track *t = &reader->record->tracks[0];
  if (!reader->kernel_count) {
    return;
  }
  t->states_known = true;
  qsort(reader->kernels, reader->kernel_count, sizeof *reader->kernels, rondo_analyse_compare_u64);
  for (size_t i = reader->first_call; i < t->call_count; i++) {
    struct rondo_analyse_call *call = &t->calls[i];
    const uint64_t *key = &reader->keys[i - reader->first_call];
    const struct kernel *found = bsearch(key, reader->kernels, reader->kernel_count,
                                         sizeof *reader->kernels, rondo_analyse_compare_u64);
    call->state = found ? RONDO_ANALYSE_COMPLETED : RONDO_ANALYSE_SCHEDULED;
    if (found) {
      call->started_ns = us_to_ns(found->start_us);
      call->completed_ns = us_to_ns(found->start_us + found->duration_us);
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
  struct reader reader = {.record = r, .json = j, .values.strings = &r->strings};
  track_begin(r);
  reader.first_call = r->tracks[0].call_count;
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
  rondo_analyse_values_fini(&reader.values);
}
