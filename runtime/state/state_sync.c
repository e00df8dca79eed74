#include "runtime/state/state_sync.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rank/rank.h"
#include "runtime/state/state_claim.h"
#include "runtime/state/state_deal.h"
#include "runtime/state/state_hash.h"
#include "runtime/state/state_meeting.h"
#include "runtime/state/state_roll.h"

#define WINDOW 8u // parcels outstanding

struct sync {
  struct rondo_meeting meeting;
  struct rondo_state *state;
  struct rondo_state_layout layout;
  rondo_block_hash *hash;
  uint64_t *hashes, *wanted; // of this member, of the chosen content: rondo_state_hash_count
  uint8_t *claim_bytes;      // of this member, then of all
  struct rondo_state_claim own, *claims;
  struct rondo_state_verdict verdict;
  uint8_t *maps;
  struct rondo_state_deal deal;
  char *staging; // WINDOW parcels
  struct rondo_ticket tickets[WINDOW];
  struct rondo_state_report report;
  bool has_written; // to tensors
};

// Writes the reason of `status`, and returns it.
__attribute__((format(printf, 3, 4))) static int sync_refuse(const struct sync *s, int status,
                                                             const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(s->meeting.why, RONDO_REASON_BYTES, format, args);
  va_end(args);
  return status;
}

static int sync_refuse_memory(const struct sync *s) {
  return sync_refuse(s, RONDO_ERR_NO_MEMORY, "no memory to synchronise %llu blocks",
                     (unsigned long long)s->layout.block_count);
}

static uint32_t sync_members(const struct sync *s) { return s->meeting.voters.count; }

// --------------------------------------------------------------------- claims ---

// Sends this member's claim, and receives all. Every member gets the same.
static int claims_exchange(struct sync *s, struct rondo_state_claims *all, bool is_first) {
  uint8_t *of_all = s->claim_bytes + RONDO_STATE_CLAIM_BYTES;
  rondo_state_claim_encode(&s->own, s->claim_bytes);
  int status = rondo_roll_call(&s->meeting, s->claim_bytes, of_all, is_first);
  if (status == RONDO_SUCCESS)
    status = rondo_state_claims_read(of_all, s->meeting.voters.ranks, sync_members(s), s->claims,
                                     s->meeting.why);
  *all = (struct rondo_state_claims){s->claims, s->meeting.voters.ranks, sync_members(s)};
  return status;
}

// The lists of the members differ. Finds the first tensor that differs, by bisection, and writes
// which one each member has. Returns RONDO_SUCCESS, or the status of a call.
static int lists_explain(struct sync *s) {
  struct rondo_state_claims all;
  uint32_t same = 0; // so many tensors are the same
  uint32_t more = 1; // so many are not
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < sync_members(s); i++)
    more = s->claims[i].tensor_count > more ? s->claims[i].tensor_count : more;
  while (more - same > 1 && status == RONDO_SUCCESS) {
    uint32_t middle = same + (more - same) / 2;
    s->own.list = rondo_state_list_digest(&s->layout, middle);
    status = claims_exchange(s, &all, false);
    if (status == RONDO_SUCCESS && rondo_state_lists_agree(&all))
      same = middle;
    else
      more = middle;
  }
  if (status != RONDO_SUCCESS)
    return status;
  const struct rondo_state_tensor *t =
      same < s->layout.tensor_count ? &s->layout.tensors[same] : NULL;
  (void)snprintf(s->own.text, sizeof s->own.text, "no such tensor");
  if (t)
    (void)snprintf(s->own.text, sizeof s->own.text, "'%s' of %llu %s", t->name,
                   (unsigned long long)t->count, rondo_dtype_name(t->dtype));
  status = claims_exchange(s, &all, false);
  if (status == RONDO_SUCCESS)
    rondo_state_describe_lists(&all, same, s->meeting.why);
  return status;
}

// ------------------------------------------------------------------ the exchange ---

// Receives the hashes of the chosen content from the source, and checks them against its claim.
static int hashes_receive(struct sync *s) {
  struct rondo_collective_desc what =
      rondo_broadcast(0, s->layout.block_count, RONDO_UINT64, s->verdict.source);
  if (s->meeting.voters.self == s->verdict.source)
    memcpy(s->wanted, s->hashes, s->layout.block_count * sizeof *s->wanted);
  int status = rondo_meeting_run(&s->meeting, s->meeting.exchange, &what, s->wanted, s->wanted);
  if (status == RONDO_SUCCESS &&
      rondo_state_hash_tree(&s->layout, s->hash, s->wanted) != s->verdict.content)
    return sync_refuse(s, RONDO_ERR_INTERNAL, "the hashes of rank %u do not fit together",
                       s->meeting.voters.ranks[s->verdict.source]);
  return status;
}

// Tells all members which blocks this one lacks, and makes its part of the deal.
static int maps_exchange(struct sync *s) {
  size_t bytes = rondo_state_map_bytes(s->layout.block_count);
  uint8_t *own = s->maps + s->meeting.voters.self * bytes;
  const struct rondo_collective_desc what = rondo_all_gather(0, bytes, RONDO_UINT8);
  for (uint64_t i = 0; i < s->layout.block_count; i++)
    if (s->hashes[i] != s->wanted[i])
      rondo_state_map_set(own, i);
  int status = rondo_meeting_run(&s->meeting, s->meeting.exchange, &what, own, s->maps);
  if (status != RONDO_SUCCESS)
    return status;
  status =
      rondo_state_deal_make(s->maps, sync_members(s), &s->layout, s->meeting.voters.self, &s->deal);
  if (status == RONDO_ERR_NO_MEMORY)
    return sync_refuse_memory(s);
  if (status != RONDO_SUCCESS)
    return sync_refuse(s, status, "no member has a block that others lack");
  return status;
}

static char *parcel_staging(const struct sync *s, size_t index) {
  return s->staging + index % WINDOW * RONDO_STATE_BLOCK_BYTES;
}

// Gives a parcel to the daemon. A parcel of one block goes from the tensor itself.
static int parcel_submit(struct sync *s, size_t index) {
  const struct rondo_state_parcel *p = &s->deal.parcels[index];
  const struct rondo_collective_desc what =
      rondo_send_recv(0, p->bytes, RONDO_UINT8, p->from, p->to);
  char *at = parcel_staging(s, index);
  struct rondo_run_args args = {NULL, at, NULL, NULL};
  if (p->from == s->meeting.voters.self) {
    const uint64_t *blocks = s->deal.blocks + p->first;
    struct rondo_state_block block = rondo_state_layout_block(&s->layout, blocks[0]);
    args = (struct rondo_run_args){p->count == 1 ? block.memory : at, NULL, NULL, NULL};
    for (uint32_t i = 0; i < p->count && p->count > 1; i++) {
      block = rondo_state_layout_block(&s->layout, blocks[i]);
      memcpy(at, block.memory, block.bytes);
      at += block.bytes;
    }
    s->report.sent_bytes += p->bytes;
  }
  return rondo_meeting_call(&s->meeting, s->meeting.exchange, &what, &args,
                            &s->tickets[index % WINDOW]);
}

// Writes the blocks of a parcel to the tensors, after a check of each.
static int parcel_unpack(struct sync *s, const struct rondo_state_parcel *p, const char *from) {
  for (uint32_t i = 0; i < p->count; i++) {
    uint64_t index = s->deal.blocks[p->first + i];
    const struct rondo_state_block block = rondo_state_layout_block(&s->layout, index);
    if (s->hash(from, block.bytes) != s->wanted[index])
      return sync_refuse(s, RONDO_ERR_MISMATCH,
                         "tensor '%s' of rank %u has changed during the call",
                         s->layout.tensors[block.tensor].name, s->meeting.voters.ranks[p->from]);
    s->has_written = true;
    memcpy(block.memory, from, block.bytes);
    s->report.received_bytes += block.bytes;
    from += block.bytes;
  }
  return RONDO_SUCCESS;
}

// Moves all parcels, with a window of them outstanding.
static int parcels_move(struct sync *s) {
  size_t submitted = 0;
  int status = RONDO_SUCCESS;
  if (!s->deal.parcel_count)
    return status;
  s->staging = malloc(WINDOW * RONDO_STATE_BLOCK_BYTES);
  if (!s->staging)
    return sync_refuse_memory(s);
  for (size_t done = 0; done < s->deal.parcel_count && status == RONDO_SUCCESS; done++) {
    while (submitted < s->deal.parcel_count && submitted < done + WINDOW && status == RONDO_SUCCESS)
      status = parcel_submit(s, submitted++);
    if (status == RONDO_SUCCESS)
      status = rondo_meeting_wait(&s->meeting, s->meeting.exchange, &s->tickets[done % WINDOW]);
    if (status == RONDO_SUCCESS && s->deal.parcels[done].to == s->meeting.voters.self)
      status = parcel_unpack(s, &s->deal.parcels[done], parcel_staging(s, done));
  }
  return status;
}

static int content_exchange(struct sync *s) {
  size_t map_bytes = rondo_state_map_bytes(s->layout.block_count);
  s->wanted = calloc(rondo_state_hash_count(&s->layout), sizeof *s->wanted);
  s->maps = calloc(sync_members(s), map_bytes);
  if (!s->wanted || !s->maps)
    return sync_refuse_memory(s);
  int status = rondo_meeting_open_exchange(&s->meeting);
  if (status != RONDO_SUCCESS)
    return sync_refuse(s, status, "%s", rondo_status_string(status));
  status = hashes_receive(s);
  if (status == RONDO_SUCCESS)
    status = maps_exchange(s);
  return status == RONDO_SUCCESS ? parcels_move(s) : status;
}

// Tells all members how the exchange has ended here. Returns how it has ended for all: with success
// only if it has on each. `is_known` is false if this member does not wait for the others.
static int outcome_agree(struct sync *s, int own, bool *is_known) {
  uint8_t *of_all = s->claim_bytes + RONDO_STATE_CLAIM_BYTES;
  char *why = s->meeting.why;
  *is_known = own != RONDO_ERR_TIMEOUT;
  if (own != RONDO_SUCCESS)
    rondo_meeting_fail_exchange(&s->meeting, own);
  if (!*is_known)
    return own;
  rondo_state_outcome_encode(own, why, s->claim_bytes);
  int status = rondo_roll_call(&s->meeting, s->claim_bytes, of_all, false);
  if (status == RONDO_ERR_CLOSED) { // a member that has succeeded is in its next call
    *why = '\0';
    return RONDO_SUCCESS;
  }
  *is_known = status == RONDO_SUCCESS;
  return *is_known ? rondo_state_outcomes_read(of_all, sync_members(s), why) : status;
}

// --------------------------------------------------------------------- the call ---

// Hashes the tensors, and makes this member's claim.
static int sync_prepare(struct sync *s) {
  uint32_t members = sync_members(s);
  int status = rondo_state_layout_init(&s->layout, s->state->tensors, s->state->tensor_count);
  if (status != RONDO_SUCCESS)
    return sync_refuse_memory(s);
  s->hashes = calloc(rondo_state_hash_count(&s->layout) + 1, sizeof *s->hashes);
  s->claim_bytes = malloc(((size_t)members + 1) * RONDO_STATE_CLAIM_BYTES);
  s->claims = calloc(members, sizeof *s->claims);
  if (!s->hashes || !s->claim_bytes || !s->claims)
    return sync_refuse_memory(s);
  rondo_state_hash_blocks(&s->layout, s->hash, s->hashes);
  s->own = (struct rondo_state_claim){
      .strategy = (uint8_t)s->state->strategy,
      .is_partial = s->state->is_partial,
      .tensor_count = s->state->tensor_count,
      .list = rondo_state_list_digest(&s->layout, s->state->tensor_count),
      .content = rondo_state_hash_tree(&s->layout, s->hash, s->hashes),
      .revision = s->state->revision,
      .digest = s->state->digest};
  return RONDO_SUCCESS;
}

// Returns the status of the call. `is_known` is false if this member cannot go on, so that the
// others must be told; true if they know.
static int sync_make(struct sync *s, bool *is_known) {
  struct rondo_state_claims all;
  bool lists_differ = false;
  *is_known = false;
  int status = sync_prepare(s);
  if (status == RONDO_SUCCESS)
    status = claims_exchange(s, &all, true);
  if (status != RONDO_SUCCESS)
    return status;
  int decided = rondo_state_decide(&all, &s->verdict, &lists_differ, s->meeting.why);
  if (lists_differ)
    status = lists_explain(s);
  *is_known = status == RONDO_SUCCESS;
  if (status != RONDO_SUCCESS || decided != RONDO_SUCCESS)
    return status == RONDO_SUCCESS ? decided : status;
  s->report.source = s->meeting.voters.ranks[s->verdict.source];
  return s->verdict.differs ? outcome_agree(s, content_exchange(s), is_known) : RONDO_SUCCESS;
}

static void sync_finish(struct sync *s, int status) {
  struct rondo_state *state = s->state;
  if (status != RONDO_SUCCESS) {
    state->is_partial |= s->has_written;
    return;
  }
  state->revision = s->verdict.revision;
  state->digest = s->verdict.content;
  state->is_partial = 0;
  s->report.revision = s->verdict.revision;
  s->report.compared_blocks = s->layout.block_count;
  s->report.senders = s->deal.senders;
}

int rondo_state_sync_rank(struct rondo_rank *rank, struct rondo_state *state, uint64_t end_ns,
                          struct rondo_state_report *report, char *why) {
  struct sync s = {.meeting = {.rank = rank, .end_ns = end_ns, .why = why},
                   .state = state,
                   .hash = rondo_block_hash_select()};
  bool is_known = false;
  int status = rondo_roll_open(&s.meeting);
  if (status != RONDO_SUCCESS)
    return status;
  status = sync_make(&s, &is_known);
  sync_finish(&s, status);
  if (status == RONDO_SUCCESS && report)
    *report = s.report;
  bool is_over = rondo_roll_close(&s.meeting, status, is_known);
  rondo_state_deal_fini(&s.deal);
  rondo_state_layout_fini(&s.layout);
  free(s.hashes);
  free(s.claims);
  if (!is_over) // a run may still use the rest
    return status;
  free(s.wanted);
  free(s.claim_bytes);
  free(s.maps);
  free(s.staging);
  return status;
}
