#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rondo/elastic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/api/api_context.h"
#include "runtime/api/api_grow.h"
#include "runtime/job/admission_root.h"
#include "runtime/net/job_root.h"
#include "runtime/observe/report.h"
#include "runtime/rank/decline.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/vote.h"

#define LOSS_NS UINT64_C(2000000000)   // from the error of a run to the news of the loss behind it
#define DESTROY_NS INT64_C(1000000000) // to leave a job that not all have joined
#define SHORTEST_NS UINT64_C(1000000)  // of a join timeout
#define POLL_NS 1000000L               // pause between looks at the newcomers

static uint64_t rest_ns(uint64_t end_ns) {
  uint64_t now_ns = rondo_now_ns();
  return end_ns > now_ns ? end_ns - now_ns : 0;
}

// The time that is left, as a timeout.
static int64_t rest_timeout(uint64_t end_ns) { return (int64_t)rest_ns(end_ns); }

int rondo_id_read_key(const struct rondo_unique_id *id, struct rondo_job_key *key) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_job_address address;
  cfg.id = *id;
  cfg.rank = 1; // it makes no root
  cfg.rank_count = 2;
  int status = rondo_job_address_read(&cfg, &address);
  if (status == RONDO_SUCCESS)
    *key = address.key;
  return status;
}

// -------------------------------------------------------------------- joining ---

// Waits until all ranks of the new job have joined it, though some may be gone again.
static int joining_await(struct rondo_context ctx, int64_t timeout_ns) {
  struct rondo_rank *rank;
  struct rondo_rank_list missing = {0};
  int status = rondo_rank_pin(ctx, "join", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_await(rank, RONDO_AWAIT_JOINED, &missing, timeout_ns);
  rondo_rank_unpin(ctx);
  return status;
}

// The time for joining is that of the call that joins; afterwards it is the application's again.
static void joining_restore(struct rondo_context ctx, uint64_t join_timeout_ns) {
  struct rondo_rank *rank;
  if (rondo_rank_pin(ctx, "join", &rank) != RONDO_SUCCESS)
    return;
  rank->cfg.join_timeout_ns = join_timeout_ns;
  rondo_rank_unpin(ctx);
}

static uint64_t joining_timeout_ns(const struct rondo_config *cfg, uint64_t end_ns) {
  uint64_t left_ns = rest_ns(end_ns);
  if (left_ns > cfg->join_timeout_ns)
    left_ns = cfg->join_timeout_ns;
  return left_ns > SHORTEST_NS ? left_ns : SHORTEST_NS;
}

int rondo_joining_make(const struct rondo_joining *joining, struct rondo_context *ctx) {
  struct rondo_config cfg = *joining->cfg;
  int status = RONDO_ERR_TIMEOUT;
  cfg.id = *joining->id;
  cfg.rank = joining->rank;
  cfg.rank_count = joining->rank_count;
  cfg.join_timeout_ns = joining_timeout_ns(joining->cfg, joining->end_ns);
  int made = rondo_context_create(ctx, &cfg, NULL);
  if (made != RONDO_SUCCESS)
    return made;
  for (bool is_over = false; status == RONDO_ERR_TIMEOUT && !is_over;) {
    int64_t left_ns = rest_timeout(joining->end_ns);
    is_over = left_ns <= 0;
    status = joining_await(*ctx, left_ns < RONDO_JOIN_SLICE_NS ? left_ns : RONDO_JOIN_SLICE_NS);
    if (status == RONDO_ERR_TIMEOUT && joining->look)
      joining->look(joining->arg);
  }
  if (status == RONDO_SUCCESS)
    joining_restore(*ctx, joining->cfg->join_timeout_ns);
  else
    (void)rondo_destroy(*ctx, RONDO_DESTROY_ABORT, DESTROY_NS);
  return status;
}

// ---------------------------------------------------------------- one attempt ---

// One vote and what follows. The process of the keeper has the root of the new job.
struct attempt {
  const struct rondo_change *change;
  struct rondo_voters voters;
  struct rondo_ballot own;
  struct rondo_unique_id id; // of the new job, if this rank is the keeper
  struct rondo_job_key key;
  bool has_root, is_cancelled;
  bool is_late;     // the keeper has cancelled because the time is almost over
  bool has_counted; // the ballots of all have come
  bool has_voted;   // the vote has succeeded
  char *why;        // RONDO_REASON_BYTES
};

// Ids are sealed with the key of the job, which a job in one process does without.
static struct rondo_job_key change_key(const struct rondo_change *c) {
  struct rondo_members *members = c->rank->job->membership;
  return members ? *rondo_mesh_key(rondo_members_mesh(members)) : (struct rondo_job_key){0};
}

static bool change_is_closing(const struct rondo_change *c) {
  return rondo_load_seq_cst_u32(&c->rank->closing);
}

// How many newcomers the keeper reserves: at most `most`, and nobody if fewer than `fewest` wait.
struct span {
  uint32_t fewest, most;
};

static struct span keeper_span(const struct attempt *a) {
  const struct rondo_config *cfg = &a->change->rank->cfg;
  uint32_t members = a->voters.count;
  struct span span = {a->change->newcomers, a->change->newcomers};
  if (a->change->newcomers != RONDO_ALL_PENDING)
    return span;
  span.fewest = cfg->least_ranks > members ? cfg->least_ranks - members : 0;
  if (cfg->most_ranks)
    span.most = cfg->most_ranks > members ? cfg->most_ranks - members : 0;
  return span;
}

static void keeper_describe_few(struct attempt *a, uint32_t waiting, const char *gone) {
  bool is_all = a->change->newcomers == RONDO_ALL_PENDING;
  a->own.status = RONDO_ERR_TIMEOUT;
  (void)snprintf(a->own.text, sizeof a->own.text, "%u of %u newcomers wait%s%s%.120s", waiting,
                 keeper_span(a).fewest, is_all ? ", which least_ranks asks for" : "",
                 *gone ? "; gone: " : "", gone);
}

// Reserves the newcomers that the keeper asks for, and waits for them.
static void keeper_reserve(struct attempt *a) {
  const struct rondo_change *c = a->change;
  const struct timespec pause = {0, POLL_NS};
  const struct span span = keeper_span(a);
  uint64_t until_ns = c->end_ns - (c->end_ns - c->begin_ns) / 4;
  uint32_t waiting = 0;
  char gone[RONDO_MEMBERSHIP_TEXT_BYTES];
  (void)snprintf(gone, sizeof gone, "%s", a->own.text);
  while (rondo_admission_root_reserve(c->id, span.fewest, span.most, &a->own.reserved, &waiting)) {
    a->own.status = RONDO_SUCCESS;
    (void)snprintf(a->own.text, sizeof a->own.text, "%s",
                   span.most ? "" : "the job has as many ranks as most_ranks allows");
    if (a->own.reserved || !span.fewest)
      return;
    keeper_describe_few(a, waiting, gone);
    if (rondo_now_ns() >= until_ns || change_is_closing(c) ||
        rondo_voters_await_change(c->rank, &a->voters, 0))
      return;
    nanosleep(&pause, NULL);
  }
  a->own.status = RONDO_ERR_UNKNOWN;
  (void)snprintf(a->own.text, sizeof a->own.text,
                 "the id of the newcomers is not of its process, or has expired");
}

// Opens the root of the new job, whose id goes with the keeper's ballot.
static void keeper_listen(struct attempt *a) {
  struct rondo_config cfg = a->change->rank->cfg;
  const struct rondo_job_key old = change_key(a->change);
  cfg.join_timeout_ns = joining_timeout_ns(&a->change->rank->cfg, a->change->end_ns);
  int status = rondo_root_listen(&cfg, &rondo_members_gatherer, &a->id);
  a->own.status = (uint8_t)status;
  if (status != RONDO_SUCCESS) {
    (void)snprintf(a->own.text, sizeof a->own.text, "it cannot listen for the new job: %s",
                   rondo_status_name(status));
    return;
  }
  a->has_root = rondo_id_read_key(&a->id, &a->key) == RONDO_SUCCESS;
  rondo_unique_id_seal(&old, &a->id, a->own.id);
}

static void keeper_prepare(struct attempt *a) {
  const struct rondo_change *c = a->change;
  a->own.status = RONDO_SUCCESS;
  if (rondo_ballot_check_size(&a->own, a->voters.count, a->why) != RONDO_SUCCESS)
    return; // what all members will find
  if (c->is_grow)
    keeper_reserve(a);
  if (a->own.status == RONDO_SUCCESS && (!c->is_grow || a->own.reserved))
    keeper_listen(a);
}

// Refuses the newcomers that still wait if the members have agreed that there is no room for them.
static void keeper_refuse(const struct attempt *a, int status) {
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  uint32_t ranks = a->voters.count + (status == RONDO_SUCCESS ? a->own.reserved : 0);
  uint32_t most = a->change->rank->cfg.most_ranks;
  bool are_agreed =
      status == RONDO_SUCCESS || status == RONDO_IN_PROGRESS || status == RONDO_ERR_FULL;
  if (!most || ranks < most || !are_agreed)
    return;
  (void)snprintf(text, sizeof text, "the job has %u ranks, and most_ranks is %u", ranks, most);
  (void)rondo_admission_root_refuse(a->change->id, text);
}

// Nobody joins the new job any more. Who has joined it, or is about to, is rejected.
static void keeper_cancel(struct attempt *a, const char *text) {
  if (a->has_root && !a->is_cancelled)
    (void)rondo_members_cancel(&a->key, text);
  a->is_cancelled = true;
}

// The attempt has failed. If all ballots have come, all members know, and nobody joins: then the
// root is closed now, else it would keep a port until the time for joining is over.
static void keeper_give_up(struct attempt *a) {
  if (a->has_counted && !a->has_voted && a->has_root)
    rondo_root_close(&a->key);
  else
    keeper_cancel(a, "the members did not agree on the new job");
}

// While the keeper waits for the others: cancels if one of them cannot come any more, and before
// the others give up.
static void keeper_look(void *arg) {
  struct attempt *a = arg;
  const struct rondo_change *c = a->change;
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  uint64_t span_ns = c->end_ns - c->begin_ns;
  if (!a->has_root || a->is_cancelled)
    return;
  if (rondo_voters_await_change(c->rank, &a->voters, 0)) {
    keeper_cancel(a, "a member was lost before all had joined");
  } else if (c->is_grow && rondo_admission_root_has_lost(c->id, text)) {
    memcpy(a->own.text, text, sizeof text);
    keeper_cancel(a, "a newcomer was lost before all had joined");
  } else if (rondo_now_ns() >= c->end_ns - span_ns / 16) {
    a->is_late = true;
    keeper_cancel(a, "not all joined in time");
  }
}

// Says which members have not voted.
static void vote_describe_missing(const struct rondo_vote *vote, char *why) {
  struct rondo_text t = {why, RONDO_REASON_BYTES};
  rondo_text_add(&t, "not all members have voted in time");
  rondo_missing_describe(vote->rank, vote->coll, 1, &t);
}

// Members that exclude different ranks vote in different groups, which the reason names.
static void vote_describe_groups(const struct attempt *a) {
  char reason[RONDO_REASON_BYTES];
  memcpy(reason, a->why, sizeof reason);
  (void)snprintf(a->why, RONDO_REASON_BYTES,
                 "the votes differ in who is to stay: rank %u asks for %u ranks; %.400s",
                 a->change->rank->cfg.rank, a->voters.count, reason);
}

// Gives this rank's ballot and counts all. Returns RONDO_SUCCESS: `keeper` is the keeper's ballot.
static int attempt_vote(struct attempt *a, struct rondo_ballot *keeper) {
  const struct rondo_change *c = a->change;
  struct rondo_vote vote;
  uint8_t ballot[RONDO_BALLOT_BYTES];
  uint32_t index = 0;
  uint8_t *ballots = malloc((size_t)RONDO_BALLOT_BYTES * a->voters.count);
  int status =
      ballots ? RONDO_SUCCESS : RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "%s: no memory", c->call);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_ballot_encode(&a->own, ballot);
  status = rondo_vote_begin(c->rank, &a->voters, ballot, &vote);
  if (status == RONDO_SUCCESS)
    status = rondo_vote_await(&vote, ballots, rest_timeout(c->end_ns), a->why);
  if (status == RONDO_ERR_TIMEOUT)
    vote_describe_missing(&vote, a->why);
  if (status == RONDO_ERR_MISMATCH)
    vote_describe_groups(a);
  rondo_vote_end(&vote);
  a->has_counted = status == RONDO_SUCCESS;
  if (status == RONDO_SUCCESS)
    status = rondo_ballots_decide(ballots, a->voters.ranks, a->voters.count, &index, a->why);
  if (status == RONDO_SUCCESS)
    (void)rondo_ballot_decode(ballots + (size_t)RONDO_BALLOT_BYTES * index, keeper);
  free(ballots);
  return status;
}

// Joins the new job with the others, after a vote that has succeeded.
static int attempt_join(struct attempt *a, const struct rondo_ballot *keeper,
                        struct rondo_context *next) {
  const struct rondo_change *c = a->change;
  const struct rondo_job_key old = change_key(c);
  struct rondo_unique_id id;
  struct rondo_joining joining = {.cfg = &c->rank->cfg,
                                  .id = &id,
                                  .rank = a->voters.self,
                                  .rank_count = a->voters.count + keeper->reserved,
                                  .end_ns = c->end_ns,
                                  .look = keeper_look,
                                  .arg = a};
  if (!rondo_unique_id_unseal(&old, keeper->id, &id))
    return RONDO_LOG_REFUSE(RONDO_ERR_INTERNAL, "%s: the new job's id is of another job", c->call);
  if (a->has_root && c->is_grow) {
    struct rondo_admitted first = {.rank = a->voters.count,
                                   .rank_count = joining.rank_count,
                                   .least_ranks = c->rank->cfg.least_ranks,
                                   .most_ranks = c->rank->cfg.most_ranks};
    rondo_unique_id_seal(c->id, &id, first.id);
    (void)rondo_admission_root_admit(c->id, &first);
  }
  int status = rondo_joining_make(&joining, next);
  if (status == RONDO_ERR_PEER && a->is_late)
    status = RONDO_ERR_TIMEOUT;
  if (status != RONDO_SUCCESS)
    (void)snprintf(a->why, RONDO_REASON_BYTES, "%s",
                   status == RONDO_ERR_PEER
                       ? "a member or newcomer was lost before all had joined the new job"
                       : "not all members and newcomers have joined the new job in time");
  return status;
}

static int attempt_make(struct attempt *a, struct rondo_context *next) {
  const struct rondo_change *c = a->change;
  struct rondo_ballot keeper;
  a->own.is_grow = c->is_grow;
  a->own.newcomers = c->newcomers;
  a->own.least = c->rank->cfg.least_ranks;
  a->own.most = c->rank->cfg.most_ranks;
  a->own.is_keeper = c->is_grow ? c->id != NULL : a->voters.self == 0;
  a->own.reserved = 0;
  if (a->own.is_keeper)
    keeper_prepare(a);
  int status = attempt_vote(a, &keeper);
  a->has_voted = status == RONDO_SUCCESS;
  if (a->has_voted)
    status = attempt_join(a, &keeper, next);
  if (status != RONDO_SUCCESS)
    keeper_give_up(a);
  if (!a->own.is_keeper || !c->is_grow)
    return status;
  (void)rondo_admission_root_settle(c->id, status == RONDO_SUCCESS ? RONDO_ADMISSION_JOINED
                                           : a->is_late            ? RONDO_ADMISSION_LATE
                                                                   : RONDO_ADMISSION_AGAIN);
  keeper_refuse(a, status);
  return status;
}

// True if those that are left can vote once more: members or newcomers were lost before all had
// joined, or members before all had voted. What all ballots have decided is not voted on again.
static bool attempt_is_worth_another(const struct attempt *a, int status) {
  const struct rondo_change *c = a->change;
  uint64_t now_ns = rondo_now_ns();
  uint64_t until_ns = c->end_ns < now_ns + LOSS_NS ? c->end_ns : now_ns + LOSS_NS;
  if (status != RONDO_ERR_PEER || now_ns >= c->end_ns || change_is_closing(c))
    return false;
  if (a->has_counted)
    return a->has_voted;
  return rondo_voters_await_change(c->rank, &a->voters, until_ns);
}

// The call ends. After an error others may vote again: in this view, too, if the vote itself was no
// error but not all have joined.
static void attempt_end(const struct attempt *a, int status) {
  const struct rondo_change *c = a->change;
  if (status == RONDO_SUCCESS)
    rondo_decline_end(c->rank);
  else
    rondo_decline_begin(c->rank, &a->voters, a->has_voted, c->excluded, c->excluded_count, a->why);
}

static int change_vote(const struct rondo_change *c, struct rondo_context *next, char *why) {
  struct attempt a = {.change = c, .why = why};
  int status;
  bool again;
  do {
    status = rondo_decline_or_list(c->rank, c->excluded, c->excluded_count, &a.voters);
    if (status == RONDO_ERR_PEER)
      (void)snprintf(why, RONDO_REASON_BYTES,
                     "rank %u is no longer in its job: the others have put it out, or it cannot "
                     "reach a majority of them",
                     c->rank->cfg.rank);
    if (status != RONDO_SUCCESS)
      return status;
    a.has_root = a.is_cancelled = a.is_late = a.has_counted = a.has_voted = false;
    status = attempt_make(&a, next);
    again = attempt_is_worth_another(&a, status);
    if (!again)
      attempt_end(&a, status);
    rondo_voters_free(&a.voters);
  } while (again);
  return status;
}

int rondo_change_make(const struct rondo_change *c, struct rondo_context *next, char *why) {
  int status = rondo_voting_begin(c->rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = change_vote(c, next, why);
  rondo_voting_end(c->rank);
  return status;
}
