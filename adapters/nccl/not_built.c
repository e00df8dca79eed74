// The calls that are not built yet. Each says so, and nothing changes.
#include "adapters/nccl/abi.h"
#include "adapters/nccl/say.h"

static int not_built(const char *call) {
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE, "%s: not built yet", call);
}

// NOLINTBEGIN(readability-identifier-naming,readability-function-size): the calls are NCCL's.
#pragma GCC diagnostic ignored "-Wunused-parameter"

RONDO_NCCL_DEFINE(int, GetUniqueId, (struct rondo_nccl_id * id)) {
  return not_built("ncclGetUniqueId");
}

RONDO_NCCL_DEFINE(int, CommInitRank,
                  (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank)) {
  return not_built("ncclCommInitRank");
}

RONDO_NCCL_DEFINE(int, CommInitRankConfig,
                  (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank,
                   struct rondo_nccl_config *config)) {
  return not_built("ncclCommInitRankConfig");
}

RONDO_NCCL_DEFINE(int, CommInitRankScalable,
                  (rondo_nccl_comm_t * comm, int rank_count, int rank, int id_count,
                   struct rondo_nccl_id *ids, struct rondo_nccl_config *config)) {
  return not_built("ncclCommInitRankScalable");
}

RONDO_NCCL_DEFINE(int, CommInitAll, (rondo_nccl_comm_t * comms, int count, const int *devices)) {
  return not_built("ncclCommInitAll");
}

RONDO_NCCL_DEFINE(int, CommSplit,
                  (rondo_nccl_comm_t comm, int color, int key, rondo_nccl_comm_t *part,
                   struct rondo_nccl_config *config)) {
  return not_built("ncclCommSplit");
}

RONDO_NCCL_DEFINE(int, CommShrink,
                  (rondo_nccl_comm_t comm, int *excluded, int excluded_count,
                   rondo_nccl_comm_t *rest, struct rondo_nccl_config *config, int flags)) {
  return not_built("ncclCommShrink");
}

RONDO_NCCL_DEFINE(int, CommFinalize, (rondo_nccl_comm_t comm)) {
  return not_built("ncclCommFinalize");
}

RONDO_NCCL_DEFINE(int, CommDestroy, (rondo_nccl_comm_t comm)) {
  return not_built("ncclCommDestroy");
}

RONDO_NCCL_DEFINE(int, CommAbort, (rondo_nccl_comm_t comm)) { return not_built("ncclCommAbort"); }

RONDO_NCCL_DEFINE(int, CommRevoke, (rondo_nccl_comm_t comm, int flags)) {
  return not_built("ncclCommRevoke");
}

RONDO_NCCL_DEFINE(int, CommGetAsyncError, (rondo_nccl_comm_t comm, int *error)) {
  return not_built("ncclCommGetAsyncError");
}

RONDO_NCCL_DEFINE(int, CommCount, (rondo_nccl_comm_t comm, int *count)) {
  return not_built("ncclCommCount");
}

RONDO_NCCL_DEFINE(int, CommCuDevice, (rondo_nccl_comm_t comm, int *device)) {
  return not_built("ncclCommCuDevice");
}

RONDO_NCCL_DEFINE(int, CommUserRank, (rondo_nccl_comm_t comm, int *rank)) {
  return not_built("ncclCommUserRank");
}

RONDO_NCCL_DEFINE(int, AllReduce,
                  (const void *send, void *recv, size_t count, int dtype, int op,
                   rondo_nccl_comm_t comm, void *stream)) {
  return not_built("ncclAllReduce");
}

RONDO_NCCL_DEFINE(int, Reduce,
                  (const void *send, void *recv, size_t count, int dtype, int op, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  return not_built("ncclReduce");
}

RONDO_NCCL_DEFINE(int, ReduceScatter,
                  (const void *send, void *recv, size_t count, int dtype, int op,
                   rondo_nccl_comm_t comm, void *stream)) {
  return not_built("ncclReduceScatter");
}

RONDO_NCCL_DEFINE(int, Broadcast,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  return not_built("ncclBroadcast");
}

RONDO_NCCL_DEFINE(int, Bcast,
                  (void *buffer, size_t count, int dtype, int root, rondo_nccl_comm_t comm,
                   void *stream)) {
  return not_built("ncclBcast");
}

RONDO_NCCL_DEFINE(int, AllGather,
                  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm,
                   void *stream)) {
  return not_built("ncclAllGather");
}

RONDO_NCCL_DEFINE(int, AlltoAll,
                  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm,
                   void *stream)) {
  return not_built("ncclAlltoAll");
}

RONDO_NCCL_DEFINE(int, Gather,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  return not_built("ncclGather");
}

RONDO_NCCL_DEFINE(int, Scatter,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  return not_built("ncclScatter");
}

RONDO_NCCL_DEFINE(int, Send,
                  (const void *send, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
                   void *stream)) {
  return not_built("ncclSend");
}

RONDO_NCCL_DEFINE(int, Recv,
                  (void *recv, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
                   void *stream)) {
  return not_built("ncclRecv");
}

RONDO_NCCL_DEFINE(int, GroupStart, (void)) { return not_built("ncclGroupStart"); }

RONDO_NCCL_DEFINE(int, GroupEnd, (void)) { return not_built("ncclGroupEnd"); }

RONDO_NCCL_DEFINE(int, RedOpCreatePreMulSum,
                  (int *op, void *scalar, int dtype, int residence, rondo_nccl_comm_t comm)) {
  return not_built("ncclRedOpCreatePreMulSum");
}

RONDO_NCCL_DEFINE(int, RedOpDestroy, (int op, rondo_nccl_comm_t comm)) {
  return not_built("ncclRedOpDestroy");
}

RONDO_NCCL_DEFINE(int, MemAlloc, (void **memory, size_t bytes)) {
  return not_built("ncclMemAlloc");
}

RONDO_NCCL_DEFINE(int, MemFree, (void *memory)) { return not_built("ncclMemFree"); }

RONDO_NCCL_DEFINE(int, CommRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle)) {
  return not_built("ncclCommRegister");
}

RONDO_NCCL_DEFINE(int, CommDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  return not_built("ncclCommDeregister");
}

RONDO_NCCL_DEFINE(int, CommWindowRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **window, int flags)) {
  return not_built("ncclCommWindowRegister");
}

RONDO_NCCL_DEFINE(int, CommWindowDeregister, (rondo_nccl_comm_t comm, void *window)) {
  return not_built("ncclCommWindowDeregister");
}

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamWorld, (rondo_nccl_comm_t comm)) {
  struct rondo_nccl_team none = {0, 0, 0};
  not_built("ncclTeamWorld");
  return none;
}

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamLsa, (rondo_nccl_comm_t comm)) {
  struct rondo_nccl_team none = {0, 0, 0};
  not_built("ncclTeamLsa");
  return none;
}

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamRail, (rondo_nccl_comm_t comm)) {
  struct rondo_nccl_team none = {0, 0, 0};
  not_built("ncclTeamRail");
  return none;
}

RONDO_NCCL_DEFINE(int, TeamRankToWorld,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank)) {
  return not_built("ncclTeamRankToWorld");
}

RONDO_NCCL_DEFINE(int, TeamRankToLsa,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank)) {
  return not_built("ncclTeamRankToLsa");
}

// NOLINTEND(readability-identifier-naming,readability-function-size)
