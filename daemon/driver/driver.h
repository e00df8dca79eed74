// What the runtime needs of a backend: one table of calls for each, and what all daemons have in
// common. The runtime knows devices and daemons only by these.
//
//   open -> create -> attach -> kick / help / synchronize ... -> detach -> destroy -> close
//
// A driver puts struct rondo_device and struct rondo_daemon first in structures of its own. Unless a
// comment says otherwise calls may come from any thread, are bounded, and print nothing:
// where one fails for a reason of the machine, `why` gets a line of at most RONDO_WHY_BYTES.
#ifndef RONDO_DAEMON_DRIVER_DRIVER_H
#define RONDO_DAEMON_DRIVER_DRIVER_H

#include <stdint.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/fence.h"
#include "daemon/core/block_core.h"
#include "queues/cq_core.h"
#include "queues/sq_core.h"
#include <rondo/rondo.h>

#define RONDO_WHY_BYTES 512u

enum rondo_memory_kind {
  RONDO_MEMORY_SHARED = 0, // the CPU and the device both read and write it in place
  RONDO_MEMORY_DEVICE = 1  // the device's own: the CPU writes and reads it by calls only
};

// What ranks on two devices of this process can use of each other.
enum rondo_reach {
  RONDO_REACH_MEMORY = 1, // the one can use memory of the other in place
  RONDO_REACH_BUFFERS = 2 // the other can use all buffers that `check` lets the one have
};
#define RONDO_REACH_ALL (RONDO_REACH_MEMORY | RONDO_REACH_BUFFERS)

enum rondo_note {
  RONDO_NOTE_STARTED = 0, // a block was
  RONDO_NOTE_QUIT = 1,    // a block has
  RONDO_NOTES = 2
};

// Whoever is told something in lines.
struct rondo_line_writer {
  void (*line)(void *arg, const char *text);
  void *arg;
};

struct rondo_driver;

struct rondo_device {
  const struct rondo_driver *driver;
};

// The daemon of one rank, as the CPU side of it sees it.
struct rondo_daemon {
  // Written at every submission.
  _Alignas(RONDO_LINE_BYTES) struct rondo_sq_producer sq; // guarded by whoever submits
  uint64_t outstanding;                                   // runs submitted and not completed (H3)
  uint64_t ended_ns; // rondo_now_ns when a block last ended a run; 0: this driver does not tell
  uint32_t watched;  // what `service` looks at that may ask for a run at any time
  uint8_t submission_line[RONDO_LINE_BYTES - sizeof(struct rondo_sq_producer) - 20];
  // Constant once it has been created.
  const struct rondo_driver *driver;
  struct rondo_device *device;
  uint64_t table;              // address of its struct rondo_device_table, device memory
  uint32_t *exit;              // the word that ends its blocks
  struct rondo_cq_consumer cq; // guarded by whoever serves the rank
  // Takes completions and pushes waiting runs; any thread, any time. Returns 1 if it did anything.
  int (*service)(void *owner);
  int (*needs_service)(void *owner);
  // Told of starts and quits (enum rondo_note), those of a series without progress left out; may
  // be null. Never waits.
  void (*noted)(void *owner, int what, uint32_t block);
  // Told once, by a thread of the driver that holds no lock, when the daemon cannot be run any more: no block
  // steps, and `why` says why. Ends its runs.
  void (*lost)(void *owner, const char *why);
  // Not 0 there: some connectors lead to other machines, and `moved` and `forward` have something to do.
  // Set before the daemon is attached; null: none do.
  const uint64_t *far;
  // Of a job with other processes on this machine whose threads step their blocks: rung when a block has moved. Set
  // before the daemon is attached; null: there are none.
  const struct rondo_bells *bells;
  // Told when a block has moved, and may have left something in a connector that another process wants.
  // Never waits.
  void (*moved)(void *owner);
  // Brings what is to go to other processes, or has come from them; for a thread that helps and finds nothing
  // to do. `then`: enum rondo_forward. Returns 1 if anything moved. Never waits, save for what is on its way,
  // and then not for long, if the thread leaves.
  int (*forward)(void *owner, int then);
  void *owner;
};

// What a thread that helps does next: of rondo_daemon.forward.
enum rondo_forward {
  RONDO_FORWARD_STAY,  // comes back soon
  RONDO_FORWARD_SLEEP, // sleeps: others have its core
  RONDO_FORWARD_LEAVE  // does something else, and nobody else may have a core
};

// What a daemon is made from.
struct rondo_daemon_request {
  const struct rondo_config *cfg; // complete
  uint32_t sq_entries, cq_entries;
  uint32_t first_sequence; // of every queue
  int (*service)(void *owner);
  int (*needs_service)(void *owner);
  void (*noted)(void *owner, int what, uint32_t block);
  void (*lost)(void *owner, const char *why);
  void (*moved)(void *owner);
  int (*forward)(void *owner, int then);
  void *owner;
  char *why; // gets a line, if there is more to say of a failure than its status
};

// What of a run's tie to a stream is enqueued: what asks for it, and what waits for it.
#define RONDO_STREAM_ASK 1u
#define RONDO_STREAM_WAIT 2u

// A run that is captured into a graph.
struct rondo_capture {
  struct rondo_stream_words *words;
  uint64_t ticket;
  void (*drop)(void *arg); // called once, when no graph refers to the words any more
  void *arg;
};

// Where one block stands with one collective.
struct rondo_look {
  struct rondo_context_dynamic state;
  uint64_t waiting_ns; // for so long it has not moved
  int is_scheduled;    // it is what the block works on
  int has_data;        // what the current op is to receive is there
};

struct rondo_daemon_counters {
  struct rondo_block_counters blocks; // sums
  uint64_t starts, helped;
};

// Adds what one block has counted. The block may be counting on.
static inline void rondo_daemon_counters_add(struct rondo_daemon_counters *sum,
                                             const struct rondo_block_counters *block) {
  sum->blocks.steps += rondo_load_relaxed_u64(&block->steps);
  sum->blocks.primitives += rondo_load_relaxed_u64(&block->primitives);
  sum->blocks.preemptions += rondo_load_relaxed_u64(&block->preemptions);
  sum->blocks.context_loads += rondo_load_relaxed_u64(&block->context_loads);
  sum->blocks.context_saves += rondo_load_relaxed_u64(&block->context_saves);
  sum->blocks.quits += rondo_load_relaxed_u64(&block->quits);
  sum->blocks.fetched += rondo_load_relaxed_u64(&block->fetched);
  sum->blocks.ended += rondo_load_relaxed_u64(&block->ended);
}

#define RONDO_RANGE_UNIT_BYTES (UINT64_C(2) << 20) // of memory of a device that processes share

// How memory is shared with other processes of the machine. `why` gets a line where a call fails, unless its status is
// RONDO_SUCCESS; a call that fails changes nothing.
struct rondo_sharing {
  // Lets all devices of this process use memory of the host where it is, and ends that. Return RONDO_SUCCESS or
  // RONDO_ERR_SYSTEM.
  int (*pin)(struct rondo_device *device, void *memory, uint64_t bytes, char *why);
  void (*unpin)(struct rondo_device *device, void *memory);
  // Reserves addresses for memory of devices; *bytes 0: as many as seem good, written there.
  // Returns RONDO_SUCCESS, RONDO_ERR_UNSUPPORTED (the device does not share memory) or RONDO_ERR_SYSTEM.
  int (*reserve)(struct rondo_device *device, uint64_t *base, uint64_t *bytes, char *why);
  void (*release)(struct rondo_device *device, uint64_t base, uint64_t bytes);
  // Puts memory of the device there, multiples of RONDO_RANGE_UNIT_BYTES, and gives a descriptor of it, the caller's; or
  // the memory of which a descriptor has come. Nobody may use it before `allow`. Return as reserve.
  int (*back)(struct rondo_device *device, uint64_t at, uint64_t bytes, int *fd, char *why);
  int (*map)(struct rondo_device *device, uint64_t at, uint64_t bytes, int fd, char *why);
  int (*allow)(struct rondo_device *device, uint64_t at, uint64_t bytes, char *why);
  void (*unmap)(struct rondo_device *device, uint64_t at, uint64_t bytes);
  // Zeroes memory of the device, done on return. Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*clear)(struct rondo_device *device, uint64_t at, uint64_t bytes);
};

// A kernel that is run once: one block of 32 threads.
struct rondo_once {
  const void *image; // as the driver of the device loads it
  const char *name;
  void *param; // its one parameter
  uint64_t deadline_ns;
};

// What another library that sets something up on a device (runtime/transport/nccl) has to be given.
struct rondo_setup {
  // Calls `call(arg)` with the device as this thread's current one, and no capture disturbed. Returns what that returns, or
  // RONDO_ERR_SYSTEM and the reason.
  int (*inside)(struct rondo_device *device, int (*call)(void *arg), void *arg, char *why);
  // Runs a kernel to its end; inside. Returns RONDO_SUCCESS, RONDO_ERR_SYSTEM, or RONDO_ERR_TIMEOUT: it may run still.
  int (*run_once)(struct rondo_device *device, const struct rondo_once *once, char *why);
  // 1: no daemon is launched on the device until as many calls with 0 have come. What runs leaves within a residency;
  // then is_quiet returns 1.
  void (*hold)(struct rondo_device *device, int on);
  int (*is_quiet)(struct rondo_device *device);
  // Opens the device once more.
  void (*keep)(struct rondo_device *device);
};

#define RONDO_DONE_LEFT 2 // see rondo_driver.help

struct rondo_driver {
  const char *name;
  int is_direct; // the CPU may use device memory in place
  int is_silent; // nobody calls `moved` and `forward`: the CPU does not see its blocks move

  // Fills in what the configuration leaves at its default and this backend decides.
  void (*complete)(struct rondo_config *cfg);

  // ---- devices ----
  // Says a line for each device, and what matters between them; opens none. Returns RONDO_SUCCESS if one can be
  // used, else RONDO_ERR_UNSUPPORTED and, in `why`, why not. Null: there is nothing to say.
  int (*describe)(const struct rondo_line_writer *to, char *why);
  // The device that the configuration names, opened once more. Returns RONDO_SUCCESS, with
  // `why` empty or what the user should know of the device;
  // RONDO_ERR_UNSUPPORTED, RONDO_ERR_INVALID (no such device), RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
  int (*open)(const struct rondo_config *cfg, struct rondo_device **device, char *why);
  void (*close)(struct rondo_device *device);
  // The NUMA node that the device is at, -1 if that is not known. Null: it is wherever a thread is.
  int (*node)(const struct rondo_device *device);
  // Zeroed memory on a boundary of RONDO_LINE_BYTES, of enum rondo_memory_kind. Null when there is
  // none. Never waits for a daemon.
  void *(*alloc)(struct rondo_device *device, int kind, uint64_t bytes);
  void (*free)(struct rondo_device *device, int kind, void *memory);
  // Between the CPU's memory and the device's, done on return. Return RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*write)(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes);
  int (*read)(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes);
  // Between any two of the user's buffers, done on return; likewise.
  int (*copy)(struct rondo_device *device, void *dst, const void *src, uint64_t bytes);
  // How many ranks one job has in this process, at most; how many of the ranks of another process of this
  // machine compete for cores with those of this one; and how many do so with a job, now and when this
  // was told last. All null: daemons need no core.
  void (*crowd)(uint32_t ranks);
  uint32_t (*competitors)(int64_t pid, uint32_t ranks);
  void (*compete)(uint32_t was, uint32_t is);

  // What a rank on `from` can do to one on `to`: enum rondo_reach, and in `why`, if it is not null, where
  // it puts what it sends, and why there. Null: everything, for all of them.
  unsigned (*reach)(struct rondo_device *from, struct rondo_device *to, char *why);
  // RONDO_SUCCESS if the device can use the whole of a user's buffer, else RONDO_ERR_INVALID. Null: it
  // can use all memory of this process.
  int (*check)(struct rondo_device *device, const void *memory, uint64_t bytes, char *why);

  const struct rondo_sharing *sharing; // null: is_direct
  const struct rondo_setup *setup;     // likewise

  // ---- daemons ----
  // Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, RONDO_ERR_FULL (the device's budget) or RONDO_ERR_SYSTEM.
  int (*create)(struct rondo_device *device, const struct rondo_daemon_request *request,
                struct rondo_daemon **daemon);
  void (*destroy)(struct rondo_daemon *d);
  // From here on threads of the driver look after it. Returns as create.
  int (*attach)(struct rondo_daemon *d, const struct rondo_config *cfg);
  // When it returns no thread of the driver, and no helper of another rank, touches the daemon.
  void (*detach)(struct rondo_daemon *d);
  // Tells that a run was submitted. `urgent`: nobody is going to wait for it.
  void (*kick)(struct rondo_daemon *d, int urgent);
  // Takes a run past the SQ, in which there is none of its collective, and its first steps, if nobody is at
  // them: its peers need not wait until this caller does. The service is left to the caller. Returns the
  // time behind these steps, by `clock`; or 0: the run is to be pushed. Null: a caller cannot.
  uint64_t (*begin)(struct rondo_daemon *d, const struct rondo_sqe *entry,
                    struct rondo_stamp *clock);
  // Follows in the same thread unless that was 0, when the caller has done what its peers need not wait for, and
  // what they sent may have come: takes the next steps. Nobody else steps the run in between.
  void (*begun)(struct rondo_daemon *d);
  // Takes a bounded number of steps of the daemon's blocks; `others`: and of small runs of other ranks of this process
  // for which no thread waits: what was submitted just now may be what they wait for. Null: others step them.
  void (*assist)(struct rondo_daemon *d, int others);
  // Tells that a run has ended.
  void (*done)(struct rondo_daemon *d);
  // Tells that something has come into a connector from outside, for which blocks may wait. Null: nothing
  // comes from there.
  void (*stir)(struct rondo_daemon *d);
  // Works for the daemon, or waits, until `is_done` returns nonzero or the time is over; 0 or less: takes a bounded
  // number of steps. RONDO_DONE_LEFT: done, and the completion may stay in the CQ. Returns 1 if done, else 0.
  int (*help)(struct rondo_daemon *d, int (*is_done)(void *arg), void *arg, int64_t timeout_ns);
  // Waits until every launch of every block that has begun has left, until the deadline, or until
  // the daemon is told to exit. Returns 1 if they have left, else 0.
  int (*synchronize)(struct rondo_daemon *d, uint64_t deadline_ns);

  // The byte by which peers in this process tell a block that it has something to do (struct
  // rondo_connector); 0: it need not be told. The byte stays when the daemon has gone. Null: no
  // block need be told.
  uint64_t (*ready_at)(const struct rondo_daemon *d, uint32_t block);
  // The byte that a block sets when it has moved something for the process of that bell of `bells`,
  // and for which it then rings the bell; 0: there is no memory for it. Null if ready_at is.
  uint64_t (*ring_at)(struct rondo_daemon *d, uint32_t block, uint32_t bell);

  // ---- streams ----
  // Enqueues in the application's stream the `parts` (a bit each): RONDO_STREAM_ASK: the doorbell gets the
  // ticket; RONDO_STREAM_WAIT: the stream waits until the completion has reached it; then `passed` gets it. May wait for room in the stream, so no lock is
  // held that the end of a run needs. Returns RONDO_SUCCESS; or, nothing enqueued, RONDO_ERR_INVALID,
  // RONDO_ERR_UNSUPPORTED or RONDO_ERR_SYSTEM. Null: this backend has no streams.
  int (*enqueue)(struct rondo_daemon *d, void *stream, struct rondo_stream_words *words,
                 uint64_t ticket, unsigned parts, char *why);

  // Writes to `capturing` whether the stream is being captured. Returns as enqueue.
  int (*is_capturing)(struct rondo_daemon *d, void *stream, int *capturing, char *why);
  // Puts the `parts` into the graph that is captured: RONDO_STREAM_ASK: the doorbell gets the ticket, and
  // what is captured is dropped in any case, at once or with the graph; RONDO_STREAM_WAIT: the graph
  // waits until the completion has it; then the completion gets 0. Returns as enqueue.
  int (*capture)(struct rondo_daemon *d, void *stream, const struct rondo_capture *c,
                 unsigned parts, char *why);

  // ---- looking on ----
  // Returns 1 and where the block stands, or 0 if it has no run of table entry `index` or cannot tell.
  int (*look)(struct rondo_daemon *d, uint32_t block, uint32_t index, struct rondo_look *look);
  void (*count)(struct rondo_daemon *d, struct rondo_daemon_counters *counters);
};

// 1 if a daemon's connectors lead to other machines.
static inline int rondo_daemon_is_far(const struct rondo_daemon *d) {
  return d->far && rondo_load_acquire_u64(d->far); // P2
}

// Counts a run that has been submitted. What the caller looks at after it, threads that sleep write before they look
// at this count (rondo_fence_heavy). Whoever changes the count holds the rank's lock.
static inline void rondo_daemon_expect(struct rondo_daemon *d) {
  rondo_store_relaxed_u64(&d->outstanding, rondo_load_relaxed_u64(&d->outstanding) + 1);
  rondo_fence_light();
}

// The parts of a daemon's core that the configuration decides.
static inline void rondo_daemon_core_configure(struct rondo_daemon_core *core,
                                               const struct rondo_config *cfg) {
  const struct rondo_tuning *t = &cfg->tuning;
  struct rondo_policy policy = {.order = (uint8_t)cfg->order,
                                .budget = (uint8_t)cfg->budget,
                                .success_factor = t->success_factor,
                                .front_budget_ns = t->front_budget_ns,
                                .min_budget_ns = t->min_budget_ns,
                                .max_budget_ns = t->max_budget_ns,
                                .look_ns = t->look_ns > 1 ? t->look_ns : 0};
  core->policy = policy;
  core->quit_period_ns = t->quit_period_ns;
  core->residency_ns = t->residency_ns;
  core->block_count = cfg->blocks;
}

// The parts of a daemon that are the same for all drivers.
static inline void rondo_daemon_init(struct rondo_daemon *d, struct rondo_device *device,
                                     const struct rondo_daemon_request *request) {
  d->driver = device->driver;
  d->device = device;
  d->service = request->service;
  d->needs_service = request->needs_service;
  d->noted = request->noted;
  d->lost = request->lost;
  d->moved = request->moved;
  d->forward = request->forward;
  d->owner = request->owner;
}

#endif // RONDO_DAEMON_DRIVER_DRIVER_H
