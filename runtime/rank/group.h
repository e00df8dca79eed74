// The groups that a rank has made: ordered sets of ranks of the job.
#ifndef RONDO_RUNTIME_RANK_GROUP_H
#define RONDO_RUNTIME_RANK_GROUP_H

#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_rank;

struct rondo_group_entry {
  uint64_t id;
  struct rondo_group_entry *next;
  uint32_t rank_count;
  uint32_t ranks[];
};

// Copies the group's members; the caller frees the copy. The zero handle means all ranks. The
// rank's lock is held. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN or RONDO_ERR_NO_MEMORY.
int rondo_group_members(struct rondo_rank *rank, struct rondo_group group, uint32_t **members,
                        uint32_t *count);

// As rondo_group_create.
int rondo_group_make(struct rondo_rank *rank, const uint32_t *ranks, uint32_t rank_count,
                     struct rondo_group *group);
// As rondo_group_destroy.
int rondo_group_forget(struct rondo_rank *rank, struct rondo_group group);

void rondo_groups_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_GROUP_H
