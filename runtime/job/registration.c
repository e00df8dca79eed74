#include "runtime/job/registration.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/plan/plan_topology.h"

#define SIDE_BYTES 224u // of the text about one side of a mismatch
#define WHAT_COUNTS "counts for each other"

bool rondo_registration_has_member(const struct rondo_registration *r, uint32_t rank) {
  for (uint32_t i = 0; i < r->nranks; i++)
    if (r->members[i] == rank)
      return true;
  return false;
}

// True if two members of an all-to-all-v agree on the counts that they exchange.
static bool has_equal_counts(const struct rondo_registration *a,
                             const struct rondo_registration *b) {
  const struct rondo_collective_desc *x = a->desc;
  const struct rondo_collective_desc *y = b->desc;
  if (!x->send_counts || !y->send_counts || a->position == b->position)
    return true;
  return x->send_counts[b->position] == y->recv_counts[a->position] &&
         y->send_counts[a->position] == x->recv_counts[b->position];
}

struct rondo_descriptor rondo_registration_descriptor(const struct rondo_registration *r) {
  const bool has_plan = r->is_planned;
  return (struct rondo_descriptor){
      .count = r->desc->count,
      .kind = r->desc->kind,
      .dtype = r->desc->dtype,
      .redop = r->desc->redop,
      .root = r->desc->root,
      .nranks = r->nranks,
      .first_rank = r->members[0],
      .last_rank = r->members[r->nranks - 1],
      .blocks = r->shape.blocks,
      .chunk_elems = has_plan ? r->shape.chunk_elems : 0,
      .slot_count = has_plan ? r->shape.slot_count : 0,
      .first_sequence = r->shape.first_sequence,
      .algorithm = (uint8_t)(has_plan ? r->shape.algorithm : 0),
      .quantisation = (uint8_t)r->desc->quantisation,
      .on_loss = (uint8_t)r->desc->on_loss,
      .has_counts = r->desc->kind == RONDO_ALL_TO_ALL_V && r->desc->send_counts != NULL,
      .topology = has_plan ? rondo_plan_topology_digest(r->shape.topology) : 0};
}

const char *rondo_registration_difference(const struct rondo_registration *a,
                                          const struct rondo_registration *b) {
  const struct rondo_descriptor x = rondo_registration_descriptor(a);
  const struct rondo_descriptor y = rondo_registration_descriptor(b);
  const char *what = rondo_descriptor_difference(&x, &y);
  if (what)
    return what;
  if (memcmp(a->members, b->members, a->nranks * sizeof *a->members) != 0)
    return "group";
  return a->desc->kind == RONDO_ALL_TO_ALL_V && !has_equal_counts(a, b) ? WHAT_COUNTS : NULL;
}

// One side of an all-to-all-v: what it sends to rank `other` and expects from there.
static void counts_describe(const struct rondo_registration *of, uint32_t rank, uint32_t other,
                            const uint64_t *counts, char *text) {
  (void)snprintf(text, SIDE_BYTES,
                 "rank %u: all_to_all_v of %s, %llu to rank %u, %llu from it, %u ranks", rank,
                 rondo_dtype_name(of->desc->dtype), (unsigned long long)counts[0], other,
                 (unsigned long long)counts[1], of->nranks);
}

// Describes `r` for a comparison with `other`.
static void registration_describe(const struct rondo_registration *r,
                                  const struct rondo_registration *other, const char *what,
                                  char *text) {
  const struct rondo_collective_desc *d = r->desc;
  const struct rondo_descriptor descriptor = rondo_registration_descriptor(r);
  if (d->kind == RONDO_ALL_TO_ALL_V && d->send_counts && other->position < r->nranks) {
    const uint64_t counts[] = {d->send_counts[other->position], d->recv_counts[other->position]};
    counts_describe(r, r->rank, other->rank, counts, text);
  } else {
    rondo_descriptor_describe(&descriptor, r->rank, what, text, SIDE_BYTES);
  }
}

static void mismatch_report(const struct rondo_registration *of, const char *what,
                            const char *const *sides, char *text) {
  rondo_mismatch_describe(of->desc->id, what, sides[0], sides[1], text);
  rondo_log(RONDO_LOG_ERROR, "%s", text);
}

void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text) {
  char left[SIDE_BYTES];
  char right[SIDE_BYTES];
  registration_describe(a, b, what, left);
  registration_describe(b, a, what, right);
  mismatch_report(a, what, (const char *const[]){left, right}, text);
}

void rondo_registration_report_counts(const struct rondo_registration *r, uint32_t other,
                                      const uint64_t *theirs, char *text) {
  char left[SIDE_BYTES];
  char right[SIDE_BYTES];
  uint32_t at = 0;
  while (r->members[at] != other)
    at++;
  const uint64_t ours[] = {r->desc->send_counts[at], r->desc->recv_counts[at]};
  counts_describe(r, r->rank, other, ours, left);
  counts_describe(r, other, r->rank, theirs, right);
  mismatch_report(r, WHAT_COUNTS, (const char *const[]){left, right}, text);
}

bool rondo_registration_is_match(const struct rondo_registration *a,
                                 const struct rondo_registration *b) {
  return a->generation == b->generation &&
         (rondo_registration_has_member(a, b->rank) || rondo_registration_has_member(b, a->rank));
}
