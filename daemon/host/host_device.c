// Worker threads: one device for each process, started with its first rank.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/fork.h"
#include "base/futex.h"
#include "daemon/host/host_device.h"

#define SPIN_PASSES 200           // passes without progress before a worker yields
#define TICK_MIN_NS 100000u       // tick: the time after which a lightly parked worker checks again
#define TICK_MAX_NS 4000000u      // longest tick, while other threads do its work
#define TICK_MAX_TIMES 4u         // how many times longer a tick may be among many processes
#define PROCESSES_FEW 4u          // processes up to which a tick is not longer
#define LINGER_NS 20000000u       // time without work before a worker parks deeply
#define DEEP_BOUND_NS 1000000000u // time after which a deeply parked worker checks again

struct rondo_host_device rondo_host_device = {.attach_lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t rondo_host_count_competing(int64_t pid, uint32_t ranks) {
  cpu_set_t set;
  cpu_set_t both;
  CPU_ZERO(&set);
  rondo_cores_get(&both);
  if (sched_getaffinity((pid_t)pid, sizeof set, &set) || !CPU_COUNT(&set))
    return ranks; // it may run on any core
  CPU_AND(&both, &both, &set);
  uint32_t cores = (uint32_t)CPU_COUNT(&set);
  return (ranks * (uint32_t)CPU_COUNT(&both) + cores - 1) / cores;
}

void rondo_host_set_local_ranks(uint32_t ranks) {
  rondo_store_relaxed_u32(&rondo_host_device.local_ranks, ranks);
}

void rondo_host_set_competing(uint32_t was, uint32_t is) {
  struct rondo_host_device *dev = &rondo_host_device;
  rondo_fetch_add_relaxed_u32(&dev->contended_jobs, (uint32_t)(is > 0) - (uint32_t)(was > 0));
  rondo_fetch_add_relaxed_u32(&dev->competing_ranks, is - was);
}

// Steps one block. Returns true if it moved.
static bool block_visit(struct rondo_host_block *block, uint64_t now_ns) {
  struct rondo_host_daemon *d = block->daemon;
  bool moved = false;
  if (rondo_host_block_try_own(block)) {
    moved = rondo_host_block_drive(block, now_ns, RONDO_HOST_WORKER) == RONDO_STEP_PROGRESSED;
    rondo_host_block_disown(block);
  }
  moved |= d->base.service(d->base.owner);
  return moved;
}

// True if the counter differs from `seen`, its value at this worker's last pass.
static bool counter_has_changed(const uint64_t *counter, uint64_t *seen) {
  uint64_t now = rondo_load_relaxed_u64(counter);
  bool has_changed = now != *seen;
  *seen = now;
  return has_changed;
}

// True if application threads step the block, so that a worker would only take their core. These
// are threads that wait; if no core is spare, also threads that test again and again; if the block
// is idle, also threads that have stepped it since the last pass.
static bool block_has_helpers(struct rondo_host_block *block, bool is_idle, bool has_spare_core) {
  bool was_helped = counter_has_changed(&block->helped, &block->helped_seen);
  bool was_asked = counter_has_changed(&block->asked, &block->asked_seen);
  return rondo_load_relaxed_u32(&block->daemon->helpers) || (is_idle && was_helped) ||
         (!has_spare_core && was_asked);
}

// True if the block's daemon has work, and no application thread waits for it.
static bool block_is_left(const struct rondo_host_block *block) {
  const struct rondo_host_daemon *d = block->daemon;
  return rondo_load_relaxed_u64(&d->base.outstanding) > 0 &&
         !rondo_load_relaxed_u32(&d->done_waiters) && !rondo_load_relaxed_u32(&d->helpers);
}

// Asks to be woken when peers of such blocks make progress (B3). Returns the number of futexes that
// it writes to `on`, for peers in other processes. If a job ends meanwhile, their memory may be
// unmapped.
static uint32_t worker_prepare_wait(struct rondo_host_worker *w, uint64_t now_ns,
                                    struct rondo_futex_shared on[RONDO_FUTEX_SHARED_MOST]) {
  const struct rondo_event_count *last = NULL;
  uint32_t count = 0;
  rondo_store_seq_cst_u32(&rondo_host_device.wake_on_move, 1);
  pthread_rwlock_rdlock(&w->blocks_lock);
  for (uint32_t i = 0; i < w->block_count && count < RONDO_FUTEX_SHARED_MOST; i++) {
    const struct rondo_event_counts *counts = w->blocks[i]->daemon->base.event_counts;
    if (!counts || !counts->own || counts->own == last || !block_is_left(w->blocks[i]))
      continue;
    on[count++] = rondo_event_count_prepare_wait(counts->own, now_ns);
    last = counts->own;
  }
  pthread_rwlock_unlock(&w->blocks_lock);
  return count;
}

// One pass of a worker over its blocks. Writes what it saw to `seen`.
static void worker_pass(struct rondo_host_worker *w, bool also_helped, struct worker_view *seen) {
  memset(seen, 0, sizeof *seen);
  seen->next_start_ns = UINT64_MAX;
  uint64_t now_ns = rondo_now_ns();
  bool has_spare_core = rondo_host_has_spare_core();
  pthread_rwlock_rdlock(&w->blocks_lock);
  for (uint32_t i = 0; i < w->block_count; i++) {
    struct rondo_host_block *block = w->blocks[i];
    struct rondo_host_daemon *d = block->daemon;
    bool is_idle =
        rondo_load_seq_cst_u64(&d->base.outstanding) == 0 && !d->base.needs_service(d->base.owner);
    if (is_idle &&
        rondo_load_relaxed_u64(&block->launches) == rondo_load_relaxed_u64(&block->leaves))
      continue;
    seen->unfinished = true;
    if (!also_helped && block_has_helpers(block, is_idle, has_spare_core))
      continue;
    seen->moved |= block_visit(block, now_ns);
    if (rondo_load_relaxed_u64(&block->launches) != rondo_load_relaxed_u64(&block->leaves)) {
      seen->resident = true;
      continue;
    }
    seen->is_left |= block_is_left(block);
    if (rondo_load_relaxed_u64(&block->next_start_ns) < seen->next_start_ns)
      seen->next_start_ns = rondo_load_relaxed_u64(&block->next_start_ns);
  }
  pthread_rwlock_unlock(&w->blocks_lock);
  seen->now_ns = now_ns;
}

// Parks until it is woken.
static void worker_park_deep(struct rondo_host_worker *w, uint32_t signal) {
  struct worker_view seen;
  rondo_store_seq_cst_u32(&w->state, WORKER_DEEP); // H3
  rondo_fence_heavy();                             // H3
  // A submitting thread that did not see the new state submitted before this pass.
  worker_pass(w, 0, &seen);
  if (!seen.unfinished)
    rondo_futex_wait(&w->signal, signal, DEEP_BOUND_NS);
  rondo_store_seq_cst_u32(&w->state, WORKER_RUNNING);
}

// Parks until it is woken, a peer has made progress, or `timeout_ns` has passed. Returns true if a
// peer has notified it.
static bool worker_park(struct rondo_host_worker *w, uint32_t signal,
                        const struct worker_view *seen, uint64_t timeout_ns) {
  struct rondo_futex_shared on[RONDO_FUTEX_SHARED_MOST];
  rondo_store_seq_cst_u32(&w->state, WORKER_TICK); // H3
  uint32_t count = seen->is_left ? worker_prepare_wait(w, seen->now_ns, on) : 0;
  bool is_notified = rondo_futex_wait_any(&w->signal, signal, on, count, timeout_ns);
  rondo_store_seq_cst_u32(&w->state, WORKER_RUNNING);
  return is_notified;
}

// Wakes the worker if it is parked in `state`. Only one of several threads does.
static void worker_wake(struct rondo_host_worker *w, uint32_t state) {
  if (!rondo_try_swap_seq_cst_u32(&w->state, state, WORKER_RUNNING)) // H4
    return;
  rondo_fetch_add_seq_cst_u32(&w->signal, 1); // H4
  rondo_futex_wake_all(&w->signal);
}

void rondo_host_wake_parked(void) {
  struct rondo_host_device *dev = &rondo_host_device;
  if (!rondo_try_swap_seq_cst_u32(&dev->wake_on_move, 1, 0))
    return;
  uint32_t count = rondo_load_acquire_u32(&dev->worker_count);
  for (uint32_t i = 0; i < count; i++)
    worker_wake(&dev->workers[i], WORKER_TICK);
}

uint64_t rondo_host_longest_tick_ns(void) {
  uint32_t times = 1 + rondo_host_competing_ranks() / PROCESSES_FEW;
  return (uint64_t)TICK_MAX_NS * (times < TICK_MAX_TIMES ? times : TICK_MAX_TIMES);
}

static uint64_t worker_tick_ns(const struct worker_view *seen, uint64_t tick_ns) {
  if (seen->next_start_ns == UINT64_MAX || seen->next_start_ns <= seen->now_ns)
    return tick_ns;
  uint64_t until_ns = seen->next_start_ns - seen->now_ns;
  return until_ns < tick_ns ? until_ns : tick_ns;
}

// Between two passes over stuck resident blocks.
static void worker_spin_or_yield(uint32_t fruitless) {
  if (fruitless > SPIN_PASSES || rondo_host_is_contended() || !rondo_host_has_spare_core() ||
      rondo_load_relaxed_u32(&rondo_host_device.active) >= rondo_host_device.cores)
    sched_yield();
  else
    rondo_relax();
}

static void *worker_main(void *arg) {
  struct rondo_host_worker *w = arg;
  struct worker_view seen;
  uint64_t tick_ns = TICK_MIN_NS;
  uint64_t idle_since_ns = 0;
  uint32_t fruitless = 0;
  uint32_t signal_before = 0;
  bool after_tick = false;
  while (!rondo_load_acquire_u32(&w->stop)) {
    uint32_t signal = rondo_load_acquire_u32(&w->signal); // H4
    bool was_woken = signal != signal_before; // no other thread may look after the new work
    bool is_tick = after_tick || was_woken;
    signal_before = signal;
    if (was_woken)
      tick_ns = TICK_MIN_NS;
    worker_pass(w, is_tick, &seen);
    after_tick = false;
    if (seen.moved) {
      fruitless = 0;
      idle_since_ns = 0;
      if (!is_tick)
        tick_ns = TICK_MIN_NS;
      continue;
    }
    if (seen.resident) {
      worker_spin_or_yield(++fruitless);
      continue;
    }
    if (seen.unfinished || !idle_since_ns)
      idle_since_ns = seen.now_ns;
    bool is_notified = false;
    if (!seen.unfinished && seen.now_ns - idle_since_ns > LINGER_NS)
      worker_park_deep(w, signal);
    else
      is_notified = worker_park(w, signal, &seen, worker_tick_ns(&seen, tick_ns));
    after_tick = true;
    fruitless = 0;
    if (is_notified)
      tick_ns = TICK_MIN_NS;
    else if (tick_ns < rondo_host_longest_tick_ns())
      tick_ns *= 2;
  }
  return NULL;
}

// ------------------------------------------------------------------ device ---

static int worker_start(uint32_t index) {
  struct rondo_host_device *dev = &rondo_host_device;
  struct rondo_host_worker *w = &dev->workers[index];
  pthread_rwlockattr_t attr;
  pthread_rwlockattr_init(&attr);
  pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&w->blocks_lock, &attr);
  pthread_rwlockattr_destroy(&attr);
  w->state = WORKER_RUNNING;
  if (pthread_create(&w->thread, NULL, worker_main, w))
    return RONDO_ERR_SYSTEM;
  rondo_host_place_worker(w->thread, index);
  pthread_setname_np(w->thread, "rondo-worker");
  return RONDO_SUCCESS;
}

// A child process has no workers. It starts its own with its first rank.
static void device_forget_workers(void) {
  struct rondo_host_device *dev = &rondo_host_device;
  memset(dev, 0, sizeof *dev);
  dev->attach_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  rondo_host_ready_forget();
}
RONDO_ON_FORK(device_forget_workers)

// Starts worker threads until the process has at least `workers` (0: one for each core).
static int device_start_workers(uint32_t workers) {
  struct rondo_host_device *dev = &rondo_host_device;
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&dev->attach_lock);
  if (!dev->cores)
    dev->cores = rondo_cores_count();
  if (workers == 0)
    workers = dev->cores;
  if (workers > RONDO_HOST_MAX_WORKERS)
    workers = RONDO_HOST_MAX_WORKERS;
  while (status == RONDO_SUCCESS && dev->worker_count < workers) {
    status = worker_start(dev->worker_count);
    if (status == RONDO_SUCCESS)
      rondo_store_release_u32(&dev->worker_count, dev->worker_count + 1);
  }
  pthread_mutex_unlock(&dev->attach_lock);
  return status;
}

static int worker_add(struct rondo_host_worker *w, struct rondo_host_block *block) {
  int status = RONDO_SUCCESS;
  pthread_rwlock_wrlock(&w->blocks_lock);
  if (w->block_count == w->block_capacity) {
    uint32_t capacity = w->block_capacity ? 2 * w->block_capacity : 16;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    struct rondo_host_block **blocks = realloc(w->blocks, capacity * sizeof *blocks);
    if (blocks) {
      w->blocks = blocks;
      w->block_capacity = capacity;
    } else {
      status = RONDO_ERR_NO_MEMORY;
    }
  }
  if (status == RONDO_SUCCESS)
    w->blocks[w->block_count++] = block;
  pthread_rwlock_unlock(&w->blocks_lock);
  return status;
}

// Removes a block, which need not have been added.
static void worker_remove(struct rondo_host_worker *w, const struct rondo_host_block *block) {
  pthread_rwlock_wrlock(&w->blocks_lock);
  for (uint32_t i = 0; i < w->block_count; i++) {
    if (w->blocks[i] != block)
      continue;
    w->blocks[i] = w->blocks[--w->block_count];
    break;
  }
  pthread_rwlock_unlock(&w->blocks_lock);
}

int rondo_host_attach(struct rondo_daemon *base, const struct rondo_config *cfg) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  struct rondo_host_device *dev = &rondo_host_device;
  int status = device_start_workers(cfg->workers);
  if (status != RONDO_SUCCESS)
    return status;
  uint32_t first = cfg->first_worker >= 0 ? (uint32_t)cfg->first_worker : cfg->rank * cfg->blocks;
  uint32_t workers = rondo_load_acquire_u32(&dev->worker_count);
  if (cfg->workers && cfg->workers < workers)
    workers = cfg->workers;
  rondo_fetch_add_relaxed_u32(&dev->daemons, 1);
  for (uint32_t i = 0; i < d->core.block_count && status == RONDO_SUCCESS; i++) {
    d->blocks[i].worker = (first + i) % workers;
    status = rondo_host_ready_add(&d->blocks[i], first + i);
    if (status == RONDO_SUCCESS)
      status = worker_add(&dev->workers[d->blocks[i].worker], &d->blocks[i]);
  }
  if (status != RONDO_SUCCESS)
    rondo_host_detach(base);
  return status;
}

void rondo_host_detach(struct rondo_daemon *base) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  rondo_fetch_add_relaxed_u32(&rondo_host_device.daemons, (uint32_t)-1);
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    worker_remove(&rondo_host_device.workers[d->blocks[i].worker], &d->blocks[i]);
    rondo_host_ready_remove(&d->blocks[i]);
  }
}

void rondo_host_notify_arrival(struct rondo_daemon *base) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  if (rondo_load_relaxed_u64(&d->base.outstanding) == 0)
    return;
  for (uint32_t i = 0; i < d->core.block_count; i++)
    rondo_store_relaxed_u64(&d->blocks[i].next_start_ns, 0);
  if (rondo_load_seq_cst_u32(&d->done_waiters))
    rondo_host_notify_completion(base);
  else if (rondo_load_seq_cst_u32(&d->helpers) == 0)
    rondo_host_notify_submission(base, 1);
}

void rondo_host_notify_submission(struct rondo_daemon *base, bool urgent) {
  const struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  if (rondo_host_has_ready_bytes())
    rondo_host_ready_set(d->blocks[0].ready); // block 0 fetches from the SQ
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    struct rondo_host_worker *w = &rondo_host_device.workers[d->blocks[i].worker];
    // A running worker may be about to park for a while.
    if (urgent)
      rondo_fetch_add_seq_cst_u32(&w->signal, 1);       // H4
    uint32_t state = rondo_load_seq_cst_u32(&w->state); // H3
    if (state == WORKER_RUNNING || (state == WORKER_TICK && !urgent))
      continue;
    // Only one wake-up: a worker that shares its core with a waiting thread may run only
    // milliseconds later, and each further wake-up until then would be a system call.
    worker_wake(w, state);
  }
}
