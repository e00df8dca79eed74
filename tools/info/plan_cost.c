#include "tools/info/plan_cost.h"

#include <stddef.h>
#include <stdlib.h>

#include "daemon/plan/geometry_core.h"
#include "daemon/plan/verify_shape.h"
#include "tools/kit/clock.h"
#include <rondo/rondo.h>

#define BUILDS 1000u // timed

uint32_t info_plan_op_chunk(const struct rondo_plan *plan, uint32_t index, uint32_t i, uint32_t k) {
  const struct rondo_plan_op *op = &plan->ops[index];
  uint64_t at = op->first_chunk + (uint64_t)(i % op->repeat) * op->chunk_stride + k;
  return (uint32_t)((at + (uint64_t)(i / op->repeat) * plan->round_chunks) % plan->chunk_count);
}

// ------------------------------------------------------------- dependent hops ---

// The messages from one rank to another: the place of each in its chain. Taken in their order.
struct connector {
  uint32_t *places;
  uint32_t sent, taken;
};

struct rank {
  uint32_t op, execution;  // where it stands
  uint32_t round_chunk;    // how far it is in the rounds of a plan
  uint32_t sent, received; // place of the last message that it has sent, received
  struct connector *from;  // by the index of the recv peer
};

// The plans of a group, executed on nothing but the places of messages.
struct simulation {
  const struct rondo_plan *plans;
  uint32_t n;
  struct rank *ranks;
};

static uint32_t later_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Null: the peer does not receive from `rank`.
static struct connector *connector_to(const struct simulation *s, uint32_t rank, uint32_t to) {
  const struct rondo_plan *peer = &s->plans[to];
  uint32_t index = rondo_plan_verify_peer_find(peer, &peer->recv, peer->recv.count, rank);
  return index < peer->recv.count ? &s->ranks[to].from[index] : NULL;
}

// Adds one message. Returns false if there is no memory.
static bool message_send(struct connector *c, uint32_t place) {
  if (!(c->sent & (c->sent + 1))) {
    uint32_t *places = realloc(c->places, 2 * (c->sent + (size_t)1) * sizeof *places);
    if (!places)
      return false;
    c->places = places;
  }
  c->places[c->sent++] = place;
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
    struct connector *c = &r->from[op->recv_peer + walked];
    if (c->taken == c->sent)
      return 0;
    r->received = later_of(c->places[c->taken++], r->received + 1);
  }
  if (op->primitive & RONDO_PRIM_SEND) {
    struct connector *c =
        connector_to(s, rank, rondo_plan_peer(plan, &plan->send, op->send_peer + walked));
    r->sent = later_of(r->sent, r->received) + 1;
    if (c && !message_send(c, r->sent))
      return -1;
  }
  if (++r->execution < op->repeat)
    return 1;
  r->execution = 0;
  r->round_chunk += op->round_ops ? plan->round_chunks : 0;
  if (op->round_ops && r->round_chunk < plan->chunk_count) {
    r->op -= op->round_ops - 1;
    return 1;
  }
  r->round_chunk = op->round_ops ? 0 : r->round_chunk;
  r->op++;
  return 1;
}

// Returns the last place in any chain, or -1 if there is no memory.
static int64_t simulation_run(struct simulation *s) {
  uint32_t last = 0;
  bool progressed = true;
  while (progressed) {
    progressed = false;
    for (uint32_t r = 0; r < s->n; r++) {
      int step = rank_step(s, r);
      for (; step > 0; step = rank_step(s, r))
        progressed = true;
      if (step < 0)
        return -1;
      last = later_of(last, s->ranks[r].received);
    }
  }
  return last;
}

static bool simulation_init(struct simulation *s) {
  s->ranks = calloc(s->n, sizeof *s->ranks);
  bool has_memory = s->ranks != NULL;
  for (uint32_t r = 0; r < s->n && has_memory; r++) {
    s->ranks[r].from = calloc(s->plans[r].recv.count + 1, sizeof *s->ranks[r].from);
    has_memory = s->ranks[r].from != NULL;
  }
  return has_memory;
}

static void simulation_fini(struct simulation *s) {
  for (uint32_t r = 0; s->ranks && r < s->n; r++) {
    for (uint32_t i = 0; s->ranks[r].from && i < s->plans[r].recv.count; i++)
      free(s->ranks[r].from[i].places);
    free(s->ranks[r].from);
  }
  free(s->ranks);
}

static int64_t hops_count(const struct rondo_plan *plans, uint32_t n) {
  struct simulation s = {.plans = plans, .n = n};
  int64_t hops = simulation_init(&s) ? simulation_run(&s) : -1;
  simulation_fini(&s);
  return hops;
}

// ---------------------------------------------------------------- one rank -----

// How often a loop executes an op.
static uint32_t op_executions(const struct rondo_plan *plan, uint32_t op) {
  return plan->ops[op].repeat * rondo_plan_rounds(plan, op);
}

// Bytes of a message with chunk `k`: all chunks have what the descriptor counts, except that some
// plans split it.
static uint64_t chunk_bytes(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                            uint64_t bytes, uint32_t k) {
  if (q->kind == RONDO_BARRIER)
    return 0;
  if (!rondo_plan_splits(q->kind, q->algorithm))
    return bytes;
  uint64_t share = bytes / plan->chunk_count + (bytes % plan->chunk_count > 0);
  uint64_t before = share * k;
  uint64_t left = bytes > before ? bytes - before : 0;
  left = left < share ? left : share;
  return q->quantisation ? rondo_quantised_bytes(left / sizeof(float)) : left;
}

static void sends_count(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                        uint64_t bytes, struct info_plan_cost *cost) {
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    if (!(op->primitive & RONDO_PRIM_SEND))
      continue;
    uint32_t executions = op_executions(plan, i);
    cost->sends += executions;
    for (uint32_t k = 0; k < executions * op->width; k++)
      cost->bytes +=
          chunk_bytes(q, plan, bytes, info_plan_op_chunk(plan, i, k / op->width, k % op->width));
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

// Adds what the plan of a rank sends to other machines to `sent`.
static void machine_bytes_add(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                              uint64_t bytes, uint64_t *sent) {
  const uint32_t own = rondo_plan_topology_machine_of(q->topology, q->rank);
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    uint32_t executions = op->primitive & RONDO_PRIM_SEND ? op_executions(plan, i) : 0;
    for (uint32_t e = 0; e < executions; e++) {
      uint32_t walked = e % op->repeat * op->peer_stride;
      uint32_t to = rondo_plan_peer(plan, &plan->send, op->send_peer + walked);
      if (rondo_plan_topology_machine_of(q->topology, to) == own)
        continue;
      for (uint32_t k = 0; k < op->width; k++)
        *sent += chunk_bytes(q, plan, bytes, info_plan_op_chunk(plan, i, e, k));
    }
  }
}

static uint64_t larger_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

// The ranks of a machine share its ports in turn.
int info_plan_machine_bytes(const struct rondo_plan_request *request, uint64_t bytes,
                            struct info_plan_sent *most) {
  const struct rondo_plan_topology *t = request->topology;
  uint32_t machines = rondo_plan_topology_machines(t), ports = rondo_plan_topology_leaders(t);
  uint64_t *sent = calloc((size_t)machines * ports, sizeof *sent); // by machine and port
  int status = sent ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  *most = (struct info_plan_sent){0};
  for (uint32_t r = 0; t && r < request->nranks && status == RONDO_SUCCESS; r++) {
    struct rondo_plan_request of_rank = *request;
    struct rondo_plan plan;
    uint32_t machine = rondo_plan_topology_machine_of(t, r);
    uint32_t local = rondo_plan_topology_place(t, r) - t->machines[machine].first;
    of_rank.rank = r;
    status = rondo_plan_build(&of_rank, &plan);
    if (status == RONDO_SUCCESS)
      machine_bytes_add(&of_rank, &plan, bytes, &sent[machine * ports + local % ports]);
  }
  for (uint32_t m = 0; m < machines && status == RONDO_SUCCESS; m++) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < ports; i++) {
      all += sent[m * ports + i];
      most->port_bytes = larger_of(most->port_bytes, sent[m * ports + i]);
    }
    most->machine_bytes = larger_of(most->machine_bytes, all);
  }
  free(sent);
  return status;
}

bool info_plan_cost_count(const struct rondo_plan_request *request, const struct rondo_plan *plans,
                          uint64_t bytes, struct info_plan_cost *cost) {
  const struct rondo_plan *plan = &plans[request->rank];
  int64_t hops = hops_count(plans, request->nranks);
  *cost = (struct info_plan_cost){0};
  if (hops < 0 || info_plan_machine_bytes(request, bytes, &cost->sent) != RONDO_SUCCESS)
    return false;
  cost->dependent_hops = (uint32_t)hops;
  sends_count(request, plan, bytes, cost);
  cost->state_bytes = (uint32_t)(offsetof(struct rondo_plan, send) + peers_bytes(&plan->send) +
                                 peers_bytes(&plan->recv) + plan->op_count * sizeof plan->ops[0]);
  cost->scratch_bytes = plan->scratch_count * chunk_bytes(request, plan, bytes, 0);
  cost->build_us = build_time_us(request);
  return true;
}
