// The groups that a rank has made: ordered sets of ranks of the job.
#ifndef RONDO_RUNTIME_RANK_GROUP_H
#define RONDO_RUNTIME_RANK_GROUP_H

#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_member_list;
struct rondo_rank;

struct rondo_group_entry {
  uint64_t id;
  struct rondo_group_entry *next;
  const struct rondo_member_list *list; // of the job
};

// Finds the group's ranks. The zero handle means all ranks. The rank's lock is held. Returns
// RONDO_SUCCESS or RONDO_ERR_UNKNOWN.
int rondo_group_list(struct rondo_rank *rank, struct rondo_group group,
                     const struct rondo_member_list **list);

// As rondo_group_create.
int rondo_group_make(struct rondo_rank *rank, const uint32_t *ranks, uint32_t rank_count,
                     struct rondo_group *group);
// As rondo_group_destroy.
int rondo_group_forget(struct rondo_rank *rank, struct rondo_group group);

void rondo_groups_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_GROUP_H
