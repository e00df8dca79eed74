// The messages between the processes of a job: set-up only, never data.
//
//   rondo_message_register_encode -> rondo_mesh_send ... receive -> rondo_message_register_decode
//
// The sender of a message knew the secret of the job. What it sends is checked all the same: every
// length, and every number that is used as an index. Numbers are in the byte order of the machine.
#ifndef RONDO_RUNTIME_JOB_MESSAGE_H
#define RONDO_RUNTIME_JOB_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/job/registration.h"
#include "runtime/transport/transports.h"

// The `type` of a message of the mesh. Those of transports are in enum rondo_transport_message; those
// that an extension of the job takes are explained where it is.
enum rondo_message_type {
  RONDO_MESSAGE_REGISTER = 17,   // a rank of the sender has registered this
  RONDO_MESSAGE_DEREGISTER = 18, // that registration has ended, after so many runs
  RONDO_MESSAGE_FAIL = 19,       // the registration of this rank, of either side, has failed
  RONDO_MESSAGE_RELEASE = 20,    // these connectors of the receiver's will not be used
  RONDO_MESSAGE_ASK = 21,        // answer this
  RONDO_MESSAGE_ANSWER = 22,
  RONDO_MESSAGE_EVICT = 23, // the sender goes on without the receiver
  // Of the order room.
  RONDO_MESSAGE_JOURNAL = 24,       // a rank of the sender writes its calls there (journal.c)
  RONDO_MESSAGE_COMM_FAILED = 25,   // a communicator has failed (failure.c)
  RONDO_MESSAGE_COMM_DETACHED = 29, // a rank has destroyed its end of one (detach.c)
  RONDO_MESSAGE_CALLS = 30,         // what a rank of the sender has called (replica.c)
  // Of the observe room (views.c).
  RONDO_MESSAGE_LOOK = 31, // how far are your ranks?
  RONDO_MESSAGE_VIEWS = 32 // so far
};

// REGISTER. Followed by nranks members (uint32_t, filled up to 8 bytes), by `count_count` counts
// (uint64_t) of an all-to-all-v, for each member those sent and then those received, and by
// `offer_count` offers.
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
  uint32_t rank;      // RELEASE: the consumer, which the receiver has
  uint32_t other;     // FAIL: the culprit; RELEASE: the producer
  int32_t status;     // FAIL
  uint32_t space;     // of the id
  uint64_t completed; // DEREGISTER: runs that the rank has completed
};

// A message about one registration; the caller adds what its type has besides.
static inline struct rondo_message_short rondo_message_about(struct rondo_id id,
                                                             uint64_t generation, uint32_t rank) {
  struct rondo_message_short message = {
      .id = id.number, .space = id.space, .generation = generation, .rank = rank};
  return message;
}

// A REGISTER message taken apart. The pointers point into the message.
struct rondo_message_registration {
  const struct rondo_message_register *head;
  const uint32_t *members;
  const uint64_t *counts;
  const struct rondo_connector_offer *offers;
};

size_t rondo_message_register_bytes(const struct rondo_message_register *head);

// Writes a registration to `bytes` (of that size, 8-byte aligned).
void rondo_message_register_encode(void *bytes, const struct rondo_message_registration *r);

// Takes a registration of a job of `rank_count` ranks apart. `bytes` are 8-byte aligned. Returns 1, or 0
// if no member sends such a thing.
int rondo_message_register_decode(const void *bytes, size_t size, uint32_t rank_count,
                                  struct rondo_message_registration *r);

#endif // RONDO_RUNTIME_JOB_MESSAGE_H
