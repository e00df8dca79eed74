#include "runtime/memory/pins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#define CHUNK_BYTES (UINT64_C(4) << 20)

enum { CHUNK_IS_PINNED = 1, CHUNK_IS_BUSY = 2 };

void rondo_pins_init(struct rondo_pins *pins, struct rondo_device *device, void *base,
                     uint64_t bytes) {
  *pins = (struct rondo_pins){.device = device, .base = base, .bytes = bytes};
  pins->chunk_count = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
  pthread_mutex_init(&pins->lock, NULL);
  pthread_cond_init(&pins->finished, NULL);
}

void rondo_pins_fini(struct rondo_pins *pins) {
  for (uint64_t i = 0; pins->chunks && i < pins->chunk_count; i++)
    if (pins->chunks[i])
      pins->device->driver->sharing->unpin(pins->device, pins->base + i * CHUNK_BYTES);
  if (pins->base) {
    pthread_cond_destroy(&pins->finished);
    pthread_mutex_destroy(&pins->lock);
  }
  free(pins->chunks);
  *pins = (struct rondo_pins){0};
}

bool rondo_pins_is_covered(struct rondo_pins *pins, const void *memory, uint64_t bytes) {
  uint64_t at = (uint64_t)((const char *)memory - pins->base);
  pthread_mutex_lock(&pins->lock);
  bool is_covered = pins->chunks != NULL;
  for (uint64_t i = at / CHUNK_BYTES; i * CHUNK_BYTES < at + bytes && is_covered; i++)
    is_covered = pins->chunks[i] == CHUNK_IS_PINNED;
  pthread_mutex_unlock(&pins->lock);
  return is_covered;
}

// Page-locks a chunk, or waits for another thread that does so. The lock is held, and released
// meanwhile.
static int chunk_pin(struct rondo_pins *pins, uint64_t i, char *why) {
  uint64_t begin = i * CHUNK_BYTES;
  uint64_t size = pins->bytes - begin < CHUNK_BYTES ? pins->bytes - begin : CHUNK_BYTES;
  while (pins->chunks[i] == CHUNK_IS_BUSY)
    pthread_cond_wait(&pins->finished, &pins->lock);
  if (pins->chunks[i] == CHUNK_IS_PINNED)
    return RONDO_SUCCESS;
  pins->chunks[i] = CHUNK_IS_BUSY;
  pthread_mutex_unlock(&pins->lock);
  int status = pins->device->driver->sharing->pin(pins->device, pins->base + begin, size, why);
  pthread_mutex_lock(&pins->lock);
  pins->chunks[i] = status == RONDO_SUCCESS ? CHUNK_IS_PINNED : 0;
  pthread_cond_broadcast(&pins->finished);
  return status;
}

int rondo_pins_cover(struct rondo_pins *pins, const void *memory, uint64_t bytes, char *why) {
  uint64_t at = (uint64_t)((const char *)memory - pins->base);
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&pins->lock);
  if (!pins->chunks)
    pins->chunks = calloc(pins->chunk_count, 1);
  if (!pins->chunks) {
    snprintf(why, RONDO_WHY_BYTES, "no memory");
    status = RONDO_ERR_NO_MEMORY;
  }
  for (uint64_t i = at / CHUNK_BYTES; i * CHUNK_BYTES < at + bytes && status == RONDO_SUCCESS; i++)
    status = chunk_pin(pins, i, why);
  pthread_mutex_unlock(&pins->lock);
  return status;
}
