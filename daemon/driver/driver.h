// The driver: the table of calls that a backend offers to the runtime, and what all daemons share.
// The runtime knows devices and daemons only through this table.
//
//   open -> create -> attach -> notify_submission / wait / synchronize ... -> detach -> destroy
//     -> close
//
// A driver puts struct rondo_device and struct rondo_daemon first in structures of its own. A call
// may come from any thread, does a bounded amount of work and prints nothing, unless its comment
// says otherwise. A call that fails writes the reason to `why`, a line of at most RONDO_WHY_BYTES.
//
// Results: an action returns enum rondo_status; a predicate (is_, has_, can_) and a `try_` call
// return bool; a call that moves data or entries returns bool, true if it moved any.
#ifndef RONDO_DAEMON_DRIVER_DRIVER_H
#define RONDO_DAEMON_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/event_count.h"
#include "base/fence.h"
#include "daemon/core/block_core.h"
#include "queues/cq_core.h"
#include "queues/sq_core.h"
#include <rondo/rondo.h>

#define RONDO_WHY_BYTES 512u

enum rondo_memory_kind {
  RONDO_MEMORY_SHARED = 0, // the CPU and the device read and write it in place
  RONDO_MEMORY_DEVICE = 1  // device memory: the CPU uses `read` and `write`
};

// What a rank on device `from` and a rank on device `to` of one process can use.
enum rondo_reach {
  RONDO_REACH_MEMORY = 1, // `from` uses memory of `to` in place
  RONDO_REACH_BUFFERS = 2 // `to` uses every buffer that check_buffer accepts for `from`
};
#define RONDO_REACH_ALL (RONDO_REACH_MEMORY | RONDO_REACH_BUFFERS)

enum rondo_block_change { RONDO_BLOCK_STARTED = 0, RONDO_BLOCK_QUIT = 1, RONDO_BLOCK_CHANGES = 2 };

// What the caller of `forward` does next.
enum rondo_forward {
  RONDO_FORWARD_STAY,  // calls again soon
  RONDO_FORWARD_SLEEP, // sleeps, and leaves its core to other threads
  RONDO_FORWARD_LEAVE  // returns to the application, and may keep its core busy
};

// What a thread in `wait` waits for.
enum rondo_done {
  RONDO_NOT_DONE = 0,
  RONDO_DONE = 1,
  RONDO_DONE_IN_CQ = 2 // done, and its completion may stay in the CQ
};

// Receives a report line by line.
struct rondo_line_writer {
  void (*line)(void *arg, const char *text);
  void *arg;
};

struct rondo_driver;

struct rondo_device {
  const struct rondo_driver *driver;
};

// The CPU side of one rank's daemon.
struct rondo_daemon {
  // Written at every submission.
  _Alignas(RONDO_LINE_BYTES) struct rondo_sq_producer sq; // guarded by the submitting thread's lock
  uint64_t outstanding;                                   // runs submitted and not completed (H3)
  uint64_t ended_ns;      // rondo_now_ns when a block last ended a run; 0: not known
  uint32_t captured_runs; // runs in graphs, which a replay may submit at any time
  uint8_t submission_line[RONDO_LINE_BYTES - sizeof(struct rondo_sq_producer) - 20];
  // Constant after creation.
  const struct rondo_driver *driver;
  struct rondo_device *device;
  uint64_t table;              // address of its struct rondo_device_table, device memory
  uint32_t *exit;              // blocks end when this word is 1
  struct rondo_cq_consumer cq; // guarded by the lock of `service`
  // Takes completions and pushes waiting runs. Any thread. Returns true if it did anything.
  bool (*service)(void *owner);
  bool (*needs_service)(void *owner);
  // Reports a start or a quit (enum rondo_block_change); of a series without progress only the
  // first. May be null. Never waits.
  void (*on_change)(void *owner, int what, uint32_t block);
  // Reports once that no block will be stepped again, and why. Called without a driver lock. Ends
  // the daemon's runs.
  void (*on_lost)(void *owner, const char *why);
  // The word is not 0 while a proxy forwards some connectors: then on_moved and forward have work.
  // Set before attach; null: no connector needs a proxy.
  const uint64_t *proxy;
  // Notified when a block has moved, if threads of other processes on this machine step their
  // blocks. Set before attach; null: there are no such processes.
  const struct rondo_event_counts *event_counts;
  // Reports that a block has moved: a connector may hold data for another process. Never waits.
  void (*on_moved)(void *owner);
  // Forwards slots to and from other processes. A waiting thread calls it when it has nothing to
  // step. `next`: enum rondo_forward; RONDO_FORWARD_LEAVE waits for a short time until published
  // slots have left, the others never wait. Returns true if anything moved.
  bool (*forward)(void *owner, int next);
  void *owner;
};

// What a daemon is made from.
struct rondo_daemon_request {
  const struct rondo_config *cfg; // complete
  uint32_t sq_entries, cq_entries;
  uint32_t first_sequence; // of every queue
  bool (*service)(void *owner);
  bool (*needs_service)(void *owner);
  void (*on_change)(void *owner, int what, uint32_t block);
  void (*on_lost)(void *owner, const char *why);
  void (*on_moved)(void *owner);
  bool (*forward)(void *owner, int next);
  void *owner;
  char *why; // gets a line where a status alone does not explain a failure
};

// The parts of a run's tie to a stream: the request for the run, and the wait for its end.
#define RONDO_STREAM_ASK 1u
#define RONDO_STREAM_WAIT 2u

// A run that is captured into a graph.
struct rondo_capture {
  struct rondo_stream_words *words;
  uint64_t ticket;
  void (*drop)(void *arg); // called once, when no graph uses the words any more
  void *arg;
};

// Where one block stands with one collective.
struct rondo_block_view {
  struct rondo_context_dynamic state;
  uint64_t waiting_ns; // time since it moved
  bool is_scheduled;   // the block works on this collective
  bool has_data;       // the chunk that the current op receives has arrived
};

struct rondo_daemon_counters {
  struct rondo_block_counters blocks; // sums
  uint64_t starts, helped;
};

// Adds the counters of one block, which may be running.
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

#define RONDO_RANGE_UNIT_BYTES (UINT64_C(2) << 20) // of device memory that processes share

// Memory shared with other processes of this machine. A call that fails changes nothing.
struct rondo_sharing {
  // Lets all devices of this process use host memory in place (pin), and ends that (unpin). Returns
  // RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*pin)(struct rondo_device *device, void *memory, uint64_t bytes, char *why);
  void (*unpin)(struct rondo_device *device, void *memory);
  // Reserves addresses for device memory. `*bytes` 0: the driver chooses the size and writes it.
  // Returns RONDO_SUCCESS, RONDO_ERR_UNSUPPORTED (the device shares no memory) or RONDO_ERR_SYSTEM.
  int (*reserve)(struct rondo_device *device, uint64_t *base, uint64_t *bytes, char *why);
  void (*release)(struct rondo_device *device, uint64_t base, uint64_t bytes);
  // Maps new device memory at `at` (allocate), whose descriptor `*fd` belongs to the caller, or the
  // memory of a descriptor from another process (map). `bytes`: a multiple of
  // RONDO_RANGE_UNIT_BYTES. No device may use it before set_access. Return as reserve.
  int (*allocate)(struct rondo_device *device, uint64_t at, uint64_t bytes, int *fd, char *why);
  int (*map)(struct rondo_device *device, uint64_t at, uint64_t bytes, int fd, char *why);
  int (*set_access)(struct rondo_device *device, uint64_t at, uint64_t bytes, char *why);
  void (*unmap)(struct rondo_device *device, uint64_t at, uint64_t bytes);
  // Zeroes device memory before it returns. Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*zero)(struct rondo_device *device, uint64_t at, uint64_t bytes);
};

// A kernel that runs once, as one block of 32 threads.
struct rondo_once {
  const void *image; // as the device's driver loads it
  const char *name;
  void *param; // its one parameter
  uint64_t deadline_ns;
};

// What another library needs to set something up on a device (runtime/transport/nccl).
struct rondo_setup {
  // Calls `call(arg)` with the device current in this thread and captures undisturbed. Returns its
  // result, or RONDO_ERR_SYSTEM.
  int (*call_inside)(struct rondo_device *device, int (*call)(void *arg), void *arg, char *why);
  // Runs a kernel to its end; called inside `call`. Returns RONDO_SUCCESS, RONDO_ERR_SYSTEM, or
  // RONDO_ERR_TIMEOUT: the kernel may still run.
  int (*run_once)(struct rondo_device *device, const struct rondo_once *once, char *why);
  // `on`: no daemon is launched on the device until every such call has had its call with `on`
  // false. Resident daemons quit within their residency; then is_quiet returns true.
  void (*hold)(struct rondo_device *device, bool on);
  bool (*is_quiet)(struct rondo_device *device);
  // Opens an open device once more.
  void (*retain)(struct rondo_device *device);
};

struct rondo_driver {
  const char *name;
  bool is_direct; // the CPU uses device memory in place
  bool is_silent; // on_moved and forward are never called: the CPU does not see its blocks move

  // Fills in the configuration's defaults that depend on the backend.
  void (*complete_config)(struct rondo_config *cfg);

  // ---- devices ----
  // Writes a line for each device and each pair of them; opens none. Returns RONDO_SUCCESS if a
  // device is usable, else RONDO_ERR_UNSUPPORTED and the reason in `why`. Null: nothing to say.
  int (*describe)(const struct rondo_line_writer *to, char *why);
  // Opens the device that the configuration names. Returns RONDO_SUCCESS, with a warning for the
  // user in `why` or none; RONDO_ERR_UNSUPPORTED, RONDO_ERR_INVALID (no such device),
  // RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
  int (*open)(const struct rondo_config *cfg, struct rondo_device **device, char *why);
  void (*close)(struct rondo_device *device);
  // The device's NUMA node, -1 if unknown. Null: the node of the calling thread.
  int (*node)(const struct rondo_device *device);
  // Allocates zeroed memory on a boundary of RONDO_LINE_BYTES. `kind`: enum rondo_memory_kind.
  // Null: none left. Never waits for a daemon.
  void *(*alloc)(struct rondo_device *device, int kind, uint64_t bytes);
  void (*free)(struct rondo_device *device, int kind, void *memory);
  // Copies to and from device memory before it returns. Return RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*write)(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes);
  int (*read)(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes);
  // Copies between any two user buffers before it returns. Returns as write.
  int (*copy)(struct rondo_device *device, void *dst, const void *src, uint64_t bytes);
  // The three calls tell a driver whose daemons need cores how many ranks compete for them. All
  // null: daemons need no core.
  // `ranks`: the most that one job has in this process.
  void (*set_local_ranks)(uint32_t ranks);
  // How many of the `ranks` ranks of process `pid` on this machine compete for this process's
  // cores.
  uint32_t (*count_competing)(int64_t pid, uint32_t ranks);
  // One job's competing ranks in other processes: now `is`, at the last call `was`.
  void (*set_competing)(uint32_t was, uint32_t is);

  // What a rank on `from` and one on `to` can use of each other: enum rondo_reach. `why`, if not
  // null, gets where `from` puts what it sends, and the reason. Null: everything.
  unsigned (*reach)(struct rondo_device *from, struct rondo_device *to, char *why);
  // Returns RONDO_SUCCESS if the device can use the whole user buffer, else RONDO_ERR_INVALID.
  // Null: the device can use all memory of this process.
  int (*check_buffer)(struct rondo_device *device, const void *memory, uint64_t bytes, char *why);

  const struct rondo_sharing *sharing; // null: is_direct
  const struct rondo_setup *setup;     // null: is_direct

  // ---- daemons ----
  // Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, RONDO_ERR_FULL (the device's budget) or
  // RONDO_ERR_SYSTEM.
  int (*create)(struct rondo_device *device, const struct rondo_daemon_request *request,
                struct rondo_daemon **daemon);
  void (*destroy)(struct rondo_daemon *d);
  // Hands the daemon to the driver's threads. Returns as create.
  int (*attach)(struct rondo_daemon *d, const struct rondo_config *cfg);
  // Takes the daemon back: after it no driver thread and no thread of another rank touches it.
  void (*detach)(struct rondo_daemon *d);
  // A run was submitted. `urgent`: no thread is about to wait for it.
  void (*notify_submission)(struct rondo_daemon *d, bool urgent);
  // Inline submission, first half: hands the block a run past the SQ, which holds no run of its
  // collective, and takes its first steps, so that its peers need not wait for the caller's
  // bookkeeping. Does not call `service`. Returns the time after these steps, by `clock`; 0: the
  // caller has to push the run. Null: not offered.
  uint64_t (*submit_inline)(struct rondo_daemon *d, const struct rondo_sqe *entry,
                            struct rondo_stamp *clock);
  // Inline submission, second half: steps the block once more after the caller has written its
  // records. Called by the thread that called submit_inline, if that returned a time; no other
  // thread steps the block in between.
  void (*poll_inline)(struct rondo_daemon *d);
  // Takes a bounded number of steps of the daemon's blocks. `others`: and of small runs of other
  // ranks of this process for which no thread waits, because they may wait for what was just
  // submitted. Null: other threads step them.
  void (*poll)(struct rondo_daemon *d, bool others);
  // A run has ended.
  void (*notify_completion)(struct rondo_daemon *d);
  // A connector has received something from another process. Null: not needed.
  void (*notify_arrival)(struct rondo_daemon *d);
  // Works for the daemon, or sleeps, until `is_done(arg)` (enum rondo_done) is not RONDO_NOT_DONE.
  // timeout_ns <= 0: takes a bounded number of steps. Returns RONDO_SUCCESS or RONDO_ERR_TIMEOUT.
  int (*wait)(struct rondo_daemon *d, int (*is_done)(void *arg), void *arg, int64_t timeout_ns);
  // Waits until every launch of a block that has begun has left. Returns RONDO_SUCCESS,
  // RONDO_ERR_TIMEOUT, or RONDO_ERR_CLOSED if the daemon was told to exit.
  int (*synchronize)(struct rondo_daemon *d, uint64_t deadline_ns);

  // The address of the byte that peers in this process set when a block has something to do (struct
  // rondo_connector); 0: they need not. It outlives the daemon. Null: no block needs it.
  uint64_t (*ready_byte)(const struct rondo_daemon *d, uint32_t block);
  // The address of the byte that a block sets when it has moved something for the process with this
  // number in event_counts, which the block then notifies; 0: no memory. Null if ready_byte is.
  uint64_t (*moved_byte)(struct rondo_daemon *d, uint32_t block, uint32_t process);

  // ---- streams ----
  // Enqueues `parts` in the application's stream. RONDO_STREAM_ASK: the stream writes the ticket to
  // the doorbell. RONDO_STREAM_WAIT: the stream waits until the completion word has reached the
  // ticket, then writes the ticket to `passed`. May wait for room in the stream, so the caller
  // holds no lock that the end of a run needs. Returns RONDO_SUCCESS; or RONDO_ERR_INVALID,
  // RONDO_ERR_UNSUPPORTED or RONDO_ERR_SYSTEM, and nothing is enqueued. Null: no streams.
  int (*enqueue)(struct rondo_daemon *d, void *stream, struct rondo_stream_words *words,
                 uint64_t ticket, unsigned parts, char *why);

  // Writes to `is_capturing` whether the stream is being captured. Returns as enqueue.
  int (*get_capturing)(struct rondo_daemon *d, void *stream, int *is_capturing, char *why);
  // Adds `parts` to the graph being captured. RONDO_STREAM_ASK: the graph writes the ticket to the
  // doorbell, and owns the capture: `drop` is called at once or with the graph's end.
  // RONDO_STREAM_WAIT: the graph waits for the completion word, then sets it to 0. Returns as
  // enqueue.
  int (*capture)(struct rondo_daemon *d, void *stream, const struct rondo_capture *c,
                 unsigned parts, char *why);

  // ---- inspection ----
  // Reads where a block stands with table entry `index`. Returns false if the block has no run of
  // it, or could not be read.
  bool (*try_inspect)(struct rondo_daemon *d, uint32_t block, uint32_t index,
                      struct rondo_block_view *view);
  void (*read_counters)(struct rondo_daemon *d, struct rondo_daemon_counters *counters);
};

// True while a proxy forwards some of the daemon's connectors.
static inline bool rondo_daemon_has_proxy(const struct rondo_daemon *d) {
  return d->proxy && rondo_load_acquire_u64(d->proxy); // P2
}

// Counts a submitted run. The caller holds the rank's lock. A sleeping thread stores what the
// caller reads after this call, passes rondo_fence_heavy, and then reads this count.
static inline void rondo_daemon_add_outstanding(struct rondo_daemon *d) {
  rondo_store_relaxed_u64(&d->outstanding, rondo_load_relaxed_u64(&d->outstanding) + 1);
  rondo_fence_light();
}

// Sets the fields of a daemon's core that the configuration decides.
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

// Sets the fields of a daemon that are the same for all drivers.
static inline void rondo_daemon_init(struct rondo_daemon *d, struct rondo_device *device,
                                     const struct rondo_daemon_request *request) {
  d->driver = device->driver;
  d->device = device;
  d->service = request->service;
  d->needs_service = request->needs_service;
  d->on_change = request->on_change;
  d->on_lost = request->on_lost;
  d->on_moved = request->on_moved;
  d->forward = request->forward;
  d->owner = request->owner;
}

#endif // RONDO_DAEMON_DRIVER_DRIVER_H
