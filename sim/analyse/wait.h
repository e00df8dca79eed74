// Who waits for whom at the end of the record: the wait-for graph over the calls that have not
// completed, and the shortest cycle in it.
//
// There are three kinds of node. A pending call waits for the previous call of its rank in the same
// queue, or for its operation if it is at the front. An operation waits for each member that is not
// in it yet: for the member's call if that is queued, else for the member's program. A program
// waits for the calls at the front of its rank, because a thread that made no further call most
// likely waits in one of them. So the record shows the edges from calls; the edges from programs
// are inferences and are marked as such.
#ifndef RONDO_SIM_ANALYSE_WAIT_H
#define RONDO_SIM_ANALYSE_WAIT_H

#include "sim/analyse/match.h"

#define RONDO_ANALYSE_NO_PENDING UINT32_MAX

enum rondo_analyse_reason {
  RONDO_ANALYSE_FRONT,         // at the front
  RONDO_ANALYSE_BEHIND_GROUP,  // behind an earlier call of the same group
  RONDO_ANALYSE_BEHIND_STREAM, // behind an earlier call on the same stream
  RONDO_ANALYSE_BEHIND_DEVICE, // not started, while another call holds the device
  RONDO_ANALYSE_BEHIND_ORDER,  // called later; nothing says that the device runs both at once
  RONDO_ANALYSE_NOT_CALLED     // of an operation's member: has not called it
};

// A call that has not completed.
struct rondo_analyse_pending {
  uint32_t call, rank, op;
  uint32_t behind[2]; // pending calls in front of it, or RONDO_ANALYSE_NO_PENDING
  uint8_t reasons[2]; // why, one each
};

// Where a member of an operation stands.
enum rondo_analyse_standing {
  RONDO_ANALYSE_STANDS_IN,      // has called, and is at the front
  RONDO_ANALYSE_STANDS_BEHIND,  // has called, queued behind something
  RONDO_ANALYSE_STANDS_DONE,    // completed
  RONDO_ANALYSE_STANDS_ABSENT,  // has a file, and has not called
  RONDO_ANALYSE_STANDS_UNCLEAR, // its file lacks the part that would tell
  RONDO_ANALYSE_STANDS_NO_FILE  // no file, or reported dead
};

// One step of a cycle: `holder` is in its operation and waits for rank `absent`, which is not in it
// because of `reason`. The holder of the next step is what that rank is in instead.
struct rondo_analyse_turn {
  uint32_t holder;      // pending
  uint32_t absent;      // rank
  uint32_t absent_call; // its pending call of the operation, or RONDO_ANALYSE_NO_PENDING
  enum rondo_analyse_reason reason;
};

struct rondo_analyse_waits {
  const struct rondo_analyse_job *job;
  const struct rondo_analyse_callers *callers;
  struct rondo_analyse_pending *pending;
  uint32_t *pending_first; // of each rank; rank_count + 1 entries
  uint32_t *front;         // pending calls at the front, rank after rank
  uint32_t *front_first;   // of each rank; rank_count + 1 entries
  uint32_t pending_count, pending_capacity, front_count, front_capacity;
};

// Lists the pending calls and what each is queued behind. `by_order` adds waits by the order of
// calls: a call whose start was not recorded waits for every earlier call of its rank, in any
// group.
void rondo_analyse_waits_init(struct rondo_analyse_waits *w, const struct rondo_analyse_job *job,
                              const struct rondo_analyse_callers *callers, bool by_order);
void rondo_analyse_waits_fini(struct rondo_analyse_waits *w);

// Where a member (a place in the operation's group) stands. `pending` (may be null) receives its
// pending call if there is one. For a send or receive, place 0 is the sender and place 1 the
// receiver.
enum rondo_analyse_standing rondo_analyse_stands(const struct rondo_analyse_waits *w, uint32_t op,
                                                 size_t place, uint32_t *pending);

// The number of places of an operation, and the rank at a place, or RONDO_ANALYSE_NO_RANK.
size_t rondo_analyse_op_places(const struct rondo_analyse_job *job, uint32_t op);
uint32_t rondo_analyse_op_rank(const struct rondo_analyse_job *job, uint32_t op, size_t place);

// True if an operation has been called and has not completed everywhere.
bool rondo_analyse_op_waits(const struct rondo_analyse_job *job, uint32_t op);

// Finds the shortest cycle, as turns that the caller frees; returns 0 with null if there is none.
size_t rondo_analyse_cycle_find(const struct rondo_analyse_waits *w,
                                struct rondo_analyse_turn **turns);

#endif // RONDO_SIM_ANALYSE_WAIT_H
