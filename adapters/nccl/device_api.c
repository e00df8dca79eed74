// The exported calls of NCCL's device API, by which kernels communicate on their own. Rondo's
// daemon moves all data, so the calls are refused, except the queries of teams.
#include "adapters/nccl/abi.h"
#include "adapters/nccl/comm.h"
#include "adapters/nccl/debug.h"

static int call_refuse(const char *call) {
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                           "%s: not supported: kernels cannot communicate on their own here", call);
}

// The LSA team: the ranks whose memory a kernel of this rank can access. Only this rank.
static const struct rondo_nccl_team lsa_team = {1, 0, 1};

static struct rondo_nccl_team team_world(rondo_nccl_comm_t handle, const char *call) {
  struct rondo_nccl_team team = {0, 0, 0};
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, call);
  if (!comm)
    return team;
  team = (struct rondo_nccl_team){comm->rank_count, comm->rank, 1};
  rondo_nccl_comm_unref(comm);
  return team;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamWorld, (rondo_nccl_comm_t comm)) {
  return team_world(comm, "ncclTeamWorld");
}

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamLsa, (rondo_nccl_comm_t comm)) {
  struct rondo_nccl_team world = team_world(comm, "ncclTeamLsa");
  return world.rank_count ? lsa_team : world;
}

// The ranks with the same position in their LSA teams: all ranks.
RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamRail, (rondo_nccl_comm_t comm)) {
  return team_world(comm, "ncclTeamRail");
}

RONDO_NCCL_DEFINE(int, TeamRankToWorld,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank)) {
  return team_world(comm, "ncclTeamRankToWorld").rank + (rank - team.rank) * team.stride;
}

// The refused calls use no parameter.
#pragma GCC diagnostic ignored "-Wunused-parameter"

RONDO_NCCL_DEFINE(int, TeamRankToLsa,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank)) {
  return lsa_team.rank + (rank - team.rank) * team.stride;
}

// The result is a number of slots, so there is no error code.
RONDO_NCCL_DEFINE(int, LLA2ACalcSlots, (int elements, int element_bytes)) {
  call_refuse("ncclLLA2ACalcSlots");
  return 0;
}

#define DEFINE_REFUSED(result, name, parameters)                                                   \
  RONDO_NCCL_DEFINE(result, name, parameters) { return call_refuse("nccl" #name); }
RONDO_NCCL_DEVICE_CALLS(DEFINE_REFUSED)

// NOLINTEND(readability-identifier-naming)
