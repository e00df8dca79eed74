#include "runtime/job/registration.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static int has_member(const struct rondo_registration *p, uint32_t rank) {
  for (uint32_t i = 0; i < p->nranks; i++)
    if (p->members[i] == rank)
      return 1;
  return 0;
}

// Whether what two members of an all-to-all-v send to each other is what the other receives.
static int exchange_agrees(const struct rondo_registration *a, const struct rondo_registration *b) {
  const struct rondo_collective_desc *x = a->desc;
  const struct rondo_collective_desc *y = b->desc;
  if (!x->send_counts || !y->send_counts || a->position == b->position)
    return 1;
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
  if (a->desc->kind == RONDO_ALL_TO_ALL_V && !exchange_agrees(a, b))
    return "counts for each other";
  if (a->shape.blocks != b->shape.blocks || a->shape.chunk_elems != b->shape.chunk_elems ||
      a->shape.slot_count != b->shape.slot_count ||
      a->shape.first_sequence != b->shape.first_sequence)
    return "daemon blocks or slot size";
  return NULL;
}

// `other` is whom it is compared with.
static void describe(const struct rondo_registration *p, const struct rondo_registration *other,
                     char *text, size_t bytes) {
  const struct rondo_collective_desc *d = p->desc;
  if (d->kind == RONDO_SEND_RECV) {
    (void)snprintf(text, bytes, "rank %u: send_recv of %llu × %s from rank %u to rank %u", p->rank,
                   (unsigned long long)d->count, rondo_dtype_name(d->dtype), p->members[0],
                   p->members[p->nranks - 1]);
    return;
  }
  if (d->kind == RONDO_ALL_TO_ALL_V && d->send_counts && other->position < p->nranks) {
    (void)snprintf(text, bytes,
                   "rank %u: all_to_all_v of %s, %llu to rank %u, %llu from it, %u ranks", p->rank,
                   rondo_dtype_name(d->dtype), (unsigned long long)d->send_counts[other->position],
                   other->rank, (unsigned long long)d->recv_counts[other->position], p->nranks);
    return;
  }
  (void)snprintf(text, bytes, "rank %u: %s of %llu × %s, %s, root %u, %u ranks from rank %u",
                 p->rank, rondo_kind_name(d->kind), (unsigned long long)d->count,
                 rondo_dtype_name(d->dtype), rondo_redop_name(d->redop), d->root, p->nranks,
                 p->members[0]);
}

void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text) {
  char left[224];
  char right[224];
  describe(a, b, left, sizeof left);
  describe(b, a, right, sizeof right);
  (void)snprintf(text, RONDO_REASON_BYTES, "mismatch of id %llu in its %s: %s; %s",
                 (unsigned long long)a->desc->id, what, left, right);
  rondo_log(RONDO_LOG_ERROR, "%s", text);
}

int rondo_registration_meets(const struct rondo_registration *a,
                             const struct rondo_registration *b) {
  return a->generation == b->generation && (has_member(a, b->rank) || has_member(b, a->rank));
}
