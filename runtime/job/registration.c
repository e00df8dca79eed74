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

const char *rondo_registration_difference(const struct rondo_registration *a,
                                          const struct rondo_registration *b) {
  if (a->desc->kind != b->desc->kind)
    return "kind";
  if (a->desc->count != b->desc->count)
    return "count";
  if (a->desc->dtype != b->desc->dtype)
    return "type";
  if (a->desc->redop != b->desc->redop)
    return "reduction";
  if (a->desc->root != b->desc->root)
    return "root";
  if (a->nranks != b->nranks || memcmp(a->members, b->members, a->nranks * sizeof *a->members) != 0)
    return "group";
  if (a->desc->kind == RONDO_ALL_TO_ALL_V && !has_equal_counts(a, b))
    return "counts for each other";
  if (a->shape.blocks != b->shape.blocks || a->shape.chunk_elems != b->shape.chunk_elems ||
      a->shape.slot_count != b->shape.slot_count ||
      a->shape.first_sequence != b->shape.first_sequence)
    return "daemon blocks or slot size";
  return NULL;
}

// Describes `r` for a comparison with `other`.
static void registration_describe(const struct rondo_registration *r,
                                  const struct rondo_registration *other, char *text,
                                  size_t bytes) {
  const struct rondo_collective_desc *d = r->desc;
  if (d->kind == RONDO_SEND_RECV) {
    (void)snprintf(text, bytes, "rank %u: send_recv of %llu × %s from rank %u to rank %u", r->rank,
                   (unsigned long long)d->count, rondo_dtype_name(d->dtype), r->members[0],
                   r->members[r->nranks - 1]);
    return;
  }
  if (d->kind == RONDO_ALL_TO_ALL_V && d->send_counts && other->position < r->nranks) {
    (void)snprintf(text, bytes,
                   "rank %u: all_to_all_v of %s, %llu to rank %u, %llu from it, %u ranks", r->rank,
                   rondo_dtype_name(d->dtype), (unsigned long long)d->send_counts[other->position],
                   other->rank, (unsigned long long)d->recv_counts[other->position], r->nranks);
    return;
  }
  (void)snprintf(text, bytes, "rank %u: %s of %llu × %s, %s, root %u, %u ranks from rank %u",
                 r->rank, rondo_kind_name(d->kind), (unsigned long long)d->count,
                 rondo_dtype_name(d->dtype), rondo_redop_name(d->redop), d->root, r->nranks,
                 r->members[0]);
}

void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text) {
  char left[224];
  char right[224];
  registration_describe(a, b, left, sizeof left);
  registration_describe(b, a, right, sizeof right);
  (void)snprintf(text, RONDO_REASON_BYTES, "mismatch of id %llu in its %s: %s; %s",
                 (unsigned long long)a->desc->id, what, left, right);
  rondo_log(RONDO_LOG_ERROR, "%s", text);
}

bool rondo_registration_is_match(const struct rondo_registration *a,
                                 const struct rondo_registration *b) {
  return a->generation == b->generation && (has_member(a, b->rank) || has_member(b, a->rank));
}
