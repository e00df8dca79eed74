// Communicators of the drop-in that a test makes with a configuration, one thread for all ranks.
// The file that includes it says RANKS.
#ifndef RONDO_TESTS_NCCL_MADE_H
#define RONDO_TESTS_NCCL_MADE_H

#include "adapters/nccl/abi.h"
#include "tests/support/named.h"

#define OK RONDO_NCCL_SUCCESS

static struct rondo_nccl_config config(int blocking) {
  struct rondo_nccl_config c = {.size = sizeof c,
                                .magic = RONDO_NCCL_CONFIG_MAGIC,
                                .version = RONDO_NCCL_VERSION,
                                .blocking = blocking,
                                .cga_cluster_size = RONDO_NCCL_UNDEF_INT,
                                .min_ctas = RONDO_NCCL_UNDEF_INT,
                                .max_ctas = RONDO_NCCL_UNDEF_INT,
                                .split_share = RONDO_NCCL_UNDEF_INT,
                                .traffic_class = RONDO_NCCL_UNDEF_INT,
                                .collnet_enable = RONDO_NCCL_UNDEF_INT,
                                .cta_policy = RONDO_NCCL_UNDEF_INT,
                                .shrink_share = RONDO_NCCL_UNDEF_INT,
                                .nvls_ctas = RONDO_NCCL_UNDEF_INT,
                                .channels_per_net_peer = RONDO_NCCL_UNDEF_INT,
                                .nvlink_centric_sched = RONDO_NCCL_UNDEF_INT};
  return c;
}

static void open_with(rondo_nccl_comm_t *made, int blocking) {
  struct rondo_nccl_config c = config(blocking);
  struct rondo_nccl_id id;
  assert_int_equal(ncclGetUniqueId(&id), OK);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclCommInitRankConfig(&made[r], RANKS, id, r, &c), OK);
}

#endif // RONDO_TESTS_NCCL_MADE_H
