#include "tools/info/plan_cost.h"

#include <stddef.h>
#include <stdlib.h>

#include <rondo/types.h>

#include "tools/kit/clock.h"

#define BUILDS 1000u // timed

// ------------------------------------------------------------- dependent hops ---

// A connector: how deep in its chain each message is. Messages are taken in their order.
struct connector {
  uint32_t *depths;
  uint32_t sent, taken;
};

struct rank {
  uint32_t op, execution; // where it stands
  uint32_t depth;         // of the deepest message that it has taken
};

// The plans of a group, executed on nothing but the depths of messages.
struct simulation {
  const struct rondo_plan *plans;
  uint32_t n;
  struct connector *connectors; // [from × n + to]
  struct rank *ranks;
};

static struct connector *connector_of(struct simulation *s, uint32_t from, uint32_t to) {
  return &s->connectors[(size_t)from * s->n + to];
}

// Adds one message. Returns false if there is no memory.
static bool message_send(struct connector *c, uint32_t depth) {
  uint32_t *depths = realloc(c->depths, (c->sent + 1) * sizeof *depths);
  if (!depths)
    return false;
  c->depths = depths;
  c->depths[c->sent++] = depth;
  return true;
}

// Executes the next repeat of an op, unless it waits for a message. Returns 1 if it did, 0 if it
// waits or the plan has ended, -1 if there is no memory.
static int rank_step(struct simulation *s, uint32_t rank) {
  struct rank *r = &s->ranks[rank];
  const struct rondo_plan *plan = &s->plans[rank];
  if (r->op == plan->op_count)
    return 0;
  const struct rondo_plan_op *op = &plan->ops[r->op];
  uint32_t walked = r->execution * op->peer_stride;
  if (op->primitive & RONDO_PRIM_RECV) {
    uint32_t from = rondo_plan_peer(plan, &plan->recv, op->recv_peer + walked);
    struct connector *c = connector_of(s, from, rank);
    if (c->taken == c->sent)
      return 0;
    uint32_t depth = c->depths[c->taken++];
    r->depth = depth > r->depth ? depth : r->depth;
  }
  if (op->primitive & RONDO_PRIM_SEND) {
    uint32_t to = rondo_plan_peer(plan, &plan->send, op->send_peer + walked);
    if (!message_send(connector_of(s, rank, to), r->depth + 1))
      return -1;
  }
  if (++r->execution == op->repeat) {
    r->execution = 0;
    r->op++;
  }
  return 1;
}

// Returns the deepest message, or -1 if there is no memory.
static int64_t simulation_run(struct simulation *s) {
  uint32_t deepest = 0;
  bool progressed = true;
  while (progressed) {
    progressed = false;
    for (uint32_t r = 0; r < s->n; r++) {
      int step = rank_step(s, r);
      for (; step > 0; step = rank_step(s, r))
        progressed = true;
      if (step < 0)
        return -1;
      deepest = s->ranks[r].depth > deepest ? s->ranks[r].depth : deepest;
    }
  }
  return deepest;
}

static int64_t hops_count(const struct rondo_plan *plans, uint32_t n) {
  struct simulation s = {.plans = plans, .n = n};
  s.connectors = calloc((size_t)n * n, sizeof *s.connectors);
  s.ranks = calloc(n, sizeof *s.ranks);
  int64_t hops = s.connectors && s.ranks ? simulation_run(&s) : -1;
  for (size_t i = 0; s.connectors && i < (size_t)n * n; i++)
    free(s.connectors[i].depths);
  free(s.connectors);
  free(s.ranks);
  return hops;
}

// ---------------------------------------------------------------- one rank -----

// Bytes of chunk `k`: all chunks have what the descriptor counts, except that a ring all-reduce
// parts it among the ranks.
static uint64_t chunk_bytes(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                            uint64_t bytes, uint32_t k) {
  if (q->kind == RONDO_BARRIER)
    return 0;
  if (q->kind != RONDO_ALL_REDUCE || plan->chunk_count == 1)
    return bytes;
  uint64_t share = bytes / plan->chunk_count + (bytes % plan->chunk_count > 0);
  uint64_t before = share * k;
  uint64_t left = bytes > before ? bytes - before : 0;
  return left < share ? left : share;
}

static void sends_count(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                        uint64_t bytes, struct info_plan_cost *cost) {
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    if (!(op->primitive & RONDO_PRIM_SEND))
      continue;
    cost->sends += op->repeat;
    for (uint32_t k = 0; k < op->repeat; k++)
      cost->bytes += chunk_bytes(q, plan, bytes, info_op_chunk(op, k));
  }
}

static uint32_t peers_bytes(const struct rondo_plan_peers *peers) {
  uint32_t listed = peers->stride ? 2 : peers->count;
  return (uint32_t)(offsetof(struct rondo_plan_peers, listed) + listed * sizeof peers->listed[0]);
}

static double build_time_us(const struct rondo_plan_request *request) {
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t i = 0; i < BUILDS; i++) {
    struct rondo_plan plan;
    uint64_t start_ns = rondo_kit_now_ns();
    (void)rondo_plan_build(request, &plan);
    uint64_t duration_ns = rondo_kit_now_ns() - start_ns;
    least_ns = duration_ns < least_ns ? duration_ns : least_ns;
  }
  return (double)least_ns / 1e3;
}

bool info_plan_cost(const struct rondo_plan_request *request, const struct rondo_plan *plans,
                    uint64_t bytes, struct info_plan_cost *cost) {
  const struct rondo_plan *plan = &plans[request->rank];
  int64_t hops = hops_count(plans, request->nranks);
  *cost = (struct info_plan_cost){0};
  if (hops < 0)
    return false;
  cost->dependent_hops = (uint32_t)hops;
  sends_count(request, plan, bytes, cost);
  cost->state_bytes = (uint32_t)(offsetof(struct rondo_plan, send) + peers_bytes(&plan->send) +
                                 peers_bytes(&plan->recv) + plan->op_count * sizeof plan->ops[0]);
  cost->build_us = build_time_us(request);
  return true;
}
