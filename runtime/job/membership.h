// Membership: who is in the job, agreed on by all of its processes, as numbered epochs (epoch.h).
//
//   rondo_membership_create -> rondo_membership_step ... -> rondo_membership_destroy
//
// A pure state machine: it makes no call of the system, waits for nobody and reads no clock. Its
// owner (the shell) tells it what happens as events, carries out the actions that each step
// returns, and calls with a TICK at rondo_membership_due. One thread, or one lock, at a time.
//
// What it does
//
// - Join: sends JOIN to the root (gather.h) until the roster arrives. The root gives the roster to
//   the process of the lowest rank; from there it goes down the tree.
// - Epochs: the coordinator (place 0) collects removals for WINDOW_NS and proposes them to the
//   keepers (places 0, 1, 2). A change is decided by a majority of the keepers; then it goes down
//   the tree, and acknowledgements come up. Each epoch is one decision of Paxos, with the keepers
//   of the epoch before as its voters. If the coordinator is lost, the next place goes on with a
//   higher ballot.
// - A process that has ended (`is_proven`) cannot vote any more. If so many keepers have ended that
//   no majority is left, the first place that is left asks all members that have not ended, and
//   goes on when each of them has promised, if one of them has been in touch with those keepers too
//   recently to have been put out by them. Where processes keep logs, and so may come back, only
//   a majority counts.
// - Loss: whoever knows that a process has ended reports it up the tree. Silence counts only when
//   somebody is blocked on the process, or always with heartbeat_ns: the coordinator asks three
//   observers, and a majority of those that judge decides. An observer that was late itself gives
//   more time.
// - A process that needs a change and is out of touch with a majority of the keepers for about four
//   times the silence says NO_MAJORITY. The silence is peer_timeout_ns, or 4 × heartbeat_ns if
//   that is less.
// - Old messages are dropped and counted; news of a newer epoch makes a process ask for it.
#ifndef RONDO_RUNTIME_JOB_MEMBERSHIP_H
#define RONDO_RUNTIME_JOB_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/epoch.h"
#include "runtime/job/membership_message.h"

#define RONDO_MEMBERSHIP_ROOT (UINT32_MAX - 1) // a receiver: the root, before the roster is known

struct rondo_membership;

struct rondo_membership_config {
  uint8_t job[16]; // names the job in the log
  // What this process joins with; copied. `ranges` of the join is not used.
  struct rondo_join join;
  const struct rondo_rank_range *ranges;
  uint64_t join_timeout_ns;
  uint64_t peer_timeout_ns; // least 1 ms
  uint64_t heartbeat_ns;    // 0: silence counts only when somebody is blocked
  // Records are kept: APPEND actions. `log` holds the bytes of an earlier process that this one
  // continues, or null.
  bool keeps_log;
  const void *log;
  size_t log_size;
  struct rondo_epoch_pool *pool; // simulation; else null
};

enum rondo_membership_event_type {
  RONDO_MEMBERSHIP_TICK,
  // `size` bytes from `process`; the shell knows that they are from it. From the root or a process
  // whose number is not known: RONDO_MEMBERSHIP_ROOT.
  RONDO_MEMBERSHIP_RECEIVE,
  // The root in this process has made the roster `bytes` (rondo_gather): only in the process of the
  // lowest rank. In other processes the shell sends it there as messages.
  RONDO_MEMBERSHIP_BEGIN,
  // The connection to `process` was cut or could not be made, so messages may be lost. `is_proven`:
  // its kernel refuses new ones, so the process has ended. `text`: details. If that process was the
  // root, the roster may be on its way already: it is waited for a little longer.
  RONDO_MEMBERSHIP_CUT,
  RONDO_MEMBERSHIP_MISBEHAVED, // `process` violated the protocol: `text`
  // Runs here wait for exactly these `count` `processes`, for peer_timeout_ns / 4 or longer.
  RONDO_MEMBERSHIP_BLOCK,
  // This process leaves in order: goes on until the action LEFT. Without memory, before the roster
  // is known, nothing happens: the shell asks again.
  RONDO_MEMBERSHIP_LEAVE,
  RONDO_MEMBERSHIP_DROP_RANK, // rank `process` leaves in order; its process goes on
  RONDO_MEMBERSHIP_INSPECTED, // `process` was found in `state`
  // This process joins with more ranks than before: `bytes` is its JOIN from now on. Ignored once
  // the roster is known.
  RONDO_MEMBERSHIP_JOIN_AGAIN,
  RONDO_MEMBERSHIP_APPENDED // the record `number` is on the disk; `text`: it failed, because
};

struct rondo_membership_event {
  uint8_t type;
  uint8_t state; // enum rondo_inspected
  bool is_proven;
  uint64_t now_ns; // never less than before
  uint32_t process;
  uint32_t count;
  const uint32_t *processes;
  const void *bytes;
  size_t size;
  uint64_t number;
  const char *text; // may be null, but for APPENDED
};

enum rondo_membership_action_type {
  RONDO_MEMBERSHIP_SEND,    // `bytes` to `process`: over a connection that keeps the order
  RONDO_MEMBERSHIP_OPENED,  // `epoch` is open here; `bytes`: its removals (rondo_removal_next)
  RONDO_MEMBERSHIP_INSPECT, // see how `process`, on this machine, is, and tell by INSPECTED
  // Append `bytes` to the log and tell by APPENDED. If that fails, cut the log back first.
  RONDO_MEMBERSHIP_APPEND,
  RONDO_MEMBERSHIP_NOTICE, // a line for the log: the text in `bytes`
  // The last actions: after one of these the core does nothing more. Text in `bytes`.
  RONDO_MEMBERSHIP_LEFT,        // the others know that this process leaves
  RONDO_MEMBERSHIP_EVICTED,     // the others go on without this process
  RONDO_MEMBERSHIP_NO_MAJORITY, // out of touch with the keepers
  RONDO_MEMBERSHIP_FAILED       // could not join
};

struct rondo_membership_action {
  uint8_t type;
  uint32_t process;
  uint64_t number;                  // APPEND
  struct rondo_shared_bytes *bytes; // one reference
  struct rondo_epoch *epoch;        // OPENED: one reference
};

// In the order in which they are to be carried out. All zero at first.
struct rondo_membership_actions {
  struct rondo_membership_action *items;
  uint32_t count, capacity;
};
// Drops the references and empties the list; `fini` frees it, too.
void rondo_membership_actions_clear(struct rondo_membership_actions *actions);
void rondo_membership_actions_fini(struct rondo_membership_actions *actions);

struct rondo_membership_counters {
  uint64_t sent[RONDO_MEMBERSHIP_TYPES], received[RONDO_MEMBERSHIP_TYPES];
  uint64_t sent_bytes, received_bytes;
  uint64_t old;     // messages of an older epoch, dropped
  uint64_t refused; // malformed messages, dropped
  uint64_t lost;    // messages that could not be made: no memory
};

// Returns null without memory. If the log of `cfg` cannot be used, returns null and writes the
// reason to `text` (RONDO_MEMBERSHIP_TEXT_BYTES); otherwise `text` is empty.
struct rondo_membership *rondo_membership_create(const struct rondo_membership_config *cfg,
                                                 uint64_t now_ns, char *text);
void rondo_membership_destroy(struct rondo_membership *m);

// Takes one event and appends the actions that follow from it.
void rondo_membership_step(struct rondo_membership *m, const struct rondo_membership_event *event,
                           struct rondo_membership_actions *actions);

// When the next TICK is due, for now; UINT64_MAX: never.
uint64_t rondo_membership_due(const struct rondo_membership *m);

// The epoch that is open here; null before the first. A caller that keeps it gets a reference.
struct rondo_epoch *rondo_membership_epoch(const struct rondo_membership *m);
// The roster; null before it is known. It may be known before the first epoch is open.
const struct rondo_roster *rondo_membership_roster(const struct rondo_membership *m);
// The number of this process; RONDO_ROSTER_NOBODY before the roster is known.
uint32_t rondo_membership_self(const struct rondo_membership *m);
// False after one of the last actions.
bool rondo_membership_is_running(const struct rondo_membership *m);
const struct rondo_membership_counters *rondo_membership_counters(const struct rondo_membership *m);
// True if all processes below this one have the epoch that is open here.
bool rondo_membership_is_spread(const struct rondo_membership *m);

#endif // RONDO_RUNTIME_JOB_MEMBERSHIP_H
