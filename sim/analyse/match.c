#include "sim/analyse/match.h"

#include <stdlib.h>

#include "sim/common/text.h"

struct table {
  uint32_t *slots; // number of the operation + 1; 0 is free
  uint32_t slot_count;
};

// The sends or receives of one rank between two members of a group.
struct pair_count {
  uint32_t group;
  int32_t source, target;
  int64_t count;
};

struct pair_counts {
  struct pair_count *items;
  size_t count;
};

static bool is_point_to_point(const struct rondo_analyse_call *call) {
  return call->kind == RONDO_ANALYSE_SEND || call->kind == RONDO_ANALYSE_RECV;
}

static uint64_t hash_of(const struct rondo_analyse_op *op) {
  uint64_t h = (uint64_t)op->group * 0x9e3779b97f4a7c15u;
  h ^= ((uint64_t)(uint32_t)op->source << 32 | (uint32_t)op->target) * 0xc2b2ae3d27d4eb4fu;
  h ^= (uint64_t)op->seq * 0x165667b19e3779f9u;
  return h ^ h >> 29 ^ h >> 47;
}

// The slot of an operation with the same group, ranks and number, or the free slot for it.
static uint32_t *slot_of(const struct table *t, const struct rondo_analyse_job *job,
                         const struct rondo_analyse_op *op) {
  for (uint64_t at = hash_of(op);; at++) {
    uint32_t *slot = &t->slots[at & (t->slot_count - 1)];
    const struct rondo_analyse_op *known = *slot ? &job->ops[*slot - 1] : op;
    if (known->group == op->group && known->seq == op->seq && known->source == op->source &&
        known->target == op->target) {
      return slot;
    }
  }
}

static void table_grow(struct table *t, const struct rondo_analyse_job *job) {
  free(t->slots);
  t->slot_count = t->slot_count ? 2 * t->slot_count : 1024;
  t->slots = rondo_sim_calloc(t->slot_count, sizeof *t->slots);
  for (uint32_t i = 0; i < job->op_count; i++) {
    *slot_of(t, job, &job->ops[i]) = i + 1;
  }
}

// The number of an operation, which is added if it is new.
static uint32_t op_of(struct rondo_analyse_job *job, struct table *t,
                      const struct rondo_analyse_op *op) {
  uint32_t *slot = slot_of(t, job, op);
  if (!*slot) {
    RONDO_SIM_GROW(job->ops, job->op_count, job->op_capacity, 1024);
    job->ops[job->op_count++] = *op;
    *slot = job->op_count;
    if (2 * job->op_count > t->slot_count) {
      table_grow(t, job);
      return job->op_count - 1;
    }
  }
  return *slot - 1;
}

uint32_t rondo_analyse_calls_differ(const struct rondo_analyse_call *a,
                                    const struct rondo_analyse_call *b) {
  if (is_point_to_point(a) && is_point_to_point(b)) {
    uint64_t sent = a->in_count, received = b->in_count;
    uint32_t both = a->flags & b->flags & RONDO_ANALYSE_COUNTS_KNOWN;
    return both && sent && received && sent != received ? RONDO_ANALYSE_DIFFERS_COUNT : 0;
  }
  if (a->kind != b->kind || (a->kind == RONDO_ANALYSE_OTHER && a->name != b->name)) {
    return RONDO_ANALYSE_DIFFERS_KIND;
  }
  uint32_t differs = 0;
  bool counts = a->flags & b->flags & RONDO_ANALYSE_COUNTS_KNOWN;
  if (counts && !((a->flags | b->flags) & RONDO_ANALYSE_UNEVEN_OK)) {
    // Only the root has the whole input of a scatter; all ranks have the same output.
    bool by_output = a->kind == RONDO_ANALYSE_SCATTER;
    bool same = by_output ? a->out_count == b->out_count : a->in_count == b->in_count;
    differs |= same || a->kind == RONDO_ANALYSE_COALESCED ? 0 : RONDO_ANALYSE_DIFFERS_COUNT;
  }
  if (a->dtype && b->dtype && a->dtype != b->dtype && a->kind != RONDO_ANALYSE_COALESCED) {
    differs |= RONDO_ANALYSE_DIFFERS_DTYPE;
  }
  if (a->redop && b->redop && a->redop != b->redop) {
    differs |= RONDO_ANALYSE_DIFFERS_REDOP;
  }
  if ((a->flags & b->flags & RONDO_ANALYSE_ROOT_KNOWN) && a->peer != b->peer) {
    differs |= RONDO_ANALYSE_DIFFERS_ROOT;
  }
  return differs;
}

// Counts one more send or receive of this pair; returns its number, from 0.
static int64_t pair_next(struct pair_counts *pairs, uint32_t group, int32_t source,
                         int32_t target) {
  for (size_t i = 0; i < pairs->count; i++) {
    struct pair_count *p = &pairs->items[i];
    if (p->group == group && p->source == source && p->target == target) {
      return p->count++;
    }
  }
  pairs->items = rondo_sim_realloc(pairs->items, (pairs->count + 1) * sizeof *pairs->items);
  pairs->items[pairs->count++] = (struct pair_count){group, source, target, 1};
  return 0;
}

static bool peer_front_missing(const struct rondo_analyse_job *job, uint32_t group, int32_t peer) {
  const struct rondo_analyse_group *g = &job->groups[group];
  uint32_t rank =
      peer >= 0 && (size_t)peer < g->member_count ? g->members[peer] : RONDO_ANALYSE_NO_RANK;
  return rank == RONDO_ANALYSE_NO_RANK || job->ranks[rank].front_missing;
}

// Sets ranks and number of a send or receive; false if it is not matched. If a ring has lost its
// beginning, nobody knows how many calls went before; then only calls that still wait are numbered.
static bool pair_find(struct rondo_analyse_job *job, uint32_t rank,
                      const struct rondo_analyse_call *call, struct pair_counts *pairs,
                      struct rondo_analyse_op *op) {
  const struct rondo_analyse_place *place = rondo_analyse_job_place(job, rank, call->group);
  int32_t own = place && place->own_index >= 0 ? (int32_t)place->own_index : -1;
  bool sends = call->kind == RONDO_ANALYSE_SEND;
  bool relative =
      job->ranks[rank].front_missing || peer_front_missing(job, call->group, call->peer);
  if (own < 0 || call->peer < 0 || (relative && call->state == RONDO_ANALYSE_COMPLETED)) {
    return false;
  }
  op->source = sends ? own : call->peer;
  op->target = sends ? call->peer : own;
  op->seq = pair_next(pairs, op->group, op->source, op->target);
  return true;
}

static void call_match(struct rondo_analyse_job *job, struct table *table, uint32_t rank,
                       uint32_t index, const struct rondo_analyse_op *found) {
  struct rondo_analyse_call *call = &job->ranks[rank].calls[index];
  call->op = op_of(job, table, found);
  struct rondo_analyse_op *op = &job->ops[call->op];
  op->called++;
  op->completed += call->state == RONDO_ANALYSE_COMPLETED;
  if (op->first_rank == RONDO_ANALYSE_NO_RANK) {
    op->first_rank = rank;
    op->first_call = index;
  } else {
    op->differences |=
        rondo_analyse_calls_differ(&job->ranks[op->first_rank].calls[op->first_call], call);
  }
}

void rondo_analyse_match(struct rondo_analyse_job *job) {
  struct table table = {0};
  table_grow(&table, job);
  for (uint32_t rank = 0; rank < job->rank_count; rank++) {
    struct rondo_analyse_rank *r = &job->ranks[rank];
    struct pair_counts pairs = {0};
    for (size_t i = 0; i < r->call_count; i++) {
      struct rondo_analyse_call *call = &r->calls[i];
      struct rondo_analyse_op op = {.group = call->group,
                                    .source = -1,
                                    .target = -1,
                                    .seq = call->seq,
                                    .first_rank = RONDO_ANALYSE_NO_RANK};
      bool takes_part = is_point_to_point(call) ? pair_find(job, rank, call, &pairs, &op)
                                                : !(call->flags & RONDO_ANALYSE_MEMBER);
      if (takes_part) {
        call_match(job, &table, rank, (uint32_t)i, &op);
      }
    }
    free(pairs.items);
  }
  free(table.slots);
}

void rondo_analyse_callers_init(struct rondo_analyse_callers *c,
                                const struct rondo_analyse_job *job) {
  // While the list is filled, first[op + 1] is where the next caller of `op` goes.
  c->first = rondo_sim_calloc((size_t)job->op_count + 2, sizeof *c->first);
  for (uint32_t op = 0; op < job->op_count; op++) {
    c->first[op + 2] = c->first[op + 1] + job->ops[op].called;
  }
  c->items = rondo_sim_alloc(c->first[job->op_count + 1] * sizeof *c->items);
  for (uint32_t rank = 0; rank < job->rank_count; rank++) {
    for (uint32_t i = 0; i < job->ranks[rank].call_count; i++) {
      uint32_t op = job->ranks[rank].calls[i].op;
      if (op != RONDO_ANALYSE_NO_OP) {
        c->items[c->first[op + 1]++] = (struct rondo_analyse_caller){rank, i};
      }
    }
  }
}

void rondo_analyse_callers_fini(struct rondo_analyse_callers *c) {
  free(c->items);
  free(c->first);
}
