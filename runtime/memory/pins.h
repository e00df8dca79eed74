// Which chunks of a stretch of host memory are page-locked for devices: locked when they are first needed, because
// the stretch is as large as the machine's memory, and until it ends.
//
//   rondo_pins_init -> rondo_pins_cover ... -> rondo_pins_fini (before the memory goes)
#ifndef RONDO_RUNTIME_MEMORY_PINS_H
#define RONDO_RUNTIME_MEMORY_PINS_H

#include <stdint.h>

#include "daemon/driver/driver.h"

struct rondo_pins {
  struct rondo_device *device;
  char *base;
  uint64_t bytes;
  uint8_t *chunks; // by number: 1 if it is locked
  uint64_t chunk_count;
};

void rondo_pins_init(struct rondo_pins *pins, struct rondo_device *device, void *base,
                     uint64_t bytes);
void rondo_pins_fini(struct rondo_pins *pins);

// Lets the devices of the process use `bytes` at `memory`, which are inside. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or
// RONDO_ERR_SYSTEM, and why.
int rondo_pins_cover(struct rondo_pins *pins, const void *memory, uint64_t bytes, char *why);

#endif // RONDO_RUNTIME_MEMORY_PINS_H
