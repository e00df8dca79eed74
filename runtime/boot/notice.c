#include "runtime/boot/notice.h"

#include <string.h>

#include "daemon/plan/plan.h"
#include "queues/connector_core.h"
#include <rondo/rondo.h>

static size_t members_bytes(uint32_t nranks) { return ((size_t)nranks * 4 + 7) / 8 * 8; }

size_t rondo_notice_register_bytes(uint32_t nranks, uint32_t offer_count) {
  return sizeof(struct rondo_notice_register) + members_bytes(nranks) +
         offer_count * sizeof(struct rondo_offer);
}

void rondo_notice_register_encode(void *bytes, const struct rondo_notice_registration *r) {
  char *at = bytes;
  memset(at, 0, rondo_notice_register_bytes(r->head->nranks, 0));
  memcpy(at, r->head, sizeof *r->head);
  at += sizeof *r->head;
  memcpy(at, r->members, r->head->nranks * sizeof *r->members);
  at += members_bytes(r->head->nranks);
  if (r->head->offer_count)
    memcpy(at, r->offers, r->head->offer_count * sizeof *r->offers);
}

static int is_sound_head(const struct rondo_notice_register *h, uint32_t rank_count) {
  return h->kind >= 0 && h->kind < RONDO_KIND_COUNT && rondo_dtype_bytes(h->dtype) &&
         h->redop >= 0 && h->redop < RONDO_REDOP_COUNT && h->nranks > 0 &&
         h->nranks <= rank_count && h->position < h->nranks && h->root < h->nranks &&
         h->blocks > 0 && h->blocks <= RONDO_MAX_BLOCKS && h->slot_count > 0 &&
         h->slot_count <= RONDO_CONNECTOR_MAX_SLOTS && h->generation > 0 &&
         h->offer_count < h->nranks;
}

int rondo_notice_register_decode(const void *bytes, size_t size, uint32_t rank_count,
                                 struct rondo_notice_registration *r) {
  const char *at = bytes;
  const struct rondo_notice_register *h = bytes;
  if (size < sizeof *h || !is_sound_head(h, rank_count) ||
      size != rondo_notice_register_bytes(h->nranks, h->offer_count))
    return 0;
  r->head = h;
  r->members = (const uint32_t *)(at + sizeof *h);
  r->offers = (const struct rondo_offer *)(at + sizeof *h + members_bytes(h->nranks));
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
