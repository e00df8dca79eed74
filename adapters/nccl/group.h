// Groups of calls, each thread's own: what is called between ncclGroupStart and ncclGroupEnd is submitted
// by the outermost ncclGroupEnd, all of it before any of it is waited for.
#ifndef RONDO_ADAPTERS_NCCL_GROUP_H
#define RONDO_ADAPTERS_NCCL_GROUP_H

#include "adapters/nccl/call.h"

// Submits a call, or keeps it if the thread is in a group. It leaves the communicator in the end.
int rondo_nccl_group_take(struct rondo_nccl_call *call);

// Whether the thread is in a group.
bool rondo_nccl_group_is_open(void);

// Makes the group that the thread is in, if any, end with `result`, since one of its calls was refused.
int rondo_nccl_group_spoil(int result);

// Keeps a split of `comm` in its place among the calls, since it is matched with them by its order. The
// outermost ncclGroupEnd submits it, and waits for it in the end.
int rondo_nccl_group_add_split(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split);

#endif // RONDO_ADAPTERS_NCCL_GROUP_H
