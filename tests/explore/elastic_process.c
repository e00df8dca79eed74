#include "tests/explore/elastic_seeds.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/explore.h"
#include "daemon/host/host.h"
#include "runtime/api/api_context.h"
#include "runtime/job/job.h"
#include "runtime/job/membership.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/wait.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/proxy_state.h"
#include "tests/explore/carrier.h"
#include "tests/explore/virtual_mesh.h"
#include "tests/integration/churn.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/processes.h"
#include "tests/support/script/script.h"

#define CONTEXTS 4u // of one process at a time
#define PAUSE_MOST_NS UINT64_C(4000000)
#define CORES 512u

struct process {
  uint32_t number, slot;
  uint64_t seed;
  bool has_ended;
  pthread_mutex_t lock;                  // guards the contexts
  struct rondo_rank *contexts[CONTEXTS]; // null: none
  jmp_buf out;
};

static struct process *processes[VIRTUAL_PROCESSES];
static struct random *chance;
int rondo_fault_planted;

void rondo_explore_point(const char *name) {
  (void)name;
  script_point();
}

void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first,
                                 uint64_t second) {
  (void)name, (void)pair, (void)first, (void)second;
  script_point();
}

static struct process *process_here(void) { return processes[virtual_process_self()]; }

static void pause_ns(uint64_t ns) {
  const struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  nanosleep(&pause, NULL);
}

// --------------------------------------------------------------------- stepping ---

static bool context_step(struct rondo_rank *rank) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(rank->member.daemon);
  bool moved = false;
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    struct rondo_host_block *block = &d->blocks[i];
    if (!rondo_host_block_try_own(block))
      continue;
    moved |= rondo_host_block_drive(block, script_now_ns(), 0) == RONDO_STEP_PROGRESSED;
    rondo_host_block_disown(block);
  }
  moved |= rondo_rank_service(rank) != 0;
  moved |= rondo_callbacks_fire(&rank->callbacks) > 0;
  struct rondo_proxy *proxy = rank->job->transports.proxy;
  if (proxy)
    moved |= rondo_proxy_progress(proxy) != 0;
  return moved;
}

static void *stepper_main(void *arg) {
  struct process *p = arg;
  uint32_t quiet = 0;
  while (!p->has_ended) {
    bool moved = false;
    for (uint32_t i = 0; i < CONTEXTS; i++) {
      pthread_mutex_lock(&p->lock);
      if (p->contexts[i])
        moved |= context_step(p->contexts[i]);
      pthread_mutex_unlock(&p->lock);
    }
    quiet = moved ? 0 : quiet + 1;
    uint64_t span_ns = UINT64_C(200) << (quiet < 16 ? quiet : 16);
    if (quiet > 2)
      pause_ns(span_ns < PAUSE_MOST_NS ? span_ns : PAUSE_MOST_NS);
  }
  return NULL;
}

// ------------------------------------------------------------------ the library ---

static void context_note(struct process *p, struct rondo_context ctx) {
  struct rondo_rank *rank = NULL;
  if (rondo_rank_pin(ctx, "explore", &rank) != RONDO_SUCCESS)
    abort();
  rondo_rank_unpin(ctx);
  pthread_mutex_lock(&p->lock);
  uint32_t i = 0;
  while (i < CONTEXTS && p->contexts[i])
    i++;
  if (i == CONTEXTS)
    abort();
  p->contexts[i] = rank;
  pthread_mutex_unlock(&p->lock);
}

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
int __real_rondo_context_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                                const struct rondo_manual *manual);
int __wrap_rondo_context_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                                const struct rondo_manual *manual);
int __wrap_rondo_context_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                                const struct rondo_manual *manual) {
  struct process *p = process_here();
  struct rondo_manual mine = {.process = p->number + 1};
  struct rondo_config own = *cfg;
  (void)manual;
  own.blocks = 1;
  own.slot_bytes = 256;
  int status = __real_rondo_context_create(ctx, &own, &mine);
  if (status == RONDO_SUCCESS)
    context_note(p, *ctx);
  return status;
}

int __wrap_rondo_init(struct rondo_context *ctx, const struct rondo_config *cfg);
int __wrap_rondo_init(struct rondo_context *ctx, const struct rondo_config *cfg) {
  return __wrap_rondo_context_create(ctx, cfg, NULL);
}

// A rank that ends is not stepped any more.
void __real_rondo_callbacks_fini(struct rondo_callbacks *callbacks);
void __wrap_rondo_callbacks_fini(struct rondo_callbacks *callbacks);
void __wrap_rondo_callbacks_fini(struct rondo_callbacks *callbacks) {
  struct process *p = process_here();
  pthread_mutex_lock(&p->lock);
  for (uint32_t i = 0; i < CONTEXTS; i++)
    if (p->contexts[i] && &p->contexts[i]->callbacks == callbacks)
      p->contexts[i] = NULL;
  pthread_mutex_unlock(&p->lock);
  __real_rondo_callbacks_fini(callbacks);
}

// As the library's, for blocks that another thread steps.
int __real_rondo_rank_wait(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                           const char *call, int64_t timeout_ns);
int __wrap_rondo_rank_wait(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                           const char *call, int64_t timeout_ns);
int __wrap_rondo_rank_wait(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                           const char *call, int64_t timeout_ns) {
  uint64_t end_ns = script_now_ns() + (uint64_t)(timeout_ns > 0 ? timeout_ns : 0);
  uint64_t span_ns = 500;
  int status = rondo_rank_test(rank, handle, run, call);
  while (status == RONDO_IN_PROGRESS && script_now_ns() < end_ns) {
    pause_ns(span_ns);
    span_ns = span_ns < 1000000 ? 2 * span_ns : span_ns;
    status = rondo_rank_test(rank, handle, run, call);
  }
  return status == RONDO_IN_PROGRESS ? RONDO_ERR_TIMEOUT : status;
}

// ------------------------------------------------------------------------- epochs ---

struct core {
  const struct rondo_membership *core;
  uint8_t job[16];
  uint32_t process, opened;
  uint64_t digests[64]; // by the number of the epoch
};

static struct core cores[CORES];
static uint32_t core_count;

struct rondo_membership *__real_rondo_membership_create(const struct rondo_membership_config *cfg,
                                                        uint64_t now_ns, char *text);
struct rondo_membership *__wrap_rondo_membership_create(const struct rondo_membership_config *cfg,
                                                        uint64_t now_ns, char *text);
struct rondo_membership *__wrap_rondo_membership_create(const struct rondo_membership_config *cfg,
                                                        uint64_t now_ns, char *text) {
  struct rondo_membership *m = __real_rondo_membership_create(cfg, now_ns, text);
  if (core_count < CORES) {
    cores[core_count] = (struct core){.core = m, .process = VIRTUAL_NOBODY};
    memcpy(cores[core_count++].job, cfg->job, sizeof cfg->job);
  }
  return m;
}

static struct core *core_find(const struct rondo_membership *m) {
  for (uint32_t i = core_count; i--;)
    if (cores[i].core == m)
      return &cores[i];
  return NULL;
}

// Another member that still is one has opened the same epoch.
static void epoch_check(struct core *c, const struct rondo_epoch *e) {
  if (e->number >= 64)
    return;
  c->digests[e->number] = e->digest;
  for (uint32_t i = 0; i < core_count; i++) {
    const struct core *other = &cores[i];
    if (other == c || !other->core || memcmp(other->job, c->job, sizeof c->job) != 0 ||
        !other->digests[e->number] || !rondo_membership_is_running(other->core))
      continue;
    if (other->digests[e->number] == e->digest)
      continue;
    fprintf(stderr, "elastic: FAILED: two members have opened different epochs %u\n", e->number);
    elastic_exit(1);
  }
}

void __real_rondo_membership_step(struct rondo_membership *m,
                                  const struct rondo_membership_event *event,
                                  struct rondo_membership_actions *actions);
void __wrap_rondo_membership_step(struct rondo_membership *m,
                                  const struct rondo_membership_event *event,
                                  struct rondo_membership_actions *actions);
void __wrap_rondo_membership_step(struct rondo_membership *m,
                                  const struct rondo_membership_event *event,
                                  struct rondo_membership_actions *actions) {
  uint32_t first = actions->count;
  struct core *c = core_find(m);
  __real_rondo_membership_step(m, event, actions);
  for (uint32_t i = first; c && i < actions->count; i++)
    if (actions->items[i].type == RONDO_MEMBERSHIP_OPENED)
      epoch_check(c, actions->items[i].epoch);
}

void __real_rondo_membership_destroy(struct rondo_membership *m);
void __wrap_rondo_membership_destroy(struct rondo_membership *m);
void __wrap_rondo_membership_destroy(struct rondo_membership *m) {
  struct core *c = core_find(m);
  if (c)
    c->core = NULL;
  __real_rondo_membership_destroy(m);
}

// ------------------------------------------------------ what the members are made of ---

uint64_t rondo_test_random(uint64_t *state) {
  struct random r = {*state};
  uint64_t drawn = random_next(&r);
  *state = r.state;
  return drawn;
}

void rondo_test_shuffle(uint32_t *order, uint32_t n, uint64_t *state) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t k = (uint32_t)(rondo_test_random(state) % (i + 1));
    order[i] = order[k];
    order[k] = i;
  }
}

void rondo_member_true(int is_so, const char *text, const char *file, int line) {
  if (is_so)
    return;
  fprintf(stderr, "elastic: FAILED: %s:%d: %s\n", file, line, text);
  elastic_exit(1);
}

void rondo_member_status(int got, int expected, const char *text, const char *file, int line) {
  if (got == expected)
    return;
  fprintf(stderr, "elastic: FAILED: %s:%d: %s: %s\n", file, line, text, rondo_status_name(got));
  elastic_exit(1);
}

// All processes share these.
struct rondo_belongings rondo_belongings_count(void) {
  return (struct rondo_belongings){0};
}
struct mallinfo2 __wrap_mallinfo2(void);
struct mallinfo2 __wrap_mallinfo2(void) {
  return (struct mallinfo2){0};
}
void rondo_test_child_begin(void) {}

// So that a seed means the same each time.
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags) {
  uint8_t *at = bytes;
  (void)flags;
  for (size_t i = 0; i < size; i++)
    at[i] = (uint8_t)random_next(chance);
  return (ssize_t)size;
}

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

_Noreturn void elastic_exit(int status) {
  (void)fflush(NULL);
  __real__exit(status);
}

// The end of a process.
_Noreturn void __wrap__exit(int status) {
  if (status)
    elastic_exit(status);
  longjmp(process_here()->out, 1);
}

// ----------------------------------------------------------------------- processes ---

static void *process_main(void *arg) {
  struct process *p = arg;
  pthread_t stepper;
  virtual_process_enter(p->number);
  if (pthread_create(&stepper, NULL, stepper_main, p))
    abort();
  pthread_detach(stepper);
  if (!setjmp(p->out))
    churn_member_main(p->slot, p->seed);
  p->has_ended = true;
  return NULL;
}

uint32_t elastic_process_start(uint32_t slot, uint32_t machine, uint64_t seed) {
  struct process *p = calloc(1, sizeof *p);
  pthread_t thread;
  if (!p)
    abort();
  p->number = virtual_process_add(machine);
  p->slot = slot;
  p->seed = seed;
  pthread_mutex_init(&p->lock, NULL);
  processes[p->number] = p;
  if (pthread_create(&thread, NULL, process_main, p))
    abort();
  pthread_detach(thread);
  return p->number;
}

bool elastic_process_has_ended(uint32_t process) { return processes[process]->has_ended; }

// ------------------------------------------------------------------------- carriers ---

static uint32_t carrier_net_of(const struct rondo_proxy *proxy) {
  const struct rondo_job *job = proxy->config.owner;
  return virtual_job_of(&job->id) % 64;
}

static int carrier_waits(uint32_t net, uint32_t from, uint32_t to) {
  uint32_t a = virtual_mesh_process_of(net, from);
  uint32_t b = virtual_mesh_process_of(net, to);
  if (a == VIRTUAL_NOBODY || b == VIRTUAL_NOBODY)
    return 0;
  uint32_t x = virtual_process_machine(a);
  uint32_t y = virtual_process_machine(b);
  return x != y && (virtual_machine_is_cut(x) || virtual_machine_is_cut(y));
}

void elastic_begin(struct random *random) {
  static const struct explore_carrier_calls calls = {carrier_net_of, carrier_waits};
  chance = random;
  explore_carrier_reset(random, &calls);
  rondo_transports_carrier = &explore_carrier;
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
