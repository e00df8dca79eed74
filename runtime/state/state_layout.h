// How the tensors of a state are divided into blocks. Pure.
//
//   rondo_state_layout_init -> rondo_state_layout_block ... -> rondo_state_layout_fini
//
// The blocks of all tensors are numbered in the order of the list. An empty tensor has none.
#ifndef RONDO_RUNTIME_STATE_STATE_LAYOUT_H
#define RONDO_RUNTIME_STATE_STATE_LAYOUT_H

#include <stdint.h>

#include <rondo/state.h>

struct rondo_state_layout {
  const struct rondo_state_tensor *tensors; // of the caller
  uint32_t tensor_count;
  uint64_t block_count;
  uint64_t *first_blocks; // of each tensor, then block_count
};

struct rondo_state_block {
  char *memory;
  uint64_t bytes; // 1 to RONDO_STATE_BLOCK_BYTES
  uint32_t tensor;
};

// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY. The sizes of the tensors have been checked.
int rondo_state_layout_init(struct rondo_state_layout *layout,
                            const struct rondo_state_tensor *tensors, uint32_t count);
void rondo_state_layout_fini(struct rondo_state_layout *layout);

uint64_t rondo_state_tensor_bytes(const struct rondo_state_tensor *tensor);

// `index` is less than block_count.
struct rondo_state_block rondo_state_layout_block(const struct rondo_state_layout *layout,
                                                  uint64_t index);

// Digest of the names, types and counts of the first `count` tensors of the list; beyond its end,
// of the list and of the fact that it has ended. Members compare these digests.
uint64_t rondo_state_list_digest(const struct rondo_state_layout *layout, uint32_t count);

#endif // RONDO_RUNTIME_STATE_STATE_LAYOUT_H
