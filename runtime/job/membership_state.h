// The state of a membership core, for the files that implement it:
//
//   membership.c         life, events, sending
//   membership_spread.c  roster and epochs down the tree, acknowledgements up
//   membership_vote.c    who votes on the next epoch, and who leads the vote
//   membership_watch.c   who answers: probes, observers, verdicts, touch with the keepers
//   membership_report.c  reports up the tree
#ifndef RONDO_RUNTIME_JOB_MEMBERSHIP_STATE_H
#define RONDO_RUNTIME_JOB_MEMBERSHIP_STATE_H

#include "runtime/job/epoch_log.h"
#include "runtime/job/membership.h"

#define RONDO_MEMBERSHIP_WINDOW_NS UINT64_C(15000000) // removals within it become one epoch
#define RONDO_MEMBERSHIP_MOST_VOTES 8u                // of one case
#define RONDO_MEMBERSHIP_TOUCHERS 32u                 // places that keep in touch with the keepers
#define NOBODY RONDO_ROSTER_NOBODY

// A report that is not settled yet: the process is still a member.
struct rondo_report {
  struct rondo_report_item item;
  uint32_t sent_to; // NOBODY: not sent
  bool is_judged;   // SILENT: the observers agree
  uint64_t due_ns;  // when it is proposed; BLOCKED and SILENT: forgotten
};

enum {
  WATCH_ORDER = 1,  // the coordinator asked
  WATCH_HEART = 2,  // all the time: heartbeat_ns
  WATCH_PATH = 4,   // on the way to the keepers, while something is needed of them
  WATCH_SPREAD = 8, // a child that has not acknowledged the epoch
  WATCH_FIRST = 16, // a connection to it was cut
  WATCH_TOUCH = 32  // a keeper, so that its end is known to be recent; its silence is not reported
};

// A process that is being probed.
struct rondo_watch {
  uint32_t process;
  uint32_t judge; // WATCH_ORDER: who wants to know
  uint8_t why;    // WATCH_ flags
  uint8_t state;  // enum rondo_inspected
  bool is_silent, is_inspected;
  uint64_t heard_ns;    // last sign of life; at first when the watch began
  uint64_t answered_ns; // last sign of life; at first 0
  uint64_t probe_ns;    // next probe
  uint64_t touched_ns;  // when the last probe was sent that it answered in no later epoch; or 0
};

// Whether a process is silent, judged by its observers.
struct rondo_case {
  uint32_t process;
  uint32_t asked[RONDO_EPOCH_OBSERVERS + 1], asked_count;
  uint32_t silent[RONDO_MEMBERSHIP_MOST_VOTES], silent_count;
  uint32_t alive[RONDO_MEMBERSHIP_MOST_VOTES], alive_count;
  uint64_t opened_ns;
  uint64_t closed_ns; // 0: open. A closed case keeps a new one from being opened at once.
  uint8_t state;
};

struct rondo_belief {
  uint32_t process;
  bool is_proven;
  bool is_judged;
  // When its end became known it had answered too recently to have put this process out before. If
  // not, it may have gone on to a later epoch without this process, and have left that.
  bool is_fresh;
};

struct rondo_local_message {
  struct rondo_shared_bytes *bytes;
};

// A reply that waits for its record.
struct rondo_pending_reply {
  uint64_t number;
  uint32_t to;
  struct rondo_shared_bytes *bytes;
};

enum rondo_all_vote { ALL_IDLE = 0, ALL_ASKED, ALL_PROMISED, ALL_OVER };

// A vote that this process leads.
struct rondo_lead {
  uint32_t instance;
  uint64_t ballot;
  bool is_all; // all members vote, not the keepers alone
  bool is_proposing;
  bool has_waited;                 // the proposal has been repeated
  uint8_t promised, accepted;      // bits of the keepers of this epoch
  uint8_t accepted_next;           // bits of the keepers of the next
  uint8_t *all;                    // is_all, by place: enum rondo_all_vote
  uint8_t fresh;                   // is_all: bits of the keepers whose end is recent for a voter
  struct rondo_shared_bytes *over; // is_all: the members that have ended, as removals
  uint32_t all_next, all_waiting;  // next place to ask, asked and not promised
  uint64_t best_ballot;
  struct rondo_shared_bytes *best;
  struct rondo_epoch *next; // is_proposing
  uint64_t retry_ns;
};

// Parts of a roster that have come.
struct rondo_assembly {
  uint64_t digest;
  uint32_t count, have;
  struct rondo_shared_bytes *bytes;
  uint8_t *parts; // 1: here
};

enum rondo_membership_phase {
  RONDO_MEMBERSHIP_JOINING,
  RONDO_MEMBERSHIP_RUNS,
  RONDO_MEMBERSHIP_OVER
};

#define RONDO_ARRAY(type)                                                                          \
  struct {                                                                                         \
    type *items;                                                                                   \
    uint32_t count, capacity;                                                                      \
  }

struct rondo_membership {
  uint8_t job[16];
  uint64_t silence_ns, period_ns; // how long a process may be silent; between two probes
  uint64_t heartbeat_ns;
  bool keeps_log;
  struct rondo_epoch_pool *pool;

  int phase;
  bool is_leaving;
  bool has_joined; // the root has answered the JOIN
  bool is_named;   // the roster is made, and names this process
  uint64_t now_ns, due_ns;
  struct rondo_membership_actions *actions;      // of the step that is being made
  RONDO_ARRAY(struct rondo_local_message) local; // to this process

  // Joining.
  struct rondo_shared_bytes *join;
  uint32_t first_rank;
  uint64_t join_ns, join_pause_ns, join_deadline_ns;
  uint64_t roster_ns;                          // when it came
  char join_text[RONDO_MEMBERSHIP_TEXT_BYTES]; // why it fails at the deadline
  struct rondo_assembly *assembly;

  struct rondo_epoch *epoch; // null before the roster
  uint32_t self;

  // Spreading.
  uint8_t acked; // bits of the children that have acknowledged the epoch
  bool has_acked;
  uint64_t spread_ns;               // when the epoch came here
  uint32_t fetch_from, fetch_epoch; // whom this process has asked for which epoch, and when
  uint64_t fetch_ns;

  RONDO_ARRAY(struct rondo_report) reports;
  uint32_t reports_sent;  // the first so many were sent
  uint8_t *reported;      // by process: a report removes it; null while there are few
  uint64_t report_due_ns; // of the reports that remove
  uint64_t expire_ns;     // of the other reports
  RONDO_ARRAY(struct rondo_watch) watches;
  RONDO_ARRAY(struct rondo_case) cases;
  RONDO_ARRAY(struct rondo_belief) beliefs;
  RONDO_ARRAY(uint32_t) blocked;
  uint64_t blocked_ns; // when `blocked` is reported next

  // Touch with the keepers.
  uint64_t need_ns;  // since when something is needed of them; 0: nothing is
  uint64_t asked_ns; // when somebody last asked whether this process is in touch; 0: never
  uint64_t fresh_ns; // when this process was last known to be in touch
  // When a majority of the keepers was last asked that has answered, in no later epoch; at first
  // when this core was made.
  uint64_t touched_ns;
  uint64_t path_ns; // when the way is looked at next

  // Votes on the next epoch.
  uint64_t promised, accepted_ballot;
  struct rondo_shared_bytes *accepted;
  // The vote of the log, if it is for a later epoch than the next; `instance` 0: there is none.
  struct rondo_epoch_log kept;
  struct rondo_lead *lead;
  uint64_t round;   // the highest seen
  uint32_t who;     // of this process's ballots
  uint64_t lead_ns; // not before this time
  RONDO_ARRAY(struct rondo_pending_reply) replies;
  uint64_t record_number;
  bool has_log_failed;

  struct rondo_membership_counters counters;
};

// ---- membership.c ----

// Makes room for one more item; aborts the addition and returns false without memory.
bool rondo_membership_grow(void **items, uint32_t count, uint32_t *capacity, size_t item_bytes);
#define RONDO_ARRAY_GROW(array)                                                                    \
  rondo_membership_grow((void **)&(array).items, (array).count, &(array).capacity,                 \
                        sizeof *(array).items)
// Removes item `i`; the last takes its place.
#define RONDO_ARRAY_REMOVE(array, i) ((array).items[i] = (array).items[--(array).count])

// Takes the reference. Null bytes are counted as lost.
void rondo_membership_send(struct rondo_membership *m, uint32_t to,
                           struct rondo_shared_bytes *bytes);
// Encodes and sends a message without a body; fills in the epoch.
void rondo_membership_tell(struct rondo_membership *m, uint32_t to,
                           struct rondo_membership_message message);
void rondo_membership_act(struct rondo_membership *m, uint8_t type, uint32_t process,
                          struct rondo_shared_bytes *bytes);
void rondo_membership_notice(struct rondo_membership *m, const char *text);
// Ends the core with one of the last actions.
void rondo_membership_end(struct rondo_membership *m, uint8_t type, const char *text);
// Appends a record; returns its number.
uint64_t rondo_membership_append(struct rondo_membership *m, struct rondo_shared_bytes *record);

// ---- membership_spread.c ----

void rondo_membership_on_roster(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message);
void rondo_membership_adopt_roster(struct rondo_membership *m, struct rondo_roster *roster);
void rondo_membership_on_epoch(struct rondo_membership *m, uint32_t from,
                               const struct rondo_membership_message *message);
void rondo_membership_on_ack(struct rondo_membership *m, uint32_t from,
                             const struct rondo_membership_message *message);
void rondo_membership_on_fetch(struct rondo_membership *m, uint32_t from,
                               const struct rondo_membership_message *message);
// Opens the next epoch here and passes it on. Takes the reference.
void rondo_membership_open(struct rondo_membership *m, struct rondo_epoch *next);
void rondo_membership_send_epochs(struct rondo_membership *m, uint32_t to, uint32_t first);
void rondo_membership_fetch(struct rondo_membership *m, uint32_t from, uint32_t epoch);
// Sends again what may have been lost on the way to a process.
void rondo_membership_spread_again(struct rondo_membership *m, uint32_t to);
// A process that continues from a log asks what it has missed.
void rondo_membership_catch_up(struct rondo_membership *m);
void rondo_membership_assembly_free(struct rondo_membership *m);

// ---- membership_vote.c ----

void rondo_membership_on_prepare(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message);
void rondo_membership_on_propose(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message);
void rondo_membership_on_promise(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message);
void rondo_membership_on_accepted(struct rondo_membership *m, uint32_t from,
                                  const struct rondo_membership_message *message);
void rondo_membership_on_refused(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message);
void rondo_membership_on_appended(struct rondo_membership *m, uint64_t number, const char *error);
// Begins, goes on with or repeats a vote, if this process leads.
void rondo_membership_vote_tick(struct rondo_membership *m);
uint64_t rondo_membership_vote_due(const struct rondo_membership *m);
// An epoch is open: what belongs to its vote is over.
void rondo_membership_vote_reset(struct rondo_membership *m);
void rondo_membership_vote_again(struct rondo_membership *m, uint32_t to);
void rondo_membership_lead_drop(struct rondo_membership *m);
// True if all places before this process's are lost.
bool rondo_membership_is_acting(const struct rondo_membership *m);

// ---- membership_report.c ----

void rondo_membership_report(struct rondo_membership *m, const struct rondo_report_item *item);
void rondo_membership_report_simple(struct rondo_membership *m, uint8_t kind, uint32_t process,
                                    const char *text);
void rondo_membership_on_report(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message);
// Sends the reports that were not sent the way they have to go now.
void rondo_membership_reports_flush(struct rondo_membership *m);
void rondo_membership_reports_again(struct rondo_membership *m, uint32_t to);
// Forgets reports on processes that are no members any more.
void rondo_membership_reports_settle(struct rondo_membership *m);
void rondo_membership_reports_tick(struct rondo_membership *m);
uint64_t rondo_membership_reports_due(const struct rondo_membership *m);
// Where a report on `process` goes; NOBODY: this process judges it.
uint32_t rondo_membership_route(const struct rondo_membership *m, uint32_t process);
// True if the report is a reason for a new epoch.
bool rondo_report_removes(const struct rondo_report *r);
// The process answers: forgets that it is silent.
void rondo_membership_report_drop(struct rondo_membership *m, uint32_t process);
// An epoch has these removals of ranks.
void rondo_membership_reports_drop_ranks(struct rondo_membership *m,
                                         const struct rondo_shared_bytes *removals);
// The observers agree that the process is silent.
void rondo_membership_report_judged(struct rondo_membership *m, uint32_t process, uint8_t state);

// ---- membership_watch.c ----

struct rondo_belief *rondo_membership_belief(const struct rondo_membership *m, uint32_t process);
static inline bool rondo_membership_is_lost(const struct rondo_membership *m, uint32_t process) {
  return rondo_membership_belief(m, process) != NULL;
}
bool rondo_membership_is_proven(const struct rondo_membership *m, uint32_t process);
void rondo_membership_believe(struct rondo_membership *m, uint32_t process, bool is_proven,
                              bool is_judged);
// A message of the process has come.
void rondo_membership_hear(struct rondo_membership *m, uint32_t process, bool is_answer);
void rondo_membership_on_watch(struct rondo_membership *m, uint32_t from, uint32_t process);
void rondo_membership_on_verdict(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message);
// Answers a probe. `age_ns`: how long ago this process was known to be in touch.
void rondo_membership_answer(struct rondo_membership *m, uint32_t to,
                             const struct rondo_membership_message *probe, uint64_t age_ns);
void rondo_membership_on_probe(struct rondo_membership *m, uint32_t from,
                               const struct rondo_membership_message *message);
void rondo_membership_on_answer(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message);
void rondo_membership_on_inspected(struct rondo_membership *m, uint32_t process, uint8_t state);
void rondo_membership_watch(struct rondo_membership *m, uint32_t process, uint8_t why,
                            uint32_t judge);
// Opens a case, and counts the vote of `by` if it is no NOBODY.
void rondo_membership_judge(struct rondo_membership *m, const struct rondo_report_item *item,
                            uint32_t by);
void rondo_membership_watch_tick(struct rondo_membership *m);
uint64_t rondo_membership_watch_due(const struct rondo_membership *m);
// Adapts to a new epoch.
void rondo_membership_watch_settle(struct rondo_membership *m);
// This process was late by so much: gives all that it observes more time.
void rondo_membership_watch_shift(struct rondo_membership *m, uint64_t late_ns);

#endif // RONDO_RUNTIME_JOB_MEMBERSHIP_STATE_H
