#include "runtime/job/message.h"

#include <string.h>

#include "runtime/transport/link_binding.h"
#include <rondo/rondo.h>

// ------------------------------------------------------------------- offers ---

_Static_assert(sizeof(struct rondo_message_offers) == 112, "sent between processes");
_Static_assert(sizeof(struct rondo_message_detach) == 32, "sent between processes");

static size_t offers_bytes(const struct rondo_message_offers *head) {
  return sizeof *head + head->offer_count * sizeof(struct rondo_connector_offer);
}

size_t rondo_message_offers_bytes(const struct rondo_message_offers *head) {
  size_t count = head->descriptor.has_counts ? 2 * (size_t)head->offer_count : 0;
  return offers_bytes(head) + count * sizeof(uint64_t);
}

static bool is_sound_key(const struct rondo_agreement_key *key) {
  return key->generation > 0 && key->id.space < RONDO_SPACE_COUNT && !key->id.reserved;
}

bool rondo_message_offers_decode(const void *bytes, size_t size, uint32_t rank_count,
                                 struct rondo_offers_message *out) {
  const struct rondo_message_offers *h = bytes;
  if (size < sizeof *h || !is_sound_key(&h->key) ||
      !rondo_descriptor_is_sound(&h->descriptor, rank_count) || h->rank >= rank_count ||
      h->position >= h->descriptor.nranks || h->offer_count >= h->descriptor.nranks ||
      h->reserved || size != rondo_message_offers_bytes(h))
    return false;
  out->head = h;
  out->offers = (const struct rondo_connector_offer *)((const char *)bytes + sizeof *h);
  out->counts = NULL;
  if (h->descriptor.has_counts)
    out->counts = (const uint64_t *)((const char *)bytes + offers_bytes(h));
  for (uint32_t i = 0; i < h->offer_count; i++)
    if (out->offers[i].from >= rank_count)
      return false;
  return true;
}

// ---------------------------------------------------------------- agreement ---

_Static_assert(sizeof(struct rondo_message_entry) == 136, "sent between processes");
_Static_assert(sizeof(struct rondo_message_members) == 24, "sent between processes");
_Static_assert(sizeof(struct rondo_member_range) == 12, "sent between processes");

static bool is_rank_or_none(uint32_t rank, uint32_t rank_count) {
  return rank < rank_count || rank == UINT32_MAX;
}

static bool is_sound_entry(const struct rondo_message_entry *h, uint32_t rank_count) {
  if (!is_sound_key(&h->key) || h->facts == 0 || h->facts > RONDO_ENTRY_FACTS ||
      h->range_count > RONDO_ENTRY_RANGES || h->text_bytes > RONDO_ENTRY_TEXT_BYTES ||
      !is_rank_or_none(h->limit_culprit, rank_count) ||
      (h->limit_culprit == UINT32_MAX) != (h->limit == UINT64_MAX))
    return false;
  if (h->key.id.space == RONDO_SPACE_KEY && h->facts != RONDO_ENTRY_FAILED)
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
