#include "tools/kit/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN ((uintptr_t)4096)
#define POISON 0xa5

int rondo_kit_memory_grow(struct rondo_kit_memory *memory, struct rondo_context context,
                          size_t bytes) {
  struct rondo_kit_memory grown = {.context = context, .bytes = bytes};
  int direct = 1;
  if (memory->base && bytes <= memory->bytes)
    return RONDO_SUCCESS;
  if (memory->allocated)
    (void)rondo_mem_free(memory->context, memory->allocated);
  rondo_kit_memory_forget(memory);
  int status = rondo_mem_is_direct(context, &direct);
  if (status == RONDO_SUCCESS)
    status = rondo_mem_alloc(context, bytes + ALIGN, &grown.allocated);
  if (status != RONDO_SUCCESS)
    return status;
  grown.base = (char *)(((uintptr_t)grown.allocated + ALIGN - 1) & ~(ALIGN - 1));
  if (!direct) {
    grown.mirror = calloc(1, bytes ? bytes : 1);
    if (!grown.mirror) {
      (void)rondo_mem_free(context, grown.allocated);
      return RONDO_ERR_NO_MEMORY;
    }
  }
  *memory = grown;
  return RONDO_SUCCESS;
}

void rondo_kit_memory_forget(struct rondo_kit_memory *memory) {
  free(memory->mirror);
  memset(memory, 0, sizeof *memory);
}

// Where the CPU reads and writes what is at `at`.
static char *memory_look(const struct rondo_kit_memory *memory, const void *at) {
  return (memory->mirror ? memory->mirror : memory->base) + ((const char *)at - memory->base);
}

// Copies from the mirror to `at`.
static int memory_upload(const struct rondo_kit_memory *memory, void *at, size_t bytes) {
  return memory->mirror ? rondo_mem_copy(memory->context, at, memory_look(memory, at), bytes)
                        : RONDO_SUCCESS;
}

int rondo_kit_memory_fill(const struct rondo_kit_memory *memory, void *at,
                          const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round) {
  rondo_kit_shape_fill(shape, rank, round, memory_look(memory, at));
  return memory_upload(memory, at, rondo_kit_shape_send_bytes(shape));
}

int rondo_kit_memory_poison(const struct rondo_kit_memory *memory, void *at,
                            const struct rondo_kit_shape *shape) {
  size_t bytes = rondo_kit_shape_recv_bytes(shape);
  memset(memory_look(memory, at), POISON, bytes);
  return memory_upload(memory, at, bytes);
}

int rondo_kit_memory_check(const struct rondo_kit_memory *memory, const void *at,
                           const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                           uint64_t *wrong) {
  char *result = memory_look(memory, at);
  int status = RONDO_SUCCESS;
  if (memory->mirror)
    status = rondo_mem_copy(memory->context, result, at, rondo_kit_shape_recv_bytes(shape));
  if (status == RONDO_SUCCESS)
    *wrong += rondo_kit_shape_wrong(shape, rank, round, result);
  return status;
}
