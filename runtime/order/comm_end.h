// One rank's end of a communicator (include/rondo/comm.h), built on registrations.
//
//   rondo_comm_end_create -> rondo_comm_pin -> rondo_comm_end_call ... -> rondo_comm_unpin
//     -> rondo_comm_end_destroy
//
// Lock order: a communicator's own lock, the lock of the job, the lock of the rank. The lock of a
// rank's list of communicators (comms_lock) is taken last, and only messages are sent under it.
#ifndef RONDO_RUNTIME_ORDER_COMM_END_H
#define RONDO_RUNTIME_ORDER_COMM_END_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/registration.h"
#include "runtime/order/journal.h"
#include "runtime/order/signature.h"
#include <rondo/comm.h>

struct rondo_bounded_node;
struct rondo_job;
struct rondo_rank;

// Calls that are counted together: the send_recvs of one pair in one direction, or the calls of all
// other kinds.
struct rondo_series {
  uint32_t from, to; // positions of a pair; else RONDO_SERIES_COLLECTIVE
  uint64_t registered;
  struct rondo_cache cache;
  struct rondo_journal_writer writer;
};

// A collective that no later call uses. It is deregistered when its runs have ended.
struct rondo_retired_coll {
  struct rondo_retired_coll *next;
  struct rondo_collective coll;
};

struct rondo_comm_end {
  struct rondo_comm_end *next; // guarded by the rank's comms_lock, as are handle, users, closing
  uint64_t handle;
  uint32_t users; // calls that have pinned the end
  int closing;
  struct rondo_rank *rank;
  uint64_t key;
  int priority;
  struct rondo_group group; // lives as long as the end
  const uint32_t *members;  // ranks of the job, by position
  uint32_t nranks, position;
  uint32_t cached_pairs;
  // A call has the turn from its beginning to its end, so turns decide the order of calls. It
  // releases the lock, which guards all below, while the driver may wait for a device.
  pthread_mutex_t lock;
  pthread_cond_t turn_over;
  bool is_calling;      // a thread has the turn
  uint32_t turn_awaits; // threads that wait for it
  // The calls of all other kinds, the send_recvs to each position, those from each position. Null:
  // no call yet.
  struct rondo_series **series;
  struct rondo_retired_coll *retired, *spare_retired;
  uint64_t calls, registrations, retired_count;
  struct rondo_owner owner; // of the registrations of its calls
  // Guarded by the lock of the job.
  struct rondo_comm_end *next_failing;
  struct rondo_bounded_node *detached; // struct rondo_detachment of members that have detached
  uint32_t detached_count;             // release
};

static inline uint32_t rondo_comm_series_count(const struct rondo_comm_end *end) {
  return 1 + 2 * end->nranks;
}

// The end that owns registrations.
static inline struct rondo_comm_end *rondo_comm_end_of(struct rondo_owner *owner) {
  return (struct rondo_comm_end *)((uintptr_t)owner - offsetof(struct rondo_comm_end, owner));
}

// Makes an end from a checked configuration and adds it to the rank's list. Returns what
// rondo_comm_create returns.
int rondo_comm_end_create(struct rondo_rank *rank, const struct rondo_comm_config *cfg,
                          struct rondo_comm *comm);
// Closes an end that the caller has pinned, and frees it. Returns what rondo_comm_destroy returns;
// the end is freed only with RONDO_SUCCESS and RONDO_ERR_TIMEOUT.
int rondo_comm_end_destroy(struct rondo_comm_end *end, int mode, int64_t timeout_ns);

// Finds a communicator and keeps it from being freed until rondo_comm_unpin. `call` names the
// caller in the log. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED.
int rondo_comm_pin(struct rondo_rank *rank, struct rondo_comm comm, const char *call,
                   struct rondo_comm_end **end);
void rondo_comm_unpin(struct rondo_comm_end *end);

// ---- comm_call.c: the functions behind include/rondo/comm.h ----
//
// The caller has pinned the context and the end and has checked the arguments.

// What a call asks for. `desc` has no id, group or priority: those of the communicator are used.
struct rondo_comm_call_request {
  const struct rondo_collective_desc *desc;
  const struct rondo_run_args *args;
  void *stream;
  bool is_on_stream;
};

// Makes a call. Writes its ticket if `ticket` is not null. Returns what rondo_comm_call returns.
int rondo_comm_end_call(struct rondo_comm_end *end, const struct rondo_comm_call_request *request,
                        struct rondo_ticket *ticket);

// Waits for a call, or for all calls so far if `ticket` is null, at most `timeout_ns`. If the
// collective of the call was deregistered before, all its runs succeeded, and so does this call.
// Returns what rondo_comm_wait returns.
int rondo_comm_end_wait(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                        int64_t timeout_ns);
// Waits until all calls so far have ended. Returns RONDO_SUCCESS or RONDO_ERR_TIMEOUT.
int rondo_comm_end_wait_all(struct rondo_comm_end *end, int64_t timeout_ns);
// Returns what rondo_comm_test returns.
int rondo_comm_end_test(struct rondo_comm_end *end, const struct rondo_ticket *ticket);

// Attaches a callback to a call, which gets RONDO_SUCCESS if the collective of the call was
// deregistered. Returns what rondo_comm_notify returns.
int rondo_comm_end_notify(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                          rondo_callback callback, void *arg);

// Writes to `what` the next send_recv that position `from` has called towards this rank. Returns
// what rondo_comm_probe returns.
int rondo_comm_end_probe(struct rondo_comm_end *end, uint32_t from,
                         struct rondo_collective_desc *what);

// RONDO_SUCCESS, or the status with which the communicator has failed.
int rondo_comm_end_state(const struct rondo_comm_end *end);

// Ends all calls, here and on the other members, for good. The first status stays. Does not take
// the communicator's own lock, which a call may hold for long.
void rondo_comm_end_fail(struct rondo_comm_end *end, int status, const char *why);

void rondo_comm_end_counters(struct rondo_comm_end *end, struct rondo_comm_counters *out);

// ---- for this folder ----

// Finds the series of a call, or makes it for the first call. Refuses a pair that this rank is not
// part of. The communicator is locked.
int rondo_comm_find_series(struct rondo_comm_end *end, const struct rondo_collective_desc *what,
                           struct rondo_series **series);

// Locks the communicator and takes the turn, or waits for it.
void rondo_comm_take_turn(struct rondo_comm_end *end);
// Ends the turn and unlocks the communicator.
void rondo_comm_give_turn(struct rondo_comm_end *end);
// Unlock and lock the communicator around what may wait for a device. The caller has the turn. Do
// nothing where the CPU accesses the memory of devices itself: there nothing waits for a device.
void rondo_comm_unlock_for_device(struct rondo_comm_end *end);
void rondo_comm_lock_after_device(struct rondo_comm_end *end);

// Deregisters retired collectives that have no runs left. The caller has the turn.
void rondo_comm_sweep(struct rondo_comm_end *end);

// Calls `visit` for every collective that the communicator has registered. It is locked.
void rondo_comm_visit(const struct rondo_comm_end *end,
                      void (*visit)(struct rondo_collective coll, void *arg), void *arg);

// The rank's end of the communicator `key`, or null. The caller holds the lock of the job, without
// which no end is freed.
struct rondo_comm_end *rondo_comm_find(const struct rondo_job *job, uint32_t rank, uint64_t key);
bool rondo_comm_has_member(const struct rondo_comm_end *end, uint32_t rank);

// ---- comm_compare.c ----

// Compares the calls of a series with those that the neighbours have written by now. The
// communicator is locked.
void rondo_comm_compare_series(struct rondo_comm_end *end, struct rondo_series *series);
// Fails the communicator if a run of this rank has refused the part of an all-to-all-v.
void rondo_comm_check_refusal(struct rondo_comm_end *end);
// Compares calls that could not be compared before, unless another thread holds the communicator.
void rondo_comm_compare_pending(struct rondo_comm_end *end);
// Compares the calls of the rank's communicator `key`, or of all if `key` is null. Takes no lock of
// a communicator that another thread holds: then returns false. `lock_mode` (enum
// rondo_job_lock_mode) is not RONDO_JOB_LOCK_WAIT.
bool rondo_comms_compare(struct rondo_rank *rank, const uint64_t *key, int lock_mode);
// The `serve` of struct rondo_rank_extension.
void rondo_comms_serve(struct rondo_rank *rank);

// Frees the ends that are left when a context ends. Their collectives have been deregistered.
void rondo_comms_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_ORDER_COMM_END_H
