// One rank's end of a communicator: include/rondo/comm.h on top of registrations.
//
// Lock order: a communicator's own lock, then those of the job and the rank. The list of a rank's
// communicators has a lock of its own, inside of which only messages are sent.
#ifndef RONDO_RUNTIME_ORDER_COMM_END_H
#define RONDO_RUNTIME_ORDER_COMM_END_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/registration.h"
#include "runtime/order/detach.h"
#include "runtime/order/journal.h"
#include "runtime/order/signature.h"
#include <rondo/comm.h>

struct rondo_rank;

// Calls that are counted together: send-recvs of one pair in one direction, or all other kinds.
struct rondo_series {
  uint32_t from, to; // positions; RONDO_SERIES_COLLECTIVE
  uint64_t registered;
  struct rondo_cache cache;
  struct rondo_track track;
};

// A collective that no later call will use. It goes when its runs have ended.
struct rondo_retired_coll {
  struct rondo_retired_coll *next;
  struct rondo_collective coll;
};

// A thread that waits for a call, whose collective stays for so long.
struct rondo_comm_waiter {
  struct rondo_comm_waiter *next;
  struct rondo_collective coll;
};

struct rondo_comm_end {
  struct rondo_comm_end *next; // guarded by the rank's comms_lock, as are handle, users, closing
  uint64_t handle;
  uint32_t users; // calls that are inside
  int closing;
  struct rondo_rank *rank;
  uint64_t key;
  int priority;
  struct rondo_group group; // its own
  uint32_t *members;
  uint32_t nranks, position;
  uint32_t cached_pairs;
  pthread_mutex_t lock; // held through a call: so it is the order of calls
  struct rondo_series collective;
  struct rondo_series **sends, **recvs; // by the position of the other; null: no call yet
  struct rondo_retired_coll *retired, *spare;
  struct rondo_comm_waiter *waiters;
  uint64_t calls, registrations, retired_count;
  struct rondo_owner owner; // of its registrations
  // Guarded by the lock of the job.
  struct rondo_comm_end *next_failing;
  struct rondo_latest *left; // members that have destroyed their ends
  uint32_t left_count;       // release
};

// The end that owns registrations.
static inline struct rondo_comm_end *rondo_comm_end_of(struct rondo_owner *owner) {
  return (struct rondo_comm_end *)((uintptr_t)owner - offsetof(struct rondo_comm_end, owner));
}

// Finds a communicator and keeps it from being freed until rondo_comm_unpin. `call` names the caller in the
// log. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED.
int rondo_comm_pin(struct rondo_rank *rank, struct rondo_comm comm, const char *call,
                   struct rondo_comm_end **end);
void rondo_comm_unpin(struct rondo_comm_end *end);

// The series of a call, made if it is the first. Refuses what no member of the group can call. The
// communicator is locked.
int rondo_comm_series(struct rondo_comm_end *end, const struct rondo_collective_desc *what,
                      struct rondo_series **series);

// Deregisters what is retired and has no runs left. The communicator is locked.
void rondo_comm_sweep(struct rondo_comm_end *end);

// Calls `visit` for every collective that the communicator has registered. It is locked.
void rondo_comm_visit(const struct rondo_comm_end *end,
                      void (*visit)(struct rondo_collective coll, void *arg), void *arg);

// Compares calls with those of the neighbours, as far as they have come: of one series, or of all. The
// communicator is locked. `hurry`: enum rondo_hurry.
void rondo_comm_compare_series(struct rondo_comm_end *end, struct rondo_series *series);
void rondo_comm_compare(struct rondo_comm_end *end, int hurry);
// The same for all communicators of a rank, by whoever serves completions: waits for nothing.
void rondo_comms_compare(struct rondo_rank *rank);
// The same by whoever holds the lock of the job, of that communicator alone or, if `key` is null, of all. Returns 0 if
// one is busy with a call.
int rondo_comms_compare_held(struct rondo_rank *rank, const uint64_t *key);

// Waits until all calls so far have ended. Returns RONDO_SUCCESS or RONDO_ERR_TIMEOUT.
int rondo_comm_await_all(struct rondo_context ctx, struct rondo_comm_end *end, int64_t timeout_ns);

// Ends all calls, here and on the other members, for good. The first status stays. Needs no lock of the
// communicator's, which a call may hold for long.
void rondo_comm_fail(struct rondo_comm_end *end, int status, const char *why);

// Frees what is left when a context ends; its collectives have been deregistered.
void rondo_comms_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_ORDER_COMM_END_H
