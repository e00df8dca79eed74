// NVIDIA's NCCL, loaded when it is first needed, never linked: the calls that windows (window.h)
// need.
//
// The library must have exactly the version of the headers that this code was compiled with,
// because NCCL's device structures change between patch releases, and our kernel reads them.
// Rondo's own drop-in has the same file name and is refused: its calls would come back here.
#ifndef RONDO_RUNTIME_TRANSPORT_NCCL_LIBRARY_H
#define RONDO_RUNTIME_TRANSPORT_NCCL_LIBRARY_H

#include <nccl.h>

// C cannot read NCCL's device headers; window_lookup.cu asserts that these agree with them.
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

// Returns the calls; or null, with the reason in `why` (RONDO_WHY_BYTES). Any thread.
const struct rondo_nccl_library *rondo_nccl_load(char *why);

#endif // RONDO_RUNTIME_TRANSPORT_NCCL_LIBRARY_H
