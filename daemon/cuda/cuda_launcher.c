// The launcher: one thread that launches the daemons of all ranks of this process.
//
// It launches a daemon for a submission if a block has left, and again while runs are outstanding,
// after a pause that grows with each fruitless launch. A launch is a grid of all blocks: a block
// that still runs makes its second launch return at once.
#include <stdio.h>

#include "base/clock.h"
#include "base/futex.h"
#include "daemon/cuda/cuda_backend.h"

#define TICK_NS 100000u           // between looks while runs are outstanding
#define DEEP_BOUND_NS 1000000000u // ... and while none are
#define SWEEP_PAUSES 4u // longest pauses after which blocks without known work are launched
#define LEAVE_BOUND_NS UINT64_C(20000000000)
#define LEAVE_LOOK_NS 50000u
#define ASK_AGAIN 4
#define GIVE_UP_NS UINT64_C(1000000000) // of refused launches before the daemon is lost
#define OVERDUE_NS UINT64_C(2000000000) // beyond the longest residency: then the blocks may be gone

enum launcher_state {
  LAUNCHER_RUNNING = 0,
  LAUNCHER_TICK = 1, // parked for a short time
  LAUNCHER_DEEP = 2  // parked until woken
};

struct launcher {
  uint32_t state;  // enum launcher_state (K2)
  uint32_t signal; // futex
  uint8_t line[RONDO_LINE_BYTES - 8];
  struct rondo_cuda_watch watch; // its lock also guards each daemon's is_launching
  pthread_cond_t launched;
};

static void *launcher_main(void *arg);

static struct launcher launcher = {
    .watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .main = launcher_main, .name = "rondo-launcher"},
    .launched = PTHREAD_COND_INITIALIZER};

// ------------------------------------------------------------ what there is to do --

static uint32_t daemon_count_resident(const struct rondo_cuda_daemon *d) {
  uint32_t count = 0;
  for (uint32_t b = 0; b < d->block_count; b++)
    count += rondo_cuda_block_is_resident(&d->status[b]);
  return count;
}

// True if every block is resident.
static bool daemon_is_resident(const struct rondo_cuda_daemon *d) {
  return daemon_count_resident(d) == d->block_count;
}

static uint64_t block_progress(const struct rondo_cuda_block_status *s) {
  return rondo_load_relaxed_u64(&s->counters.primitives) +
         rondo_load_relaxed_u64(&s->counters.ended);
}

struct sums {
  uint64_t leaves, progress;
};

static struct sums daemon_sum(const struct rondo_cuda_daemon *d) {
  struct sums s = {0, 0};
  for (uint32_t b = 0; b < d->block_count; b++) {
    const struct rondo_cuda_block_status *status = &d->status[b];
    s.leaves += rondo_load_acquire_u64(&status->leaves); // L3
    s.progress += block_progress(status);
  }
  return s;
}

// Starts the pause before the next launch after blocks have left.
static void daemon_note_leaves(struct rondo_cuda_daemon *d, uint64_t now_ns) {
  struct sums s = daemon_sum(d);
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

// True if a block has left though there is work for it. The CPU does not see the rings between
// blocks, so a block without known work is launched now and then.
static bool daemon_is_lagging(const struct rondo_cuda_daemon *d, uint64_t now_ns) {
  for (uint32_t b = 0; b < d->block_count; b++) {
    const struct rondo_cuda_block_status *s = &d->status[b];
    if (rondo_cuda_block_is_resident(s))
      continue;
    if (rondo_load_relaxed_u32(&s->queued) || now_ns >= d->sweep_ns ||
        (b == 0 && rondo_sq_has_entry(&d->base.sq)))
      return true;
  }
  return false;
}

// A stream without a launch, or null. A failed stream has none either: a launch there returns the
// reason.
static CUstream daemon_idle_stream(const struct rondo_cuda_daemon *d) {
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS; i++) {
    CUstream s = d->streams[(d->launch.number + i) % RONDO_CUDA_STREAMS];
    if (d->device->api->stream_query(s) != CUDA_ERROR_NOT_READY)
      return s;
  }
  return NULL;
}

// ----------------------------------------------------------------- starts and quits --

// A stuck block starts and quits a thousand times a second: only the first of a series is reported.
static void block_report(const struct rondo_cuda_daemon *d, uint32_t block, int what) {
  if (d->base.on_change && !d->reported[block].is_fruitless)
    d->base.on_change(d->base.owner, what, block);
}

static void block_report_leave(struct rondo_cuda_daemon *d, uint32_t block, uint64_t leaves) {
  struct rondo_cuda_reported *seen = &d->reported[block];
  uint64_t progress = block_progress(&d->status[block]);
  block_report(d, block, RONDO_BLOCK_QUIT);
  seen->is_fruitless = progress == seen->progress;
  seen->progress = progress;
  seen->leaves = leaves;
}

// Reports what the block has done since the last look: its last residency.
static void block_note_residency(struct rondo_cuda_daemon *d, uint32_t block) {
  struct rondo_cuda_reported *seen = &d->reported[block];
  uint64_t leaves = rondo_load_acquire_u64(&d->status[block].leaves); // L3
  uint64_t launches = rondo_load_acquire_u64(&d->status[block].launches);
  if (seen->leaves != seen->launches && leaves >= seen->launches)
    block_report_leave(d, block, leaves);
  if (launches == seen->launches)
    return;
  block_report(d, block, RONDO_BLOCK_STARTED);
  seen->launches = launches;
  if (leaves == launches)
    block_report_leave(d, block, leaves);
}

// ---------------------------------------------------------------------- launching --

// True if the last launch is still to come: no block has begun, and the stream has not ended.
static bool daemon_is_launching(const struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    if (rondo_load_acquire_u64(&d->status[b].launch) == d->launch.number)
      return false;
  return d->last_stream && d->device->api->stream_query(d->last_stream) == CUDA_ERROR_NOT_READY;
}

// The result of a launch.
struct launch_attempt {
  CUresult result;
  bool is_covered; // a launch begins after this call, and sees all that was submitted before it
};

// Launches a daemon. Called in the device's context.
static struct launch_attempt daemon_launch_inside(struct rondo_cuda_daemon *d) {
  struct launch_attempt a = {CUDA_SUCCESS, daemon_is_launching(d)};
  CUstream stream = a.is_covered ? NULL : daemon_idle_stream(d);
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
  a.is_covered = true;
  d->launch.number = l.number;
  d->last_stream = stream;
  rondo_store_relaxed_u64(&d->starts, d->starts + 1);
  return a;
}

static struct launch_attempt daemon_launch(struct rondo_cuda_daemon *d) {
  struct rondo_cuda_scope scope;
  struct launch_attempt a = {rondo_cuda_enter(d->device, &scope), 0};
  if (a.result != CUDA_SUCCESS)
    return a;
  a = daemon_launch_inside(d);
  rondo_cuda_leave(&scope);
  return a;
}

// `is_new`: a run was submitted since the last launch.
static bool daemon_should_launch(const struct rondo_cuda_daemon *d, bool is_new, uint64_t now_ns) {
  if (d->failing_since_ns && now_ns < d->next_start_ns)
    return false;
  // Overdue blocks may be gone: a launch returns the reason.
  if (daemon_is_resident(d))
    return now_ns - d->launched_ns >= d->launch.longest_ns + OVERDUE_NS;
  return is_new || (now_ns >= d->next_start_ns && daemon_is_lagging(d, now_ns));
}

// True if launches have been refused for so long that the daemon is lost.
static bool daemon_is_lost(const struct rondo_cuda_daemon *d, const struct launch_attempt *a,
                           uint64_t now_ns) {
  return a->result != CUDA_SUCCESS && d->failing_since_ns &&
         now_ns - d->failing_since_ns >= GIVE_UP_NS;
}

// Called without the lock.
static void daemon_report_lost(const struct rondo_cuda_daemon *d, CUresult result) {
  char why[RONDO_WHY_BYTES];
  snprintf(why, sizeof why, "the daemon cannot be launched: %s", rondo_cuda_error_name(result));
  d->base.on_lost(d->base.owner, why);
}

static void daemon_note_launch(struct rondo_cuda_daemon *d, const struct launch_attempt *a,
                               uint64_t submissions, uint64_t now_ns) {
  if (a->result != CUDA_SUCCESS) {
    if (!d->failing_since_ns)
      d->failing_since_ns = now_ns;
    d->next_start_ns = now_ns + d->restart_max_ns;
  } else if (a->is_covered) {
    d->submissions_seen = submissions;
    d->failing_since_ns = 0;
    d->launched_ns = now_ns;
    d->next_start_ns = now_ns + d->restart_min_ns;
  }
}

// Looks after one daemon. Called with the lock, which is released for a launch: the CUDA driver may
// block as long as the device is busy. Returns true if the daemon has runs outstanding.
static bool daemon_visit(struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    block_note_residency(d, b);
  if (d->is_dead || rondo_load_seq_cst_u64(&d->base.outstanding) == 0)
    return false;
  uint64_t now_ns = rondo_now_ns();
  uint64_t submissions = rondo_load_seq_cst_u64(&d->submissions); // K1
  daemon_note_leaves(d, now_ns);
  if (d->device->holds || !daemon_should_launch(d, submissions != d->submissions_seen, now_ns))
    return true;
  d->is_launching = 1;
  pthread_mutex_unlock(&launcher.watch.lock);
  struct launch_attempt a = daemon_launch(d);
  bool is_dead = daemon_is_lost(d, &a, now_ns);
  if (is_dead)
    daemon_report_lost(d, a.result);
  pthread_mutex_lock(&launcher.watch.lock);
  d->is_dead |= (uint32_t)is_dead;
  d->is_launching = 0;
  pthread_cond_broadcast(&launcher.launched);
  daemon_note_launch(d, &a, submissions, now_ns);
  return true;
}

// Returns true if a daemon has runs outstanding.
static bool launcher_pass(void) {
  bool is_busy = false;
  pthread_mutex_lock(&launcher.watch.lock);
  for (uint32_t i = 0; i < launcher.watch.count; i++)
    is_busy |= daemon_visit(launcher.watch.daemons[i]);
  pthread_mutex_unlock(&launcher.watch.lock);
  return is_busy;
}

static void launcher_park(uint32_t signal, bool is_busy) {
  if (!is_busy) {
    rondo_store_seq_cst_u32(&launcher.state, LAUNCHER_DEEP); // K2
    rondo_fence_heavy();                                     // K2
    // A submitting thread that did not see the new state submitted before this pass.
    is_busy = launcher_pass();
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
    launcher_park(signal, launcher_pass());
  }
  return NULL;
}

void rondo_cuda_launcher_notify(struct rondo_cuda_daemon *d) {
  rondo_fetch_add_seq_cst_u64(&d->submissions, 1);          // K1
  uint32_t state = rondo_load_seq_cst_u32(&launcher.state); // K2
  // Resident blocks see the entry themselves. If they are about to leave, the launcher's next tick
  // finds the entry.
  if (state != LAUNCHER_DEEP && daemon_is_resident(d))
    return;
  rondo_fetch_add_seq_cst_u32(&launcher.signal, 1);
  if (state != LAUNCHER_RUNNING)
    rondo_futex_wake_all(&launcher.signal);
}

// ------------------------------------------------------------------ coming and going --

int rondo_cuda_launcher_add(struct rondo_cuda_daemon *d) {
  return rondo_cuda_watch_add(&launcher.watch, d);
}

// True if a launch of the daemon is on the device, as far as the CUDA driver knows. An error is
// asked again.
static bool daemon_is_on_device(const struct rondo_cuda_daemon *d) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS && result == CUDA_SUCCESS; i++)
    for (int asked = 0; d->streams[i] && asked < ASK_AGAIN; asked++) {
      result = d->device->api->stream_query(d->streams[i]);
      if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
        break;
    }
  return result == CUDA_ERROR_NOT_READY;
}

// The blocks were told to exit and have no work: each leaves with its next step.
static void daemon_await_leave(struct rondo_cuda_daemon *d) {
  const struct timespec pause = {0, LEAVE_LOOK_NS};
  uint64_t deadline_ns = rondo_now_ns() + LEAVE_BOUND_NS;
  struct rondo_cuda_scope scope;
  rondo_cuda_enter_to_free(d->device, &scope);
  while (daemon_is_on_device(d) || daemon_count_resident(d)) {
    if (rondo_now_ns() >= deadline_ns) {
      d->is_lost = 1;
      break;
    }
    nanosleep(&pause, NULL);
  }
  rondo_cuda_leave(&scope);
}

void rondo_cuda_launcher_hold(struct rondo_device *device, bool on) {
  pthread_mutex_lock(&launcher.watch.lock);
  rondo_cuda_device_of(device)->holds += on ? 1 : UINT32_MAX;
  pthread_mutex_unlock(&launcher.watch.lock);
}

static bool daemon_is_away(const struct rondo_cuda_daemon *d) {
  struct rondo_cuda_scope scope;
  if (d->is_launching || daemon_count_resident(d) ||
      rondo_cuda_enter(d->device, &scope) != CUDA_SUCCESS)
    return false;
  bool is_there = daemon_is_on_device(d);
  rondo_cuda_leave(&scope);
  return !is_there;
}

bool rondo_cuda_launcher_is_quiet(struct rondo_device *device) {
  bool is_quiet = true;
  pthread_mutex_lock(&launcher.watch.lock);
  for (uint32_t i = 0; i < launcher.watch.count && is_quiet; i++) {
    const struct rondo_cuda_daemon *d = launcher.watch.daemons[i];
    is_quiet = &d->device->base != device || daemon_is_away(d);
  }
  pthread_mutex_unlock(&launcher.watch.lock);
  return is_quiet;
}

void rondo_cuda_launcher_remove(struct rondo_cuda_daemon *d) {
  pthread_mutex_lock(&launcher.watch.lock);
  rondo_cuda_watch_remove(&launcher.watch, d);
  while (d->is_launching)
    pthread_cond_wait(&launcher.launched, &launcher.watch.lock);
  pthread_mutex_unlock(&launcher.watch.lock);
  daemon_await_leave(d);
}
