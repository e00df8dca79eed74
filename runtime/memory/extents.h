// Extents: which parts of a range of offsets are free and which are allocated. The book-keeping of
// an allocator; it never touches the memory itself.
//
//   rondo_extents_init -> add -> alloc / free ... -> rondo_extents_fini
//
// One thread at a time.
#ifndef RONDO_RUNTIME_MEMORY_EXTENTS_H
#define RONDO_RUNTIME_MEMORY_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

struct rondo_extent;

struct rondo_extents {
  struct rondo_extent *free; // list in order of offsets
  void *allocated;           // tree (search.h) by offset
};

void rondo_extents_init(struct rondo_extents *e);
void rondo_extents_fini(struct rondo_extents *e);

// Adds `bytes` at offset `at` as free. False if memory is used up.
bool rondo_extents_try_add(struct rondo_extents *e, uint64_t at, uint64_t bytes);

// Allocates the first free `bytes` that are aligned to `align` and writes their offset to `at`.
// False if there are none.
bool rondo_extents_try_alloc(struct rondo_extents *e, uint64_t bytes, uint64_t align, uint64_t *at);

// Returns how many bytes are allocated at `at`; 0: nothing starts there.
uint64_t rondo_extents_allocated_bytes(const struct rondo_extents *e, uint64_t at);

// Frees what is allocated at `at`. Does nothing if nothing starts there.
void rondo_extents_free(struct rondo_extents *e, uint64_t at);

#endif // RONDO_RUNTIME_MEMORY_EXTENTS_H
