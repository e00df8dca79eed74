// Bytes that several queues hold at once, such as a message to many processes. Never changed after
// they are first shared. One thread at a time, or one lock, guards the references.
#ifndef RONDO_RUNTIME_NET_SHARED_BYTES_H
#define RONDO_RUNTIME_NET_SHARED_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rondo_shared_bytes {
  uint32_t refs;
  uint32_t size;
  uint8_t bytes[];
};

// Creates a copy of `bytes` with one reference; null `bytes`: zeros. Returns null without memory.
static inline struct rondo_shared_bytes *rondo_shared_bytes_create(const void *bytes, size_t size) {
  struct rondo_shared_bytes *shared = malloc(sizeof *shared + size);
  if (!shared)
    return NULL;
  shared->refs = 1;
  shared->size = (uint32_t)size;
  if (bytes && size)
    memcpy(shared->bytes, bytes, size);
  else
    memset(shared->bytes, 0, size);
  return shared;
}

static inline struct rondo_shared_bytes *rondo_shared_bytes_get(struct rondo_shared_bytes *shared) {
  if (shared)
    shared->refs++;
  return shared;
}

static inline void rondo_shared_bytes_put(struct rondo_shared_bytes *shared) {
  if (shared && --shared->refs == 0)
    free(shared);
}

#endif // RONDO_RUNTIME_NET_SHARED_BYTES_H
