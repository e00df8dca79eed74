#include "sim/analyse/wait.h"

#include <stdlib.h>

#include "sim/analyse/arrays.h"

#define NONE RONDO_ANALYSE_NO_PENDING

bool rondo_analyse_op_waits(const struct rondo_analyse_job *job, uint32_t op) {
  return job->ops[op].called > job->ops[op].completed;
}

size_t rondo_analyse_op_places(const struct rondo_analyse_job *job, uint32_t op) {
  return job->ops[op].source >= 0 ? 2 : job->groups[job->ops[op].group].member_count;
}

uint32_t rondo_analyse_op_rank(const struct rondo_analyse_job *job, uint32_t op, size_t place) {
  const struct rondo_analyse_op *o = &job->ops[op];
  const struct rondo_analyse_group *g = &job->groups[o->group];
  size_t at = o->source < 0 ? place : (size_t)(place == 0 ? o->source : o->target);
  return at < g->member_count ? g->members[at] : RONDO_ANALYSE_NO_RANK;
}

static bool call_waits(const struct rondo_analyse_call *call) {
  return call->op != RONDO_ANALYSE_NO_OP && call->state != RONDO_ANALYSE_COMPLETED;
}

// The last call of each queue of a rank, while its calls are visited in order.
struct queues {
  uint32_t *in_group, *on_stream;
  uint32_t running, previous; // a started call; the previous call of any group
};

static void behind_add(struct rondo_analyse_pending *p, uint32_t other,
                       enum rondo_analyse_reason reason) {
  if (other == NONE || p->behind[0] == other) {
    return;
  }
  int at = p->behind[0] != NONE;
  p->behind[at] = other;
  p->reasons[at] = (uint8_t)reason;
}

static void behind_find(struct rondo_analyse_waits *w, uint32_t at, const struct queues *q,
                        bool by_order) {
  struct rondo_analyse_pending *p = &w->pending[at];
  const struct rondo_analyse_rank *r = &w->job->ranks[p->rank];
  const struct rondo_analyse_call *call = &r->calls[p->call];
  uint32_t group = q->in_group[call->group];
  if ((call->flags & RONDO_ANALYSE_SAME_LAUNCH) && group != NONE) {
    memcpy(p->behind, w->pending[group].behind, sizeof p->behind);
    memcpy(p->reasons, w->pending[group].reasons, sizeof p->reasons);
    return;
  }
  if (call->state == RONDO_ANALYSE_STARTED) {
    return; // it runs, so it waits for no earlier call
  }
  behind_add(p, group, RONDO_ANALYSE_BEHIND_GROUP);
  if (call->flags & RONDO_ANALYSE_STREAM) {
    behind_add(p, q->on_stream[call->queue], RONDO_ANALYSE_BEHIND_STREAM);
  }
  if (p->behind[0] == NONE && r->starts_known && q->running != at) {
    behind_add(p, q->running, RONDO_ANALYSE_BEHIND_DEVICE);
  }
  if (p->behind[0] == NONE && by_order && !r->starts_known) {
    behind_add(p, q->previous, RONDO_ANALYSE_BEHIND_ORDER);
  }
}

static void pending_add(struct rondo_analyse_waits *w, uint32_t rank, uint32_t i,
                        struct queues *q) {
  const struct rondo_analyse_call *call = &w->job->ranks[rank].calls[i];
  bool first_running = q->running == NONE && call->state == RONDO_ANALYSE_STARTED;
  q->running = first_running ? w->pending_count : q->running;
  RONDO_SIM_GROW(w->pending, w->pending_count, w->pending_capacity, 64);
  w->pending[w->pending_count++] =
      (struct rondo_analyse_pending){i, rank, call->op, {NONE, NONE}, {RONDO_ANALYSE_FRONT}};
}

// Makes a call the last one of its queues, and one at the front if it waits behind none.
static void pending_enqueue(struct rondo_analyse_waits *w, uint32_t at, struct queues *q) {
  const struct rondo_analyse_pending *p = &w->pending[at];
  const struct rondo_analyse_call *call = &w->job->ranks[p->rank].calls[p->call];
  q->in_group[call->group] = q->previous = at;
  if (call->flags & RONDO_ANALYSE_STREAM) {
    q->on_stream[call->queue] = at;
  }
  if (p->behind[0] == NONE) {
    RONDO_SIM_GROW(w->front, w->front_count, w->front_capacity, 64);
    w->front[w->front_count++] = at;
  }
}

// Lists the pending calls of a rank and those at the front.
static void rank_pending(struct rondo_analyse_waits *w, uint32_t rank, struct queues *q,
                         bool by_order) {
  const struct rondo_analyse_rank *r = &w->job->ranks[rank];
  uint32_t first = w->pending_count;
  w->pending_first[rank] = first;
  w->front_first[rank] = w->front_count;
  q->running = q->previous = NONE;
  for (uint32_t i = 0; i < r->call_count; i++) {
    if (call_waits(&r->calls[i])) {
      pending_add(w, rank, i, q);
    }
  }
  for (uint32_t at = first; at < w->pending_count; at++) {
    behind_find(w, at, q, by_order);
    pending_enqueue(w, at, q);
  }
  for (uint32_t at = first; at < w->pending_count; at++) { // empties the queues for the next rank
    const struct rondo_analyse_call *call = &r->calls[w->pending[at].call];
    q->in_group[call->group] = q->on_stream[call->queue] = NONE;
  }
}

void rondo_analyse_waits_init(struct rondo_analyse_waits *w, const struct rondo_analyse_job *job,
                              const struct rondo_analyse_callers *callers, bool by_order) {
  *w = (struct rondo_analyse_waits){.job = job, .callers = callers};
  w->pending_first = rondo_analyse_nones(job->rank_count + 1);
  w->front_first = rondo_analyse_nones(job->rank_count + 1);
  struct queues q = {rondo_analyse_nones(job->group_count), rondo_analyse_nones(job->strings.count),
                     NONE, NONE};
  for (uint32_t rank = 0; rank < job->rank_count; rank++) {
    rank_pending(w, rank, &q, by_order);
  }
  w->pending_first[job->rank_count] = w->pending_count;
  w->front_first[job->rank_count] = w->front_count;
  free(q.in_group);
  free(q.on_stream);
}

void rondo_analyse_waits_fini(struct rondo_analyse_waits *w) {
  free(w->pending);
  free(w->pending_first);
  free(w->front);
  free(w->front_first);
}

// The pending call of a rank at an index into its calls; null if that does not wait.
static const struct rondo_analyse_pending *pending_of(const struct rondo_analyse_waits *w,
                                                      uint32_t rank, uint32_t call) {
  uint32_t first = w->pending_first[rank], count = w->pending_first[rank + 1] - first;
  return count ? bsearch(&call, w->pending + first, count, sizeof *w->pending,
                         rondo_analyse_compare_u32)
               : NULL;
}

// The caller entry of a rank in an operation; null if there is none.
static const struct rondo_analyse_caller *caller_of(const struct rondo_analyse_waits *w,
                                                    uint32_t op, uint32_t rank) {
  size_t first = w->callers->first[op];
  return bsearch(&rank, w->callers->items + first, w->callers->first[op + 1] - first,
                 sizeof *w->callers->items, rondo_analyse_compare_u32);
}

// True if the ring of a rank reaches back to before the operation was first called, so that the
// rank's own call would still be in it.
static bool ring_covers(const struct rondo_analyse_job *job, const struct rondo_analyse_op *o,
                        const struct rondo_analyse_rank *r) {
  int64_t called_ns = job->ranks[o->first_rank].calls[o->first_call].created_ns;
  return r->call_count && r->calls[0].created_ns > 0 && r->calls[0].created_ns < called_ns;
}

// Where a rank stands whose file has no entry of the operation.
static enum rondo_analyse_standing stands_without_entry(const struct rondo_analyse_job *job,
                                                        const struct rondo_analyse_op *o,
                                                        uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  const struct rondo_analyse_place *place = rondo_analyse_job_place(job, rank, o->group);
  if (place && o->source < 0) {
    if (place->last.completed >= o->seq ||
        (place->first_seq > o->seq && r->front_missing && place->first_seq <= place->last_seq)) {
      return RONDO_ANALYSE_STANDS_DONE; // the ring has overwritten it
    }
    if (place->last.submitted >= o->seq) {
      return RONDO_ANALYSE_STANDS_UNCLEAR; // called, but the entry is gone
    }
    if (place->last.submitted >= 0) {
      return RONDO_ANALYSE_STANDS_ABSENT;
    }
  }
  bool no_trace = !place || place->last_call < 0;
  bool lost = r->front_missing && no_trace && !ring_covers(job, o, r);
  return r->cut_off || lost ? RONDO_ANALYSE_STANDS_UNCLEAR : RONDO_ANALYSE_STANDS_ABSENT;
}

enum rondo_analyse_standing rondo_analyse_stands(const struct rondo_analyse_waits *w, uint32_t op,
                                                 size_t place, uint32_t *pending) {
  uint32_t rank = rondo_analyse_op_rank(w->job, op, place);
  if (pending) {
    *pending = NONE;
  }
  if (rank == RONDO_ANALYSE_NO_RANK || !w->job->ranks[rank].present) {
    return RONDO_ANALYSE_STANDS_NO_FILE;
  }
  const struct rondo_analyse_caller *caller = caller_of(w, op, rank);
  if (!caller) {
    return stands_without_entry(w->job, &w->job->ops[op], rank);
  }
  const struct rondo_analyse_pending *p = pending_of(w, rank, caller->call);
  if (!p) {
    return RONDO_ANALYSE_STANDS_DONE;
  }
  if (pending) {
    *pending = (uint32_t)(p - w->pending);
  }
  return p->behind[0] == NONE ? RONDO_ANALYSE_STANDS_IN : RONDO_ANALYSE_STANDS_BEHIND;
}
