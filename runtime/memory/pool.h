// The pool: the allocator of connector memory of one job in this process. It keeps pieces that are
// freed at deregistration, and uses them again. A limit bounds all pieces. The caller holds the
// job's lock.
//
// A driver whose calls may wait for the device (`is_direct` false) allocates no memory under the
// lock. If no free piece fits, an allocation fails and says in a *want* what is missing. The caller
// supplies the want, which releases the lock meanwhile, and allocates again.
#ifndef RONDO_RUNTIME_MEMORY_POOL_H
#define RONDO_RUNTIME_MEMORY_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/driver/driver.h"

struct rondo_arena;
struct rondo_pins;
struct rondo_range;

#define RONDO_POOL_CLASSES 161u

// Sizes of pieces. There are few, so that free pieces fit later requests: one below 512 bytes, then
// four between a power of two and the next, so that at most a fifth of a piece is wasted. The class
// of `bytes` is the first that holds them, or the last one.
uint64_t rondo_pool_class_bytes(uint32_t k);
uint32_t rondo_pool_class(uint64_t bytes);

// More kinds of places for pieces, after enum rondo_memory_kind: memory that devices and peers of
// this machine share.
enum rondo_place_kind {
  RONDO_PLACE_EXPORTED = 3, // in the arena, page-locked
  RONDO_PLACE_RANGE = 4,    // in the range
  RONDO_PLACE_WINDOW = 5    // in the NCCL window
};

// Describes a piece. The description lies outside the piece, which may be device memory.
struct rondo_pool_piece {
  struct rondo_pool_piece *next;
  void *memory;
};

// Where a piece lies. Only the node matters if the pool has an arena.
struct rondo_place {
  struct rondo_device *device;
  int kind; // enum rondo_memory_kind, or enum rondo_place_kind
  int node; // NUMA node of host memory; RONDO_NODE_ANY: that of the allocating thread
};

// Memory that an allocation lacked. Zeroed: nothing.
struct rondo_pool_want {
  struct rondo_place at;
  uint64_t bytes; // size of the piece; 0: nothing is missing
  int is_refused; // the device has none: the next allocation of this size there fails for good
};

// The free pieces of one place.
struct rondo_pool_shelf {
  struct rondo_pool_shelf *next;
  struct rondo_place at;
  struct rondo_pool_piece *free[RONDO_POOL_CLASSES]; // by size
};

struct rondo_pool {
  struct rondo_device *device;  // the job's first
  struct rondo_arena *arena;    // the source of all pieces; null: the place of each piece
  struct rondo_arena *exported; // for RONDO_PLACE_EXPORTED
  struct rondo_pins *pins;      // which chunks of `exported` are page-locked
  struct rondo_range *range;    // for RONDO_PLACE_RANGE
  struct rondo_range *window;   // for RONDO_PLACE_WINDOW
  struct rondo_pool_shelf *shelves;
  struct rondo_pool_piece *spare; // one for each allocated piece
  uint64_t limit_bytes;
  uint64_t used_bytes; // allocated
  uint64_t held_bytes; // allocated or free
  int is_ending;
};

// Pieces are memory of devices, or of `arena` if it is not null. Devices and arena must outlive the
// pool.
void rondo_pool_init(struct rondo_pool *pool, uint64_t limit_bytes, struct rondo_device *device,
                     struct rondo_arena *arena);
void rondo_pool_fini(struct rondo_pool *pool);

// Allocates at least `bytes` at a place and writes the true size to `got_bytes`. The memory is not
// cleared. Null when the budget or the machine's memory is used up; or if the driver must be asked,
// which then `want` says.
void *rondo_pool_alloc(struct rondo_pool *pool, struct rondo_place at, uint64_t bytes,
                       uint64_t *got_bytes, struct rondo_pool_want *want);

// True if an allocation has to be tried again after rondo_pool_supply.
static inline bool rondo_pool_is_wanted(const struct rondo_pool_want *want) {
  return want->bytes && !want->is_refused;
}

// Asks the driver for what is missing, and adds it to the free pieces, or marks the want as
// refused. Releases `lock`, which is held, meanwhile.
void rondo_pool_supply(struct rondo_pool *pool, struct rondo_pool_want *want,
                       pthread_mutex_t *lock);
// Frees a piece; `at` and `got_bytes` are those of its allocation.
void rondo_pool_free(struct rondo_pool *pool, struct rondo_place at, void *memory,
                     uint64_t got_bytes);

// True if the CPU writes to a piece there without a call of the driver.
bool rondo_place_is_direct(struct rondo_place at);
// Copies `bytes` into a piece at a place. Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM. If the place
// is not direct, the driver may wait for the device.
int rondo_place_write(struct rondo_place at, void *to, const void *from, uint64_t bytes);

#endif // RONDO_RUNTIME_MEMORY_POOL_H
