#include "runtime/state/state_hash.h"

void rondo_state_hash_blocks(const struct rondo_state_layout *layout, rondo_block_hash *hash,
                             uint64_t *hashes) {
  for (uint64_t i = 0; i < layout->block_count; i++) {
    const struct rondo_state_block block = rondo_state_layout_block(layout, i);
    hashes[i] = hash(block.memory, block.bytes);
  }
}

uint64_t rondo_state_hash_tree(const struct rondo_state_layout *layout, rondo_block_hash *hash,
                               uint64_t *hashes) {
  uint64_t *tensors = hashes + layout->block_count;
  for (uint32_t i = 0; i < layout->tensor_count; i++) {
    uint64_t first = layout->first_blocks[i];
    uint64_t count = layout->first_blocks[i + 1] - first;
    tensors[i] = hash(hashes + first, count * sizeof *hashes);
  }
  return hash(tensors, layout->tensor_count * sizeof *tensors);
}
