// Hooks of the deterministic explorer (tests/explore), like those of base/explore.h. They are empty
// in a build without RONDO_EXPLORE.
//
// RONDO_NCCL_POINT(name): the explorer may run another thread or the daemon here; no lock is held.
// RONDO_NCCL_FAULT(name): true if the explorer has planted this fault, to show that its checks find
// the fault.
#ifndef RONDO_ADAPTERS_NCCL_EXPLORE_H
#define RONDO_ADAPTERS_NCCL_EXPLORE_H

#if defined(RONDO_EXPLORE)

enum rondo_nccl_fault {
  RONDO_NCCL_FAULT_NONE = 0,
  RONDO_NCCL_FAULT_GROUP_REVERSED,    // a group submits its last call first
  RONDO_NCCL_FAULT_GROUP_DROPS,       // a group of more than three calls drops the last
  RONDO_NCCL_FAULT_SELF_SEND_CROSSED, // a self-send is merged with the last receive
  RONDO_NCCL_FAULT_MISMATCH_HIDDEN,   // ncclCommGetAsyncError does not report failures
  RONDO_NCCL_FAULT_DONE_EARLY,        // ncclCommGetAsyncError does not report outstanding calls
  RONDO_NCCL_FAULT_SPLIT_UNNUMBERED,  // the children of all splits of a communicator have one key
  RONDO_NCCL_FAULT_KEYS_IGNORED,      // the ranks of a child have the order of the parent
  RONDO_NCCL_FAULT_PARENT_RANKS,      // a child uses its parent's ranks as ranks of the job
  RONDO_NCCL_FAULT_FACTOR_FORGOTTEN,  // every created reduction uses the first one's scalar
  RONDO_NCCL_FAULT_COUNT
};

extern int rondo_nccl_fault_planted;
void rondo_nccl_explore_point(const char *name);

// Exchanges the thread's group for the one at `other`, which is null at first. The explorer runs
// all its threads in one thread of the system. The caller frees what is at `other` in the end.
void rondo_nccl_group_exchange(void **other);

#define RONDO_NCCL_POINT(name) rondo_nccl_explore_point(name)
#define RONDO_NCCL_FAULT(name) (rondo_nccl_fault_planted == RONDO_NCCL_FAULT_##name)

#else

#define RONDO_NCCL_POINT(name) ((void)0)
#define RONDO_NCCL_FAULT(name) 0

#endif
#endif // RONDO_ADAPTERS_NCCL_EXPLORE_H
