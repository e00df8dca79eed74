// What members send each other to synchronise a state: claims and maps of any bytes are refused, or
// lead to a decision and to a deal that keeps within its memory.
#include "runtime/state/state_claim.h"
#include "runtime/state/state_deal.h"
#include "tests/support/fuzz.h"

#define MEMBERS 4u
#define BLOCKS 20u

static const uint32_t ranks[MEMBERS] = {0, 2, 3, 7};

// Each claim is a valid one with some bytes of the input over it.
static void decide(struct rondo_fuzz_input *in) {
  struct rondo_state_claim claims[MEMBERS];
  uint8_t bytes[MEMBERS * RONDO_STATE_CLAIM_BYTES];
  struct rondo_state_verdict verdict;
  char why[RONDO_REASON_BYTES];
  bool lists_differ;
  for (uint32_t i = 0; i < MEMBERS; i++) {
    const struct rondo_state_claim claim = {.strategy = (uint8_t)(rondo_fuzz_take(in, 1) % 3),
                                            .content = rondo_fuzz_take(in, 1) % 3,
                                            .revision = rondo_fuzz_take(in, 1) % 3};
    uint8_t *at = bytes + i * RONDO_STATE_CLAIM_BYTES;
    rondo_state_claim_encode(&claim, at);
    for (uint64_t n = rondo_fuzz_take(in, 1) % 4; n; n--)
      at[rondo_fuzz_take(in, 1)] = (uint8_t)rondo_fuzz_take(in, 1);
  }
  if (rondo_state_claims_read(bytes, ranks, MEMBERS, claims, why) != RONDO_SUCCESS) {
    RONDO_FUZZ_CHECK(why[0]);
    return;
  }
  const struct rondo_state_claims all = {claims, ranks, MEMBERS};
  int status = rondo_state_decide(&all, &verdict, &lists_differ, why);
  RONDO_FUZZ_CHECK(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH);
  RONDO_FUZZ_CHECK((why[0] != '\0') == (status != RONDO_SUCCESS && !lists_differ));
  if (status == RONDO_SUCCESS)
    RONDO_FUZZ_CHECK(verdict.source < MEMBERS &&
                     claims[verdict.source].strategy != RONDO_STATE_RECEIVE_ONLY &&
                     claims[verdict.source].content == verdict.content);
  rondo_state_describe_lists(&all, 0, why);
}

static void deal(struct rondo_fuzz_input *in) {
  static char memory[RONDO_STATE_BLOCK_BYTES]; // of each tensor: nothing reads it
  struct rondo_state_tensor tensors[BLOCKS];
  struct rondo_state_layout layout;
  struct rondo_state_deal made;
  uint8_t maps[MEMBERS * (BLOCKS / 8 + 1)];
  uint64_t received = 0;
  for (uint32_t i = 0; i < BLOCKS; i++)
    tensors[i] = (struct rondo_state_tensor){
        "t", memory, 1 + rondo_fuzz_take(in, 2) % RONDO_STATE_BLOCK_BYTES * 16, RONDO_UINT8};
  if (rondo_state_layout_init(&layout, tensors, BLOCKS) != RONDO_SUCCESS)
    return;
  for (size_t i = 0; i < sizeof maps; i++)
    maps[i] = (uint8_t)rondo_fuzz_take(in, 1);
  if (layout.block_count == BLOCKS &&
      rondo_state_deal_make(maps, MEMBERS, &layout, 1, &made) == RONDO_SUCCESS) {
    for (size_t i = 0; i < made.parcel_count; i++) {
      const struct rondo_state_parcel *p = &made.parcels[i];
      RONDO_FUZZ_CHECK(p->from < MEMBERS && p->to < MEMBERS && p->from != p->to);
      RONDO_FUZZ_CHECK(p->bytes <= RONDO_STATE_BLOCK_BYTES);
      for (uint32_t k = 0; k < p->count; k++)
        RONDO_FUZZ_CHECK(made.blocks[p->first + k] < BLOCKS);
      received += p->to == 1 ? p->bytes : 0;
    }
    for (uint32_t b = 0; b < BLOCKS; b++)
      received -=
          rondo_state_map_get(maps + rondo_state_map_bytes(BLOCKS), b) ? tensors[b].count : 0;
    RONDO_FUZZ_CHECK(received == 0);
    rondo_state_deal_fini(&made);
  }
  rondo_state_layout_fini(&layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  if (rondo_fuzz_take(&in, 1) & 1)
    decide(&in);
  else
    deal(&in);
  return 0;
}
