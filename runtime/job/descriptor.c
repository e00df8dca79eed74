#include "runtime/job/descriptor.h"

#include <stdio.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "queues/connector_core.h"
#include <rondo/rondo.h>

static const char what_topology[] = "topology";
static const char what_quantisation[] = "quantisation";

bool rondo_descriptor_is_sound(const struct rondo_descriptor *d, uint32_t rank_count) {
  return d->kind >= 0 && d->kind < RONDO_KIND_COUNT && rondo_dtype_bytes(d->dtype) &&
         d->redop >= 0 && d->redop < RONDO_REDOP_COUNT && d->algorithm < RONDO_ALGORITHM_COUNT &&
         d->has_counts <= (d->kind == RONDO_ALL_TO_ALL_V) && d->on_loss <= RONDO_ON_LOSS_RETRY &&
         d->quantisation < RONDO_QUANTISATION_COUNT && d->nranks > 0 && d->nranks <= rank_count &&
         d->root < d->nranks && d->first_rank < rank_count && d->last_rank < rank_count &&
         d->blocks > 0 && d->blocks <= RONDO_MAX_BLOCKS && d->slot_count > 0 &&
         d->slot_count <= RONDO_CONNECTOR_MAX_SLOTS;
}

const char *rondo_descriptor_difference(const struct rondo_descriptor *a,
                                        const struct rondo_descriptor *b) {
  if (a->kind != b->kind)
    return "kind";
  if (a->count != b->count)
    return "count";
  if (a->dtype != b->dtype)
    return "type";
  if (a->redop != b->redop)
    return "reduction";
  if (a->root != b->root)
    return "root";
  if (a->quantisation != b->quantisation)
    return what_quantisation;
  if (a->nranks != b->nranks || a->first_rank != b->first_rank || a->last_rank != b->last_rank)
    return "group";
  if (a->topology != b->topology)
    return what_topology;
  if (a->algorithm != b->algorithm)
    return "algorithm";
  if (a->blocks != b->blocks || a->chunk_elems != b->chunk_elems ||
      a->slot_count != b->slot_count || a->first_sequence != b->first_sequence)
    return "daemon blocks or slot size";
  if (a->has_counts != b->has_counts)
    return "counts, which only one side has registered";
  if (a->on_loss != b->on_loss)
    return "setting on_loss";
  return NULL;
}

void rondo_descriptor_describe(const struct rondo_descriptor *d, uint32_t rank, const char *what,
                               char *text, size_t text_bytes) {
  char more[48] = "";
  if (what && strcmp(what, what_topology) == 0)
    (void)snprintf(more, sizeof more, ", topology %016llx", (unsigned long long)d->topology);
  if (what && strcmp(what, what_quantisation) == 0)
    (void)snprintf(more, sizeof more, ", quantisation %s",
                   rondo_quantisation_name(d->quantisation));
  if (d->kind == RONDO_SEND_RECV)
    (void)snprintf(text, text_bytes, "rank %u: send_recv of %llu × %s from rank %u to rank %u%s",
                   rank, (unsigned long long)d->count, rondo_dtype_name(d->dtype), d->first_rank,
                   d->last_rank, more);
  else
    (void)snprintf(text, text_bytes,
                   "rank %u: %s of %llu × %s, %s, root %u, %u ranks from rank %u, by %s%s", rank,
                   rondo_kind_name(d->kind), (unsigned long long)d->count,
                   rondo_dtype_name(d->dtype), rondo_redop_name(d->redop), d->root, d->nranks,
                   d->first_rank, rondo_plan_algorithm_name(d->algorithm), more);
}

void rondo_mismatch_describe(uint64_t id, const char *what, const char *left, const char *right,
                             char *text) {
  (void)snprintf(text, RONDO_REASON_BYTES, "mismatch of id %llu in its %s: %s; %s",
                 (unsigned long long)id, what, left, right);
}
