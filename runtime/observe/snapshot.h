// A snapshot of the runs of all ranks of a job, taken without stopping the job.
#ifndef RONDO_RUNTIME_OBSERVE_SNAPSHOT_H
#define RONDO_RUNTIME_OBSERVE_SNAPSHOT_H

#include <stdint.h>

#include "runtime/job/job.h"
#include "runtime/job/registration.h"

struct rondo_coll;
struct rondo_rank;

// One registered collective on one rank. Processes send each other this structure.
struct rondo_coll_view {
  struct rondo_id id;
  uint64_t count;
  uint32_t *members; // copied; null in messages, and if no rank here has registered the collective
  uint64_t submitted, completed;
  uint64_t on_device; // runs pushed to the daemon
  uint64_t executing; // number of the run that a block has begun; 0: none
  uint64_t started_ns, waiting_ns;
  int32_t kind, dtype;
  uint32_t rank;
  uint32_t nranks;      // entries of `members`
  uint32_t group_size;  // always known
  uint32_t block, op;   // where the run stands
  int32_t peer;         // the rank that it waits for; -1: none or unknown
  uint16_t primitive;   // of that op
  uint8_t phase;        // enum rondo_context_phase
  uint8_t is_scheduled; // a block is executing it now
  uint8_t wants_data;   // 1: waits for data from the peer; 0: for the peer to take data
  uint8_t reserved[3];  // 0; views are sent to other processes
};

enum rondo_view {
  RONDO_VIEW_NOWHERE = 0, // not in this process; its process is not known or was not asked
  RONDO_VIEW_HERE,        // in this process
  RONDO_VIEW_ELSEWHERE,   // in a process that has answered
  RONDO_VIEW_SILENT,      // in a process that has not answered in time
  RONDO_VIEW_LOST         // it has left or is lost
};

struct rondo_rank_view {
  uint8_t is_present; // enum rondo_view
  uint32_t coll_count;
  struct rondo_coll_view *colls;
};

struct rondo_snapshot {
  uint32_t rank_count;
  struct rondo_rank_view *ranks;
};

// Takes a snapshot of all processes. Asks the others, which may take RONDO_VIEWS_WAIT_NS
// (remote_views.h). Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY; the caller calls fini in both
// cases.
int rondo_snapshot_init(struct rondo_snapshot *s, struct rondo_job *job);
// Takes a snapshot of this process. The lock of the job is held.
int rondo_snapshot_take(struct rondo_snapshot *s, struct rondo_job *job);
void rondo_snapshot_fini(struct rondo_snapshot *s);

// Fills in the view of a collective of a rank here; the caller frees its `members`. The lock of the
// rank is held. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_coll_view_fill(const struct rondo_rank *rank, const struct rondo_coll *coll,
                         struct rondo_coll_view *v);

// Rank `rank`'s view of the collective of that id, or null.
const struct rondo_coll_view *rondo_snapshot_find(const struct rondo_snapshot *s, uint32_t rank,
                                                  struct rondo_id id);

// Finds ranks that wait for each other in a cycle, each in the collective that its daemon executes.
// A deadlock without preemption always has such a cycle: a block leaves a collective only when its
// part is done, and the blocks of a rank begin the collectives that they share in one order. Writes
// the ranks to `cycle` (room for rank_count) and returns how many they are; 0: no cycle.
uint32_t rondo_snapshot_cycle(const struct rondo_snapshot *s, uint32_t *cycle);

// The collective that the rank's daemon executes, or null.
const struct rondo_coll_view *rondo_snapshot_scheduled(const struct rondo_snapshot *s,
                                                       uint32_t rank);

#endif // RONDO_RUNTIME_OBSERVE_SNAPSHOT_H
