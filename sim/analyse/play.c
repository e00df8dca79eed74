// Plays through the calls whose completion nobody recorded. Calls that were launched together form
// a launch. A launch waits for the previous launch of its communicator and for the previous one on
// its stream. An operation completes once all its callers, and all its members with a file, are at
// the front. What is left at the end must have hung. The time is linear in the number of calls.
#include <stdlib.h>

#include "sim/analyse/arrays.h"
#include "sim/analyse/wait.h"

#define NONE UINT32_MAX

struct launch {
  uint32_t rank, first, count; // calls of one group from `first` on; other calls may lie between
  uint32_t left;               // calls that have not completed
  uint32_t waits;              // earlier launches that have not completed
  uint32_t next_in_group, next_on_stream;
};

struct play {
  struct rondo_analyse_job *job;
  const struct rondo_analyse_callers *callers;
  struct launch *launches;
  uint32_t **launch_of; // by rank and call
  uint32_t *missing;    // by operation: callers that it needs at the front, and has not there
  uint32_t *ready;      // stack of launches that are at the front
  uint32_t launch_count, launch_capacity, ready_count;
};

static bool needs_playing(const struct rondo_analyse_rank *r) {
  return r->present && !r->states_known;
}

static uint32_t launch_add(struct play *p, uint32_t rank, uint32_t call) {
  RONDO_SIM_GROW(p->launches, p->launch_count, p->launch_capacity, 1024);
  p->launches[p->launch_count] =
      (struct launch){.rank = rank, .first = call, .next_in_group = NONE, .next_on_stream = NONE};
  return p->launch_count++;
}

static void launch_follow(struct play *p, uint32_t *next, uint32_t launch) {
  *next = launch;
  p->launches[launch].waits++;
}

// Lists the launches of one rank. Each follows the previous one of its group and the previous one
// on its stream.
static void rank_launches(struct play *p, uint32_t rank) {
  struct rondo_analyse_rank *r = &p->job->ranks[rank];
  uint32_t *in_group = rondo_analyse_nones(p->job->group_count);
  uint32_t *on_stream = rondo_analyse_nones(p->job->strings.count);
  p->launch_of[rank] = rondo_sim_alloc(r->call_count * sizeof(uint32_t));
  for (uint32_t i = 0; i < r->call_count; i++) {
    const struct rondo_analyse_call *call = &r->calls[i];
    uint32_t before = in_group[call->group];
    uint32_t launch = before;
    if (!(call->flags & RONDO_ANALYSE_SAME_LAUNCH) || before == NONE) {
      launch = launch_add(p, rank, i);
      if (before != NONE) {
        launch_follow(p, &p->launches[before].next_in_group, launch);
      }
      in_group[call->group] = launch;
      uint32_t ahead = call->flags & RONDO_ANALYSE_STREAM ? on_stream[call->queue] : NONE;
      if (ahead != NONE && ahead != before) {
        launch_follow(p, &p->launches[ahead].next_on_stream, launch);
      }
      if (call->flags & RONDO_ANALYSE_STREAM) {
        on_stream[call->queue] = launch;
      }
    }
    p->launch_of[rank][i] = launch;
    p->launches[launch].count++;
    p->launches[launch].left++;
  }
  free(in_group);
  free(on_stream);
}

// The number of callers that an operation needs at the front: its members with a file that is
// played.
static uint32_t callers_needed(const struct rondo_analyse_job *job, uint32_t op) {
  uint32_t count = 0;
  for (size_t place = 0; place < rondo_analyse_op_places(job, op); place++) {
    uint32_t rank = rondo_analyse_op_rank(job, op, place);
    count += rank != RONDO_ANALYSE_NO_RANK && needs_playing(&job->ranks[rank]);
  }
  return count;
}

static void launch_release(struct play *p, uint32_t launch) {
  if (launch != NONE && --p->launches[launch].waits == 0) {
    p->ready[p->ready_count++] = launch;
  }
}

static void call_complete(struct play *p, uint32_t rank, uint32_t call) {
  struct launch *launch = &p->launches[p->launch_of[rank][call]];
  p->job->ranks[rank].calls[call].state = RONDO_ANALYSE_COMPLETED;
  if (--launch->left == 0) {
    launch_release(p, launch->next_in_group);
    launch_release(p, launch->next_on_stream);
  }
}

static void op_complete(struct play *p, uint32_t op) {
  for (size_t i = p->callers->first[op]; i < p->callers->first[op + 1]; i++) {
    const struct rondo_analyse_caller *c = &p->callers->items[i];
    if (needs_playing(&p->job->ranks[c->rank])) {
      call_complete(p, c->rank, c->call);
      p->job->ops[op].completed++;
    }
  }
}

// True if a rank that records states says that the operation has not completed there.
static bool held_elsewhere(const struct play *p, uint32_t op) {
  for (size_t i = p->callers->first[op]; i < p->callers->first[op + 1]; i++) {
    const struct rondo_analyse_caller *c = &p->callers->items[i];
    if (!needs_playing(&p->job->ranks[c->rank]) &&
        p->job->ranks[c->rank].calls[c->call].state != RONDO_ANALYSE_COMPLETED) {
      return true;
    }
  }
  return false;
}

static void call_arrive(struct play *p, uint32_t rank, uint32_t call) {
  uint32_t op = p->job->ranks[rank].calls[call].op;
  if (op == RONDO_ANALYSE_NO_OP) {
    call_complete(p, rank, call);
  } else if (--p->missing[op] == 0 && !held_elsewhere(p, op)) {
    op_complete(p, op);
  }
}

static void launch_arrive(struct play *p, uint32_t launch) {
  uint32_t rank = p->launches[launch].rank;
  uint32_t left = p->launches[launch].count;
  for (uint32_t i = p->launches[launch].first; left; i++) {
    if (p->launch_of[rank][i] == launch) {
      left--;
      call_arrive(p, rank, i);
    }
  }
}

void rondo_analyse_play(struct rondo_analyse_job *job, const struct rondo_analyse_callers *c) {
  struct play p = {.job = job, .callers = c, .launch_capacity = 1024};
  p.launches = rondo_sim_alloc(p.launch_capacity * sizeof *p.launches);
  p.launch_of = rondo_sim_calloc(job->rank_count, sizeof *p.launch_of);
  for (uint32_t rank = 0; rank < job->rank_count; rank++) {
    if (needs_playing(&job->ranks[rank])) {
      rank_launches(&p, rank);
    }
  }
  p.missing = rondo_sim_alloc(job->op_count * sizeof *p.missing);
  for (uint32_t op = 0; op < job->op_count; op++) {
    p.missing[op] = callers_needed(job, op);
  }
  p.ready = rondo_sim_alloc(p.launch_count * sizeof *p.ready);
  for (uint32_t i = p.launch_count; i-- > 0;) {
    if (p.launches[i].waits == 0) {
      p.ready[p.ready_count++] = i;
    }
  }
  while (p.ready_count) {
    launch_arrive(&p, p.ready[--p.ready_count]);
  }
  for (uint32_t rank = 0; rank < job->rank_count; rank++) {
    free(p.launch_of[rank]);
  }
  free(p.launch_of);
  free(p.launches);
  free(p.missing);
  free(p.ready);
}
