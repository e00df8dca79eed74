// A thread that waits helps: it steps the blocks of its own rank, and those of others when these
// are stuck, instead of sleeping beside them.
#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"
#include "daemon/host/device.h"

#define JOIN_AFTER 8            // fruitless rounds before a helper counts itself as active
#define STEAL_AFTER 32          // ... before it looks at other ranks' blocks
#define SLEEP_AFTER_NS 1000000u // time without progress before it sleeps, with a core to itself
#define CROWDED_SLEEP_NS 50000u // ... and without one; until then it yields
#define SHARE_AFTER_NS                                                                             \
  100000u // time in which a thread has moved data before it lets others have its core
#define SLEEP_MIN_NS 500000u   // the first time; twice as long each time that nothing has moved
#define SLEEP_MAX_NS 64000000u // ... at most
#define SLEEPERS_FEW 4u        // so many may look that often
#define BLIND_EVERY_NS 200000u // all blocks are looked at so often
#define WAKE_EVERY_NS 1000000u // a worker is woken so often at most for work that is left
#define LARGE_BYTES 262144u    // pieces of at least this are left to a rank's own thread
#define ASSIST_ROUNDS 8        // of a thread that has submitted, over its own blocks and others'
#define OWN_LOOKS 64           // ... at the owner of a block that waits for what it has submitted
#define ASSIST_BYTES 8192u     // ... that do not move pieces of more
#define YIELD_AFTER                                                                                \
  4 // fruitless visits before a thread that asks yields a core that others may wait for

// Looks after the network. `then`: enum rondo_forward. Returns 1 if anything moved.
static int forward(struct rondo_host_daemon *d, int then) {
  return rondo_daemon_is_far(&d->base) && d->base.forward(d->base.owner, then);
}

// 1 if others may be waiting for this core.
static int must_share_core(void) { return rondo_host_is_crowded() || rondo_host_is_contended(); }

// 1 if whoever submits or calls back steps all that the block waits for: small runs between ranks of this process.
static int is_done_by_assistants(const struct rondo_host_block *block) {
  return !block->daemon->base.bells && rondo_load_relaxed_u32(&block->copies_bytes) <= ASSIST_BYTES;
}

// Block 0 has moved, and may have put entries into the inboxes of the others.
static void tell_inboxes(const struct rondo_host_daemon *d) {
  for (uint32_t i = 1; i < d->core.block_count; i++)
    if (rondo_sq_has_entry(&d->core.inboxes[i]))
      rondo_host_ready_set(d->blocks[i].ready);
}

// Steps a block that the caller owns. Returns 1 if it moved, and may go on.
static int drive(struct rondo_host_block *block, uint64_t now_ns, enum rondo_host_caller caller) {
  int is_told = rondo_host_is_told();
  if (is_told)
    rondo_host_ready_clear(block->ready);
  int moved = rondo_host_drive(block, now_ns, caller) == RONDO_STEP_PROGRESSED;
  if (is_told && (moved || rondo_sq_try_peek(&block->core.source)))
    rondo_host_ready_set(block->ready);
  if (is_told && moved && block->core.index == 0)
    tell_inboxes(block->daemon);
  return moved;
}

// Steps a block of the caller's rank. Returns 1 if it moved. The caller owns it.
static int step_own(struct rondo_host_block *block, uint64_t now_ns,
                    enum rondo_host_caller caller) {
  rondo_counter_add(&block->helped, 1);
  if (caller != RONDO_HOST_ASSISTANT || is_done_by_assistants(block))
    rondo_counter_add(&block->asked, 1);
  return drive(block, now_ns, caller);
}

// Steps every block of a daemon that nobody else is stepping. Returns 1 if one moved. It is `now_ns`; 0:
// their own clocks are asked.
static int step_blocks(struct rondo_host_daemon *d, uint64_t now_ns,
                       enum rondo_host_caller caller) {
  int moved = 0;
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    struct rondo_host_block *block = &d->blocks[i];
    if (!rondo_host_try_own(block))
      continue;
    moved |= step_own(block, now_ns, caller);
    rondo_host_disown(block);
  }
  return moved;
}

// How a thread steps the blocks of the rank for which it waits.
static enum rondo_host_caller waiter_of(const struct rondo_host_daemon *d) {
  return d->core.block_count == 1 && !must_share_core() ? RONDO_HOST_WAITER : RONDO_HOST_WORKER;
}

static int step_daemon(struct rondo_host_daemon *d, uint64_t now_ns) {
  int moved = step_blocks(d, now_ns, waiter_of(d));
  moved |= d->base.service(d->base.owner);
  return moved;
}

// 1 if the block is about to put much into its rank's own buffer, and the rank has a thread that is
// awake: that thread's core has the buffer in its caches, from the run before or soon. Where cores
// share no cache, such a copy by another core took up to seven times as long.
static int is_better_left(const struct rondo_host_block *block) {
  return rondo_load_relaxed_u32(&block->copies_bytes) >= LARGE_BYTES &&
         rondo_load_relaxed_u32(&block->daemon->helpers) > 0;
}

// 1 if the block is small change to whoever has just given it something to do, and no thread waits for its rank.
static int is_quickly_done(const struct rondo_host_block *block) {
  return rondo_load_relaxed_u32(&block->copies_bytes) <= ASSIST_BYTES &&
         rondo_load_relaxed_u32(&block->daemon->helpers) == 0;
}

// Takes the block of another rank, for whose owner the caller has a moment: it is in the middle of a step.
static int own_soon(struct rondo_host_block *block) {
  for (int i = 0; i < OWN_LOOKS; i++) {
    if (rondo_host_try_own(block))
      return 1;
    rondo_relax();
  }
  return 0;
}

struct thief {
  const struct rondo_host_daemon *own; // whose blocks are left out
  uint64_t now_ns;
  int assists; // takes what is quickly done
};

// 1 if the block has nothing to do until somebody submits, who then sets its byte.
static int is_idle(struct rondo_host_block *block) {
  const uint64_t *outstanding = &block->daemon->base.outstanding;
  int is_told = rondo_host_is_told();
  if (rondo_load_relaxed_u64(outstanding) > 0)
    return 0;
  if (is_told)
    rondo_host_ready_clear(block->ready);
  if (rondo_load_relaxed_u64(outstanding) == 0) // C8
    return 1;
  // The thread that owns the block may have stepped it already: what the byte tells would be lost.
  if (is_told)
    rondo_host_ready_set(block->ready);
  return 0;
}

// Steps a block of another rank. Returns 1 if it moved.
static int steal_block(struct rondo_host_block *block, void *arg) {
  const struct thief *t = arg;
  struct rondo_host_daemon *d = block->daemon;
  if (d == t->own)
    return 0;
  if (is_idle(block))
    return 0;
  if (t->assists ? !is_quickly_done(block) || !own_soon(block)
                 : is_better_left(block) || !rondo_host_try_own(block)) {
    if (t->assists && rondo_load_relaxed_u32(&d->helpers) == 0)
      rondo_host_kick(&d->base, 1); // nobody else may see what has come for it
    return 0;
  }
  int moved = drive(block, t->now_ns, t->assists ? RONDO_HOST_ASSISTANT : RONDO_HOST_WORKER);
  rondo_host_disown(block);
  moved |= d->base.service(d->base.owner);
  return moved;
}

// 1 if it is time to look also at blocks that have been told nothing: a stream, for example, lets a
// block go on and does not tell it.
static int is_blind_round(uint64_t now_ns) {
  uint64_t *next = &rondo_host_device.blind_ns;
  if (!rondo_host_is_told())
    return 1;
  if (now_ns < rondo_load_relaxed_u64(next))
    return 0;
  rondo_store_relaxed_u64(next, now_ns + BLIND_EVERY_NS);
  return 1;
}

// Steps blocks of other ranks; `assists`: those that are quickly done. Returns 1 if one moved.
static int steal(const struct rondo_host_daemon *own, uint64_t now_ns, int assists) {
  struct thief thief = {own, now_ns, assists};
  return rondo_host_ready_visit(steal_block, &thief, is_blind_round(now_ns));
}

static uint64_t shorter(uint64_t a_ns, uint64_t b_ns) { return a_ns < b_ns ? a_ns : b_ns; }

// Each look of a sleeper takes some microseconds of a core: the more sleepers there are, the less often each of them
// looks, so that all together leave the cores to those who have something to do.
static uint64_t sleep_among_others_ns(uint64_t sleep_ns) {
  uint32_t sleepers = rondo_load_relaxed_u32(&rondo_host_device.sleepers) + rondo_host_others();
  return shorter(sleep_ns * (1 + sleepers / SLEEPERS_FEW), SLEEP_MAX_NS);
}

// The bell of the daemon's process; null: nobody rings for it.
static struct rondo_bell *bell_of(const struct rondo_host_daemon *d) {
  return d->base.bells ? d->base.bells->own : NULL;
}

// Sleeps until a run has ended, another helper hands over or finds the rank ready, another process has moved
// something, or `limit_ns` has passed; not for long while its wish to be woken is new. Returns 1 if it was not.
static int sleep_on_done(struct rondo_host_daemon *d, int (*is_done)(void *), void *arg,
                         uint64_t limit_ns) {
  struct rondo_bell *bell = bell_of(d);
  uint32_t word = rondo_load_acquire_u32(&d->done_word);
  struct rondo_futex_shared rung = {0};
  uint32_t bells = bell != NULL;
  int slept = 0;
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, 1);
  if (bell)
    rung = rondo_bell_want(bell, rondo_now_ns());
  // Asleep it is no help: workers and other helpers take its blocks over.
  rondo_fetch_add_relaxed_u32(&d->helpers, (uint32_t)-1);
  rondo_fetch_add_seq_cst_u32(&rondo_host_device.sleepers, 1); // H6
  if (!must_share_core()) // else nobody leaves completions in the queue
    rondo_fence_heavy();  // H7
  // Who leaves from here on sees a sleeper; what others left before is found in this round.
  uint64_t now_ns = rondo_now_ns();
  // Who ended a run and saw no waiter counted it before: what it ended is seen here.
  (void)rondo_load_seq_cst_u64(&d->base.outstanding); // H7
  if (!is_done(arg) && !step_daemon(d, now_ns) && !steal(d, now_ns, 0) &&
      !forward(d, RONDO_FORWARD_SLEEP)) {
    int is_new = bell && rondo_bell_is_new(bell, now_ns);
    if (is_new && must_share_core())
      sched_yield(); // which ages the wish as well, and costs less than to sleep and be woken
    else
      (void)rondo_futex_wait_any(&d->done_word, word, &rung, bells,
                                 is_new ? shorter(limit_ns, RONDO_BELL_SHORT_NS) : limit_ns);
    slept = !is_new;
  }
  rondo_fetch_add_seq_cst_u32(&rondo_host_device.sleepers, (uint32_t)-1);
  rondo_fetch_add_relaxed_u32(&d->helpers, 1);
  rondo_fetch_add_seq_cst_u32(&d->done_waiters, (uint32_t)-1);
  return slept;
}

void rondo_host_done(struct rondo_daemon *base) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  if (!rondo_load_seq_cst_u32(&d->done_waiters)) // H7
    return;
  rondo_fetch_add_seq_cst_u32(&d->done_word, 1);
  rondo_futex_wake_all(&d->done_word);
}

// 1 if the block can move and nobody steps it.
static int is_ready(struct rondo_host_block *block) {
  if (!rondo_host_try_own(block))
    return 0;
  int ready = rondo_block_can_move(&block->core);
  rondo_host_disown(block);
  return ready;
}

// Wakes the threads that sleep in rondo_host_help for ranks of this worker whose blocks can move.
static void wake_ready_of(struct rondo_host_worker *w) {
  if (pthread_rwlock_tryrdlock(&w->blocks_lock))
    return;
  for (uint32_t i = 0; i < w->block_count; i++) {
    struct rondo_host_daemon *d = w->blocks[i]->daemon;
    if (rondo_load_relaxed_u32(&d->done_waiters) && is_ready(w->blocks[i]))
      rondo_host_done(&d->base);
  }
  pthread_rwlock_unlock(&w->blocks_lock);
}

// The caller has done what it could, and others that sleep may go on with it. Where threads share cores they need not
// be woken: whoever is awake steps their blocks.
static void wake_ready(void) {
  struct rondo_host_device *dev = &rondo_host_device;
  if (!rondo_load_relaxed_u32(&dev->sleepers) || must_share_core())
    return;
  uint32_t workers = rondo_load_acquire_u32(&dev->worker_count);
  for (uint32_t i = 0; i < workers; i++)
    wake_ready_of(&dev->workers[i]);
}

// Wakes the threads that sleep in rondo_host_help for one rank of this worker. Returns 1 if there
// were any.
static int wake_sleepers_of(struct rondo_host_worker *w) {
  int woke = 0;
  if (pthread_rwlock_tryrdlock(&w->blocks_lock))
    return 0;
  for (uint32_t i = 0; i < w->block_count && !woke; i++) {
    struct rondo_host_daemon *d = w->blocks[i]->daemon;
    woke = rondo_load_seq_cst_u32(&d->done_waiters) != 0;
    if (woke)
      rondo_host_done(&d->base);
  }
  pthread_rwlock_unlock(&w->blocks_lock);
  return woke;
}

// A helper leaves, and may have been the last that worked for those who sleep: one of them takes
// over if a core has nobody else.
static void hand_over(void) {
  struct rondo_host_device *dev = &rondo_host_device;
  uint32_t sleepers = rondo_load_seq_cst_u32(&dev->sleepers); // H6
  if (!sleepers || rondo_load_relaxed_u32(&dev->active) >= dev->cores + sleepers)
    return;
  uint32_t workers = rondo_load_acquire_u32(&dev->worker_count);
  for (uint32_t i = 0; i < workers; i++)
    if (wake_sleepers_of(&dev->workers[i]))
      return;
}

// One thread's stay.
struct helper {
  struct rondo_host_daemon *daemon;
  uint32_t fruitless; // rounds since something of its own rank moved
  int is_active;      // counted in the device, a line that all ranks share: not in short stays
  uint64_t moved_ns;
  uint64_t sleep_ns; // how long it sleeps next
  uint64_t since_ns; // it has had its core without a break
};

// What a helper does in a round in which nothing of its own rank moved. Returns 1 if it is
// time to sleep: everybody whose work could go on has been looked after.
static int idle_round(struct helper *h, uint64_t now_ns) {
  if (forward(h->daemon, RONDO_FORWARD_STAY)) {
    h->fruitless = 0;
    h->moved_ns = now_ns;
    return 0;
  }
  if (++h->fruitless == JOIN_AFTER && !h->is_active) {
    rondo_fetch_add_relaxed_u32(&rondo_host_device.active, 1);
    h->is_active = 1;
    wake_ready();
  }
  int crowded = rondo_host_is_crowded();
  if ((crowded || h->fruitless > STEAL_AFTER) && steal(h->daemon, now_ns, 0)) {
    h->moved_ns = now_ns;
    return 0;
  }
  if (now_ns - h->moved_ns > (crowded ? CROWDED_SLEEP_NS : SLEEP_AFTER_NS))
    return 1;
  // To be woken takes tens of microseconds: the thread yields for as long as it would have spun.
  if (must_share_core())
    sched_yield();
  else
    rondo_relax();
  return 0;
}

// 1 if somebody may sleep who is to be told of ended runs. With a core for each thread a sleeper makes up for the
// light half of the fence (sleep_on_done).
static int has_sleepers(struct rondo_host_daemon *d) {
  rondo_fence_light(); // H7
  return must_share_core() || rondo_load_relaxed_u32(&d->done_waiters);
}

// 1 if the worker must be woken for work that is left. A thread that waits for one run after
// another leaves work each time. Where no core is spare it would give its own to the worker each
// time, which looks again soon anyway when it has just been woken.
static int must_wake_worker(struct rondo_host_daemon *d) {
  uint64_t now_ns = rondo_load_relaxed_u64(&d->blocks[0].now_ns);
  if (!rondo_host_has_spare_core() && now_ns - rondo_load_relaxed_u64(&d->woken_ns) < WAKE_EVERY_NS)
    return 0;
  rondo_store_relaxed_u64(&d->woken_ns, now_ns);
  return 1;
}

// A thread that stepped the daemon's blocks goes, and leaves so many completions in the queue.
static void leave(struct rondo_host_daemon *d, uint64_t left) {
  (void)forward(d, RONDO_FORWARD_LEAVE);
  hand_over();
  // Work that is left is the worker's again.
  if (rondo_load_relaxed_u64(&d->base.outstanding) > left && must_wake_worker(d))
    rondo_host_kick(&d->base, 1);
}

// A thread that moves a large run for milliseconds may keep one that waits for a small run from its core: the system
// would give it to that one only after some milliseconds.
static void share_core(struct helper *h, uint64_t now_ns) {
  if (now_ns - h->since_ns < SHARE_AFTER_NS)
    return;
  sched_yield();
  h->since_ns = now_ns;
}

// Helps until is_done, or until the time is over. `moved`: something did just now. Returns is_done.
static int stay(struct rondo_host_daemon *d, int (*is_done)(void *arg), void *arg,
                int64_t timeout_ns, int moved) {
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
      share_core(&h, now_ns);
    } else if (idle_round(&h, now_ns)) {
      uint64_t limit_ns = shorter(deadline_ns - now_ns, sleep_among_others_ns(h.sleep_ns));
      if (sleep_on_done(d, is_done, arg, limit_ns))
        h.sleep_ns = shorter(2 * h.sleep_ns, SLEEP_MAX_NS);
    }
    now_ns = rondo_now_ns();
    moved = step_daemon(d, now_ns);
    done = is_done(arg);
  }
  if (h.is_active)
    rondo_fetch_add_relaxed_u32(&rondo_host_device.active, (uint32_t)-1);
  rondo_fetch_add_seq_cst_u32(&d->helpers, (uint32_t)-1);
  return done;
}

// What a thread does that asks whether a run has ended, and that it has not: nobody knows when it asks again, so it
// looks after others only now and then.
static void rest_from_asking(struct rondo_host_daemon *d, int moved) {
  uint32_t fruitless = moved ? 0 : rondo_load_relaxed_u32(&d->fruitless) + 1;
  rondo_store_relaxed_u32(&d->fruitless, fruitless);
  if (moved)
    return;
  if (forward(d, RONDO_FORWARD_STAY))
    return;
  if (fruitless % STEAL_AFTER == 0 && steal(d, rondo_now_ns(), 0))
    return;
  if (fruitless > YIELD_AFTER && must_share_core())
    sched_yield();
}

// Looks once whether is_done. Returns 1 if so.
static int ask(struct rondo_host_daemon *d, int (*is_done)(void *arg), void *arg) {
  int moved = step_blocks(d, 0, RONDO_HOST_ASKER);
  int done = is_done(arg);
  if (done != RONDO_DONE_LEFT || has_sleepers(d)) {
    moved |= d->base.service(d->base.owner);
    done = is_done(arg);
  }
  if (done)
    (void)forward(d, RONDO_FORWARD_LEAVE);
  else
    rest_from_asking(d, moved);
  return done != 0;
}

void rondo_host_assist(struct rondo_daemon *base, int others) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  int moved = 1;
  for (int i = 0; i < ASSIST_ROUNDS && moved; i++) {
    moved = step_blocks(d, 0, RONDO_HOST_ASSISTANT);
    moved |= d->base.service(d->base.owner);
    if (others && rondo_load_relaxed_u32(&rondo_host_device.daemons) > 1)
      moved |= steal(d, rondo_now_ns(), 1);
  }
}

int rondo_host_help(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  if (timeout_ns <= 0)
    return ask(d, is_done, arg);
  // What is small is often over before the clock is looked at or anybody is told.
  int moved = step_blocks(d, 0, waiter_of(d));
  if (is_done(arg) == RONDO_DONE_LEFT && !has_sleepers(d)) {
    leave(d, 1);
    return 1;
  }
  moved |= d->base.service(d->base.owner);
  int done = is_done(arg) || stay(d, is_done, arg, timeout_ns, moved);
  leave(d, 0);
  return done;
}

// Of one block, not to be long, and only with a core to itself: who shares it had better go on.
uint64_t rondo_host_begin(struct rondo_daemon *base, const struct rondo_sqe *entry,
                          struct rondo_stamp *clock) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  struct rondo_host_block *block = &d->blocks[0];
  if (d->core.block_count != 1 || must_share_core() || !rondo_host_try_own(block))
    return 0;
  rondo_counter_add(&block->helped, 1);
  return rondo_host_hand(block, entry, clock);
}

void rondo_host_begun(struct rondo_daemon *base) {
  struct rondo_host_block *block = &rondo_host_daemon_of(base)->blocks[0];
  rondo_host_go_on(block);
  rondo_host_disown(block);
  wake_ready();
  if (rondo_load_relaxed_u32(&rondo_host_device.tickers)) // B4: runs for which nobody waits
    (void)steal(rondo_host_daemon_of(base), rondo_now_ns(), 1);
}

// ------------------------------------------------------------- synchronise ---

struct sync_point {
  struct rondo_host_daemon *daemon;
  uint64_t launches[RONDO_MAX_BLOCKS];
};

static int has_left(void *arg) {
  struct sync_point *p = arg;
  for (uint32_t i = 0; i < p->daemon->core.block_count; i++)
    if (rondo_load_acquire_u64(&p->daemon->blocks[i].leaves) < p->launches[i]) // H5
      return 0;
  return 1;
}

// The device runs by itself while a thread synchronises with it: the thread only looks on,
// as cudaDeviceSynchronize does.
int rondo_host_synchronize(struct rondo_daemon *base, uint64_t deadline_ns) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  struct sync_point point = {.daemon = d};
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    uint64_t launches = rondo_load_seq_cst_u64(&d->blocks[i].launches);
    uint64_t leaves = rondo_load_acquire_u64(&d->blocks[i].leaves);
    // What was submitted before the call counts as launched, though its start is still to come.
    int coming = i == 0 && launches == leaves && rondo_sq_has_entry(&d->base.sq);
    point.launches[i] = launches + (uint64_t)coming;
  }
  rondo_fetch_add_seq_cst_u32(&d->sync_waiters, 1);
  rondo_host_kick(base, 1);
  int left = has_left(&point);
  while (!left) {
    uint32_t word = rondo_load_acquire_u32(&d->left_word);
    left = has_left(&point);
    uint64_t now_ns = rondo_now_ns();
    // Blocks of a daemon that ends are stepped no more: those that are resident never leave.
    if (left || now_ns >= deadline_ns || rondo_load_acquire_u32(&d->exit))
      break;
    uint64_t rest_ns = deadline_ns - now_ns;
    rondo_futex_wait(&d->left_word, word, shorter(rest_ns, SLEEP_MIN_NS));
  }
  rondo_fetch_add_seq_cst_u32(&d->sync_waiters, (uint32_t)-1);
  return left;
}
