// The messages between proxies: the head before a payload, and the address before the carrier's
// address. All machines of a job have the same byte order.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H
#define RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "runtime/transport/carrier.h"

enum rondo_proxy_message {
  RONDO_PROXY_DATA = 1, // a slot
  RONDO_PROXY_CREDIT,   // slots before `sequence` were consumed
  RONDO_PROXY_CLOSE,    // from the producer: it has sent `count` slots
  RONDO_PROXY_CLOSED    // from the consumer: it has all slots, or drops the rest
};

struct rondo_proxy_head {
  uint64_t token; // of the receiving process; only members of the job know it
  uint64_t link;  // the receiver's number of the link
  uint64_t back;  // the sender's number of the link
  uint64_t count; // CLOSE: slots sent in all; DATA: the word of the slot
  uint32_t from;  // the sending process
  uint32_t sequence;
  uint32_t bytes; // of the payload
  uint16_t block;
  uint16_t type; // enum rondo_proxy_message
  // DATA: an enclosed credit; the fields are those of CREDIT.
  uint64_t credit_link; // 0: none
  uint32_t credit_sequence;
  uint16_t credit_block;
  uint16_t reserved;
};
static_assert(sizeof(struct rondo_proxy_head) == 64, "the form of a message");
static_assert(sizeof(struct rondo_proxy_head) <= RONDO_CARRIER_HEAD_BYTES, "the form of a message");

#define RONDO_PROXY_NAME_BYTES 16u

// Precedes the carrier's address.
struct rondo_proxy_address {
  uint64_t token;
  char carrier[RONDO_PROXY_NAME_BYTES];
};

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H
