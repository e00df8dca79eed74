#include "runtime/state/state_claim.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runtime/net/wire.h"

#define CLAIM_VERSION 1u
#define OUTCOME_VERSION 129u // of another form than any claim
#define OUTCOME_TEXT_BYTES 240u

void rondo_state_claim_encode(const struct rondo_state_claim *claim, uint8_t *bytes) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = RONDO_STATE_CLAIM_BYTES};
  memset(bytes, 0, RONDO_STATE_CLAIM_BYTES);
  rondo_wire_put_u8(&w, CLAIM_VERSION);
  rondo_wire_put_u8(&w, claim->strategy);
  rondo_wire_put_u8(&w, claim->is_partial);
  rondo_wire_put_u32(&w, claim->tensor_count);
  rondo_wire_put_u64(&w, claim->list);
  rondo_wire_put_u64(&w, claim->content);
  rondo_wire_put_u64(&w, claim->revision);
  rondo_wire_put_u64(&w, claim->digest);
  rondo_wire_put_text(&w, claim->text);
}

bool rondo_state_claim_decode(const uint8_t *bytes, struct rondo_state_claim *out) {
  struct rondo_wire_reader r = {bytes, RONDO_STATE_CLAIM_BYTES, 0};
  uint8_t version = rondo_wire_get_u8(&r);
  out->strategy = rondo_wire_get_u8(&r);
  uint8_t is_partial = rondo_wire_get_u8(&r);
  out->is_partial = is_partial;
  out->tensor_count = rondo_wire_get_u32(&r);
  out->list = rondo_wire_get_u64(&r);
  out->content = rondo_wire_get_u64(&r);
  out->revision = rondo_wire_get_u64(&r);
  out->digest = rondo_wire_get_u64(&r);
  rondo_wire_get_text(&r, out->text, sizeof out->text);
  return !r.bad && version == CLAIM_VERSION && out->strategy <= RONDO_STATE_RECEIVE_ONLY &&
         is_partial <= 1;
}

void rondo_state_outcome_encode(int status, const char *why, uint8_t *bytes) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = RONDO_STATE_CLAIM_BYTES};
  char text[OUTCOME_TEXT_BYTES];
  (void)snprintf(text, sizeof text, "%s", why);
  memset(bytes, 0, RONDO_STATE_CLAIM_BYTES);
  rondo_wire_put_u8(&w, OUTCOME_VERSION);
  rondo_wire_put_u32(&w, (uint32_t)status);
  rondo_wire_put_text(&w, text);
}

int rondo_state_outcomes_read(const uint8_t *bytes, uint32_t count, char *why) {
  char text[OUTCOME_TEXT_BYTES];
  for (uint32_t i = 0; i < count; i++) {
    struct rondo_wire_reader r = {bytes + (size_t)i * RONDO_STATE_CLAIM_BYTES,
                                  RONDO_STATE_CLAIM_BYTES, 0};
    uint8_t version = rondo_wire_get_u8(&r);
    int status = (int)rondo_wire_get_u32(&r);
    rondo_wire_get_text(&r, text, sizeof text);
    if (!r.bad && version == OUTCOME_VERSION && status == RONDO_SUCCESS)
      continue;
    bool is_malformed = r.bad || version != OUTCOME_VERSION;
    (void)snprintf(why, RONDO_REASON_BYTES, "%s",
                   is_malformed ? "what a member says of its exchange is malformed" : text);
    return is_malformed ? RONDO_ERR_INTERNAL : status;
  }
  return RONDO_SUCCESS;
}

int rondo_state_claims_read(const uint8_t *bytes, const uint32_t *ranks, uint32_t count,
                            struct rondo_state_claim *claims, char *why) {
  for (uint32_t i = 0; i < count; i++) {
    if (!rondo_state_claim_decode(bytes + (size_t)i * RONDO_STATE_CLAIM_BYTES, &claims[i])) {
      (void)snprintf(why, RONDO_REASON_BYTES, "what rank %u says of its state is malformed",
                     ranks[i]);
      return RONDO_ERR_INTERNAL;
    }
  }
  return RONDO_SUCCESS;
}

// ----------------------------------------------------------------------- words ---

// Some of the members.
typedef bool member_filter(const struct rondo_state_claim *claim,
                           const struct rondo_state_claim *like);

static bool member_has_list_of(const struct rondo_state_claim *claim,
                               const struct rondo_state_claim *like) {
  return !strcmp(claim->text, like->text);
}

static bool member_sends_only(const struct rondo_state_claim *claim,
                              const struct rondo_state_claim *like) {
  (void)like;
  return claim->strategy == RONDO_STATE_SEND_ONLY;
}

static bool member_receives_only(const struct rondo_state_claim *claim,
                                 const struct rondo_state_claim *like) {
  (void)like;
  return claim->strategy == RONDO_STATE_RECEIVE_ONLY;
}

// Receives because a call has failed, not because it asks for that.
static bool member_is_partial(const struct rondo_state_claim *claim,
                              const struct rondo_state_claim *like) {
  (void)like;
  return claim->is_partial && claim->strategy != RONDO_STATE_RECEIVE_ONLY;
}

static bool member_has_revision_of(const struct rondo_state_claim *claim,
                                   const struct rondo_state_claim *like) {
  return claim->revision == like->revision;
}

// Adds "rank 1 " or "ranks 1, 2 ", then `one` or `several`. Returns how many members there are.
static uint32_t text_add_members(struct rondo_text *t, const struct rondo_state_claims *c,
                                 member_filter *filter, const struct rondo_state_claim *like,
                                 const char *const verbs[2]) {
  uint32_t all = 0;
  uint32_t named = 0;
  for (uint32_t i = 0; i < c->count; i++)
    all += filter(&c->claims[i], like);
  if (!all)
    return 0;
  rondo_text_add(t, all == 1 ? "rank " : "ranks ");
  for (uint32_t i = 0; i < c->count; i++)
    if (filter(&c->claims[i], like))
      rondo_text_add_rank(t, named++, c->ranks[i]);
  rondo_text_add(t, " %s", verbs[all > 1]);
  return all;
}

static const char *const HAVE[2] = {"has", "have"};
static const char *const ASK_TO_SEND[2] = {"asks to send only", "ask to send only"};
static const char *const ASK_TO_RECEIVE[2] = {"asks to receive only", "ask to receive only"};
static const char *const HOLD_PART[2] = {"has only a part, of a call that failed",
                                         "have only a part, of a call that failed"};

void rondo_state_describe_lists(const struct rondo_state_claims *c, uint32_t index, char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  rondo_text_add(&t, "the states differ in tensor %u: ", index);
  for (uint32_t i = 0; i < c->count && t.left > 1; i++) {
    uint32_t first = 0;
    while (first < i && !member_has_list_of(&c->claims[first], &c->claims[i]))
      first++;
    if (first < i)
      continue;
    rondo_text_add(&t, i ? "; " : "");
    (void)text_add_members(&t, c, member_has_list_of, &c->claims[i], HAVE);
    rondo_text_add(&t, " %s", c->claims[i].text);
  }
}

// -------------------------------------------------------------------- decisions ---

static bool member_can_be_chosen(const struct rondo_state_claim *claim) {
  return claim->strategy != RONDO_STATE_RECEIVE_ONLY && !claim->is_partial;
}

bool rondo_state_lists_agree(const struct rondo_state_claims *c) {
  for (uint32_t i = 1; i < c->count; i++)
    if (c->claims[i].list != c->claims[0].list)
      return false;
  return true;
}

// Refuses claims of which none can be chosen.
static int nobody_refuse(const struct rondo_state_claims *c, char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  rondo_text_add(&t, "no member has a content for the others: ");
  uint32_t receivers = text_add_members(&t, c, member_receives_only, NULL, ASK_TO_RECEIVE);
  if (receivers && receivers < c->count)
    rondo_text_add(&t, "; ");
  (void)text_add_members(&t, c, member_is_partial, NULL, HOLD_PART);
  return RONDO_ERR_MISMATCH;
}

// Refuses a highest revision that only members have whose content cannot be chosen.
static int revision_refuse(const struct rondo_state_claims *c, const struct rondo_state_claim *top,
                           const struct rondo_state_claim *best, char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  (void)text_add_members(&t, c, member_has_revision_of, top, HAVE);
  rondo_text_add(&t, " revision %llu; no member with a content for the others has more than %llu",
                 (unsigned long long)top->revision, (unsigned long long)best->revision);
  return RONDO_ERR_MISMATCH;
}

// Finds the highest revision, and whether its content can be chosen. Writes a member that has it.
static int revision_find(const struct rondo_state_claims *c, uint32_t *newest, char *why) {
  uint32_t top = 0;
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < c->count; i++) {
    if (c->claims[i].revision > c->claims[top].revision)
      top = i;
    if (member_can_be_chosen(&c->claims[i]) &&
        (best == UINT32_MAX || c->claims[i].revision > c->claims[best].revision))
      best = i;
  }
  if (best == UINT32_MAX)
    return nobody_refuse(c, why);
  if (c->claims[top].revision > c->claims[best].revision)
    return revision_refuse(c, &c->claims[top], &c->claims[best], why);
  *newest = best;
  return RONDO_SUCCESS;
}

// Refuses a member that asks to send only, but has an older content than `newest`.
static int sender_refuse(const struct rondo_state_claims *c, uint32_t sender, uint32_t newest,
                         char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  rondo_text_add(&t, "rank %u asks to send only", c->ranks[sender]);
  if (c->claims[sender].is_partial) {
    rondo_text_add(&t, ", but %s", HOLD_PART[0]);
    return RONDO_ERR_MISMATCH;
  }
  rondo_text_add(&t, " and has revision %llu; ", (unsigned long long)c->claims[sender].revision);
  (void)text_add_members(&t, c, member_has_revision_of, &c->claims[newest], HAVE);
  rondo_text_add(&t, " revision %llu", (unsigned long long)c->claims[newest].revision);
  return RONDO_ERR_MISMATCH;
}

// Chooses the content of those that send only. `chosen` stays UINT32_MAX if there are none.
static int sender_choose(const struct rondo_state_claims *c, uint32_t newest, uint32_t *chosen,
                         char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  for (uint32_t i = 0; i < c->count; i++) {
    const struct rondo_state_claim *claim = &c->claims[i];
    if (claim->strategy != RONDO_STATE_SEND_ONLY)
      continue;
    if (claim->is_partial || claim->revision != c->claims[newest].revision)
      return sender_refuse(c, i, newest, why);
    if (*chosen == UINT32_MAX)
      *chosen = i;
    if (claim->content == c->claims[*chosen].content)
      continue;
    (void)text_add_members(&t, c, member_sends_only, NULL, ASK_TO_SEND);
    rondo_text_add(&t, ", but their contents differ");
    return RONDO_ERR_MISMATCH;
  }
  return RONDO_SUCCESS;
}

static bool member_votes_for(const struct rondo_state_claim *claim, uint64_t revision,
                             uint64_t content) {
  return member_can_be_chosen(claim) && claim->revision == revision && claim->content == content;
}

// Returns the first member whose content is the most frequent one of the revision. Takes time in
// proportion to the members and to the number of different contents.
static uint32_t frequent_choose(const struct rondo_state_claims *c, uint64_t revision) {
  uint32_t chosen = UINT32_MAX;
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    uint64_t content = c->claims[i].content;
    uint32_t first = 0;
    uint32_t votes = 0;
    while (first < i && !member_votes_for(&c->claims[first], revision, content))
      first++;
    if (first == i && member_votes_for(&c->claims[i], revision, content))
      for (uint32_t k = i; k < c->count; k++)
        votes += member_votes_for(&c->claims[k], revision, content);
    if (votes > most) {
      most = votes;
      chosen = i;
    }
  }
  return chosen;
}

int rondo_state_decide(const struct rondo_state_claims *c, struct rondo_state_verdict *verdict,
                       bool *lists_differ, char *why) {
  uint32_t newest = 0;
  uint32_t chosen = UINT32_MAX;
  *why = '\0';
  *lists_differ = !rondo_state_lists_agree(c);
  if (*lists_differ)
    return RONDO_ERR_MISMATCH;
  int status = revision_find(c, &newest, why);
  if (status == RONDO_SUCCESS)
    status = sender_choose(c, newest, &chosen, why);
  if (status != RONDO_SUCCESS)
    return status;
  uint64_t revision = c->claims[newest].revision;
  if (chosen == UINT32_MAX)
    chosen = frequent_choose(c, revision);
  const struct rondo_state_claim *source = &c->claims[chosen];
  bool has_changed = revision == 0 || source->digest != source->content;
  *verdict = (struct rondo_state_verdict){
      .source = chosen, .content = source->content, .revision = revision + has_changed};
  for (uint32_t i = 0; i < c->count; i++)
    verdict->differs |= c->claims[i].content != source->content;
  return RONDO_SUCCESS;
}
