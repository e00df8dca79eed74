// Explores jobs whose members change: members vote and join a new job together with newcomers,
// while processes of both die, by seed. Everything that decides is the library's: ballots
// (ballot.h), newcomers (admission.h) and the gathering of the new job (gather.h). What a member
// does between them follows runtime/api/api_grow_change.c.
//
//   test_grow --seeds N [--first N] [--fault NAME]
//
// With a fault the first finding must be the one that the table below names.
//
// Checked: all members that live come to the same end. If one is in the new job, so are all others
// that live, with the newcomers that the job names; no member stays behind or waits for ever. If
// their votes differ, all get an error. One that votes again gets the error of those whose call has
// ended as RONDO_ERR_ABORTED. There are no time-outs: the library's calls may end
// differently on members whose time ends at different moments (include/rondo/elastic.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "runtime/job/admission.h"
#include "runtime/job/ballot.h"
#include "runtime/job/gather.h"
#include "tests/explore/random.h"
#include "tests/explore/seeds.h"
#include <rondo/rondo.h>

#define MEMBERS 5u
#define NODES 9u // members, then newcomers
#define MOST_VOTES 400u
#define MOST_STEPS 20000u
#define NOBODY UINT32_MAX

int rondo_fault_planted;
void rondo_explore_point(const char *name) { (void)name; }
void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first,
                                 uint64_t second) {
  (void)name, (void)pair, (void)first, (void)second;
}

// Findings.
#define WAITS_FOR_OTHERS "a member waits for the votes of others, which do not vote"
#define WAITS_FOR_NEWCOMERS "a member waits for newcomers, though enough have asked"
#define WAITS_FOR_ROSTER "a member waits for a roster, which does not come"
#define DIFFERING "votes that differ have succeeded"

static const struct explore_fault faults[] = {
    {"cancelled_late", RONDO_FAULT_CANCELLED_LATE, WAITS_FOR_OTHERS},
    {"cancel_forgotten", RONDO_FAULT_CANCEL_FORGOTTEN, WAITS_FOR_ROSTER},
    {"newcomers_forgotten", RONDO_FAULT_NEWCOMERS_FORGOTTEN, WAITS_FOR_NEWCOMERS},
    {"votes_uncompared", RONDO_FAULT_VOTES_UNCOMPARED, DIFFERING},
};

// A member: IDLE -> VOTES -> (BEREFT: its vote has met a death -> IDLE) -> JOINS -> IN, or ENDED by
// an error. A newcomer: IDLE -> WAITS -> JOINS -> IN or WAITS; ENDED without the keeper of its id.
enum phase { IDLE, VOTES, BEREFT, WAITS, JOINS, IN, ENDED };

struct node {
  bool is_dead;
  uint8_t phase;
  uint8_t status;            // of ENDED
  uint32_t view;             // how many losses it knows of
  uint32_t voted_by;         // the view of its vote
  uint32_t declined_by;      // of ENDED: the view of its last vote, or in which it has declined
  uint32_t times[NODES + 1]; // votes by view
  uint32_t vote;             // number of the vote, and of the new job
  uint32_t rank;             // in the new job
  bool has_asked;            // it has sent its JOIN
  bool is_rejected;          // and gets a REJECTED
  bool is_known_dead;        // to the admission
};

// The n-th vote of those that know of the same losses, and the job that it makes.
struct vote {
  uint32_t view, times, voters, ballots_given; // the last two: a bit a node
  uint8_t ballots[NODES][RONDO_BALLOT_BYTES];
  uint32_t keeper; // node
  struct rondo_gather *gather;
  bool is_made, is_cancelled;
  bool is_declined;        // by a member whose call has ended
  uint32_t named, holders; // a bit a node: in the roster, has it
  uint32_t given;          // node to which the root has given the roster last
};

struct world {
  struct random random;
  uint32_t members, nodes, newcomers; // newcomers: that are wanted
  uint32_t crashes, cuts;             // that may still happen; cuts: of connections to a root
  uint32_t keeper;                    // of the newcomers' id; NOBODY in a shrink
  uint32_t dissenter;                 // the member that asks for something else, or NOBODY
  struct node n[NODES];
  uint32_t losses[NODES], loss_count; // members that the old job has lost, in the order of epochs
  struct rondo_admission *admission;
  struct vote votes[MOST_VOTES];
  uint32_t vote_count;
  char finding[EXPLORE_FINDING_BYTES];
};

static bool is_bit(uint32_t bits, uint32_t i) { return bits >> i & 1; }
static bool is_member(const struct world *w, uint32_t i) { return i < w->members; }

static bool keeper_lives(const struct world *w) {
  return w->keeper != NOBODY && !w->n[w->keeper].is_dead;
}

static void world_fail(struct world *w, const char *text, uint32_t node) {
  if (!*w->finding)
    (void)snprintf(w->finding, sizeof w->finding, "node %u: %s", node, text);
}

// The members that are left when the first `view` losses are known.
static uint32_t voters_of(const struct world *w, uint32_t view) {
  uint32_t voters = (1u << w->members) - 1;
  for (uint32_t i = 0; i < view; i++)
    voters &= ~(1u << w->losses[i]);
  return voters;
}

static uint32_t position_of(uint32_t bits, uint32_t node) {
  return (uint32_t)__builtin_popcount(bits & ((1u << node) - 1));
}

// ------------------------------------------------------------------------- votes ---

static struct vote *vote_find(struct world *w, uint32_t view, uint32_t times) {
  for (uint32_t i = 0; i < w->vote_count; i++)
    if (w->votes[i].view == view && w->votes[i].times == times)
      return &w->votes[i];
  if (w->vote_count == MOST_VOTES) {
    world_fail(w, "the members vote without end", 0);
    return &w->votes[0];
  }
  struct vote *v = &w->votes[w->vote_count++];
  *v = (struct vote){.view = view, .times = times, .voters = voters_of(w, view), .keeper = NOBODY};
  return v;
}

static bool can_reserve(const struct world *w) {
  return rondo_admission_pending(w->admission) >= w->newcomers;
}

// True if no more newcomers can come: the library's call waits for a while.
static bool is_short(const struct world *w) {
  uint32_t left = 0;
  for (uint32_t i = w->members; i < w->nodes; i++)
    left += !w->n[i].is_dead || (w->n[i].phase != IDLE && !w->n[i].is_known_dead);
  return left < w->newcomers;
}

static void keeper_prepare(struct world *w, struct vote *v, uint32_t node, struct rondo_ballot *b) {
  b->is_keeper = true;
  b->reserved = b->is_grow ? b->newcomers : 0;
  if (b->is_grow && !rondo_admission_reserve(w->admission, b->newcomers, b->newcomers)) {
    b->status = RONDO_ERR_TIMEOUT;
    b->reserved = 0;
  }
  v->keeper = node;
  if (b->status == RONDO_SUCCESS)
    v->gather = rondo_gather_create(UINT64_MAX / 2, false);
}

static void member_vote(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  struct vote *v = vote_find(w, n->view, ++n->times[n->view]);
  bool dissents = i == w->dissenter && __builtin_popcount(v->voters) > 1;
  bool is_grow = (w->keeper != NOBODY) != dissents;
  struct rondo_ballot ballot = {.is_grow = is_grow, .newcomers = is_grow ? w->newcomers : 0};
  if (is_grow ? i == w->keeper : position_of(v->voters, i) == 0)
    keeper_prepare(w, v, i, &ballot);
  rondo_ballot_encode(&ballot, v->ballots[position_of(v->voters, i)]);
  v->ballots_given |= 1u << i;
  n->vote = (uint32_t)(v - w->votes);
  n->voted_by = n->view;
  n->phase = VOTES;
  n->has_asked = n->is_rejected = false;
}

// Ends the gathering of a vote unless the roster is made, and rejects those that have asked, as the
// root does (runtime/net/job_root.c).
static void vote_cancel(struct world *w, struct vote *v, const char *text) {
  if (!v->gather || v->is_cancelled || !rondo_gather_cancel(v->gather, text))
    return;
  v->is_cancelled = true;
  for (uint32_t k = 0; k < w->nodes; k++)
    if (w->n[k].phase == JOINS && &w->votes[w->n[k].vote] == v && w->n[k].has_asked)
      w->n[k].is_rejected = true;
}

// A rejected keeper ends what it has prepared.
static void member_settle(struct world *w, uint32_t i, bool has_joined) {
  struct vote *v = &w->votes[w->n[i].vote];
  if (v->keeper == i && !has_joined)
    vote_cancel(w, v, "the members did not agree");
  if (i == w->keeper)
    rondo_admission_settle(w->admission,
                           has_joined ? RONDO_ADMISSION_JOINED : RONDO_ADMISSION_AGAIN);
}

static void member_end(struct world *w, uint32_t i, int status) {
  w->n[i].phase = ENDED;
  w->n[i].status = (uint8_t)status;
  w->n[i].declined_by = w->n[i].voted_by;
  member_settle(w, i, false);
}

static void keeper_admit(struct world *w, const struct vote *v) {
  struct rondo_admitted first = {.rank = (uint32_t)__builtin_popcount(v->voters)};
  first.rank_count = first.rank + w->newcomers;
  first.id[0] = (uint8_t)(v - w->votes);
  first.id[1] = (uint8_t)((v - w->votes) >> 8);
  rondo_admission_admit(w->admission, &first);
}

static void member_count(struct world *w, uint32_t i) {
  struct vote *v = &w->votes[w->n[i].vote];
  uint32_t ranks[NODES];
  uint32_t count = 0;
  uint32_t keeper = 0;
  char why[RONDO_REASON_BYTES];
  for (uint32_t k = 0; k < w->members; k++)
    if (is_bit(v->voters, k))
      ranks[count++] = k;
  int status = rondo_ballots_decide(v->ballots[0], ranks, count, &keeper, why);
  if (status != RONDO_SUCCESS) {
    member_end(w, i, status);
    return;
  }
  if (w->dissenter != NOBODY && is_bit(v->voters, w->dissenter) && count > 1)
    world_fail(w, DIFFERING, i);
  w->n[i].phase = JOINS;
  w->n[i].rank = position_of(v->voters, i);
  if (i == w->keeper)
    keeper_admit(w, v);
}

// True if a voter is dead, and one of those that wait for the vote knows, and tells the others.
static bool vote_is_broken(const struct world *w, const struct vote *v) {
  for (uint32_t i = 0; i < w->members; i++)
    if (is_bit(v->voters, i) && !w->n[i].is_dead && w->n[i].view > v->view)
      return true;
  return false;
}

// ----------------------------------------------------------------------- joining ---

static uint32_t rank_count_of(const struct world *w, const struct vote *v) {
  return (uint32_t)__builtin_popcount(v->voters) + (w->keeper != NOBODY ? w->newcomers : 0);
}

// The first process that lives and is in the roster.
static uint32_t roster_find_first(const struct world *w, const struct vote *v) {
  uint32_t first = NOBODY;
  for (uint32_t i = 0; i < w->nodes; i++)
    if (is_bit(v->named, i) && !w->n[i].is_dead &&
        (first == NOBODY ||
         rondo_gather_place(v->gather, i + 1) < rondo_gather_place(v->gather, first + 1)))
      first = i;
  return first;
}

static void gather_finish(struct world *w, struct vote *v) {
  struct rondo_shared_bytes *roster = rondo_gather_finish(v->gather, 1);
  if (!roster)
    return;
  v->is_made = true;
  for (uint32_t i = 0; i < w->nodes; i++)
    if (w->n[i].phase == JOINS && &w->votes[w->n[i].vote] == v && w->n[i].has_asked)
      v->named |= 1u << i;
  v->given = roster_find_first(w, v);
  rondo_shared_bytes_put(roster);
}

static void node_ask(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  struct vote *v = &w->votes[n->vote];
  const struct rondo_rank_range range = {n->rank, 1, 1};
  const struct rondo_join join = {.who = i + 1,
                                  .rank_count = rank_count_of(w, v),
                                  .range_count = 1,
                                  .size = 1,
                                  .bytes = (const uint8_t *)"x"};
  struct rondo_shared_bytes *bytes = rondo_membership_join_encode(&join, &range);
  struct rondo_shared_bytes *reply = rondo_gather_receive(v->gather, bytes->bytes, bytes->size, 0);
  n->has_asked = true;
  n->is_rejected = reply && *reply->bytes == RONDO_MEMBERSHIP_REJECTED;
  rondo_shared_bytes_put(bytes);
  rondo_shared_bytes_put(reply);
  gather_finish(w, v);
}

static bool newcomer_is_lost(const struct world *w) {
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  return w->keeper != NOBODY && rondo_admission_has_lost(w->admission, text);
}

// A keeper sees that somebody cannot come any more.
static bool keeper_can_cancel(const struct world *w, uint32_t i) {
  const struct node *n = &w->n[i];
  const struct vote *v = &w->votes[n->vote];
  return v->keeper == i && v->gather && !v->is_cancelled &&
         (n->view > n->voted_by || (i == w->keeper && newcomer_is_lost(w)));
}

// A process that lives has the roster, or is about to get it from the root.
static bool roster_lives(const struct world *w, const struct vote *v) {
  for (uint32_t k = 0; k < w->nodes; k++)
    if (is_bit(v->holders, k) && !w->n[k].is_dead)
      return true;
  return !w->n[v->given].is_dead;
}

static bool roster_can_come(const struct world *w, uint32_t i) {
  const struct vote *v = &w->votes[w->n[i].vote];
  return v->is_made && is_bit(v->named, i) && (roster_lives(w, v) || !w->n[v->keeper].is_dead);
}

// It does now: from the root, or from a process that has it.
static bool roster_comes(const struct world *w, uint32_t i) {
  const struct vote *v = &w->votes[w->n[i].vote];
  bool is_there = i == v->given;
  for (uint32_t k = 0; k < w->nodes; k++)
    is_there |= is_bit(v->holders, k) && !w->n[k].is_dead;
  return v->is_made && is_bit(v->named, i) && is_there;
}

static void node_enter_job(struct world *w, uint32_t i) {
  w->votes[w->n[i].vote].holders |= 1u << i;
  w->n[i].phase = IN;
  if (is_member(w, i))
    member_settle(w, i, true);
}

// Joining has failed: a member votes once more, a newcomer waits.
static void node_leave_job(struct world *w, uint32_t i) {
  if (is_member(w, i))
    member_settle(w, i, false);
  w->n[i].phase = is_member(w, i) ? IDLE : WAITS;
}

// ---------------------------------------------------------------------- newcomers ---

static void newcomer_enter(struct world *w, uint32_t i) {
  const struct rondo_enter enter = {.who = i + 1};
  uint64_t who = 0;
  struct rondo_shared_bytes *bytes = rondo_membership_enter_encode(&enter);
  rondo_shared_bytes_put(rondo_admission_receive(w->admission, bytes->bytes, bytes->size, &who));
  rondo_shared_bytes_put(bytes);
  w->n[i].phase = WAITS;
}

static bool newcomer_take(struct world *w, uint32_t i) {
  struct rondo_admitted admitted;
  struct rondo_shared_bytes *news = rondo_admission_news(w->admission, i + 1);
  bool has_news = news && rondo_membership_admitted_decode(news->bytes, news->size, &admitted);
  rondo_shared_bytes_put(news);
  if (!has_news)
    return false;
  w->n[i].phase = JOINS;
  w->n[i].has_asked = w->n[i].is_rejected = false;
  w->n[i].vote = admitted.id[0] | (uint32_t)admitted.id[1] << 8;
  w->n[i].rank = admitted.rank;
  return true;
}

// ------------------------------------------------------------------------- events ---

// What may happen to a node next; each returns false if it cannot.
static bool event_crash(struct world *w, uint32_t i) {
  if (!w->crashes || !random_chance(&w->random, 10))
    return false;
  w->crashes--;
  w->n[i].is_dead = true;
  return true;
}

static bool event_learn(struct world *w, uint32_t i) {
  if (!is_member(w, i) || w->n[i].view == w->loss_count)
    return false;
  w->n[i].view++;
  return true;
}

static bool event_vote(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  if (is_member(w, i) && n->phase == BEREFT && n->view > n->voted_by)
    n->phase = IDLE;
  if (!is_member(w, i) || n->phase != IDLE ||
      (i == w->keeper && i != w->dissenter && !can_reserve(w) && !is_short(w)))
    return false;
  member_vote(w, i);
  return true;
}

static bool event_count(struct world *w, uint32_t i) {
  const struct vote *v = &w->votes[w->n[i].vote];
  if (w->n[i].phase != VOTES || (v->ballots_given != v->voters && !v->is_declined))
    return false;
  if (v->is_declined)
    member_end(w, i, RONDO_ERR_ABORTED);
  else
    member_count(w, i);
  return true;
}

// A member whose call has ended with an error learns of a loss (runtime/rank/decline.h).
static bool event_decline(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  if (!is_member(w, i) || n->phase != ENDED || n->declined_by == n->view)
    return false;
  n->declined_by = n->view;
  vote_find(w, n->view, ++n->times[n->view])->is_declined = true;
  return true;
}

// The root sees that the process to which it has given the roster is gone (runtime/net/job_root.c).
static bool event_give(struct world *w, uint32_t i) {
  struct vote *v = &w->votes[w->n[i].vote];
  if (!is_member(w, i) || v->keeper != i || !v->is_made || roster_lives(w, v))
    return false;
  uint32_t next = roster_find_first(w, v);
  if (next == NOBODY || next == v->given)
    return false;
  v->given = next;
  return true;
}

static bool event_bereave(struct world *w, uint32_t i) {
  if (w->n[i].phase != VOTES || !vote_is_broken(w, &w->votes[w->n[i].vote]))
    return false;
  w->n[i].phase = BEREFT;
  member_settle(w, i, false);
  return true;
}

static bool event_join(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  struct vote *v = &w->votes[n->vote];
  if (n->phase != JOINS)
    return false;
  bool is_rootless = w->n[v->keeper].is_dead;
  if (!n->has_asked && !is_rootless)
    node_ask(w, i);
  else if (n->is_rejected || (is_rootless && !roster_can_come(w, i)))
    node_leave_job(w, i);
  else if (roster_comes(w, i))
    node_enter_job(w, i);
  else
    return false;
  return true;
}

// The connection to the root is cut, and what the root has sent is lost: the node asks again.
static bool event_cut(struct world *w, uint32_t i) {
  const struct node *n = &w->n[i];
  if (n->phase != JOINS || !n->has_asked || w->n[w->votes[n->vote].keeper].is_dead || !w->cuts)
    return false;
  w->cuts--;
  node_ask(w, i);
  return true;
}

static bool event_cancel(struct world *w, uint32_t i) {
  struct vote *v = &w->votes[w->n[i].vote];
  if (!is_member(w, i) || w->n[i].phase != JOINS || !keeper_can_cancel(w, i))
    return false;
  vote_cancel(w, v, "a member or newcomer was lost");
  return v->is_cancelled;
}

static bool event_newcomer(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  if (is_member(w, i) || n->phase > WAITS)
    return false;
  if (!keeper_lives(w)) {
    n->phase = ENDED;
    return true;
  }
  if (n->phase == WAITS)
    return newcomer_take(w, i);
  newcomer_enter(w, i);
  return true;
}

// Others notice that a process has ended.
static bool node_is_noticed(struct world *w, uint32_t i) {
  struct node *n = &w->n[i];
  if (is_member(w, i)) {
    for (uint32_t k = 0; k < w->loss_count; k++)
      if (w->losses[k] == i)
        return false;
    w->losses[w->loss_count++] = i;
    return true;
  }
  if (n->is_known_dead || n->phase == IDLE || !keeper_lives(w))
    return false;
  n->is_known_dead = true;
  rondo_admission_lose(w->admission, i + 1);
  return true;
}

static bool world_step(struct world *w) {
  static bool (*const events[])(struct world *, uint32_t) = {
      event_crash,  event_learn,    event_vote,    event_count, event_bereave, event_join,
      event_cancel, event_newcomer, event_decline, event_give,  event_cut};
  const uint32_t kinds = sizeof events / sizeof *events;
  uint32_t start = random_below(&w->random, w->nodes * kinds);
  for (uint32_t k = 0; k < w->nodes * kinds; k++) {
    uint32_t at = (start + k * 37) % (w->nodes * kinds); // 37: prime to the number of them all
    uint32_t i = at / kinds;
    if (w->n[i].is_dead ? node_is_noticed(w, i) : events[at % kinds](w, i))
      return true;
  }
  return false;
}

// ------------------------------------------------------------------------ a story ---

static void world_begin(struct world *w, uint64_t seed) {
  memset(w, 0, sizeof *w);
  w->random.state = seed * 77 + 1;
  struct random *r = &w->random;
  bool is_grow = random_chance(r, 75);
  w->members = 1 + random_below(r, MEMBERS);
  w->nodes = w->members + (is_grow ? 1 + random_below(r, NODES - MEMBERS) : 0);
  w->newcomers = is_grow ? 1 + random_below(r, w->nodes - w->members) : 0;
  w->keeper = is_grow ? random_below(r, w->members) : NOBODY;
  w->dissenter = NOBODY;
  w->crashes = random_below(r, 4);
  w->cuts = random_below(r, 3);
  if (is_grow && random_chance(r, 15))
    w->dissenter = random_below(r, w->members);
  w->admission = rondo_admission_create();
}

static void world_free(struct world *w) {
  rondo_admission_destroy(w->admission);
  for (uint32_t i = 0; i < w->vote_count; i++)
    rondo_gather_destroy(w->votes[i].gather);
}

static void check_waits(struct world *w) {
  static const char *const waits[IN] = {[IDLE] = WAITS_FOR_NEWCOMERS,
                                        [VOTES] = WAITS_FOR_OTHERS,
                                        [BEREFT] = "a member waits for the news of a loss",
                                        [JOINS] = WAITS_FOR_ROSTER};
  for (uint32_t i = 0; i < w->members; i++) // others may wait for such a one
    if (!w->n[i].is_dead && w->n[i].phase == IDLE)
      world_fail(w, waits[IDLE], i);
  for (uint32_t i = 0; i < w->members; i++)
    if (!w->n[i].is_dead && w->n[i].phase < IN)
      world_fail(w, waits[w->n[i].phase], i);
}

static bool was_told(const struct node *n) {
  return n->phase == ENDED && n->status == RONDO_ERR_ABORTED;
}

// A member that lives, whose end those of the others must be like; NOBODY: none lives.
static uint32_t member_find_model(const struct world *w) {
  uint32_t model = NOBODY;
  for (uint32_t i = 0; i < w->members; i++)
    if (!w->n[i].is_dead && (model == NOBODY || was_told(&w->n[model])))
      model = i;
  return model;
}

static bool ends_are_like(const struct node *n, const struct node *model) {
  if (n->phase != model->phase)
    return false;
  if (n->phase == IN)
    return n->vote == model->vote;
  return n->phase != ENDED || was_told(n) || n->status == model->status;
}

static void check_newcomers(struct world *w, const struct node *model) {
  for (uint32_t i = w->members; i < w->nodes; i++) {
    const struct node *n = &w->n[i];
    if (n->is_dead)
      continue;
    if (n->phase == JOINS)
      world_fail(w, "a newcomer waits for ever for a job", i);
    if (n->phase == IN && !ends_are_like(n, model))
      world_fail(w, "a newcomer is in a job without the members", i);
  }
}

static void world_check(struct world *w) {
  uint32_t model = member_find_model(w);
  if (model == NOBODY)
    return;
  check_waits(w);
  for (uint32_t i = 0; i < w->members; i++)
    if (!w->n[i].is_dead && !ends_are_like(&w->n[i], &w->n[model]))
      world_fail(w, "members that live have come to different ends", i);
  check_newcomers(w, &w->n[model]);
  bool has_enough = !is_short(w) && w->dissenter == NOBODY;
  if (keeper_lives(w) && has_enough && w->n[model].phase != IN)
    world_fail(w, "nobody was admitted, though newcomers wait", model);
}

static bool story_fails(uint64_t seed, char *finding) {
  static struct world w;
  uint32_t steps = 0;
  world_begin(&w, seed);
  while (!*w.finding && steps < MOST_STEPS && world_step(&w))
    steps++;
  if (steps == MOST_STEPS)
    world_fail(&w, "the story does not end", 0);
  if (!*w.finding)
    world_check(&w);
  memcpy(finding, w.finding, sizeof w.finding);
  world_free(&w);
  return *finding;
}

int main(int argc, char **argv) {
  static const struct explore_stories stories = {story_fails, faults,
                                                 sizeof faults / sizeof *faults};
  return explore_seeds(argc, argv, &stories);
}
