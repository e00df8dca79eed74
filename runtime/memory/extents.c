#include "runtime/memory/extents.h"

#include <search.h>
#include <stdlib.h>

#include "base/memory.h"

struct rondo_extent {
  struct rondo_extent *next; // of free ones
  uint64_t at, bytes;
};

static int extent_compare(const void *a, const void *b) {
  uint64_t x = ((const struct rondo_extent *)a)->at;
  uint64_t y = ((const struct rondo_extent *)b)->at;
  return x < y ? -1 : x > y;
}

void rondo_extents_init(struct rondo_extents *e) { *e = (struct rondo_extents){NULL, NULL}; }

void rondo_extents_fini(struct rondo_extents *e) {
  while (e->free) {
    struct rondo_extent *first = e->free;
    e->free = first->next;
    free(first);
  }
  tdestroy(e->allocated, free);
  e->allocated = NULL;
}

// Inserts a free piece and merges it with its free neighbours.
static void extents_insert_free(struct rondo_extents *e, struct rondo_extent *piece) {
  struct rondo_extent *before = NULL;
  struct rondo_extent **at = &e->free;
  while (*at && (*at)->at < piece->at) {
    before = *at;
    at = &(*at)->next;
  }
  struct rondo_extent *after = *at;
  piece->next = after;
  *at = piece;
  if (after && piece->at + piece->bytes == after->at) {
    piece->bytes += after->bytes;
    piece->next = after->next;
    free(after);
  }
  if (before && before->at + before->bytes == piece->at) {
    before->bytes += piece->bytes;
    before->next = piece->next;
    free(piece);
  }
}

bool rondo_extents_try_add(struct rondo_extents *e, uint64_t at, uint64_t bytes) {
  struct rondo_extent *piece = malloc(sizeof *piece);
  if (!piece)
    return false;
  piece->at = at;
  piece->bytes = bytes;
  extents_insert_free(e, piece);
  return true;
}

// Cuts a piece out of the first free extent that holds it. Null if there is none, or no memory.
static struct rondo_extent *extents_cut(struct rondo_extents *e, uint64_t bytes, uint64_t align) {
  struct rondo_extent **at = &e->free;
  while (*at && rondo_round_up((*at)->at, align) + bytes > (*at)->at + (*at)->bytes)
    at = &(*at)->next;
  struct rondo_extent *whole = *at;
  if (!whole)
    return NULL;
  uint64_t begin = rondo_round_up(whole->at, align);
  uint64_t end = whole->at + whole->bytes;
  struct rondo_extent *piece = calloc(1, sizeof *piece);
  struct rondo_extent *rest = begin + bytes < end ? calloc(1, sizeof *rest) : NULL;
  if (!piece || (!rest && begin + bytes < end)) {
    free(piece);
    free(rest);
    return NULL;
  }
  piece->at = begin;
  piece->bytes = bytes;
  if (rest) {
    rest->at = begin + bytes;
    rest->bytes = end - rest->at;
    rest->next = whole->next;
    whole->next = rest;
  }
  whole->bytes = begin - whole->at;
  if (!whole->bytes) {
    *at = whole->next;
    free(whole);
  }
  return piece;
}

bool rondo_extents_try_alloc(struct rondo_extents *e, uint64_t bytes, uint64_t align,
                             uint64_t *at) {
  struct rondo_extent *piece = extents_cut(e, bytes, align);
  if (!piece)
    return false;
  if (!tsearch(piece, &e->allocated, extent_compare)) {
    extents_insert_free(e, piece);
    return false;
  }
  *at = piece->at;
  return true;
}

static struct rondo_extent *extents_find(const struct rondo_extents *e, uint64_t at) {
  const struct rondo_extent key = {.at = at};
  struct rondo_extent *const *found = tfind(&key, &e->allocated, extent_compare);
  return found ? *found : NULL;
}

uint64_t rondo_extents_allocated_bytes(const struct rondo_extents *e, uint64_t at) {
  const struct rondo_extent *piece = extents_find(e, at);
  return piece ? piece->bytes : 0;
}

void rondo_extents_free(struct rondo_extents *e, uint64_t at) {
  struct rondo_extent *piece = extents_find(e, at);
  if (!piece)
    return;
  tdelete(piece, &e->allocated, extent_compare);
  extents_insert_free(e, piece);
}
