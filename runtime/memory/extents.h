// What of a stretch of addresses is idle and what is taken: the book-keeping of an allocator, which never
// looks at the memory itself.
//
//   rondo_extents_init -> add -> take / give ... -> rondo_extents_fini
//
// Numbers are distances from wherever the stretch begins. The caller sees to it that one thread is here at a time.
#ifndef RONDO_RUNTIME_MEMORY_EXTENTS_H
#define RONDO_RUNTIME_MEMORY_EXTENTS_H

#include <stdint.h>

struct rondo_extent;

struct rondo_extents {
  struct rondo_extent *idle; // in order of their places
  void *taken;               // tree (search.h), by place
};

void rondo_extents_init(struct rondo_extents *e);
void rondo_extents_fini(struct rondo_extents *e);

// `bytes` from `at` on are idle from now on. Returns 1, or 0 if memory is used up.
int rondo_extents_add(struct rondo_extents *e, uint64_t at, uint64_t bytes);

// Takes the first `bytes` on a boundary of `align` and writes their place to `at`. Returns 1, or 0 if there are
// none.
int rondo_extents_take(struct rondo_extents *e, uint64_t bytes, uint64_t align, uint64_t *at);

// How much was taken at that place; 0: nothing.
uint64_t rondo_extents_taken(const struct rondo_extents *e, uint64_t at);

// Makes what was taken at that place idle. Nothing if nothing was.
void rondo_extents_give(struct rondo_extents *e, uint64_t at);

#endif // RONDO_RUNTIME_MEMORY_EXTENTS_H
