// The messages between the processes of a job. They carry control, never data.
//
//   rondo_message_register_encode -> send (mesh.h) ... receive -> rondo_message_register_decode
//
// The sender of a message knew the job's secret. Every length and every index is checked
// nevertheless. Numbers have the machine's byte order.
#ifndef RONDO_RUNTIME_JOB_MESSAGE_H
#define RONDO_RUNTIME_JOB_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/job/registration.h"
#include "runtime/transport/transports.h"

// The `type` of a message of the mesh. Enum rondo_transport_message has the types of transports.
enum rondo_message_type {
  RONDO_MESSAGE_REGISTER = 17,   // a rank of the sender has registered a collective
  RONDO_MESSAGE_DEREGISTER = 18, // that registration has ended
  RONDO_MESSAGE_FAIL = 19,       // a registration of either side has failed
  RONDO_MESSAGE_RELEASE = 20,    // the sender will not use these connectors of the receiver
  RONDO_MESSAGE_ASK = 21,        // asks for an answer
  RONDO_MESSAGE_ANSWER = 22,
  RONDO_MESSAGE_EVICT = 23, // the sender has given up the receiver
  // Of the folder order.
  RONDO_MESSAGE_JOURNAL = 24,       // where a rank of the sender writes its calls (journal.c)
  RONDO_MESSAGE_COMM_FAILED = 25,   // a communicator has failed (comm_failure.c)
  RONDO_MESSAGE_COMM_DETACHED = 29, // a rank has destroyed its end of one (comm_detach.c)
  RONDO_MESSAGE_CALLS = 30,         // calls of a rank of the sender (journal_replica.c)
  // Of the folder observe (remote_views.c).
  RONDO_MESSAGE_LOOK = 31, // asks for the progress of the receiver's ranks
  RONDO_MESSAGE_VIEWS = 32 // the answer
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

#endif // RONDO_RUNTIME_JOB_MESSAGE_H
