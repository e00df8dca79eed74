#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/numa_node.h"

#define PLACE_BYTES 16384u // smaller pieces share most of their pages with others

static uint64_t fail_after = UINT64_MAX;

void rondo_memory_fail_after(long count) {
  rondo_store_relaxed_u64(&fail_after, count < 0 ? UINT64_MAX : (uint64_t)count);
}

bool rondo_memory_should_fail(void) {
  uint64_t left = rondo_load_relaxed_u64(&fail_after);
  if (left == UINT64_MAX)
    return false;
  if (left > 0)
    rondo_store_relaxed_u64(&fail_after, left - 1);
  return left == 0;
}

void *rondo_memory_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - RONDO_LINE_BYTES || rondo_memory_should_fail())
    return NULL;
  size_t whole = (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
  void *memory = aligned_alloc(RONDO_LINE_BYTES, whole ? whole : RONDO_LINE_BYTES);
  if (!memory)
    return NULL;
  if (whole >= PLACE_BYTES)
    rondo_node_renew(memory, whole);
  memset(memory, 0, whole ? whole : RONDO_LINE_BYTES);
  return memory;
}

void rondo_memory_free(void *memory) { free(memory); }
