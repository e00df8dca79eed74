// The pool of connector memory of one job in this process: pieces of memory that are given back at
// deregistration and used again, within a budget. They come from the job's arena, if it has one. The caller holds the job's lock.
#ifndef RONDO_RUNTIME_MEMORY_POOL_H
#define RONDO_RUNTIME_MEMORY_POOL_H

#include <stdint.h>

#include "daemon/driver/driver.h"

struct rondo_arena;
struct rondo_pins;
struct rondo_range;

#define RONDO_POOL_CLASSES 48u

// Where a piece may be besides enum rondo_memory_kind: what peers of this machine share with devices.
enum rondo_place_kind {
  RONDO_PLACE_EXPORTED = 2, // in the arena, page-locked
  RONDO_PLACE_RANGE = 3,    // in the range
  RONDO_PLACE_WINDOW = 4    // in the window of NCCL
};

// Says of a piece where it is; a piece of device memory cannot say so itself.
struct rondo_pool_piece {
  struct rondo_pool_piece *next;
  void *memory;
};

// Where a piece lies; in an arena the node alone counts.
struct rondo_place {
  struct rondo_device *device;
  int kind; // enum rondo_memory_kind, or enum rondo_place_kind
  int node; // NUMA node of what is memory of the host; RONDO_NODE_ANY: of the thread that takes it
};

// The idle pieces of one place.
struct rondo_pool_shelf {
  struct rondo_pool_shelf *next;
  struct rondo_place at;
  struct rondo_pool_piece *idle[RONDO_POOL_CLASSES]; // by power of two
};

struct rondo_pool {
  struct rondo_device *device;  // the job's first
  struct rondo_arena *arena;    // where pieces come from; null: memory of devices
  struct rondo_arena *exported; // for RONDO_PLACE_EXPORTED
  struct rondo_pins *pins;      // ... what of it is page-locked
  struct rondo_range *range;    // for RONDO_PLACE_RANGE
  struct rondo_range *window;   // for RONDO_PLACE_WINDOW
  struct rondo_pool_shelf *shelves;
  struct rondo_pool_piece *spare; // one for each piece that is given out
  uint64_t limit_bytes;
  uint64_t used_bytes; // given out; idle pieces count too in held_bytes
  uint64_t held_bytes;
  int is_ending;
};

// Pieces are memory of devices, or of `arena` if that is not null; all of them outlive the pool.
void rondo_pool_init(struct rondo_pool *pool, uint64_t limit_bytes, struct rondo_device *device,
                     struct rondo_arena *arena);
void rondo_pool_fini(struct rondo_pool *pool);

// A piece of at least `bytes` at a place, with anything in it; its true size is written to `got_bytes`.
// Null when the budget or the machine's memory is used up.
void *rondo_pool_take(struct rondo_pool *pool, struct rondo_place at, uint64_t bytes,
                      uint64_t *got_bytes);
// `at` as it was taken.
void rondo_pool_give(struct rondo_pool *pool, struct rondo_place at, void *memory,
                     uint64_t got_bytes);

// Writes to a piece there. Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM.
int rondo_place_write(struct rondo_place at, void *to, const void *from, uint64_t bytes);

#endif // RONDO_RUNTIME_MEMORY_POOL_H
