// Makes a machine: memory for all ranks, connectors, contexts and blocks.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/schedule/machine_state.h"

#define CQ_ENTRIES 8u // more than runs can end in one step

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
    m->ranks[i].awaited = RONDO_SCHEDULE_NO_CALL;
  }
  return m;
}

void rondo_schedule_machine_destroy(struct rondo_schedule_machine *m) {
  if (!m) {
    return;
  }
  const struct rondo_schedule_arrays *a = &m->arrays;
  void *const arrays[] = {a->pages,   a->entries, a->tasks, a->places, a->waits,
                          a->members, a->runs,    a->flags, a->ready,  a->queues};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    free(arrays[i]);
  }
  for (uint32_t i = 0; i < RONDO_SCHEDULE_CLASSES; i++) {
    free(m->ports[i]);
    free(m->port_of[i]);
  }
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    rondo_schedule_walk_destroy(m->ranks[i].walk);
  }
  rondo_schedule_cores_fini(m);
  rondo_schedule_event_queue_fini(&m->events);
  rondo_schedule_orders_fini(m);
  free(m->wired);
  free(m->wirings);
  free(m->collectives);
  free(m->ended);
  free(m->cq_ring);
  free(m->ranks);
  free(m);
}

void rondo_schedule_machine_add(struct rondo_schedule_machine *m,
                                const struct rondo_schedule_collective *collective) {
  RONDO_SIM_GROW(m->collectives, m->collective_count, m->collective_capacity, 16);
  m->collectives[m->collective_count++] = *collective;
}

void rondo_schedule_machine_call(struct rondo_schedule_machine *m, uint32_t rank,
                                 const struct rondo_schedule_call *call) {
  struct rondo_schedule_rank *r = &m->ranks[rank];
  if (r->call_count == 0) {
    r->first_call = (uint32_t)m->call_count;
  }
  RONDO_SIM_GROW(m->arrays.runs, m->call_count, m->call_capacity, 64);
  m->arrays.runs[m->call_count++] =
      (struct rondo_schedule_run){.call = *call, .next = RONDO_SCHEDULE_NO_CALL};
  r->call_count++;
}

void rondo_schedule_machine_delay(struct rondo_schedule_machine *m, uint32_t rank, uint64_t ns) {
  m->ranks[rank].late_ns = ns;
}

void rondo_schedule_machine_slow(struct rondo_schedule_machine *m, uint32_t rank, double factor) {
  m->ranks[rank].slowness = factor;
}

static uint32_t rank_at(const struct rondo_schedule_collective *c, uint32_t position) {
  return c->ranks ? c->ranks[position] : position;
}

// -------------------------------------------------------------------- members ---

// Which collectives each rank is in, in the order of their numbers; and its calls in these terms.
static void members_make(struct rondo_schedule_machine *m) {
  struct rondo_schedule_arrays *a = &m->arrays;
  uint32_t first = 0;
  for (uint32_t i = 0; i < m->collective_count; i++) {
    for (uint32_t k = 0; k < m->collectives[i].layout->shape.nranks; k++) {
      m->ranks[rank_at(&m->collectives[i], k)].member_count++;
    }
  }
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    m->ranks[i].first_member = first;
    first += m->ranks[i].member_count;
    m->ranks[i].member_count = 0;
  }
  a->members = rondo_sim_calloc(first, sizeof *a->members);
  a->entries = rondo_sim_calloc(first, sizeof *a->entries);
  a->tasks = rondo_sim_calloc(first, sizeof *a->tasks);
  a->places = rondo_sim_calloc(first, sizeof *a->places);
  a->waits = rondo_sim_calloc(first, sizeof *a->waits);
  for (uint32_t i = 0; i < m->collective_count; i++) {
    for (uint32_t k = 0; k < m->collectives[i].layout->shape.nranks; k++) {
      struct rondo_schedule_rank *r = &m->ranks[rank_at(&m->collectives[i], k)];
      a->members[r->first_member + r->member_count++] =
          (struct rondo_schedule_member){.collective = i,
                                         .position = k,
                                         .oldest = RONDO_SCHEDULE_NO_CALL,
                                         .newest = RONDO_SCHEDULE_NO_CALL};
    }
  }
}

uint32_t rondo_schedule_index_of(const struct rondo_schedule_machine *m,
                                 const struct rondo_schedule_rank *r, uint32_t collective) {
  const struct rondo_schedule_member *members = &m->arrays.members[r->first_member];
  uint32_t low = 0;
  RONDO_SIM_LOWER_BOUND(low, r->member_count, members[middle].collective < collective);
  return low;
}

// From here on a call has the index in its rank's table in place of the collective's number.
static void calls_translate(struct rondo_schedule_machine *m) {
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    const struct rondo_schedule_rank *r = &m->ranks[i];
    for (uint32_t k = 0; k < r->call_count; k++) {
      struct rondo_schedule_call *call = &m->arrays.runs[r->first_call + k].call;
      call->collective = rondo_schedule_index_of(m, r, call->collective);
    }
  }
}

// ---------------------------------------------------------------------- ranks ---

// All runs that the daemon can hold fit into half of the queue, so a push never fails: a block
// releases the entries that it has taken when they fill the other half (rondo_block_fetch).
static uint32_t sq_entries(const struct rondo_schedule_rank *r) {
  uint32_t entries = 2 * RONDO_DEVICE_RUNS;
  while (entries < 2 * RONDO_DEVICE_RUNS * r->member_count) {
    entries *= 2;
  }
  return entries;
}

static uint64_t table_pages(const struct rondo_schedule_rank *r) {
  return (r->member_count + RONDO_TABLE_PAGE - 1) / RONDO_TABLE_PAGE;
}

// Places of the rank's parts in the arrays; the next rank's follow.
struct cursor {
  uint64_t page, flag, queue;
};

static void cursor_advance(struct cursor *at, const struct rondo_schedule_rank *r) {
  at->page += table_pages(r);
  at->flag += rondo_block_flags_bytes(r->member_count);
  at->queue += rondo_sq_ring_bytes(sq_entries(r));
}

static void block_make(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                       const struct cursor *at) {
  struct rondo_schedule_arrays *a = &m->arrays;
  struct rondo_sq_consumer source;
  uint64_t ring = (uintptr_t)&a->queues[at->queue];
  const struct rondo_block_tasks tasks = {&a->tasks[r->first_member], &a->waits[r->first_member],
                                          r->member_count};
  for (uint32_t i = 0; i < table_pages(r); i++) {
    a->pages[at->page + i] = (uintptr_t)&a->entries[r->first_member + i * RONDO_TABLE_PAGE];
  }
  r->core = (struct rondo_daemon_core){
      .cq = &m->cq,
      // Only the pages that the rank has are there.
      .table = (const struct rondo_device_table *)(const void *)&a->pages[at->page],
      .exit = &m->exit,
      .policy = m->settings.policy,
      .quit_period_ns = m->settings.quit_period_ns,
      .residency_ns = m->settings.residency_ns,
      .block_count = 1};
  rondo_sq_ring_init((struct rondo_sq_ring *)(uintptr_t)ring, sq_entries(r), 0);
  rondo_sq_producer_init(&r->sq, ring, sq_entries(r), 0);
  rondo_sq_consumer_init(&source, ring, sq_entries(r), 0);
  rondo_block_init(&r->block, &r->core, &source, 0, &tasks);
  rondo_block_use_flags(&r->block, (uint8_t *)&a->flags[at->flag], (uint8_t *)&a->ready[at->flag]);
}

static void ranks_make(struct rondo_schedule_machine *m) {
  struct rondo_schedule_arrays *a = &m->arrays;
  struct cursor at = {0, 0, 0};
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    cursor_advance(&at, &m->ranks[i]);
  }
  a->pages = rondo_sim_calloc(at.page, sizeof *a->pages);
  a->flags = rondo_sim_calloc(at.flag, 1);
  a->ready = rondo_sim_calloc(at.flag, 1);
  a->queues = rondo_sim_calloc(at.queue, 1);
  at = (struct cursor){0, 0, 0};
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    struct rondo_schedule_rank *r = &m->ranks[i];
    block_make(m, r, &at);
    cursor_advance(&at, r);
    r->places = &a->places[r->first_member];
    r->timer_ns = RONDO_SCHEDULE_NEVER;
    r->reason = RONDO_SCHEDULE_NO_WORK;
    rondo_schedule_order_draw(m, r);
    m->totals.runs += (uint64_t)r->call_count * m->settings.iterations;
  }
}

// The ranks of a machine share its interfaces in turn; inside the machine each has a link.
static void ports_make(struct rondo_schedule_machine *m) {
  uint32_t n = m->settings.rank_count, size = m->settings.machine_ranks;
  uint32_t count = m->settings.interfaces < size ? m->settings.interfaces : size;
  for (uint32_t i = 0; i < RONDO_SCHEDULE_CLASSES; i++) {
    m->ports[i] = rondo_sim_calloc(n, sizeof *m->ports[i]);
    m->port_of[i] = rondo_sim_calloc(n, sizeof *m->port_of[i]);
  }
  for (uint32_t i = 0; i < n; i++) {
    m->port_of[RONDO_SCHEDULE_INSIDE][i] = i;
    m->port_of[RONDO_SCHEDULE_OUTSIDE][i] = i / size * count + i % size % count;
  }
}

// ----------------------------------------------------------------- collectives ---

// The distance from a connector to the ready flag of a collective in a rank's block.
static uint64_t flag_distance(const struct rondo_schedule_machine *m, uint32_t rank,
                              uint32_t collective, const struct rondo_connector *c) {
  const struct rondo_schedule_rank *r = &m->ranks[rank];
  return r->block.flags + rondo_schedule_index_of(m, r, collective) - (uintptr_t)c;
}

// Places the parts of a collective's wiring at the address `at`; from 0 on, only their sizes count.
// Returns the end.
static uintptr_t wiring_place(const struct rondo_schedule_layout *l,
                              struct rondo_schedule_wiring *w, uintptr_t at) {
  w->stride = rondo_connector_bytes(l->shape.slot_count);
  const uint64_t bytes[] = {l->link_count * w->stride, l->shape.nranks * sizeof *w->contexts,
                            l->link_count * sizeof *w->send, l->link_count * sizeof *w->recv};
  void *places[4];
  for (size_t i = 0; i < 4; i++) {
    places[i] = (void *)at;
    at += rondo_round_up(bytes[i], RONDO_LINE_BYTES);
  }
  w->connectors = places[0];
  w->contexts = places[1];
  w->send = places[2];
  w->recv = places[3];
  return at;
}

// Makes the memory of all wirings, which most accesses go to in no order: in large pages, and so
// that no slot and no context has a part in one cache line more than it needs.
static void wirings_make(struct rondo_schedule_machine *m) {
  uintptr_t end = 0;
  m->wirings = rondo_sim_calloc(m->collective_count, sizeof *m->wirings);
  for (uint32_t i = 0; i < m->collective_count; i++) {
    end = wiring_place(m->collectives[i].layout, &m->wirings[i], end);
  }
  m->wired = rondo_sim_alloc_pages(end);
  end = (uintptr_t)m->wired;
  for (uint32_t i = 0; i < m->collective_count; i++) {
    end = wiring_place(m->collectives[i].layout, &m->wirings[i], end);
  }
}

static void connectors_make(struct rondo_schedule_machine *m, uint32_t number) {
  const struct rondo_schedule_collective *coll = &m->collectives[number];
  struct rondo_schedule_wiring *w = &m->wirings[number];
  const struct rondo_schedule_layout *l = coll->layout;
  for (uint32_t k = 0; k < l->shape.nranks; k++) {
    for (uint32_t i = l->send_first[k]; i < l->send_first[k + 1]; i++) {
      struct rondo_connector *c = (struct rondo_connector *)(void *)(w->connectors + i * w->stride);
      c->payload = 0; // no chunk is ever looked at
      c->slot_count = l->shape.slot_count;
      c->slot_bytes = l->shape.slot_bytes;
      c->reference_bytes = RONDO_REFERENCES_NONE;
      c->reads_private = 0;
      c->producer_rank = rank_at(coll, k);
      c->consumer_rank = rank_at(coll, l->receivers[i]);
      rondo_connector_init(c, 0);
      c->producer_flag = flag_distance(m, c->producer_rank, number, c);
      c->consumer_flag = flag_distance(m, c->consumer_rank, number, c);
      rondo_endpoint_init(&w->send[i], c, 0);
      rondo_endpoint_open_send(&w->send[i]);
    }
  }
  for (uint32_t i = 0; i < l->link_count; i++) {
    const char *c = w->connectors + l->recv_links[i] * w->stride;
    rondo_endpoint_init(&w->recv[i], (const struct rondo_connector *)(const void *)c, 0);
    rondo_endpoint_open_recv(&w->recv[i]);
  }
}

static void contexts_make(struct rondo_schedule_machine *m, uint32_t number) {
  const struct rondo_schedule_collective *coll = &m->collectives[number];
  struct rondo_schedule_wiring *w = &m->wirings[number];
  const struct rondo_schedule_layout *l = coll->layout;
  for (uint32_t k = 0; k < l->shape.nranks; k++) {
    const struct rondo_schedule_rank *r = &m->ranks[rank_at(coll, k)];
    const struct rondo_schedule_program *p = &l->programs[l->program_of[k]];
    uint32_t index = rondo_schedule_index_of(m, r, number);
    struct rondo_device_collective *entry = &m->arrays.entries[r->first_member + index];
    struct rondo_task_context *c = &w->contexts[k];
    entry->contexts = (uintptr_t)c;
    entry->block_count = 1;
    entry->generation = number; // so a context tells its collective
    *c = (struct rondo_task_context){0};
    c->fixed = (struct rondo_context_static){
        .ops = (uintptr_t)p->ops,
        .gate = (uintptr_t)&m->gate,
        .send_table = (uintptr_t)&w->send[l->send_first[k]],
        .recv_table = (uintptr_t)&w->recv[l->recv_first[k]],
        .geometry = l->geometry,
        .index = index,
        .generation = number,
        .elem_bytes = l->elem_bytes,
        .first_pass = p->first_pass,
        .op_count = p->op_count,
        .urgency = 128,
        .send_peer_count = (uint16_t)(l->send_first[k + 1] - l->send_first[k])};
    if (l->parts) {
      c->fixed.geometry.listed = (uintptr_t)rondo_schedule_layout_parts(l, k);
    }
    c->state.bound_send = RONDO_PLAN_NO_PEER;
  }
}

void rondo_schedule_machine_start(struct rondo_schedule_machine *m) {
  m->started = true;
  wirings_make(m);
  members_make(m);
  calls_translate(m);
  rondo_schedule_orders_make(m);
  ports_make(m);
  rondo_schedule_cores_make(m);
  ranks_make(m);
  for (uint32_t i = 0; i < m->collective_count; i++) {
    connectors_make(m, i);
    contexts_make(m, i);
  }
}

// The order depends on the seed, the rank and the iteration. Calls that the rank waits for keep
// their places, because orders that differ in them are a deadlock of the programs themselves. So
// does what each call computes.
void rondo_schedule_order_draw(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r) {
  struct rondo_sim_rng rng;
  uint32_t count = 0;
  if (!m->settings.shuffles || r->call_count == 0) {
    return;
  }
  struct rondo_schedule_run *runs = &m->arrays.runs[r->first_call];
  uint32_t *places = rondo_sim_alloc(r->call_count * sizeof *places);
  for (uint32_t i = 0; i < r->call_count; i++) {
    if (!runs[i].call.waits) {
      places[count++] = i;
    }
  }
  rondo_sim_rng_begin(&rng, m->settings.seed, (uint64_t)1 + rondo_schedule_rank_number(m, r),
                      r->iteration);
  for (; count > 1; count--) {
    struct rondo_schedule_call *a = &runs[places[rondo_sim_rng_below(&rng, count)]].call;
    struct rondo_schedule_call *b = &runs[places[count - 1]].call;
    uint32_t collective = a->collective;
    a->collective = b->collective;
    b->collective = collective;
  }
  free(places);
}

// --------------------------------------------------------------------- lengths ---

// Makes bins twice as long, so that there is one for `now_ns`.
static void lengths_fold(struct rondo_schedule_lengths *q, uint64_t now_ns) {
  const uint64_t half = RONDO_SCHEDULE_BINS / 2;
  for (; now_ns >> q->bin_shift >= RONDO_SCHEDULE_BINS; q->bin_shift++) {
    for (uint64_t i = 0; i < half; i++) {
      uint32_t a = q->most[2 * i], b = q->most[2 * i + 1];
      q->sum[i] = q->sum[2 * i] + q->sum[2 * i + 1];
      q->samples[i] = q->samples[2 * i] + q->samples[2 * i + 1];
      q->most[i] = a > b ? a : b;
    }
    memset(&q->sum[half], 0, half * sizeof q->sum[0]);
    memset(&q->samples[half], 0, half * sizeof q->samples[0]);
    memset(&q->most[half], 0, half * sizeof q->most[0]);
  }
}

void rondo_schedule_lengths_sample(struct rondo_schedule_lengths *q, uint64_t now_ns,
                                   uint32_t length) {
  uint64_t bin = now_ns >> q->bin_shift;
  if (bin >= RONDO_SCHEDULE_BINS) {
    lengths_fold(q, now_ns);
    bin = now_ns >> q->bin_shift;
  }
  q->sum[bin] += length;
  q->samples[bin]++;
  q->most[bin] = length > q->most[bin] ? length : q->most[bin];
}

// ----------------------------------------------------------------------- read ---

struct rondo_schedule_totals rondo_schedule_machine_totals(const struct rondo_schedule_machine *m) {
  struct rondo_schedule_totals t = m->totals;
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    const struct rondo_block_counters *c = &m->ranks[i].block.counters;
    uint64_t sent = m->ranks[i].sent_bytes;
    t.steps += c->steps;
    t.primitives += c->primitives;
    t.preemptions += c->preemptions;
    t.loads += c->context_loads;
    t.saves += c->context_saves;
    t.quits += c->quits;
    t.most_rank_bytes = sent > t.most_rank_bytes ? sent : t.most_rank_bytes;
  }
  t.runs_ended = m->ended_count;
  return t;
}

const struct rondo_schedule_ended *
rondo_schedule_machine_ended(const struct rondo_schedule_machine *m, uint64_t *count) {
  *count = m->ended_count;
  return m->ended;
}

const struct rondo_schedule_lengths *
rondo_schedule_machine_lengths(const struct rondo_schedule_machine *m) {
  return &m->lengths;
}

struct rondo_schedule_usage *rondo_schedule_machine_usage(const struct rondo_schedule_machine *m,
                                                          uint32_t *count) {
  uint32_t ranks = m->settings.rank_count;
  struct rondo_schedule_usage *all =
      rondo_sim_alloc((size_t)RONDO_SCHEDULE_CLASSES * ranks * sizeof *all);
  *count = 0;
  for (uint32_t class = 0; class < RONDO_SCHEDULE_CLASSES; class ++) {
    for (uint32_t i = 0; m->ports[class] && i < ranks; i++) {
      const struct rondo_schedule_port *p = &m->ports[class][i];
      if (p->bytes || p->busy_ns) {
        all[(*count)++] = (struct rondo_schedule_usage){p->busy_ns, p->bytes, class, i};
      }
    }
  }
  return all;
}

uint64_t rondo_schedule_machine_now_ns(const struct rondo_schedule_machine *m) {
  return m->events.now_ns;
}

const struct rondo_schedule_collective *
rondo_schedule_machine_collective(const struct rondo_schedule_machine *m, uint32_t collective) {
  return &m->collectives[collective];
}

uint64_t rondo_schedule_machine_syncs_ns(const struct rondo_schedule_machine *m, uint32_t rank) {
  const struct rondo_schedule_rank *r = &m->ranks[rank];
  return r->syncs ? rondo_schedule_machine_now_ns(m) - r->sync_since_ns : UINT64_MAX;
}

uint32_t rondo_schedule_machine_call_count(const struct rondo_schedule_machine *m, uint32_t rank) {
  return m->ranks[rank].call_count;
}

int rondo_schedule_machine_standing(const struct rondo_schedule_machine *m, uint32_t rank,
                                    uint32_t call, uint32_t *collective) {
  const struct rondo_schedule_rank *r = &m->ranks[rank];
  const struct rondo_schedule_run *run = &m->arrays.runs[r->first_call + call];
  const struct rondo_schedule_member *member =
      &m->arrays.members[r->first_member + run->call.collective];
  const struct rondo_block *b = &r->block;
  *collective = member->collective;
  if (run->iteration_ended > r->iteration || r->iteration == m->settings.iterations) {
    return RONDO_SCHEDULE_ENDED;
  }
  if (call >= r->submitted) {
    return RONDO_SCHEDULE_NOT_SUBMITTED;
  }
  for (uint32_t i = 0; i < b->queue.count; i++) {
    if (rondo_task_index(rondo_task_entries(&b->queue)[i]) == run->call.collective &&
        member->oldest == r->first_call + call) {
      return RONDO_SCHEDULE_STARTED;
    }
  }
  return RONDO_SCHEDULE_QUEUED;
}
