#include "runtime/memory/pins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#define CHUNK_BYTES (UINT64_C(4) << 20)

void rondo_pins_init(struct rondo_pins *pins, struct rondo_device *device, void *base,
                     uint64_t bytes) {
  *pins = (struct rondo_pins){.device = device, .base = base, .bytes = bytes};
  pins->chunk_count = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

void rondo_pins_fini(struct rondo_pins *pins) {
  for (uint64_t i = 0; pins->chunks && i < pins->chunk_count; i++)
    if (pins->chunks[i])
      pins->device->driver->sharing->unpin(pins->device, pins->base + i * CHUNK_BYTES);
  free(pins->chunks);
  pins->chunks = NULL;
}

int rondo_pins_cover(struct rondo_pins *pins, const void *memory, uint64_t bytes, char *why) {
  uint64_t at = (uint64_t)((const char *)memory - pins->base);
  int status = RONDO_SUCCESS;
  if (!pins->chunks)
    pins->chunks = calloc(pins->chunk_count, 1);
  if (!pins->chunks) {
    snprintf(why, RONDO_WHY_BYTES, "no memory");
    return RONDO_ERR_NO_MEMORY;
  }
  for (uint64_t i = at / CHUNK_BYTES; i * CHUNK_BYTES < at + bytes && status == RONDO_SUCCESS;
       i++) {
    uint64_t begin = i * CHUNK_BYTES;
    uint64_t size = pins->bytes - begin < CHUNK_BYTES ? pins->bytes - begin : CHUNK_BYTES;
    if (pins->chunks[i])
      continue;
    status = pins->device->driver->sharing->pin(pins->device, pins->base + begin, size, why);
    pins->chunks[i] = status == RONDO_SUCCESS;
  }
  return status;
}
