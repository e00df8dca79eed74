#include "runtime/state/state_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

uint64_t rondo_state_tensor_bytes(const struct rondo_state_tensor *tensor) {
  return tensor->count * rondo_dtype_bytes(tensor->dtype);
}

int rondo_state_layout_init(struct rondo_state_layout *layout,
                            const struct rondo_state_tensor *tensors, uint32_t count) {
  uint64_t blocks = 0;
  uint64_t *first_blocks = malloc(((size_t)count + 1) * sizeof *first_blocks);
  if (!first_blocks)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t bytes = rondo_state_tensor_bytes(&tensors[i]);
    first_blocks[i] = blocks;
    blocks += bytes / RONDO_STATE_BLOCK_BYTES + (bytes % RONDO_STATE_BLOCK_BYTES != 0);
  }
  first_blocks[count] = blocks;
  *layout = (struct rondo_state_layout){.tensors = tensors,
                                        .tensor_count = count,
                                        .block_count = blocks,
                                        .first_blocks = first_blocks};
  return RONDO_SUCCESS;
}

void rondo_state_layout_fini(struct rondo_state_layout *layout) {
  free(layout->first_blocks);
  *layout = (struct rondo_state_layout){0};
}

struct rondo_state_block rondo_state_layout_block(const struct rondo_state_layout *layout,
                                                  uint64_t index) {
  uint32_t low = 0;
  uint32_t high = layout->tensor_count;
  while (high - low > 1) { // the block is in a tensor from `low` on, and before `high`
    uint32_t middle = low + (high - low) / 2;
    if (layout->first_blocks[middle] <= index)
      low = middle;
    else
      high = middle;
  }
  uint64_t offset = (index - layout->first_blocks[low]) * RONDO_STATE_BLOCK_BYTES;
  uint64_t left = rondo_state_tensor_bytes(&layout->tensors[low]) - offset;
  return (struct rondo_state_block){
      .memory = (char *)layout->tensors[low].memory + offset,
      .bytes = left < RONDO_STATE_BLOCK_BYTES ? left : RONDO_STATE_BLOCK_BYTES,
      .tensor = low};
}

uint64_t rondo_state_list_digest(const struct rondo_state_layout *layout, uint32_t count) {
  uint64_t digest = UINT64_C(0x7374617465); // a number that names this use
  uint32_t listed = count < layout->tensor_count ? count : layout->tensor_count;
  for (uint32_t i = 0; i < listed; i++) {
    const struct rondo_state_tensor *t = &layout->tensors[i];
    digest = rondo_digest_bytes(digest, t->name, strlen(t->name));
    digest = rondo_digest_bytes(digest, &t->dtype, sizeof t->dtype);
    digest = rondo_digest_bytes(digest, &t->count, sizeof t->count);
  }
  return count > listed ? ~digest : digest;
}
