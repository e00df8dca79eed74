// The launchers: for each device one thread that launches the daemons of the ranks of this process.
// A launch may wait as long as another thread is in a call that waits for the device.
//
// A run that a stream waits for has a launch of its own (cuda_stream.c), and the launcher leaves
// such runs alone. It launches a daemon for a submission if a block has left, and again while runs
// are outstanding, after a pause that grows with each fruitless launch. A launch is a grid of all
// blocks: a block that still runs makes its second launch return at once.
#include <stdio.h>
#include <string.h>

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
#define UNNEEDED_NS UINT64_C(100000000) // after which runs that have launches get another one
#define ASKING_NS UINT64_C(100000)      // from a stream's request for a run to its wait
#define OVERDUE_NS UINT64_C(2000000000) // beyond the longest residency: then the blocks may be gone

enum launcher_state {
  LAUNCHER_RUNNING = 0,
  LAUNCHER_TICK = 1, // parked for a short time
  LAUNCHER_DEEP = 2  // parked until woken
};

struct launcher {
  struct rondo_cuda_watch watch; // first; its lock also guards each daemon's is_claimed
  pthread_cond_t given;          // a claim has ended
  uint8_t line[RONDO_LINE_BYTES];
  uint32_t state;  // enum launcher_state (K2)
  uint32_t signal; // futex
};

static struct launcher launchers[RONDO_CUDA_MAX_DEVICES]; // by ordinal
static pthread_once_t launchers_once = PTHREAD_ONCE_INIT;

static void *launcher_main(void *arg);

static void launchers_init(void) {
  for (uint32_t i = 0; i < RONDO_CUDA_MAX_DEVICES; i++) {
    launchers[i].watch.main = launcher_main;
    launchers[i].watch.name = "rondo-launcher";
    pthread_mutex_init(&launchers[i].watch.lock, NULL);
    pthread_cond_init(&launchers[i].given, NULL);
  }
}

static struct launcher *device_launcher(const struct rondo_cuda_device *device) {
  (void)pthread_once(&launchers_once, launchers_init);
  return &launchers[device->ordinal];
}

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

// True if streams may wait for outstanding runs: tied ones, or those of graphs.
static bool daemon_has_waiting_streams(const struct rondo_cuda_daemon *d) {
  return rondo_load_relaxed_u32(&d->base.tied_runs) ||
         rondo_load_seq_cst_u32(&d->base.captured_runs);
}

// Starts the pause before the next launch after blocks have left. There is none while streams wait,
// because it could come between the peers' data and the run.
static void daemon_note_leaves(struct rondo_cuda_daemon *d, uint64_t now_ns) {
  struct sums s = daemon_sum(d);
  bool streams_wait = daemon_has_waiting_streams(d);
  if (s.leaves == d->leaves_seen)
    return;
  if (s.progress != d->progress_seen || streams_wait)
    rondo_store_relaxed_u64(&d->pause_ns, d->restart_min_ns);
  else if (d->pause_ns < d->restart_max_ns)
    rondo_store_relaxed_u64(&d->pause_ns, 2 * d->pause_ns);
  d->leaves_seen = s.leaves;
  d->alive_ns = now_ns;
  d->progress_seen = s.progress;
  d->next_start_ns = streams_wait ? now_ns : now_ns + d->pause_ns;
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

// True if the launcher has to launch for the daemon's runs. Runs for which a stream waits, or is
// about to, have launches of their own.
static bool daemon_needs_launcher(const struct rondo_cuda_daemon *d, uint64_t now_ns) {
  uint32_t tied = rondo_load_relaxed_u32(&d->base.tied_runs);
  if (rondo_load_seq_cst_u64(&d->base.outstanding) > tied ||
      rondo_load_seq_cst_u32(&d->lacks_launch))
    return true;
  return rondo_load_seq_cst_u32(&d->asking) &&
         now_ns - rondo_load_relaxed_u64(&d->asked_ns) >= ASKING_NS;
}

// A stream without a launch, or null. A failed stream has none either: a launch there returns the
// reason.
static CUstream daemon_idle_stream(const struct rondo_cuda_daemon *d) {
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS; i++) {
    CUstream s = d->streams[(d->launch_number + i) % RONDO_CUDA_STREAMS];
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
    if (rondo_load_acquire_u64(&d->status[b].launch) == d->launch_number)
      return false;
  return d->last_stream && d->device->api->stream_query(d->last_stream) == CUDA_ERROR_NOT_READY;
}

// The result of a launch.
struct launch_attempt {
  CUresult result;
  bool is_covered; // a launch begins after this call, and sees all that was submitted before it
};

bool rondo_cuda_can_stay(const struct rondo_cuda_device *d) {
  return rondo_load_relaxed_u32(&d->blocks) <= d->multiprocessors;
}

// The domain Remote keeps the fences of the application's kernels from waiting for the daemon's
// writes to peers.
CUresult rondo_cuda_launch(const struct rondo_cuda_daemon *d, CUstream stream,
                           struct rondo_cuda_launch launch) {
  CUlaunchAttribute domain;
  memset(&domain, 0, sizeof domain);
  domain.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
  domain.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  const CUlaunchConfig config = {.gridDimX = d->block_count,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = d->threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes =
                                     (unsigned)rondo_cuda_fast_bytes(launch.fast_tasks),
                                 .hStream = stream,
                                 .attrs = &domain,
                                 .numAttrs = d->device->has_domains};
  void *params[] = {&launch};
  launch.stay_ns = rondo_cuda_can_stay(d->device) ? RONDO_CUDA_STAY_NS : 0;
  return d->device->api->launch_kernel_ex(&config, d->device->kernel, params, NULL);
}

// Launches a daemon. Called in the device's context.
static struct launch_attempt daemon_launch_inside(struct rondo_cuda_daemon *d) {
  struct launch_attempt a = {CUDA_SUCCESS, daemon_is_launching(d)};
  CUstream stream = a.is_covered ? NULL : daemon_idle_stream(d);
  if (!stream)
    return a;
  struct rondo_cuda_launch l = d->launch;
  l.number = d->launch_number + 1;
  a.result = rondo_cuda_launch(d, stream, l);
  if (a.result != CUDA_SUCCESS)
    return a;
  a.is_covered = true;
  d->launch_number = l.number;
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

// `is_new`: a run that needs the launcher was submitted since the last launch.
static bool daemon_should_launch(const struct rondo_cuda_daemon *d, bool is_new, uint64_t now_ns) {
  if (d->failing_since_ns && now_ns < d->next_start_ns)
    return false;
  // Overdue blocks may be gone: a launch returns the reason.
  if (daemon_is_resident(d))
    return now_ns - d->alive_ns >= d->launch.longest_ns + OVERDUE_NS;
  if (d->unneeded_ns)
    return now_ns - d->unneeded_ns >= UNNEEDED_NS;
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
    d->alive_ns = now_ns;
    d->unneeded_ns = 0;
    d->next_start_ns = now_ns + d->restart_min_ns;
  }
}

// Notes whether runs need the launcher. `submissions`: read before.
static void daemon_note_needs(struct rondo_cuda_daemon *d, uint64_t submissions, uint64_t now_ns) {
  if (daemon_needs_launcher(d, now_ns)) {
    d->unneeded_ns = 0;
    return;
  }
  d->submissions_seen = submissions;
  if (!d->unneeded_ns || daemon_is_resident(d))
    d->unneeded_ns = now_ns;
}

// Releases the launcher's lock for calls of the CUDA driver about a daemon, which may block as long
// as the device is busy. The daemon is not removed meanwhile, and no other thread claims it.
static void daemon_claim(struct launcher *launcher, struct rondo_cuda_daemon *d) {
  d->is_claimed = 1;
  pthread_mutex_unlock(&launcher->watch.lock);
}

// Ends a claim and takes the lock again.
static void daemon_give(struct launcher *launcher, struct rondo_cuda_daemon *d) {
  pthread_mutex_lock(&launcher->watch.lock);
  d->is_claimed = 0;
  pthread_cond_broadcast(&launcher->given);
}

// Looks after one daemon. Called with the launcher's lock, which is released for a launch. Returns
// true if the daemon has runs outstanding.
static bool daemon_visit(struct launcher *launcher, struct rondo_cuda_daemon *d) {
  for (uint32_t b = 0; b < d->block_count; b++)
    block_note_residency(d, b);
  if (d->is_dead || rondo_load_seq_cst_u64(&d->base.outstanding) == 0)
    return false;
  if (d->is_claimed)
    return true;
  uint64_t now_ns = rondo_now_ns();
  uint64_t submissions = rondo_load_seq_cst_u64(&d->submissions); // K1
  daemon_note_leaves(d, now_ns);
  if (!daemon_is_resident(d))
    d->alive_ns = now_ns;
  daemon_note_needs(d, submissions, now_ns);
  if (d->device->holds || !daemon_should_launch(d, submissions != d->submissions_seen, now_ns))
    return true;
  daemon_claim(launcher, d);
  struct launch_attempt a = daemon_launch(d);
  bool is_dead = daemon_is_lost(d, &a, now_ns);
  if (is_dead)
    daemon_report_lost(d, a.result);
  daemon_give(launcher, d);
  d->is_dead |= (uint32_t)is_dead;
  daemon_note_launch(d, &a, submissions, now_ns);
  return true;
}

// Returns true if a daemon has runs outstanding.
static bool launcher_pass(struct launcher *launcher) {
  bool is_busy = false;
  pthread_mutex_lock(&launcher->watch.lock);
  for (uint32_t i = 0; i < launcher->watch.count; i++)
    is_busy |= daemon_visit(launcher, launcher->watch.daemons[i]);
  pthread_mutex_unlock(&launcher->watch.lock);
  return is_busy;
}

static void launcher_park(struct launcher *launcher, uint32_t signal, bool is_busy) {
  if (!is_busy) {
    rondo_store_seq_cst_u32(&launcher->state, LAUNCHER_DEEP); // K2
    rondo_fence_heavy();                                      // K2
    // A submitting thread that did not see the new state submitted before this pass.
    is_busy = launcher_pass(launcher);
  }
  if (is_busy)
    rondo_store_seq_cst_u32(&launcher->state, LAUNCHER_TICK);
  rondo_futex_wait(&launcher->signal, signal, is_busy ? TICK_NS : DEEP_BOUND_NS);
  rondo_store_seq_cst_u32(&launcher->state, LAUNCHER_RUNNING);
}

// `arg`: the launcher's watch, its first member.
static void *launcher_main(void *arg) {
  struct launcher *launcher = arg;
  for (;;) {
    uint32_t signal = rondo_load_acquire_u32(&launcher->signal);
    launcher_park(launcher, signal, launcher_pass(launcher));
  }
  return NULL;
}

void rondo_cuda_launcher_notify(struct rondo_cuda_daemon *d) {
  struct launcher *launcher = device_launcher(d->device);
  rondo_fetch_add_seq_cst_u64(&d->submissions, 1);           // K1
  uint32_t state = rondo_load_seq_cst_u32(&launcher->state); // K2
  // Resident blocks see the entry themselves. If they are about to leave, the launcher's next tick
  // finds the entry.
  if (state != LAUNCHER_DEEP && daemon_is_resident(d))
    return;
  rondo_fetch_add_seq_cst_u32(&launcher->signal, 1);
  if (state != LAUNCHER_RUNNING)
    rondo_futex_wake_all(&launcher->signal);
}

uint64_t rondo_cuda_launcher_pause_ns(const struct rondo_cuda_daemon *d) {
  return rondo_load_relaxed_u64(&d->pause_ns);
}

// ------------------------------------------------------------------ coming and going --

// Lets the daemon's launches stay for runs, or not. Runs may have lost their launches meanwhile.
static void daemon_set_held(struct rondo_cuda_daemon *d) {
  rondo_store_seq_cst_u32((uint32_t *)(uintptr_t)d->launch.held, d->device->holds != 0);
  rondo_store_seq_cst_u32(&d->lacks_launch, 1);
}

int rondo_cuda_launcher_add(struct rondo_cuda_daemon *d) {
  struct launcher *launcher = device_launcher(d->device);
  int status = rondo_cuda_watch_add(&launcher->watch, d);
  pthread_mutex_lock(&launcher->watch.lock);
  if (status == RONDO_SUCCESS)
    daemon_set_held(d);
  pthread_mutex_unlock(&launcher->watch.lock);
  return status;
}

// True if the stream has work, as far as the CUDA driver knows. An error is asked again.
static bool stream_is_busy(const struct rondo_cuda_device *device, CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  for (int asked = 0; stream && asked < ASK_AGAIN; asked++) {
    result = device->api->stream_query(stream);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
      break;
  }
  return result == CUDA_ERROR_NOT_READY;
}

// True if a launch of the daemon is on the device, or will be.
static bool daemon_is_on_device(const struct rondo_cuda_daemon *d) {
  bool is_busy = false;
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS && !is_busy; i++)
    is_busy = stream_is_busy(d->device, d->streams[i]);
  for (uint32_t i = 0; i < RONDO_CUDA_TIES && !is_busy; i++)
    is_busy = stream_is_busy(d->device, d->launch_streams[i].handle);
  return is_busy;
}

// The blocks were told to exit and have no work: each leaves with its next step. A launch that
// awaits a stream of the application begins before.
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
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct launcher *launcher = device_launcher(d);
  pthread_mutex_lock(&launcher->watch.lock);
  rondo_store_seq_cst_u32(&d->holds, d->holds + (on ? 1 : UINT32_MAX));
  for (uint32_t i = 0; i < launcher->watch.count; i++)
    daemon_set_held(launcher->watch.daemons[i]);
  pthread_mutex_unlock(&launcher->watch.lock);
}

bool rondo_cuda_launcher_is_held(const struct rondo_cuda_device *d) {
  return rondo_load_seq_cst_u32(&d->holds) != 0;
}

// Called without the lock.
static bool daemon_is_away(const struct rondo_cuda_daemon *d) {
  struct rondo_cuda_scope scope;
  if (rondo_load_seq_cst_u32(&d->enqueuing) || daemon_count_resident(d) ||
      rondo_cuda_enter(d->device, &scope) != CUDA_SUCCESS)
    return false;
  bool is_there = daemon_is_on_device(d);
  rondo_cuda_leave(&scope);
  return !is_there;
}

bool rondo_cuda_launcher_is_quiet(struct rondo_device *device) {
  struct launcher *launcher = device_launcher(rondo_cuda_device_of(device));
  struct rondo_cuda_watch *watch = &launcher->watch;
  bool is_quiet = true;
  pthread_mutex_lock(&watch->lock);
  for (uint32_t i = 0; i < watch->count && is_quiet; i++) {
    struct rondo_cuda_daemon *d = watch->daemons[i];
    is_quiet = !d->is_claimed;
    if (!is_quiet)
      break;
    daemon_claim(launcher, d);
    is_quiet = daemon_is_away(d);
    daemon_give(launcher, d);
    is_quiet &= i < watch->count && watch->daemons[i] == d; // else others have moved in the list
  }
  pthread_mutex_unlock(&watch->lock);
  return is_quiet;
}

void rondo_cuda_launcher_remove(struct rondo_cuda_daemon *d) {
  struct launcher *launcher = device_launcher(d->device);
  pthread_mutex_lock(&launcher->watch.lock);
  rondo_cuda_watch_remove(&launcher->watch, d);
  while (d->is_claimed)
    pthread_cond_wait(&launcher->given, &launcher->watch.lock);
  pthread_mutex_unlock(&launcher->watch.lock);
  daemon_await_leave(d);
}
