// What proxies say to each other: the head that goes before a payload, and the address that goes before
// the carrier's. Between machines of one byte order, as all that a job says.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H
#define RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "runtime/transport/carrier.h"

enum rondo_proxy_message {
  RONDO_PROXY_DATA = 1, // a slot
  RONDO_PROXY_CREDIT,   // slots before `sequence` have been consumed
  RONDO_PROXY_CLOSE,    // the producer's side: there were `count` slots
  RONDO_PROXY_CLOSED    // the consumer's side: it has them all, or does not want the rest
};

struct rondo_proxy_head {
  uint64_t token; // the receiving process's: who knows it is of the job
  uint64_t link;  // the receiver's number of it
  uint64_t back;  // the sender's
  uint64_t count; // CLOSE: slots that were sent in all
  uint32_t from;  // the sending process
  uint32_t sequence;
  uint32_t bytes; // of the payload
  uint16_t block;
  uint16_t type; // enum rondo_proxy_message
  // DATA: a credit that goes with it, as CREDIT says it.
  uint64_t credit_link; // 0: none
  uint32_t credit_sequence;
  uint16_t credit_block;
  uint16_t reserved;
};
static_assert(sizeof(struct rondo_proxy_head) == 64, "the form of a message");
static_assert(sizeof(struct rondo_proxy_head) <= RONDO_CARRIER_HEAD_BYTES, "the form of a message");

#define RONDO_PROXY_NAME_BYTES 16u

// Put before the carrier's own address.
struct rondo_proxy_address {
  uint64_t token;
  char carrier[RONDO_PROXY_NAME_BYTES];
};

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H
