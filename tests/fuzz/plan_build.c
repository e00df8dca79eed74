// Any request must be refused without a plan, or give one that the interpreter can execute.
#include "daemon/plan/build.h"
#include "rondo/status.h"
#include "rondo/types.h"
#include "tests/support/fuzz.h"

// Peer indexes are in range exactly where the primitive uses them.
static void check_peer(const struct rondo_plan_op *op, int used, uint32_t index, uint32_t count) {
  uint64_t last = index + (uint64_t)(op->repeat - 1) * op->peer_stride;
  RONDO_FUZZ_CHECK(used ? last < count : index == RONDO_PLAN_NO_PEER);
}

static void check_peers(const struct rondo_plan *plan, const struct rondo_plan_peers *peers,
                        uint32_t rank) {
  RONDO_FUZZ_CHECK(peers->count < plan->nranks);
  RONDO_FUZZ_CHECK(peers->stride != 0 || peers->count <= RONDO_PLAN_LISTED_PEERS);
  for (uint32_t i = 0; i < peers->count; i++) {
    uint32_t peer = rondo_plan_peer(plan, peers, i);
    RONDO_FUZZ_CHECK(peer < plan->nranks && peer != rank);
  }
}

static void check_op(const struct rondo_plan *plan, const struct rondo_plan_op *op) {
  RONDO_FUZZ_CHECK(op->primitive != 0);
  RONDO_FUZZ_CHECK(!(op->primitive & RONDO_PRIM_REDUCE) ||
                   (op->primitive & (RONDO_PRIM_RECV | RONDO_PRIM_IN_SCRATCH)));
  RONDO_FUZZ_CHECK(!(op->primitive & RONDO_PRIM_SCRATCH) || plan->scratch_count > 0);
  RONDO_FUZZ_CHECK(op->repeat >= 1);
  RONDO_FUZZ_CHECK(plan->chunk_count >= 1);
  RONDO_FUZZ_CHECK(op->first_chunk < plan->chunk_count);
  RONDO_FUZZ_CHECK(op->chunk_stride < plan->chunk_count || op->chunk_stride == 0);
  RONDO_FUZZ_CHECK(op->width >= 1 && op->width <= plan->chunk_count);
  RONDO_FUZZ_CHECK(op->peer_stride <= 1);
  check_peer(op, (op->primitive & RONDO_PRIM_SEND) != 0, op->send_peer, plan->send.count);
  check_peer(op, (op->primitive & RONDO_PRIM_RECV) != 0, op->recv_peer, plan->recv.count);
}

static void check_plan(const struct rondo_plan_request *r, const struct rondo_plan *plan) {
  RONDO_FUZZ_CHECK(r->nranks >= 1 && r->rank < r->nranks);
  int nothing_to_do = r->kind == RONDO_BARRIER && r->nranks == 1;
  RONDO_FUZZ_CHECK(plan->op_count >= !nothing_to_do && plan->op_count <= RONDO_PLAN_MAX_OPS);
  RONDO_FUZZ_CHECK(plan->first_pass == 0 || plan->first_pass < plan->op_count);
  RONDO_FUZZ_CHECK(plan->nranks == r->nranks);
  RONDO_FUZZ_CHECK(plan->scratch_count <= plan->chunk_count);
  RONDO_FUZZ_CHECK(plan->scratch_first < plan->chunk_count);
  check_peers(plan, &plan->send, r->rank);
  check_peers(plan, &plan->recv, r->rank);
  for (uint32_t i = 0; i < plan->op_count; i++) {
    check_op(plan, &plan->ops[i]);
    RONDO_FUZZ_CHECK(plan->ops[i].round_ops <= i + 1);
    RONDO_FUZZ_CHECK(!plan->ops[i].round_ops || plan->round_chunks > 0);
  }
  RONDO_FUZZ_CHECK(!plan->round_chunks || plan->chunk_count % plan->round_chunks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  // One kind, algorithm and position in a few is out of range.
  struct rondo_plan_request r = {
      .kind = (int)(rondo_fuzz_take(&in, 1) % (RONDO_KIND_COUNT + 2)) - 1,
      .algorithm = (int)(rondo_fuzz_take(&in, 1) % (RONDO_ALGORITHM_COUNT + 2)) - 1,
      .nranks = (uint32_t)rondo_fuzz_take(&in, 2) % (RONDO_MAX_RANKS + 2),
  };
  r.rank = (uint32_t)rondo_fuzz_take(&in, 2) % (r.nranks + 1);
  r.root = (uint32_t)rondo_fuzz_take(&in, 2) % (r.nranks + 1);
  int flags = (int)rondo_fuzz_take(&in, 1);
  r.keeps_sums = flags & 1;
  r.quantisation = (flags >> 1) % (RONDO_QUANTISATION_COUNT + 1);
  struct rondo_plan plan, untouched;
  memset(&plan, 0xa5, sizeof plan);
  memset(&untouched, 0xa5, sizeof untouched);
  int status = rondo_plan_build(&r, &plan);
  if (status == RONDO_SUCCESS)
    check_plan(&r, &plan);
  else
    RONDO_FUZZ_CHECK(memcmp(&plan, &untouched, sizeof plan) == 0);
  return 0;
}
