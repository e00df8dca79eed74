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
  uint32_t bytes; // of the payload; DATA: of the slot
  uint16_t block;
  uint16_t type; // enum rondo_proxy_message
  // DATA: an enclosed credit; the fields are those of CREDIT.
  uint64_t credit_link; // 0: none
  uint32_t credit_sequence;
  uint16_t credit_block;
  // DATA: a slot may come in pieces, each in a message of its own. The number of this piece, and
  // that of the last one, below RONDO_PROXY_PIECES; 0: the message has the whole slot.
  uint8_t piece, last_piece;
};
static_assert(sizeof(struct rondo_proxy_head) == 64, "the form of a message");
static_assert(sizeof(struct rondo_proxy_head) <= RONDO_CARRIER_HEAD_BYTES, "the form of a message");

#define RONDO_PROXY_PIECES 64u // of a slot at most

// Where a piece of a slot begins; that of the piece after the last one is where the slot ends.
static inline uint64_t rondo_proxy_piece_at(const struct rondo_proxy_head *head, uint32_t piece) {
  return (uint64_t)head->bytes * piece / (head->last_piece + 1u);
}

// The bytes of payload that follow the head.
static inline uint64_t rondo_proxy_payload_bytes(const struct rondo_proxy_head *head) {
  return rondo_proxy_piece_at(head, head->piece + 1u) - rondo_proxy_piece_at(head, head->piece);
}

#define RONDO_PROXY_NAME_BYTES 16u

// Precedes the carrier's address.
struct rondo_proxy_address {
  uint64_t token;
  char carrier[RONDO_PROXY_NAME_BYTES];
};

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_WIRE_H
