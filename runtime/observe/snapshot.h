// A picture of what every rank of a job is doing, taken without stopping it.
#ifndef RONDO_RUNTIME_OBSERVE_SNAPSHOT_H
#define RONDO_RUNTIME_OBSERVE_SNAPSHOT_H

#include <stdint.h>

#include "runtime/job/job.h"
#include "runtime/job/registration.h"

// One registered collective on one rank.
struct rondo_coll_view {
  struct rondo_id id;
  struct rondo_collective_desc desc;
  uint32_t *members;   // copied; null where nobody here knows them
  uint32_t nranks;     // of those; 0 then
  uint32_t group_size; // in any case
  uint64_t submitted, completed;
  uint64_t on_device; // runs that the daemon has
  uint64_t executing; // number of the run that a block has begun; 0: none
  int is_scheduled;   // a block is working on it now
  uint32_t block, op; // where it stands
  uint16_t primitive; // of that op
  uint8_t phase;      // enum rondo_context_phase
  int32_t peer;       // rank it waits for; -1: none or unknown
  int wants_data;     // 1: for data of the peer, 0: for the peer to take data
  uint64_t waiting_ns;
};

enum rondo_view {
  RONDO_VIEW_NOWHERE = 0, // not in this process, as far as is known
  RONDO_VIEW_HERE,
  RONDO_VIEW_ELSEWHERE, // another process has said this
  RONDO_VIEW_SILENT,    // ... or has not answered in time
  RONDO_VIEW_LOST       // it is gone
};

struct rondo_rank_view {
  uint32_t rank;
  uint8_t is_present; // enum rondo_view
  uint32_t coll_count;
  struct rondo_coll_view *colls;
};

struct rondo_snapshot {
  uint32_t rank_count;
  struct rondo_rank_view *ranks;
};

// Takes a picture, of other processes too: those are asked, which may take RONDO_VIEWS_WAIT_NS (views.h).
// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY; free it with fini in both cases.
int rondo_snapshot_init(struct rondo_snapshot *s, struct rondo_job *job);
// Of this process alone, at once. The lock of the job is held.
int rondo_snapshot_take(struct rondo_snapshot *s, struct rondo_job *job);
void rondo_snapshot_fini(struct rondo_snapshot *s);

// Rank `rank`'s view of the collective of that id, or null.
const struct rondo_coll_view *rondo_snapshot_find(const struct rondo_snapshot *s, uint32_t rank,
                                                  struct rondo_id id);

// 1 if `rank` has begun, or completed, run `run` of that collective.
int rondo_snapshot_has_begun(const struct rondo_snapshot *s, uint32_t rank, struct rondo_id id,
                             uint64_t run);

// Finds ranks that wait for each other in a circle, each in the collective on which its
// daemon works. Without preemption every deadlock has one: a block leaves a collective only when its
// part is done, so who has begun two has done with the first, and blocks of a rank begin what they
// share in one order. Writes them to `cycle` (room for rank_count) and returns how many; 0: none.
uint32_t rondo_snapshot_cycle(const struct rondo_snapshot *s, uint32_t *cycle);

// The collective on which the rank's daemon works, or null.
const struct rondo_coll_view *rondo_snapshot_scheduled(const struct rondo_snapshot *s,
                                                       uint32_t rank);

#endif // RONDO_RUNTIME_OBSERVE_SNAPSHOT_H
