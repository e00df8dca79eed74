// What the processes of a job tell each other about registrations: set-up only, never data.
//
//   rondo_message_encode -> rondo_mesh_send ... receive -> rondo_message_decode
//
// A notice comes from somebody who knew the job's secret, and is checked all the same: every length
// and every number that is used as an index. Numbers are in the byte order of the machine: processes
// that share memory have one.
#ifndef RONDO_RUNTIME_JOB_MESSAGE_H
#define RONDO_RUNTIME_JOB_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

// The `type` of a message of the mesh.
enum rondo_message_type {
  RONDO_MESSAGE_HELLO = 16,  // first of all: my arena is so large, at this address; its descriptor
  RONDO_MESSAGE_REGISTER,    // one of my ranks has registered this
  RONDO_MESSAGE_DEREGISTER,  // ... and is gone, after so many runs
  RONDO_MESSAGE_FAIL,        // the registration of this rank, yours or mine, has failed
  RONDO_MESSAGE_RELEASE,     // this connector of yours is not used, and will not be
  RONDO_MESSAGE_ASK,         // answer this
  RONDO_MESSAGE_ANSWER,      // I am here
  RONDO_MESSAGE_EVICT,       // I go on without you
  RONDO_MESSAGE_JOURNAL,     // a rank here writes its calls there (runtime/order/journal.c)
  RONDO_MESSAGE_COMM_FAILED, // a communicator has failed (runtime/order/failure.c)
  RONDO_MESSAGE_PROXY,       // first of all, where no memory is shared: my proxy's address
  RONDO_MESSAGE_PART,        // this is one more part of my range; its descriptor
  RONDO_MESSAGE_MAPPED,      // so much of your range is mapped here
  RONDO_MESSAGE_COMM_DETACHED, // a rank has destroyed its end of a communicator (runtime/order/detach.c)
  RONDO_MESSAGE_CALLS,         // what a rank here has called (runtime/order/replica.c)
  RONDO_MESSAGE_LOOK,          // how far are your ranks? (runtime/observe/views.c)
  RONDO_MESSAGE_VIEWS,         // so far
  RONDO_MESSAGE_WINDOW         // of a window of NCCL (window.c)
};

// Of the arena, and of the range if there is one, and as far as it has parts.
struct rondo_message_hello {
  uint64_t base, bytes;
  uint64_t range_base, range_bytes, parts_bytes;
};

struct rondo_message_part {
  uint64_t at, bytes;
};

struct rondo_message_mapped {
  uint64_t bytes;
  uint64_t is_refused; // 1: no more than this will be
};

struct rondo_message_window {
  uint32_t word;
  int32_t status;       // RONDO_SUCCESS, or why not
  uint64_t base, bytes; // of the sender's
  uint8_t id[128];
  char why[256];
};

// Followed by nranks members (uint32_t, filled up to 8 bytes), by `count_count` counts (uint64_t) of an
// all-to-all-v, for each member those sent and then those received, and by `offer_count` offers.
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

enum rondo_offer_place { RONDO_OFFER_ARENA = 0, RONDO_OFFER_RANGE = 1, RONDO_OFFER_WINDOW = 2 };

// Where in the sender's arena, range or window the connectors are by which position `from` sends to the one that
// registers.
struct rondo_offer {
  uint32_t from;
  uint32_t place;        // enum rondo_offer_place
  uint64_t at;           // of the first block's; where no memory is shared the number of the link
  uint64_t stride_bytes; // from one block's to the next; 0: no memory is shared
};

// DEREGISTER, FAIL, RELEASE.
struct rondo_message_short {
  uint64_t id, generation;
  uint32_t rank;      // RELEASE: the consumer, the receiver's
  uint32_t other;     // FAIL: the culprit; RELEASE: the producer
  int32_t status;     // FAIL
  uint32_t space;     // of the id
  uint64_t completed; // DEREGISTER: runs that the rank has completed
};

// A registration as it has arrived. The pointers point into the message.
struct rondo_message_registration {
  const struct rondo_message_register *head;
  const uint32_t *members;
  const uint64_t *counts;
  const struct rondo_offer *offers;
};

size_t rondo_message_register_bytes(const struct rondo_message_register *head);

// Writes a registration to `bytes` (of that size, 8-byte aligned).
void rondo_message_register_encode(void *bytes, const struct rondo_message_registration *r);

// Takes a registration of a job with `rank_count` ranks apart. `bytes` are 8-byte aligned.
// Returns 1, or 0 if no member sends such a thing.
int rondo_message_register_decode(const void *bytes, size_t size, uint32_t rank_count,
                                  struct rondo_message_registration *r);

#endif // RONDO_RUNTIME_JOB_MESSAGE_H
