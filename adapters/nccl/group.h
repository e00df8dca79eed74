// ncclGroupStart and ncclGroupEnd. Each thread has a group of its own. The outermost ncclGroupEnd
// submits all calls of the group and then waits for them.
#ifndef RONDO_ADAPTERS_NCCL_GROUP_H
#define RONDO_ADAPTERS_NCCL_GROUP_H

#include "adapters/nccl/call.h"
#include "adapters/nccl/split.h"

// Submits a call, or adds it to the thread's open group. Takes the call's reference to its
// communicator.
int rondo_nccl_group_call(struct rondo_nccl_call *call);

// Whether the thread has an open group.
bool rondo_nccl_group_is_open(void);

// Returns `result`. An open group whose call was refused ends with the first such result.
int rondo_nccl_group_fail(int result);

// Adds a split to the thread's open group, and takes it: splits match by their order among the
// calls. Returns enum rondo_nccl_result.
int rondo_nccl_group_add_split(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split);

#endif // RONDO_ADAPTERS_NCCL_GROUP_H
