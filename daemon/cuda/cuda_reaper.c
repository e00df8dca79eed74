// The reaper: one thread that takes completions off the CUDA devices for all ranks of this process.
// A thread that waits takes those of its own rank itself.
#include <sched.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/futex.h"
#include "daemon/cuda/cuda_backend.h"

#define SPIN_LOOKS 200u  // fruitless polls before a thread yields
#define YIELD_LOOKS 400u // ... and before it sleeps
#define SLEEP_MIN_NS 20000u
#define SLEEP_MAX_NS 200000u
#define DEEP_BOUND_NS 1000000000u
#define TIMER_SLACK_NS 1u // else each sleep takes 50 us longer
// The reaper does not sleep for so long after a stream was seen to wait, and longer if there are
// graphs: it cannot be woken when one is replayed. Later it sleeps a little at a time.
#define AWAKE_NS UINT64_C(10000000)
#define GRAPH_AWAKE_NS UINT64_C(1000000000)
#define GRAPH_SLEEP_MAX_NS 50000u

struct reaper {
  uint32_t is_parked; // K2
  uint32_t signal;    // futex
  uint64_t sleeps;
  uint8_t line[RONDO_LINE_BYTES - 16];
  struct rondo_cuda_watch watch; // its lock is held during a pass
};

static void *reaper_main(void *arg);

static struct reaper reaper = {
    .watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .main = reaper_main, .name = "rondo-reaper"}};

// --------------------------------------------------------------------- the thread --

static bool daemon_serve(const struct rondo_cuda_daemon *d) {
  return d->base.service(d->base.owner);
}

// True while a stream may wait for what the reaper does: it submits the runs of graphs and those
// tied runs that the device had no room for, and takes their completions.
static bool daemon_has_waiting_stream(const struct rondo_cuda_daemon *d, bool moved) {
  uint32_t tied = rondo_load_relaxed_u32(&d->base.tied_runs);
  bool waits = rondo_load_seq_cst_u32(&d->base.captured_runs) != 0 &&
               (moved || rondo_load_seq_cst_u64(&d->base.outstanding) > tied);
  if (tied)
    for (uint32_t b = 0; b < d->block_count && !waits; b++)
      waits = rondo_cuda_block_is_resident(&d->status[b]);
  return waits;
}

struct pass_view {
  bool moved, unfinished, waited_for, has_graphs;
};

static struct pass_view reaper_pass(void) {
  struct pass_view seen = {0};
  pthread_mutex_lock(&reaper.watch.lock);
  for (uint32_t i = 0; i < reaper.watch.count; i++) {
    struct rondo_cuda_daemon *d = reaper.watch.daemons[i];
    bool moved = daemon_serve(d);
    seen.moved |= moved;
    seen.waited_for |= daemon_has_waiting_stream(d, moved);
    seen.has_graphs |= rondo_load_seq_cst_u32(&d->base.captured_runs) != 0;
    seen.unfinished |= rondo_load_seq_cst_u64(&d->base.outstanding) != 0 || seen.has_graphs;
  }
  pthread_mutex_unlock(&reaper.watch.lock);
  return seen;
}

static void reaper_park(uint32_t signal) {
  rondo_store_seq_cst_u32(&reaper.is_parked, 1); // K2
  rondo_fence_heavy();                           // K2
  // A submitting thread that did not see is_parked submitted before this pass.
  if (!reaper_pass().unfinished)
    rondo_futex_wait(&reaper.signal, signal, DEEP_BOUND_NS);
  rondo_store_seq_cst_u32(&reaper.is_parked, 0);
}

// How long to sleep after the `looks`-th fruitless poll; 0: not at all.
static uint64_t sleep_ns_after(uint32_t looks) {
  if (looks < YIELD_LOOKS)
    return 0;
  uint64_t sleep_ns = (uint64_t)SLEEP_MIN_NS * (1 + (looks - YIELD_LOOKS) / 16);
  return sleep_ns < SLEEP_MAX_NS ? sleep_ns : SLEEP_MAX_NS;
}

static void poll_again(uint32_t looks) {
  if (looks < SPIN_LOOKS)
    rondo_relax();
  else
    sched_yield();
}

uint64_t rondo_cuda_reaper_sleep_ns(uint32_t looks, uint64_t rest_ns, bool has_graphs) {
  uint64_t sleep_ns = sleep_ns_after(looks);
  if (rest_ns < (has_graphs ? GRAPH_AWAKE_NS : AWAKE_NS))
    return 0;
  return has_graphs && sleep_ns > GRAPH_SLEEP_MAX_NS ? GRAPH_SLEEP_MAX_NS : sleep_ns;
}

// Pauses after the `looks`-th fruitless poll. `waited_ns`: when a stream was last seen to wait.
static void reaper_pause(uint32_t looks, uint64_t waited_ns, bool has_graphs) {
  struct timespec pause = {0, 0};
  if (sleep_ns_after(looks)) // else there is no need for the time
    pause.tv_nsec = (long)rondo_cuda_reaper_sleep_ns(looks, rondo_now_ns() - waited_ns, has_graphs);
  if (!pause.tv_nsec) {
    poll_again(looks);
    return;
  }
  rondo_store_relaxed_u64(&reaper.sleeps, reaper.sleeps + 1);
  nanosleep(&pause, NULL);
}

uint64_t rondo_cuda_reaper_sleeps(void) { return rondo_load_relaxed_u64(&reaper.sleeps); }

static void *reaper_main(void *arg) {
  (void)arg;
  uint32_t looks = 0;
  uint64_t waited_ns = 0;
  (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
  for (;;) {
    uint32_t signal = rondo_load_acquire_u32(&reaper.signal);
    struct pass_view seen = reaper_pass();
    if (seen.waited_for)
      waited_ns = rondo_now_ns();
    if (seen.moved) {
      looks = 0;
    } else if (!seen.unfinished) {
      reaper_park(signal);
      looks = 0;
    } else {
      reaper_pause(looks++, waited_ns, seen.has_graphs);
    }
  }
  return NULL;
}

void rondo_cuda_reaper_notify(void) {
  rondo_fetch_add_seq_cst_u32(&reaper.signal, 1);
  if (rondo_load_seq_cst_u32(&reaper.is_parked)) // K2
    rondo_futex_wake_all(&reaper.signal);
}

int rondo_cuda_reaper_add(struct rondo_cuda_daemon *d) {
  return rondo_cuda_watch_add(&reaper.watch, d);
}

void rondo_cuda_reaper_remove(struct rondo_cuda_daemon *d) {
  pthread_mutex_lock(&reaper.watch.lock);
  rondo_cuda_watch_remove(&reaper.watch, d);
  pthread_mutex_unlock(&reaper.watch.lock);
}

// ------------------------------------------------------------------ threads that wait --

void rondo_cuda_notify_completion(struct rondo_daemon *base) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  rondo_fetch_add_seq_cst_u32(&d->done_word, 1);
  if (rondo_load_seq_cst_u32(&d->done_waiters))
    rondo_futex_wake_all(&d->done_word);
}

// Sleeps until a run has ended, or for `limit_ns`.
static void daemon_sleep(struct rondo_cuda_daemon *d, int (*is_done)(void *), void *arg,
                         uint64_t limit_ns) {
  uint32_t word = rondo_load_acquire_u32(&d->done_word);
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, 1);
  if (!is_done(arg))
    rondo_futex_wait(&d->done_word, word, limit_ns);
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, (uint32_t)-1);
}

int rondo_cuda_wait(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  uint64_t deadline_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  uint32_t looks = 0;
  int done = is_done(arg);
  while (!done) {
    bool moved = daemon_serve(d);
    rondo_fetch_add_relaxed_u64(&d->helped, 1);
    done = is_done(arg);
    if (done)
      break;
    if (moved) {
      looks = 0;
      continue;
    }
    uint64_t now_ns = rondo_now_ns();
    if (now_ns >= deadline_ns)
      break;
    uint64_t sleep_ns = sleep_ns_after(looks);
    uint64_t left_ns = deadline_ns - now_ns;
    if (sleep_ns)
      daemon_sleep(d, is_done, arg, sleep_ns < left_ns ? sleep_ns : left_ns);
    else
      poll_again(looks);
    looks++;
  }
  return done ? RONDO_SUCCESS : RONDO_ERR_TIMEOUT;
}

// --------------------------------------------------------------------- synchronise --

struct sync_point {
  uint64_t launches[RONDO_MAX_BLOCKS];
};

static bool has_left(const struct rondo_cuda_daemon *d, const struct sync_point *p) {
  for (uint32_t b = 0; b < d->block_count; b++)
    if (rondo_load_acquire_u64(&d->status[b].leaves) < p->launches[b]) // L3
      return false;
  return true;
}

// The thread only watches, as cuCtxSynchronize does.
int rondo_cuda_synchronize(struct rondo_daemon *base, uint64_t deadline_ns) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  struct sync_point point;
  for (uint32_t b = 0; b < d->block_count; b++) {
    uint64_t leaves = rondo_load_acquire_u64(&d->status[b].leaves); // L3
    uint64_t launches = rondo_load_acquire_u64(&d->status[b].launches);
    // An entry submitted before the call counts as launched, though its launch is still to come.
    bool is_coming = b == 0 && launches == leaves && rondo_sq_has_entry(&d->base.sq);
    point.launches[b] = launches + (uint64_t)is_coming;
  }
  for (uint32_t looks = 0; !has_left(d, &point); looks++) {
    // Blocks of a daemon that ends are not launched again.
    if (rondo_load_acquire_u32(d->base.exit))
      return RONDO_ERR_CLOSED;
    if (rondo_now_ns() >= deadline_ns)
      return RONDO_ERR_TIMEOUT;
    const struct timespec pause = {0, (long)sleep_ns_after(looks)};
    if (pause.tv_nsec)
      nanosleep(&pause, NULL);
    else
      poll_again(looks);
  }
  return RONDO_SUCCESS;
}
