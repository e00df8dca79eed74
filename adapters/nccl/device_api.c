// The calls that let kernels communicate by themselves, and others of newer NCCLs: the daemon has no part in
// what a kernel of the application does, so there is nothing that they could set up. Each says so,
// and nothing changes.
#include "adapters/nccl/abi.h"
#include "adapters/nccl/comm.h"
#include "adapters/nccl/say.h"

static int not_here(const char *call, const char *why) {
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE, "%s: not supported: %s", call, why);
}

static const char no_device_api[] = "kernels cannot communicate by themselves here";

// Ranks that reach each other's memory by plain loads and stores of a kernel: none but oneself.
static const struct rondo_nccl_team alone = {1, 0, 1};

static struct rondo_nccl_team world_of(rondo_nccl_comm_t handle, const char *call) {
  struct rondo_nccl_team team = {0, 0, 0};
  struct rondo_nccl_comm *comm = rondo_nccl_comm_enter(handle, call);
  if (!comm)
    return team;
  team.rank_count = comm->rank_count;
  team.rank = comm->rank;
  team.stride = 1;
  rondo_nccl_comm_leave(comm);
  return team;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamWorld, (rondo_nccl_comm_t comm)) {
  return world_of(comm, "ncclTeamWorld");
}

RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamLsa, (rondo_nccl_comm_t comm)) {
  struct rondo_nccl_team world = world_of(comm, "ncclTeamLsa");
  return world.rank_count ? alone : world;
}

// The ranks that have the same place among those of the other kind: all, since each is alone there.
RONDO_NCCL_DEFINE(struct rondo_nccl_team, TeamRail, (rondo_nccl_comm_t comm)) {
  return world_of(comm, "ncclTeamRail");
}

RONDO_NCCL_DEFINE(int, TeamRankToWorld,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank)) {
  return world_of(comm, "ncclTeamRankToWorld").rank + (rank - team.rank) * team.stride;
}

RONDO_NCCL_DEFINE(int, TeamRankToLsa,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int rank)) {
  (void)comm;
  return alone.rank + (rank - team.rank) * team.stride;
}

RONDO_NCCL_DEFINE(int, DevCommCreate,
                  (rondo_nccl_comm_t comm, const void *requirements, void *made)) {
  (void)comm, (void)requirements, (void)made;
  return not_here("ncclDevCommCreate", no_device_api);
}

RONDO_NCCL_DEFINE(int, DevCommDestroy, (rondo_nccl_comm_t comm, const void *made)) {
  (void)comm, (void)made;
  return not_here("ncclDevCommDestroy", no_device_api);
}

RONDO_NCCL_DEFINE(int, LsaBarrierCreateRequirement,
                  (struct rondo_nccl_team team, int count, void *handle, void *requirement)) {
  (void)team, (void)count, (void)handle, (void)requirement;
  return not_here("ncclLsaBarrierCreateRequirement", no_device_api);
}

RONDO_NCCL_DEFINE(int, GinBarrierCreateRequirement,
                  (rondo_nccl_comm_t comm, struct rondo_nccl_team team, int count, void *handle,
                   void *requirement)) {
  (void)comm, (void)team, (void)count, (void)handle, (void)requirement;
  return not_here("ncclGinBarrierCreateRequirement", no_device_api);
}

// Its result is a number of slots, so it can only say that none would be enough.
RONDO_NCCL_DEFINE(int, LLA2ACalcSlots, (int elements, int element_bytes)) {
  (void)elements, (void)element_bytes;
  not_here("ncclLLA2ACalcSlots", no_device_api);
  return 0;
}

RONDO_NCCL_DEFINE(int, LLA2ACreateRequirement,
                  (int blocks, int slots, void *handle, void *requirement)) {
  (void)blocks, (void)slots, (void)handle, (void)requirement;
  return not_here("ncclLLA2ACreateRequirement", no_device_api);
}

// NOLINTEND(readability-identifier-naming)
