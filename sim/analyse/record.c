#include "sim/analyse/record.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

#define MOST_PROBLEMS 20
#define MOST_RANKS ((size_t)1 << 18)
#define HIGHEST_RANK ((int64_t)1 << 40)

const char *rondo_analyse_source_name(int source) {
  static const char *const names[RONDO_ANALYSE_SOURCE_COUNT] = {
      "not recognised", "PyTorch Flight Recorder", "Kineto trace",
      "NCCL log",       "NCCL RAS status",         "Rondo flight record"};
  return source >= 0 && source < RONDO_ANALYSE_SOURCE_COUNT ? names[source] : names[0];
}

void rondo_analyse_record_init(struct rondo_analyse_record *r, const char *path) {
  *r = (struct rondo_analyse_record){.path = path, .rank_hint = -1};
  rondo_analyse_strings_init(&r->strings);
}

static void track_fini(struct rondo_analyse_track *t) {
  for (size_t i = 0; i < t->group_count; i++) {
    free(t->groups[i].members);
  }
  free(t->groups);
  free(t->calls);
}

void rondo_analyse_record_fini(struct rondo_analyse_record *r) {
  for (size_t i = 0; i < r->track_count; i++) {
    track_fini(&r->tracks[i]);
  }
  free(r->tracks);
  rondo_analyse_problems_fini(&r->problems);
  rondo_analyse_strings_fini(&r->strings);
}

struct rondo_analyse_track *rondo_analyse_record_track(struct rondo_analyse_record *r) {
  RONDO_SIM_GROW(r->tracks, r->track_count, r->track_capacity, 1);
  r->tracks[r->track_count] = (struct rondo_analyse_track){.rank = -1, .pid = -1, .device = -1};
  return &r->tracks[r->track_count++];
}

struct rondo_analyse_track *rondo_analyse_record_process(struct rondo_analyse_record *r,
                                                         uint32_t host, int64_t pid,
                                                         int64_t device) {
  for (size_t tried = 0; pid >= 0 && tried < r->track_count; tried++) {
    size_t at = (r->last_track + tried) % r->track_count;
    struct rondo_analyse_track *t = &r->tracks[at];
    if (t->host == host && t->pid == pid && t->device == device) {
      r->last_track = at;
      return t;
    }
  }
  r->last_track = r->track_count;
  struct rondo_analyse_track *t = rondo_analyse_record_track(r);
  t->host = host;
  t->pid = pid;
  t->device = device;
  return t;
}

struct rondo_analyse_group_decl *rondo_analyse_track_group(struct rondo_analyse_track *t,
                                                           uint32_t key) {
  const int64_t none = RONDO_ANALYSE_NOT_RECORDED;
  RONDO_SIM_GROW(t->groups, t->group_count, t->group_capacity, 8);
  t->groups[t->group_count] = (struct rondo_analyse_group_decl){.key = key,
                                                                .handle = key,
                                                                .name = key,
                                                                .own_index = -1,
                                                                .last = {none, none, none},
                                                                .launch = none};
  return &t->groups[t->group_count++];
}

struct rondo_analyse_group_decl *rondo_analyse_track_find(const struct rondo_analyse_track *t,
                                                          uint32_t handle) {
  for (size_t i = t->group_count; i-- > 0;) {
    if (t->groups[i].handle == handle) {
      return &t->groups[i];
    }
  }
  return NULL;
}

struct rondo_analyse_call *rondo_analyse_track_call(struct rondo_analyse_track *t) {
  if (t->call_count == t->call_capacity) { // a dump may hold millions: half again, not twice
    t->call_capacity = t->call_capacity + t->call_capacity / 2 + 64;
    t->calls = rondo_sim_realloc(t->calls, t->call_capacity * sizeof *t->calls);
  }
  struct rondo_analyse_call *call = &t->calls[t->call_count++];
  *call = (struct rondo_analyse_call){.peer = -1, .op = RONDO_ANALYSE_NO_OP};
  return call;
}

void rondo_analyse_problem_add(struct rondo_analyse_problems *p, const char *format, ...) {
  char *text;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) >= 0) {
    p->items = rondo_sim_realloc(p->items, (p->count + 1) * sizeof *p->items);
    p->items[p->count++] = text;
  }
  va_end(args);
}

void rondo_analyse_problems_fini(struct rondo_analyse_problems *p) {
  for (size_t i = 0; i < p->count; i++) {
    free(p->items[i]);
  }
  free(p->items);
}

void rondo_analyse_record_problem(struct rondo_analyse_record *r, uint64_t line, uint64_t offset,
                                  const char *format, ...) {
  if (r->problems.count >= MOST_PROBLEMS) {
    r->more_problems++;
    return;
  }
  char message[300], where[30] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (line) {
    snprintf(where, sizeof where, ":%llu", (unsigned long long)line);
  }
  rondo_analyse_problem_add(&r->problems, "%s%s: byte %llu: %s", r->path, where,
                            (unsigned long long)offset, message);
}

static size_t range_put(int64_t **out, size_t count, int64_t from, int64_t to) {
  for (int64_t rank = from; rank <= to && rank < HIGHEST_RANK && count < MOST_RANKS; rank++) {
    if ((count & (count - 1)) == 0) {
      *out = rondo_sim_realloc(*out, (count ? 2 * count : 1) * sizeof **out);
    }
    (*out)[count++] = rank;
  }
  return count;
}

size_t rondo_analyse_ranks_parse(const char *text, int64_t **out) {
  size_t count = 0;
  *out = NULL;
  while (*text) {
    if (!isdigit((unsigned char)*text)) {
      text++;
      continue;
    }
    char *end;
    int64_t from = strtoll(text, &end, 10);
    int64_t to = from;
    if (*end == '-' && isdigit((unsigned char)end[1])) {
      to = strtoll(end + 1, &end, 10);
    }
    count = range_put(out, count, from, to);
    text = end;
  }
  return count;
}

void rondo_analyse_group_members(struct rondo_analyse_group_decl *g,
                                 const struct rondo_analyse_values *v,
                                 struct rondo_analyse_value ranks) {
  struct rondo_analyse_container list = rondo_analyse_value_items(v, ranks);
  free(g->members);
  g->member_count = rondo_analyse_ranks_parse(rondo_analyse_value_text(v, ranks), &g->members);
  for (uint32_t i = 0; i < list.count; i++) {
    int64_t rank = rondo_analyse_value_integer(v, list.items[i], -1);
    g->member_count =
        rank < 0 ? g->member_count : range_put(&g->members, g->member_count, rank, rank);
  }
  g->size = g->member_count ? (int64_t)g->member_count : g->size;
}
