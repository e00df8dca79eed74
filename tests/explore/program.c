#include "tests/explore/program.h"

#include <stdbool.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "runtime/api/api_tuning.h"

#define NEVER_NS (UINT64_C(1) << 60)
#define ITEM(r, list) list[random_below(r, sizeof(list) / sizeof *(list))]

uint32_t explore_position(const struct explore_period *d, uint32_t rank) {
  for (uint32_t i = 0; i < d->nranks; i++)
    if (d->members[i] == rank)
      return i;
  return EXPLORE_NOBODY;
}

uint32_t explore_common_runs(const struct explore_period *d) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < d->nranks; i++)
    least = d->runs[i] < least ? d->runs[i] : least;
  return least;
}

static void draw_members(struct random *r, struct explore_period *d, uint32_t rank_count) {
  uint32_t all[EXPLORE_RANKS];
  for (uint32_t i = 0; i < rank_count; i++)
    all[i] = i;
  for (uint32_t i = rank_count; i > 1; i--) {
    uint32_t k = random_below(r, i);
    uint32_t swapped = all[k];
    all[k] = all[i - 1];
    all[i - 1] = swapped;
  }
  d->nranks = random_chance(r, 5) ? 1 : 2 + random_below(r, rank_count - 1);
  memcpy(d->members, all, sizeof all);
}

static int is_floating(int dtype) { return dtype >= RONDO_FLOAT16 && dtype <= RONDO_FLOAT8_E5M2; }

static void draw_operation(struct random *r, struct explore_period *d) {
  static const uint32_t counts[] = {0, 1, 2, 3, 7, 13, 16, 17, 31, 64, 97, 128, 251};
  d->quantisation = 0;
  d->kind = (int)random_below(r, RONDO_KIND_COUNT);
  d->dtype = (int)random_below(r, RONDO_DTYPE_COUNT);
  d->redop = (int)random_below(r, RONDO_REDOP_COUNT);
  if (d->kind == RONDO_SEND_RECV && d->nranks > 2)
    d->kind = RONDO_ALL_TO_ALL_V;
  if (d->kind == RONDO_ALL_GATHER || d->kind >= RONDO_BROADCAST)
    d->redop = RONDO_SUM;
  // Averages of floating types multiply by 1/n: exact for powers of two.
  if (d->redop == RONDO_AVG && is_floating(d->dtype) && (d->nranks & (d->nranks - 1)))
    d->redop = RONDO_MAX;
  d->count = ITEM(r, counts);
  if (d->kind == RONDO_BARRIER)
    d->count = 0;
  d->root = random_below(r, d->nranks);
}

static void draw_runs(struct random *r, struct explore_period *d, int flavour) {
  uint32_t most = d->count > 64 ? 5 : d->count > 16 ? 12 : EXPLORE_RUNS;
  uint32_t runs = random_chance(r, 10) ? 0 : 1 + random_below(r, random_chance(r, 50) ? 3 : most);
  for (uint32_t i = 0; i < d->nranks; i++) {
    d->runs[i] = runs;
    if (flavour == EXPLORE_LEAVE && random_chance(r, 30))
      d->runs[i] = random_below(r, runs + 1);
  }
  d->odd = EXPLORE_NOBODY;
  if (flavour == EXPLORE_MISMATCH && d->nranks > 1 && random_chance(r, 50)) {
    d->odd = random_below(r, d->nranks);
    d->oddness = random_below(r, 4);
  }
}

static void draw_coll(struct random *r, struct explore_program *p, uint32_t index) {
  struct explore_coll *c = &p->colls[index];
  c->id = 1000 + index;
  c->period_count = random_chance(r, 60) ? 1 : 2 + random_below(r, EXPLORE_PERIODS - 1);
  for (uint32_t i = 0; i < p->cfg.rank_count; i++)
    c->priority[i] = (int)random_below(r, 3) - 1;
  for (uint32_t k = 0; k < c->period_count; k++) {
    struct explore_period *d = &c->periods[k];
    if (k == 0)
      draw_members(r, d, p->cfg.rank_count);
    else
      *d = c->periods[0];
    draw_operation(r, d);
    draw_runs(r, d, p->flavour);
  }
}

static void draw_tuning(struct random *r, struct rondo_tuning *t) {
  t->front_budget_ns = random_log(r, 1, 30000);
  t->min_budget_ns = random_log(r, 1, 2000);
  t->max_budget_ns = t->min_budget_ns + random_log(r, 1, 400000);
  t->success_factor = 1 + random_below(r, 20);
  t->look_ns = random_chance(r, 70) ? 1 : random_log(r, 2, 100000);
  t->quit_period_ns = random_log(r, 1, 200000);
  t->residency_ns = random_log(r, 1, 4000000);
  t->restart_min_ns = random_log(r, 1, 5000);
  t->restart_max_ns = t->restart_min_ns * random_log(r, 1, 64);
}

static void draw_limits(struct random *r, struct explore_program *p) {
  static const uint32_t entries[] = {2, 2, 4, 8, 0};
  static const uint32_t slots[] = {2, 2, 4, 8};
  static const uint32_t slot_bytes[] = {64, 64, 128, 256};
  static const uint32_t block_bytes[] = {64, 128, 512, 0};
  static const uint32_t reference_bytes[] = {1, 64, 64, 0};
  static const uint64_t first_runs[] = {0, 0, 0xfffd, 0xfffffd, 0xfffffffd};
  p->cfg.slot_bytes = ITEM(r, slot_bytes);
  p->manual.sq_entries = ITEM(r, entries);
  p->manual.cq_entries = ITEM(r, entries);
  p->manual.shape.slot_count = ITEM(r, slots);
  p->manual.shape.block_bytes = ITEM(r, block_bytes);
  p->manual.shape.reference_bytes = ITEM(r, reference_bytes);
  p->manual.shape.is_mapped = random_chance(r, 50); // buffers are scribbled on, not unmapped
  p->manual.first_run = ITEM(r, first_runs);
  p->manual.shape.first_sequence = random_chance(r, 50) ? 0 : 0u - random_below(r, 12);
}

// No connector has payload memory, some have it, or all. From random numbers of its own, as in
// draw_processes.
static void draw_lending(struct explore_program *p) {
  static const uint64_t limits[] = {1, 1, 4096, 0};
  struct random r = {random_mix(p->seed + 1616)};
  p->manual.shape.payload_limit = ITEM(&r, limits);
}

// Over how many connections a process sends to each other one, so that slots come in pieces. From
// random numbers of its own, too.
static void draw_endpoints(struct explore_program *p) {
  static const uint32_t endpoints[] = {1, 1, 2, 3, 4};
  struct random r = {random_mix(p->seed + 6464)};
  p->cfg.endpoints = ITEM(&r, endpoints);
}

static void draw_quantisation(struct random *r, const struct explore_program *p,
                              struct explore_period *d) {
  uint32_t forced = p->manual.shape.algorithms[RONDO_ALL_REDUCE];
  bool can = d->kind == RONDO_ALL_REDUCE && d->dtype == RONDO_FLOAT32 &&
             (d->redop == RONDO_SUM || d->redop == RONDO_AVG) &&
             (!forced || rondo_plan_can_quantise(RONDO_ALL_REDUCE, (int)forced - 1));
  d->quantisation = can ? random_below(r, RONDO_QUANTISATION_COUNT) : 0;
}

// From random numbers of their own, too.
static void draw_quantisations(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 3232)};
  for (uint32_t c = 0; c < p->coll_count; c++)
    for (uint32_t k = 0; k < p->colls[c].period_count; k++)
      draw_quantisation(&r, p, &p->colls[c].periods[k]);
}

static void draw_conduct(struct random *r, struct explore_program *p) {
  static const uint32_t percents[] = {0, 2, 10, 40};
  p->tick_ns = (uint32_t)random_log(r, 1, 4000);
  p->point_percent = ITEM(r, percents);
  p->burst = 1 + random_below(r, 8);
  p->sync_percent = random_chance(r, 30) ? 1 + random_below(r, 30) : 0;
  // Each way of leaving a stuck collective must do without the others.
  uint32_t leaves = random_below(r, 4);
  if (leaves == 1 || (leaves == 2 && !p->sync_percent))
    p->cfg.tuning.residency_ns = NEVER_NS;
  if (leaves >= 2)
    p->cfg.tuning.quit_period_ns = NEVER_NS;
  p->tied_percent = random_chance(r, 40) ? 1 + random_below(r, 60) : 0;
  p->last_deregister = p->flavour == EXPLORE_LEAVE || random_below(r, 2);
}

// Which ranks share a process. From random numbers of its own: seeds mean what they did before.
static void draw_processes(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 4242)};
  p->process_count = 1;
  if (random_chance(&r, 50))
    return;
  for (uint32_t i = 0; i < p->cfg.rank_count; i++) {
    uint32_t joins = i ? random_below(&r, 2 * i) : 0;
    p->process_of[i] = i && joins < i ? p->process_of[joins] : i ? p->process_count++ : 0;
  }
  for (uint32_t i = 1; i < p->process_count; i++)
    p->machine_of[i] = random_chance(&r, 50) ? i : 0;
  p->cuts = p->process_count > 1 && random_chance(&r, 25) ? 1 + random_below(&r, 2) : 0;
}

// Everything here is small and of few ranks, so only this leads to the plans of what is large or of
// many. Of a kind without the algorithm that is drawn, the choice. From random numbers of its own,
// too.
static void draw_algorithms(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 8484)};
  bool is_ring = random_chance(&r, 60);
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++) {
    uint32_t algorithm = random_below(&r, RONDO_ALGORITHM_COUNT);
    if (is_ring)
      algorithm = RONDO_ALGORITHM_RING;
    if (rondo_plan_exists(kind, (int)algorithm, EXPLORE_RANKS))
      p->manual.shape.algorithms[kind] = (uint8_t)(algorithm + 1);
  }
}

void explore_program_make(struct explore_program *p, uint64_t seed) {
  static const struct rondo_config initial = RONDO_CONFIG_INIT;
  static const int flavours[] = {EXPLORE_PLAIN, EXPLORE_PLAIN,    EXPLORE_PLAIN,
                                 EXPLORE_ABORT, EXPLORE_MISMATCH, EXPLORE_LEAVE};
  struct random r = {random_mix(seed + 1)};
  memset(p, 0, sizeof *p);
  p->seed = seed;
  p->flavour = ITEM(&r, flavours);
  p->cfg = initial;
  memcpy(p->cfg.id.bytes, &seed, sizeof seed);
  p->cfg.id.bytes[127] = 1;
  p->cfg.rank_count = 2 + random_below(&r, EXPLORE_RANKS - 1);
  p->cfg.blocks = 1 + random_below(&r, EXPLORE_BLOCKS);
  p->cfg.max_collectives = EXPLORE_COLLS;
  p->cfg.order = (int)random_below(&r, 2);
  p->cfg.budget = (int)random_below(&r, 2);
  draw_tuning(&r, &p->cfg.tuning);
  draw_limits(&r, p);
  draw_conduct(&r, p);
  p->coll_count = 1 + random_below(&r, EXPLORE_COLLS);
  for (uint32_t i = 0; i < p->coll_count; i++)
    draw_coll(&r, p, i);
  draw_processes(p);
  draw_algorithms(p);
  draw_lending(p);
  draw_endpoints(p);
  draw_quantisations(p);
}

// Each id is registered as often as can be, for a run or two.
static void shorten(struct explore_program *p, struct random *r) {
  for (uint32_t c = 0; c < p->coll_count; c++) {
    struct explore_coll *coll = &p->colls[c];
    for (uint32_t k = coll->period_count; k < EXPLORE_PERIODS; k++)
      coll->periods[k] = coll->periods[0];
    coll->period_count = EXPLORE_PERIODS;
    for (uint32_t k = 0; k < EXPLORE_PERIODS; k++) {
      uint32_t runs = 1 + random_below(r, 2);
      for (uint32_t i = 0; i < coll->periods[k].nranks; i++)
        coll->periods[k].runs[i] = runs;
    }
  }
}

void explore_program_hasten_ends(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 6363)};
  shorten(p, &r);
  p->point_percent = 60;
}

void explore_program_hasten_cuts(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 2121)};
  shorten(p, &r);
  for (uint32_t c = 0; c < p->coll_count; c++)
    for (uint32_t k = 0; k < EXPLORE_PERIODS; k++) {
      p->colls[c].periods[k].kind = RONDO_BROADCAST; // its root need not wait for anybody
      p->colls[c].periods[k].redop = RONDO_SUM;
      p->colls[c].periods[k].quantisation = 0;
    }
  for (uint32_t i = 0; i < p->cfg.rank_count; i++)
    p->process_of[i] = p->machine_of[i] = i;
  p->process_count = p->cfg.rank_count;
  p->cuts = 3;
}

// All have packets: all-reduces, or all-gathers and reduce-scatters. All connectors have memory for
// them.
void explore_program_hasten_packets(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 1919)};
  const int algorithm =
      random_chance(&r, 50) ? RONDO_ALGORITHM_ONE_SHOT_PACKETS : RONDO_ALGORITHM_TWO_SHOT_PACKETS;
  const bool is_direct = random_chance(&r, 40);
  p->manual.shape.algorithms[RONDO_ALL_REDUCE] = (uint8_t)(algorithm + 1);
  p->manual.shape.algorithms[RONDO_ALL_GATHER] = RONDO_ALGORITHM_DIRECT_PACKETS + 1;
  p->manual.shape.algorithms[RONDO_REDUCE_SCATTER] = RONDO_ALGORITHM_DIRECT_PACKETS + 1;
  p->manual.shape.payload_limit = 0;
  p->point_percent = 20;
  for (uint32_t c = 0; c < p->coll_count; c++)
    for (uint32_t k = 0; k < p->colls[c].period_count; k++) {
      struct explore_period *d = &p->colls[c].periods[k];
      d->kind = RONDO_ALL_REDUCE;
      d->redop = d->redop == RONDO_AVG ? RONDO_SUM : d->redop; // as in draw_operation
      d->quantisation = 0;
      if (is_direct)
        d->kind = random_chance(&r, 50) ? RONDO_ALL_GATHER : RONDO_REDUCE_SCATTER;
      if (d->kind == RONDO_ALL_GATHER)
        d->redop = RONDO_SUM;
    }
}

// All ranks of a period are on two machines, and most periods have two ranks on each.
static void draw_places(struct random *r, struct explore_program *p) {
  int are_alone = random_chance(r, 50); // each rank in a process of its own
  p->process_count = are_alone ? p->cfg.rank_count : 2;
  for (uint32_t i = 0; i < p->cfg.rank_count; i++) {
    uint32_t machine = i < 2 ? i : i == 2 ? random_below(r, 2) : 4 - i;
    p->process_of[i] = are_alone ? i : machine;
    p->machine_of[p->process_of[i]] = machine;
  }
}

void explore_program_hasten_ports(struct explore_program *p) {
  static const int kinds[] = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER,
                              RONDO_REDUCE, RONDO_BROADCAST};
  struct random r = {random_mix(p->seed + 1717)};
  p->ports = 2;
  p->cfg.rank_count = EXPLORE_RANKS;
  draw_places(&r, p);
  for (uint32_t c = 0; c < p->coll_count; c++) {
    draw_coll(&r, p, c);
    uint32_t nranks = random_chance(&r, 70) ? EXPLORE_RANKS : EXPLORE_RANKS - 1;
    for (uint32_t k = 0; k < p->colls[c].period_count; k++) {
      struct explore_period *d = &p->colls[c].periods[k];
      d->nranks = nranks;
      while (draw_operation(&r, d), d->kind > RONDO_BROADCAST) {
      }
      draw_runs(&r, d, p->flavour);
    }
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    bool doubles =
        random_chance(&r, 30) && kinds[i] != RONDO_ALL_GATHER && kinds[i] != RONDO_REDUCE_SCATTER;
    p->manual.shape.algorithms[kinds[i]] =
        (doubles ? RONDO_ALGORITHM_CHAIN_DOUBLING : RONDO_ALGORITHM_CHAIN_RING) + 1;
  }
}

void explore_program_hasten_quantised(struct explore_program *p) {
  struct random r = {random_mix(p->seed + 2727)};
  p->manual.shape.algorithms[RONDO_ALL_REDUCE] = 0;
  for (uint32_t c = 0; c < p->coll_count; c++)
    for (uint32_t k = 0; k < p->colls[c].period_count; k++) {
      struct explore_period *d = &p->colls[c].periods[k];
      bool averages = random_chance(&r, 30) && (d->nranks & (d->nranks - 1)) == 0;
      d->kind = RONDO_ALL_REDUCE;
      d->dtype = RONDO_FLOAT32;
      d->redop = averages ? RONDO_AVG : RONDO_SUM;
      d->count = random_chance(&r, 80) ? 1 + random_below(&r, 600) : d->count;
      draw_quantisation(&r, p, d);
    }
}

#define CALM_TICK_NS 200u

void explore_program_calm(struct explore_program *p) {
  struct rondo_tuning *t = &p->cfg.tuning;
  p->flavour = EXPLORE_PLAIN;
  memset(p->process_of, 0, sizeof p->process_of);
  p->process_count = 1;
  p->cuts = p->tied_percent = p->sync_percent = p->point_percent = 0;
  p->tick_ns = CALM_TICK_NS;
  p->cfg.budget = RONDO_BUDGET_ADAPTIVE;
  memset(t, 0, sizeof *t);
  (void)rondo_tuning_resolve(t, NULL);
}
