// The root's gathering (gather.h) as the root of the mesh calls it.
#include <stdio.h>
#include <stdlib.h>

#include "runtime/job/gather.h"
#include "runtime/job/members.h"
#include "runtime/job/members_entry.h"
#include "runtime/net/job_root.h"
#include <rondo/status.h>

struct members_gather {
  struct rondo_gather *gather;
  bool is_closed; // the roster is made, or there will be none
  bool is_cancelled;
  uint64_t told;               // the process that was told last that it is cancelled
  struct rondo_roster *roster; // null until it is made
};

static void *members_gather_create(uint64_t join_timeout_ns) {
  struct members_gather *g = calloc(1, sizeof *g);
  if (!g)
    return NULL;
  g->gather = rondo_gather_create(join_timeout_ns, false);
  if (g->gather) {
    rondo_gather_set_describe(g->gather, rondo_members_entry_describe);
    return g;
  }
  free(g);
  return NULL;
}

static void members_gather_destroy(void *gather) {
  struct members_gather *g = gather;
  rondo_gather_destroy(g->gather);
  rondo_roster_put(g->roster);
  free(g);
}

// Rejects a JOIN with a cost model that cannot be read; else returns null.
static struct rondo_shared_bytes *join_refuse_model(const void *bytes, size_t size) {
  struct rondo_joined reply = {.status = RONDO_ERR_INVALID};
  struct rondo_join join;
  struct rondo_cost_file *model = NULL;
  char why[RONDO_COST_WHY_BYTES];
  if (!rondo_membership_join_decode(bytes, size, &join) ||
      rondo_members_entry_model(join.bytes, join.size, &model, why)) {
    free(model);
    return NULL;
  }
  (void)snprintf(reply.text, sizeof reply.text, "its cost model %s", why);
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_REJECTED, &reply);
}

// Rejects a newcomer: this root gathers the first members of a job.
static struct rondo_shared_bytes *enter_refuse(const void *bytes, size_t size) {
  const struct rondo_joined reply = {.status = RONDO_ERR_INVALID,
                                     .text = "its id is of a job that begins, whose ranks call "
                                             "rondo_init; rondo_join takes an id of "
                                             "rondo_grow_listen"};
  struct rondo_enter enter;
  if (!rondo_membership_enter_decode(bytes, size, &enter))
    return NULL;
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_REJECTED, &reply);
}

static struct rondo_shared_bytes *members_gather_receive(void *gather, const void *bytes,
                                                         size_t size, uint64_t now_ns,
                                                         uint64_t *who) {
  struct members_gather *g = gather;
  struct rondo_join join;
  struct rondo_shared_bytes *rejection = enter_refuse(bytes, size);
  if (!rejection)
    rejection = join_refuse_model(bytes, size);
  *who = 0;
  if (rejection)
    return rejection;
  struct rondo_shared_bytes *reply = rondo_gather_receive(g->gather, bytes, size, now_ns);
  bool has_joined = reply && *reply->bytes == RONDO_MEMBERSHIP_JOINED &&
                    rondo_membership_join_decode(bytes, size, &join);
  *who = has_joined ? join.who : 0;
  return reply;
}

static void members_gather_lose(void *gather, uint64_t who) {
  const struct members_gather *g = gather;
  rondo_gather_lose(g->gather, who);
}

static bool members_gather_finish(void *gather, uint64_t now_ns) {
  struct members_gather *g = gather;
  bool was_closed = g->is_closed;
  struct rondo_shared_bytes *bytes = rondo_gather_finish(g->gather, now_ns);
  if (bytes)
    g->roster = rondo_roster_decode(bytes);
  rondo_shared_bytes_put(bytes);
  g->is_closed = rondo_gather_is_finished(g->gather);
  return g->is_closed && !was_closed;
}

static uint64_t members_gather_due(const void *gather) {
  const struct members_gather *g = gather;
  return rondo_gather_due(g->gather);
}

static uint32_t members_gather_place(const void *gather, uint64_t who) {
  const struct members_gather *g = gather;
  return g->roster ? rondo_gather_place(g->gather, who) : RONDO_ROSTER_NOBODY;
}

static struct rondo_shared_bytes *members_gather_part(void *gather, uint32_t index) {
  const struct members_gather *g = gather;
  bool is_there = g->roster && index < rondo_membership_roster_parts(g->roster->bytes->size);
  return is_there ? rondo_membership_part_encode(g->roster, index) : NULL;
}

static uint32_t members_gather_missing(const void *gather, char *text, size_t bytes) {
  const struct members_gather *g = gather;
  return rondo_gather_missing(g->gather, text, bytes);
}

static struct rondo_shared_bytes *members_gather_remind(const void *gather) {
  const struct members_gather *g = gather;
  return rondo_gather_remind(g->gather);
}

// A process is asked for its news until there are none.
static struct rondo_shared_bytes *members_gather_news(void *gather, uint64_t who) {
  struct members_gather *g = gather;
  bool has_news = g->is_cancelled && g->told != who;
  g->told = who;
  return has_news ? rondo_gather_remind(g->gather) : NULL;
}

struct cancellation {
  const char *text;
  bool is_done;
};

static void members_gather_cancel(void *gather, void *arg) {
  struct members_gather *g = gather;
  struct cancellation *c = arg;
  c->is_done = rondo_gather_cancel(g->gather, c->text);
  g->is_cancelled |= c->is_done;
}

bool rondo_members_cancel(const struct rondo_job_key *job, const char *text) {
  struct cancellation c = {.text = text};
  return rondo_root_call(job, &rondo_members_gatherer, members_gather_cancel, &c) && c.is_done;
}

static uint32_t members_gather_rank_count(const void *gather) {
  const struct members_gather *g = gather;
  return rondo_gather_rank_count(g->gather);
}

const struct rondo_root_gatherer rondo_members_gatherer = {.create = members_gather_create,
                                                           .destroy = members_gather_destroy,
                                                           .receive = members_gather_receive,
                                                           .lose = members_gather_lose,
                                                           .finish = members_gather_finish,
                                                           .due = members_gather_due,
                                                           .place = members_gather_place,
                                                           .part = members_gather_part,
                                                           .missing = members_gather_missing,
                                                           .remind = members_gather_remind,
                                                           .rank_count = members_gather_rank_count,
                                                           .news = members_gather_news};
