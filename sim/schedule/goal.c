#include "sim/schedule/goal.h"

#include <stdlib.h>

#include "sim/schedule/goal_state.h"
#include "sim/schedule/machine.h"

#define NONE RONDO_SCHEDULE_GOAL_NONE
#define ANY RONDO_SCHEDULE_GOAL_ANY

// Kinds of events; `rank` is the one at which they take place, `sequence` the op.
enum event_kind {
  EVENT_OP = 0,      // an op is the first of its lane, or posts a receive
  EVENT_FREE = 1,    // an op of another CPU has ended, so this one is free
  EVENT_ARRIVAL = 2, // of the message of a send
  EVENT_MESSAGE = 3  // a message that has arrived is the first of its lane
};

struct rondo_schedule_goal_costs rondo_schedule_goal_costs_default(void) {
  return (struct rondo_schedule_goal_costs){.latency_ns = 2500,
                                            .overhead_ns = 1500,
                                            .gap_ns = 1000,
                                            .gap_byte_ns = 6,
                                            .eager_bytes = 65535};
}

static uint64_t later_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

// What all bytes but the first cost, in whole nanoseconds.
static uint64_t bytes_ns(const struct rondo_schedule_goal_op *op, double byte_ns) {
  return (uint64_t)((double)(op->size ? op->size - 1 : 0) * byte_ns + 1e-6);
}

static void event_push(struct rondo_schedule_goal *g, uint64_t at_ns, uint32_t kind, uint32_t rank,
                       uint32_t op) {
  rondo_schedule_event_push_by_key(&g->queue,
                                   &(struct rondo_schedule_event){.at_ns = at_ns,
                                                                  .key = g->ops[op].order,
                                                                  .kind = kind & 3,
                                                                  .rank = rank & 0x3fffffff,
                                                                  .sequence = op});
}

// --------------------------------------------------------------------- queues ---

static void queue_append(struct rondo_schedule_goal *g, struct rondo_schedule_goal_queue *q,
                         uint32_t op) {
  g->ops[op].waits = NONE;
  if (q->first == NONE) {
    q->first = op;
  } else {
    g->ops[q->last].waits = op;
  }
  q->last = op;
}

static void queue_remove(struct rondo_schedule_goal *g, struct rondo_schedule_goal_queue *q,
                         uint32_t before, uint32_t op) {
  uint32_t next = g->ops[op].waits;
  if (before == NONE) {
    q->first = next;
  } else {
    g->ops[before].waits = next;
  }
  if (next == NONE) {
    q->last = before;
  }
}

static bool is_match(const struct rondo_schedule_goal_op *a,
                     const struct rondo_schedule_goal_op *b) {
  return (a->peer == b->peer || a->peer == ANY || b->peer == ANY) &&
         (a->tag == b->tag || a->tag == ANY || b->tag == ANY);
}

// Takes the first op of the queue that matches out of it. Returns NONE if none does.
static uint32_t queue_take(struct rondo_schedule_goal *g, struct rondo_schedule_goal_queue *q,
                           const struct rondo_schedule_goal_op *like) {
  uint32_t before = NONE;
  for (uint32_t i = q->first; i != NONE; before = i, i = g->ops[i].waits) {
    if (is_match(&g->ops[i], like)) {
      queue_remove(g, q, before, i);
      return i;
    }
  }
  return NONE;
}

// ---------------------------------------------------------------------- lanes ---

static uint64_t *cpu_of(const struct rondo_schedule_goal *g, uint32_t rank,
                        const struct rondo_schedule_goal_op *op) {
  return &g->cpu_ns[(size_t)rank * g->cpus + op->cpu];
}

static uint64_t *nic_of(const struct rondo_schedule_goal *g, uint64_t *nic_ns, uint32_t rank,
                        const struct rondo_schedule_goal_op *op) {
  return &nic_ns[(size_t)rank * g->nics + op->nic];
}

static uint64_t lanes_of_rank(const struct rondo_schedule_goal *g) {
  return g->cpus * (1 + UINT64_C(2) * g->nics);
}

// The ops that wait for the same CPU and the same side of the same NIC.
static struct rondo_schedule_goal_queue *lane_of(const struct rondo_schedule_goal *g, uint32_t rank,
                                                 const struct rondo_schedule_goal_op *op,
                                                 uint32_t event) {
  struct rondo_schedule_goal_queue *lanes = &g->lanes[rank * lanes_of_rank(g)];
  uint32_t place = op->cpu * g->nics + op->nic;
  if (event == EVENT_MESSAGE) {
    return &lanes[g->cpus + g->cpus * g->nics + place];
  }
  return &lanes[op->kind == RONDO_SCHEDULE_GOAL_CALC ? op->cpu : g->cpus + place];
}

// When what the op needs is free.
static uint64_t available_ns(const struct rondo_schedule_goal *g, uint32_t rank,
                             const struct rondo_schedule_goal_op *op, uint32_t event) {
  uint64_t cpu_ns = *cpu_of(g, rank, op);
  if (event == EVENT_OP && op->kind == RONDO_SCHEDULE_GOAL_CALC) {
    return cpu_ns;
  }
  return later_of(cpu_ns,
                  *nic_of(g, event == EVENT_MESSAGE ? g->receive_ns : g->send_ns, rank, op));
}

// Plans the first op of a lane, if any.
static void lane_plan(struct rondo_schedule_goal *g, uint32_t rank, uint32_t event,
                      uint32_t first) {
  if (first != NONE) {
    uint64_t at_ns = available_ns(g, rank, &g->ops[first], event);
    event_push(g, later_of(g->now_ns, at_ns), event, rank, first);
  }
}

// LogGOPSim retries each op at the time when its resources become free, in the order in which ops
// became free and messages were sent. Those of a lane would all be retried together, so that only
// the first one can succeed; here only that one is planned.
static void lane_append(struct rondo_schedule_goal *g, uint32_t rank, uint32_t event, uint32_t op) {
  struct rondo_schedule_goal_queue *lane = lane_of(g, rank, &g->ops[op], event);
  bool is_first = lane->first == NONE;
  queue_append(g, lane, op);
  if (is_first) {
    lane_plan(g, rank, event, op);
  }
}

// --------------------------------------------------------------- dependencies ---

// All that the op waits for has ended.
static void op_free(struct rondo_schedule_goal *g, uint32_t rank, uint32_t number) {
  const struct rondo_schedule_goal_op *op = &g->ops[number];
  uint64_t free_ns = g->free_ns ? g->free_ns[number] : 0;
  uint64_t cpu_ns = *cpu_of(g, rank, op);
  g->ops[number].order = g->order++;
  if (op->kind == RONDO_SCHEDULE_GOAL_RECV) {
    event_push(g, later_of(later_of(cpu_ns, free_ns), g->now_ns), EVENT_OP, rank, number);
  } else if (free_ns > later_of(cpu_ns, g->now_ns)) {
    event_push(g, free_ns, EVENT_FREE, rank, number);
  } else {
    lane_append(g, rank, EVENT_OP, number);
  }
}

// Frees the ops of one kind that have waited.
static void freed_handle_kind(struct rondo_schedule_goal *g,
                              const struct rondo_schedule_goal_freed *freed, uint32_t rank,
                              uint32_t kind) {
  for (uint32_t i = 0; i < freed->count; i++) {
    if (g->ops[freed->items[i]].kind == kind) {
      op_free(g, rank, freed->items[i]);
    }
  }
}

// Frees ops that have waited: sends first, then receives, then calculations.
static void freed_handle(struct rondo_schedule_goal *g, struct rondo_schedule_goal_freed *freed,
                         uint32_t rank) {
  if (freed->count == 1) {
    op_free(g, rank, freed->items[0]);
  } else if (freed->count) {
    for (uint32_t kind = 0; kind < RONDO_SCHEDULE_GOAL_KINDS; kind++) {
      freed_handle_kind(g, freed, rank, kind);
    }
  }
  freed->count = 0;
}

static void freed_add(struct rondo_schedule_goal_freed *freed, uint32_t op) {
  RONDO_SIM_GROW(freed->items, freed->count, freed->capacity, 16);
  freed->items[freed->count++] = op;
}

static void edges_follow(struct rondo_schedule_goal *g, struct rondo_schedule_goal_freed *freed,
                         uint32_t from, uint32_t to, uint64_t at_ns) {
  for (uint32_t i = from; i < to; i++) {
    uint32_t op = g->edges[i];
    if (g->free_ns) {
      g->free_ns[op] = later_of(g->free_ns[op], at_ns);
    }
    if (--g->ops[op].waits == 0) {
      freed_add(freed, op);
    }
  }
}

static void op_started(struct rondo_schedule_goal *g, const struct rondo_schedule_goal_op *op) {
  edges_follow(g, &g->own, op->first_edge, op->first_edge + op->start_edges, g->now_ns);
}

static void op_done(struct rondo_schedule_goal *g, struct rondo_schedule_goal_freed *freed,
                    struct rondo_schedule_goal_op *op, uint64_t at_ns) {
  op->is_done = true;
  g->totals.ops_done++;
  edges_follow(g, freed, op->first_edge + op->start_edges, op[1].first_edge, at_ns);
}

// --------------------------------------------------------------------- events ---

static void send_start(struct rondo_schedule_goal *g, uint32_t rank, uint32_t number) {
  struct rondo_schedule_goal_op *op = &g->ops[number];
  const struct rondo_schedule_goal_costs *c = &g->costs;
  uint64_t arrives_ns = g->now_ns + c->overhead_ns + c->latency_ns;
  uint64_t *cpu_ns = cpu_of(g, rank, op);
  uint32_t receiver = op->peer;
  *cpu_ns = g->now_ns + c->overhead_ns + bytes_ns(op, c->overhead_byte_ns);
  *nic_of(g, g->send_ns, rank, op) = g->now_ns + c->gap_ns + bytes_ns(op, c->gap_byte_ns);
  op_started(g, op);
  op->peer = rank;
  op->order = g->order++;
  g->totals.messages++;
  g->totals.bytes += op->size;
  event_push(g, arrives_ns + (c->messages_take_gap ? c->gap_ns : 0), EVENT_ARRIVAL, receiver,
             number);
  if (op->size <= c->eager_bytes) {
    op_done(g, &g->own, op, *cpu_ns);
  }
}

static void calc_start(struct rondo_schedule_goal *g, uint32_t rank, uint32_t number) {
  struct rondo_schedule_goal_op *op = &g->ops[number];
  uint64_t *cpu_ns = cpu_of(g, rank, op);
  *cpu_ns = g->now_ns + op->size;
  op_started(g, op);
  op_done(g, &g->own, op, *cpu_ns);
}

// The message of a send has met its receive. A rendezvous ends the send at once, as in LogGOPSim.
static void message_match(struct rondo_schedule_goal *g, uint32_t rank, uint32_t number) {
  struct rondo_schedule_goal_op *op = &g->ops[number];
  if (op->size <= g->costs.eager_bytes) {
    return;
  }
  uint64_t *cpu_ns = cpu_of(g, op->peer, op), *nic_ns = nic_of(g, g->send_ns, op->peer, op);
  *cpu_ns = later_of(*cpu_ns, g->now_ns);
  *nic_ns = later_of(*nic_ns, g->now_ns);
  op_done(g, op->peer == rank ? &g->own : &g->other, op, g->now_ns);
  if (op->peer < rank) { // LogGOPSim frees in the order of the ranks
    freed_handle(g, &g->other, op->peer);
  }
}

// What a rank of a higher number than that of the event may do now.
static void sender_handle(struct rondo_schedule_goal *g, uint32_t message) {
  if (g->other.count) {
    freed_handle(g, &g->other, g->ops[message].peer);
  }
}

static void receive_post(struct rondo_schedule_goal *g, uint32_t rank, uint32_t number) {
  struct rondo_schedule_goal_op *op = &g->ops[number];
  op_started(g, op);
  uint32_t message = queue_take(g, &g->unexpected[rank], op);
  if (message == NONE) {
    queue_append(g, &g->posted[rank], number);
    freed_handle(g, &g->own, rank);
    return;
  }
  g->totals.unreceived--;
  message_match(g, rank, message);
  op_done(g, &g->own, op, g->now_ns);
  freed_handle(g, &g->own, rank);
  sender_handle(g, message);
}

static void message_receive(struct rondo_schedule_goal *g, uint32_t rank, uint32_t number) {
  const struct rondo_schedule_goal_op *op = &g->ops[number];
  const struct rondo_schedule_goal_costs *c = &g->costs;
  double byte_ns = c->overhead_byte_ns > c->gap_byte_ns ? c->overhead_byte_ns : c->gap_byte_ns;
  uint64_t *cpu_ns = cpu_of(g, rank, op);
  *cpu_ns = g->now_ns + c->overhead_ns + bytes_ns(op, byte_ns);
  *nic_of(g, g->receive_ns, rank, op) = g->now_ns + c->gap_ns + bytes_ns(op, c->gap_byte_ns);
  uint32_t receive = queue_take(g, &g->posted[rank], op);
  if (receive == NONE) {
    queue_append(g, &g->unexpected[rank], number);
    g->totals.unexpected++;
    g->totals.unreceived++;
    return;
  }
  message_match(g, rank, number);
  op_done(g, &g->own, &g->ops[receive], *cpu_ns);
  freed_handle(g, &g->own, rank);
  sender_handle(g, number);
}

// The first op of a lane, which its resources may keep waiting once more.
static void first_handle(struct rondo_schedule_goal *g, const struct rondo_schedule_event *e) {
  struct rondo_schedule_goal_op *op = &g->ops[e->sequence];
  struct rondo_schedule_goal_queue *lane = lane_of(g, e->rank, op, e->kind);
  uint32_t next = op->waits;
  if (available_ns(g, e->rank, op, e->kind) > g->now_ns) {
    lane_plan(g, e->rank, e->kind, e->sequence);
    return;
  }
  queue_remove(g, lane, NONE, e->sequence);
  if (e->kind == EVENT_MESSAGE) {
    message_receive(g, e->rank, e->sequence);
  } else if (op->kind == RONDO_SCHEDULE_GOAL_SEND) {
    send_start(g, e->rank, e->sequence);
    freed_handle(g, &g->own, e->rank);
  } else {
    calc_start(g, e->rank, e->sequence);
    freed_handle(g, &g->own, e->rank);
  }
  lane_plan(g, e->rank, e->kind, next);
}

static void arrival_handle(struct rondo_schedule_goal *g, const struct rondo_schedule_event *e) {
  const struct rondo_schedule_goal_op *op = &g->ops[e->sequence];
  if (lane_of(g, e->rank, op, EVENT_MESSAGE)->first == NONE &&
      available_ns(g, e->rank, op, EVENT_MESSAGE) <= g->now_ns) {
    message_receive(g, e->rank, e->sequence);
  } else {
    lane_append(g, e->rank, EVENT_MESSAGE, e->sequence);
  }
}

static void event_handle(struct rondo_schedule_goal *g, const struct rondo_schedule_event *e) {
  switch (e->kind) {
  case EVENT_ARRIVAL:
    arrival_handle(g, e);
    break;
  case EVENT_FREE:
    lane_append(g, e->rank, EVENT_OP, e->sequence);
    break;
  case EVENT_OP:
    if (g->ops[e->sequence].kind == RONDO_SCHEDULE_GOAL_RECV) {
      receive_post(g, e->rank, e->sequence);
      break;
    } // fall through
  default:
    first_handle(g, e);
  }
}

// ------------------------------------------------------------------------ run ---

static struct rondo_schedule_goal_queue *queues_make(uint64_t count) {
  struct rondo_schedule_goal_queue *queues = rondo_sim_alloc(count * sizeof *queues);
  for (uint64_t i = 0; i < count; i++) {
    queues[i] = (struct rondo_schedule_goal_queue){NONE, NONE};
  }
  return queues;
}

void rondo_schedule_goal_begin(struct rondo_schedule_goal *g,
                               const struct rondo_schedule_goal_costs *costs) {
  size_t n = g->rank_count;
  g->costs = *costs;
  g->cpu_ns = rondo_sim_calloc(n * g->cpus, sizeof *g->cpu_ns);
  g->send_ns = rondo_sim_calloc(n * g->nics, sizeof *g->send_ns);
  g->receive_ns = rondo_sim_calloc(n * g->nics, sizeof *g->receive_ns);
  g->lanes = queues_make(n * lanes_of_rank(g));
  g->posted = queues_make(n);
  g->unexpected = queues_make(n);
  if (g->cpus > 1) {
    g->free_ns = rondo_sim_calloc(g->op_count + (size_t)1, sizeof *g->free_ns);
  }
  g->totals.ops = g->op_count;
  for (uint32_t rank = 0; rank < n; rank++) {
    for (uint32_t i = g->first_op[rank]; i < g->first_op[rank + 1]; i++) {
      if (g->ops[i].waits == 0) {
        freed_add(&g->own, i);
      }
    }
    freed_handle(g, &g->own, rank);
  }
}

int rondo_schedule_goal_run(struct rondo_schedule_goal *g, uint64_t events) {
  struct rondo_schedule_event e;
  while (g->totals.outcome == RONDO_SCHEDULE_RUNNING && events-- > 0) {
    if (rondo_schedule_event_pop_by_key(&g->queue, &e)) {
      g->now_ns = e.at_ns;
      event_handle(g, &e);
    } else {
      g->totals.outcome =
          g->totals.ops_done == g->totals.ops ? RONDO_SCHEDULE_DONE : RONDO_SCHEDULE_DEADLOCK;
    }
  }
  return g->totals.outcome;
}

void rondo_schedule_goal_destroy(struct rondo_schedule_goal *g) {
  if (!g) {
    return;
  }
  void *const arrays[] = {g->ops,     g->first_op,   g->edges,     g->cpu_ns,
                          g->send_ns, g->receive_ns, g->free_ns,   g->lanes,
                          g->posted,  g->unexpected, g->own.items, g->other.items};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    free(arrays[i]);
  }
  rondo_schedule_event_queue_fini(&g->queue);
  free(g);
}

// ----------------------------------------------------------------------- read ---

uint32_t rondo_schedule_goal_ranks(const struct rondo_schedule_goal *g) { return g->rank_count; }

uint64_t rondo_schedule_goal_now_ns(const struct rondo_schedule_goal *g) { return g->now_ns; }

uint64_t rondo_schedule_goal_end_ns(const struct rondo_schedule_goal *g, uint32_t rank) {
  uint64_t end_ns = 0;
  for (uint32_t i = 0; i < g->cpus; i++) {
    end_ns = later_of(end_ns, g->cpu_ns[(size_t)rank * g->cpus + i]);
  }
  return end_ns;
}

struct rondo_schedule_goal_totals rondo_schedule_goal_totals(const struct rondo_schedule_goal *g) {
  struct rondo_schedule_goal_totals t = g->totals;
  t.events = g->order;
  for (uint32_t i = 0; i < g->rank_count; i++) {
    t.makespan_ns = later_of(t.makespan_ns, rondo_schedule_goal_end_ns(g, i));
  }
  return t;
}

const struct rondo_schedule_goal_op *
rondo_schedule_goal_posted(const struct rondo_schedule_goal *g, uint32_t rank,
                           const struct rondo_schedule_goal_op *before) {
  uint32_t next = before ? before->waits : g->posted[rank].first;
  return next == NONE ? NULL : &g->ops[next];
}
