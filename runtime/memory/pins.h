// Pins: which chunks of a range of host memory are page-locked for devices. A chunk is locked when
// it is first needed, because the range is as large as the machine's memory, and stays locked.
//
//   rondo_pins_init -> rondo_pins_cover ... -> rondo_pins_fini (before the memory is unmapped)
#ifndef RONDO_RUNTIME_MEMORY_PINS_H
#define RONDO_RUNTIME_MEMORY_PINS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/driver/driver.h"

struct rondo_pins {
  struct rondo_device *device;
  char *base;
  uint64_t bytes;
  uint8_t *chunks; // by number: 1 if page-locked, 2 while a thread page-locks it
  uint64_t chunk_count;
  pthread_mutex_t lock;    // guards `chunks`; not held while the driver page-locks
  pthread_cond_t finished; // a thread has page-locked a chunk, or failed to
};

void rondo_pins_init(struct rondo_pins *pins, struct rondo_device *device, void *base,
                     uint64_t bytes);
void rondo_pins_fini(struct rondo_pins *pins);

// True if the chunks of `bytes` at `memory` are page-locked. Any thread.
bool rondo_pins_is_covered(struct rondo_pins *pins, const void *memory, uint64_t bytes);

// Any thread; the driver may wait for the device, so the caller holds no lock.
//
// Page-locks the chunks of `bytes` at `memory`, which lie in the range. Returns RONDO_SUCCESS, or
// RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM with the reason in `why` (RONDO_WHY_BYTES).
int rondo_pins_cover(struct rondo_pins *pins, const void *memory, uint64_t bytes, char *why);

#endif // RONDO_RUNTIME_MEMORY_PINS_H
