#include "runtime/job/message.h"

#include <stdbool.h>
#include <string.h>

#include "daemon/plan/plan.h"
#include "queues/connector_core.h"
#include "runtime/transport/link_binding.h"
#include <rondo/rondo.h>

static size_t members_bytes(uint32_t nranks) { return ((size_t)nranks * 4 + 7) / 8 * 8; }

static size_t counts_bytes(uint32_t count_count) { return (size_t)count_count * sizeof(uint64_t); }

size_t rondo_message_register_bytes(const struct rondo_message_register *head) {
  return sizeof *head + members_bytes(head->nranks) + counts_bytes(head->count_count) +
         head->offer_count * sizeof(struct rondo_connector_offer);
}

void rondo_message_register_encode(void *bytes, const struct rondo_message_registration *r) {
  char *at = bytes;
  memset(at, 0, rondo_message_register_bytes(r->head));
  memcpy(at, r->head, sizeof *r->head);
  at += sizeof *r->head;
  memcpy(at, r->members, r->head->nranks * sizeof *r->members);
  at += members_bytes(r->head->nranks);
  if (r->head->count_count)
    memcpy(at, r->counts, counts_bytes(r->head->count_count));
  at += counts_bytes(r->head->count_count);
  if (r->head->offer_count)
    memcpy(at, r->offers, r->head->offer_count * sizeof *r->offers);
}

static bool is_sound_head(const struct rondo_message_register *h, uint32_t rank_count) {
  return h->kind >= 0 && h->kind < RONDO_KIND_COUNT && rondo_dtype_bytes(h->dtype) &&
         h->redop >= 0 && h->redop < RONDO_REDOP_COUNT && h->nranks > 0 &&
         h->nranks <= rank_count && h->position < h->nranks && h->root < h->nranks &&
         h->blocks > 0 && h->blocks <= RONDO_MAX_BLOCKS && h->slot_count > 0 &&
         h->slot_count <= RONDO_CONNECTOR_MAX_SLOTS && h->generation > 0 &&
         h->offer_count < h->nranks &&
         h->count_count == (h->kind == RONDO_ALL_TO_ALL_V ? 2 * h->nranks : 0);
}

int rondo_message_register_decode(const void *bytes, size_t size, uint32_t rank_count,
                                  struct rondo_message_registration *r) {
  const char *at = bytes;
  const struct rondo_message_register *h = bytes;
  if (size < sizeof *h || !is_sound_head(h, rank_count) || size != rondo_message_register_bytes(h))
    return 0;
  r->head = h;
  r->members = (const uint32_t *)(at + sizeof *h);
  at += sizeof *h + members_bytes(h->nranks);
  r->counts = (const uint64_t *)at;
  r->offers = (const struct rondo_connector_offer *)(at + counts_bytes(h->count_count));
  for (uint32_t i = 0; i < h->nranks; i++)
    if (r->members[i] >= rank_count)
      return 0;
  if (r->members[h->position] != h->rank)
    return 0;
  for (uint32_t i = 0; i < h->offer_count; i++)
    if (r->offers[i].from >= h->nranks)
      return 0;
  return 1;
}
