#include "sim/schedule/machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/block_core.h"
#include "sim/common/rng.h"
#include "sim/schedule/event_queue.h"

#define MOST_SQ_ENTRIES 16u // as many as a block fetches in one step
#define CQ_ENTRIES 8u       // more than runs can end in one step
// Nobody looks into the buffers of the user, so their addresses only have to be apart.
#define SEND_ADDRESS UINT64_C(0x100000000000)
#define RECV_ADDRESS UINT64_C(0x200000000000)
#define NEVER UINT64_MAX

// ---------------------------------------------------------------------- state ---

enum rank_state {
  RANK_WAITS = 0,    // until something arrives or its timer ends
  RANK_SCHEDULED = 1 // an event steps its block
};

// What a rank has of one collective.
struct member {
  uint64_t submitted_ns;
  uint32_t runs_submitted, runs_ended;
};

struct rank {
  uint64_t busy_until_ns; // its block works on a step
  uint64_t timer_ns;      // when its block would do something though nothing arrives
  uint64_t waiting_since_ns;
  uint64_t sends_until_ns[RONDO_SCHEDULE_CLASSES]; // its links are occupied
  uint64_t receives_until_ns[RONDO_SCHEDULE_CLASSES];
  uint64_t sent_bytes;
  struct rondo_schedule_path path; // that led here
  uint64_t path_ns;                // the time up to which `path` accounts
  uint8_t state;                   // enum rank_state
  uint8_t reason;                  // enum rondo_schedule_reason
  uint8_t sq_is_full;
  uint32_t iteration, submitted, ended; // of this iteration
  double slowness;
  uint64_t late_ns;
  struct rondo_sq_producer sq;
  struct rondo_block block;
  struct rondo_daemon_core core;
};

struct collective {
  const struct rondo_schedule_layout *layout;
  struct rondo_schedule_link links[RONDO_SCHEDULE_CLASSES];
  char *connectors;
  uint64_t stride; // of a connector
  struct rondo_endpoint *send, *recv;
  struct rondo_task_context *contexts; // by rank
};

// One allocation for all ranks; each has `stride` bytes.
struct slab {
  char *memory;
  uint64_t stride;
};

enum slab_kind {
  SLAB_TABLE,   // the pages of the daemon's table
  SLAB_ENTRIES, // of that table
  SLAB_TASKS,   // task queue
  SLAB_WAITS,
  SLAB_FLAGS,
  SLAB_READY,
  SLAB_SQ,
  SLAB_MEMBERS,
  SLAB_ORDER, // of submissions; only if ranks have own orders
  SLAB_COUNT
};

struct rondo_schedule_machine {
  struct rondo_schedule_settings settings;
  struct rank *ranks;
  struct collective *collectives;
  uint32_t collective_count, collective_capacity;
  struct slab slabs[SLAB_COUNT];
  struct rondo_schedule_event_queue events;
  struct rondo_communicator_gate gate; // open, of all collectives
  struct rondo_cq_producers cq;        // of all blocks; it is empty between two steps
  struct rondo_cq_consumer completions;
  char *cq_ring;
  uint32_t exit; // never set
  bool started;
  struct rondo_sim_rng rng;
  struct rondo_schedule_ended *ended;
  uint64_t ended_count, ended_capacity;
  struct rondo_schedule_totals totals;
  uint32_t last_rank; // whose completion was the last one
  // The step that is being executed.
  struct rank *stepping;
  uint64_t now_ns;
  double cost_ns; // of the step so far
  bool received;  // the cost of the current primitive's receive is included
};

// The machine whose block steps on this thread.
static _Thread_local struct rondo_schedule_machine *running;

static void *slab_at(const struct rondo_schedule_machine *m, enum slab_kind kind, uint32_t rank) {
  return m->slabs[kind].memory + rank * m->slabs[kind].stride;
}

static struct member *member_of(const struct rondo_schedule_machine *m, uint32_t rank,
                                uint32_t collective) {
  return (struct member *)slab_at(m, SLAB_MEMBERS, rank) + collective;
}

static uint32_t rank_number(const struct rondo_schedule_machine *m, const struct rank *r) {
  return (uint32_t)(r - m->ranks);
}

// Time that chance makes longer.
static double jittered(struct rondo_schedule_machine *m, double ns) {
  if (m->settings.jitter == 0) {
    return ns;
  }
  return ns * (1 + m->settings.jitter * rondo_sim_rng_unit(&m->rng));
}

static uint64_t whole_ns(double ns) { return (uint64_t)(ns + 0.5); }

static uint64_t later_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

// ------------------------------------------------- what a driver provides ---

void rondo_context_load(struct rondo_task_context *slot, const struct rondo_task_context *buffer) {
  *slot = *buffer;
}

void rondo_context_save(struct rondo_task_context *buffer, const struct rondo_task_context *slot) {
  buffer->state = slot->state;
}

void rondo_move_copy(void *dst, void *second, const void *src, uint64_t bytes) {
  struct rondo_schedule_machine *m = running;
  if (dst != src || second) {
    m->cost_ns += (double)bytes * m->settings.costs.copy_byte_ns;
  }
}

void rondo_move_copy_cold(void *dst, const void *src, uint64_t bytes) {
  rondo_move_copy(dst, NULL, src, bytes);
}

// NOLINTNEXTLINE(readability-function-size): each parameter is an operand
void rondo_move_reduce(const struct rondo_reduction *r, void *dst, void *second, const void *local,
                       const void *incoming, uint64_t count, int final) {
  (void)r, (void)dst, (void)second, (void)local, (void)incoming, (void) final;
  struct rondo_schedule_machine *m = running;
  m->cost_ns += (double)count * sizeof(float) * m->settings.costs.reduce_byte_ns;
}

void rondo_move_scale(const struct rondo_reduction *r, void *dst, void *second, const void *local,
                      uint64_t count, int final) {
  (void)r, (void) final;
  rondo_move_copy(dst, second, local, count * sizeof(float));
}

// ------------------------------------------------------------------- messages ---

static uint32_t class_of(const struct rondo_schedule_machine *m, const struct rondo_connector *c) {
  uint32_t size = m->settings.machine_ranks;
  return size < m->settings.rank_count && c->producer_rank / size != c->consumer_rank / size;
}

static const struct rondo_schedule_link *link_of(const struct rondo_schedule_machine *m,
                                                 const struct rondo_task_context *context,
                                                 uint32_t class) {
  return &m->collectives[context->fixed.index].links[class];
}

// How long `bytes` occupy the link.
static uint64_t transfer_ns(const struct rondo_schedule_link *link, uint32_t bytes) {
  if (link->counts_gaps) {
    return whole_ns(link->gap_ns) +
           (uint64_t)((double)(bytes ? bytes - 1 : 0) * link->byte_ns + 1e-6);
  }
  return whole_ns(link->gap_ns + (double)bytes * link->byte_ns);
}

// The path of a message is in the slot's data, and its transfer time is the slot's address, which
// no other message has.
static_assert(sizeof(struct rondo_schedule_path) <= RONDO_CONNECTOR_INLINE_BYTES, "see there");

// A message of the block that steps: when it leaves, and when it arrives.
bool rondo_simulate_publish(const struct rondo_endpoint *e) {
  struct rondo_schedule_machine *m = running;
  struct rank *r = m->stepping;
  const struct rondo_task_context *context =
      (const struct rondo_task_context *)(const void *)((const char *)e -
                                                        offsetof(struct rondo_task_context,
                                                                 state.send));
  struct rondo_connector *c = rondo_endpoint_connector(e);
  struct rondo_slot *slot = rondo_connector_slot(c, e->sequence);
  uint32_t bytes = slot->bytes & ~RONDO_SLOT_REFERENCE, class = class_of(m, c);
  const struct rondo_schedule_link *link = link_of(m, context, class);
  bool receives = (rondo_context_op(context)->primitive & RONDO_PRIM_RECV) != 0;
  m->cost_ns += link->overhead_ns * (receives ? 2 : 1);
  m->received = receives;
  uint64_t ready_ns = m->now_ns + whole_ns(m->cost_ns);
  uint64_t leaves_ns = later_of(ready_ns, r->sends_until_ns[class]);
  uint64_t transfer = transfer_ns(link, bytes);
  uint64_t latency = whole_ns(jittered(m, link->latency_ns));
  struct rondo_schedule_path path = r->path;
  r->sends_until_ns[class] = leaves_ns + transfer;
  r->sent_bytes += bytes;
  m->totals.traffic[class].messages++;
  m->totals.traffic[class].bytes += bytes;
  path.block_ns += ready_ns - r->path_ns;
  path.link_ns += leaves_ns - ready_ns;
  path.transfer_ns += transfer;
  path.latency_ns += latency;
  path.messages++;
  memcpy(slot->data, &path, sizeof path);
  slot->address = transfer;
  rondo_schedule_event_push(&m->events,
                            &(struct rondo_schedule_event){.at_ns = leaves_ns + transfer + latency,
                                                           .connector = e->connector,
                                                           .kind = RONDO_SCHEDULE_ARRIVAL,
                                                           .rank = c->consumer_rank,
                                                           .sequence = e->sequence});
  return true;
}

bool rondo_simulate_consume(const struct rondo_endpoint *e) {
  struct rondo_schedule_machine *m = running;
  const struct rondo_task_context *context =
      (const struct rondo_task_context *)(const void *)((const char *)e -
                                                        offsetof(struct rondo_task_context,
                                                                 state.recv));
  struct rondo_connector *c = rondo_endpoint_connector(e);
  const struct rondo_schedule_link *link = link_of(m, context, class_of(m, c));
  if (!m->received) {
    m->cost_ns += link->overhead_ns;
  }
  m->received = false;
  rondo_schedule_event_push(
      &m->events, &(struct rondo_schedule_event){.at_ns = m->now_ns + whole_ns(m->cost_ns) +
                                                          whole_ns(jittered(m, link->latency_ns)),
                                                 .connector = e->connector,
                                                 .kind = RONDO_SCHEDULE_CREDIT,
                                                 .rank = c->producer_rank,
                                                 .sequence = e->sequence});
  return true;
}

// ---------------------------------------------------------------- submissions ---

static void schedule(struct rondo_schedule_machine *m, struct rank *r, uint64_t at_ns) {
  r->state = RANK_SCHEDULED;
  rondo_schedule_event_push(&m->events, &(struct rondo_schedule_event){.at_ns = at_ns,
                                                                       .kind = RONDO_SCHEDULE_STEP,
                                                                       .rank = rank_number(m, r)});
}

static void submit_later(struct rondo_schedule_machine *m, const struct rank *r, uint64_t at_ns) {
  rondo_schedule_event_push(
      &m->events, &(struct rondo_schedule_event){
                      .at_ns = at_ns, .kind = RONDO_SCHEDULE_SUBMIT, .rank = rank_number(m, r)});
}

static uint64_t compute_ns(struct rondo_schedule_machine *m, const struct rank *r) {
  return whole_ns(jittered(m, (double)m->settings.compute_ns * r->slowness));
}

// Draws the rank's order of this iteration, which depends on the seed, the rank and the iteration.
static void order_draw(struct rondo_schedule_machine *m, uint32_t rank, uint32_t iteration) {
  uint32_t *order = slab_at(m, SLAB_ORDER, rank);
  struct rondo_sim_rng rng;
  if (!m->settings.shuffles) {
    return;
  }
  rondo_sim_rng_begin(&rng, m->settings.seed, (uint64_t)1 + rank, iteration);
  for (uint32_t i = 0; i < m->collective_count; i++) {
    uint32_t other = rondo_sim_rng_below(&rng, i + 1);
    order[i] = order[other];
    order[other] = i;
  }
}

uint32_t rondo_schedule_machine_order(const struct rondo_schedule_machine *m, uint32_t rank,
                                      uint32_t place) {
  return m->settings.shuffles ? ((const uint32_t *)slab_at(m, SLAB_ORDER, rank))[place] : place;
}

// Pushes the next run of the rank's program to its SQ. Returns false if there is no room.
static bool submit_one(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  uint32_t rank = rank_number(m, r);
  uint32_t index = rondo_schedule_machine_order(m, rank, r->submitted);
  struct member *member = member_of(m, rank, index);
  const struct rondo_sqe entry = {.collective = index,
                                  .run = (uint64_t)member->runs_submitted + 1,
                                  .send = SEND_ADDRESS,
                                  .recv = RECV_ADDRESS,
                                  .block_count = 1};
  r->sq_is_full = !rondo_sq_try_push(&r->sq, &entry);
  if (r->sq_is_full) {
    return false;
  }
  member->submitted_ns = now_ns;
  member->runs_submitted++;
  r->submitted++;
  m->totals.runs++;
  return true;
}

// Goes on with the rank's program: submits what it can now. Returns true if it submitted anything.
static bool program_go_on(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  bool any = false;
  while (r->submitted < m->collective_count && submit_one(m, r, now_ns)) {
    any = true;
    if (m->settings.compute_ns && r->submitted < m->collective_count) {
      submit_later(m, r, now_ns + compute_ns(m, r));
      break;
    }
  }
  return any;
}

// A run of the rank has ended.
static void run_end(struct rondo_schedule_machine *m, struct rank *r, uint32_t index,
                    uint64_t now_ns) {
  uint32_t rank = rank_number(m, r);
  struct member *member = member_of(m, rank, index);
  member->runs_ended++;
  RONDO_SIM_GROW(m->ended, m->ended_count, m->ended_capacity, 1024);
  m->ended[m->ended_count++] =
      (struct rondo_schedule_ended){member->submitted_ns, now_ns, rank, index};
  if (now_ns >= m->totals.makespan_ns) {
    m->totals.makespan_ns = now_ns;
    m->last_rank = rank;
    m->totals.path = r->path;
    m->totals.path.block_ns += now_ns - r->path_ns;
  }
  if (++r->ended == m->collective_count && r->iteration + 1 < m->settings.iterations) {
    r->iteration++;
    r->ended = r->submitted = 0;
    order_draw(m, rank, r->iteration);
    submit_later(m, r, now_ns + compute_ns(m, r));
  }
}

// ---------------------------------------------------------------------- steps ---

static bool preempts(const struct rondo_schedule_machine *m) {
  return m->settings.policy.budget != RONDO_BUDGET_NEVER;
}

// When a stuck block would do something if nothing arrived: preempt, look, or quit.
static uint64_t timer_of(struct rondo_schedule_machine *m, struct rank *r) {
  struct rondo_block *b = &r->block;
  const struct rondo_policy *p = &m->settings.policy;
  if (!b->resident || (b->queue.count && !preempts(m))) {
    return NEVER;
  }
  uint64_t timer = b->last_progress_ns + m->settings.quit_period_ns;
  if (b->queue.count < 2) {
    return timer;
  }
  const struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  uint64_t budget = slot->blocked_since_ns + rondo_block_budget(b, slot);
  timer = budget < timer ? budget : timer;
  uint64_t look = later_of(slot->blocked_since_ns, b->looked_ns) + p->look_ns;
  return p->look_ns && look < timer ? look : timer;
}

static uint8_t reason_of(const struct rank *r) {
  if (r->block.queue.count == 0) {
    return RONDO_SCHEDULE_NO_WORK;
  }
  return r->block.attempt == RONDO_ATTEMPT_NO_CREDIT ? RONDO_SCHEDULE_NO_CREDIT
                                                     : RONDO_SCHEDULE_NO_DATA;
}

static void completions_take(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  struct rondo_cqe cqe;
  while (rondo_cq_try_pop(&m->completions, &cqe)) {
    run_end(m, r, cqe.collective, now_ns);
  }
}

static void queue_sample(struct rondo_schedule_machine *m, const struct rank *r,
                         uint64_t fetched_before) {
  uint64_t fetched = r->block.counters.fetched - fetched_before;
  m->totals.queue_sum += fetched * r->block.queue.count;
  m->totals.queue_samples += fetched;
  if (r->block.queue.count > m->totals.queue_most) {
    m->totals.queue_most = r->block.queue.count;
  }
}

// One step of the block. Returns its result and sets when the block is free again.
static int block_step(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  struct rondo_block *b = &r->block;
  const struct rondo_schedule_costs *costs = &m->settings.costs;
  uint64_t loads = b->counters.context_loads, fetched = b->counters.fetched;
  m->stepping = r;
  m->now_ns = now_ns;
  m->cost_ns = (double)costs->step_ns;
  m->received = false;
  if (!b->resident) {
    rondo_block_start(b, now_ns);
  }
  int result = rondo_block_step(b, now_ns);
  m->cost_ns += (double)((b->counters.context_loads - loads) * costs->load_ns);
  if (result != RONDO_STEP_PROGRESSED) {
    m->cost_ns -= (double)costs->step_ns;
  }
  r->busy_until_ns = now_ns + whole_ns(m->cost_ns);
  queue_sample(m, r, fetched);
  return result;
}

// True if a block that has quit must start again at once.
static bool must_start(struct rank *r) {
  return (r->block.queue.count && rondo_block_can_move(&r->block)) || rondo_sq_has_entry(&r->sq);
}

// Decides when the block steps next.
static void step_end(struct rondo_schedule_machine *m, struct rank *r, int result,
                     uint64_t preemptions_before) {
  struct rondo_block *b = &r->block;
  uint64_t free_ns = r->busy_until_ns;
  bool goes_on = result == RONDO_STEP_PROGRESSED || b->counters.preemptions != preemptions_before ||
                 (rondo_sq_has_entry(&r->sq) && (preempts(m) || b->queue.count == 0));
  if (result == RONDO_STEP_QUIT && must_start(r)) {
    schedule(m, r, free_ns + m->settings.costs.start_ns);
  } else if (result != RONDO_STEP_QUIT && goes_on) {
    schedule(m, r, free_ns);
  } else {
    if (r->state != RANK_WAITS) {
      r->waiting_since_ns = free_ns;
    }
    r->state = RANK_WAITS;
    r->reason = reason_of(r);
    r->timer_ns = later_of(timer_of(m, r), free_ns);
  }
}

static void rank_step(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  uint64_t preemptions = r->block.counters.preemptions;
  int result = block_step(m, r, now_ns);
  completions_take(m, r, r->busy_until_ns);
  if (r->sq_is_full) {
    (void)program_go_on(m, r, r->busy_until_ns);
  }
  step_end(m, r, result, preemptions);
}

// Does what a waiting block does before `until_ns` though nothing arrives.
static void catch_up(struct rondo_schedule_machine *m, struct rank *r, uint64_t until_ns) {
  while (r->state == RANK_WAITS && r->timer_ns < until_ns) {
    uint64_t at_ns = r->timer_ns, preemptions = r->block.counters.preemptions;
    int result = block_step(m, r, at_ns);
    (void)result;
    r->timer_ns = NEVER;
    if (r->block.resident) {
      bool again = r->block.counters.preemptions != preemptions;
      r->timer_ns = again ? r->busy_until_ns : later_of(timer_of(m, r), r->busy_until_ns);
    }
  }
}

// Something has arrived for a waiting block.
static void wake(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  const struct rondo_schedule_costs *costs = &m->settings.costs;
  uint64_t delay_ns = r->block.resident ? costs->poll_ns : costs->start_ns;
  if (now_ns > r->waiting_since_ns) {
    m->totals.blocked_ns[r->reason] += now_ns - r->waiting_since_ns;
  }
  uint64_t at_ns = later_of(now_ns + delay_ns, r->busy_until_ns);
  r->waiting_since_ns = at_ns;
  if (at_ns > now_ns) {
    schedule(m, r, at_ns);
    return;
  }
  r->state = RANK_SCHEDULED;
  rank_step(m, r, now_ns);
}

// --------------------------------------------------------------------- events ---

// The rank's path is from now on that of the message, which the rank has waited for.
static void path_take(struct rank *r, const struct rondo_slot *slot, uint64_t now_ns) {
  memcpy(&r->path, slot->data, sizeof r->path);
  r->path_ns = now_ns;
}

// True if the rank's link could not receive the message so early, because it received others: the
// message arrives later. A link receives messages in the order in which their last bytes come.
static bool arrival_put_off(struct rondo_schedule_machine *m, struct rank *r,
                            const struct rondo_connector *c, struct rondo_slot *slot,
                            const struct rondo_schedule_event *e) {
  uint64_t *until_ns = &r->receives_until_ns[class_of(m, c)], transfer = slot->address;
  struct rondo_schedule_event again = *e;
  slot->address = 0;
  if (transfer == 0 || *until_ns + transfer <= e->at_ns) {
    *until_ns = transfer ? e->at_ns : *until_ns;
    return false;
  }
  again.at_ns = *until_ns += transfer;
  struct rondo_schedule_path path;
  memcpy(&path, slot->data, sizeof path);
  path.link_ns += again.at_ns - e->at_ns;
  memcpy(slot->data, &path, sizeof path);
  rondo_schedule_event_push(&m->events, &again);
  return true;
}

static void arrival_handle(struct rondo_schedule_machine *m, struct rank *r,
                           const struct rondo_schedule_event *e) {
  struct rondo_connector *c = (struct rondo_connector *)(uintptr_t)e->connector;
  struct rondo_slot *slot = rondo_connector_slot(c, e->sequence);
  if (arrival_put_off(m, r, c, slot, e)) {
    return;
  }
  catch_up(m, r, e->at_ns);
  rondo_store_release_u32(&slot->mark, e->sequence + 1);
  rondo_connector_set_flag(c, c->consumer_flag);
  if (r->state != RANK_WAITS) {
    return;
  }
  struct rondo_schedule_path before = r->path;
  uint64_t before_ns = r->path_ns, primitives = r->block.counters.primitives;
  path_take(r, slot, e->at_ns);
  wake(m, r, e->at_ns);
  if (r->state == RANK_WAITS && r->block.counters.primitives == primitives) {
    r->path = before; // it was not what the block waited for
    r->path_ns = before_ns;
  }
}

// True if a collective of the block waits for a credit of the connector.
static bool awaits_credit(const struct rank *r, const struct rondo_connector *c) {
  const struct rondo_block *b = &r->block;
  uint32_t index = (uint32_t)((uintptr_t)c + c->producer_flag - b->flags);
  const struct rondo_wait *wait = rondo_block_wait(b, index);
  if (wait->word == (uintptr_t)&c->consumed + RONDO_WAIT_CHANGES) {
    return true;
  }
  return b->queue.count && b->attempt != RONDO_ATTEMPT_NO_DATA &&
         rondo_task_index(rondo_task_queue_current(&b->queue)) == index;
}

static void credit_handle(struct rondo_schedule_machine *m, struct rank *r,
                          const struct rondo_schedule_event *e) {
  struct rondo_connector *c = (struct rondo_connector *)(uintptr_t)e->connector;
  catch_up(m, r, e->at_ns);
  rondo_store_release_u32(&c->consumed, e->sequence);
  rondo_connector_set_flag(c, c->producer_flag);
  if (r->state == RANK_WAITS && awaits_credit(r, c)) {
    wake(m, r, e->at_ns);
  }
}

static void submission_handle(struct rondo_schedule_machine *m, struct rank *r, uint64_t now_ns) {
  catch_up(m, r, now_ns);
  if (!program_go_on(m, r, now_ns) || r->state != RANK_WAITS) {
    return;
  }
  if (r->block.queue.count == 0) { // nothing else leads here
    r->path.other_ns += now_ns - r->path_ns;
    r->path_ns = now_ns;
  }
  wake(m, r, now_ns);
}

static void event_handle(struct rondo_schedule_machine *m, const struct rondo_schedule_event *e) {
  struct rank *r = &m->ranks[e->rank];
  switch (e->kind) {
  case RONDO_SCHEDULE_ARRIVAL:
    arrival_handle(m, r, e);
    break;
  case RONDO_SCHEDULE_CREDIT:
    credit_handle(m, r, e);
    break;
  case RONDO_SCHEDULE_STEP:
    rank_step(m, r, e->at_ns);
    break;
  default:
    submission_handle(m, r, e->at_ns);
  }
}

// ---------------------------------------------------------------------- setup ---

struct rondo_schedule_machine *
rondo_schedule_machine_create(const struct rondo_schedule_settings *settings) {
  struct rondo_schedule_machine *m = rondo_sim_calloc(1, sizeof *m);
  m->settings = *settings;
  m->ranks = rondo_sim_calloc(settings->rank_count, sizeof *m->ranks);
  m->gate.state = RONDO_GATE_OPEN;
  m->gate.last_run = UINT64_MAX;
  m->cq_ring = rondo_sim_calloc(1, rondo_cq_ring_bytes(CQ_ENTRIES));
  rondo_cq_ring_init((struct rondo_cq_ring *)(void *)m->cq_ring, CQ_ENTRIES, 0);
  rondo_cq_producers_init(&m->cq, (uintptr_t)m->cq_ring, CQ_ENTRIES, 0);
  rondo_cq_consumer_init(&m->completions, (uintptr_t)m->cq_ring, CQ_ENTRIES);
  rondo_sim_rng_begin(&m->rng, settings->seed, 0, 0);
  for (uint32_t i = 0; i < settings->rank_count; i++) {
    m->ranks[i].slowness = 1;
  }
  return m;
}

void rondo_schedule_machine_destroy(struct rondo_schedule_machine *m) {
  if (!m) {
    return;
  }
  for (uint32_t i = 0; i < m->collective_count; i++) {
    free(m->collectives[i].connectors);
    free(m->collectives[i].send);
    free(m->collectives[i].recv);
    free(m->collectives[i].contexts);
  }
  for (uint32_t i = 0; i < SLAB_COUNT; i++) {
    free(m->slabs[i].memory);
  }
  rondo_schedule_event_queue_fini(&m->events);
  free(m->collectives);
  free(m->ended);
  free(m->cq_ring);
  free(m->ranks);
  free(m);
}

void rondo_schedule_machine_add(struct rondo_schedule_machine *m,
                                const struct rondo_schedule_layout *layout,
                                const struct rondo_schedule_link *links) {
  RONDO_SIM_GROW(m->collectives, m->collective_count, m->collective_capacity, 16);
  struct collective *c = &m->collectives[m->collective_count++];
  *c = (struct collective){.layout = layout};
  memcpy(c->links, links, sizeof c->links);
}

void rondo_schedule_machine_delay(struct rondo_schedule_machine *m, uint32_t rank, uint64_t ns) {
  m->ranks[rank].late_ns = ns;
}

void rondo_schedule_machine_slow(struct rondo_schedule_machine *m, uint32_t rank, double factor) {
  m->ranks[rank].slowness = factor;
}

static void slab_make(struct rondo_schedule_machine *m, enum slab_kind kind, uint64_t bytes) {
  uint64_t stride = (bytes + 7) / 8 * 8;
  m->slabs[kind].stride = stride;
  m->slabs[kind].memory = rondo_sim_calloc(m->settings.rank_count, stride);
}

static uint32_t sq_entries(const struct rondo_schedule_machine *m) {
  uint32_t entries = 1;
  while (entries < m->collective_count && entries < MOST_SQ_ENTRIES) {
    entries *= 2;
  }
  return entries;
}

static void slabs_make(struct rondo_schedule_machine *m) {
  uint64_t count = m->collective_count;
  uint64_t pages = (count + RONDO_TABLE_PAGE - 1) / RONDO_TABLE_PAGE;
  slab_make(m, SLAB_TABLE, pages * sizeof(uint64_t));
  slab_make(m, SLAB_ENTRIES, count * sizeof(struct rondo_device_collective));
  slab_make(m, SLAB_TASKS, count * sizeof(uint32_t));
  slab_make(m, SLAB_WAITS, count * sizeof(struct rondo_wait));
  slab_make(m, SLAB_FLAGS, rondo_block_flags_bytes((uint32_t)count));
  slab_make(m, SLAB_READY, rondo_block_flags_bytes((uint32_t)count));
  slab_make(m, SLAB_SQ, rondo_sq_ring_bytes(sq_entries(m)));
  slab_make(m, SLAB_MEMBERS, count * sizeof(struct member));
  slab_make(m, SLAB_ORDER, m->settings.shuffles ? count * sizeof(uint32_t) : 0);
}

static void rank_make(struct rondo_schedule_machine *m, uint32_t rank) {
  struct rank *r = &m->ranks[rank];
  struct rondo_device_table *table = slab_at(m, SLAB_TABLE, rank);
  struct rondo_device_collective *entries = slab_at(m, SLAB_ENTRIES, rank);
  struct rondo_sq_consumer source;
  uint64_t ring = (uintptr_t)slab_at(m, SLAB_SQ, rank);
  const struct rondo_block_tasks tasks = {slab_at(m, SLAB_TASKS, rank),
                                          slab_at(m, SLAB_WAITS, rank), m->collective_count};
  for (uint32_t i = 0; i < m->collective_count; i += RONDO_TABLE_PAGE) {
    ((uint64_t *)(void *)table)[i / RONDO_TABLE_PAGE] = (uintptr_t)&entries[i];
  }
  for (uint32_t i = 0; i < m->collective_count; i++) {
    entries[i].contexts = (uintptr_t)&m->collectives[i].contexts[rank];
    entries[i].block_count = 1;
  }
  r->core = (struct rondo_daemon_core){.cq = &m->cq,
                                       .table = table,
                                       .exit = &m->exit,
                                       .policy = m->settings.policy,
                                       .quit_period_ns = m->settings.quit_period_ns,
                                       .residency_ns = m->settings.residency_ns,
                                       .block_count = 1};
  rondo_sq_ring_init((struct rondo_sq_ring *)(uintptr_t)ring, sq_entries(m), 0);
  rondo_sq_producer_init(&r->sq, ring, sq_entries(m), 0);
  rondo_sq_consumer_init(&source, ring, sq_entries(m), 0);
  rondo_block_init(&r->block, &r->core, &source, 0, &tasks);
  rondo_block_use_flags(&r->block, slab_at(m, SLAB_FLAGS, rank), slab_at(m, SLAB_READY, rank));
  r->timer_ns = NEVER;
  r->reason = RONDO_SCHEDULE_NO_WORK;
  order_draw(m, rank, 0);
  submit_later(m, r, r->late_ns);
}

// The distance from a connector to the ready flag of a collective in a rank's block.
static uint64_t flag_distance(const struct rondo_schedule_machine *m, uint32_t rank, uint32_t index,
                              const struct rondo_connector *c) {
  return (uintptr_t)slab_at(m, SLAB_FLAGS, rank) + index - (uintptr_t)c;
}

static void connectors_make(struct rondo_schedule_machine *m, uint32_t index) {
  struct collective *coll = &m->collectives[index];
  const struct rondo_schedule_layout *l = coll->layout;
  coll->stride = rondo_connector_bytes(l->shape.slot_count);
  coll->connectors = rondo_sim_alloc(l->link_count * coll->stride);
  coll->send = rondo_sim_alloc(l->link_count * sizeof *coll->send);
  coll->recv = rondo_sim_alloc(l->link_count * sizeof *coll->recv);
  for (uint32_t rank = 0; rank < l->shape.nranks; rank++) {
    for (uint32_t i = l->send_first[rank]; i < l->send_first[rank + 1]; i++) {
      struct rondo_connector *c =
          (struct rondo_connector *)(void *)(coll->connectors + i * coll->stride);
      c->payload = 0; // no chunk is ever looked at
      c->slot_count = l->shape.slot_count;
      c->slot_bytes = l->shape.slot_bytes;
      c->reference_bytes = RONDO_REFERENCES_NONE;
      c->reads_private = 0;
      c->producer_rank = rank;
      c->consumer_rank = l->receivers[i];
      rondo_connector_init(c, 0);
      c->producer_flag = flag_distance(m, rank, index, c);
      c->consumer_flag = flag_distance(m, l->receivers[i], index, c);
      rondo_endpoint_init(&coll->send[i], c, 0);
    }
  }
  for (uint32_t i = 0; i < l->link_count; i++) {
    const char *c = coll->connectors + l->recv_links[i] * coll->stride;
    rondo_endpoint_init(&coll->recv[i], (const struct rondo_connector *)(const void *)c, 0);
  }
}

static void contexts_make(struct rondo_schedule_machine *m, uint32_t index) {
  struct collective *coll = &m->collectives[index];
  const struct rondo_schedule_layout *l = coll->layout;
  coll->contexts = rondo_sim_calloc(l->shape.nranks, sizeof *coll->contexts);
  for (uint32_t rank = 0; rank < l->shape.nranks; rank++) {
    const struct rondo_schedule_program *p = &l->programs[l->program_of[rank]];
    struct rondo_task_context *c = &coll->contexts[rank];
    c->fixed = (struct rondo_context_static){
        .ops = (uintptr_t)p->ops,
        .gate = (uintptr_t)&m->gate,
        .send_table = (uintptr_t)&coll->send[l->send_first[rank]],
        .recv_table = (uintptr_t)&coll->recv[l->recv_first[rank]],
        .geometry = l->geometry,
        .index = index,
        .elem_bytes = l->elem_bytes,
        .first_pass = p->first_pass,
        .op_count = p->op_count,
        .urgency = 128,
        .send_peer_count = (uint16_t)(l->send_first[rank + 1] - l->send_first[rank])};
    c->state.bound_send = c->state.bound_recv = RONDO_PLAN_NO_PEER;
  }
}

static void machine_start(struct rondo_schedule_machine *m) {
  m->started = true;
  slabs_make(m);
  for (uint32_t i = 0; i < m->collective_count; i++) {
    connectors_make(m, i);
    contexts_make(m, i);
  }
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    rank_make(m, i);
  }
}

// ------------------------------------------------------------------------ run ---

static int outcome_of(const struct rondo_schedule_machine *m) {
  uint64_t all = (uint64_t)m->settings.rank_count * m->collective_count * m->settings.iterations;
  return m->ended_count == all ? RONDO_SCHEDULE_DONE : RONDO_SCHEDULE_DEADLOCK;
}

int rondo_schedule_machine_run(struct rondo_schedule_machine *m, uint64_t events) {
  struct rondo_schedule_event e;
  running = m;
  if (!m->started) {
    machine_start(m);
  }
  while (m->totals.outcome == RONDO_SCHEDULE_RUNNING && events-- > 0) {
    if (rondo_schedule_event_pop(&m->events, &e)) {
      m->totals.events++;
      event_handle(m, &e);
    } else {
      m->totals.outcome = outcome_of(m);
    }
  }
  return m->totals.outcome;
}

struct rondo_schedule_totals rondo_schedule_machine_totals(const struct rondo_schedule_machine *m) {
  struct rondo_schedule_totals t = m->totals;
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    const struct rondo_block_counters *c = &m->ranks[i].block.counters;
    t.steps += c->steps;
    t.primitives += c->primitives;
    t.preemptions += c->preemptions;
    t.loads += c->context_loads;
    t.saves += c->context_saves;
    t.quits += c->quits;
    t.most_rank_bytes = later_of(t.most_rank_bytes, m->ranks[i].sent_bytes);
  }
  t.runs_ended = m->ended_count;
  return t;
}

const struct rondo_schedule_ended *
rondo_schedule_machine_ended(const struct rondo_schedule_machine *m, uint64_t *count) {
  *count = m->ended_count;
  return m->ended;
}

uint64_t rondo_schedule_machine_now_ns(const struct rondo_schedule_machine *m) {
  return m->events.now_ns;
}

int rondo_schedule_machine_standing(const struct rondo_schedule_machine *m, uint32_t rank,
                                    uint32_t collective) {
  const struct member *member = member_of(m, rank, collective);
  const struct rondo_block *b = &m->ranks[rank].block;
  if (member->runs_ended > m->ranks[rank].iteration) {
    return RONDO_SCHEDULE_ENDED;
  }
  if (member->runs_submitted == member->runs_ended) { // calls that find the SQ full are queued, too
    return m->ranks[rank].sq_is_full ? RONDO_SCHEDULE_QUEUED : RONDO_SCHEDULE_NOT_SUBMITTED;
  }
  bool is_queued = false;
  for (uint32_t i = 0; i < b->queue.count; i++) {
    is_queued |= rondo_task_index(rondo_task_entries(&b->queue)[i]) == collective;
  }
  return is_queued ? RONDO_SCHEDULE_STARTED : RONDO_SCHEDULE_QUEUED;
}
