// The driver: the table of functions through which the runtime uses a backend; and struct
// rondo_daemon, the first member of every backend's own daemon struct.
//
//   open -> create -> attach -> notify_submission / wait / synchronize ... -> detach -> destroy
//     -> close
//
// The structs of a driver begin with struct rondo_device or struct rondo_daemon. Unless a comment
// says otherwise, any thread may make a call, and the call does a bounded amount of work and prints
// nothing. A call that fails writes the reason to `why`, a line of at most RONDO_WHY_BYTES.
//
// Results: an action returns enum rondo_status; a predicate (is_, has_, can_) and a `try_` call
// return bool; a call that moves data or entries returns true if it moved any.
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
  RONDO_MEMORY_SHARED = 0, // the CPU and the device access it directly
  RONDO_MEMORY_DEVICE = 1, // device memory: the CPU accesses it with `read` and `write`
  // As SHARED, for communicators alone: the mirror of a device may read a gate after it was freed
  // (daemon/core/mirror_core.h).
  RONDO_MEMORY_GATE = 2,
  RONDO_MEMORY_KINDS = 3
};

// What two devices of one process can access, if a rank on `from` sends to a rank on `to`.
enum rondo_reach {
  RONDO_REACH_MEMORY = 1, // the sender's device `from` can access memory of the device `to`
  // The receiver's device `to` can access every user buffer that check_buffer accepts for `from`,
  // except private ones.
  RONDO_REACH_BUFFERS = 2,
  RONDO_REACH_PRIVATE = 4 // ... private ones, too
};
#define RONDO_REACH_ALL (RONDO_REACH_MEMORY | RONDO_REACH_BUFFERS | RONDO_REACH_PRIVATE)

enum rondo_block_change { RONDO_BLOCK_STARTED = 0, RONDO_BLOCK_QUIT = 1, RONDO_BLOCK_CHANGES = 2 };

// What the caller of `forward` does next.
enum rondo_forward {
  RONDO_FORWARD_STAY,  // it calls again soon
  RONDO_FORWARD_SLEEP, // it sleeps, and leaves its core to other threads
  RONDO_FORWARD_LEAVE  // it returns to the application, which may keep the core busy
};

// The results of the predicate `is_done`, for which a thread in `wait` waits.
enum rondo_done {
  RONDO_NOT_DONE = 0,
  RONDO_DONE = 1,
  RONDO_DONE_IN_CQ = 2 // done, and the caller need not take the completion off the CQ
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
  _Alignas(RONDO_LINE_BYTES) struct rondo_sq_producer sq; // guarded by the rank's lock
  uint64_t outstanding;                                   // runs submitted and not completed (H3)
  uint64_t ended_ns;      // rondo_now_ns when a block last ended a run; 0: not known
  uint32_t captured_runs; // runs in CUDA graphs, whose launch may submit them at any time
  // Outstanding runs that a stream waits for, without those of graphs; written with the rank's
  // lock.
  uint32_t tied_runs;
  uint8_t submission_line[RONDO_LINE_BYTES - sizeof(struct rondo_sq_producer) - 24];
  // Constant after creation.
  const struct rondo_driver *driver;
  struct rondo_device *device;
  uint64_t table;              // address of its struct rondo_device_table, device memory
  uint64_t copies;             // ... of struct rondo_mirror_copy, by table index; 0: none
  uint32_t *exit;              // blocks end when this word is 1
  struct rondo_cq_consumer cq; // guarded by the rank's lock
  // Takes completions off the CQ and pushes runs that could not be pushed before. Any thread may
  // call it. Returns true if it did anything.
  bool (*service)(void *owner);
  bool (*needs_service)(void *owner);
  // Reports that a block has started or quit (enum rondo_block_change). If a block starts and quits
  // several times without progress, reports only the first time. May be null. Never waits.
  void (*on_change)(void *owner, int what, uint32_t block);
  // Reports once that no block will be stepped again, and why. Called without a driver lock. Ends
  // the daemon's runs.
  void (*on_lost)(void *owner, const char *why);
  // The word is not 0 while some connectors of this daemon need the proxy; only then are on_moved
  // and forward called. Set before attach; null: no connector ever needs a proxy.
  const uint64_t *proxy;
  // The event counts of the job's processes on this machine. When a block has moved data for one of
  // these processes, the block notifies the event count of that process. Set before attach; null:
  // there is no other process.
  const struct rondo_event_counts *event_counts;
  // The ready flags of its blocks, one block after the other (block_ready_core.h). Set by
  // use_flags; null: none.
  uint8_t *flags;
  uint64_t block_flags_bytes;
  // The tallies of its blocks, one block after the other; each has one for each entry of the table.
  // Set by create, if the configuration has collective_counters and the driver can count; null:
  // none.
  struct rondo_tally *tallies;
  uint32_t tally_capacity; // entries of the table
  // Reports that a block has made progress: a connector may hold data for another process. Never
  // waits.
  void (*on_moved)(void *owner);
  // Forwards slots to and from other processes. A waiting thread calls it when it has no block to
  // step. `next` (enum rondo_forward) says what the caller does next. With RONDO_FORWARD_LEAVE the
  // call waits for a short, bounded time until published slots have been sent; else it never waits.
  // Returns true if anything moved.
  bool (*forward)(void *owner, int next);
  void *owner;
};

// The arguments of `create`.
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
  char *why; // gets a line if a status alone does not explain a failure
};

// What rondo_run_on_stream puts into a stream. ASK: the stream lets the run begin. WAIT: the stream
// waits for the end of the run.
#define RONDO_STREAM_ASK 1u
#define RONDO_STREAM_WAIT 2u

// A run that is captured into a graph.
struct rondo_capture {
  struct rondo_stream_words *words;
  uint64_t ticket;
  void (*drop)(void *arg); // called once, when no graph uses `words` any more
  void *arg;
};

// The state of one collective on one block.
struct rondo_block_view {
  struct rondo_context_dynamic state;
  uint64_t waiting_ns; // time since its last progress
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
  uint64_t *to = (uint64_t *)&sum->blocks;
  const uint64_t *from = (const uint64_t *)block;
  for (size_t i = 0; i < sizeof *block / sizeof *from; i++)
    to[i] += rondo_load_relaxed_u64(&from[i]);
}

#define RONDO_RANGE_UNIT_BYTES (UINT64_C(2) << 20) // of device memory that processes share

// Memory shared with other processes of this machine. A call that fails changes nothing.
struct rondo_sharing {
  // `pin` makes host memory accessible to all devices of this process; `unpin` undoes that. Returns
  // RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*pin)(struct rondo_device *device, void *memory, uint64_t bytes, char *why);
  void (*unpin)(struct rondo_device *device, void *memory);
  // Reserves addresses for device memory. `*bytes` 0: the driver chooses the size and writes it.
  // Returns RONDO_SUCCESS, RONDO_ERR_UNSUPPORTED (the device shares no memory) or RONDO_ERR_SYSTEM.
  int (*reserve)(struct rondo_device *device, uint64_t *base, uint64_t *bytes, char *why);
  void (*release)(struct rondo_device *device, uint64_t base, uint64_t bytes);
  // `allocate` creates device memory, maps it at `at`, and writes its file descriptor to `fd`; the
  // caller closes it. `map` maps the memory of a descriptor from another process. `set_access` lets
  // the device `device` access the mapped memory. `bytes` is a multiple of RONDO_RANGE_UNIT_BYTES.
  // All three return the same statuses as reserve.
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
  // Calls `call(arg)` with the device current in this thread, in a mode that does not invalidate
  // stream captures of other threads. Returns the result of `call`, or RONDO_ERR_SYSTEM.
  int (*call_inside)(struct rondo_device *device, int (*call)(void *arg), void *arg, char *why);
  // Runs a kernel to its end; called inside `call`. Returns RONDO_SUCCESS, RONDO_ERR_SYSTEM, or
  // RONDO_ERR_TIMEOUT: the kernel may still run.
  int (*run_once)(struct rondo_device *device, const struct rondo_once *once, char *why);
  // With `on` true: forbids launches of daemons on the device. Each such call is undone by one with
  // `on` false. Running daemons quit within residency_ns. is_quiet returns true when all have quit.
  void (*hold)(struct rondo_device *device, bool on);
  bool (*is_quiet)(struct rondo_device *device);
  // Adds a reference to an open device; `close` removes it.
  void (*retain)(struct rondo_device *device);
};

struct rondo_driver {
  const char *name;
  bool is_direct; // the CPU can access device memory
  // The CPU does not see the progress of this backend's blocks, so the driver never calls on_moved
  // or forward.
  bool is_silent;

  // Fills in the configuration's defaults that depend on the backend.
  void (*complete_config)(struct rondo_config *cfg);

  // ---- devices ----
  // Writes a line for each device and each pair of devices; opens none. Returns RONDO_SUCCESS if a
  // device is usable, else RONDO_ERR_UNSUPPORTED. Null: there is nothing to describe.
  int (*describe)(const struct rondo_line_writer *to, char *why);
  // Opens the device that the configuration names. Returns RONDO_SUCCESS, with a warning for the
  // user in `why` or none; RONDO_ERR_UNSUPPORTED, RONDO_ERR_INVALID (no such device),
  // RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
  int (*open)(const struct rondo_config *cfg, struct rondo_device **device, char *why);
  void (*close)(struct rondo_device *device);
  // The device's NUMA node, -1 if unknown. Null: the node of the calling thread.
  int (*node)(const struct rondo_device *device);
  // The device's PCI address, domain << 16 | bus << 8 | device << 3 | function; 0 if unknown. Null:
  // the device is no PCI device.
  uint64_t (*pci)(const struct rondo_device *device);
  // Devices of this machine to which the device has a link of its own, such as NVLink, with atomic
  // operations across it. Null: none.
  uint32_t (*links)(const struct rondo_device *device);
  // Allocates zeroed memory, aligned to RONDO_LINE_BYTES. `kind`: enum rondo_memory_kind. Returns
  // null if there is no memory. Never waits for a daemon.
  void *(*alloc)(struct rondo_device *device, int kind, uint64_t bytes);
  void (*free)(struct rondo_device *device, int kind, void *memory);
  // Copies to and from device memory before it returns. Return RONDO_SUCCESS or RONDO_ERR_SYSTEM.
  int (*write)(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes);
  int (*read)(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes);
  // Copies between any two user buffers before it returns. Returns as write.
  int (*copy)(struct rondo_device *device, void *dst, const void *src, uint64_t bytes);
  // The next three calls say how many ranks compete for the cores of this process. They are null if
  // daemons need no core.
  //
  // `ranks`: the largest number of ranks of one job in this process.
  void (*set_local_ranks)(uint32_t ranks);
  // Process `pid` on this machine has `ranks` ranks. Returns how many of them compete for the cores
  // of this process.
  uint32_t (*count_competing)(int64_t pid, uint32_t ranks);
  // The number of competing ranks that one job has in other processes changes from `was` to `is`.
  void (*set_competing)(uint32_t was, uint32_t is);

  // Returns bits of enum rondo_reach. Writes to `why`, which may be null, in which memory a rank on
  // `from` puts the data that it sends to a rank on `to`, and the reason. If the driver has no
  // `reach`, every device can access everything.
  unsigned (*reach)(struct rondo_device *from, struct rondo_device *to, char *why);
  // Returns RONDO_SUCCESS if the device can access the whole user buffer, else RONDO_ERR_INVALID.
  // Sets `is_private` if other devices may be unable to access it. May wait for the device. Null:
  // the device can access all memory of this process, and so can all others.
  int (*check_buffer)(struct rondo_device *device, const void *memory, uint64_t bytes,
                      bool *is_private, char *why);

  const struct rondo_sharing *sharing; // null if is_direct
  const struct rondo_setup *setup;     // null if is_direct

  // ---- daemons ----
  // Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, RONDO_ERR_FULL (the device's budget) or
  // RONDO_ERR_SYSTEM.
  int (*create)(struct rondo_device *device, const struct rondo_daemon_request *request,
                struct rondo_daemon **daemon);
  void (*destroy)(struct rondo_daemon *d);
  // From now on the driver's threads step the daemon. Returns the same statuses as create.
  int (*attach)(struct rondo_daemon *d, const struct rondo_config *cfg);
  // Undoes attach. When it returns, no driver thread and no thread of another rank accesses `d`.
  void (*detach)(struct rondo_daemon *d);
  // A run was submitted. `urgent`: no application thread is about to wait for the run, so threads
  // of the driver must step it soon.
  void (*notify_submission)(struct rondo_daemon *d, bool urgent);
  // Inline submission, first half: gives the run to the block without the SQ, and executes its
  // first steps, so that its peers need not wait for the caller's bookkeeping. The SQ must hold no
  // run of its collective. Does not call `service`. Returns the time after these steps, by `clock`;
  // or 0: the caller must push the run to the SQ. Null: the driver has no inline submission.
  uint64_t (*submit_inline)(struct rondo_daemon *d, const struct rondo_sqe *entry,
                            struct rondo_stamp *clock);
  // Inline submission, second half: steps the block once more after the caller has written its
  // records. Called by the thread that called submit_inline, if that returned a time; no other
  // thread steps the block in between.
  void (*poll_inline)(struct rondo_daemon *d);
  // Steps the daemon's blocks a bounded number of times. If `others` is true, also steps small runs
  // of other ranks of this process for which no thread waits, because these runs may wait for the
  // run that was just submitted. Null: other threads step the blocks.
  void (*poll)(struct rondo_daemon *d, bool others);
  // A run has ended.
  void (*notify_completion)(struct rondo_daemon *d);
  // A connector has received something from another process. Null: not needed.
  void (*notify_arrival)(struct rondo_daemon *d);
  // Steps blocks, or sleeps, until `is_done(arg)` (enum rondo_done) is not RONDO_NOT_DONE. With
  // timeout_ns <= 0 it steps a bounded number of times. Returns RONDO_SUCCESS or RONDO_ERR_TIMEOUT.
  int (*wait)(struct rondo_daemon *d, int (*is_done)(void *arg), void *arg, int64_t timeout_ns);
  // Waits until every block that runs now has quit. Returns RONDO_SUCCESS, RONDO_ERR_TIMEOUT, or
  // RONDO_ERR_CLOSED if the daemon was told to exit.
  int (*synchronize)(struct rondo_daemon *d, uint64_t deadline_ns);

  // Gives the blocks their ready flags: zeroed memory of rondo_block_flags_bytes for each. Called
  // before attach. The memory outlives the daemon, because a peer may set the flag of a collective
  // that has ended. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY. Null: the blocks have none.
  int (*use_flags)(struct rondo_daemon *d, uint8_t *flags);
  // Returns the address of a byte that peers in this process set when the block has something to do
  // (struct rondo_connector). Returns 0 if the peers need not set a byte. The byte outlives the
  // daemon. Null: no block needs such a byte.
  uint64_t (*ready_byte)(const struct rondo_daemon *d, uint32_t block);
  // Returns the address of a byte that the block sets when it has moved data for process `process`
  // (an index in event_counts). The block later notifies that process. Returns 0 if there is no
  // memory. Null if ready_byte is null.
  uint64_t (*moved_byte)(struct rondo_daemon *d, uint32_t block, uint32_t process);

  // ---- streams ----
  // Enqueues `parts` (RONDO_STREAM_ASK, RONDO_STREAM_WAIT) in the application's stream. ASK: the
  // stream writes the ticket to words->doorbell. WAIT: the stream waits until words->completion has
  // reached the ticket, then writes the ticket to words->passed. The run is submitted between ASK
  // and WAIT: the WAIT may only return when the run has ended. The call waits while the stream is
  // full. Therefore the caller must not hold a lock that the end of a run needs. Returns
  // RONDO_SUCCESS; or RONDO_ERR_INVALID, RONDO_ERR_UNSUPPORTED or RONDO_ERR_SYSTEM, and nothing is
  // enqueued. Null: the backend has no streams.
  int (*enqueue)(struct rondo_daemon *d, void *stream, struct rondo_stream_words *words,
                 uint64_t ticket, unsigned parts, char *why);

  // Writes to `is_capturing` whether the stream is being captured. Same statuses as enqueue.
  int (*get_capturing)(struct rondo_daemon *d, void *stream, int *is_capturing, char *why);
  // Adds `parts` to the graph being captured. ASK: the graph writes the ticket to words->doorbell,
  // and owns `c`: c->drop is called when the graph is destroyed. If this call fails before the
  // graph owns `c`, it calls c->drop itself. WAIT: the graph waits for words->completion, then sets
  // it to 0. Same statuses as enqueue.
  int (*capture)(struct rondo_daemon *d, void *stream, const struct rondo_capture *c,
                 unsigned parts, char *why);

  // ---- inspection ----
  // Reads the state of the collective in table entry `index` on a block. Returns false if the block
  // has no run of the collective, or could not be read.
  bool (*try_inspect)(struct rondo_daemon *d, uint32_t block, uint32_t index,
                      struct rondo_block_view *view);
  void (*read_counters)(struct rondo_daemon *d, struct rondo_daemon_counters *counters);
};

// True while a proxy forwards some of the daemon's connectors.
static inline bool rondo_daemon_has_proxy(const struct rondo_daemon *d) {
  return d->proxy && rondo_load_acquire_u64(d->proxy); // P2
}

// Counts a submitted run. The caller holds the rank's lock. After this call the caller reads
// whether a thread sleeps. A thread that goes to sleep does the reverse: it stores that it sleeps,
// passes rondo_fence_heavy, and then reads this count. So at least one of the two threads sees what
// the other one has stored.
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
  core->ask_ns = 0;
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

// The ready flag of a collective; null: none.
static inline uint8_t *rondo_daemon_flag(const struct rondo_daemon *d, uint32_t block,
                                         uint32_t index) {
  return d->flags ? d->flags + block * d->block_flags_bytes + index : NULL;
}

// Adds up the tallies that the blocks have of a collective; QUEUE_MOST is the greatest. The daemon
// has tallies.
static inline struct rondo_tally rondo_daemon_tally(const struct rondo_daemon *d, uint32_t blocks,
                                                    uint32_t index) {
  struct rondo_tally sum = {{0}};
  for (uint32_t b = 0; b < blocks; b++) {
    const uint64_t *from = d->tallies[b * d->tally_capacity + index].counts;
    uint64_t most = rondo_load_relaxed_u64(&from[RONDO_TALLY_QUEUE_MOST]);
    for (uint32_t i = 0; i < RONDO_TALLY_COUNT; i++)
      if (i != RONDO_TALLY_QUEUE_MOST)
        sum.counts[i] += rondo_load_relaxed_u64(&from[i]);
    if (sum.counts[RONDO_TALLY_QUEUE_MOST] < most)
      sum.counts[RONDO_TALLY_QUEUE_MOST] = most;
  }
  return sum;
}

// Sets the tallies of a new collective to 0, if the daemon has tallies. No block knows it yet.
static inline void rondo_daemon_clear_tally(const struct rondo_daemon *d, uint32_t blocks,
                                            uint32_t index) {
  for (uint32_t b = 0; d->tallies && b < blocks; b++)
    for (uint32_t i = 0; i < RONDO_TALLY_COUNT; i++)
      rondo_store_relaxed_u64(&d->tallies[b * d->tally_capacity + index].counts[i], 0);
}

// Sets the ready flags of a collective whose gate has changed.
static inline void rondo_daemon_set_flags(const struct rondo_daemon *d, uint32_t blocks,
                                          uint32_t index) {
  for (uint32_t b = 0; d->flags && b < blocks; b++)
    rondo_store_release_u8(rondo_daemon_flag(d, b, index), 1); // C9
}

#endif // RONDO_DAEMON_DRIVER_DRIVER_H
