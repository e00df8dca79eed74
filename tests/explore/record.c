#include "tests/explore/record.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "runtime/rank/run_queues.h"
#include "runtime/transport/communicator.h"

#define OPENING_TURNS 1000u // of all ranks, until all gates are open
#define ANY_PAYLOAD_BYTES (UINT64_C(1) << 40)

static struct explore_record record;

// -------------------------------------------------------------------- program ---

static void period_prepare(struct random *r, struct explore_period *d) {
  static const uint32_t counts[] = {1, 16, 97, 251, 600};
  d->kind = d->kind == RONDO_ALL_TO_ALL_V ? RONDO_ALL_TO_ALL : d->kind;
  d->dtype = RONDO_FLOAT32;
  d->redop = RONDO_SUM;
  d->count = d->kind == RONDO_BARRIER ? 0 : counts[random_below(r, 5)];
  d->odd = EXPLORE_NOBODY;
  uint32_t runs = 1 + random_below(r, 6);
  for (uint32_t i = 0; i < d->nranks; i++)
    d->runs[i] = runs;
}

void explore_record_prepare(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 3535)};
  struct rondo_shape_limits *shape = &p->manual.shape;
  p->flavour = EXPLORE_PLAIN;
  p->cfg.blocks = 1;
  p->cfg.order = RONDO_ORDER_FIFO;
  p->manual.sq_entries = p->manual.cq_entries = 0;
  p->manual.first_run = 0;
  shape->block_bytes = shape->first_sequence = shape->is_mapped = 0;
  shape->reference_bytes = RONDO_REFERENCES_NONE - 1;
  shape->payload_limit = ANY_PAYLOAD_BYTES;
  memset(p->process_of, 0, sizeof p->process_of);
  memset(p->machine_of, 0, sizeof p->machine_of);
  p->process_count = 1;
  p->cuts = p->tied_percent = p->sync_percent = p->point_percent = 0;
  p->last_deregister = 0;
  for (uint32_t c = 0; c < p->coll_count; c++) {
    p->colls[c].period_count = 1;
    period_prepare(&r, &p->colls[c].periods[0]);
  }
}

// --------------------------------------------------------------------- header ---

static const struct rondo_coll *coll_of(struct explore_machine *m, uint32_t rank, uint32_t coll) {
  return rondo_coll_find(m->ranks[rank].rank, m->ranks[rank].members[coll].handle);
}

static int gates_are_open(struct explore_machine *m) {
  for (uint32_t c = 0; c < m->program.coll_count; c++) {
    const struct explore_period *d = &m->program.colls[c].periods[0];
    for (uint32_t i = 0; i < d->nranks; i++) {
      const struct rondo_coll *coll = coll_of(m, d->members[i], c);
      if (!coll->plan ||
          rondo_load_acquire_u32(&coll->registration.comm->gate.state) != RONDO_GATE_OPEN)
        return 0;
    }
  }
  return 1;
}

// All ranks register in the order of the collectives, so tables of ranks have them in that order.
static void register_all(struct explore_machine *m) {
  for (uint32_t c = 0; c < m->program.coll_count; c++)
    for (uint32_t i = 0; i < m->program.colls[c].periods[0].nranks; i++)
      explore_app_perform(m, m->program.colls[c].periods[0].members[i], EXPLORE_REGISTER, c);
  for (uint32_t i = 0; i < OPENING_TURNS && !gates_are_open(m); i++)
    (void)rondo_rank_service(m->ranks[i % m->program.cfg.rank_count].rank);
  if (!gates_are_open(m))
    explore_fail(m, EXPLORE_STUCK, "a gate stays closed although all ranks have registered");
}

static void write_collective(struct explore_machine *m, uint32_t c) {
  const struct explore_period *d = &m->program.colls[c].periods[0];
  const struct rondo_registration *r = &coll_of(m, d->members[0], c)->registration;
  const struct rondo_shape *s = &r->shape;
  fprintf(record.file,
          "%s\n {\"kind\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %llu, \"root\": %u, "
          "\"slots\": %u, \"ranks\": [",
          c ? "," : "", rondo_kind_name(d->kind), rondo_plan_algorithm_name(s->algorithm),
          (unsigned long long)s->count * sizeof(float), s->root, s->slot_count);
  for (uint32_t i = 0; i < r->nranks; i++) // a send-recv has its sender first
    fprintf(record.file, "%s%u", i ? ", " : "", r->members[i]);
  fputs("]}", record.file);
}

static void write_header(struct explore_machine *m) {
  const struct rondo_rank *rank = m->ranks[0].rank;
  const struct rondo_daemon_core *d = &rondo_host_daemon_of(rank->member.daemon)->core;
  const struct rondo_policy *p = &d->policy;
  fprintf(record.file,
          "{\"schema\": \"rondo-turns-1\", \"seed\": %llu, \"ranks\": %u, \"active_slots\": %u,\n"
          "\"slot_bytes\": %u, \"budget\": %u, \"success_factor\": %u, \"front_budget_ns\": %llu,\n"
          "\"min_budget_ns\": %llu, \"max_budget_ns\": %llu, \"look_ns\": %llu,\n"
          "\"quit_period_ns\": %llu, \"residency_ns\": %llu,\n\"collectives\": [",
          (unsigned long long)m->program.seed, m->program.cfg.rank_count, RONDO_ACTIVE_SLOTS,
          rank->cfg.slot_bytes, p->budget, p->success_factor,
          (unsigned long long)p->front_budget_ns, (unsigned long long)p->min_budget_ns,
          (unsigned long long)p->max_budget_ns, (unsigned long long)p->look_ns,
          (unsigned long long)d->quit_period_ns, (unsigned long long)d->residency_ns);
  for (uint32_t c = 0; c < m->program.coll_count; c++)
    write_collective(m, c);
  fputs("],\n\"turns\": [", record.file);
}

int explore_record_begin(struct explore_machine *m, const char *path) {
  memset(&record, 0, sizeof record);
  record.file = fopen(path, "w");
  if (!record.file)
    return -1;
  register_all(m);
  if (!m->verdict)
    write_header(m);
  m->record = &record;
  return 0;
}

// ---------------------------------------------------------------------- turns ---

// As block_should_start decides it: the look takes ready flags.
void explore_record_before(struct explore_machine *m, const struct rondo_host_block *block) {
  uint64_t now_ns = m->now_ns > block->now_ns ? m->now_ns : block->now_ns;
  const struct rondo_block *b = &block->core;
  record.before = b->counters;
  record.looks = !b->resident && !rondo_sq_has_entry(&block->daemon->base.sq) && b->queue.count &&
                 now_ns < block->next_start_ns;
}

static uint32_t coll_number(struct explore_machine *m, uint32_t rank, uint32_t index) {
  return (uint32_t)(rondo_coll_at(m->ranks[rank].rank, index)->desc.id - m->program.colls[0].id);
}

static void write_given(struct explore_machine *m, uint32_t rank) {
  const struct rondo_sq_producer *sq = &m->ranks[rank].rank->member.daemon->sq;
  for (uint32_t i = 0; record.given[rank] != sq->sequence; i++) {
    const struct rondo_sqe *entry = rondo_sq_entry(sq->ring, sq->capacity, record.given[rank]++);
    fprintf(record.file, "%s%u", i ? ", " : "", coll_number(m, rank, entry->collective));
  }
}

static void write_counts(const struct rondo_block_counters *after) {
  const struct rondo_block_counters *b = &record.before;
  const uint64_t counts[] = {after->fetched - b->fetched,
                             after->primitives - b->primitives,
                             after->preemptions - b->preemptions,
                             after->context_loads - b->context_loads,
                             after->context_saves - b->context_saves,
                             after->quits - b->quits,
                             after->ended - b->ended};
  for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++)
    fprintf(record.file, "%s%llu", i ? ", " : "", (unsigned long long)counts[i]);
}

static void write_queue(struct explore_machine *m, uint32_t rank, const struct rondo_block *b) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  for (uint32_t i = 0; i < b->queue.count; i++)
    fprintf(record.file, "%s%u", i ? ", " : "", coll_number(m, rank, rondo_task_index(entries[i])));
}

static void write_place(const struct rondo_block *b) {
  if (!b->queue.count)
    return;
  uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
  const struct rondo_context_dynamic *s = &rondo_block_context(b, index)->state;
  fprintf(record.file, "%u, %llu, %u, %u, %u", b->queue.cursor, (unsigned long long)s->run.number,
          s->phase, s->op, s->repeat);
}

// Turns in which a block does nothing, and is not asked to, are left out.
void explore_record_after(struct explore_machine *m, uint32_t rank,
                          const struct rondo_host_block *block) {
  const struct rondo_block *b = &block->core;
  uint64_t steps = b->counters.steps - record.before.steps;
  if (steps == 0 && !record.looks)
    return;
  fprintf(record.file, "%s\n {\"rank\": %u, \"now_ns\": %llu, \"given\": [",
          record.turns++ ? "," : "", rank, (unsigned long long)block->now_ns);
  write_given(m, rank);
  fprintf(record.file, "], \"looks\": %u, \"steps\": %llu, \"resident\": %u, \"counts\": [",
          record.looks, (unsigned long long)steps, b->resident);
  write_counts(&b->counters);
  fputs("], \"queue\": [", record.file);
  write_queue(m, rank, b);
  fputs("], \"at\": [", record.file);
  write_place(b);
  fputs("]}", record.file);
}

int explore_record_end(struct explore_machine *m) {
  m->record = NULL;
  fputs("]}\n", record.file);
  int failed = ferror(record.file);
  return fclose(record.file) || failed ? -1 : 0;
}
