// The members of a group as processes tell them to each other: the ranks in their order, and a
// digest that names the list once both sides have it.
//
//   lists_init -> lists_get (at a registration, or when the list has arrived)
//     -> lists_locate (the roster is known) -> ... -> lists_fini
//
// A list lives as long as its table, and its members do not change. A simulator of many processes
// may let them share one table.
#ifndef RONDO_RUNTIME_JOB_MEMBER_LIST_H
#define RONDO_RUNTIME_JOB_MEMBER_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct rondo_plan_topology;

#define RONDO_NO_PLACE UINT32_MAX

struct rondo_member_list {
  uint64_t digest;
  uint32_t nranks;
  uint32_t process_count; // distinct processes of the members; 0 until they are known
  uint32_t *members;      // by position
  uint32_t *sorted;       // the same ranks, ascending; may be `members`
  uint32_t *processes;    // ascending
  // For plans, made when the first one is made; null before.
  struct rondo_plan_topology *topology;
};

struct rondo_member_lists {
  void *tree; // of struct rondo_member_list, by digest
  uint32_t rank_count;
  const uint32_t *process_of;     // by rank, borrowed; null until the roster is known
  struct rondo_member_list *last; // that was asked for; null: none yet
};

// Members first, first + stride, ... (`count` of them), in the order of the group. The ranges of a
// roster (roster.h) ascend.
struct rondo_member_range {
  uint32_t first, count;
  int32_t stride;
};

void rondo_member_lists_init(struct rondo_member_lists *lists, uint32_t rank_count);
void rondo_member_lists_fini(struct rondo_member_lists *lists);

// The roster is known: `process_of` has a process for each rank, or UINT32_MAX if the rank never
// came. Returns false without memory.
bool rondo_member_lists_locate(struct rondo_member_lists *lists, const uint32_t *process_of);

// Finds or makes the list of `members`, which are distinct ranks of the job. Returns null without
// memory, or if another list has the same digest. Takes no time if `members` are those of the list
// that was asked for last.
struct rondo_member_list *rondo_member_lists_get(struct rondo_member_lists *lists,
                                                 const uint32_t *members, uint32_t nranks);
// The same for all ranks of the job, in the order of their numbers.
struct rondo_member_list *rondo_member_lists_get_all(struct rondo_member_lists *lists);
struct rondo_member_list *rondo_member_lists_find(const struct rondo_member_lists *lists,
                                                  uint64_t digest);

bool rondo_member_list_has(const struct rondo_member_list *list, uint32_t rank);
// The index of a process in `processes`, or RONDO_NO_PLACE.
uint32_t rondo_member_list_place(const struct rondo_member_list *list, uint32_t process);

// Writes the members from position `*at` on as ranges, at most `capacity`, and advances `*at` past
// them. Returns the number of ranges.
uint32_t rondo_member_list_ranges(const struct rondo_member_list *list, uint32_t *at,
                                  struct rondo_member_range *ranges, uint32_t capacity);
// Appends the ranks of `ranges` to `members`, which holds `*filled` ranks and has room for
// `nranks`. Returns false if a rank is not below `rank_count` or if there are more than `nranks`.
bool rondo_member_ranges_expand(const struct rondo_member_range *ranges, uint32_t range_count,
                                uint32_t rank_count, uint32_t *members, uint32_t nranks,
                                uint32_t *filled);
// True if no rank is twice in `members`. Returns false without memory too.
bool rondo_members_are_distinct(const uint32_t *members, uint32_t nranks);

#endif // RONDO_RUNTIME_JOB_MEMBER_LIST_H
