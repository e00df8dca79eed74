#include "daemon/host/host.h"
#include "tests/explore/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "runtime/api/api_context.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/run_queues.h"
#include "tests/explore/comm.h"
#include "tests/explore/nccl.h"
#include "tests/explore/net.h"
#include "tests/explore/record.h"

#define STEPS_MAX 3000000u // of one seed
#define QUIET_MAX 20000u   // steps in which nothing moved, while time ran faster and faster
#define QUIET_FAST 128u    // ... after so many of them it doubles its pace
#define REDRAW_STEPS 64u   // how long a preference for some actors lasts
#define DEPTH_MAX 2u       // actors inside the steps of others
#define ACTORS (EXPLORE_BLOCKS + 3u) // a rank: its blocks, service, callbacks, application

int rondo_fault_planted = RONDO_FAULT_NONE;

static struct explore_machine *current;

static void note_finding(struct explore_machine *m, const char *format, va_list args) {
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not see the va_start
  (void)vsnprintf(m->finding, sizeof m->finding, format, args);
}

void explore_fail(struct explore_machine *m, int verdict, const char *format, ...) {
  va_list args;
  if (m->verdict)
    return;
  m->verdict = verdict;
  va_start(args, format);
  note_finding(m, format, args);
  va_end(args);
  explore_trace(m, "FOUND: %s", m->finding);
}

static void print_line(const struct explore_machine *m, const char *format, va_list args) {
  printf("%7llu %10llu ns %*s", (unsigned long long)m->steps, (unsigned long long)m->now_ns,
         (int)(4 * m->depth), "");
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not see the va_start
  vprintf(format, args);
  putchar('\n');
  fflush(stdout);
}

void explore_trace(struct explore_machine *m, const char *format, ...) {
  va_list args;
  if (!m->trace)
    return;
  va_start(args, format);
  print_line(m, format, args);
  va_end(args);
}

// ------------------------------------------------------------------- actors ---

static void trace_drive(struct explore_machine *m, const struct rondo_host_block *block,
                        uint32_t rank, int result) {
  static const char *const results[] = {"progressed", "blocked", "idle", "quit", "exit"};
  const struct rondo_block *b = &block->core;
  char text[160] = "";
  if (!m->trace || (result == RONDO_STEP_IDLE && !b->resident))
    return;
  if (b->queue.count) {
    uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
    const struct rondo_context_dynamic *s = &rondo_block_context(b, index)->state;
    (void)snprintf(text, sizeof text, "; at entry %u, run %llu, phase %u, loop %llu, op %u.%u",
                   index, (unsigned long long)s->run.number, s->phase, (unsigned long long)s->loop,
                   s->op, s->repeat);
  }
  explore_trace(m, "rank %u block %u %s; %u queued%s", rank, b->index, results[result],
                b->queue.count, text);
}

static int drive(struct explore_machine *m, uint32_t rank, uint32_t index) {
  struct rondo_host_block *block =
      &rondo_host_daemon_of(m->ranks[rank].rank->member.daemon)->blocks[index];
  const struct rondo_host_block *outer = m->driving;
  if (!rondo_host_block_try_own(block))
    return 0;
  m->driving = block;
  uint64_t loads = block->core.counters.context_loads;
  if (m->record)
    explore_record_before(m, block);
  int result = rondo_host_block_drive(block, m->now_ns, 0);
  loads = block->core.counters.context_loads - loads;
  m->loads += loads;
  m->now_ns += loads * m->load_ns;
  m->driving = outer;
  trace_drive(m, block, rank, result);
  if (m->record)
    explore_record_after(m, rank, block);
  explore_stream_watch(m, &block->core, rank);
  rondo_host_block_disown(block);
  return result == RONDO_STEP_PROGRESSED;
}

static int service(struct explore_machine *m, uint32_t rank) {
  m->in_calls++;
  int moved = rondo_rank_service(m->ranks[rank].rank);
  if (moved) {
    explore_trace(m, "rank %u takes completions", rank);
    explore_app_sweep(m, rank);
  }
  m->in_calls--;
  return moved;
}

static int call_back(struct explore_machine *m, uint32_t rank) {
  m->in_calls++;
  int fired = rondo_callbacks_fire(&m->ranks[rank].rank->callbacks);
  m->in_calls--;
  return fired > 0;
}

static int application(struct explore_machine *m, uint32_t rank) {
  if (random_chance(&m->random, 30) && explore_stream_act(m, rank))
    return 1;
  m->in_calls++;
  int moved = explore_app_act(m, rank);
  explore_app_sweep(m, rank); // calls that lock the rank take completions, too
  m->in_calls--;
  return moved;
}

// True if the collective has members in that process and in others.
static int reaches_out_of(const struct explore_machine *m, const struct explore_period *d,
                          uint32_t process) {
  uint32_t inside = 0;
  for (uint32_t i = 0; i < d->nranks; i++)
    inside += m->program.process_of[d->members[i]] == process;
  return inside && inside < d->nranks;
}

// Collectives that one of the two processes shares with others may fail from now on, and no others.
static void cut(struct explore_machine *m) {
  uint32_t a = random_below(&m->random, m->program.process_count);
  uint32_t b =
      (a + 1 + random_below(&m->random, m->program.process_count - 1)) % m->program.process_count;
  explore_trace(m, "the link between processes %u and %u is cut", a, b);
  m->cuts_left--;
  explore_net_cut(&m->random, a, b);
  for (uint32_t c = 0; c < m->program.coll_count; c++)
    for (uint32_t k = 0; k < EXPLORE_PERIODS; k++)
      if (reaches_out_of(m, &m->program.colls[c].periods[k], a) ||
          reaches_out_of(m, &m->program.colls[c].periods[k], b))
        m->tainted[c][k] = 1;
}

static int network(struct explore_machine *m) {
  if (m->cuts_left && m->is_submitting && random_chance(&m->random, 1))
    cut(m);
  m->in_calls++;
  int moved = explore_net_turn(&m->random);
  m->in_calls--;
  if (moved)
    explore_trace(m, "the network delivers");
  return moved;
}

static int act(struct explore_machine *m, uint32_t actor) {
  uint32_t rank = actor / ACTORS;
  uint32_t role = actor % ACTORS;
  m->now_ns += random_below(&m->random, m->program.tick_ns + 1);
  if (rank == m->program.cfg.rank_count)
    return network(m);
  if (role < EXPLORE_BLOCKS)
    return role < m->program.cfg.blocks && drive(m, rank, role);
  if (role == EXPLORE_BLOCKS)
    return service(m, rank);
  return role == EXPLORE_BLOCKS + 1 ? call_back(m, rank) : application(m, rank);
}

// ------------------------------------------------------------------- points ---

static void interrupt(struct explore_machine *m, const char *name) {
  uint32_t ranks = m->program.cfg.rank_count;
  uint32_t rank = random_below(&m->random, ranks);
  uint32_t drawn = random_below(&m->random, 8);
  explore_trace(m, "at %s:", name);
  m->depth++;
  m->now_ns += random_below(&m->random, m->program.tick_ns + 1);
  if (drawn < 5)
    (void)drive(m, rank, random_below(&m->random, m->program.cfg.blocks));
  else if (drawn == 5)
    (void)service(m, rank);
  else if (m->in_calls == 0 && drawn == 7 && m->program.process_count > 1)
    (void)network(m);
  else if (m->in_calls == 0)
    (void)application(m, rank);
  m->depth--;
}

void rondo_explore_point(const char *name) {
  struct explore_machine *m = current;
  if (!m || m->verdict)
    return;
  if (m->driving && strcmp(name, "block.execute") == 0)
    explore_fair_watch(m, m->driving);
  if (m->depth >= DEPTH_MAX || !random_chance(&m->random, m->program.point_percent))
    return;
  uint32_t times = 1 + random_below(&m->random, 4);
  for (uint32_t i = 0; i < times && !m->verdict; i++)
    interrupt(m, name);
}

// Stores the first word, the second or neither, by the number of the step: a draw would change what
// every seed does.
void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first,
                                 uint64_t second) {
  uint64_t early = current ? random_mix(current->steps) % 3 : 2;
  if (early < 2)
    rondo_store_release_u64(&pair[early], early ? second : first);
  rondo_explore_point(name);
}

// -------------------------------------------------------------------- running -

static uint32_t actor_count(const struct explore_machine *m) {
  return m->program.cfg.rank_count * ACTORS + (m->program.process_count > 1);
}

static void redraw_weights(struct explore_machine *m) {
  static const uint32_t weights[] = {0, 1, 1, 2, 8, 32};
  for (uint32_t i = 0; i < actor_count(m); i++)
    m->weights[i] = weights[random_below(&m->random, 6)];
}

static uint32_t choose_actor(struct explore_machine *m) {
  uint32_t count = actor_count(m);
  uint32_t total = 0;
  for (uint32_t i = 0; i < count; i++)
    total += m->weights[i];
  if (total == 0)
    return random_below(&m->random, count);
  uint32_t drawn = random_below(&m->random, total);
  uint32_t actor = 0;
  while (drawn >= m->weights[actor])
    drawn -= m->weights[actor++];
  return actor;
}

int explore_machine_turn(struct explore_machine *m) {
  if (m->steps++ % REDRAW_STEPS == 0)
    redraw_weights(m);
  int moved = act(m, choose_actor(m));
  m->quiet_steps = moved ? 0 : m->quiet_steps + 1;
  uint64_t pace = m->quiet_steps / QUIET_FAST;
  if (pace)
    m->now_ns += (uint64_t)m->program.tick_ns << (pace < 12 ? pace : 12);
  return moved;
}

static int is_done(const struct explore_machine *m) {
  for (uint32_t r = 0; r < m->program.cfg.rank_count; r++)
    if (!explore_app_is_done(m, r))
      return 0;
  return 1;
}

static int run_until_done(struct explore_machine *m) {
  while (!m->verdict && !is_done(m)) {
    (void)explore_machine_turn(m);
    if (m->quiet_steps > QUIET_MAX || m->steps > STEPS_MAX)
      explore_fail(m, EXPLORE_STUCK, "not ended after %llu steps, the last %llu without any effect",
                   (unsigned long long)m->steps, (unsigned long long)m->quiet_steps);
  }
  return m->verdict;
}

int explore_machine_run(struct explore_machine *m) {
  current = m;
  return run_until_done(m);
}

void explore_machine_start(struct explore_machine *m, const struct explore_program *program) {
  current = NULL;
  m->program = *program;
  m->random.state = random_mix(program->seed + 77);
  m->now_ns = 1000;
  m->is_submitting = 1;
  m->aborts_left = program->flavour == EXPLORE_ABORT ? 1 + random_below(&m->random, 2) : 0;
  m->cuts_left = program->cuts;
  explore_net_reset(program, &m->random);
  for (uint32_t r = 0; r < program->cfg.rank_count; r++) {
    struct explore_rank *rank = &m->ranks[r];
    m->program.cfg.rank = r;
    m->program.manual.process = program->process_of[r];
    if (rondo_context_create(&rank->ctx, &m->program.cfg, &m->program.manual) != RONDO_SUCCESS ||
        rondo_rank_pin(rank->ctx, "explore", &rank->rank) != RONDO_SUCCESS)
      abort();
    rondo_rank_unpin(rank->ctx);
  }
}

void explore_machine_init(struct explore_machine *m, uint64_t seed,
                          void (*hasten)(struct explore_program *p), int never_preempts,
                          int trace) {
  static struct explore_program program;
  memset(m, 0, sizeof *m);
  explore_program_make(&program, seed);
  if (hasten)
    hasten(&program);
  if (never_preempts)
    program.cfg.budget = RONDO_BUDGET_NEVER;
  m->trace = trace;
  explore_machine_start(m, &program);
}

// Ranks of the seed for calls that match by order. Returns whether one of the calls is to be odd.
static int start_for_calls(struct explore_machine *m, uint64_t seed) {
  static struct explore_program program;
  explore_program_make(&program, seed);
  program.flavour = EXPLORE_PLAIN;
  program.coll_count = program.cuts = 0;
  program.cfg.max_collectives = 0;
  if (m->never_preempts)
    program.cfg.budget = RONDO_BUDGET_NEVER;
  int odd = seed % 2 == 1 && !m->never_preempts;
  explore_machine_start(m, &program);
  return odd;
}

void explore_machine_init_comms(struct explore_machine *m, uint64_t seed, int trace) {
  memset(m, 0, sizeof *m);
  m->trace = trace;
  m->has_comms = 1;
  int odd = start_for_calls(m, seed);
  explore_comm_init(m, odd);
}

void explore_machine_init_nccl(struct explore_machine *m, uint64_t seed, int never_preempts,
                               int trace) {
  memset(m, 0, sizeof *m);
  m->trace = trace;
  m->has_nccl = 1;
  m->never_preempts = never_preempts;
  int odd = start_for_calls(m, seed);
  explore_nccl_init(m, odd);
}

// --------------------------------------------------------------------- ending -

static void report(struct explore_machine *m) {
  fflush(stdout);
  (void)rondo_report(m->ranks[0].ctx, stdout, NULL);
}

// Aborts what is stuck and runs on until nothing is outstanding.
static int clear_up(struct explore_machine *m) {
  m->verdict = EXPLORE_OK;
  m->quiet_steps = m->steps = 0;
  m->is_submitting = 0;
  for (uint32_t c = 0; c < EXPLORE_COLLS; c++)
    for (uint32_t k = 0; k < EXPLORE_PERIODS; k++)
      m->tainted[c][k] = 1;
  for (uint32_t r = 0; r < m->program.cfg.rank_count; r++)
    (void)rondo_abort(m->ranks[r].ctx);
  for (uint32_t r = 0; r < m->program.cfg.rank_count; r++) {
    const struct rondo_host_daemon *d = rondo_host_daemon_of(m->ranks[r].rank->member.daemon);
    while (!m->verdict && rondo_load_relaxed_u64(&d->base.outstanding)) {
      (void)explore_machine_turn(m);
      if (m->quiet_steps > QUIET_MAX)
        explore_fail(m, EXPLORE_STUCK, "rank %u: aborted runs did not end", r);
    }
  }
  return m->verdict;
}

static void free_runs(struct explore_rank *r) {
  for (uint32_t c = 0; c < EXPLORE_COLLS; c++)
    for (uint32_t k = 0; k < EXPLORE_PERIODS; k++)
      for (uint32_t i = 0; i < EXPLORE_RUNS; i++)
        if (!r->members[c].runs[k][i].is_shared)
          free(r->members[c].runs[k][i].memory);
}

int explore_machine_fini(struct explore_machine *m) {
  if (m->trace && m->verdict)
    report(m);
  if (m->verdict == EXPLORE_STUCK && m->never_preempts)
    (void)clear_up(m);
  if (m->verdict)
    return m->verdict;
  current = NULL;
  for (uint32_t r = 0; r < m->program.cfg.rank_count; r++) {
    int status = rondo_destroy(m->ranks[r].ctx, RONDO_DESTROY_DRAIN, 0);
    if (status != RONDO_SUCCESS)
      explore_fail(m, EXPLORE_WRONG, "destroy of rank %u returned %s", r,
                   rondo_status_name(status));
    free_runs(&m->ranks[r]);
  }
  if (m->has_nccl)
    explore_nccl_fini();
  return m->verdict;
}
