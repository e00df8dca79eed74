// Rondo: communicators, whose calls match by their order.
//
// rondo.h gives each collective an id, and runs in any order. Where there are no ids, as in NCCL,
// the n-th call on one rank belongs to the n-th call on the others. A communicator does that on
// top of what rondo.h has: it registers a collective when a call needs one that is not there yet, under an
// id that follows from the calls alone, and runs it again when an equal call comes.
//
//   rondo_comm_create -> rondo_comm_call ... rondo_comm_wait -> rondo_comm_destroy
//
//   struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
//   cfg.key = 1;                                     // the same on all members
//   struct rondo_comm comm;
//   rondo_comm_create(ctx, &cfg, &comm);             // waits for no other rank
//   struct rondo_collective_desc what = rondo_all_reduce(0, count, RONDO_FLOAT32, RONDO_SUM);
//   struct rondo_run_args args = {send, recv, NULL, NULL};
//   struct rondo_ticket ticket;
//   rondo_comm_call(ctx, comm, &what, &args, &ticket);
//   rondo_comm_wait(ctx, comm, &ticket, RONDO_FOREVER);
//
// Calls of one communicator match by their order; different communicators are independent, and so
// are send-recvs of different pairs or directions, and send-recvs and all other kinds. Where
// the calls of two ranks differ, the communicator fails on all its members with RONDO_ERR_MISMATCH,
// and the reason names both calls. What is said at the top of rondo.h of statuses, threads, waiting and
// handles is so here. Calls of several threads on one communicator are in the order in which the
// communicator takes them, which only the application can make the same on all ranks.
#ifndef RONDO_COMM_H
#define RONDO_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// One rank's end of a communicator. All zero is never a valid handle.
struct rondo_comm {
  uint64_t handle;
};

// One call: a run of the collective that serves calls of this kind. The pair is good for
// rondo_describe, rondo_missing and rondo_reason too, as long as the collective is there: until the
// call has ended, at least. Calls that were captured into a graph have run 0.
struct rondo_ticket {
  struct rondo_collective coll;
  uint64_t run;
};

// Equal on all members, but for `priority`.
struct rondo_comm_config {
  size_t size;      // set by RONDO_COMM_CONFIG_INIT
  uint32_t version; // set by RONDO_COMM_CONFIG_INIT
  int priority;     // of all its calls, RONDO_PRIORITY_MIN to RONDO_PRIORITY_MAX; default 0
  // Names the communicator: two that have a member in common need different keys, also when one of them
  // is made after the other has been destroyed. Any number.
  uint64_t key;
  struct rondo_group group; // default: all ranks; its order gives `root` and `peer` their meaning
  // Kinds of call that stay registered, to be run again without registration; of each series: that of
  // send-recvs of one pair in one direction, and that of all other kinds.
  uint32_t cached_collectives; // 1 to RONDO_COMM_MAX_CACHED; 0: 64
  uint32_t cached_pairs;       // likewise, for each pair and direction; 0: 8
};

#define RONDO_COMM_MAX_CACHED 1024u
#define RONDO_COMM_CONFIG_VERSION 1u
#define RONDO_COMM_CONFIG_INIT                                                                     \
  { sizeof(struct rondo_comm_config), RONDO_COMM_CONFIG_VERSION, 0, 0, {0}, 0, 0 }

// Makes this rank's end of a communicator of a group that it belongs to. The other members make
// theirs, before or after; nothing is sent yet.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID (a field out of range; not in the group); RONDO_ERR_EXISTS
// (this rank has one of this key); RONDO_ERR_NO_MEMORY; RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED.
int rondo_comm_create(struct rondo_context ctx, const struct rondo_comm_config *cfg,
                      struct rondo_comm *comm);

// The next call of its series. `what` comes from the makers of rondo.h, with id 0 and without
// group and priority, which are the communicator's; arrays of an all-to-all-v are copied. Buffers
// and callback are as for rondo_run. Of a send-recv each of the two ranks makes one call; a rank that
// sends to itself makes one call with both buffers. `ticket` may be null. Never waits for a peer.
// The first call of its signature (kind, count, type, reduction, root, peer) registers a collective;
// so does every all-to-all-v and every call with RONDO_PREMUL_SUM, of which each rank has
// numbers of its own, and every call that is captured into a graph.
// Returns RONDO_SUCCESS; what rondo_register and rondo_run return, where RONDO_ERR_FULL and
// RONDO_ERR_NO_MEMORY mean that the same call may be made again later; the status with which the
// communicator has failed, if it has. When it is not RONDO_SUCCESS the callback is not called.
int rondo_comm_call(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                    struct rondo_ticket *ticket);

// The same in the order of a stream, as rondo_run_on_stream. While the stream is being captured
// `args->callback` must be null.
int rondo_comm_call_on_stream(struct rondo_context ctx, struct rondo_comm comm,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, void *stream,
                              struct rondo_ticket *ticket);

// Waits until a call, or with a null `ticket` every call so far, has ended, as rondo_wait does for a
// run. For all calls the status is that of the communicator.
int rondo_comm_wait(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket, int64_t timeout_ns);

// The status of a call, or with a null `ticket` of all so far, that has ended; else RONDO_IN_PROGRESS.
int rondo_comm_test(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket);

// Has `callback` called when a call has ended, as rondo_notify does for a run.
int rondo_comm_notify(struct rondo_context ctx, struct rondo_comm comm,
                      const struct rondo_ticket *ticket, rondo_callback callback, void *arg);

// Whether the member at position `from` has called a send-recv to this rank that this rank has not called
// yet: writes the next one of that series to `what`, ready to be called here. For receives from whoever
// comes first. Calls of a rank on another machine are seen some milliseconds later.
// Returns RONDO_SUCCESS; RONDO_IN_PROGRESS (there is none yet); RONDO_ERR_INVALID (null, no
// other member); the status with which the communicator has failed; RONDO_ERR_NO_MEMORY;
// RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED.
int rondo_comm_probe(struct rondo_context ctx, struct rondo_comm comm, uint32_t from,
                     struct rondo_collective_desc *what);

// How the communicator is: writes to `state` RONDO_SUCCESS, or the status with which it has failed, for
// good; and to `why`, of `why_bytes` (RONDO_REASON_BYTES are enough; may be null), the reason in
// words, empty if it has not failed. A mismatch is known here before anybody waits.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED.
int rondo_comm_status(struct rondo_context ctx, struct rondo_comm comm, int *state, char *why,
                      size_t why_bytes);

// Ends all outstanding calls of the communicator, here and on its other members, with
// RONDO_ERR_ABORTED; it has failed from then on. Does not wait. Other communicators go on.
int rondo_comm_abort(struct rondo_context ctx, struct rondo_comm comm);

// Ends this rank's end, and frees what belongs to it. `mode` (enum rondo_destroy_mode) and `timeout_ns`
// are as for rondo_destroy; the call is bounded and always ends it. May not be called from a callback.
// Calls of other threads that are in it end with RONDO_ERR_CLOSED. Graphs into which calls were
// captured must be gone.
// Returns RONDO_SUCCESS; RONDO_ERR_TIMEOUT (calls had to be aborted); RONDO_ERR_BUSY (a graph is
// there yet: nothing is freed; destroy it and call again); RONDO_ERR_INVALID; RONDO_ERR_UNKNOWN;
// RONDO_ERR_CLOSED.
int rondo_comm_destroy(struct rondo_context ctx, struct rondo_comm comm, int mode,
                       int64_t timeout_ns);

// Sums since rondo_comm_create, save where said.
struct rondo_comm_counters {
  uint64_t calls;         // that were accepted
  uint64_t registrations; // of collectives for them
  uint64_t cached;        // collectives that equal calls would use again (now)
  uint64_t parting;       // dropped ones that have calls outstanding yet (now)
};
int rondo_comm_counters(struct rondo_context ctx, struct rondo_comm comm,
                        struct rondo_comm_counters *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_COMM_H
