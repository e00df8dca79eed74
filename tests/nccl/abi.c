// What adapters/nccl/abi.h says of NCCL is what the toolkit's nccl.h says. Nothing here runs: it
// compiles, or it does not.
#include <stdio.h>

#include <nccl.h>

#define RONDO_NCCL_TYPES_ONLY
#include "adapters/nccl/abi.h"

#define SAME(theirs, ours) _Static_assert((long long)(theirs) == (long long)(ours), #ours)
#define FIELD(theirs, ours)                                                                        \
  SAME(offsetof(ncclConfig_t, theirs), offsetof(struct rondo_nccl_config, ours))

#if NCCL_VERSION_CODE == 22809 // later ones append to the configuration
SAME(NCCL_VERSION_CODE, RONDO_NCCL_VERSION);
SAME(sizeof(ncclConfig_t), sizeof(struct rondo_nccl_config));
FIELD(nvlinkCentricSched, nvlink_centric_sched);
#endif
SAME(ncclSuccess, RONDO_NCCL_SUCCESS);
SAME(ncclUnhandledCudaError, RONDO_NCCL_CUDA_ERROR);
SAME(ncclSystemError, RONDO_NCCL_SYSTEM_ERROR);
SAME(ncclInternalError, RONDO_NCCL_INTERNAL_ERROR);
SAME(ncclInvalidArgument, RONDO_NCCL_INVALID_ARGUMENT);
SAME(ncclInvalidUsage, RONDO_NCCL_INVALID_USAGE);
SAME(ncclRemoteError, RONDO_NCCL_REMOTE_ERROR);
SAME(ncclInProgress, RONDO_NCCL_IN_PROGRESS);
SAME(NCCL_SPLIT_NOCOLOR, RONDO_NCCL_NO_COLOR);
SAME(NCCL_CONFIG_UNDEF_INT, RONDO_NCCL_UNDEF_INT);
SAME(ncclNumOps, RONDO_NCCL_FIRST_USER_OP);
SAME(ncclMaxRedOp, INT_MAX);
SAME(ncclScalarDevice, RONDO_NCCL_SCALAR_DEVICE);
SAME(ncclScalarHostImmediate, RONDO_NCCL_SCALAR_HOST);
SAME(sizeof(ncclUniqueId), sizeof(struct rondo_nccl_id));
// Enumerations are handed over as int is.
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(sizeof(ncclScalarResidence_t), sizeof(int));
FIELD(size, size);
FIELD(magic, magic);
FIELD(version, version);
FIELD(blocking, blocking);
FIELD(cgaClusterSize, cga_cluster_size);
FIELD(minCTAs, min_ctas);
FIELD(maxCTAs, max_ctas);
FIELD(netName, net_name);
FIELD(splitShare, split_share);
FIELD(trafficClass, traffic_class);
FIELD(commName, comm_name);
FIELD(collnetEnable, collnet_enable);
FIELD(CTAPolicy, cta_policy);
FIELD(shrinkShare, shrink_share);
FIELD(nvlsCTAs, nvls_ctas);
FIELD(nChannelsPerNetPeer, channels_per_net_peer);

int main(void) {
  ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  int good = initial.magic == RONDO_NCCL_CONFIG_MAGIC;
  puts(good ? "the same" : "the magic number is another");
  return !good;
}
