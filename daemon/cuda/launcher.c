// The thread that launches the daemons of all ranks of this process.
//
// A daemon is launched for a submission if some block of it has left, and again, after a pause that
// grows while launches are fruitless, as long as runs are outstanding. A launch is a grid of all
// blocks; those that still run see to it themselves that a second one of them does nothing.
#include <stdio.h>

#include "base/clock.h"
#include "base/futex.h"
#include "daemon/cuda/backend.h"

#define TICK_NS 100000u           // between looks while runs are outstanding
#define DEEP_BOUND_NS 1000000000u // ... and while none are
#define SWEEP_PAUSES 4u           // longest pauses after which blocks without known work are tried
#define LEAVE_BOUND_NS UINT64_C(20000000000)
#define LEAVE_LOOK_NS 50000u
#define ASK_AGAIN 4
#define GIVE_UP_NS UINT64_C(1000000000) // after launches have been refused for so long
#define OVERDUE_NS UINT64_C(2000000000) // a block cannot stay so much longer than it may

enum launcher_state {
  LAUNCHER_RUNNING = 0,
  LAUNCHER_TICK = 1, // parked for a short time
  LAUNCHER_DEEP = 2  // parked until kicked
};

struct launcher {
  uint32_t state;  // enum launcher_state (K2)
  uint32_t signal; // futex
  uint8_t line[RONDO_LINE_BYTES - 8];
  struct rondo_cuda_watch watch; // its lock guards each daemon's is_launching, too
  pthread_cond_t launched;
};

static void *launcher_main(void *arg);

static struct launcher launcher = {
    .watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .main = launcher_main, .name = "rondo-launcher"},
    .launched = PTHREAD_COND_INITIALIZER};

// ------------------------------------------------------------ what there is to do --

int rondo_cuda_is_resident(const struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    if (!rondo_cuda_block_is_resident(&d->status[b]))
      return 0;
  return 1;
}

static uint64_t progress_of(const struct rondo_cuda_block_status *s) {
  return rondo_load_relaxed_u64(&s->counters.primitives) +
         rondo_load_relaxed_u64(&s->counters.ended);
}

struct sums {
  uint64_t leaves, progress;
};

static struct sums sum_up(const struct rondo_cuda_daemon *d) {
  struct sums s = {0, 0};
  for (uint32_t b = 0; b < d->block_count; b++) {
    const struct rondo_cuda_block_status *status = &d->status[b];
    s.leaves += rondo_load_acquire_u64(&status->leaves); // L3
    s.progress += progress_of(status);
  }
  return s;
}

// Blocks have left: the pause before the next launch begins.
static void note_leaves(struct rondo_cuda_daemon *d, uint64_t now_ns) {
  struct sums s = sum_up(d);
  if (s.leaves == d->leaves_seen)
    return;
  if (s.progress != d->progress_seen)
    d->pause_ns = d->restart_min_ns;
  else if (d->pause_ns < d->restart_max_ns)
    d->pause_ns *= 2;
  d->leaves_seen = s.leaves;
  d->progress_seen = s.progress;
  d->next_start_ns = now_ns + d->pause_ns;
  d->sweep_ns = now_ns + SWEEP_PAUSES * d->restart_max_ns;
}

// 1 if a block has left though there is work for it. What waits in the rings between blocks cannot be
// seen from here: a block that seems to have no work is tried now and then.
static int is_lagging(const struct rondo_cuda_daemon *d, uint64_t now_ns) {
  for (uint32_t b = 0; b < d->block_count; b++) {
    const struct rondo_cuda_block_status *s = &d->status[b];
    if (rondo_cuda_block_is_resident(s))
      continue;
    if (rondo_load_relaxed_u32(&s->queued) || now_ns >= d->sweep_ns ||
        (b == 0 && rondo_sq_has_entry(&d->base.sq)))
      return 1;
  }
  return 0;
}

// A stream without a launch, or null. A failed one has none either: launching there says why.
static CUstream idle_stream(const struct rondo_cuda_daemon *d) {
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS; i++) {
    CUstream s = d->streams[(d->launch.number + i) % RONDO_CUDA_STREAMS];
    if (d->device->api->stream_query(s) != CUDA_ERROR_NOT_READY)
      return s;
  }
  return NULL;
}

// ----------------------------------------------------------------- starts and quits --

// A stuck block starts and quits a thousand times a second: of such a series only the first is told.
static void tell(const struct rondo_cuda_daemon *d, uint32_t block, int what) {
  if (d->base.noted && !d->told[block].is_fruitless)
    d->base.noted(d->base.owner, what, block);
}

static void tell_left(struct rondo_cuda_daemon *d, uint32_t block, uint64_t leaves) {
  struct rondo_cuda_told *told = &d->told[block];
  uint64_t progress = progress_of(&d->status[block]);
  tell(d, block, RONDO_NOTE_QUIT);
  told->is_fruitless = progress == told->progress;
  told->progress = progress;
  told->leaves = leaves;
}

// Tells what the block has done since the last look. Of several residencies the last is told.
static void note_block(struct rondo_cuda_daemon *d, uint32_t block) {
  struct rondo_cuda_told *told = &d->told[block];
  uint64_t leaves = rondo_load_acquire_u64(&d->status[block].leaves); // L3
  uint64_t launches = rondo_load_acquire_u64(&d->status[block].launches);
  if (told->leaves != told->launches && leaves >= told->launches)
    tell_left(d, block, leaves);
  if (launches == told->launches)
    return;
  tell(d, block, RONDO_NOTE_STARTED);
  told->launches = launches;
  if (leaves == launches)
    tell_left(d, block, leaves);
}

// ---------------------------------------------------------------------- launching --

// 1 if the last launch is still on its way: no block has begun it, and it has not ended.
static int is_coming(const struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    if (rondo_load_acquire_u64(&d->status[b].launch) == d->launch.number)
      return 0;
  return d->last_stream && d->device->api->stream_query(d->last_stream) == CUDA_ERROR_NOT_READY;
}

// What came of an attempt.
struct attempt {
  CUresult result;
  int is_covered; // a launch begins after the attempt did: it sees all that was submitted before
};

// In the device's context.
static struct attempt attempt_inside(struct rondo_cuda_daemon *d) {
  struct attempt a = {CUDA_SUCCESS, is_coming(d)};
  CUstream stream = a.is_covered ? NULL : idle_stream(d);
  if (!stream)
    return a;
  struct rondo_cuda_launch l = d->launch;
  void *params[] = {&l};
  unsigned fast_bytes = (unsigned)rondo_cuda_fast_bytes(l.fast_tasks);
  l.number++;
  a.result = d->device->api->launch_kernel(d->device->kernel, d->block_count, 1, 1, d->threads, 1,
                                           1, fast_bytes, stream, params, NULL);
  if (a.result != CUDA_SUCCESS)
    return a;
  a.is_covered = 1;
  d->launch.number = l.number;
  d->last_stream = stream;
  rondo_store_relaxed_u64(&d->starts, d->starts + 1);
  return a;
}

static struct attempt attempt(struct rondo_cuda_daemon *d) {
  struct rondo_cuda_stay stay;
  struct attempt a = {rondo_cuda_enter(d->device, &stay), 0};
  if (a.result != CUDA_SUCCESS)
    return a;
  a = attempt_inside(d);
  rondo_cuda_leave(&stay);
  return a;
}

// 1 if it is time to launch. `is_new`: something was submitted since the last launch.
static int should_launch(const struct rondo_cuda_daemon *d, int is_new, uint64_t now_ns) {
  if (d->failing_since_ns && now_ns < d->next_start_ns)
    return 0;
  // Blocks that stay longer than they can are no longer there: an attempt says why.
  if (rondo_cuda_is_resident(d))
    return now_ns - d->launched_ns >= d->launch.longest_ns + OVERDUE_NS;
  return is_new || (now_ns >= d->next_start_ns && is_lagging(d, now_ns));
}

// 1 if the daemon has been refused for so long that it is given up.
static int is_beyond_hope(const struct rondo_cuda_daemon *d, const struct attempt *a,
                          uint64_t now_ns) {
  return a->result != CUDA_SUCCESS && d->failing_since_ns &&
         now_ns - d->failing_since_ns >= GIVE_UP_NS;
}

// The lock is not held.
static void give_up(const struct rondo_cuda_daemon *d, CUresult result) {
  char why[RONDO_WHY_BYTES];
  snprintf(why, sizeof why, "the daemon cannot be launched: %s", rondo_cuda_error_name(result));
  d->base.lost(d->base.owner, why);
}

static void note_attempt(struct rondo_cuda_daemon *d, const struct attempt *a, uint64_t kicks,
                         uint64_t now_ns) {
  if (a->result != CUDA_SUCCESS) {
    if (!d->failing_since_ns)
      d->failing_since_ns = now_ns;
    d->next_start_ns = now_ns + d->restart_max_ns;
  } else if (a->is_covered) {
    d->kicks_seen = kicks;
    d->failing_since_ns = 0;
    d->launched_ns = now_ns;
    d->next_start_ns = now_ns + d->restart_min_ns;
  }
}

// Looks after one daemon. The lock is held, and let go for the time of a launch: the CUDA driver may take
// as long as the device is busy. Returns 1 if the daemon has runs outstanding.
static int visit(struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    note_block(d, b);
  if (d->is_dead || rondo_load_seq_cst_u64(&d->base.outstanding) == 0)
    return 0;
  uint64_t now_ns = rondo_now_ns();
  uint64_t kicks = rondo_load_seq_cst_u64(&d->kicks); // K1
  note_leaves(d, now_ns);
  if (d->device->holds || !should_launch(d, kicks != d->kicks_seen, now_ns))
    return 1;
  d->is_launching = 1;
  pthread_mutex_unlock(&launcher.watch.lock);
  struct attempt a = attempt(d);
  int is_dead = is_beyond_hope(d, &a, now_ns);
  if (is_dead)
    give_up(d, a.result);
  pthread_mutex_lock(&launcher.watch.lock);
  d->is_dead |= (uint32_t)is_dead;
  d->is_launching = 0;
  pthread_cond_broadcast(&launcher.launched);
  note_attempt(d, &a, kicks, now_ns);
  return 1;
}

// Returns 1 if some daemon has runs outstanding.
static int pass(void) {
  int is_busy = 0;
  pthread_mutex_lock(&launcher.watch.lock);
  for (uint32_t i = 0; i < launcher.watch.count; i++)
    is_busy |= visit(launcher.watch.daemons[i]);
  pthread_mutex_unlock(&launcher.watch.lock);
  return is_busy;
}

static void park(uint32_t signal, int is_busy) {
  if (!is_busy) {
    rondo_store_seq_cst_u32(&launcher.state, LAUNCHER_DEEP); // K2
    rondo_fence_heavy();                                     // K2
    // Whoever submitted before seeing the new state left work that this pass sees.
    is_busy = pass();
  }
  if (is_busy)
    rondo_store_seq_cst_u32(&launcher.state, LAUNCHER_TICK);
  rondo_futex_wait(&launcher.signal, signal, is_busy ? TICK_NS : DEEP_BOUND_NS);
  rondo_store_seq_cst_u32(&launcher.state, LAUNCHER_RUNNING);
}

static void *launcher_main(void *arg) {
  (void)arg;
  for (;;) {
    uint32_t signal = rondo_load_acquire_u32(&launcher.signal);
    park(signal, pass());
  }
  return NULL;
}

void rondo_cuda_launcher_kick(struct rondo_cuda_daemon *d) {
  rondo_fetch_add_seq_cst_u64(&d->kicks, 1);                // K1
  uint32_t state = rondo_load_seq_cst_u32(&launcher.state); // K2
  // Blocks that are all there see the entry themselves; should they be about to leave, the launcher
  // finds the entry at its next look, which is soon.
  if (state != LAUNCHER_DEEP && rondo_cuda_is_resident(d))
    return;
  rondo_fetch_add_seq_cst_u32(&launcher.signal, 1);
  if (state != LAUNCHER_RUNNING)
    rondo_futex_wake_all(&launcher.signal);
}

// ------------------------------------------------------------------ coming and going --

int rondo_cuda_launcher_add(struct rondo_cuda_daemon *d) {
  return rondo_cuda_watch_add(&launcher.watch, d);
}

// 1 if a launch of the daemon is on the device, as far as the CUDA driver says. One that does not
// know is not believed at once.
static int is_on_device(const struct rondo_cuda_daemon *d) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS && result == CUDA_SUCCESS; i++)
    for (int asked = 0; d->streams[i] && asked < ASK_AGAIN; asked++) {
      result = d->device->api->stream_query(d->streams[i]);
      if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
        break;
    }
  return result == CUDA_ERROR_NOT_READY;
}

static int has_resident(const struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    if (rondo_cuda_block_is_resident(&d->status[b]))
      return 1;
  return 0;
}

// The blocks have been told to end, and have nothing to do: each leaves with its next step.
static void await_leave(struct rondo_cuda_daemon *d) {
  const struct timespec pause = {0, LEAVE_LOOK_NS};
  uint64_t deadline_ns = rondo_now_ns() + LEAVE_BOUND_NS;
  struct rondo_cuda_stay stay;
  int is_inside = rondo_cuda_enter_again(d->device, &stay);
  while (is_on_device(d) || has_resident(d)) {
    if (rondo_now_ns() >= deadline_ns) {
      d->is_lost = 1;
      break;
    }
    nanosleep(&pause, NULL);
  }
  if (is_inside)
    rondo_cuda_leave(&stay);
}

void rondo_cuda_launcher_hold(struct rondo_cuda_device *device, int on) {
  pthread_mutex_lock(&launcher.watch.lock);
  device->holds += on ? 1 : UINT32_MAX;
  pthread_mutex_unlock(&launcher.watch.lock);
}

static int is_away(const struct rondo_cuda_daemon *d) {
  struct rondo_cuda_stay stay;
  if (d->is_launching || has_resident(d) || rondo_cuda_enter(d->device, &stay) != CUDA_SUCCESS)
    return 0;
  int is_there = is_on_device(d);
  rondo_cuda_leave(&stay);
  return !is_there;
}

int rondo_cuda_launcher_is_quiet(const struct rondo_cuda_device *device) {
  int is_quiet = 1;
  pthread_mutex_lock(&launcher.watch.lock);
  for (uint32_t i = 0; i < launcher.watch.count && is_quiet; i++)
    is_quiet = launcher.watch.daemons[i]->device != device || is_away(launcher.watch.daemons[i]);
  pthread_mutex_unlock(&launcher.watch.lock);
  return is_quiet;
}

void rondo_cuda_launcher_remove(struct rondo_cuda_daemon *d) {
  pthread_mutex_lock(&launcher.watch.lock);
  rondo_cuda_watch_take_out(&launcher.watch, d);
  while (d->is_launching)
    pthread_cond_wait(&launcher.launched, &launcher.watch.lock);
  pthread_mutex_unlock(&launcher.watch.lock);
  await_leave(d);
}
