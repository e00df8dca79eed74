// Rondo's flight record: one JSON object in each line. docs/analyse.md has the schema.
#include <string.h>

#include "sim/analyse/read.h"
#include "sim/common/text.h"

struct reader {
  struct rondo_analyse_record *record;
  struct rondo_analyse_values values;
  struct rondo_analyse_value line; // a dictionary
};

static uint32_t string_of(const struct reader *reader, const char *key) {
  return rondo_analyse_get_string(&reader->values, reader->line, key);
}

static const char *text_of(const struct reader *reader, const char *key) {
  return rondo_analyse_get_text(&reader->values, reader->line, key);
}

static int64_t number_of(const struct reader *reader, const char *key, int64_t otherwise) {
  return rondo_analyse_get_integer(&reader->values, reader->line, key, otherwise);
}

// The key of a group (collective 0) or of a collective in it.
static uint32_t key_of(struct rondo_analyse_record *r, int64_t group, uint32_t collective) {
  return rondo_analyse_strings_print(&r->strings, "group %lld%s%s", (long long)group,
                                     collective ? " collective " : "",
                                     rondo_analyse_record_text(r, collective));
}

static void group_add(struct reader *reader, int64_t group) {
  struct rondo_analyse_record *r = reader->record;
  struct rondo_analyse_group_decl *g =
      rondo_analyse_track_group(&r->tracks[0], key_of(r, group, 0));
  uint32_t name = string_of(reader, "name");
  g->name = name ? name : g->key;
  rondo_analyse_group_members(g, &reader->values,
                              rondo_analyse_value_get(&reader->values, reader->line, "ranks"));
}

// Runs of a collective match by their number, so each collective is a group of its own here.
static uint32_t collective_of(struct rondo_analyse_record *r, int64_t group, uint32_t collective) {
  struct rondo_analyse_track *t = &r->tracks[0];
  uint32_t key = key_of(r, group, collective);
  struct rondo_analyse_group_decl *g = rondo_analyse_track_find(t, key);
  if (!g) {
    g = rondo_analyse_track_group(t, key);
    const struct rondo_analyse_group_decl *parent =
        rondo_analyse_track_find(t, key_of(r, group, 0));
    if (parent && parent->member_count) {
      g->desc = parent->name;
      g->member_count = parent->member_count;
      g->size = parent->size;
      g->members = rondo_sim_alloc(g->member_count * sizeof *g->members);
      memcpy(g->members, parent->members, g->member_count * sizeof *g->members);
    }
  }
  return (uint32_t)(g - t->groups);
}

static uint8_t state_of(const char *name) {
  return strcmp(name, "completed") == 0 ? RONDO_ANALYSE_COMPLETED
         : strcmp(name, "started") == 0 ? RONDO_ANALYSE_STARTED
                                        : RONDO_ANALYSE_SCHEDULED;
}

static void call_add(struct reader *reader, int64_t group, uint32_t collective) {
  uint32_t at = collective_of(reader->record, group, collective);
  struct rondo_analyse_call *call = rondo_analyse_track_call(&reader->record->tracks[0]);
  int64_t count = number_of(reader, "count", -1), root = number_of(reader, "root", -1);
  uint32_t stream = string_of(reader, "stream");
  bool uneven;
  call->group = at;
  call->kind = (uint8_t)rondo_analyse_kind_of(text_of(reader, "kind"), &uneven);
  call->name = string_of(reader, "kind");
  call->seq = number_of(reader, "run", -1);
  call->created_ns = number_of(reader, "submitted_ns", 0);
  call->started_ns = number_of(reader, "started_ns", 0);
  call->completed_ns = number_of(reader, "completed_ns", 0);
  call->in_count = count > 0 ? (uint64_t)count : 0;
  call->flags = (count >= 0 ? RONDO_ANALYSE_COUNTS_KNOWN : 0) |
                (uneven ? RONDO_ANALYSE_UNEVEN_OK : 0) | (root >= 0 ? RONDO_ANALYSE_ROOT_KNOWN : 0);
  call->peer = (int32_t)(root >= 0 && root < INT32_MAX ? root : -1);
  call->dtype = (uint8_t)rondo_analyse_dtype_of(text_of(reader, "dtype"));
  call->redop = (uint8_t)rondo_analyse_redop_of(text_of(reader, "op"));
  call->flags |= strcmp(text_of(reader, "awaits"), "stream") == 0 ? RONDO_ANALYSE_AWAITS_STREAM : 0;
  call->state = state_of(text_of(reader, "state"));
  call->queue = stream ? stream : string_of(reader, "thread");
  call->site = string_of(reader, "site");
}

static void line_add(struct reader *reader) {
  int64_t group = number_of(reader, "group", -1);
  uint32_t collective = string_of(reader, "collective"); // as digits: ids have 64 bits and no sign
  if (collective) {
    call_add(reader, group, collective);
  } else if (group >= 0) {
    group_add(reader, group);
  } else if (strcmp(text_of(reader, "event"), "synchronises") == 0) {
    struct rondo_analyse_track *t = &reader->record->tracks[0];
    t->synchronises = true;
    t->synchronises_ns = number_of(reader, "for_ns", 0);
  }
  reader->record->tracks[0].front_missing |= number_of(reader, "dropped", 0) > 0;
}

void rondo_analyse_read_rondo(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  struct reader reader = {r, {.strings = &r->strings}, {0}};
  rondo_analyse_json_skip(j); // the name of the schema
  reader.line = rondo_analyse_json_members(j, &reader.values);
  r->source = RONDO_ANALYSE_RONDO;
  struct rondo_analyse_track *t = rondo_analyse_record_track(r);
  int64_t rank = number_of(&reader, "rank", -1);
  t->rank = rank >= 0 ? rank : r->rank_hint;
  t->host = string_of(&reader, "host");
  t->pid = number_of(&reader, "pid", -1);
  t->states_known = t->starts_known = true;
  while (rondo_analyse_json_peek(j) == '{') {
    reader.values.count = 0;
    reader.line = rondo_analyse_json_value(j, &reader.values);
    if (!j->failed) {
      line_add(&reader);
    }
  }
  rondo_analyse_json_end(j);
  rondo_analyse_values_fini(&reader.values);
}
