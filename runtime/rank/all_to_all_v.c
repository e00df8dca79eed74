// All-to-all-v: the counts and places of each rank.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/rank/coll.h"

// Limit of a part's elements and offset. Sums of such numbers do not overflow.
#define MAX_ELEMS (UINT64_C(1) << 56)

static int exchange_refuse(const struct rondo_coll *coll, const char *what) {
  return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: %s",
                          (unsigned long long)coll->desc.id, what);
}

// Fills in the places of one buffer. Returns the end of its last part, or UINT64_MAX if a number is
// too large.
static uint64_t spans_fill(struct rondo_span *places, const uint64_t *counts,
                           const uint64_t *displacements, uint32_t n) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; i++) {
    places[i].offset = displacements ? displacements[i] : end;
    places[i].count = counts[i];
    if (places[i].offset > MAX_ELEMS || places[i].count > MAX_ELEMS)
      return UINT64_MAX;
    uint64_t part_end = places[i].offset + places[i].count;
    end = part_end > end ? part_end : end;
  }
  return end <= MAX_ELEMS ? end : UINT64_MAX;
}

static int span_compare(const void *a, const void *b) {
  const struct rondo_span *x = a;
  const struct rondo_span *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Overlapping parts of a receive buffer would end with the data of either sender.
static bool has_overlap(const struct rondo_span *places, uint32_t n, struct rondo_span *sorted) {
  uint64_t end = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++)
    if (places[i].count)
      sorted[count++] = places[i];
  qsort(sorted, count, sizeof *sorted, span_compare);
  for (uint32_t i = 0; i < count; i++) {
    if (sorted[i].offset < end)
      return true;
    end = sorted[i].offset + sorted[i].count;
  }
  return false;
}

static int exchange_check(const struct rondo_coll *coll, const struct rondo_exchange *x) {
  uint32_t n = coll->registration.nranks;
  uint32_t self = coll->registration.position;
  if (x->send_elems == UINT64_MAX || x->recv_elems == UINT64_MAX)
    return exchange_refuse(coll, "a count or displacement is too large");
  if (x->counts[self] != x->counts[n + self])
    return exchange_refuse(coll, "the rank's counts to itself and from itself differ");
  struct rondo_span *sorted = malloc(n * sizeof *sorted);
  if (!sorted)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: no memory");
  bool overlap = has_overlap(x->places + n, n, sorted);
  free(sorted);
  return overlap ? exchange_refuse(coll, "parts of the receive buffer overlap") : RONDO_SUCCESS;
}

int rondo_exchange_copy(struct rondo_coll *coll) {
  struct rondo_collective_desc *d = &coll->desc;
  uint32_t n = coll->registration.nranks;
  if (!d->send_counts || !d->recv_counts)
    return exchange_refuse(coll, "send_counts or recv_counts of all_to_all_v is null");
  size_t places_bytes = 2 * (size_t)n * sizeof(struct rondo_span);
  struct rondo_exchange *x = malloc(sizeof *x + places_bytes + 2 * (size_t)n * sizeof *x->counts);
  if (!x)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: no memory");
  coll->exchange = x;
  x->counts = (uint64_t *)(x->places + 2 * (size_t)n);
  memcpy(x->counts, d->send_counts, n * sizeof *x->counts);
  memcpy(x->counts + n, d->recv_counts, n * sizeof *x->counts);
  x->send_elems = spans_fill(x->places, x->counts, d->send_displacements, n);
  x->recv_elems = spans_fill(x->places + n, x->counts + n, d->recv_displacements, n);
  x->max_elems = 0;
  for (uint32_t i = 0; i < 2 * n; i++)
    x->max_elems = x->counts[i] > x->max_elems ? x->counts[i] : x->max_elems;
  d->send_counts = x->counts;
  d->recv_counts = x->counts + n;
  d->send_displacements = d->recv_displacements = NULL; // the caller's; no longer needed
  return exchange_check(coll, x);
}

void rondo_exchange_set_sizes(struct rondo_coll *coll) {
  uint64_t elem_bytes = rondo_dtype_bytes(coll->desc.dtype);
  coll->send_bytes = coll->exchange->send_elems * elem_bytes;
  coll->recv_bytes = coll->exchange->recv_elems * elem_bytes;
}
