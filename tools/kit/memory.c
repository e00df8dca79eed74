#include "tools/kit/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN ((uintptr_t)4096)

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

static char *mirror_at(const struct rondo_kit_memory *memory, const void *at) {
  return memory->mirror + ((const char *)at - memory->base);
}

void *rondo_kit_memory_look(const struct rondo_kit_memory *memory, const void *at) {
  if (memory->mirror)
    return mirror_at(memory, at);
  return memory->base + ((const char *)at - memory->base);
}

int rondo_kit_memory_upload(const struct rondo_kit_memory *memory, void *at, size_t bytes) {
  if (!memory->mirror)
    return RONDO_SUCCESS;
  return rondo_mem_copy(memory->context, at, mirror_at(memory, at), bytes);
}

int rondo_kit_memory_download(const struct rondo_kit_memory *memory, const void *at, size_t bytes) {
  if (!memory->mirror)
    return RONDO_SUCCESS;
  return rondo_mem_copy(memory->context, mirror_at(memory, at), at, bytes);
}
