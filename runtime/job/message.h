// The messages between the processes of a job. They carry control, never data.
//
//   rondo_message_register_encode -> send (mesh.h) ... receive -> rondo_message_register_decode
//
// The sender of a message knew the job's secret. Every length and every index is checked
// nevertheless. Numbers have the machine's byte order.
#ifndef RONDO_RUNTIME_JOB_MESSAGE_H
#define RONDO_RUNTIME_JOB_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/agreement.h"
#include "runtime/job/registration.h"
#include "runtime/transport/transports.h"

// The `type` of a message of the mesh. Enum rondo_transport_message has the types of transports.
enum rondo_message_type {
  RONDO_MESSAGE_REGISTER = 17,   // a rank of the sender has registered a collective
  RONDO_MESSAGE_DEREGISTER = 18, // that registration has ended
  RONDO_MESSAGE_FAIL = 19,       // a registration of either side has failed
  RONDO_MESSAGE_RELEASE = 20,    // the sender will not use these connectors of the receiver
  // Of the folder order.
  RONDO_MESSAGE_JOURNAL = 24,       // where a rank of the sender writes its calls (journal.c)
  RONDO_MESSAGE_COMM_FAILED = 25,   // a communicator has failed (comm_failure.c)
  RONDO_MESSAGE_COMM_DETACHED = 29, // a rank has destroyed its end of one (comm_detach.c)
  RONDO_MESSAGE_CALLS = 30,         // calls of a rank of the sender (journal_replica.c)
  // Of the folder observe (remote_views.c).
  RONDO_MESSAGE_LOOK = 31,  // asks for the progress of the receiver's ranks
  RONDO_MESSAGE_VIEWS = 32, // the answer
  // Of the agreement on registrations (agreement.h).
  RONDO_MESSAGE_MEMBERS = 40, // a part of a member list
  RONDO_MESSAGE_ENTRY = 41    // what the sender knows of an entry
};

// REGISTER. Followed by nranks members (uint32_t, padded to 8 bytes), `count_count` counts of an
// all-to-all-v (uint64_t: sent to each member, then received from each), and `offer_count` offers.
struct rondo_message_register {
  uint64_t id, generation, count;
  int32_t kind, dtype, redop;
  uint32_t root;
  uint32_t rank, position, nranks;
  uint32_t blocks, chunk_elems, slot_count;
  uint32_t first_sequence;
  uint32_t offer_count;
  uint32_t count_count; // 2 × nranks, or 0
  uint32_t space;       // of the id
};

// DEREGISTER, FAIL, RELEASE.
struct rondo_message_short {
  uint64_t id, generation;
  uint32_t rank;      // RELEASE: the consumer, a rank of the receiver
  uint32_t other;     // FAIL: the culprit; RELEASE: the producer
  int32_t status;     // FAIL
  uint32_t space;     // of the id
  uint64_t completed; // DEREGISTER: runs that the rank has completed
};

// Makes a message about one registration; the caller sets the fields of its type.
static inline struct rondo_message_short rondo_message_about(struct rondo_id id,
                                                             uint64_t generation, uint32_t rank) {
  struct rondo_message_short message = {
      .id = id.number, .space = id.space, .generation = generation, .rank = rank};
  return message;
}

// A decoded REGISTER message. The pointers point into the message.
struct rondo_message_registration {
  const struct rondo_message_register *head;
  const uint32_t *members;
  const uint64_t *counts;
  const struct rondo_connector_offer *offers;
};

size_t rondo_message_register_bytes(const struct rondo_message_register *head);

// Writes a registration to `bytes` (rondo_message_register_bytes, 8-byte aligned).
void rondo_message_register_encode(void *bytes, const struct rondo_message_registration *r);

// Decodes a registration of a job of `rank_count` ranks. `bytes` are 8-byte aligned. Returns 0 if
// the message is invalid, else 1.
int rondo_message_register_decode(const void *bytes, size_t size, uint32_t rank_count,
                                  struct rondo_message_registration *r);

// What a process knows of an entry of the agreement. Facts only come, they never go. OVER with
// FAILED: the sender has no entry; this answers a message, and is not answered.
enum rondo_entry_fact {
  RONDO_ENTRY_PROPOSED = 1,
  RONDO_ENTRY_COMPLETE = 2,
  RONDO_ENTRY_AGREED = 4,
  RONDO_ENTRY_DONE = 8,
  RONDO_ENTRY_OVER = 16,
  RONDO_ENTRY_FAILED = 32,
  RONDO_ENTRY_FACTS = 63
};

// ENTRY. Followed by `range_count` ranges, which make up the whole member list or are none, and by
// `text_bytes` of the failure's text, which ends with 0.
struct rondo_message_entry {
  struct rondo_agreement_key key;
  uint64_t limit;                     // the least number of runs of a rank that has deregistered
  uint32_t limit_culprit;             // that rank; UINT32_MAX: none
  uint32_t facts;                     // enum rondo_entry_fact
  uint32_t rank;                      // PROPOSED: a rank that has registered `descriptor`
  int32_t status;                     // FAILED, with the next two
  uint32_t culprit, other;            // ranks; `other` may be UINT32_MAX
  uint32_t range_count, text_bytes;   // of what follows
  struct rondo_descriptor descriptor; // of `rank`
};

// MEMBERS. Followed by `range_count` ranges: the members from position `at` on.
struct rondo_message_members {
  uint64_t group; // the digest of the whole list
  uint32_t nranks, at, range_count, reserved;
};

#define RONDO_ENTRY_RANGES 64u                    // at most, in an ENTRY message
#define RONDO_ENTRY_TEXT_BYTES RONDO_REASON_BYTES // at most
#define RONDO_MEMBERS_RANGES 5000u                // at most, in a MEMBERS message: 60 kB

// A decoded ENTRY message. The pointers point into the message.
struct rondo_entry_message {
  struct rondo_message_entry head;
  const struct rondo_member_range *ranges;
  const char *text; // "" if there is none
};

// Decodes an ENTRY message of a job of `rank_count` ranks; `bytes` are 4-byte aligned. Returns
// false if the message is invalid. Ranks of ranges are not checked (rondo_member_ranges_expand).
bool rondo_message_entry_decode(const void *bytes, size_t size, uint32_t rank_count,
                                struct rondo_entry_message *out);
// The same for MEMBERS.
bool rondo_message_members_decode(const void *bytes, size_t size, uint32_t rank_count,
                                  struct rondo_message_members *out,
                                  const struct rondo_member_range **ranges);

#endif // RONDO_RUNTIME_JOB_MESSAGE_H
