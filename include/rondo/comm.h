// Rondo: communicators, whose calls match by their order.
//
// In rondo.h a collective has an id, and its runs may come in any order. NCCL has no ids: the n-th
// call on one rank matches the n-th call on the others. A communicator does the same. The first of
// several equal calls registers a collective, under an id that follows from the order of calls.
// Each of these calls runs that collective.
//
//   rondo_comm_create -> rondo_comm_call ... rondo_comm_wait -> rondo_comm_destroy
//
//   struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
//   cfg.key = 1;                                     // the same on all members
//   struct rondo_comm comm;
//   rondo_comm_create(ctx, &cfg, &comm);
//   struct rondo_collective_desc what = rondo_all_reduce(0, count, RONDO_FLOAT32, RONDO_SUM);
//   struct rondo_run_args args = {send, recv, NULL, NULL};
//   struct rondo_ticket ticket;
//   rondo_comm_call(ctx, comm, &what, &args, &ticket);
//   rondo_comm_wait(ctx, comm, &ticket, RONDO_FOREVER);
//
// The rules at the top of rondo.h hold here too. In addition:
//
//   Series    Calls match by order within a series. The send-recvs from one member to one other
//             member form a series. All other calls of a communicator form one series. Different
//             series, and different communicators, are independent.
//   Mismatch  If the calls of two ranks differ, the communicator fails on all its members with
//             RONDO_ERR_MISMATCH. The reason names both calls.
//   Failure   A communicator that has failed stays failed. Later calls return the same status.
//   Threads   If several threads make calls on one communicator, the order of these calls is the
//             order in which the communicator accepts them. The application must make this order
//             equal on all ranks.
#ifndef RONDO_COMM_H
#define RONDO_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// One rank's part of a communicator. All zero is never valid.
struct rondo_comm {
  uint64_t handle;
};

// Identifies one call: the collective that executes it, and the number of its run. The two fields
// may be passed to rondo_describe, rondo_missing and rondo_reason until the call has ended. `run`
// is 0 if the call was captured into a CUDA graph.
struct rondo_ticket {
  struct rondo_collective coll;
  uint64_t run;
};

// Configuration of a communicator. All fields except `priority` must be the same on all members;
// the groups must hold the same ranks in the same order.
struct rondo_comm_config {
  size_t size;      // set by RONDO_COMM_CONFIG_INIT
  uint32_t version; // set by RONDO_COMM_CONFIG_INIT
  int priority;     // of all its calls, RONDO_PRIORITY_MIN to RONDO_PRIORITY_MAX; default 0
  // Any number. Two communicators with a common member need different keys, even if one is created
  // after the other has been destroyed.
  uint64_t key;
  struct rondo_group group; // default: all ranks; `root` and `peer` are positions in it
  // How many collectives other than send-recvs stay registered for later equal calls, 1 to
  // RONDO_COMM_MAX_CACHED; 0: 64.
  uint32_t cached_collectives;
  // The same for the send-recvs from one member to one other member; 0: 8.
  uint32_t cached_pairs;
};

#define RONDO_COMM_MAX_CACHED 1024u
#define RONDO_COMM_CONFIG_VERSION 1u
#define RONDO_COMM_CONFIG_INIT                                                                     \
  { sizeof(struct rondo_comm_config), RONDO_COMM_CONFIG_VERSION, 0, 0, {0}, 0, 0 }

// Creates this rank's part of a communicator, whose group must contain this rank. The other members
// create theirs before or after. Nothing is sent yet.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: a field is out of range, or this rank is not in the group;
// RONDO_ERR_EXISTS: this rank has a communicator with this key;
// RONDO_ERR_NO_MEMORY;
// RONDO_ERR_UNKNOWN: also if the group does not exist.
int rondo_comm_create(struct rondo_context ctx, const struct rondo_comm_config *cfg,
                      struct rondo_comm *comm);

// Makes the next call of a series. `what` comes from a function of rondo.h such as
// rondo_all_reduce. Its id must be 0, and its group and priority must be the defaults: those of the
// communicator apply. Its on_loss and quantisation must be the defaults, too. The arrays of an
// all-to-all-v are copied. Buffers and callback are as for rondo_run. `ticket` may be null. Never
// waits for a peer.
//
// Each of the two ranks of a send-recv makes one call. A rank that sends to itself makes one call
// with both buffers.
//
// Two calls are equal if kind, count, type, reduction, root and peer are equal. Two all-to-all-vs
// of one type are equal; the numbers in their arrays do not count. Two kinds of call always
// register a new collective: a call with RONDO_PREMUL_SUM (each rank has its own factor), and a
// call that is captured.
//
// If a rank sends another number of elements in an all-to-all-v than the receiver expects, the
// receiver's call ends with RONDO_ERR_MISMATCH, and the communicator fails. The sender's call may
// have succeeded by then.
// Returns RONDO_SUCCESS, or one of the following; then the callback is not called:
// a status of rondo_register or rondo_run; after RONDO_ERR_FULL or RONDO_ERR_NO_MEMORY the same
//   call may be made again;
// the status with which the communicator has failed.
int rondo_comm_call(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                    struct rondo_ticket *ticket);

// Makes a call in the order of a CUDA stream, as rondo_run_on_stream does. `args->callback` must be
// null if the stream is being captured.
// Returns the same statuses as rondo_comm_call and rondo_run_on_stream.
int rondo_comm_call_on_stream(struct rondo_context ctx, struct rondo_comm comm,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, void *stream,
                              struct rondo_ticket *ticket);

// Waits until a call has ended, as rondo_wait does for a run. If `ticket` is null, waits for all
// calls so far.
// Returns the same statuses as rondo_wait; if `ticket` is null, the status of the communicator;
// RONDO_ERR_INVALID: also if the call was captured.
int rondo_comm_wait(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket, int64_t timeout_ns);

// Checks whether a call has ended, as rondo_test does for a run. If `ticket` is null, checks all
// calls so far.
// Returns the same statuses as rondo_test; if `ticket` is null, the status of the communicator;
// RONDO_ERR_INVALID: also if the call was captured.
int rondo_comm_test(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket);

// Adds a callback to a call, as rondo_notify does for a run.
// Returns the same statuses as rondo_notify;
// RONDO_ERR_INVALID: also if the call was captured.
int rondo_comm_notify(struct rondo_context ctx, struct rondo_comm comm,
                      const struct rondo_ticket *ticket, rondo_callback callback, void *arg);

// Looks for a send-recv call that the member at position `from` has made to this rank, and that
// this rank has not made yet. Writes the first such call to `what`, ready for rondo_comm_call. Use
// this to receive from the member that sends first. A call on another machine becomes visible here
// after some milliseconds.
// Returns RONDO_SUCCESS;
// RONDO_IN_PROGRESS: there is no such call yet;
// RONDO_ERR_INVALID: `from` is not another member;
// RONDO_ERR_NO_MEMORY;
// the status with which the communicator has failed.
int rondo_comm_probe(struct rondo_context ctx, struct rondo_comm comm, uint32_t from,
                     struct rondo_collective_desc *what);

// Writes RONDO_SUCCESS to `state`, or the status with which the communicator has failed. Writes the
// reason in words to `why` (may be null), or an empty text if it has not failed. `why_bytes` is the
// size of `why`; RONDO_REASON_BYTES suffice. This call compares the calls that have not been
// compared yet, so it finds a mismatch even if no thread waits or tests.
// Returns RONDO_SUCCESS.
int rondo_comm_status(struct rondo_context ctx, struct rondo_comm comm, int *state, char *why,
                      size_t why_bytes);

// Makes the communicator fail: ends all its outstanding calls, here and on its other members, with
// RONDO_ERR_ABORTED. Does not wait. Other communicators are not affected.
// Returns RONDO_SUCCESS.
int rondo_comm_abort(struct rondo_context ctx, struct rondo_comm comm);

// Destroys this rank's part of the communicator. `mode` (enum rondo_destroy_mode) and `timeout_ns`
// are as for rondo_destroy; the call takes bounded time. First destroy the CUDA graphs that contain
// its calls. Must not be called from a callback. Other threads' calls on the communicator return
// RONDO_ERR_CLOSED.
//
// If another member makes more calls than this rank has made, the extra calls of that member end
// with RONDO_ERR_PEER. With RONDO_DESTROY_ABORT the communicator fails on all members, even if no
// call is outstanding here.
// Returns RONDO_SUCCESS;
// RONDO_ERR_TIMEOUT: calls did not end in time and were aborted; the communicator is destroyed;
// RONDO_ERR_BUSY: a graph still exists; the communicator still exists too. Destroy the graph and
//   call again;
// RONDO_ERR_INVALID: an unknown mode, or called from a callback;
// RONDO_ERR_INTERNAL: aborted calls did not end, which is a defect of Rondo; the communicator still
//   exists.
int rondo_comm_destroy(struct rondo_context ctx, struct rondo_comm comm, int mode,
                       int64_t timeout_ns);

// Counters of a communicator.
struct rondo_comm_counters {
  uint64_t calls;         // calls accepted since rondo_comm_create
  uint64_t registrations; // collectives registered for these calls
  uint64_t cached;        // collectives that are now registered for later equal calls
  uint64_t parting;       // other collectives that are now registered: their calls have not ended
};

// Copies the counters to `out`.
// Returns RONDO_SUCCESS.
int rondo_comm_counters(struct rondo_context ctx, struct rondo_comm comm,
                        struct rondo_comm_counters *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_COMM_H
