// Threads that wait. They step the blocks of their own rank and, while these are stuck, those of
// other ranks. When nothing can go on they sleep.
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/futex.h"
#include "daemon/host/host_device.h"

#define JOIN_AFTER 8            // rounds without progress before a thread counts as active
#define STEAL_AFTER 32          // rounds without progress before it steps other ranks' blocks
#define SLEEP_AFTER_NS 1000000u // time without progress before it sleeps, if it need not share
#define SHARED_SLEEP_NS 50000u  // time before it sleeps if it shares its core; it yields until then
#define SHARE_AFTER_NS 100000u  // time of moving data before it yields its core once
#define SLEEP_MIN_NS 500000u    // first sleep; each one without progress doubles it
#define SLEEP_MAX_NS 64000000u  // longest sleep
#define SLEEPERS_FEW 4u         // sleepers up to which a sleep is not made longer
#define BLIND_EVERY_NS 200000u  // time between two visits of all blocks
#define BLIND_SHARE 16u         // such visits take about one part in so many of a core
#define BLIND_MOST_NS 10000000u // longest time between them
#define WAKE_EVERY_NS 1000000u  // time between two wake-ups for remaining work, on each core
#define LARGE_BYTES 262144u     // smallest copy that is left to the rank's own thread
#define QUICK_ROUNDS 8          // rounds of rondo_host_poll over its own and other blocks
#define OWN_LOOKS 64            // attempts to own a block that waits for what was just submitted
#define YIELD_AFTER 4           // tests without progress before a thread yields a shared core

// Runs the proxy. `then`: enum rondo_forward. Returns true if anything moved.
static bool daemon_forward(struct rondo_host_daemon *d, int then) {
  return rondo_daemon_has_proxy(&d->base) && d->base.forward(d->base.owner, then);
}

// True if other threads may need this core.
static bool has_shared_core(void) {
  return rondo_host_is_oversubscribed() || rondo_host_is_contended();
}

// True if the block has small runs between ranks of this process: submitting threads and the poller
// step all blocks for which it waits.
static bool block_is_left_to_submitters(const struct rondo_host_block *block) {
  return !block->daemon->base.event_counts &&
         rondo_load_relaxed_u32(&block->copies_bytes) <= RONDO_HOST_QUICK_BYTES;
}

// Marks blocks whose inbox block 0 may have filled.
static void daemon_mark_inboxes(const struct rondo_host_daemon *d) {
  for (uint32_t i = 1; i < d->core.block_count; i++)
    if (rondo_sq_has_entry(&d->core.inboxes[i]))
      rondo_host_ready_set(d->blocks[i].ready);
}

// Steps a block that the caller owns. Returns true if it made progress.
static bool block_drive(struct rondo_host_block *block, uint64_t now_ns,
                        enum rondo_host_caller caller) {
  bool has_bytes = rondo_host_has_ready_bytes();
  if (has_bytes)
    rondo_host_ready_clear(block->ready);
  bool moved = rondo_host_block_drive(block, now_ns, caller) == RONDO_STEP_PROGRESSED;
  if (has_bytes && (moved || rondo_sq_try_peek(&block->core.source)))
    rondo_host_ready_set(block->ready);
  if (has_bytes && moved && block->core.index == 0)
    daemon_mark_inboxes(block->daemon);
  return moved;
}

// Steps a block of the caller's rank, which the caller owns. Returns true if it moved.
static bool block_step_own(struct rondo_host_block *block, uint64_t now_ns,
                           enum rondo_host_caller caller) {
  rondo_counter_add(&block->helped, 1);
  if (caller != RONDO_HOST_SUBMITTER || block_is_left_to_submitters(block))
    rondo_counter_add(&block->asked, 1);
  return block_drive(block, now_ns, caller);
}

// Steps every block of a daemon that no other thread steps. `now_ns` 0: reads their clocks. Returns
// true if one moved.
static bool daemon_step_blocks(struct rondo_host_daemon *d, uint64_t now_ns,
                               enum rondo_host_caller caller) {
  bool moved = false;
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    struct rondo_host_block *block = &d->blocks[i];
    if (!rondo_host_block_try_own(block))
      continue;
    moved |= block_step_own(block, now_ns, caller);
    rondo_host_block_disown(block);
  }
  return moved;
}

static enum rondo_host_caller daemon_waiter_kind(const struct rondo_host_daemon *d) {
  return d->core.block_count == 1 && !has_shared_core() ? RONDO_HOST_WAITER : RONDO_HOST_WORKER;
}

static bool daemon_step(struct rondo_host_daemon *d, uint64_t now_ns) {
  bool moved = daemon_step_blocks(d, now_ns, daemon_waiter_kind(d));
  moved |= d->base.service(d->base.owner);
  return moved;
}

// True if the block is about to copy much into its rank's buffer, and a thread of the rank is
// awake: the buffer is in the caches of that thread's core. If cores share no cache, such a copy by
// another core took up to seven times as long.
static bool block_is_better_left(const struct rondo_host_block *block) {
  return rondo_load_relaxed_u32(&block->copies_bytes) >= LARGE_BYTES &&
         rondo_load_relaxed_u32(&block->daemon->helpers) > 0;
}

// True if stepping the block takes little time, and no thread waits for its rank.
static bool block_is_quick(const struct rondo_host_block *block) {
  return rondo_load_relaxed_u32(&block->copies_bytes) <= RONDO_HOST_QUICK_BYTES &&
         rondo_load_relaxed_u32(&block->daemon->helpers) == 0;
}

// Takes the owner word of another rank's block, also if a thread is in the middle of a step.
static bool block_own_soon(struct rondo_host_block *block) {
  for (int i = 0; i < OWN_LOOKS; i++) {
    if (rondo_host_block_try_own(block))
      return true;
    rondo_relax();
  }
  return false;
}

struct block_search {
  const struct rondo_host_daemon *own; // the caller's daemon, which is skipped
  uint64_t now_ns;
  bool only_quick; // steps quick blocks only
};

// True if the block has nothing to do until the next submission, which sets its byte.
static bool block_is_idle(struct rondo_host_block *block) {
  const uint64_t *outstanding = &block->daemon->base.outstanding;
  bool has_bytes = rondo_host_has_ready_bytes();
  if (rondo_load_relaxed_u64(outstanding) > 0)
    return false;
  if (has_bytes)
    rondo_host_ready_clear(block->ready);
  if (rondo_load_relaxed_u64(outstanding) == 0) // C8
    return true;
  // Its owner may not step the block any more: without this the mark would be lost.
  if (has_bytes)
    rondo_host_ready_set(block->ready);
  return false;
}

// Steps a block of another rank. Returns true if it moved.
static bool block_try_steal(struct rondo_host_block *block, void *arg) {
  const struct block_search *t = arg;
  struct rondo_host_daemon *d = block->daemon;
  if (d == t->own || block_is_idle(block))
    return false;
  if (t->only_quick ? !block_is_quick(block) || !block_own_soon(block)
                    : block_is_better_left(block) || !rondo_host_block_try_own(block)) {
    if (t->only_quick && rondo_load_relaxed_u32(&d->helpers) == 0)
      rondo_host_notify_submission(&d->base, 1); // no other thread may see what has arrived for it
    return false;
  }
  bool moved =
      block_drive(block, t->now_ns, t->only_quick ? RONDO_HOST_SUBMITTER : RONDO_HOST_WORKER);
  rondo_host_block_disown(block);
  moved |= d->base.service(d->base.owner);
  return moved;
}

// True if it is time to visit unmarked blocks too. For example, a block can go on after its stream
// has rung the doorbell, which does not mark the block. No other thread begins such a visit before
// this one has ended, or has taken long.
static bool is_blind_round(uint64_t now_ns) {
  uint64_t *next = &rondo_host_device.blind_ns;
  if (!rondo_host_has_ready_bytes())
    return true;
  if (now_ns < rondo_load_relaxed_u64(next))
    return false;
  rondo_store_relaxed_u64(next, now_ns + BLIND_MOST_NS);
  return true;
}

static uint64_t min_ns(uint64_t a_ns, uint64_t b_ns) { return a_ns < b_ns ? a_ns : b_ns; }

static uint64_t thread_time_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

// Visits all blocks. The next visit is the later, the more time this one took: when hundreds of
// ranks wait for gates, a visit looks at tens of thousands of collectives in vain.
static bool blocks_visit_all(struct block_search *search) {
  uint64_t began_ns = thread_time_ns();
  bool moved = rondo_host_ready_visit(block_try_steal, search, true);
  uint64_t pause_ns = min_ns((thread_time_ns() - began_ns) * BLIND_SHARE, BLIND_MOST_NS);
  if (pause_ns < BLIND_EVERY_NS)
    pause_ns = BLIND_EVERY_NS;
  rondo_store_relaxed_u64(&rondo_host_device.blind_ns, search->now_ns + pause_ns);
  return moved;
}

// Steps blocks of other ranks. `only_quick`: only those with small runs and no waiting thread.
// Returns true if one made progress.
static bool blocks_steal(const struct rondo_host_daemon *own, uint64_t now_ns, bool only_quick) {
  struct block_search search = {own, now_ns, only_quick};
  return is_blind_round(now_ns) ? blocks_visit_all(&search)
                                : rondo_host_ready_visit(block_try_steal, &search, false);
}

// Makes a sleep longer if many threads sleep. A sleeper that wakes and checks takes some
// microseconds of a core, so many sleepers together would take the cores from threads with work.
static uint64_t sleep_among_others_ns(uint64_t sleep_ns) {
  uint32_t sleepers =
      rondo_load_relaxed_u32(&rondo_host_device.sleepers) + rondo_host_competing_ranks();
  return min_ns(sleep_ns * (1 + sleepers / SLEEPERS_FEW), SLEEP_MAX_NS);
}

// Sleeps until a run has ended, another thread wakes this one, another process has notified this
// one, or `limit_ns` has passed. While the announcement of the wait is new (B3), sleeps only for a
// short time and returns false.
static bool daemon_sleep(struct rondo_host_daemon *d, int (*is_done)(void *), void *arg,
                         uint64_t limit_ns) {
  struct rondo_event_count *own = d->base.event_counts ? d->base.event_counts->own : NULL;
  uint32_t word = rondo_load_acquire_u32(&d->done_word);
  struct rondo_futex_shared on = {0};
  bool slept = false;
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, 1);
  if (own)
    on = rondo_event_count_prepare_wait(own, rondo_now_ns());
  // Workers and other threads step the blocks of a sleeper.
  rondo_fetch_add_relaxed_u32(&d->helpers, (uint32_t)-1);
  rondo_fetch_add_seq_cst_u32(&rondo_host_device.sleepers, 1); // H6
  if (!has_shared_core()) // else no thread leaves completions in the CQ
    rondo_fence_heavy();  // H7
  // A thread that returns from now on sees a sleeper. Work that a thread left before is found
  // below.
  uint64_t now_ns = rondo_now_ns();
  // A thread that ended a run and saw no waiter subtracted the run before: this load sees that.
  (void)rondo_load_seq_cst_u64(&d->base.outstanding); // H7
  if (!is_done(arg) && !daemon_step(d, now_ns) && !blocks_steal(d, now_ns, 0) &&
      !daemon_forward(d, RONDO_FORWARD_SLEEP)) {
    bool is_new = own && rondo_event_count_is_new(own, now_ns);
    if (is_new && has_shared_core())
      sched_yield(); // lets the announcement age, and costs less than a sleep and a wake-up
    else
      (void)rondo_futex_wait_any(&d->done_word, word, &on, own != NULL,
                                 is_new ? min_ns(limit_ns, RONDO_EVENT_COUNT_SHORT_NS) : limit_ns);
    slept = !is_new;
  }
  rondo_fetch_add_seq_cst_u32(&rondo_host_device.sleepers, (uint32_t)-1);
  rondo_fetch_add_relaxed_u32(&d->helpers, 1);
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, (uint32_t)-1);
  return slept;
}

void rondo_host_notify_completion(struct rondo_daemon *base) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  if (!rondo_load_seq_cst_u32(&d->done_waiters)) // H7
    return;
  rondo_fetch_add_seq_cst_u32(&d->done_word, 1);
  rondo_futex_wake_all(&d->done_word);
}

// True if the block can move and no thread steps it.
static bool block_is_ready(struct rondo_host_block *block) {
  if (!rondo_host_block_try_own(block))
    return false;
  bool is_ready = rondo_block_can_move(&block->core);
  rondo_host_block_disown(block);
  return is_ready;
}

// Wakes threads that wait for ranks of this worker: those whose blocks can move (`only_ready`), or
// else those of the first rank that has any. Returns true if it woke any.
static bool worker_wake_sleepers(struct rondo_host_worker *w, bool only_ready) {
  bool woke = false;
  if (pthread_rwlock_tryrdlock(&w->blocks_lock))
    return false;
  for (uint32_t i = 0; i < w->block_count && (only_ready || !woke); i++) {
    struct rondo_host_daemon *d = w->blocks[i]->daemon;
    if (!rondo_load_seq_cst_u32(&d->done_waiters) || (only_ready && !block_is_ready(w->blocks[i])))
      continue;
    rondo_host_notify_completion(&d->base);
    woke = true;
  }
  pthread_rwlock_unlock(&w->blocks_lock);
  return woke;
}

// As worker_wake_sleepers, for all workers.
static void workers_wake_sleepers(bool only_ready) {
  struct rondo_host_device *dev = &rondo_host_device;
  uint32_t workers = rondo_load_acquire_u32(&dev->worker_count);
  for (uint32_t i = 0; i < workers; i++)
    if (worker_wake_sleepers(&dev->workers[i], only_ready) && !only_ready)
      return;
}

// Wakes sleepers whose blocks can go on. Threads that share cores are not woken: a thread that is
// awake steps their blocks.
static void workers_wake_ready(void) {
  if (rondo_load_relaxed_u32(&rondo_host_device.sleepers) && !has_shared_core())
    workers_wake_sleepers(true);
}

// Wakes one sleeper if there may be a core on which no thread steps blocks any more. The caller,
// which returns to the application, may have been the last on its core.
static void workers_wake_sleeper(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t sleepers = rondo_load_seq_cst_u32(&dev->sleepers); // H6
  if (sleepers && rondo_load_relaxed_u32(&dev->active) < dev->cores + sleepers)
    workers_wake_sleepers(false);
}

// A thread in rondo_host_wait.
struct helper {
  struct rondo_host_daemon *daemon;
  uint32_t fruitless; // rounds since the last progress of its own rank
  bool is_active;     // counted in rondo_host_device.active; not during short waits, because all
                      // ranks share that cache line
  uint64_t moved_ns;  // time of the last progress
  uint64_t sleep_ns;  // length of its next sleep
  uint64_t since_ns;  // time since when it has not yielded
};

// A round in which the thread's own rank made no progress. Runs the proxy, and steps blocks of
// other ranks. Returns true if it is time to sleep.
static bool helper_idle_round(struct helper *h, uint64_t now_ns) {
  if (daemon_forward(h->daemon, RONDO_FORWARD_STAY)) {
    h->fruitless = 0;
    h->moved_ns = now_ns;
    return false;
  }
  if (++h->fruitless == JOIN_AFTER && !h->is_active) {
    rondo_fetch_add_relaxed_u32(&rondo_host_device.active, 1);
    h->is_active = 1;
    workers_wake_ready();
  }
  bool is_oversubscribed = rondo_host_is_oversubscribed();
  if ((is_oversubscribed || h->fruitless > STEAL_AFTER) && blocks_steal(h->daemon, now_ns, 0)) {
    h->moved_ns = now_ns;
    return false;
  }
  if (now_ns - h->moved_ns > (is_oversubscribed ? SHARED_SLEEP_NS : SLEEP_AFTER_NS))
    return true;
  // A wake-up takes tens of microseconds, so the thread yields as long as it would have spun.
  if (has_shared_core())
    sched_yield();
  else
    rondo_relax();
  return false;
}

// True if a thread may sleep that must be notified of ended runs. If threads do not share cores,
// the sleeper passes the heavy half of the fence (daemon_sleep).
static bool has_sleepers(struct rondo_host_daemon *d) {
  rondo_fence_light(); // H7
  return has_shared_core() || rondo_load_relaxed_u32(&d->done_waiters);
}

// True if the worker must be woken for remaining work. A thread that waits for one run after
// another leaves work each time. If no core is spare, it would have to give its core to the worker
// each time, so the ranks that share a core wake their workers in turn. A worker that was woken a
// while ago checks again after about the same time, and at the latest after its longest tick.
static bool must_wake_worker(struct rondo_host_daemon *d) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint64_t now_ns = rondo_load_relaxed_u64(&d->blocks[0].now_ns);
  if (!rondo_host_has_spare_core()) {
    uint32_t ranks = rondo_load_relaxed_u32(&dev->local_ranks) + rondo_host_competing_ranks();
    uint64_t period_ns = (uint64_t)WAKE_EVERY_NS * (ranks / dev->cores);
    if (now_ns - rondo_load_relaxed_u64(&d->woken_ns) < period_ns ||
        period_ns >= rondo_host_longest_tick_ns())
      return false;
  }
  rondo_store_relaxed_u64(&d->woken_ns, now_ns);
  return true;
}

// Ends a wait or its fast path. `left`: completions that stay in the CQ.
static void daemon_leave(struct rondo_host_daemon *d, uint64_t left) {
  (void)daemon_forward(d, RONDO_FORWARD_LEAVE);
  workers_wake_sleeper();
  // The worker takes over remaining work.
  if (rondo_load_relaxed_u64(&d->base.outstanding) > left && must_wake_worker(d))
    rondo_host_notify_submission(&d->base, 1);
}

// Yields every SHARE_AFTER_NS: a thread that moves a large run for milliseconds would delay a
// thread that waits for a small run on the same core.
static void helper_share_core(struct helper *h, uint64_t now_ns) {
  if (now_ns - h->since_ns < SHARE_AFTER_NS)
    return;
  sched_yield();
  h->since_ns = now_ns;
}

// Steps blocks until is_done or the deadline. `moved`: the caller's first steps made progress.
// Returns the result of is_done.
static int daemon_help(struct rondo_host_daemon *d, int (*is_done)(void *arg), void *arg,
                       int64_t timeout_ns, bool moved) {
  uint64_t now_ns = rondo_now_ns();
  const uint64_t deadline_ns = rondo_deadline_ns(now_ns, timeout_ns);
  struct helper h = {.daemon = d, .moved_ns = now_ns, .sleep_ns = SLEEP_MIN_NS, .since_ns = now_ns};
  int done = 0;
  rondo_fetch_add_relaxed_u32(&d->helpers, 1);
  while (!done && (moved || now_ns < deadline_ns)) {
    if (moved) {
      h.fruitless = 0;
      h.moved_ns = now_ns;
      h.sleep_ns = SLEEP_MIN_NS;
      helper_share_core(&h, now_ns);
    } else if (helper_idle_round(&h, now_ns)) {
      uint64_t limit_ns = min_ns(deadline_ns - now_ns, sleep_among_others_ns(h.sleep_ns));
      if (daemon_sleep(d, is_done, arg, limit_ns))
        h.sleep_ns = min_ns(2 * h.sleep_ns, SLEEP_MAX_NS);
    }
    now_ns = rondo_now_ns();
    moved = daemon_step(d, now_ns);
    done = is_done(arg);
  }
  if (h.is_active)
    rondo_fetch_add_relaxed_u32(&rondo_host_device.active, (uint32_t)-1);
  rondo_fetch_add_seq_cst_u32(&d->helpers, (uint32_t)-1);
  return done;
}

// What a test does after its steps if the run has not ended: it runs the proxy. Only every
// STEAL_AFTER-th time it steps blocks of other ranks, so that a test stays short.
static void daemon_rest_after_test(struct rondo_host_daemon *d, bool moved) {
  uint32_t fruitless = moved ? 0 : rondo_load_relaxed_u32(&d->fruitless) + 1;
  rondo_store_relaxed_u32(&d->fruitless, fruitless);
  if (moved || daemon_forward(d, RONDO_FORWARD_STAY))
    return;
  if (fruitless % STEAL_AFTER == 0 && blocks_steal(d, rondo_now_ns(), 0))
    return;
  if (fruitless > YIELD_AFTER && has_shared_core())
    sched_yield();
}

// Tests once. Returns true if done.
static bool daemon_test(struct rondo_host_daemon *d, int (*is_done)(void *arg), void *arg) {
  bool moved = daemon_step_blocks(d, 0, RONDO_HOST_TESTER);
  int done = is_done(arg);
  if (done != RONDO_DONE_IN_CQ || has_sleepers(d)) {
    moved |= d->base.service(d->base.owner);
    done = is_done(arg);
  }
  if (done)
    (void)daemon_forward(d, RONDO_FORWARD_LEAVE);
  else
    daemon_rest_after_test(d, moved);
  return done != 0;
}

void rondo_host_poll(struct rondo_daemon *base, bool others) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  bool moved = true;
  for (int i = 0; i < QUICK_ROUNDS && moved; i++) {
    moved = daemon_step_blocks(d, 0, RONDO_HOST_SUBMITTER);
    moved |= d->base.service(d->base.owner);
    if (others && rondo_load_relaxed_u32(&rondo_host_device.daemons) > 1)
      moved |= blocks_steal(d, rondo_now_ns(), 1);
  }
}

int rondo_host_wait(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  if (timeout_ns <= 0)
    return daemon_test(d, is_done, arg) ? RONDO_SUCCESS : RONDO_ERR_TIMEOUT;
  // A small run is often over before a clock is read.
  bool moved = daemon_step_blocks(d, 0, daemon_waiter_kind(d));
  if (is_done(arg) == RONDO_DONE_IN_CQ && !has_sleepers(d)) {
    daemon_leave(d, 1);
    return RONDO_SUCCESS;
  }
  moved |= d->base.service(d->base.owner);
  int done = is_done(arg) || daemon_help(d, is_done, arg, timeout_ns, moved);
  daemon_leave(d, 0);
  return done ? RONDO_SUCCESS : RONDO_ERR_TIMEOUT;
}

// Only for a daemon of one block, and only if the caller does not share its core: else it should
// return soon.
uint64_t rondo_host_submit_inline(struct rondo_daemon *base, const struct rondo_sqe *entry,
                                  struct rondo_stamp *clock) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  struct rondo_host_block *block = &d->blocks[0];
  if (d->core.block_count != 1 || has_shared_core() || !rondo_host_block_try_own(block))
    return 0;
  rondo_counter_add(&block->helped, 1);
  return rondo_host_block_submit_inline(block, entry, clock);
}

void rondo_host_poll_inline(struct rondo_daemon *base) {
  struct rondo_host_block *block = &rondo_host_daemon_of(base)->blocks[0];
  rondo_host_block_poll_inline(block);
  rondo_host_block_disown(block);
  workers_wake_ready();
  if (rondo_load_relaxed_u32(&rondo_host_device.wake_on_move)) // B4: runs for which no thread waits
    (void)blocks_steal(rondo_host_daemon_of(base), rondo_now_ns(), 1);
}

// ------------------------------------------------------------- synchronise ---

struct sync_point {
  struct rondo_host_daemon *daemon;
  uint64_t launches[RONDO_MAX_BLOCKS];
};

static bool has_left(void *arg) {
  struct sync_point *p = arg;
  for (uint32_t i = 0; i < p->daemon->core.block_count; i++)
    if (rondo_load_acquire_u64(&p->daemon->blocks[i].leaves) < p->launches[i]) // H5
      return false;
  return true;
}

// The thread steps no blocks, as cudaDeviceSynchronize executes no kernel.
int rondo_host_synchronize(struct rondo_daemon *base, uint64_t deadline_ns) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  struct sync_point point = {.daemon = d};
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    uint64_t launches = rondo_load_seq_cst_u64(&d->blocks[i].launches);
    uint64_t leaves = rondo_load_acquire_u64(&d->blocks[i].leaves);
    // An entry submitted before the call counts as launched, though its start is still to come.
    bool is_coming = i == 0 && launches == leaves && rondo_sq_has_entry(&d->base.sq);
    point.launches[i] = launches + (uint64_t)is_coming;
  }
  rondo_fetch_add_seq_cst_u32(&d->sync_waiters, 1);
  rondo_host_notify_submission(base, 1);
  bool left = has_left(&point);
  while (!left) {
    uint32_t word = rondo_load_acquire_u32(&d->left_word);
    left = has_left(&point);
    uint64_t now_ns = rondo_now_ns();
    // Resident blocks of a daemon that ends are not stepped any more, and never leave.
    if (left || now_ns >= deadline_ns || rondo_load_acquire_u32(&d->exit))
      break;
    uint64_t rest_ns = deadline_ns - now_ns;
    rondo_futex_wait(&d->left_word, word, min_ns(rest_ns, SLEEP_MIN_NS));
  }
  rondo_fetch_add_seq_cst_u32(&d->sync_waiters, (uint32_t)-1);
  if (left)
    return RONDO_SUCCESS;
  return rondo_load_acquire_u32(&d->exit) ? RONDO_ERR_CLOSED : RONDO_ERR_TIMEOUT;
}
