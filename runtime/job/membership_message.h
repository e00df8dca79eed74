// The messages of membership and of the gathering before it: bytes, checked whole when read.
//
// Every message begins with its type and the sender's epoch. Numbers are little-endian. A message
// that is too short, too long or holds a number out of range is refused; no pointer of a decoded
// message leads outside its bytes.
#ifndef RONDO_RUNTIME_JOB_MEMBERSHIP_MESSAGE_H
#define RONDO_RUNTIME_JOB_MEMBERSHIP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/epoch.h"
#include "runtime/net/job_address.h"
#include "runtime/net/wire.h"

#define RONDO_MEMBERSHIP_MESSAGE_BYTES 66000u // longest message
#define RONDO_MEMBERSHIP_PART_BYTES 65536u    // of the roster in one message
#define RONDO_MEMBERSHIP_TEXT_BYTES 200u
#define RONDO_MEMBERSHIP_JOIN_LEAVING 25u // byte of a JOIN that says that its sender leaves

enum rondo_membership_type {
  RONDO_MEMBERSHIP_JOIN = 1,     // to the root: who joins; also again, with more ranks
  RONDO_MEMBERSHIP_JOINED = 2,   // from the root: how many ranks are there, and which are not
  RONDO_MEMBERSHIP_REJECTED = 3, // from the root: the sender may not join, and why
  RONDO_MEMBERSHIP_ROSTER = 4,   // down the tree: a part of the roster
  RONDO_MEMBERSHIP_EPOCH = 5,    // down the tree: the changes that made one or more epochs
  RONDO_MEMBERSHIP_ACK = 6,      // up the tree: all below the sender have the sender's epoch
  RONDO_MEMBERSHIP_FETCH = 7,    // asks for the epochs after the sender's, and for the roster
  RONDO_MEMBERSHIP_REPORT = 8,   // up the tree: who is lost, silent, blocked or leaves
  RONDO_MEMBERSHIP_WATCH = 9,    // to an observer: see whether a process answers
  RONDO_MEMBERSHIP_VERDICT = 10, // from an observer: whether it does
  RONDO_MEMBERSHIP_PROBE = 11,   // asks for an answer
  RONDO_MEMBERSHIP_ANSWER = 12,  // and how long ago the sender was in touch with the keepers
  // To who votes: accept no lower ballot for this epoch. If all members vote, with those that have
  // ended: nothing of theirs may be believed any more.
  RONDO_MEMBERSHIP_PREPARE = 13,
  RONDO_MEMBERSHIP_PROMISE = 14,  // and what the voter has accepted
  RONDO_MEMBERSHIP_PROPOSE = 15,  // to who votes: accept this change
  RONDO_MEMBERSHIP_ACCEPTED = 16, // the record of the change is kept
  RONDO_MEMBERSHIP_REFUSED = 17,  // a higher ballot was promised, or the voter cannot keep records
  RONDO_MEMBERSHIP_ENTER = 18,    // to the root of an admission: the sender asks to join
  RONDO_MEMBERSHIP_ADMITTED = 19, // from there: it has been admitted, to which job
  RONDO_MEMBERSHIP_TYPES
};

// What a report says of a process.
enum rondo_report_kind {
  RONDO_REPORT_LEFT = 1,    // it leaves in order
  RONDO_REPORT_DIED = 2,    // it has ended: proven
  RONDO_REPORT_SILENT = 3,  // it has not answered `by`
  RONDO_REPORT_BLOCKED = 4, // runs wait for it
  RONDO_REPORT_BROKE = 5,   // it violated the protocol
  RONDO_REPORT_RANK = 6     // the rank `process` leaves in order
};

// How an observer on the same machine found a process.
enum rondo_inspected {
  RONDO_INSPECTED_NOT = 0,
  RONDO_INSPECTED_RUNS = 1,    // alive, does not answer
  RONDO_INSPECTED_STOPPED = 2, // by a signal or a debugger
  RONDO_INSPECTED_DEAD = 3
};

struct rondo_report_item {
  uint8_t kind;     // enum rondo_report_kind
  uint8_t state;    // enum rondo_inspected
  uint32_t process; // whom it is about
  uint32_t by;      // who noticed
  char text[RONDO_EPOCH_TEXT_BYTES];
};

// A decoded message. Which fields are used is said beside the type above; the others are 0.
struct rondo_membership_message {
  uint8_t type;
  uint32_t epoch;    // the sender's
  uint32_t instance; // PREPARE … REFUSED: the epoch that is voted on
  uint64_t ballot;
  uint64_t accepted; // PROMISE: ballot of the change that the voter has accepted; 0: none
  uint8_t fresh;     // PROMISE: bits of the keepers whose end was recent when the voter learnt it
  uint64_t promised; // REFUSED: the ballot that was promised
  uint64_t age_ns;   // ANSWER; UINT64_MAX: not known
  uint64_t stamp_ns; // PROBE: when it was sent, by the sender's clock; ANSWER: of the probe
  uint64_t digest;   // ROSTER: of all of it; EPOCH: of the last
  uint32_t size;     // ROSTER: of all of it
  uint32_t index, count; // ROSTER: part index of count; EPOCH: first epoch, how many; REPORT: items
  uint32_t process;      // WATCH, VERDICT
  uint8_t flag;          // FETCH: has the roster; PROBE: asks for age; REFUSED: keeps no records;
                         // VERDICT: it answers
  uint8_t state;         // VERDICT: enum rondo_inspected
  struct rondo_wire_reader
      body; // ROSTER: the part; EPOCH, PROMISE, PROPOSE: changes; REPORT: items
};

// JOIN. The ranges and bytes point into the message.
struct rondo_join {
  uint64_t who; // a random number of the process, the same each time that it sends
  uint64_t machine;
  uint32_t rank_count;
  bool is_leaving; // it will not take part
  uint32_t range_count;
  const uint8_t *ranges; // encoded as in the roster
  uint32_t size;
  const uint8_t *bytes; // the shell's entry
};

// What the root answers a JOIN with.
enum rondo_joined_state {
  RONDO_JOINED_WAITS = 0,  // the roster is not made yet
  RONDO_JOINED_LEAVES = 1, // the process leaves, and no roster is to name it
  RONDO_JOINED_NAMED = 2   // the roster is made, and names the process
};

struct rondo_joined {
  uint8_t status; // REJECTED: enum rondo_status; JOINED: enum rondo_joined_state
  uint32_t joined_count, rank_count;
  char text[RONDO_MEMBERSHIP_TEXT_BYTES]; // JOINED: the missing ranks; REJECTED: why
};

// ENTER: a newcomer.
struct rondo_enter {
  uint64_t who;                           // as in struct rondo_join
  char text[RONDO_MEMBERSHIP_TEXT_BYTES]; // host and process, for the log
};

// ADMITTED: which job a newcomer is to join, and as which rank. The limits are in the configuration
// of the members.
struct rondo_admitted {
  uint32_t rank, rank_count;
  uint32_t least_ranks, most_ranks;
  uint8_t id[RONDO_SEALED_ID_BYTES];
};

// Reads a message. False if it is malformed. Reports and changes in `body` have been checked too.
bool rondo_membership_message_decode(const void *bytes, size_t size,
                                     struct rondo_membership_message *out);
bool rondo_membership_join_decode(const void *bytes, size_t size, struct rondo_join *out);
bool rondo_membership_joined_decode(const void *bytes, size_t size, struct rondo_joined *out);
bool rondo_membership_enter_decode(const void *bytes, size_t size, struct rondo_enter *out);
bool rondo_membership_admitted_decode(const void *bytes, size_t size, struct rondo_admitted *out);

// Reads the next item of a report's body, or the next change of another's. The message was decoded,
// so there are `count` of them. A change has one reference; null without memory.
void rondo_membership_report_next(struct rondo_wire_reader *body, struct rondo_report_item *out);
struct rondo_shared_bytes *rondo_membership_change_next(struct rondo_wire_reader *body);

// Write messages with one reference. All return null without memory.
// `rondo_membership_message_encode` writes types without a body.
struct rondo_shared_bytes *
rondo_membership_message_encode(const struct rondo_membership_message *message);
// ROSTER: part `index` of the roster.
struct rondo_shared_bytes *rondo_membership_part_encode(const struct rondo_roster *roster,
                                                        uint32_t index);
// The same; the roster keeps it for further calls.
struct rondo_shared_bytes *rondo_membership_roster_encode(struct rondo_roster *roster,
                                                          uint32_t index);
uint32_t rondo_membership_roster_parts(uint32_t size);
// EPOCH: the changes that made epochs `first` and later, as many as fit.
struct rondo_shared_bytes *rondo_membership_epoch_encode(const struct rondo_epoch *epoch,
                                                         uint32_t first);
// PREPARE, PROMISE and PROPOSE: `change` may be null.
struct rondo_shared_bytes *
rondo_membership_vote_encode(const struct rondo_membership_message *message,
                             const struct rondo_shared_bytes *change);
// REPORT: the first `*count` items, or as many as fit: `*count` says how many.
struct rondo_shared_bytes *rondo_membership_report_encode(uint32_t epoch,
                                                          const struct rondo_report_item *items,
                                                          uint32_t *count);
struct rondo_shared_bytes *rondo_membership_join_encode(const struct rondo_join *join,
                                                        const struct rondo_rank_range *ranges);
struct rondo_shared_bytes *rondo_membership_joined_encode(uint8_t type,
                                                          const struct rondo_joined *joined);

struct rondo_shared_bytes *rondo_membership_enter_encode(const struct rondo_enter *enter);
struct rondo_shared_bytes *rondo_membership_admitted_encode(const struct rondo_admitted *admitted);

const char *rondo_membership_type_name(uint8_t type);

#endif // RONDO_RUNTIME_JOB_MEMBERSHIP_MESSAGE_H
