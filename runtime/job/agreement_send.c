// The actions of an agreement core, and its messages.
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "runtime/job/agreement_state.h"

static bool actions_reserve(struct rondo_agreement_actions *out, size_t size) {
  if (out->count == out->capacity) {
    uint32_t capacity = out->capacity ? 2 * out->capacity : 16;
    struct rondo_agreement_action *grown = realloc(out->list, capacity * sizeof *grown);
    if (!grown)
      return false;
    out->list = grown;
    out->capacity = capacity;
  }
  if (out->byte_capacity - out->byte_count < size + 8) {
    size_t capacity = 2 * out->byte_capacity + size + 8;
    char *grown = realloc(out->bytes, capacity);
    if (!grown)
      return false;
    out->bytes = grown;
    out->byte_capacity = capacity;
  }
  return true;
}

bool rondo_agreement_emit(struct rondo_agreement *a, const struct rondo_agreement_action *action,
                          const void *bytes, size_t size) {
  struct rondo_agreement_actions *out = a->out;
  if (!actions_reserve(out, size)) {
    a->is_starved = true;
    return false;
  }
  struct rondo_agreement_action *fresh = &out->list[out->count++];
  *fresh = *action;
  fresh->at = out->byte_count;
  fresh->size = size;
  if (size)
    memcpy(out->bytes + out->byte_count, bytes, size);
  out->byte_count += (size + 7) / 8 * 8; // messages are aligned
  return true;
}

void rondo_agreement_actions_clear(struct rondo_agreement_actions *actions) {
  actions->count = 0;
  actions->byte_count = 0;
}

void rondo_agreement_actions_free(struct rondo_agreement_actions *actions) {
  free(actions->list);
  free(actions->bytes);
  *actions = (struct rondo_agreement_actions){0};
}

static bool message_emit(struct rondo_agreement *a, uint32_t process, uint32_t type,
                         enum rondo_agreement_kind kind, const void *bytes, size_t size) {
  const struct rondo_agreement_action send = {
      .type = RONDO_AGREEMENT_SEND, .process = process, .message_type = type};
  if (!rondo_agreement_emit(a, &send, bytes, size))
    return false;
  a->counters.sent[kind]++;
  a->counters.sent_bytes[kind] += size;
  return true;
}

// ------------------------------------------------------------- member lists ---

// Sends a list that is too long for an ENTRY message.
static bool list_send(struct rondo_agreement *a, const struct rondo_member_list *list,
                      uint32_t process) {
  size_t head_bytes = sizeof(struct rondo_message_members);
  char *bytes = malloc(head_bytes + RONDO_MEMBERS_RANGES * sizeof(struct rondo_member_range));
  bool is_sent = bytes != NULL;
  for (uint32_t at = 0; is_sent && at < list->nranks;) {
    struct rondo_message_members head = {.group = list->digest, .nranks = list->nranks, .at = at};
    struct rondo_member_range *ranges = (struct rondo_member_range *)(bytes + head_bytes);
    head.range_count = rondo_member_list_ranges(list, &at, ranges, RONDO_MEMBERS_RANGES);
    memcpy(bytes, &head, head_bytes);
    is_sent = message_emit(a, process, RONDO_MESSAGE_MEMBERS, RONDO_AGREEMENT_KIND_MEMBERS, bytes,
                           head_bytes + head.range_count * sizeof *ranges);
  }
  free(bytes);
  a->is_starved = a->is_starved || !is_sent;
  return is_sent;
}

// ------------------------------------------------------------------ entries ---

// An ENTRY message with all that may follow.
struct whole_entry {
  struct rondo_message_entry head;
  char rest[RONDO_ENTRY_RANGES * sizeof(struct rondo_member_range) + RONDO_ENTRY_TEXT_BYTES];
};

static void entry_write_failure(const struct rondo_agreement_entry *e,
                                struct rondo_message_entry *head) {
  head->facts = RONDO_ENTRY_FAILED;
  head->status = e->status;
  head->culprit = e->culprit;
  head->other = e->other;
}

static void entry_write(const struct rondo_agreement_entry *e, uint32_t facts,
                        struct rondo_message_entry *head) {
  *head = (struct rondo_message_entry){.key = rondo_agreement_entry_key(e),
                                       .limit = UINT64_MAX,
                                       .limit_culprit = UINT32_MAX,
                                       .other = UINT32_MAX};
  if (facts & RONDO_ENTRY_FAILED) {
    entry_write_failure(e, head);
    return;
  }
  head->facts = facts | RONDO_ENTRY_PROPOSED;
  head->rank = e->rank;
  head->descriptor = e->descriptor;
  if (!RONDO_FAULT(LIMIT_UNTOLD)) {
    head->limit = e->limit;
    head->limit_culprit = e->limit_culprit;
  }
}

// Adds the ranges of the member list if they fit. Returns false if they do not.
static bool ranges_write(const struct rondo_member_list *list, struct whole_entry *message,
                         size_t *size) {
  struct rondo_member_range ranges[RONDO_ENTRY_RANGES];
  uint32_t at = 0;
  uint32_t count = rondo_member_list_ranges(list, &at, ranges, RONDO_ENTRY_RANGES);
  if (at < list->nranks)
    return false;
  message->head.range_count = count;
  memcpy(message->rest, ranges, count * sizeof *ranges);
  *size += count * sizeof *ranges;
  return true;
}

bool rondo_agreement_entry_send(struct rondo_agreement *a, const struct rondo_agreement_entry *e,
                                uint32_t process, uint32_t facts, enum rondo_agreement_kind kind) {
  struct whole_entry message;
  size_t size = sizeof message.head;
  entry_write(e, facts, &message.head);
  bool is_new = !rondo_agreement_group_is_known(e->group, process);
  if (is_new && !ranges_write(e->group->list, &message, &size) &&
      !list_send(a, e->group->list, process))
    return false;
  if (e->text && facts & RONDO_ENTRY_FAILED) {
    size_t text_bytes = strnlen(e->text, RONDO_ENTRY_TEXT_BYTES - 1);
    memcpy((char *)&message + size, e->text, text_bytes);
    ((char *)&message)[size + text_bytes] = '\0';
    message.head.text_bytes = (uint32_t)text_bytes + 1;
    size += text_bytes + 1;
  }
  if (!message_emit(a, process, RONDO_MESSAGE_ENTRY, kind, &message, size))
    return false;
  // Without memory to note it the list goes once more.
  (void)rondo_agreement_group_note_known(e->group, process);
  return true;
}

void rondo_agreement_answer(struct rondo_agreement *a, uint32_t process,
                            const struct rondo_message_entry *about,
                            const struct rondo_agreement_failure *failure) {
  struct rondo_message_entry head = *about;
  enum rondo_agreement_kind kind = RONDO_AGREEMENT_KIND_OVER;
  head.range_count = head.text_bytes = 0;
  head.facts |= RONDO_ENTRY_OVER;
  if (failure) {
    kind = RONDO_AGREEMENT_KIND_FAILED;
    head.facts = RONDO_ENTRY_FAILED | RONDO_ENTRY_OVER;
    head.status = failure->status;
    head.culprit = failure->culprit;
    head.other = failure->other;
    head.limit = UINT64_MAX;
    head.limit_culprit = UINT32_MAX;
  }
  (void)message_emit(a, process, RONDO_MESSAGE_ENTRY, kind, &head, sizeof head);
}
