// One proxy whose carrier is the test itself: the test says what arrives, when a payload has landed
// and when a message has been sent, and sees what the proxy sends.
//
//   rondo_hand_open -> rondo_hand_link ... arrive / land / sent / rondo_proxy_progress ->
//   rondo_hand_close
//
// One at a time. The proxy is that of process RONDO_HAND_SELF; all others have been met.
#ifndef RONDO_TESTS_SUPPORT_HAND_CARRIER_H
#define RONDO_TESTS_SUPPORT_HAND_CARRIER_H

#include <stdint.h>

#include "runtime/transport/proxy.h"
#include "runtime/transport/proxy_wire.h"

#define RONDO_HAND_SELF 0u
#define RONDO_HAND_PROCESSES 3u
#define RONDO_HAND_ENDPOINTS 3u
#define RONDO_HAND_LINKS 4u
#define RONDO_HAND_BLOCKS 2u
#define RONDO_HAND_SLOTS 4u
#define RONDO_HAND_SLOT_BYTES 192u
#define RONDO_HAND_PIECE_BYTES 64u // the least piece of a slot
#define RONDO_HAND_PENDING 64u

// A link of the proxy, with the connectors of its blocks, each in memory of its own size.
struct rondo_hand_link {
  struct rondo_proxy_link *link; // null: over
  uint64_t number;
  struct rondo_connector *first;
  uint64_t stride_bytes;
  int is_whole;                                  // once it is over
  struct rondo_endpoint ends[RONDO_HAND_BLOCKS]; // of the blocks, the other side of the proxy
};

// A payload that is to land, or a message that is on its way.
struct rondo_hand_pending {
  void *ticket;
  uint8_t *to; // where it lands, or what is sent
  uint64_t bytes;
  struct rondo_proxy_head head; // of what is sent
  uint32_t endpoint;            // ... and over which one
};

struct rondo_hand {
  struct rondo_proxy *proxy;
  uint64_t token; // of the proxy: what others have to know
  const struct rondo_carrier_events *events;
  void *arg;
  struct rondo_hand_link links[RONDO_HAND_LINKS];
  uint32_t link_count;
  struct rondo_hand_pending landing[RONDO_HAND_PENDING], sending[RONDO_HAND_PENDING];
  uint32_t landing_count, sending_count;
  struct rondo_proxy_head said;     // the last message
  uint32_t said_count;              // of all
  uint32_t said_endpoint;           // of the last
  uint32_t connected, connected_to; // connections that the proxy has asked for last, and to whom
  uint32_t broken;                  // a bit for each process that was reported to the owner
  int refuses;                      // the carrier refuses to send ...
  uint32_t accepts;                 // ... after so many messages of all
  int is_unused;                    // no run of any link is outstanding
  struct rondo_link_set link_set;   // of all links
  uint32_t sends_in;                // rounds until all messages are sent; 0: the test decides
  uint32_t receives;                // calls of the carrier's `progress`
  uint32_t identified;              // a bit for each process whose messages the proxy has accepted
};

extern struct rondo_hand rondo_hand;

void rondo_hand_open(void);
void rondo_hand_close(void);

// Makes a link with `process`; incoming ones begin at slot `first_sequence`.
struct rondo_hand_link *rondo_hand_link(uint32_t process, int is_outgoing, uint32_t first_sequence);

// A head as that process would write it for this link.
struct rondo_proxy_head rondo_hand_head(const struct rondo_hand_link *l, uint16_t type);

// A message arrives; `bytes` of payload follow. Returns 1 if the proxy takes the payload, which is
// then the last one that is to land.
int rondo_hand_arrive(const void *head, size_t head_bytes, uint64_t bytes);
// Payload `i` is written, as a row of `value`, and lands. `status`: of that.
void rondo_hand_land(uint32_t i, uint8_t value, int status);
// Message `i` has been sent.
void rondo_hand_sent(uint32_t i, int status);

#endif // RONDO_TESTS_SUPPORT_HAND_CARRIER_H
