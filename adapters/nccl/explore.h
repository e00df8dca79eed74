// Hooks of the deterministic explorer (tests/explore), as base/explore.h has them for the
// library. In a build without RONDO_EXPLORE they are nothing at all.
//
// RONDO_NCCL_POINT(name): here another thread of the program, or the daemon, may run; no lock is held.
// RONDO_NCCL_FAULT(name): true when the explorer has planted that fault, to show that it would be caught.
#ifndef RONDO_ADAPTERS_NCCL_EXPLORE_H
#define RONDO_ADAPTERS_NCCL_EXPLORE_H

#if defined(RONDO_EXPLORE)

enum rondo_nccl_fault {
  RONDO_NCCL_FAULT_NONE = 0,
  RONDO_NCCL_FAULT_GROUP_REVERSED, // a group submits its last call first
  RONDO_NCCL_FAULT_GROUP_DROPS,    // a group of more than three calls forgets the last
  RONDO_NCCL_FAULT_OWN_CROSSED, // a send to itself is joined with the last receive, not the first
  RONDO_NCCL_FAULT_MISMATCH_UNTOLD, // ncclCommGetAsyncError does not ask why a communicator has failed
  RONDO_NCCL_FAULT_DONE_EARLY, // ... and does not wait for the calls of one that is not blocking
  RONDO_NCCL_FAULT_SPLIT_UNNUMBERED, // the parts of every split of a communicator have the same key
  RONDO_NCCL_FAULT_KEYS_IGNORED,     // the ranks of a part are in the order of their parent
  RONDO_NCCL_FAULT_PARENT_RANKS, // a part of a part takes its parent's ranks for those of the job
  RONDO_NCCL_FAULT_FACTOR_FORGOTTEN, // a reduction that was made multiplies by the factor of the first
  RONDO_NCCL_FAULT_COUNT
};

extern int rondo_nccl_fault_planted;
void rondo_nccl_explore_point(const char *name);

// The threads of the explorer are one of the system's, and a group belongs to a thread: exchanges the one
// that is open for what is kept at `other`, at first null. What is there in the end is the caller's to free.
void rondo_nccl_group_exchange(void **other);

#define RONDO_NCCL_POINT(name) rondo_nccl_explore_point(name)
#define RONDO_NCCL_FAULT(name) (rondo_nccl_fault_planted == RONDO_NCCL_FAULT_##name)

#else

#define RONDO_NCCL_POINT(name) ((void)0)
#define RONDO_NCCL_FAULT(name) 0

#endif
#endif // RONDO_ADAPTERS_NCCL_EXPLORE_H
