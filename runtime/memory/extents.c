#include "runtime/memory/extents.h"

#include <search.h>
#include <stdlib.h>

struct rondo_extent {
  struct rondo_extent *next; // idle ones only
  uint64_t at, bytes;
};

static int compare(const void *a, const void *b) {
  uint64_t x = ((const struct rondo_extent *)a)->at;
  uint64_t y = ((const struct rondo_extent *)b)->at;
  return x < y ? -1 : x > y;
}

static uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

void rondo_extents_init(struct rondo_extents *e) { *e = (struct rondo_extents){NULL, NULL}; }

void rondo_extents_fini(struct rondo_extents *e) {
  while (e->idle) {
    struct rondo_extent *first = e->idle;
    e->idle = first->next;
    free(first);
  }
  tdestroy(e->taken, free);
  e->taken = NULL;
}

// Puts a piece in its place, one with its idle neighbours.
static void join(struct rondo_extents *e, struct rondo_extent *piece) {
  struct rondo_extent *before = NULL;
  struct rondo_extent **at = &e->idle;
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

int rondo_extents_add(struct rondo_extents *e, uint64_t at, uint64_t bytes) {
  struct rondo_extent *piece = malloc(sizeof *piece);
  if (!piece)
    return 0;
  piece->at = at;
  piece->bytes = bytes;
  join(e, piece);
  return 1;
}

// Cuts a piece out of the first idle extent that has it.
static struct rondo_extent *cut(struct rondo_extents *e, uint64_t bytes, uint64_t align) {
  struct rondo_extent **at = &e->idle;
  while (*at && round_up((*at)->at, align) + bytes > (*at)->at + (*at)->bytes)
    at = &(*at)->next;
  struct rondo_extent *whole = *at;
  if (!whole)
    return NULL;
  uint64_t begin = round_up(whole->at, align);
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

int rondo_extents_take(struct rondo_extents *e, uint64_t bytes, uint64_t align, uint64_t *at) {
  struct rondo_extent *piece = cut(e, bytes, align);
  if (!piece)
    return 0;
  if (!tsearch(piece, &e->taken, compare)) {
    join(e, piece);
    return 0;
  }
  *at = piece->at;
  return 1;
}

static struct rondo_extent *find(const struct rondo_extents *e, uint64_t at) {
  const struct rondo_extent key = {.at = at};
  struct rondo_extent *const *found = tfind(&key, &e->taken, compare);
  return found ? *found : NULL;
}

uint64_t rondo_extents_taken(const struct rondo_extents *e, uint64_t at) {
  const struct rondo_extent *piece = find(e, at);
  return piece ? piece->bytes : 0;
}

void rondo_extents_give(struct rondo_extents *e, uint64_t at) {
  struct rondo_extent *piece = find(e, at);
  if (!piece)
    return;
  tdelete(piece, &e->taken, compare);
  join(e, piece);
}
