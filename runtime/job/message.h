// The messages between the processes of a job. They carry control, never data.
//
//   send (mesh.h) ... receive -> rondo_message_..._decode
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
  // Of pairs of processes that a plan connects (offers.h).
  RONDO_MESSAGE_OFFERS = 17,  // connectors of a registration there, for ranks here
  RONDO_MESSAGE_DETACH = 18,  // that registration has ended
  RONDO_MESSAGE_RELEASE = 20, // the sender will not use these connectors of the receiver
  // Of the folder order.
  RONDO_MESSAGE_JOURNAL = 24,       // where a rank of the sender writes its calls (journal.c)
  RONDO_MESSAGE_COMM_DETACHED = 29, // a rank has destroyed its end of one (comm_detach.c)
  RONDO_MESSAGE_CALLS = 30,         // calls of a rank of the sender (journal_replica.c)
  // Of the folder observe (remote_views.c).
  RONDO_MESSAGE_LOOK = 31,  // asks for the progress of the receiver's ranks
  RONDO_MESSAGE_VIEWS = 32, // the answer
  // Of the agreement on registrations (agreement.h).
  RONDO_MESSAGE_MEMBERS = 40, // a part of a member list
  RONDO_MESSAGE_ENTRY = 41    // what the sender knows of an entry
};

// OFFERS. Followed by `offer_count` offers (struct rondo_connector_offer). If the descriptor
// `has_counts`, two counts (uint64_t) for each offer follow: what the sender sends to the producer,
// and what it expects from there.
struct rondo_message_offers {
  struct rondo_agreement_key key;
  struct rondo_descriptor descriptor;
  uint32_t rank, position; // of the sender
  uint32_t offer_count, reserved;
};

// A decoded OFFERS message. The pointers point into the message.
struct rondo_offers_message {
  const struct rondo_message_offers *head;
  const struct rondo_connector_offer *offers;
  const uint64_t *counts; // null unless the descriptor has_counts
};

size_t rondo_message_offers_bytes(const struct rondo_message_offers *head);
// Decodes the offers of a job of `rank_count` ranks; `bytes` are 8-byte aligned. Returns false if
// the message is invalid.
bool rondo_message_offers_decode(const void *bytes, size_t size, uint32_t rank_count,
                                 struct rondo_offers_message *out);

// DETACH, RELEASE.
struct rondo_message_detach {
  struct rondo_id id;
  uint64_t generation;
  uint32_t rank;     // DETACH: a rank of the sender; RELEASE: the consumer, a rank of the receiver
  uint32_t producer; // RELEASE: a rank of the sender; else UINT32_MAX
};

// What a process knows of an entry of the agreement. Facts only come, they never go. OVER with
// FAILED: the sender has no entry; this answers a message, and is not answered. A key of a
// communicator (RONDO_SPACE_KEY) has no other fact than FAILED.
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
