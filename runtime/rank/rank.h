// A rank of a job in this process. A context handle names one.
//
//   rondo_rank_create -> (handles.h) pin -> register.h, submit.h, wait.h, stream.h ... unpin
//     -> rondo_rank_destroy
//
// Lock order: the job's lock, then the rank's. The rank's lock guards its collectives and run
// records. It is held for short, bounded work only and never while a callback runs.
#ifndef RONDO_RUNTIME_RANK_RANK_H
#define RONDO_RUNTIME_RANK_RANK_H

#include <pthread.h>
#include <stdint.h>

#include "base/lock.h"
#include "daemon/driver/driver.h"
#include "daemon/plan/cost_file.h"
#include "runtime/complete/callbacks.h"
#include "runtime/job/job.h"
#include "runtime/rank/decline.h"
#include "runtime/rank/flight.h"
#include "runtime/transport/collective_shape.h"
#include <rondo/rondo.h>

#define RONDO_SQ_ENTRIES 256u
#define RONDO_CQ_ENTRIES 256u

struct rondo_awaited;
struct rondo_coll;
struct rondo_coll_stream;
struct rondo_comm_end;
struct rondo_group_entry;
struct rondo_lent_piece;
struct rondo_rank;
struct rondo_replay;
struct rondo_retries;
struct rondo_run_record;

// Settings of tests that step the blocks themselves, to reach rare states soon. 0: as in the
// product. All ranks of a job have the same settings.
struct rondo_manual {
  bool has_threads; // the test only wants the settings: blocks step as in the product
  uint32_t sq_entries, cq_entries; // powers of two
  // `blocks` and `slot_bytes` are ignored: the configuration has them. `first_sequence` is the
  // first number of every queue and connector; tests set it close to the largest number.
  struct rondo_shape_limits shape;
  uint64_t first_run; // the first run has the number first_run + 1
  uint32_t process;   // simulated_process of struct rondo_job_request
};

// Callbacks of a higher folder.
struct rondo_rank_extension {
  // Does the work that `extension_pending` announces. Called by threads that serve completions;
  // never waits.
  void (*serve)(struct rondo_rank *rank);
  // Frees the extension's state when the context ends. Its collectives have been deregistered.
  void (*close)(struct rondo_rank *rank);
};

// The free pieces of memory for lending, by class (pool.h), and how many bytes are lent.
struct rondo_lending {
  struct rondo_lent_piece *free[RONDO_POOL_CLASSES];
  uint64_t lent_bytes; // atomic
};

// State of runtime/state/: the communicator on which the calls of a rank meet those of others.
struct rondo_state_comm {
  uint32_t is_in_use; // atomic; 1: a call owns the rest
  uint64_t handle;    // of struct rondo_comm; 0: none
  uint64_t view;      // of the job (struct rondo_voters)
  uint64_t failures;  // communicators of this view that have failed
  uint64_t exchanges; // of content, on this communicator
};

// State of runtime/state/: the collective on which the members of a state give their claims. Owned
// as struct rondo_state_comm is.
struct rondo_state_roll {
  struct rondo_collective coll; // 0: none
  uint64_t view;                // of the job (struct rondo_voters), with lost ranks
  uint64_t failures;            // collectives of this view that have failed
  bool has_failed;              // the last call
};

// An SQE that found the SQ full, and the number of its run's event in the flight record; 0: none.
struct rondo_unsent {
  struct rondo_sqe sqe;
  uint64_t event;
};

// The SQEs that found the SQ full, in order: a ring from `first` to before `end`. It keeps SQEs,
// not collectives, because with thousands of runs in flight each look at a collective is a cache
// miss.
struct rondo_overflow {
  struct rondo_unsent *entries; // made by malloc
  uint32_t capacity;            // a power of two, or 0
  uint32_t first, end;
};

struct rondo_rank {
  struct rondo_config cfg; // resolved
  struct rondo_job *job;
  struct rondo_member member; // the rank as its job sees it
  struct rondo_context ctx;   // its handle
  uint32_t closing;
  struct rondo_forced forced; // as in struct rondo_rank_request
  struct rondo_manual manual;
  pthread_mutex_t stream_lock; // guards entries of streams; not held while runs are enqueued there
  pthread_cond_t stream_given; // a thread has ended its claim of an entry
  struct rondo_coll_stream *retired_streams; // of deregistered collectives; guarded by stream_lock
  struct rondo_lock lock;
  // Guarded by the lock.
  struct rondo_coll *pages[RONDO_TABLE_PAGES];
  void *device_pages[RONDO_TABLE_PAGES]; // the pages of the daemon's table, in device memory
  uint64_t pages_on_device; // a bit for each page whose address is in the daemon's table
  uint32_t coll_slots, coll_count;
  struct rondo_coll *free_colls;
  struct rondo_overflow overflow;
  void *by_id; // tree (search.h) of struct rondo_coll
  struct rondo_run_record *free_records;
  struct rondo_lending lending;
  struct rondo_group_entry *groups;
  uint64_t next_group;
  void *allocations;             // tree (search.h) of the addresses of the user's memory
  uint64_t submitted, completed; // sums over collectives
  struct rondo_replay *replays;
  uint32_t hidden_runs;  // outstanding runs that are not the application's (retry.h)
  uint32_t started_runs; // such runs that no thread has been told of
  struct rondo_flight flight;
  // When the run ended whose CQE is taken next; 0: the daemon's `ended_ns` has the time.
  uint64_t inline_ended_ns;
  int is_lost; // the daemon cannot run any more
  // The rest is accessed without the lock. pending_changes[c] has a bit for each block whose change
  // c (enum rondo_block_change) is not in the flight record yet.
  uint64_t pending_changes[RONDO_BLOCK_CHANGES];
  uint32_t has_overflow;
  uint32_t wants_events; // the application uses `event_fd`
  int event_fd;
  uint32_t synchronisers;         // threads in rondo_device_synchronize
  uint64_t synchronises_since_ns; // by rondo_now_ns, when the first of them came
  struct rondo_callbacks callbacks;
  void (*on_timeout)(const struct rondo_awaited *run, int64_t timeout_ns); // of runtime/observe/
  // State of runtime/order/.
  const struct rondo_rank_extension *extension;
  uint32_t extension_pending; // 1: its `serve` has work to do
  pthread_mutex_t comms_lock;
  struct rondo_comm_end *comms; // guarded by comms_lock
  uint64_t next_comm;
  struct rondo_decline decline;
  struct rondo_state_comm state_comm;
  struct rondo_state_roll state_roll;
  struct rondo_retries *retries;
};

// The rank of a member of the job; null for null.
static inline struct rondo_rank *rondo_rank_of(const struct rondo_member *member) {
  return member ? (struct rondo_rank *)((uintptr_t)member - offsetof(struct rondo_rank, member))
                : NULL;
}

struct rondo_rank_request {
  const struct rondo_config *cfg; // completed
  // Null in the product. Otherwise no thread is started, except that of collectives with
  // RONDO_ON_LOSS_RETRY. The caller steps the blocks (of host daemons with rondo_host_block_drive,
  // to which it passes a time of its own), takes completions (rondo_rank_service) and calls
  // callbacks (rondo_callbacks_fire).
  const struct rondo_manual *manual;
  const struct rondo_forced *forced;                       // algorithms
  struct rondo_cost_file **model;                          // as of struct rondo_job_request
  const struct rondo_job_extension *const *job_extensions; // as of struct rondo_job_request
  const struct rondo_rank_extension *extension;
  // Called when a wait for a run has timed out after `timeout_ns`.
  void (*on_timeout)(const struct rondo_awaited *run, int64_t timeout_ns);
};

// Makes a rank, its daemon and its handle, and joins the job. Returns what rondo_init returns.
int rondo_rank_create(struct rondo_context *ctx, const struct rondo_rank_request *request);
// As rondo_destroy. `mode` is valid, and the caller is not in a callback.
int rondo_rank_destroy(struct rondo_context ctx, int mode, int64_t timeout_ns);
// Fails all communicators of the rank's collectives with RONDO_ERR_ABORTED and wakes its daemon.
void rondo_rank_abort(struct rondo_rank *rank);

// The driver of a backend; null if this library was built without it.
const struct rondo_driver *rondo_driver_of(int backend);

#endif // RONDO_RUNTIME_RANK_RANK_H
