// The hash of a state: a tree over its blocks.
//
//   block   XXH3 of its bytes
//   tensor  XXH3 of the hashes of its blocks, 64-bit little-endian numbers in order
//   state   XXH3 of the hashes of its tensors, in the same form
//
// XXH3 is the 64-bit hash of xxHash 0.8 without seed and secret. docs/elastic.md says how a GPU can
// compute it.
#ifndef RONDO_RUNTIME_STATE_STATE_HASH_H
#define RONDO_RUNTIME_STATE_STATE_HASH_H

#include <stdint.h>

#include "runtime/state/block_hash.h"
#include "runtime/state/state_layout.h"

// Memory for this many hashes: those of the blocks, then those of the tensors.
static inline uint64_t rondo_state_hash_count(const struct rondo_state_layout *layout) {
  return layout->block_count + layout->tensor_count;
}

// Hashes all blocks.
void rondo_state_hash_blocks(const struct rondo_state_layout *layout, rondo_block_hash *hash,
                             uint64_t *hashes);
// Hashes the tensors, from the hashes of the blocks. Returns the hash of the state.
uint64_t rondo_state_hash_tree(const struct rondo_state_layout *layout, rondo_block_hash *hash,
                               uint64_t *hashes);

#endif // RONDO_RUNTIME_STATE_STATE_HASH_H
