#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/numa_node.h"
#include "daemon/driver/driver.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/pins.h"
#include "runtime/memory/pool.h"
#include "runtime/memory/range.h"

#define LEAST_BYTES UINT64_C(384) // a connector of two slots without payload
#define LEAST_SHIFT 9             // then 512 bytes: sizes are multiples of RONDO_LINE_BYTES

void rondo_pool_init(struct rondo_pool *pool, uint64_t limit_bytes, struct rondo_device *device,
                     struct rondo_arena *arena) {
  memset(pool, 0, sizeof *pool);
  pool->device = device;
  pool->arena = arena;
  pool->limit_bytes = limit_bytes;
}

static void *pool_alloc_exported(struct rondo_pool *pool, uint64_t size) {
  char why[RONDO_WHY_BYTES];
  void *memory = rondo_arena_alloc(pool->exported, size);
  if (!memory || rondo_pins_cover(pool->pins, memory, size, why) == RONDO_SUCCESS)
    return memory;
  rondo_log(RONDO_LOG_WARN, "connectors: %s", why);
  (void)rondo_arena_free(pool->exported, memory);
  return NULL;
}

static struct rondo_range *pool_range(const struct rondo_pool *pool, int kind) {
  return kind == RONDO_PLACE_WINDOW ? pool->window : pool->range;
}

// A full window is no warning: windows do not grow, and the caller uses another place.
static void *pool_alloc_from_range(const struct rondo_pool *pool, struct rondo_place at,
                                   uint64_t size) {
  char why[RONDO_WHY_BYTES];
  void *memory = rondo_range_alloc(pool_range(pool, at.kind), at.device, size, why);
  if (!memory)
    rondo_log(at.kind == RONDO_PLACE_WINDOW ? RONDO_LOG_INFO : RONDO_LOG_WARN, "connectors: %s",
              why);
  return memory;
}

static void *pool_alloc_memory(struct rondo_pool *pool, struct rondo_place at, uint64_t size) {
  if (pool->arena)
    return rondo_arena_alloc(pool->arena, size);
  if (at.kind == RONDO_PLACE_EXPORTED)
    return pool_alloc_exported(pool, size);
  if (at.kind >= RONDO_PLACE_RANGE)
    return pool_alloc_from_range(pool, at, size);
  return at.device->driver->alloc(at.device, at.kind, size);
}

static void pool_free_memory(struct rondo_pool *pool, struct rondo_place at, void *memory) {
  int is_shared = pool->arena || at.kind >= RONDO_PLACE_EXPORTED;
  // At the end a slower peer may still read shared pieces. Arena and range end as wholes later, and
  // stay intact for processes that map them.
  if (is_shared && pool->is_ending)
    return;
  if (at.kind >= RONDO_PLACE_RANGE && !pool->arena)
    (void)rondo_range_free(pool_range(pool, at.kind), memory);
  else if (is_shared)
    (void)rondo_arena_free(pool->arena ? pool->arena : pool->exported, memory);
  else
    at.device->driver->free(at.device, at.kind, memory);
}

uint64_t rondo_pool_class_bytes(uint32_t k) {
  if (k == 0)
    return LEAST_BYTES;
  return (UINT64_C(4) + (k - 1) % 4) << (LEAST_SHIFT - 2 + (k - 1) / 4);
}

uint32_t rondo_pool_class(uint64_t bytes) {
  uint32_t k = 0;
  while (k < RONDO_POOL_CLASSES - 1 && rondo_pool_class_bytes(k) < bytes)
    k++;
  return k;
}

static uint64_t shelf_bytes(const struct rondo_pool_shelf *shelf) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < RONDO_POOL_CLASSES; k++)
    for (const struct rondo_pool_piece *piece = shelf->free[k]; piece; piece = piece->next)
      bytes += rondo_pool_class_bytes(k);
  return bytes;
}

// Takes the free pieces off their shelves. Returns copies of the shelves with the pieces, for
// pool_free_shelves. Without memory for a copy its pieces stay.
static struct rondo_pool_shelf *pool_take_idle(struct rondo_pool *pool) {
  struct rondo_pool_shelf *taken = NULL;
  for (struct rondo_pool_shelf *shelf = pool->shelves; shelf; shelf = shelf->next) {
    struct rondo_pool_shelf *copy = malloc(sizeof *copy);
    if (!copy)
      break;
    *copy = *shelf;
    copy->next = taken;
    taken = copy;
    pool->held_bytes -= shelf_bytes(shelf);
    memset(shelf->free, 0, sizeof shelf->free);
  }
  return taken;
}

// Frees the pieces of shelves, and the shelves. Needs no lock.
static void pool_free_shelves(struct rondo_pool *pool, struct rondo_pool_shelf *shelves) {
  while (shelves) {
    struct rondo_pool_shelf *shelf = shelves;
    shelves = shelf->next;
    for (uint32_t k = 0; k < RONDO_POOL_CLASSES; k++) {
      while (shelf->free[k]) {
        struct rondo_pool_piece *piece = shelf->free[k];
        shelf->free[k] = piece->next;
        pool_free_memory(pool, shelf->at, piece->memory);
        free(piece);
      }
    }
    free(shelf);
  }
}

// Finds or creates the shelf of a place. Null when memory is used up.
static struct rondo_pool_shelf *pool_find_shelf(struct rondo_pool *pool, struct rondo_place at) {
  struct rondo_pool_shelf *shelf = pool->shelves;
  while (shelf &&
         (shelf->at.device != at.device || shelf->at.kind != at.kind || shelf->at.node != at.node))
    shelf = shelf->next;
  if (shelf)
    return shelf;
  shelf = calloc(1, sizeof *shelf);
  if (!shelf)
    return NULL;
  shelf->at = at;
  shelf->next = pool->shelves;
  pool->shelves = shelf;
  return shelf;
}

void rondo_pool_fini(struct rondo_pool *pool) {
  struct rondo_pool_shelf *shelves = pool->shelves;
  pool->is_ending = 1;
  pool->shelves = NULL;
  for (const struct rondo_pool_shelf *shelf = shelves; shelf; shelf = shelf->next)
    pool->held_bytes -= shelf_bytes(shelf);
  pool_free_shelves(pool, shelves);
  while (pool->spare) {
    struct rondo_pool_piece *piece = pool->spare;
    pool->spare = piece->next;
    free(piece);
  }
}

static struct rondo_pool_piece *piece_create(struct rondo_pool *pool, struct rondo_place at,
                                             uint64_t size) {
  struct rondo_pool_piece *piece = malloc(sizeof *piece);
  if (!piece)
    return NULL;
  int preferred = rondo_node_prefer(at.node);
  piece->memory = pool_alloc_memory(pool, at, size);
  rondo_node_rest(preferred);
  if (piece->memory)
    return piece;
  free(piece);
  return NULL;
}

static bool is_same_place(struct rondo_place a, struct rondo_place b) {
  return a.device == b.device && a.kind == b.kind && a.node == b.node;
}

// Asks the driver for a piece, or says in `want` that the caller has to. Null: there is none yet.
static struct rondo_pool_piece *pool_add_piece(struct rondo_pool *pool, struct rondo_place at,
                                               uint64_t size, struct rondo_pool_want *want) {
  if (!pool->device->driver->is_direct) {
    bool is_refused = want->is_refused && want->bytes == size && is_same_place(want->at, at);
    *want = is_refused ? (struct rondo_pool_want){0} : (struct rondo_pool_want){at, size, 0};
    return NULL;
  }
  if (pool->held_bytes + size > pool->limit_bytes)
    pool_free_shelves(pool, pool_take_idle(pool));
  struct rondo_pool_piece *piece = piece_create(pool, at, size);
  if (piece)
    pool->held_bytes += size;
  return piece;
}

void *rondo_pool_alloc(struct rondo_pool *pool, struct rondo_place at, uint64_t bytes,
                       uint64_t *got_bytes, struct rondo_pool_want *want) {
  uint32_t k = rondo_pool_class(bytes);
  uint64_t size = rondo_pool_class_bytes(k);
  if (bytes > size || pool->used_bytes + size > pool->limit_bytes)
    return NULL;
  struct rondo_pool_shelf *shelf = pool_find_shelf(pool, at);
  if (!shelf)
    return NULL;
  struct rondo_pool_piece *piece = shelf->free[k];
  if (piece)
    shelf->free[k] = piece->next;
  else
    piece = pool_add_piece(pool, at, size, want);
  if (!piece)
    return NULL;
  piece->next = pool->spare;
  pool->spare = piece;
  pool->used_bytes += size;
  *got_bytes = size;
  return piece->memory;
}

void rondo_pool_supply(struct rondo_pool *pool, struct rondo_pool_want *want,
                       pthread_mutex_t *lock) {
  struct rondo_place at = want->at;
  uint64_t size = want->bytes;
  struct rondo_pool_shelf *idle = NULL;
  if (pool->held_bytes + size > pool->limit_bytes)
    idle = pool_take_idle(pool);
  pool->held_bytes += size;
  pthread_mutex_unlock(lock);
  pool_free_shelves(pool, idle);
  struct rondo_pool_piece *piece = piece_create(pool, at, size);
  pthread_mutex_lock(lock);
  if (!piece) {
    pool->held_bytes -= size;
    want->is_refused = 1;
    return;
  }
  struct rondo_pool_shelf *shelf = pool_find_shelf(pool, at); // exists since the want was made
  uint32_t k = rondo_pool_class(size);
  piece->next = shelf->free[k];
  shelf->free[k] = piece;
  want->bytes = 0;
}

void rondo_pool_free(struct rondo_pool *pool, struct rondo_place at, void *memory,
                     uint64_t got_bytes) {
  struct rondo_pool_shelf *shelf =
      pool_find_shelf(pool, at); // exists: the piece was allocated from it
  struct rondo_pool_piece *piece = pool->spare;
  uint32_t k = rondo_pool_class(got_bytes);
  pool->spare = piece->next;
  piece->memory = memory;
  piece->next = shelf->free[k];
  shelf->free[k] = piece;
  pool->used_bytes -= got_bytes;
}

bool rondo_place_is_direct(struct rondo_place at) {
  bool is_device = at.kind == RONDO_MEMORY_DEVICE || at.kind >= RONDO_PLACE_RANGE;
  return !is_device || at.device->driver->is_direct;
}

int rondo_place_write(struct rondo_place at, void *to, const void *from, uint64_t bytes) {
  if (at.kind == RONDO_MEMORY_DEVICE || at.kind >= RONDO_PLACE_RANGE)
    return at.device->driver->write(at.device, (uint64_t)(uintptr_t)to, from, bytes);
  memcpy(to, from, bytes);
  return RONDO_SUCCESS;
}
