#include "examples/kit/memory.h"

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
  if (memory->taken)
    (void)rondo_mem_free(memory->context, memory->taken);
  rondo_kit_memory_forget(memory);
  int status = rondo_mem_is_direct(context, &direct);
  if (status == RONDO_SUCCESS)
    status = rondo_mem_alloc(context, bytes + ALIGN, &grown.taken);
  if (status != RONDO_SUCCESS)
    return status;
  grown.base = (char *)(((uintptr_t)grown.taken + ALIGN - 1) & ~(ALIGN - 1));
  if (!direct) {
    grown.mirror = calloc(1, bytes ? bytes : 1);
    if (!grown.mirror) {
      (void)rondo_mem_free(context, grown.taken);
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

static char *mirrored(const struct rondo_kit_memory *memory, const void *at) {
  return memory->mirror + ((const char *)at - memory->base);
}

void *rondo_kit_memory_look(const struct rondo_kit_memory *memory, const void *at) {
  if (memory->mirror)
    return mirrored(memory, at);
  return memory->base + ((const char *)at - memory->base);
}

int rondo_kit_memory_upload(const struct rondo_kit_memory *memory, void *at, size_t bytes) {
  if (!memory->mirror)
    return RONDO_SUCCESS;
  return rondo_mem_copy(memory->context, at, mirrored(memory, at), bytes);
}

int rondo_kit_memory_download(const struct rondo_kit_memory *memory, const void *at, size_t bytes) {
  if (!memory->mirror)
    return RONDO_SUCCESS;
  return rondo_mem_copy(memory->context, mirrored(memory, at), at, bytes);
}
