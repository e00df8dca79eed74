#include "runtime/job/ballot.h"

#include <stdio.h>

#include "base/explore.h"
#include "base/text.h"
#include <rondo/elastic.h>

void rondo_ballot_encode(const struct rondo_ballot *ballot, uint8_t *bytes) {
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = RONDO_BALLOT_BYTES};
  memset(bytes, 0, RONDO_BALLOT_BYTES);
  rondo_wire_put_u8(&w, ballot->is_grow);
  rondo_wire_put_u32(&w, ballot->newcomers);
  rondo_wire_put_u32(&w, ballot->least);
  rondo_wire_put_u32(&w, ballot->most);
  rondo_wire_put_u8(&w, ballot->is_keeper);
  rondo_wire_put_u8(&w, ballot->status);
  rondo_wire_put_u32(&w, ballot->reserved);
  rondo_wire_put(&w, ballot->id, sizeof ballot->id);
  rondo_wire_put_text(&w, ballot->text);
}

bool rondo_ballot_decode(const uint8_t *bytes, struct rondo_ballot *out) {
  struct rondo_wire_reader r = {bytes, RONDO_BALLOT_BYTES, 0};
  uint8_t is_grow = rondo_wire_get_u8(&r);
  out->newcomers = rondo_wire_get_u32(&r);
  out->least = rondo_wire_get_u32(&r);
  out->most = rondo_wire_get_u32(&r);
  uint8_t is_keeper = rondo_wire_get_u8(&r);
  out->status = rondo_wire_get_u8(&r);
  out->reserved = rondo_wire_get_u32(&r);
  rondo_wire_get(&r, out->id, sizeof out->id);
  rondo_wire_get_text(&r, out->text, sizeof out->text);
  out->is_grow = is_grow;
  out->is_keeper = is_keeper;
  return !r.bad && is_grow <= 1 && is_keeper <= 1 && out->status <= RONDO_IN_PROGRESS &&
         out->reserved <= RONDO_MAX_RANKS && (out->newcomers != 0) == out->is_grow;
}

static void text_add_ask(struct rondo_text *t, const struct rondo_ballot *ballot) {
  if (!ballot->is_grow)
    rondo_text_add(t, " to shrink");
  else if (ballot->newcomers == RONDO_ALL_PENDING)
    rondo_text_add(t, " to admit all newcomers that wait");
  else
    rondo_text_add(t, " to admit %u newcomer%s", ballot->newcomers,
                   ballot->newcomers == 1 ? "" : "s");
  if (ballot->least || ballot->most)
    rondo_text_add(t, ", with least_ranks %u and most_ranks %u", ballot->least, ballot->most);
}

static bool ballot_asks_the_same(const struct rondo_ballot *a, const struct rondo_ballot *b) {
  return a->is_grow == b->is_grow && a->newcomers == b->newcomers && a->least == b->least &&
         a->most == b->most;
}

// True if the ballot asks for what `like` does; if that is null: if it is a keeper's.
static bool ballot_is_named(const struct rondo_ballot *ballot, const struct rondo_ballot *like) {
  return like ? ballot_asks_the_same(ballot, like) : ballot->is_keeper;
}

// Names the ranks of these ballots. Returns how many they are.
static uint32_t text_add_ranks(struct rondo_text *t, const struct rondo_ballot *ballots,
                               const uint32_t *ranks, uint32_t count,
                               const struct rondo_ballot *like) {
  uint32_t all = 0;
  uint32_t named = 0;
  for (uint32_t i = 0; i < count; i++)
    all += ballot_is_named(&ballots[i], like);
  rondo_text_add(t, all == 1 ? "rank " : "ranks ");
  for (uint32_t i = 0; i < count; i++)
    if (ballot_is_named(&ballots[i], like))
      rondo_text_add_rank(t, named++, ranks[i]);
  return all;
}

// Says who asks for what.
static void differing_describe(const struct rondo_ballot *ballots, const uint32_t *ranks,
                               uint32_t count, char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  rondo_text_add(&t, "the votes differ: ");
  for (uint32_t i = 0; i < count; i++) {
    bool is_first = true;
    for (uint32_t k = 0; k < i; k++)
      is_first &= !ballot_asks_the_same(&ballots[k], &ballots[i]);
    if (!is_first)
      continue;
    rondo_text_add(&t, i ? "; " : "");
    uint32_t asking = text_add_ranks(&t, ballots, ranks, count, &ballots[i]);
    rondo_text_add(&t, asking == 1 ? " asks" : " ask");
    text_add_ask(&t, &ballots[i]);
  }
}

static int keeper_find(const struct rondo_ballot *ballots, const uint32_t *ranks, uint32_t count,
                       uint32_t *keeper, char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  uint32_t keepers = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!ballots[i].is_keeper)
      continue;
    *keeper = i;
    keepers++;
  }
  if (keepers == 1)
    return RONDO_SUCCESS;
  if (keepers)
    (void)text_add_ranks(&t, ballots, ranks, count, NULL);
  rondo_text_add(&t, keepers ? " each pass an id of newcomers: only one member may"
                             : "no member passes the id of the newcomers");
  return RONDO_ERR_MISMATCH;
}

int rondo_ballot_check_size(const struct rondo_ballot *ballot, uint32_t count, char *why) {
  if (ballot->newcomers == RONDO_ALL_PENDING)
    return RONDO_SUCCESS;
  uint64_t ranks = (uint64_t)count + ballot->newcomers;
  bool are_many = ballot->most && ranks > ballot->most;
  if (!are_many && ranks >= ballot->least)
    return RONDO_SUCCESS;
  (void)snprintf(why, RONDO_REASON_BYTES, "the new job would have %llu rank%s, and %s_ranks is %u",
                 (unsigned long long)ranks, ranks == 1 ? "" : "s", are_many ? "most" : "least",
                 are_many ? ballot->most : ballot->least);
  return are_many ? RONDO_ERR_FULL : RONDO_ERR_PEER;
}

static int ballots_decide(const struct rondo_ballot *ballots, const uint32_t *ranks, uint32_t count,
                          uint32_t *keeper, char *why) {
  for (uint32_t i = 1; i < count; i++) {
    if (ballot_asks_the_same(&ballots[0], &ballots[i]) || RONDO_FAULT(VOTES_UNCOMPARED))
      continue;
    differing_describe(ballots, ranks, count, why);
    return RONDO_ERR_MISMATCH;
  }
  int status = keeper_find(ballots, ranks, count, keeper, why);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_ballot_check_size(&ballots[*keeper], count, why);
  if (status != RONDO_SUCCESS)
    return status;
  const struct rondo_ballot *said = &ballots[*keeper];
  status = said->status;
  if (status == RONDO_SUCCESS && said->is_grow && !said->reserved)
    status = RONDO_IN_PROGRESS;
  if (status != RONDO_SUCCESS)
    (void)snprintf(why, RONDO_REASON_BYTES, "rank %u: %s", ranks[*keeper],
                   *said->text ? said->text : "no newcomer waits");
  return status;
}

int rondo_ballots_decide(const uint8_t *ballots, const uint32_t *ranks, uint32_t count,
                         uint32_t *keeper, char *why) {
  struct rondo_ballot *decoded = calloc(count, sizeof *decoded);
  uint32_t read = 0;
  int status = RONDO_ERR_NO_MEMORY;
  (void)snprintf(why, RONDO_REASON_BYTES, "no memory for the votes");
  while (decoded && read < count &&
         rondo_ballot_decode(ballots + (size_t)read * RONDO_BALLOT_BYTES, &decoded[read]))
    read++;
  if (decoded && read < count) {
    (void)snprintf(why, RONDO_REASON_BYTES, "the vote of rank %u is malformed", ranks[read]);
    status = RONDO_ERR_INTERNAL;
  } else if (decoded) {
    status = ballots_decide(decoded, ranks, count, keeper, why);
  }
  free(decoded);
  if (status == RONDO_SUCCESS)
    *why = '\0';
  return status;
}
