// An epoch: who of a roster is still a member, and the tree in which they send. Immutable, shared.
//
//   rondo_epoch_begin (number 0: all) -> rondo_epoch_next (one change) ... -> rondo_epoch_put
//
// The tree is complete and 8-ary over places 0 … live_count − 1; a member has one place. The
// members at the first RONDO_EPOCH_KEEPERS places are the keepers: they hold the records of epochs.
// The one at place 0 is the coordinator. Keepers are of different machines as long as there are
// such. A member that leaves the tree is replaced by the one at the last place; a keeper by the
// next keeper, so that the second becomes the coordinator. All processes compute the same from the
// roster and the changes.
#ifndef RONDO_RUNTIME_JOB_EPOCH_H
#define RONDO_RUNTIME_JOB_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/roster.h"

#define RONDO_EPOCH_CHILDREN 8u
#define RONDO_EPOCH_KEEPERS 3u
#define RONDO_EPOCH_OBSERVERS 3u
#define RONDO_EPOCH_TEXT_BYTES 160u     // of a reason, with the end
#define RONDO_EPOCH_CHANGE_BYTES 60000u // most of one change
#define RONDO_EPOCH_MAX_NUMBER (UINT32_MAX - 2)

enum rondo_removal_reason {
  RONDO_REMOVED_LEFT = 1,   // the process has left in order
  RONDO_REMOVED_DIED = 2,   // its process has ended
  RONDO_REMOVED_SILENT = 3, // does not answer
  RONDO_REMOVED_BROKE = 5,  // violated the protocol
  RONDO_REMOVED_RANK = 6    // a rank, not a process, has left in order: the process goes on
};

// Processes (or ranks) first … first + count − 1.
struct rondo_removal {
  uint8_t reason;
  uint32_t first, count;
  char text[RONDO_EPOCH_TEXT_BYTES];
};

// The change that made an epoch: the removals, encoded. Each holds the one before.
struct rondo_epoch_change {
  uint32_t refs, number; // of the epoch
  uint64_t digest;       // of this change and all before
  struct rondo_epoch_change *before;
  struct rondo_shared_bytes *removals;
};

struct rondo_epoch {
  uint32_t refs, number;
  uint64_t digest; // of the roster and all changes
  struct rondo_roster *roster;
  struct rondo_epoch_change *change; // null: epoch 0
  uint32_t live_count;
  uint32_t *order; // processes by place
  uint32_t *place; // by process; RONDO_ROSTER_NOBODY: removed
  // Whom each process observes (rondo_epoch_observe): made when first asked for.
  uint32_t *observed_ends, *observed;
};

// Returns null without memory.
struct rondo_epoch *rondo_epoch_begin(struct rondo_roster *roster);
// Makes the epoch after `epoch`. Returns null if the change is malformed or removes who is not a
// member, or without memory.
struct rondo_epoch *rondo_epoch_next(const struct rondo_epoch *epoch,
                                     struct rondo_shared_bytes *removals);
struct rondo_epoch *rondo_epoch_get(struct rondo_epoch *epoch);
void rondo_epoch_put(struct rondo_epoch *epoch);

// ---- the tree ----

static inline bool rondo_epoch_is_member(const struct rondo_epoch *e, uint32_t process) {
  return process < e->roster->process_count && e->place[process] != RONDO_ROSTER_NOBODY;
}

// The parent of a member, or RONDO_ROSTER_NOBODY for the coordinator.
uint32_t rondo_epoch_parent(const struct rondo_epoch *epoch, uint32_t process);
// Writes the children of a member; returns how many.
uint32_t rondo_epoch_children(const struct rondo_epoch *epoch, uint32_t process,
                              uint32_t children[RONDO_EPOCH_CHILDREN]);
uint32_t rondo_epoch_keeper_count(const struct rondo_epoch *epoch);
bool rondo_epoch_is_keeper(const struct rondo_epoch *epoch, uint32_t process);

// Who observes a member: its parent, one of its machine and one of another, as far as there are
// such. Returns how many.
uint32_t rondo_epoch_observers(const struct rondo_epoch *epoch, uint32_t process,
                               uint32_t observers[RONDO_EPOCH_OBSERVERS]);
// Whom a member observes. The first call takes time for all members. Returns how many, 0 without
// memory.
uint32_t rondo_epoch_observe(struct rondo_epoch *epoch, uint32_t process, const uint32_t **first);

// ---- changes ----

// Removals being collected. All zero at first.
struct rondo_removal_list {
  struct rondo_removal *items;
  uint32_t count, capacity;
};

// Adds a removal. False without memory.
bool rondo_removal_list_add(struct rondo_removal_list *list, uint8_t reason, uint32_t first,
                            const char *text);
void rondo_removal_list_fini(struct rondo_removal_list *list);
// Sorts the list, merges neighbours of one reason and encodes as much as fits. Returns null without
// memory.
struct rondo_shared_bytes *rondo_removal_list_encode(struct rondo_removal_list *list);

// Reads removals one after another from `at`, which begins at 0. Returns 1, 0 at the end, or -1 if
// they are malformed.
int rondo_removal_next(const struct rondo_shared_bytes *removals, uint32_t *at,
                       struct rondo_removal *out);

// ---- simulation ----

// Shares rosters and epochs among many cores in one process. All zero at first; null in a job.
struct rondo_epoch_pool {
  struct rondo_roster *roster;
  struct rondo_epoch **epochs;
  uint32_t count, capacity;
};
void rondo_epoch_pool_fini(struct rondo_epoch_pool *pool);
// As rondo_epoch_begin and rondo_epoch_next; `pool` may be null.
struct rondo_epoch *rondo_epoch_pool_begin(struct rondo_epoch_pool *pool,
                                           struct rondo_roster *roster);
struct rondo_epoch *rondo_epoch_pool_next(struct rondo_epoch_pool *pool,
                                          const struct rondo_epoch *epoch,
                                          struct rondo_shared_bytes *removals);

#endif // RONDO_RUNTIME_JOB_EPOCH_H
