#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/observe/snapshot.h"
#include "runtime/observe/remote_views.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/run_queues.h"

// ------------------------------------------------------------------- taking ---

static int32_t coll_peer_rank(const struct rondo_coll *coll, const struct rondo_plan_peers *peers,
                              uint32_t peer) {
  return (int32_t)coll->registration.members[rondo_plan_peer(coll->plan, peers, peer)];
}

// Finds the rank that the collective waits for.
static void view_find_peer(const struct rondo_coll *coll, const struct rondo_block_view *look,
                           struct rondo_coll_view *v) {
  const struct rondo_context_dynamic *s = &look->state;
  bool drains = s->phase == RONDO_PHASE_DRAIN ||
                (s->phase == RONDO_PHASE_FAILING && (s->flags & RONDO_RUN_HAS_REFERENCE));
  if (!drains && s->phase != RONDO_PHASE_OPS)
    return; // there may be no plan yet
  const struct rondo_plan *plan = coll->plan;
  if (drains) {
    if (s->bound_send < plan->send.count)
      v->peer = coll_peer_rank(coll, &plan->send, s->bound_send);
    return;
  }
  const struct rondo_plan_op *op = &plan->ops[s->op];
  uint32_t walked = s->repeat * op->peer_stride;
  v->primitive = op->primitive;
  if ((op->primitive & RONDO_PRIM_RECV) && !look->has_data) {
    v->peer = coll_peer_rank(coll, &plan->recv, op->recv_peer + walked);
    v->wants_data = 1;
  } else if (op->primitive & RONDO_PRIM_SEND) {
    v->peer = coll_peer_rank(coll, &plan->send, op->send_peer + walked);
  }
}

// Finds the run that the block has begun, if any.
static void view_inspect_block(const struct rondo_rank *rank, const struct rondo_coll *coll,
                               uint32_t block, struct rondo_coll_view *v) {
  struct rondo_block_view look;
  struct rondo_daemon *daemon = rank->member.daemon;
  if (!daemon->driver->try_inspect(daemon, block, coll->index, &look))
    return;
  v->executing = look.state.run.number;
  v->started_ns = look.state.started_ns;
  v->phase = look.state.phase;
  v->block = block;
  v->op = look.state.op;
  v->is_scheduled = look.is_scheduled != 0;
  v->waiting_ns = look.waiting_ns;
  view_find_peer(coll, &look, v);
}

int rondo_coll_view_fill(const struct rondo_rank *rank, const struct rondo_coll *coll,
                         struct rondo_coll_view *v) {
  uint32_t nranks = coll->registration.nranks;
  *v = (struct rondo_coll_view){.id = coll->registration.id,
                                .count = coll->desc.count,
                                .kind = coll->desc.kind,
                                .dtype = coll->desc.dtype,
                                .rank = rank->cfg.rank,
                                .nranks = nranks,
                                .group_size = nranks,
                                .submitted = coll->submitted,
                                .completed = coll->completed,
                                .on_device = coll->on_device,
                                .peer = -1};
  v->members = malloc(nranks * sizeof *v->members);
  if (!v->members)
    return RONDO_ERR_NO_MEMORY;
  memcpy(v->members, coll->registration.members, nranks * sizeof *v->members);
  for (uint32_t b = 0; coll->head && b < coll->block_count && !v->executing; b++)
    view_inspect_block(rank, coll, b, v);
  return RONDO_SUCCESS;
}

static int rank_view_fill(struct rondo_rank *rank, struct rondo_rank_view *view) {
  int status = RONDO_SUCCESS;
  rondo_rank_lock(rank);
  view->colls = calloc(rank->coll_count ? rank->coll_count : 1, sizeof *view->colls);
  if (!view->colls)
    status = RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < rank->coll_slots && status == RONDO_SUCCESS; i++) {
    const struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      status = rondo_coll_view_fill(rank, coll, &view->colls[view->coll_count++]);
  }
  rondo_lock_give(&rank->lock);
  view->is_present = RONDO_VIEW_HERE;
  return status;
}

int rondo_snapshot_take(struct rondo_snapshot *s, struct rondo_job *job) {
  int status = RONDO_SUCCESS;
  s->rank_count = job->rank_count;
  s->ranks = calloc(s->rank_count, sizeof *s->ranks);
  if (!s->ranks) {
    s->rank_count = 0;
    return RONDO_ERR_NO_MEMORY;
  }
  for (uint32_t r = 0; r < s->rank_count && status == RONDO_SUCCESS; r++)
    if (job->members[r])
      status = rank_view_fill(rondo_rank_of(job->members[r]), &s->ranks[r]);
  return status;
}

int rondo_snapshot_init(struct rondo_snapshot *s, struct rondo_job *job) {
  pthread_mutex_lock(&job->lock);
  int status = rondo_snapshot_take(s, job);
  if (status == RONDO_SUCCESS)
    status = rondo_views_merge(job, s);
  pthread_mutex_unlock(&job->lock);
  return status;
}

void rondo_snapshot_fini(struct rondo_snapshot *s) {
  for (uint32_t r = 0; r < s->rank_count; r++) {
    for (uint32_t i = 0; i < s->ranks[r].coll_count; i++)
      free(s->ranks[r].colls[i].members);
    free(s->ranks[r].colls);
  }
  free(s->ranks);
}

// ---------------------------------------------------------------- reading -----

const struct rondo_coll_view *rondo_snapshot_find(const struct rondo_snapshot *s, uint32_t rank,
                                                  struct rondo_id id) {
  const struct rondo_rank_view *view = &s->ranks[rank];
  for (uint32_t i = 0; i < view->coll_count; i++)
    if (rondo_id_compare(view->colls[i].id, id) == 0)
      return &view->colls[i];
  return NULL;
}

// True if `rank` has begun or completed run `run` of that collective.
static bool rank_has_begun(const struct rondo_snapshot *s, uint32_t rank, struct rondo_id id,
                           uint64_t run) {
  const struct rondo_coll_view *v = rondo_snapshot_find(s, rank, id);
  return v && (v->completed >= run || v->executing >= run);
}

const struct rondo_coll_view *rondo_snapshot_scheduled(const struct rondo_snapshot *s,
                                                       uint32_t rank) {
  const struct rondo_rank_view *view = &s->ranks[rank];
  for (uint32_t i = 0; i < view->coll_count; i++)
    if (view->colls[i].executing && view->colls[i].is_scheduled)
      return &view->colls[i];
  return NULL;
}

// The next rank, from position `after` of the group, that `rank`'s current collective waits for;
// -1: none.
static int64_t rank_next_awaited(const struct rondo_snapshot *s, uint32_t rank, uint32_t *after) {
  const struct rondo_coll_view *v = rondo_snapshot_scheduled(s, rank);
  for (; v && *after < v->nranks; ++*after) {
    uint32_t member = v->members[*after];
    if (member == rank || rank_has_begun(s, member, v->id, v->executing))
      continue;
    ++*after;
    return member;
  }
  return -1;
}

enum colour { WHITE = 0, GREY, BLACK };

// Depth-first search with its own stack; a grey successor closes a cycle.
static uint32_t cycle_search(const struct rondo_snapshot *s, uint32_t start, uint8_t *colours,
                             uint32_t *path, uint32_t *positions) {
  uint32_t depth = 1;
  path[0] = start;
  positions[0] = 0;
  colours[start] = GREY;
  while (depth) {
    uint32_t rank = path[depth - 1];
    int64_t next = rank_next_awaited(s, rank, &positions[depth - 1]);
    if (next < 0) {
      colours[rank] = BLACK;
      depth--;
    } else if (colours[next] == GREY) {
      uint32_t first = 0;
      while (path[first] != (uint32_t)next)
        first++;
      memmove(path, path + first, (depth - first) * sizeof *path);
      return depth - first;
    } else if (colours[next] == WHITE) {
      colours[next] = GREY;
      positions[depth] = 0;
      path[depth++] = (uint32_t)next;
    }
  }
  return 0;
}

uint32_t rondo_snapshot_cycle(const struct rondo_snapshot *s, uint32_t *cycle) {
  uint8_t *colours = calloc(s->rank_count, 1);
  uint32_t *positions = calloc(s->rank_count, sizeof *positions);
  uint32_t length = 0;
  if (colours && positions)
    for (uint32_t r = 0; r < s->rank_count && !length; r++)
      if (colours[r] == WHITE)
        length = cycle_search(s, r, colours, cycle, positions);
  free(colours);
  free(positions);
  return length;
}
