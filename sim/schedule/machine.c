#include "sim/schedule/machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/cost.h"
#include "sim/schedule/machine_state.h"

#define NEVER RONDO_SCHEDULE_NEVER

// The machine whose block steps on this thread.
static _Thread_local struct rondo_schedule_machine *running;

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

// NOLINTNEXTLINE(readability-function-size): each parameter is an operand
void rondo_move_quantise(const struct rondo_reduction *r, int quantisation, void *packed, void *dst,
                         const void *local, const void *incoming, uint64_t count) {
  (void)quantisation;
  rondo_move_reduce(r, packed, dst, local, incoming, count, 0);
}

void rondo_move_dequantise(int quantisation, void *dst, const void *packed, uint64_t count) {
  (void)quantisation;
  rondo_move_copy(dst, NULL, packed, count * sizeof(float));
}

void rondo_move_finish(void) {}

// No connector has packets here: only the cost of messages is theirs (link_of).
void rondo_move_pack(const struct rondo_reduction *r, struct rondo_packets to, const void *local,
                     uint64_t count) {
  (void)r, (void)to, (void)local, (void)count;
}

// NOLINTNEXTLINE(readability-function-size): each parameter is an operand
bool rondo_move_unpack(const struct rondo_reduction *r, void *dst, struct rondo_packets from,
                       const void *local, uint64_t count, int final) {
  (void)r, (void)dst, (void)from, (void)local, (void)count, (void) final;
  return false;
}

// ------------------------------------------------------------------- messages ---

static uint32_t class_of(const struct rondo_schedule_machine *m, const struct rondo_connector *c) {
  uint32_t size = m->settings.machine_ranks;
  return size < m->settings.rank_count && c->producer_rank / size != c->consumer_rank / size;
}

// The link that the messages of the context's op take. Those of packets cost what the model says.
static struct rondo_schedule_link link_of(const struct rondo_schedule_machine *m,
                                          const struct rondo_task_context *context,
                                          uint32_t class) {
  struct rondo_schedule_link link = m->collectives[context->fixed.generation].links[class];
  if (rondo_context_op(context)->primitive & RONDO_PRIM_PACKETS) {
    link.overhead_ns *= RONDO_COST_PACKETS_MESSAGE;
    link.overhead_byte_ns *= RONDO_COST_PACKETS_BYTE;
    link.gap_ns *= RONDO_COST_PACKETS_MESSAGE;
    link.byte_ns *= RONDO_COST_PACKETS_BYTE;
  }
  return link;
}

static struct rondo_schedule_port *port_of(const struct rondo_schedule_machine *m, uint32_t class,
                                           uint32_t rank) {
  return &m->ports[class][m->port_of[class][rank]];
}

// How long `bytes` occupy the link.
static uint64_t transfer_ns(const struct rondo_schedule_link *link, uint32_t bytes) {
  if (link->counts_gaps) {
    return rondo_schedule_whole_ns(link->gap_ns) +
           (uint64_t)((double)(bytes ? bytes - 1 : 0) * link->byte_ns + 1e-6);
  }
  return rondo_schedule_whole_ns(link->gap_ns + (double)bytes * link->byte_ns);
}

// The path of a message is in the slot's data, and its transfer time is the slot's address until it
// arrives. Then that is the word again, which the message of an all-to-all-v has there; in between
// the word is kept behind the path.
#define PATH_BYTES (offsetof(struct rondo_schedule_path, messages) + sizeof(uint32_t))
static_assert(PATH_BYTES + sizeof(uint32_t) <= RONDO_CONNECTOR_INLINE_BYTES, "see there");

static void word_keep(struct rondo_slot *slot) {
  uint32_t word = (uint32_t)slot->address; // rondo_schedule_layout_create sees to it that it fits
  memcpy(slot->data + PATH_BYTES, &word, sizeof word);
}

static void word_restore(struct rondo_slot *slot) {
  uint32_t word;
  memcpy(&word, slot->data + PATH_BYTES, sizeof word);
  slot->address = word;
}

// How long a core works on a message at one of its ends.
static double overhead_ns(const struct rondo_schedule_link *link, const struct rondo_slot *slot) {
  return link->overhead_ns + link->overhead_byte_ns * (double)(slot->bytes & ~RONDO_SLOT_REFERENCE);
}

static double receive_ns(const struct rondo_schedule_machine *m,
                         const struct rondo_task_context *context, const struct rondo_endpoint *e) {
  const struct rondo_connector *c = rondo_endpoint_connector(e);
  const struct rondo_schedule_link link = link_of(m, context, class_of(m, c));
  return overhead_ns(&link, rondo_endpoint_slot(e));
}

// A message of the block that steps: when it leaves, and when it arrives.
bool rondo_simulate_publish(const struct rondo_endpoint *e) {
  struct rondo_schedule_machine *m = running;
  struct rondo_schedule_rank *r = m->stepping;
  const struct rondo_task_context *context = &rondo_slot_at_cursor(&r->block)->context;
  struct rondo_connector *c = rondo_endpoint_connector(e);
  struct rondo_slot *slot = rondo_endpoint_slot(e);
  if (m->settings.is_at_once) {
    rondo_schedule_flag_set(&m->ranks[c->consumer_rank], c, c->consumer_flag);
    return false;
  }
  uint32_t bytes = slot->bytes & ~RONDO_SLOT_REFERENCE, class = class_of(m, c);
  const struct rondo_schedule_link link = link_of(m, context, class);
  struct rondo_schedule_port *port = port_of(m, class, c->producer_rank);
  bool receives = (rondo_context_op(context)->primitive & RONDO_PRIM_RECV) != 0;
  m->cost_ns += overhead_ns(&link, slot);
  m->cost_ns += receives ? receive_ns(m, context, rondo_context_recv(context)) : 0;
  m->received = receives;
  uint64_t ready_ns = m->now_ns + rondo_schedule_whole_ns(m->cost_ns);
  uint64_t leaves_ns = later_of(ready_ns, port->sends_until_ns);
  uint64_t transfer = transfer_ns(&link, bytes);
  uint64_t latency = rondo_schedule_whole_ns(rondo_schedule_jittered(m, link.latency_ns));
  struct rondo_schedule_path path = r->path;
  port->sends_until_ns = leaves_ns + transfer;
  port->busy_ns += transfer;
  port->bytes += bytes;
  r->sent_bytes += bytes;
  m->totals.traffic[class].messages++;
  m->totals.traffic[class].bytes += bytes;
  path.block_ns += ready_ns - r->path_ns;
  path.link_ns += leaves_ns - ready_ns;
  path.transfer_ns += transfer;
  path.latency_ns += latency;
  path.messages++;
  memcpy(slot->data, &path, PATH_BYTES);
  word_keep(slot);
  slot->address = transfer;
  rondo_schedule_event_push(&m->events,
                            &(struct rondo_schedule_event){.at_ns = leaves_ns + transfer + latency,
                                                           .key = e->connector,
                                                           .kind = RONDO_SCHEDULE_ARRIVAL,
                                                           .rank = c->consumer_rank,
                                                           .sequence = e->sequence});
  return true;
}

bool rondo_simulate_consume(const struct rondo_endpoint *e) {
  struct rondo_schedule_machine *m = running;
  const struct rondo_task_context *context = &rondo_slot_at_cursor(&m->stepping->block)->context;
  struct rondo_connector *c = rondo_endpoint_connector(e);
  if (m->settings.is_at_once) {
    rondo_schedule_flag_set(&m->ranks[c->producer_rank], c, c->producer_flag);
    return false;
  }
  const struct rondo_schedule_link link = link_of(m, context, class_of(m, c));
  if (!m->received) {
    m->cost_ns += overhead_ns(&link, rondo_connector_slot(c, e->sequence - 1)); // the consumed one
  }
  m->received = false;
  rondo_schedule_event_push(
      &m->events, &(struct rondo_schedule_event){
                      .at_ns = m->now_ns + rondo_schedule_whole_ns(m->cost_ns) +
                               rondo_schedule_whole_ns(rondo_schedule_jittered(m, link.latency_ns)),
                      .key = e->connector,
                      .kind = RONDO_SCHEDULE_CREDIT,
                      .rank = c->producer_rank,
                      .sequence = e->sequence});
  return true;
}

// ---------------------------------------------------------------------- steps ---

// Plans a step of the block in place of the one that was planned before, if any.
void rondo_schedule_step_plan(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                              uint64_t at_ns) {
  rondo_schedule_event_push(&m->events,
                            &(struct rondo_schedule_event){.at_ns = at_ns,
                                                           .kind = RONDO_SCHEDULE_STEP,
                                                           .rank = rondo_schedule_rank_number(m, r),
                                                           .sequence = ++r->planned});
}

static void schedule(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                     uint64_t at_ns) {
  r->state = RONDO_SCHEDULE_SCHEDULED;
  rondo_schedule_step_plan(m, r, at_ns);
}

// A run of the rank has ended.
static void run_end(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r, uint32_t index,
                    uint64_t now_ns) {
  struct rondo_schedule_member *member = rondo_schedule_member_of(m, r, index);
  uint32_t number = member->oldest;
  struct rondo_schedule_run *run = &m->arrays.runs[number];
  RONDO_SIM_GROW(m->ended, m->ended_count, m->ended_capacity, 1024);
  m->ended[m->ended_count++] = (struct rondo_schedule_ended){
      run->submitted_ns, now_ns, rondo_schedule_rank_number(m, r), member->collective};
  run->iteration_ended = r->iteration + 1;
  member->oldest = run->next;
  member->outstanding--;
  if (member->given-- > RONDO_DEVICE_RUNS) {
    rondo_schedule_run_push(r, member, index);
  }
  if (now_ns >= m->totals.makespan_ns) {
    m->totals.makespan_ns = now_ns;
    m->totals.path = r->path;
    m->totals.path.block_ns += now_ns - r->path_ns;
  }
  bool is_awaited = r->awaited == number;
  if (is_awaited) {
    r->awaited = RONDO_SCHEDULE_NO_CALL;
  }
  r->ended++;
  if (r->walk) {
    rondo_schedule_walk_run_ends(m, r, number - r->first_call, now_ns);
  } else if (r->ended == r->call_count || is_awaited) {
    rondo_schedule_program_resume(m, r, now_ns);
  }
}

// ---------------------------------------------------------------------- steps ---

static bool preempts(const struct rondo_schedule_machine *m) {
  return m->settings.policy.budget != RONDO_BUDGET_NEVER;
}

// True if a look of the stuck block may find another collective: one that could go on before, but
// the block retries a stuck one for look_ns first. Without look_ns the block has just looked.
static bool may_find_other(const struct rondo_schedule_machine *m, struct rondo_schedule_rank *r) {
  return preempts(m) && m->settings.policy.look_ns && r->block.resident &&
         (r->block.queue.count > 1 || (r->block.queue.count && rondo_sq_has_entry(&r->sq)));
}

// When a stuck block would do something if nothing arrived: preempt, look, or quit.
static uint64_t timer_of(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r) {
  struct rondo_block *b = &r->block;
  const struct rondo_policy *p = &m->settings.policy;
  if (!b->resident || (b->queue.count && !preempts(m))) {
    return NEVER;
  }
  uint64_t timer = b->last_progress_ns + m->settings.quit_period_ns;
  if (b->queue.count < 2) {
    uint64_t look = may_find_other(m, r) ? b->looked_ns + p->look_ns : NEVER;
    return look < timer ? look : timer;
  }
  const struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  uint64_t budget = slot->blocked_since_ns + rondo_block_budget(b, slot);
  timer = budget < timer ? budget : timer;
  uint64_t look = later_of(slot->blocked_since_ns, b->looked_ns) + p->look_ns;
  return p->look_ns && look < timer ? look : timer;
}

static uint8_t reason_of(const struct rondo_schedule_rank *r) {
  if (r->block.queue.count == 0) {
    return RONDO_SCHEDULE_NO_WORK;
  }
  return r->block.attempt == RONDO_ATTEMPT_NO_CREDIT ? RONDO_SCHEDULE_NO_CREDIT
                                                     : RONDO_SCHEDULE_NO_DATA;
}

static void completions_take(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                             uint64_t now_ns) {
  struct rondo_cqe cqe;
  while (rondo_cq_try_pop(&m->completions, &cqe)) {
    run_end(m, r, cqe.collective, now_ns);
  }
}

static void queue_sample(struct rondo_schedule_machine *m, const struct rondo_schedule_rank *r,
                         uint64_t fetched_before) {
  uint64_t fetched = r->block.counters.fetched - fetched_before;
  if (fetched == 0) {
    return; // and the queue is no longer
  }
  m->totals.queue_sum += fetched * r->block.queue.count;
  m->totals.queue_samples += fetched;
  if (r->block.queue.count > m->totals.queue_most) {
    m->totals.queue_most = r->block.queue.count;
  }
}

// One step of the block. Returns its result and sets when the block is free again.
static int block_step(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                      uint64_t now_ns) {
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
  if (b->counters.context_loads != loads) {
    m->cost_ns += (double)((b->counters.context_loads - loads) * costs->load_ns);
  }
  if (result != RONDO_STEP_PROGRESSED) {
    m->cost_ns -= (double)costs->step_ns;
  }
  r->busy_until_ns = now_ns + rondo_schedule_whole_ns(m->cost_ns);
  queue_sample(m, r, fetched);
  rondo_schedule_lengths_sample(&m->lengths, now_ns, b->queue.count);
  return result;
}

// True if a block that has quit must start again at once.
static bool must_start(struct rondo_schedule_rank *r) {
  return (r->block.queue.count && rondo_block_can_move(&r->block)) || rondo_sq_has_entry(&r->sq);
}

// Decides when the block steps next.
static void step_end(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r, int result,
                     uint64_t preemptions_before) {
  struct rondo_block *b = &r->block;
  uint64_t free_ns = r->busy_until_ns;
  if (result == RONDO_STEP_QUIT) {
    rondo_schedule_sync_end(m, r, free_ns);
  }
  bool goes_on = result == RONDO_STEP_PROGRESSED || b->counters.preemptions != preemptions_before ||
                 (rondo_sq_has_entry(&r->sq) &&
                  rondo_policy_should_fetch(&m->settings.policy, b->queue.count, (int)b->stalled));
  if (result == RONDO_STEP_QUIT && must_start(r)) {
    schedule(m, r, free_ns + m->settings.costs.start_ns);
  } else if (result != RONDO_STEP_QUIT && goes_on) {
    schedule(m, r, free_ns);
  } else {
    if (r->state != RONDO_SCHEDULE_WAITS) {
      r->waiting_since_ns = free_ns;
    }
    r->state = RONDO_SCHEDULE_WAITS;
    r->reason = reason_of(r);
    r->timer_ns = later_of(timer_of(m, r), free_ns);
    r->planned++; // nothing is planned
    if (may_find_other(m, r) || (r->syncs && r->timer_ns != NEVER)) {
      rondo_schedule_step_plan(m, r, r->timer_ns);
    }
  }
}

static void rank_step(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                      uint64_t now_ns) {
  uint64_t preemptions = r->block.counters.preemptions;
  uint64_t again_ns;
  if (!rondo_schedule_core_ask(m, r, RONDO_SCHEDULE_CORE_STEP, now_ns, &again_ns)) {
    m->totals.blocked_ns[RONDO_SCHEDULE_NO_CORE] += again_ns - now_ns;
    schedule(m, r, again_ns);
    return;
  }
  int result = block_step(m, r, now_ns);
  if (r->busy_until_ns > now_ns) {
    rondo_schedule_core_take(m, r, r->busy_until_ns);
  }
  completions_take(m, r, r->busy_until_ns);
  step_end(m, r, result, preemptions);
}

// Does what a waiting block does in vain before `until_ns`.
static void catch_up(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                     uint64_t until_ns) {
  while (r->state == RONDO_SCHEDULE_WAITS && r->timer_ns < until_ns) {
    uint64_t at_ns = r->timer_ns, preemptions = r->block.counters.preemptions;
    rondo_schedule_look_ahead_in_queue(m, r);
    (void)block_step(m, r, at_ns);
    r->timer_ns = NEVER;
    if (r->block.resident) {
      bool again = r->block.counters.preemptions != preemptions;
      r->timer_ns = again ? r->busy_until_ns : later_of(timer_of(m, r), r->busy_until_ns);
    }
  }
}

// The wait of a block ends after `delay_ns`, or when the block is free.
static void wait_end(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                     uint64_t now_ns, uint64_t delay_ns) {
  if (now_ns > r->waiting_since_ns) {
    m->totals.blocked_ns[r->reason] += now_ns - r->waiting_since_ns;
  }
  uint64_t at_ns = later_of(now_ns + delay_ns, r->busy_until_ns);
  r->waiting_since_ns = at_ns;
  if (at_ns > now_ns) {
    schedule(m, r, at_ns);
    return;
  }
  r->state = RONDO_SCHEDULE_SCHEDULED;
  rank_step(m, r, now_ns);
}

// Something has arrived for a waiting block.
static void wake(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r, uint64_t now_ns) {
  const struct rondo_schedule_costs *costs = &m->settings.costs;
  wait_end(m, r, now_ns, r->block.resident ? costs->poll_ns : costs->start_ns);
}

// The step of a block that is due, unless another one was planned in its place.
static void step_handle(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                        const struct rondo_schedule_event *e) {
  if (e->sequence != r->planned) {
    return;
  }
  if (r->state == RONDO_SCHEDULE_WAITS) {
    wait_end(m, r, e->at_ns, 0);
  } else {
    rank_step(m, r, e->at_ns);
  }
}

// --------------------------------------------------------------------- events ---

// The rank's path is from now on that of the message, which the rank has waited for.
static void path_take(struct rondo_schedule_rank *r, const struct rondo_slot *slot,
                      uint64_t now_ns) {
  memcpy(&r->path, slot->data, PATH_BYTES);
  r->path_ns = now_ns;
}

// True if the rank's link could not receive the message so early, because it received others: the
// message arrives later. A link receives messages in the order in which their last bytes come.
static bool arrival_put_off(struct rondo_schedule_machine *m, const struct rondo_connector *c,
                            struct rondo_slot *slot, const struct rondo_schedule_event *e) {
  uint64_t *until_ns = &port_of(m, class_of(m, c), c->consumer_rank)->receives_until_ns;
  uint64_t transfer = slot->address;
  struct rondo_schedule_event again = *e;
  slot->address = 0;
  if (transfer == 0 || *until_ns + transfer <= e->at_ns) {
    *until_ns = transfer ? e->at_ns : *until_ns;
    return false;
  }
  again.at_ns = *until_ns += transfer;
  struct rondo_schedule_path path;
  memcpy(&path, slot->data, PATH_BYTES);
  path.link_ns += again.at_ns - e->at_ns;
  memcpy(slot->data, &path, PATH_BYTES);
  rondo_schedule_event_push(&m->events, &again);
  return true;
}

static void arrival_handle(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                           const struct rondo_schedule_event *e) {
  struct rondo_connector *c = (struct rondo_connector *)(uintptr_t)e->key;
  struct rondo_slot *slot = rondo_connector_slot(c, e->sequence);
  if (arrival_put_off(m, c, slot, e)) {
    return;
  }
  word_restore(slot);
  catch_up(m, r, e->at_ns);
  rondo_store_release_u32(&slot->mark, e->sequence + 1);
  rondo_schedule_flag_set(r, c, c->consumer_flag);
  if (r->state != RONDO_SCHEDULE_WAITS) {
    return;
  }
  struct rondo_schedule_path before = r->path;
  uint64_t before_ns = r->path_ns, primitives = r->block.counters.primitives;
  path_take(r, slot, e->at_ns);
  wake(m, r, e->at_ns);
  if (r->state == RONDO_SCHEDULE_WAITS && r->block.counters.primitives == primitives) {
    r->path = before; // it was not what the block waited for
    r->path_ns = before_ns;
  }
}

// True if a collective of the block waits for a credit of the connector.
static bool awaits_credit(const struct rondo_schedule_rank *r, const struct rondo_connector *c) {
  const struct rondo_block *b = &r->block;
  uint32_t index = (uint32_t)((uintptr_t)c + c->producer_flag - b->flags);
  const struct rondo_wait *wait = rondo_block_wait(b, index);
  if (wait->word == (uintptr_t)&c->consumed + RONDO_WAIT_CHANGES) {
    return true;
  }
  return b->queue.count && b->attempt != RONDO_ATTEMPT_NO_DATA &&
         rondo_task_index(rondo_task_queue_current(&b->queue)) == index;
}

static void credit_handle(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                          const struct rondo_schedule_event *e) {
  struct rondo_connector *c = (struct rondo_connector *)(uintptr_t)e->key;
  catch_up(m, r, e->at_ns);
  rondo_store_release_u32(&c->consumed, e->sequence);
  rondo_schedule_flag_set(r, c, c->producer_flag);
  if (r->state == RONDO_SCHEDULE_WAITS && awaits_credit(r, c)) {
    wake(m, r, e->at_ns);
  }
}

// The daemon was given runs.
static void rouse(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                  uint64_t now_ns) {
  if (r->state != RONDO_SCHEDULE_WAITS) {
    return;
  }
  if (r->block.queue.count == 0) { // nothing else leads here
    r->path.other_ns += now_ns - r->path_ns;
    r->path_ns = now_ns;
  }
  wake(m, r, now_ns);
}

static void submission_handle(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                              const struct rondo_schedule_event *e) {
  catch_up(m, r, e->at_ns);
  if (r->walk ? rondo_schedule_walk_go_on(m, r, e->key, e->at_ns)
              : rondo_schedule_program_go_on(m, r, e->at_ns)) {
    rouse(m, r, e->at_ns);
  }
}

void rondo_schedule_run_deliver(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                uint32_t index, uint64_t now_ns) {
  catch_up(m, r, now_ns);
  if (rondo_schedule_run_give(r, rondo_schedule_member_of(m, r, index), index)) {
    rouse(m, r, now_ns);
  }
}

static void event_handle(struct rondo_schedule_machine *m, const struct rondo_schedule_event *e) {
  struct rondo_schedule_rank *r = &m->ranks[e->rank];
  switch (e->kind) {
  case RONDO_SCHEDULE_ARRIVAL:
    arrival_handle(m, r, e);
    break;
  case RONDO_SCHEDULE_CREDIT:
    credit_handle(m, r, e);
    break;
  case RONDO_SCHEDULE_STEP:
    step_handle(m, r, e);
    break;
  default:
    if (e->sequence == RONDO_SCHEDULE_PROGRAM) {
      submission_handle(m, r, e);
    } else if (e->sequence == RONDO_SCHEDULE_COMPUTE) {
      rondo_schedule_compute_go_on(m, r, e->at_ns);
    } else {
      rondo_schedule_order_round(m, e->sequence, e->at_ns);
    }
  }
}

// ------------------------------------------------------------------------ run ---

int rondo_schedule_machine_run(struct rondo_schedule_machine *m, uint64_t events) {
  struct rondo_schedule_event e;
  running = m;
  if (!m->started) {
    rondo_schedule_machine_start(m);
    rondo_schedule_programs_begin(m);
  }
  while (m->totals.outcome == RONDO_SCHEDULE_RUNNING && events-- > 0) {
    if (rondo_schedule_event_pop(&m->events, &e)) {
      m->totals.events++;
      rondo_schedule_look_ahead(m);
      event_handle(m, &e);
    } else {
      m->totals.outcome =
          m->ended_count == m->totals.runs ? RONDO_SCHEDULE_DONE : RONDO_SCHEDULE_DEADLOCK;
    }
  }
  return m->totals.outcome;
}

void rondo_schedule_machine_turn(struct rondo_schedule_machine *m, uint32_t rank,
                                 const struct rondo_schedule_turn_taken *turn) {
  struct rondo_schedule_rank *r = &m->ranks[rank];
  running = m;
  for (uint32_t i = 0; i < turn->runs; i++) {
    (void)rondo_schedule_call_submit(m, r, turn->now_ns);
  }
  if (turn->looks) {
    (void)rondo_block_can_move(&r->block);
  }
  for (uint32_t i = 0; i < turn->steps; i++) {
    (void)block_step(m, r, turn->now_ns);
    completions_take(m, r, turn->now_ns);
  }
}
