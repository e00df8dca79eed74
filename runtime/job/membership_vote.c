// Votes on the next epoch: Paxos, one decision for each epoch, with the keepers of the epoch before
// as voters. tests/model/epoch.pml is a model of it.
#include <stdio.h>

#include "base/explore.h"
#include "runtime/job/epoch_log.h"
#include "runtime/job/membership_state.h"

// Ballots: 1 is the coordinator's first, which needs no promises, because there is none below;
// others are a round, some bits of the random number of the process, and its place. A process that
// has come back has another random number, so no ballot is used twice, even if its record was lost.
#define FIRST_BALLOT 1u
#define ROUND_SHIFT 44
#define WHO_SHIFT 20
#define MOST_ASKED 64u // members asked at once when all vote

static uint64_t ballot_of(uint64_t round, uint32_t who, uint32_t place) {
  return round << ROUND_SHIFT | (uint64_t)who << WHO_SHIFT | (place + 2);
}

static uint32_t bit_count(uint8_t bits) { return (uint32_t)__builtin_popcount(bits); }

// ----------------------------------------------------------------------- voters ---

// Keeps the record, then sends the reply.
static void vote_reply(struct rondo_membership *m, uint32_t to, struct rondo_shared_bytes *reply) {
  if (!m->keeps_log || RONDO_FAULT(RECORD_AFTER_REPLY)) {
    rondo_membership_send(m, to, reply);
    if (!m->keeps_log)
      return;
    reply = NULL;
  }
  struct rondo_shared_bytes *record = rondo_epoch_log_vote(
      m->job, m->epoch->number + 1, m->promised, m->accepted_ballot, m->accepted);
  uint64_t number = rondo_membership_append(m, record);
  if (!reply)
    return;
  if (!record || !RONDO_ARRAY_GROW(m->replies)) {
    rondo_shared_bytes_put(reply);
    return;
  }
  m->replies.items[m->replies.count++] = (struct rondo_pending_reply){number, to, reply};
}

// Tells who leads that this process keeps no record of it.
static void reply_abstain(struct rondo_membership *m, const struct rondo_pending_reply *reply) {
  struct rondo_membership_message message;
  if (!rondo_membership_message_decode(reply->bytes->bytes, reply->bytes->size, &message))
    return;
  rondo_membership_tell(m, reply->to,
                        (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_REFUSED,
                                                          .instance = message.instance,
                                                          .ballot = message.ballot,
                                                          .flag = 1});
}

void rondo_membership_on_appended(struct rondo_membership *m, uint64_t number, const char *error) {
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  if (error && !m->has_log_failed) {
    (void)snprintf(text, sizeof text, "the log of epochs cannot be written, so others keep it: %s",
                   error);
    rondo_membership_notice(m, text);
  }
  m->has_log_failed = error != NULL;
  for (uint32_t i = 0; i < m->replies.count;) {
    struct rondo_pending_reply reply = m->replies.items[i];
    if (reply.number != number) {
      i++;
      continue;
    }
    m->replies.count--;
    memmove(&m->replies.items[i], &m->replies.items[i + 1],
            (m->replies.count - i) * sizeof *m->replies.items);
    if (error) {
      reply_abstain(m, &reply);
      rondo_shared_bytes_put(reply.bytes);
    } else {
      rondo_membership_send(m, reply.to, reply.bytes);
    }
  }
}

// True if this process votes on that epoch now and the ballot is not too low. Otherwise the sender
// is told why.
static bool vote_is_open(struct rondo_membership *m, uint32_t from,
                         const struct rondo_membership_message *message) {
  if (message->instance <= m->epoch->number) {
    m->counters.old++;
    rondo_membership_send_epochs(m, from, message->instance);
    return false;
  }
  if (message->instance > m->epoch->number + 1)
    return false; // it has asked for what it misses; who leads repeats the message
  if (message->instance < m->kept.instance)
    return false; // that epoch was opened, and this process has forgotten its vote on it
  if (message->ballot >= m->promised || RONDO_FAULT(BALLOT_IGNORED))
    return true;
  rondo_membership_tell(m, from,
                        (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_REFUSED,
                                                          .instance = message->instance,
                                                          .ballot = message->ballot,
                                                          .promised = m->promised});
  return false;
}

// All members vote: what those that have ended sent before, and is on its way, must not be believed
// after this promise, because who leads does not wait for them.
static void prepare_believe(struct rondo_membership *m,
                            const struct rondo_membership_message *message) {
  struct rondo_wire_reader body = message->body;
  struct rondo_shared_bytes *over = rondo_membership_change_next(&body);
  struct rondo_removal r;
  uint32_t at = 0;
  while (over && rondo_removal_next(over, &at, &r) == 1)
    for (uint32_t i = 0; i < r.count && r.reason == RONDO_REMOVED_DIED; i++)
      if (rondo_epoch_is_member(m->epoch, r.first + i))
        rondo_membership_believe(m, r.first + i, true, false);
  rondo_shared_bytes_put(over);
}

// The keepers whose end was recent when this process learnt it.
static uint8_t keepers_fresh(const struct rondo_membership *m) {
  uint8_t fresh = 0;
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++) {
    const struct rondo_belief *b = rondo_membership_belief(m, m->epoch->order[i]);
    fresh |= (uint8_t)((b && b->is_proven && b->is_fresh) << i);
  }
  return fresh;
}

// Who has promised a higher ballot leads no lower one any more. Otherwise late votes of keepers
// that have ended could decide its change after all others have voted without knowing it.
static void lead_yield(struct rondo_membership *m, uint64_t ballot) {
  if (!m->lead || m->lead->ballot >= ballot)
    return;
  rondo_membership_lead_drop(m);
  m->lead_ns = m->now_ns + m->period_ns;
}

void rondo_membership_on_prepare(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message) {
  if (message->count)
    prepare_believe(m, message);
  if (!vote_is_open(m, from, message))
    return;
  if (m->promised < message->ballot)
    m->promised = message->ballot;
  lead_yield(m, message->ballot);
  struct rondo_membership_message reply = {.type = RONDO_MEMBERSHIP_PROMISE,
                                           .epoch = m->epoch->number,
                                           .instance = message->instance,
                                           .ballot = message->ballot,
                                           .accepted = m->accepted_ballot,
                                           .fresh = keepers_fresh(m)};
  vote_reply(m, from, rondo_membership_vote_encode(&reply, m->accepted));
}

void rondo_membership_on_propose(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message) {
  struct rondo_wire_reader body = message->body;
  if (!vote_is_open(m, from, message))
    return;
  struct rondo_shared_bytes *change = rondo_membership_change_next(&body);
  struct rondo_epoch *next = change ? rondo_epoch_pool_next(m->pool, m->epoch, change) : NULL;
  if (!next) {
    m->counters.refused++;
    rondo_shared_bytes_put(change);
    return;
  }
  rondo_epoch_put(next);
  rondo_shared_bytes_put(m->accepted);
  m->accepted = change;
  m->accepted_ballot = m->promised = message->ballot;
  lead_yield(m, message->ballot);
  struct rondo_membership_message reply = {.type = RONDO_MEMBERSHIP_ACCEPTED,
                                           .epoch = m->epoch->number,
                                           .instance = message->instance,
                                           .ballot = message->ballot};
  vote_reply(m, from, rondo_membership_message_encode(&reply));
}

void rondo_membership_vote_reset(struct rondo_membership *m) {
  rondo_membership_lead_drop(m);
  m->promised = m->accepted_ballot = 0;
  rondo_shared_bytes_put(m->accepted);
  m->accepted = NULL;
  m->round = 0;
  m->lead_ns = 0;
  if (m->kept.instance > m->epoch->number + 1)
    return;
  if (m->kept.instance == m->epoch->number + 1) {
    m->promised = m->kept.promised;
    m->accepted_ballot = m->kept.accepted_ballot;
    m->accepted = rondo_shared_bytes_get(m->kept.accepted);
  }
  rondo_epoch_log_fini(&m->kept);
}

// ------------------------------------------------------------------------ leading ---

void rondo_membership_lead_drop(struct rondo_membership *m) {
  struct rondo_lead *lead = m->lead;
  if (!lead)
    return;
  rondo_shared_bytes_put(lead->best);
  rondo_shared_bytes_put(lead->over);
  rondo_epoch_put(lead->next);
  free(lead->all);
  free(lead);
  m->lead = NULL;
}

bool rondo_membership_is_acting(const struct rondo_membership *m) {
  for (uint32_t place = 0; place < m->epoch->place[m->self]; place++) {
    const struct rondo_belief *b = rondo_membership_belief(m, m->epoch->order[place]);
    if (!b || (!b->is_proven && !b->is_judged))
      return false;
  }
  return true;
}

// True if the process has ended and cannot come back.
static bool voter_is_over(const struct rondo_membership *m, uint32_t process) {
  return !m->epoch->roster->is_restartable && rondo_membership_is_proven(m, process);
}

static uint32_t epoch_majority(const struct rondo_epoch *e) {
  return rondo_epoch_keeper_count(e) / 2 + 1;
}

// True if a majority of the keepers cannot answer any more.
static bool majority_is_over(const struct rondo_membership *m) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++)
    left += !voter_is_over(m, m->epoch->order[i]);
  return left < epoch_majority(m->epoch);
}

// True if the keepers that have ended may have put all that vote now out before, and have left a
// later epoch then. One voter that knows better is enough: it would have gone on with them.
static bool lead_is_doubtful(const struct rondo_membership *m) {
  uint32_t doubtful = 0;
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++)
    doubtful += voter_is_over(m, m->epoch->order[i]) && !(m->lead->fresh >> i & 1);
  return doubtful >= epoch_majority(m->epoch);
}

static void lead_send_vote(struct rondo_membership *m, uint32_t to) {
  const struct rondo_lead *lead = m->lead;
  struct rondo_membership_message message = {
      .epoch = m->epoch->number, .instance = lead->instance, .ballot = lead->ballot};
  message.type = lead->is_proposing ? RONDO_MEMBERSHIP_PROPOSE : RONDO_MEMBERSHIP_PREPARE;
  rondo_membership_send(
      m, to, rondo_membership_vote_encode(&message, lead->is_proposing ? lead->best : lead->over));
}

// Asks more members when all vote, MOST_ASKED at a time. Those that have ended have no vote.
static void lead_ask_more(struct rondo_membership *m) {
  struct rondo_lead *lead = m->lead;
  while (lead->all_waiting < MOST_ASKED && lead->all_next < m->epoch->live_count) {
    uint32_t place = lead->all_next++;
    if (lead->all[place] != ALL_IDLE)
      continue;
    lead->all[place] = ALL_ASKED;
    lead->all_waiting++;
    lead_send_vote(m, m->epoch->order[place]);
  }
}

// Collects the removals that are due. Returns null without memory.
static struct rondo_shared_bytes *membership_collect(struct rondo_membership *m) {
  struct rondo_removal_list list = {NULL, 0, 0};
  static const uint8_t reasons[] = {[RONDO_REPORT_LEFT] = RONDO_REMOVED_LEFT,
                                    [RONDO_REPORT_DIED] = RONDO_REMOVED_DIED,
                                    [RONDO_REPORT_SILENT] = RONDO_REMOVED_SILENT,
                                    [RONDO_REPORT_BROKE] = RONDO_REMOVED_BROKE,
                                    [RONDO_REPORT_RANK] = RONDO_REMOVED_RANK};
  struct rondo_shared_bytes *bytes = NULL;
  bool is_whole = true;
  for (uint32_t i = 0; i < m->reports.count && is_whole; i++) {
    const struct rondo_report *r = &m->reports.items[i];
    if (rondo_report_removes(r))
      is_whole =
          rondo_removal_list_add(&list, reasons[r->item.kind], r->item.process, r->item.text);
  }
  if (is_whole)
    bytes = rondo_removal_list_encode(&list);
  rondo_removal_list_fini(&list);
  return bytes;
}

// Proposes the accepted change with the highest ballot, or what is due here.
static void lead_propose(struct rondo_membership *m) {
  struct rondo_lead *lead = m->lead;
  if (!lead->best)
    lead->best = membership_collect(m);
  if (lead->best)
    lead->next = rondo_epoch_pool_next(m->pool, m->epoch, lead->best);
  if (!lead->next) {
    rondo_membership_lead_drop(m);
    m->lead_ns = m->now_ns + m->period_ns;
    return;
  }
  lead->is_proposing = true;
  lead->retry_ns = m->now_ns + m->period_ns;
  // Sending may deliver nothing at once, so the lead lasts until the return.
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++)
    if (!voter_is_over(m, m->epoch->order[i]))
      lead_send_vote(m, m->epoch->order[i]);
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(lead->next); i++)
    if (!rondo_epoch_is_keeper(m->epoch, lead->next->order[i]))
      lead_send_vote(m, lead->next->order[i]);
}

// How many processes the removals name.
static uint32_t removals_count(const struct rondo_shared_bytes *removals) {
  struct rondo_removal r;
  uint32_t at = 0;
  uint32_t count = 0;
  while (removals && rondo_removal_next(removals, &at, &r) == 1)
    count += r.count;
  return count;
}

// Prepares a vote of all members that have not ended. False without memory, or if more have ended
// than one message can name.
static bool lead_begin_all(struct rondo_membership *m, struct rondo_lead *lead) {
  struct rondo_removal_list list = {NULL, 0, 0};
  bool is_whole = true;
  uint32_t over = 0;
  lead->is_all = true;
  lead->all = calloc(m->epoch->live_count, 1);
  for (uint32_t i = 0; i < m->beliefs.count && lead->all && is_whole; i++) {
    uint32_t process = m->beliefs.items[i].process;
    if (!m->beliefs.items[i].is_proven)
      continue;
    lead->all[m->epoch->place[process]] = ALL_OVER;
    is_whole = rondo_removal_list_add(&list, RONDO_REMOVED_DIED, process, "");
    over++;
  }
  lead->over = is_whole ? rondo_removal_list_encode(&list) : NULL;
  rondo_removal_list_fini(&list);
  return lead->all && removals_count(lead->over) == over;
}

static void lead_begin(struct rondo_membership *m) {
  struct rondo_lead *lead = calloc(1, sizeof *lead);
  bool is_all = majority_is_over(m);
  m->lead = lead;
  if (!lead || (is_all && !lead_begin_all(m, lead))) {
    rondo_membership_lead_drop(m);
    m->lead_ns = m->now_ns + m->period_ns;
    return;
  }
  lead->instance = m->epoch->number + 1;
  lead->retry_ns = m->now_ns + m->period_ns;
  uint32_t place = m->epoch->place[m->self];
  if (place == 0 && m->promised == 0 && m->round == 0 && !is_all && !m->keeps_log) {
    lead->ballot = FIRST_BALLOT;
    lead_propose(m);
    return;
  }
  uint64_t known = m->promised >> ROUND_SHIFT;
  m->round = (m->round > known ? m->round : known) + 1;
  lead->ballot = ballot_of(m->round, m->who, place);
  if (is_all) {
    lead_ask_more(m);
    return;
  }
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++)
    lead_send_vote(m, m->epoch->order[i]);
}

// True if the message answers what this process leads now.
static bool lead_is_answer(const struct rondo_membership *m,
                           const struct rondo_membership_message *message, bool is_proposing) {
  return m->lead && m->lead->instance == message->instance && m->lead->ballot == message->ballot &&
         m->lead->is_proposing == is_proposing;
}

// True if all members that have not ended have promised.
static bool lead_has_all(const struct rondo_membership *m) {
  const struct rondo_lead *lead = m->lead;
  for (uint32_t place = 0; place < m->epoch->live_count; place++)
    if (lead->all[place] != ALL_PROMISED && lead->all[place] != ALL_OVER)
      return false;
  return true;
}

// True if enough have promised.
static bool lead_is_promised(const struct rondo_membership *m) {
  const struct rondo_lead *lead = m->lead;
  if (RONDO_FAULT(MINORITY_OPENS))
    return true;
  if (!lead->is_all)
    return bit_count(lead->promised) >= epoch_majority(m->epoch);
  return lead_has_all(m) && !lead_is_doubtful(m);
}

void rondo_membership_on_promise(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message) {
  struct rondo_lead *lead = m->lead;
  uint32_t place = m->epoch->place[from];
  if (!lead_is_answer(m, message, false))
    return;
  if (message->accepted > lead->best_ballot && !RONDO_FAULT(ACCEPTED_FORGOTTEN)) {
    struct rondo_wire_reader body = message->body;
    rondo_shared_bytes_put(lead->best);
    lead->best = rondo_membership_change_next(&body);
    lead->best_ballot = message->accepted;
  }
  if (lead->is_all && lead->all[place] == ALL_ASKED) {
    lead->all[place] = ALL_PROMISED;
    lead->fresh |= message->fresh;
    lead->all_waiting--;
    lead_ask_more(m);
  } else if (!lead->is_all && place < RONDO_EPOCH_KEEPERS) {
    lead->promised |= (uint8_t)(1u << place);
  }
  if (lead_is_promised(m))
    lead_propose(m);
  else if (lead->is_all && m->is_leaving && lead_has_all(m))
    rondo_membership_end(m, RONDO_MEMBERSHIP_LEFT, ""); // it need not know whether they went on
}

// True if the change is decided: a majority of the keepers of this epoch has accepted it. Those of
// the next epoch are waited for, too, so that its record is where it will be looked for, but not
// long: one of them may be silent. If all members vote, the next keepers hold the only records.
static bool lead_is_decided(const struct rondo_membership *m) {
  const struct rondo_lead *lead = m->lead;
  uint32_t over = 0;
  if (RONDO_FAULT(MINORITY_OPENS))
    return true;
  if (!lead->is_all && bit_count(lead->accepted) < epoch_majority(m->epoch))
    return false;
  if (!lead->is_all && lead->has_waited)
    return true;
  uint32_t keepers = rondo_epoch_keeper_count(lead->next);
  for (uint32_t i = 0; i < keepers; i++)
    over += voter_is_over(m, lead->next->order[i]);
  return keepers == over || bit_count(lead->accepted_next) >= (keepers - over) / 2 + 1;
}

void rondo_membership_on_accepted(struct rondo_membership *m, uint32_t from,
                                  const struct rondo_membership_message *message) {
  struct rondo_lead *lead = m->lead;
  if (!lead_is_answer(m, message, true))
    return;
  if (rondo_epoch_is_keeper(m->epoch, from))
    lead->accepted |= (uint8_t)(1u << m->epoch->place[from]);
  if (rondo_epoch_is_member(lead->next, from) && rondo_epoch_is_keeper(lead->next, from))
    lead->accepted_next |= (uint8_t)(1u << lead->next->place[from]);
  if (lead_is_decided(m))
    rondo_membership_open(m, rondo_epoch_get(lead->next));
}

void rondo_membership_on_refused(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message) {
  (void)from;
  if (!m->lead || m->lead->instance != message->instance || m->lead->ballot != message->ballot ||
      message->flag)
    return;
  uint64_t round = message->promised >> ROUND_SHIFT;
  if (round > m->round)
    m->round = round;
  rondo_membership_lead_drop(m);
  // Each place waits for another time, so that one of them is first.
  m->lead_ns =
      m->now_ns + RONDO_MEMBERSHIP_WINDOW_NS * (1 + 2 * (uint64_t)m->epoch->place[m->self]);
}

// Sends the question again to those that have not answered.
static void lead_repeat(struct rondo_membership *m) {
  struct rondo_lead *lead = m->lead;
  lead->retry_ns = m->now_ns + m->period_ns;
  lead->has_waited = lead->is_proposing;
  for (uint32_t place = 0; lead->is_all && !lead->is_proposing && place < m->epoch->live_count;
       place++)
    if (lead->all[place] == ALL_ASKED)
      lead_send_vote(m, m->epoch->order[place]);
  for (uint32_t i = 0;
       !(lead->is_all && !lead->is_proposing) && i < rondo_epoch_keeper_count(m->epoch); i++) {
    uint8_t have = lead->is_proposing ? lead->accepted : lead->promised;
    if (!(have >> i & 1) && !voter_is_over(m, m->epoch->order[i]))
      lead_send_vote(m, m->epoch->order[i]);
  }
  for (uint32_t i = 0; lead->is_proposing && i < rondo_epoch_keeper_count(lead->next); i++)
    if (!(lead->accepted_next >> i & 1) && !rondo_epoch_is_keeper(m->epoch, lead->next->order[i]))
      lead_send_vote(m, lead->next->order[i]);
}

void rondo_membership_vote_again(struct rondo_membership *m, uint32_t to) {
  const struct rondo_lead *lead = m->lead;
  if (!lead)
    return;
  bool is_voter =
      rondo_epoch_is_keeper(m->epoch, to) || (lead->next && rondo_epoch_is_member(lead->next, to) &&
                                              rondo_epoch_is_keeper(lead->next, to));
  if (lead->is_all && !lead->is_proposing)
    is_voter = lead->all[m->epoch->place[to]] == ALL_ASKED;
  if (is_voter)
    lead_send_vote(m, to);
}

// When this process may lead a vote; UINT64_MAX: it has no reason to.
static uint64_t lead_due(const struct rondo_membership *m) {
  uint64_t first_ns = m->report_due_ns;
  if (!rondo_membership_is_acting(m) || m->kept.instance)
    return UINT64_MAX;
  if (m->epoch->number == 0)
    return m->lead_ns;
  if (first_ns == UINT64_MAX)
    return UINT64_MAX;
  // The epoch before is to have spread, or to have had time for that.
  uint64_t spread_ns = m->has_acked ? 0 : m->spread_ns + m->period_ns;
  if (first_ns < spread_ns)
    first_ns = spread_ns;
  return first_ns > m->lead_ns ? first_ns : m->lead_ns;
}

uint64_t rondo_membership_vote_due(const struct rondo_membership *m) {
  return m->lead ? m->lead->retry_ns : lead_due(m);
}

// True if one that was asked has ended before it promised: the others must know that, too.
static bool lead_is_outdated(const struct rondo_membership *m) {
  const struct rondo_lead *lead = m->lead;
  if (lead->is_all != majority_is_over(m))
    return true; // others vote now
  for (uint32_t i = 0; lead->is_all && !lead->is_proposing && i < m->beliefs.count; i++) {
    uint8_t vote = lead->all[m->epoch->place[m->beliefs.items[i].process]];
    if (m->beliefs.items[i].is_proven && vote != ALL_PROMISED && vote != ALL_OVER)
      return true;
  }
  return false;
}

void rondo_membership_vote_tick(struct rondo_membership *m) {
  if (m->lead && lead_is_outdated(m))
    rondo_membership_lead_drop(m);
  if (m->lead && m->now_ns >= m->lead->retry_ns)
    lead_repeat(m);
  if (m->lead && m->lead->is_proposing && lead_is_decided(m)) {
    rondo_membership_open(m, rondo_epoch_get(m->lead->next));
    return;
  }
  if (!m->lead && m->now_ns >= lead_due(m))
    lead_begin(m);
}
