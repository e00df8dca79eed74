// A communicator of NCCL: a communicator of Rondo in a context that its parts share with it.
//
//   rondo_nccl_comm_make -> rondo_nccl_comm_add ... _enter, _leave ... -> rondo_nccl_comm_remove
//
// The program's handle is a pointer that is looked up before it is followed, so one that is gone is
// refused. Who is between enter and leave keeps the memory, and Rondo's own handles are never
// dangerous: abort from another thread needs no more.
#ifndef RONDO_ADAPTERS_NCCL_COMM_H
#define RONDO_ADAPTERS_NCCL_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/comm.h>
#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"

// How long destroying lets calls go on before it ends them.
#define RONDO_NCCL_DRAIN_NS INT64_C(60000000000)
#define RONDO_NCCL_NAME_BYTES 64

// A context of Rondo, for the communicators that came by ncclCommSplit from one. The registry's lock is
// over the counts.
struct rondo_nccl_home {
  struct rondo_context ctx;
  uint32_t comms;   // that are there yet: with the last the context goes
  uint32_t holders; // that may look at it: with the last its memory goes
  int backend;      // enum rondo_backend
  int device;
};

// A reduction of ncclRedOpCreatePreMulSum.
struct rondo_nccl_op {
  bool used;
  int dtype;
  const void *where; // ncclScalarDevice: memory to be read at each call; else null
  double scalar;
};

enum rondo_nccl_state {
  RONDO_NCCL_READY,
  RONDO_NCCL_PARTING,  // of a split whose other ranks have not all come
  RONDO_NCCL_FINALIZED // ncclCommFinalize was called
};

struct rondo_nccl_split;

struct rondo_nccl_comm {
  struct rondo_nccl_comm *next; // of the registry
  uint32_t users;               // between enter and leave, and the registry
  struct rondo_nccl_home *home;
  struct rondo_comm comm; // once it is no longer PARTING
  uint64_t key;           // of that; what keys of its parts are made of
  uint32_t *ranks;        // of the home's job, by the communicator's
  int rank, rank_count;
  bool is_blocking;
  char name[RONDO_NCCL_NAME_BYTES];

  pthread_mutex_t lock;             // over what follows
  bool is_gone;                     // the program has ended it
  int state;                        // enum rondo_nccl_state
  int error;                        // enum rondo_nccl_result; that of a split that failed
  uint64_t calls;                   // for the log
  uint64_t splits;                  // that were begun
  struct rondo_nccl_split *pending; // that have not ended, the oldest first
  struct rondo_nccl_comm *parent;   // while it is PARTING; it is a user of that
  struct rondo_nccl_op *ops;
  size_t op_count;
  struct rondo_ticket
      *watched; // calls that may not have ended, a circle with the oldest at watched_first
  size_t watched_first, watched_count, watched_capacity; // the last 0 or a power of two
};

// Memory for a communicator of `rank_count` ranks in `home`; null: none.
struct rondo_nccl_comm *rondo_nccl_comm_make(struct rondo_nccl_home *home, int rank,
                                             int rank_count);
// Frees what was never added.
void rondo_nccl_comm_discard(struct rondo_nccl_comm *comm);

// Makes it known to programs; it counts among the users of its home from then on.
void rondo_nccl_comm_add(struct rondo_nccl_comm *comm);

// Makes the handle unknown. False: it was already. The caller stays a user.
bool rondo_nccl_comm_remove(struct rondo_nccl_comm *comm);

// The communicator of a handle, or null with a line that names `call`.
struct rondo_nccl_comm *rondo_nccl_comm_enter(rondo_nccl_comm_t handle, const char *call);
// One more user, of one who is.
void rondo_nccl_comm_hold(struct rondo_nccl_comm *comm);
void rondo_nccl_comm_leave(struct rondo_nccl_comm *comm);

// Ends the context when this was its last communicator. `mode`: enum rondo_destroy_mode.
int rondo_nccl_home_leave(struct rondo_nccl_home *home, int mode);

// The refusal of a call that Rondo refused, or that failed, with `status`: with the reason why the
// communicator has failed, if it has, or else the call of `ticket` (may be null).
int rondo_nccl_comm_refuse(struct rondo_nccl_comm *comm, const char *call, int status,
                           const struct rondo_ticket *ticket);

// Remembers a call whose failure nobody waits for, for ncclCommGetAsyncError. False: no memory.
bool rondo_nccl_comm_watch(struct rondo_nccl_comm *comm, const struct rondo_ticket *ticket);

// Looks at the calls that are remembered, and forgets the oldest that have ended well. The result of one
// that failed, then and for ever; else RONDO_NCCL_SUCCESS.
int rondo_nccl_comm_look(struct rondo_nccl_comm *comm);

// Whether calls of this communicator wait themselves, because there are no streams to wait in.
static inline bool rondo_nccl_comm_waits(const struct rondo_nccl_comm *comm) {
  return comm->home->backend == RONDO_BACKEND_HOST && comm->is_blocking;
}

// ------------------------------------------------------------------ splits ---

// Goes on with splits of `comm`, or with the one that makes it, whose ranks have all come.
// RONDO_NCCL_IN_PROGRESS while there are others; else RONDO_NCCL_SUCCESS.
int rondo_nccl_splits_settle(struct rondo_nccl_comm *comm);

// Lets the splits of `comm` end, whose lot its own calls have decided: waits for them, for at most
// `timeout_ns` together; parts that cannot be made then have failed.
void rondo_nccl_splits_finish(struct rondo_nccl_comm *comm, int64_t timeout_ns);

// Submits a split that a group has kept, or lets it fail with `status`: the part that the program has is
// never to come then.
int rondo_nccl_split_submit(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split);
void rondo_nccl_split_drop(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split,
                           int status);

// The end of ncclCommSplit: waits for the splits of `comm` if it is blocking.
int rondo_nccl_split_end(struct rondo_nccl_comm *comm);

#endif // RONDO_ADAPTERS_NCCL_COMM_H
