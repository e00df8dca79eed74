// Rondo's flight record: one JSON object in each line. docs/analyse.md has the schema.
#include <stddef.h>
#include <string.h>

#include "sim/analyse/read.h"
#include "sim/common/text.h"

struct reader {
  struct rondo_analyse_record *record;
  struct rondo_analyse_json *json;
};

struct line {
  int64_t group, run, count, root, rank, pid, dropped;
  int64_t submitted_ns, started_ns, completed_ns;
  uint32_t name, kind, dtype, redop, state, stream, thread, site, host, ranks;
  uint32_t collective; // as digits: ids have 64 bits and no sign
};

static const struct rondo_analyse_field line_fields[] = {
    {"group", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, group)},
    {"run", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, run)},
    {"count", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, count)},
    {"root", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, root)},
    {"rank", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, rank)},
    {"pid", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, pid)},
    {"dropped", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, dropped)},
    {"submitted_ns", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, submitted_ns)},
    {"started_ns", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, started_ns)},
    {"completed_ns", RONDO_ANALYSE_READ_NUMBER, offsetof(struct line, completed_ns)},
    {"name", RONDO_ANALYSE_READ_STRING, offsetof(struct line, name)},
    {"kind", RONDO_ANALYSE_READ_STRING, offsetof(struct line, kind)},
    {"dtype", RONDO_ANALYSE_READ_STRING, offsetof(struct line, dtype)},
    {"op", RONDO_ANALYSE_READ_STRING, offsetof(struct line, redop)},
    {"state", RONDO_ANALYSE_READ_STRING, offsetof(struct line, state)},
    {"stream", RONDO_ANALYSE_READ_STRING, offsetof(struct line, stream)},
    {"thread", RONDO_ANALYSE_READ_STRING, offsetof(struct line, thread)},
    {"site", RONDO_ANALYSE_READ_STRING, offsetof(struct line, site)},
    {"host", RONDO_ANALYSE_READ_STRING, offsetof(struct line, host)},
    {"ranks", RONDO_ANALYSE_READ_LIST, offsetof(struct line, ranks)},
    {0}};

// Reads a number that is not negative as the file writes it; 0 for anything else.
static uint32_t digits_read(struct reader *reader) {
  struct rondo_analyse_slice text;
  int first = rondo_analyse_json_peek(reader->json);
  if (!rondo_analyse_json_raw(reader->json, &text) || first < '0' || first > '9') {
    return 0;
  }
  return rondo_analyse_strings_add(&reader->record->strings, text.data, text.size_bytes);
}

// Reads the keys of the open object up to its closing bracket.
static struct line members_read(struct reader *reader) {
  struct rondo_analyse_json *j = reader->json;
  struct rondo_analyse_slice key;
  struct line line = {.group = -1, .run = -1, .count = -1, .root = -1, .rank = -1, .pid = -1};
  while (rondo_analyse_json_key(j, &key)) {
    if (rondo_analyse_slice_is(key, "collective")) {
      line.collective = digits_read(reader);
    } else if (!rondo_analyse_read_field(reader->record, j, key, line_fields, &line)) {
      rondo_analyse_json_skip(j);
    }
  }
  return line;
}

// The key of a group (collective 0) or of a collective in it.
static uint32_t key_of(struct rondo_analyse_record *r, int64_t group, uint32_t collective) {
  return rondo_analyse_strings_print(&r->strings, "group %lld%s%s", (long long)group,
                                     collective ? " collective " : "",
                                     rondo_analyse_record_text(r, collective));
}

static void group_add(struct reader *reader, const struct line *line) {
  struct rondo_analyse_record *r = reader->record;
  struct rondo_analyse_group_decl *g =
      rondo_analyse_track_group(&r->tracks[0], key_of(r, line->group, 0));
  g->name = line->name ? line->name : g->key;
  rondo_analyse_group_members(g, rondo_analyse_record_text(r, line->ranks));
}

// Runs of a collective match by their number, so each collective is a group of its own here.
static uint32_t collective_of(struct reader *reader, const struct line *line) {
  struct rondo_analyse_record *r = reader->record;
  struct rondo_analyse_track *t = &r->tracks[0];
  uint32_t key = key_of(r, line->group, line->collective);
  struct rondo_analyse_group_decl *g = rondo_analyse_track_find(t, key);
  if (!g) {
    g = rondo_analyse_track_group(t, key);
    const struct rondo_analyse_group_decl *parent =
        rondo_analyse_track_find(t, key_of(r, line->group, 0));
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

static void call_add(struct reader *reader, const struct line *line) {
  uint32_t group = collective_of(reader, line);
  struct rondo_analyse_track *t = &reader->record->tracks[0];
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  bool uneven;
  call->group = group;
  call->kind = (uint8_t)rondo_analyse_kind_of(rondo_analyse_record_text(reader->record, line->kind),
                                              &uneven);
  call->name = line->kind;
  call->seq = line->run;
  call->created_ns = line->submitted_ns;
  call->started_ns = line->started_ns;
  call->completed_ns = line->completed_ns;
  call->in_count = line->count > 0 ? (uint64_t)line->count : 0;
  call->flags = (line->count >= 0 ? RONDO_ANALYSE_COUNTS_KNOWN : 0) |
                (uneven ? RONDO_ANALYSE_UNEVEN_OK : 0) |
                (line->root >= 0 ? RONDO_ANALYSE_ROOT_KNOWN : 0);
  call->peer = (int32_t)(line->root >= 0 && line->root < INT32_MAX ? line->root : -1);
  call->dtype =
      (uint8_t)rondo_analyse_dtype_of(rondo_analyse_record_text(reader->record, line->dtype));
  call->redop =
      (uint8_t)rondo_analyse_redop_of(rondo_analyse_record_text(reader->record, line->redop));
  call->state = state_of(rondo_analyse_record_text(reader->record, line->state));
  call->queue = line->stream ? line->stream : line->thread;
  call->site = line->site;
}

static void line_add(struct reader *reader, const struct line *line) {
  struct rondo_analyse_track *t = &reader->record->tracks[0];
  if (line->collective) {
    call_add(reader, line);
  } else if (line->group >= 0) {
    group_add(reader, line);
  }
  t->front_missing |= line->dropped > 0;
}

void rondo_analyse_read_rondo(struct rondo_analyse_record *r, struct rondo_analyse_json *j) {
  struct reader reader = {r, j};
  rondo_analyse_json_skip(j); // the name of the schema
  r->source = RONDO_ANALYSE_RONDO;
  struct rondo_analyse_track *t = rondo_analyse_record_track(r);
  struct line header = members_read(&reader);
  t->rank = header.rank >= 0 ? header.rank : r->rank_hint;
  t->host = header.host;
  t->pid = header.pid;
  t->states_known = t->starts_known = true;
  while (rondo_analyse_json_peek(j) == '{') {
    rondo_analyse_json_open(j, '{');
    struct line line = members_read(&reader);
    if (!j->failed) {
      line_add(&reader, &line);
    }
  }
  rondo_analyse_json_end(j);
}
