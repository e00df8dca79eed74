#include "runtime/job/message.h"

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

// ---------------------------------------------------------------- agreement ---

_Static_assert(sizeof(struct rondo_message_entry) == 128, "sent between processes");
_Static_assert(sizeof(struct rondo_message_members) == 24, "sent between processes");
_Static_assert(sizeof(struct rondo_member_range) == 12, "sent between processes");

static bool is_rank_or_none(uint32_t rank, uint32_t rank_count) {
  return rank < rank_count || rank == UINT32_MAX;
}

static bool is_sound_entry(const struct rondo_message_entry *h, uint32_t rank_count) {
  if (h->key.generation == 0 || h->key.id.space > RONDO_SPACE_COMM || h->key.id.reserved ||
      h->facts == 0 || h->facts > RONDO_ENTRY_FACTS || h->range_count > RONDO_ENTRY_RANGES ||
      h->text_bytes > RONDO_ENTRY_TEXT_BYTES || !is_rank_or_none(h->limit_culprit, rank_count) ||
      (h->limit_culprit == UINT32_MAX) != (h->limit == UINT64_MAX))
    return false;
  if (h->facts & RONDO_ENTRY_FAILED)
    return (h->facts & ~(uint32_t)RONDO_ENTRY_OVER) == RONDO_ENTRY_FAILED &&
           h->status > RONDO_SUCCESS && h->status < RONDO_IN_PROGRESS && h->culprit < rank_count &&
           is_rank_or_none(h->other, rank_count);
  return h->facts & RONDO_ENTRY_PROPOSED && !h->text_bytes && h->rank < rank_count &&
         rondo_descriptor_is_sound(&h->descriptor, rank_count);
}

bool rondo_message_entry_decode(const void *bytes, size_t size, uint32_t rank_count,
                                struct rondo_entry_message *out) {
  if (size < sizeof out->head)
    return false;
  memcpy(&out->head, bytes, sizeof out->head);
  const struct rondo_message_entry *h = &out->head;
  if (!is_sound_entry(h, rank_count) ||
      size != sizeof *h + h->range_count * sizeof *out->ranges + h->text_bytes)
    return false;
  const char *at = (const char *)bytes + sizeof *h;
  out->ranges = (const struct rondo_member_range *)at;
  out->text = h->text_bytes ? at + h->range_count * sizeof *out->ranges : "";
  return !h->text_bytes || memchr(out->text, '\0', h->text_bytes) == out->text + h->text_bytes - 1;
}

bool rondo_message_members_decode(const void *bytes, size_t size, uint32_t rank_count,
                                  struct rondo_message_members *out,
                                  const struct rondo_member_range **ranges) {
  if (size < sizeof *out)
    return false;
  memcpy(out, bytes, sizeof *out);
  *ranges = (const struct rondo_member_range *)((const char *)bytes + sizeof *out);
  return out->nranks > 0 && out->nranks <= rank_count && out->at < out->nranks &&
         out->range_count > 0 && out->range_count <= RONDO_MEMBERS_RANGES && out->reserved == 0 &&
         size == sizeof *out + out->range_count * sizeof **ranges;
}
