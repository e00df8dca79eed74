#include "runtime/job/registration.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static bool has_member(const struct rondo_registration *r, uint32_t rank) {
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
  return (struct rondo_descriptor){.count = r->desc->count,
                                   .kind = r->desc->kind,
                                   .dtype = r->desc->dtype,
                                   .redop = r->desc->redop,
                                   .root = r->desc->root,
                                   .nranks = r->nranks,
                                   .first_rank = r->members[0],
                                   .last_rank = r->members[r->nranks - 1],
                                   .blocks = r->shape.blocks,
                                   .chunk_elems = r->shape.chunk_elems,
                                   .slot_count = r->shape.slot_count,
                                   .first_sequence = r->shape.first_sequence};
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
  return a->desc->kind == RONDO_ALL_TO_ALL_V && !has_equal_counts(a, b) ? "counts for each other"
                                                                        : NULL;
}

// Describes `r` for a comparison with `other`.
static void registration_describe(const struct rondo_registration *r,
                                  const struct rondo_registration *other, char *text,
                                  size_t bytes) {
  const struct rondo_collective_desc *d = r->desc;
  const struct rondo_descriptor descriptor = rondo_registration_descriptor(r);
  if (d->kind == RONDO_ALL_TO_ALL_V && d->send_counts && other->position < r->nranks)
    (void)snprintf(text, bytes,
                   "rank %u: all_to_all_v of %s, %llu to rank %u, %llu from it, %u ranks", r->rank,
                   rondo_dtype_name(d->dtype), (unsigned long long)d->send_counts[other->position],
                   other->rank, (unsigned long long)d->recv_counts[other->position], r->nranks);
  else
    rondo_descriptor_describe(&descriptor, r->rank, text, bytes);
}

void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text) {
  char left[224];
  char right[224];
  registration_describe(a, b, left, sizeof left);
  registration_describe(b, a, right, sizeof right);
  rondo_mismatch_describe(a->desc->id, what, left, right, text);
  rondo_log(RONDO_LOG_ERROR, "%s", text);
}

bool rondo_registration_is_match(const struct rondo_registration *a,
                                 const struct rondo_registration *b) {
  return a->generation == b->generation && (has_member(a, b->rank) || has_member(b, a->rank));
}
