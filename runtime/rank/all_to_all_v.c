// All-to-all-v: the counts and places of each rank.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "daemon/core/context_core.h"
#include "runtime/rank/coll.h"

// Limit of a part's elements and offset. Sums of such numbers do not overflow.
#define MAX_ELEMS (UINT64_C(1) << 56)

static int exchange_refuse(const char *what) {
  return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "all_to_all_v: %s", what);
}

static int exchange_refuse_memory(void) {
  return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "all_to_all_v: no memory");
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

static int exchange_check_overlap(const struct rondo_exchange *x, uint32_t n) {
  struct rondo_span *sorted = malloc(n * sizeof *sorted);
  if (!sorted)
    return exchange_refuse_memory();
  bool overlap = has_overlap(x->places + n, n, sorted);
  free(sorted);
  return overlap ? exchange_refuse("parts of the receive buffer overlap") : RONDO_SUCCESS;
}

// Fills in the places of both buffers.
static int exchange_fill(struct rondo_exchange *x, const struct rondo_collective_desc *d,
                         uint32_t n, uint32_t position) {
  uint64_t elem_bytes = rondo_dtype_bytes(d->dtype);
  uint64_t send_elems = spans_fill(x->places, x->counts, d->send_displacements, n);
  uint64_t recv_elems = spans_fill(x->places + n, x->counts + n, d->recv_displacements, n);
  if (send_elems == UINT64_MAX || recv_elems == UINT64_MAX)
    return exchange_refuse("a count or displacement is too large");
  if (x->counts[position] != x->counts[n + position])
    return exchange_refuse("the rank's counts to itself and from itself differ");
  x->send_bytes = send_elems * elem_bytes;
  x->recv_bytes = recv_elems * elem_bytes;
  x->most_elems = 0;
  for (uint32_t i = 0; i < 2 * n; i++)
    x->most_elems = x->counts[i] > x->most_elems ? x->counts[i] : x->most_elems;
  return d->recv_displacements ? exchange_check_overlap(x, n) : RONDO_SUCCESS;
}

int rondo_exchange_make(const struct rondo_collective_desc *d, uint32_t nranks, uint32_t position,
                        struct rondo_exchange **out) {
  size_t n = nranks;
  if (!d->send_counts || !d->recv_counts)
    return exchange_refuse("send_counts or recv_counts is null");
  struct rondo_exchange *x =
      malloc(sizeof *x + 2 * n * sizeof *x->places + 2 * n * sizeof *x->counts);
  if (!x)
    return exchange_refuse_memory();
  x->counts = (uint64_t *)(x->places + 2 * n);
  memcpy(x->counts, d->send_counts, n * sizeof *x->counts);
  memcpy(x->counts + n, d->recv_counts, n * sizeof *x->counts);
  int status = exchange_fill(x, d, nranks, position);
  if (status == RONDO_SUCCESS)
    *out = x;
  else
    free(x);
  return status;
}

// ------------------------------------------------------------------- blocks ---

void rondo_exchange_write(const struct rondo_exchange *x, uint32_t nranks, uint64_t source,
                          struct rondo_listed *to) {
  *to = (struct rondo_listed){.most_elems = x ? x->most_elems : 0, .source = source};
  if (x)
    memcpy(rondo_listed_places(to), x->places, 2 * (size_t)nranks * sizeof *x->places);
}

// The source of the parts of a run.
static struct rondo_listed *coll_run_parts(const struct rondo_coll *coll, uint64_t run) {
  uint64_t at = run % RONDO_DEVICE_RUNS * rondo_listed_bytes(coll->registration.nranks);
  return (struct rondo_listed *)(void *)((char *)coll->parts + at);
}

void rondo_exchange_push(const struct rondo_coll *coll, const struct rondo_run_record *record) {
  rondo_exchange_write(record->exchange, coll->registration.nranks,
                       (uint64_t)(uintptr_t)coll->parts, coll_run_parts(coll, record->number));
}

bool rondo_exchange_note_refusal(const struct rondo_coll *coll,
                                 const struct rondo_run_record *record) {
  const struct rondo_registration *r = &coll->registration;
  const struct rondo_listed *parts = coll_run_parts(coll, record->number);
  uint32_t refused = rondo_load_relaxed_u32(&parts->refused);
  if (!refused || rondo_load_relaxed_u32(&r->owner->has_refused))
    return false;
  r->owner->refusal =
      (struct rondo_refusal){.rank = coll->registration.members[refused - 1],
                             .dtype = coll->desc.dtype,
                             .told_elems = rondo_load_relaxed_u64(&parts->told_elems),
                             .expected_elems = record->exchange->counts[r->nranks + refused - 1]};
  rondo_store_release_u32(&r->owner->has_refused, 1); // R2
  return true;
}
