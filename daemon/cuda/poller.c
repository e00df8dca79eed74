// Completions of the daemons on CUDA devices: one thread takes them for all ranks of the process, and a
// thread that waits takes those of its own rank itself.
#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"
#include "daemon/cuda/backend.h"

#define SPIN_LOOKS 200u  // fruitless looks before a thread yields
#define YIELD_LOOKS 400u // ... and before it sleeps
#define SLEEP_MIN_NS 20000u
#define SLEEP_MAX_NS 200000u
#define DEEP_BOUND_NS 1000000000u

struct poller {
  uint32_t is_parked; // K2
  uint32_t signal;    // futex
  uint8_t line[RONDO_LINE_BYTES - 8];
  struct rondo_cuda_watch watch; // its lock is held during a pass
};

static void *poller_main(void *arg);

static struct poller poller = {
    .watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .main = poller_main, .name = "rondo-poller"}};

// --------------------------------------------------------------------- the thread --

static int serve(const struct rondo_cuda_daemon *d) { return d->base.service(d->base.owner); }

struct view {
  int moved, unfinished;
};

static struct view pass(void) {
  struct view seen = {0, 0};
  pthread_mutex_lock(&poller.watch.lock);
  for (uint32_t i = 0; i < poller.watch.count; i++) {
    struct rondo_cuda_daemon *d = poller.watch.daemons[i];
    seen.moved |= serve(d);
    seen.unfinished |= rondo_load_seq_cst_u64(&d->base.outstanding) != 0 ||
                       rondo_load_seq_cst_u32(&d->base.watched) != 0;
  }
  pthread_mutex_unlock(&poller.watch.lock);
  return seen;
}

static void park(uint32_t signal) {
  rondo_store_seq_cst_u32(&poller.is_parked, 1); // K2
  rondo_fence_heavy();                           // K2
  // Whoever submitted before seeing that left a run that this pass sees.
  if (!pass().unfinished)
    rondo_futex_wait(&poller.signal, signal, DEEP_BOUND_NS);
  rondo_store_seq_cst_u32(&poller.is_parked, 0);
}

// Between two fruitless looks, of which this was the `looks`-th. Returns how long to sleep: 0,
// not at all.
static uint64_t rest(uint32_t looks) {
  if (looks < SPIN_LOOKS) {
    rondo_relax();
    return 0;
  }
  if (looks < YIELD_LOOKS) {
    sched_yield();
    return 0;
  }
  uint64_t sleep_ns = (uint64_t)SLEEP_MIN_NS * (1 + (looks - YIELD_LOOKS) / 16);
  return sleep_ns < SLEEP_MAX_NS ? sleep_ns : SLEEP_MAX_NS;
}

static void *poller_main(void *arg) {
  (void)arg;
  uint32_t looks = 0;
  for (;;) {
    uint32_t signal = rondo_load_acquire_u32(&poller.signal);
    struct view seen = pass();
    if (seen.moved) {
      looks = 0;
    } else if (!seen.unfinished) {
      park(signal);
      looks = 0;
    } else {
      const struct timespec pause = {0, (long)rest(looks++)};
      if (pause.tv_nsec)
        nanosleep(&pause, NULL);
    }
  }
  return NULL;
}

void rondo_cuda_poller_kick(void) {
  rondo_fetch_add_seq_cst_u32(&poller.signal, 1);
  if (rondo_load_seq_cst_u32(&poller.is_parked)) // K2
    rondo_futex_wake_all(&poller.signal);
}

int rondo_cuda_poller_add(struct rondo_cuda_daemon *d) {
  return rondo_cuda_watch_add(&poller.watch, d);
}

void rondo_cuda_poller_remove(struct rondo_cuda_daemon *d) {
  pthread_mutex_lock(&poller.watch.lock);
  rondo_cuda_watch_take_out(&poller.watch, d);
  pthread_mutex_unlock(&poller.watch.lock);
}

// ------------------------------------------------------------------ threads that wait --

void rondo_cuda_done(struct rondo_daemon *base) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  rondo_fetch_add_seq_cst_u32(&d->done_word, 1);
  if (rondo_load_seq_cst_u32(&d->done_waiters))
    rondo_futex_wake_all(&d->done_word);
}

// Sleeps until a run has ended, or for `limit_ns`.
static void sleep_on_done(struct rondo_cuda_daemon *d, int (*is_done)(void *), void *arg,
                          uint64_t limit_ns) {
  uint32_t word = rondo_load_acquire_u32(&d->done_word);
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, 1);
  if (!is_done(arg))
    rondo_futex_wait(&d->done_word, word, limit_ns);
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, (uint32_t)-1);
}

int rondo_cuda_help(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  uint64_t deadline_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  uint32_t looks = 0;
  int done = is_done(arg);
  while (!done) {
    int moved = serve(d);
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
    uint64_t sleep_ns = rest(looks++);
    uint64_t left_ns = deadline_ns - now_ns;
    if (sleep_ns)
      sleep_on_done(d, is_done, arg, sleep_ns < left_ns ? sleep_ns : left_ns);
  }
  return done;
}

// --------------------------------------------------------------------- synchronise --

struct sync_point {
  uint64_t launches[RONDO_MAX_BLOCKS];
};

static int has_left(const struct rondo_cuda_daemon *d, const struct sync_point *p) {
  for (uint32_t b = 0; b < d->block_count; b++)
    if (rondo_load_acquire_u64(&d->status[b].leaves) < p->launches[b]) // L3
      return 0;
  return 1;
}

// The thread only looks on, as cuCtxSynchronize does.
int rondo_cuda_synchronize(struct rondo_daemon *base, uint64_t deadline_ns) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  struct sync_point point;
  for (uint32_t b = 0; b < d->block_count; b++) {
    uint64_t leaves = rondo_load_acquire_u64(&d->status[b].leaves); // L3
    uint64_t launches = rondo_load_acquire_u64(&d->status[b].launches);
    // What was submitted before the call counts as launched, though its start is still to come.
    int coming = b == 0 && launches == leaves && rondo_sq_has_entry(&d->base.sq);
    point.launches[b] = launches + (uint64_t)coming;
  }
  for (uint32_t looks = 0; !has_left(d, &point); looks++) {
    // Blocks of a daemon that ends are not launched any more.
    if (rondo_now_ns() >= deadline_ns || rondo_load_acquire_u32(d->base.exit))
      return 0;
    const struct timespec pause = {0, (long)rest(looks)};
    if (pause.tv_nsec)
      nanosleep(&pause, NULL);
  }
  return 1;
}
