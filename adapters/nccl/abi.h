// The interface of NCCL 2.28 that compiled programs use: numbers, layouts and calls. Written from
// the facts of the interface. A test compares it with nccl.h where there is one;
// RONDO_NCCL_TYPES_ONLY leaves the calls out for it.
#ifndef RONDO_ADAPTERS_NCCL_ABI_H
#define RONDO_ADAPTERS_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

// The version that ncclGetVersion returns.
#define RONDO_NCCL_MAJOR 2
#define RONDO_NCCL_MINOR 28
#define RONDO_NCCL_PATCH 9
#define RONDO_NCCL_VERSION (RONDO_NCCL_MAJOR * 10000 + RONDO_NCCL_MINOR * 100 + RONDO_NCCL_PATCH)

enum rondo_nccl_result {
  RONDO_NCCL_SUCCESS = 0,
  RONDO_NCCL_CUDA_ERROR = 1,
  RONDO_NCCL_SYSTEM_ERROR = 2,
  RONDO_NCCL_INTERNAL_ERROR = 3,
  RONDO_NCCL_INVALID_ARGUMENT = 4,
  RONDO_NCCL_INVALID_USAGE = 5,
  RONDO_NCCL_REMOTE_ERROR = 6,
  RONDO_NCCL_IN_PROGRESS = 7
};

#define RONDO_NCCL_UNDEF_INT INT_MIN // an unset field of struct rondo_nccl_config
#define RONDO_NCCL_NO_COLOR (-1)     // ncclCommSplit: this rank gets no new communicator
#define RONDO_NCCL_CONFIG_MAGIC 0xcafebeefu
// Smaller reductions are those of enum rondo_redop; ncclRedOpCreatePreMulSum creates the others.
#define RONDO_NCCL_FIRST_USER_OP 5
enum { RONDO_NCCL_SCALAR_DEVICE = 0, RONDO_NCCL_SCALAR_HOST = 1 };

typedef struct rondo_nccl_comm *rondo_nccl_comm_t;

struct rondo_nccl_id {
  char internal[128];
};

// New versions of NCCL add fields at the end. The caller sets `size` to the size that it was
// compiled with.
struct rondo_nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
  int split_share, traffic_class;
  const char *comm_name;
  int collnet_enable, cta_policy, shrink_share, nvls_ctas, channels_per_net_peer;
  int nvlink_centric_sched;
};

struct rondo_nccl_team {
  int rank_count, rank, stride;
};

// Parameters that several calls have.
#define RONDO_NCCL_REDUCE_PARAMETERS                                                               \
  (const void *send, void *recv, size_t count, int dtype, int op, rondo_nccl_comm_t comm,          \
   void *stream)
#define RONDO_NCCL_ROOT_PARAMETERS                                                                 \
  (const void *send, void *recv, size_t count, int dtype, int root, rondo_nccl_comm_t comm,        \
   void *stream)
#define RONDO_NCCL_EXCHANGE_PARAMETERS                                                             \
  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm, void *stream)

// The calls of NCCL's device API that Rondo refuses.
#define RONDO_NCCL_DEVICE_CALLS(X)                                                                 \
  X(int, DevCommCreate, (rondo_nccl_comm_t comm, const void *requirements, void *dev_comm))        \
  X(int, DevCommDestroy, (rondo_nccl_comm_t comm, const void *dev_comm))                           \
  X(int, LsaBarrierCreateRequirement,                                                              \
    (struct rondo_nccl_team team, int count, void *handle, void *requirement))                     \
  X(int, GinBarrierCreateRequirement,                                                              \
    (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int count, void *handle,                 \
     void *requirement))                                                                           \
  X(int, LLA2ACreateRequirement, (int blocks, int slots, void *handle, void *requirement))

// The exported calls: X(type of the result, name without "nccl", parameters).
#define RONDO_NCCL_CALLS(X)                                                                        \
  X(int, GetVersion, (int *version))                                                               \
  X(const char *, GetErrorString, (int result))                                                    \
  X(const char *, GetLastError, (rondo_nccl_comm_t comm))                                          \
  X(void, ResetDebugInit, (void))                                                                  \
  X(int, GetUniqueId, (struct rondo_nccl_id * id))                                                 \
  X(int, CommInitRank,                                                                             \
    (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank))                 \
  X(int, CommInitRankConfig,                                                                       \
    (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank,                  \
     struct rondo_nccl_config *config))                                                            \
  X(int, CommInitRankScalable,                                                                     \
    (rondo_nccl_comm_t * comm, int rank_count, int rank, int id_count, struct rondo_nccl_id *ids,  \
     struct rondo_nccl_config *config))                                                            \
  X(int, CommInitAll, (rondo_nccl_comm_t * comms, int count, const int *devices))                  \
  X(int, CommSplit,                                                                                \
    (rondo_nccl_comm_t comm, int color, int key, rondo_nccl_comm_t *child,                         \
     struct rondo_nccl_config *config))                                                            \
  X(int, CommShrink,                                                                               \
    (rondo_nccl_comm_t comm, int *excluded, int excluded_count, rondo_nccl_comm_t *rest,           \
     struct rondo_nccl_config *config, int flags))                                                 \
  X(int, CommFinalize, (rondo_nccl_comm_t comm))                                                   \
  X(int, CommDestroy, (rondo_nccl_comm_t comm))                                                    \
  X(int, CommAbort, (rondo_nccl_comm_t comm))                                                      \
  X(int, CommRevoke, (rondo_nccl_comm_t comm, int flags))                                          \
  X(int, CommGetAsyncError, (rondo_nccl_comm_t comm, int *error))                                  \
  X(int, CommCount, (rondo_nccl_comm_t comm, int *count))                                          \
  X(int, CommCuDevice, (rondo_nccl_comm_t comm, int *device))                                      \
  X(int, CommUserRank, (rondo_nccl_comm_t comm, int *rank))                                        \
  X(int, AllReduce, RONDO_NCCL_REDUCE_PARAMETERS)                                                  \
  X(int, Reduce,                                                                                   \
    (const void *send, void *recv, size_t count, int dtype, int op, int root,                      \
     rondo_nccl_comm_t comm, void *stream))                                                        \
  X(int, ReduceScatter, RONDO_NCCL_REDUCE_PARAMETERS)                                              \
  X(int, Broadcast, RONDO_NCCL_ROOT_PARAMETERS)                                                    \
  X(int, Bcast,                                                                                    \
    (void *buffer, size_t count, int dtype, int root, rondo_nccl_comm_t comm, void *stream))       \
  X(int, AllGather, RONDO_NCCL_EXCHANGE_PARAMETERS)                                                \
  X(int, AlltoAll, RONDO_NCCL_EXCHANGE_PARAMETERS)                                                 \
  X(int, Gather, RONDO_NCCL_ROOT_PARAMETERS)                                                       \
  X(int, Scatter, RONDO_NCCL_ROOT_PARAMETERS)                                                      \
  X(int, Send,                                                                                     \
    (const void *send, size_t count, int dtype, int peer, rondo_nccl_comm_t comm, void *stream))   \
  X(int, Recv,                                                                                     \
    (void *recv, size_t count, int dtype, int peer, rondo_nccl_comm_t comm, void *stream))         \
  X(int, GroupStart, (void))                                                                       \
  X(int, GroupEnd, (void))                                                                         \
  X(int, GroupSimulateEnd, (void *info))                                                           \
  X(int, RedOpCreatePreMulSum,                                                                     \
    (int *op, void *scalar, int dtype, int residence, rondo_nccl_comm_t comm))                     \
  X(int, RedOpDestroy, (int op, rondo_nccl_comm_t comm))                                           \
  X(int, MemAlloc, (void **memory, size_t bytes))                                                  \
  X(int, MemFree, (void *memory))                                                                  \
  X(int, CommRegister, (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle))        \
  X(int, CommDeregister, (rondo_nccl_comm_t comm, void *handle))                                   \
  X(int, CommWindowRegister,                                                                       \
    (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **window, int flags))                \
  X(int, CommWindowDeregister, (rondo_nccl_comm_t comm, void *window))                             \
  X(struct rondo_nccl_team, TeamWorld, (rondo_nccl_comm_t comm))                                   \
  X(struct rondo_nccl_team, TeamLsa, (rondo_nccl_comm_t comm))                                     \
  X(struct rondo_nccl_team, TeamRail, (rondo_nccl_comm_t comm))                                    \
  X(int, TeamRankToWorld, (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank))         \
  X(int, TeamRankToLsa, (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank))           \
  X(int, LLA2ACalcSlots, (int elements, int element_bytes))                                        \
  RONDO_NCCL_DEVICE_CALLS(X)

#ifndef RONDO_NCCL_TYPES_ONLY
// pncclX is the implementation and ncclX a weak alias, so that a profiler can replace ncclX.
#define RONDO_NCCL_DECLARE(result, name, parameters)                                               \
  result nccl##name parameters;                                                                    \
  result pnccl##name parameters;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming)
RONDO_NCCL_CALLS(RONDO_NCCL_DECLARE)
// NCCL 2.28 exports this name too, without a pnccl variant.
void ncclResetDebugInitInternal(void);
// NOLINTEND(readability-identifier-naming)
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

// Defines a call under both names: RONDO_NCCL_DEFINE(int, GetVersion, (int *version)) {...}
#define RONDO_NCCL_DEFINE(result, name, parameters)                                                \
  result nccl##name parameters __attribute__((weak, alias("pnccl" #name)));                        \
  result pnccl##name parameters

#endif // RONDO_ADAPTERS_NCCL_ABI_H
