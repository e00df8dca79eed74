// NVIDIA's NCCL as a library: found when it is first needed, never linked. Only what windows (window.h) need of it.
//
//   rondo_nccl_load -> NCCL_LIBRARY calls ...
//
// What was compiled against must be what runs, to the last digit of the version: NCCL's device structures change
// between patches, and the kernel that reads them is ours. Rondo's own drop-in of the same name is refused: it would
// ask us.
#ifndef RONDO_RUNTIME_TRANSPORT_NCCL_LIBRARY_H
#define RONDO_RUNTIME_TRANSPORT_NCCL_LIBRARY_H

#include <nccl.h>

// In C the device's headers cannot be read; harvest.cu holds these against them.
struct rondo_nccl_team {
  int rank_count, rank, stride;
};
#define RONDO_NCCL_DEVICE_COMM_BYTES 4096u
#define RONDO_NCCL_REQUIREMENTS_BYTES 256u

#define RONDO_NCCL_CALLS(X)                                                                        \
  X(ncclGetVersion)                                                                                \
  X(ncclGetErrorString)                                                                            \
  X(ncclGetLastError)                                                                              \
  X(ncclGetUniqueId)                                                                               \
  X(ncclCommInitRankConfig)                                                                        \
  X(ncclCommGetAsyncError)                                                                         \
  X(ncclCommFinalize)                                                                              \
  X(ncclCommDestroy)                                                                               \
  X(ncclCommAbort)                                                                                 \
  X(ncclCommWindowRegister)                                                                        \
  X(ncclCommWindowDeregister)                                                                      \
  X(ncclMemAlloc)                                                                                  \
  X(ncclMemFree)

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define RONDO_NCCL_DECLARE(name) __typeof__(&name) name;
struct rondo_nccl_library {
  RONDO_NCCL_CALLS(RONDO_NCCL_DECLARE)
  // NOLINTBEGIN(readability-identifier-naming): NCCL's names
  ncclResult_t (*ncclDevCommCreate)(ncclComm_t comm, const void *requirements, void *device_comm);
  ncclResult_t (*ncclDevCommDestroy)(ncclComm_t comm, const void *device_comm);
  struct rondo_nccl_team (*ncclTeamLsa)(ncclComm_t comm);
  // NOLINTEND(readability-identifier-naming)
};
#undef RONDO_NCCL_DECLARE

// The calls; or null and the reason in `why`, of RONDO_WHY_BYTES. Any thread.
const struct rondo_nccl_library *rondo_nccl_load(char *why);

#endif // RONDO_RUNTIME_TRANSPORT_NCCL_LIBRARY_H
