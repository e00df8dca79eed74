// Groups of one rank: ordered sets of ranks of the job.
#ifndef RONDO_RUNTIME_API_GROUP_H
#define RONDO_RUNTIME_API_GROUP_H

#include "runtime/api/rank.h"

// A copy of the group's members, for the caller to free; the zero handle is everybody. The rank
// lock is held. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN or RONDO_ERR_NO_MEMORY.
int rondo_group_members(struct rondo_rank *rank, struct rondo_group group, uint32_t **members,
                        uint32_t *count);

void rondo_groups_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_API_GROUP_H
