// A communicator of NCCL: a communicator of Rondo in a context that it shares with its children,
// which are the communicators that ncclCommSplit and ncclCommShrink create from it.
//
// Order of the files. Each includes only those above its line:
//
//   abi.h, explore.h           types and names of NCCL; test hooks
//   debug.h                    log, last error (debug.c) and results (result.c)
//   environment.h, device.h    NCCL_… variables; calls of the CUDA driver
//   comm.h                     communicators (comm.c) and their configuration (config.c)
//   call.h                     calls (call.c), reductions (op.c), splits (split.c), groups
//   (group.c) init.c, comm_api.c, collectives.c, memory.c, device_api.c    the other exported
//   functions
//
//   rondo_nccl_comm_create -> _add ... _find, _unref ... -> _remove
//
// The program's handle is a pointer that is looked up in a registry before it is followed, so a
// handle that was destroyed is refused. References keep the memory; Rondo's own handles can be used
// after their end. So another thread may abort a communicator at any time.
#ifndef RONDO_ADAPTERS_NCCL_COMM_H
#define RONDO_ADAPTERS_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/comm.h>
#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"

// How long ncclCommDestroy lets outstanding calls run before it aborts them.
#define RONDO_NCCL_DRAIN_NS INT64_C(60000000000)

// What a communicator shares with its children: a context of Rondo.
struct rondo_nccl_shared {
  struct rondo_context ctx;
  atomic_uint comms;      // communicators that are not destroyed; the last one destroys the context
  atomic_uint references; // communicators whose memory is not freed; the last one frees this
  int backend;            // enum rondo_backend
  int device;
};

// A reduction of ncclRedOpCreatePreMulSum.
struct rondo_nccl_op {
  bool used;
  int dtype;
  const void *device_scalar; // ncclScalarDevice: memory that each call reads; else null
  double scalar;
};

enum rondo_nccl_state {
  RONDO_NCCL_READY,
  RONDO_NCCL_SPLITTING, // a child whose split is in progress
  RONDO_NCCL_FINALIZED  // ncclCommFinalize was called
};

struct rondo_nccl_split;

struct rondo_nccl_comm {
  struct rondo_nccl_comm *next; // in the registry
  atomic_uint references;
  struct rondo_nccl_shared *shared;
  struct rondo_comm comm; // valid unless the state is RONDO_NCCL_SPLITTING
  uint64_t key;           // of `comm`; the keys of children are derived from it
  uint32_t *ranks;        // ranks of the context, by rank of the communicator
  int rank, rank_count;
  bool is_blocking;
  atomic_int state;           // enum rondo_nccl_state
  atomic_int error;           // enum rondo_nccl_result: the first failure of a split or a call
  atomic_uint_fast64_t calls; // opCount of the log

  // Changed by the thread that has made the communicator busy.
  bool is_destroyed; // by the program
  uint64_t splits;   // splits that were submitted

  pthread_mutex_t lock; // protects what follows; not held in calls of Rondo that may wait
  bool is_busy;         // rondo_nccl_comm_begin_busy
  pthread_cond_t idle;  // it is not busy any more
  struct rondo_nccl_split *pending; // splits in progress, the oldest first
  struct rondo_nccl_comm *parent;   // a reference, while the state is RONDO_NCCL_SPLITTING
  struct rondo_nccl_op *ops;
  size_t op_count;
  struct rondo_ticket *tracked;      // a ring of calls that may be outstanding
  size_t tracked_first, tracked_end; // their numbers, which are never used again
  size_t tracked_capacity;           // 0 or a power of two
};

// Allocates a communicator of `rank_count` ranks with one reference; null: no memory.
struct rondo_nccl_comm *rondo_nccl_comm_create(struct rondo_nccl_shared *shared, int rank,
                                               int rank_count);
// Adds the communicator to the registry, and to those that keep the context.
void rondo_nccl_comm_add(struct rondo_nccl_comm *comm);

// Looks a handle up and takes a reference. Null: no such communicator, logged in the name of
// `call`.
struct rondo_nccl_comm *rondo_nccl_comm_find(rondo_nccl_comm_t handle, const char *call);

// The same, but takes the communicator out of the registry, with the registry's reference.
struct rondo_nccl_comm *rondo_nccl_comm_remove(rondo_nccl_comm_t handle, const char *call);
static inline void rondo_nccl_comm_ref(struct rondo_nccl_comm *comm) { comm->references++; }
void rondo_nccl_comm_unref(struct rondo_nccl_comm *comm);

// Keeps other threads between rondo_nccl_comm_begin_busy and _end_busy of a communicator out; waits
// until they have left. Unlike the lock, this is allowed around calls of Rondo that may wait for
// the GPU: only threads that split, shrink or destroy the same communicator wait for them.
void rondo_nccl_comm_begin_busy(struct rondo_nccl_comm *comm);
void rondo_nccl_comm_end_busy(struct rondo_nccl_comm *comm);

// One communicator less uses the context; the last one destroys it. `mode`: enum
// rondo_destroy_mode.
int rondo_nccl_shared_release(struct rondo_nccl_shared *shared, int mode);

// Logs and returns the result of a call that Rondo refused, or that failed, with `status`. The line
// has the reason of the communicator's failure, else that of the call of `ticket` (may be null).
int rondo_nccl_comm_refuse(struct rondo_nccl_comm *comm, const char *call, int status,
                           const struct rondo_ticket *ticket);

// Keeps the ticket of a call that no thread waits for, so that ncclCommGetAsyncError reports its
// failure. False: no memory.
bool rondo_nccl_comm_track(struct rondo_nccl_comm *comm, const struct rondo_ticket *ticket);

// Polls the tracked calls and forgets the oldest that succeeded. Returns the communicator's first
// error, else RONDO_NCCL_SUCCESS.
int rondo_nccl_comm_poll(struct rondo_nccl_comm *comm);

// Whether calls of this communicator wait for their end: there are no streams on the host.
static inline bool rondo_nccl_comm_waits(const struct rondo_nccl_comm *comm) {
  return comm->shared->backend == RONDO_BACKEND_HOST && comm->is_blocking;
}

// ---------------------------------------------------------------- config.c ---

// What this library uses of ncclConfig_t.
struct rondo_nccl_settings {
  bool is_blocking;
  uint32_t min_ctas, max_ctas; // 0: not set
};

// Fills `settings` from the environment, else from `config`, else from `parent`; both may be null.
// Refuses a `config` that was not initialised. Returns enum rondo_nccl_result.
int rondo_nccl_settings_read(struct rondo_nccl_settings *settings,
                             const struct rondo_nccl_config *config,
                             const struct rondo_nccl_comm *parent, const char *call);

#endif // RONDO_ADAPTERS_NCCL_COMM_H
