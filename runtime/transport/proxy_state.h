// The proxy's state, shared by the files that implement it: proxy.c (thread and processes),
// proxy_links.c (links, their connectors, and which links are looked at) and proxy_messages.c
// (messages). No other file includes this header, except tests.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXY_STATE_H
#define RONDO_RUNTIME_TRANSPORT_PROXY_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/proxy_wire.h"

// A message that is being sent, or a payload that is being received. A slot may have several, one
// for each of its pieces; the first one that is made stands for the slot, until all are over.
struct rondo_proxy_transfer {
  struct rondo_proxy_transfer *next; // idle, or the next piece that is to be sent
  struct rondo_proxy_head head;
  struct rondo_proxy_link *link; // null: no slot
  uint32_t to;
  uint32_t left; // of the first: pieces of the slot that have not been sent, or have not landed
  struct rondo_proxy_transfer *first;      // of the slot
  uint64_t begun;                          // of the first: pieces that have arrived, as bits
  LIST_ENTRY(rondo_proxy_transfer) listed; // of the first that arrives
};

// The connector of one block.
struct rondo_proxied_connector {
  struct rondo_endpoint end; // outgoing: the next slot to send
  // Outgoing: slots that the peer has consumed; incoming: ... of which it got a credit.
  uint32_t credited;
  uint32_t released; // outgoing: the mirror's `consumed`
  uint64_t busy;     // slots that are being sent or received, as bits
};

struct rondo_proxy_link {
  struct rondo_proxy_link *next;       // in its link set (of the claimer), or in `fresh`
  struct rondo_proxy_link *next_dirty; // guarded by the lock
  struct rondo_proxy_link_config config;
  uint64_t number;
  // Requests. Guarded by the lock.
  int is_dirty, wants_bound, wants_closed;
  uint64_t wants_number;
  // Of the thread that has claimed the proxy.
  int is_bound, is_closing, has_sent_close, is_closed;
  int needs_notify;        // something has arrived for the block
  uint64_t back;           // the other side's number; UINT64_MAX: not known yet
  uint64_t sent, received; // slots
  uint64_t count;          // incoming: slots in all, once the other side has closed
  uint32_t transfers;      // that use the connectors
  LIST_HEAD(, rondo_proxy_transfer) arriving; // slots that have not landed whole
  // Incoming: slots whose credit was not sent yet, and the list of such links of the same process.
  uint32_t uncredited;
  LIST_ENTRY(rondo_proxy_link) listed_uncredited;
  struct rondo_proxied_connector connectors[];
};

struct rondo_proxy_peer {
  // Guarded by the lock.
  void *address; // of its carrier; null: not met
  size_t address_bytes;
  uint64_t token;
  int wants_lost;
  uint32_t endpoints; // atomic: over which slots are sent
  // Of the thread that has claimed the proxy.
  uint32_t connected; // endpoints; 0: none
  int is_lost, is_broken, has_told_broken;
  LIST_HEAD(, rondo_proxy_link) uncredited; // links with such slots; the last to get one is first
  char why[96];
};

LIST_HEAD(rondo_link_set_list, rondo_link_set);

enum rondo_proxy_park {
  RONDO_PROXY_AWAKE = 0,
  RONDO_PROXY_PARKED, // sleeps until something happens
  RONDO_PROXY_AWAY    // sleeps for a while: other threads make progress
};

struct rondo_proxy {
  struct rondo_proxy_config config;
  struct rondo_carrier *carrier;
  uint64_t token;
  void *address;
  size_t address_bytes;
  pthread_t thread;
  int has_thread;
  // Atomic.
  uint32_t stop;
  uint32_t parked;    // enum rondo_proxy_park (P1)
  uint32_t rings;     // changes when a block has moved, or there are requests (P1)
  uint32_t requests;  // changes when there are requests
  uint32_t is_helped; // other threads make progress
  uint32_t claimed;   // 1 while a thread makes progress (P3)
  uint32_t transfers; // slots that are being sent
  uint32_t has_woken; // `woken` is not empty
  pthread_mutex_t lock;
  pthread_cond_t drained;
  // Guarded by the lock.
  struct rondo_proxy_link *fresh, *dirty;
  struct rondo_proxy_link **table;
  uint32_t table_count, table_capacity;
  uint32_t table_free; // all places before this one are used
  struct rondo_link_set *woken;
  uint64_t serial;
  uint32_t closing; // closed links that are not over
  struct rondo_proxy_peer *peers;
  // Of the thread that has claimed the proxy.
  uint32_t requests_seen;
  int needs_notify; // some link does
  int has_received; // the last round was not of a thread that leaves
  struct rondo_link_set_list awake, asleep;
  struct rondo_proxy_transfer *idle;
  struct rondo_proxy_counters counters;
};

static inline void rondo_proxy_count(uint64_t *counter) {
  rondo_store_relaxed_u64(counter, *counter + 1); // one writer
}

static inline struct rondo_connector *rondo_proxy_connector(const struct rondo_proxy_link *link,
                                                            uint32_t block) {
  return rondo_endpoint_connector(&link->connectors[block].end);
}

// The bit of a slot in rondo_proxied_connector.busy.
static inline uint64_t rondo_proxy_bit(const struct rondo_connector *c, uint32_t sequence) {
  return UINT64_C(1) << (sequence & (c->slot_count - 1));
}

static inline void rondo_proxy_link_notify(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  link->needs_notify = p->needs_notify = 1;
}

static inline int rondo_proxy_is_reachable(const struct rondo_proxy *p, uint32_t process) {
  return !p->peers[process].is_lost && !p->peers[process].is_broken;
}

// ---- proxy.c ----

// Announces a request.
void rondo_proxy_request(struct rondo_proxy *p);
// Sends nothing more to the process. Tells the owner at the end of the round.
void rondo_proxy_break(struct rondo_proxy *p, uint32_t process, const char *why);

// ---- proxy_links.c ----

// Finds the link that a message is for, and wakes its set. Null if `number` is no link with
// `process` any more.
struct rondo_proxy_link *rondo_proxy_link_find(struct rondo_proxy *p, uint64_t number,
                                               uint32_t process);
// Returns slots to the mirror's producer: those that the peer has consumed and that are not being
// sent any more.
void rondo_proxy_link_release(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block);
// True if the slot of the head is free: the sender had a credit for it, and sends it once.
bool rondo_proxy_link_expects(const struct rondo_proxy_link *link,
                              const struct rondo_proxy_head *head);
// Publishes a received slot to the block.
void rondo_proxy_link_publish(struct rondo_proxy *p, struct rondo_proxy_link *link,
                              const struct rondo_proxy_head *head);
// Applies the requests of other threads. The lock is held.
void rondo_proxy_links_apply_requests(struct rondo_proxy *p);
// Sends slots; sends credits; ends the links that are over. All return 1 if anything moved.
int rondo_proxy_links_send(struct rondo_proxy *p);
// `is_leaving`: sends only credits without which the other side might soon have no slot.
int rondo_proxy_links_credit(struct rondo_proxy *p, int is_leaving);
int rondo_proxy_links_retire(struct rondo_proxy *p);
// Adds a credit for the process to the head of a slot that is sent there.
void rondo_proxy_links_enclose(struct rondo_proxy *p, uint32_t process,
                               struct rondo_proxy_head *head);
void rondo_proxy_links_free(struct rondo_proxy *p);

void rondo_proxy_link_sets_wake_all(struct rondo_proxy *p);
// Puts quiet sets to sleep; wakes the sets that rondo_proxy_wake named.
void rondo_proxy_link_sets_sleep(struct rondo_proxy *p);
void rondo_proxy_link_sets_wake_requested(struct rondo_proxy *p);

// ---- proxy_messages.c ----

// What the carrier calls.
extern const struct rondo_carrier_events rondo_proxy_events;
// Sends the next slot of a block's connector. Returns 1, or 0 if it cannot be sent now.
int rondo_proxy_send_slot(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block,
                          const struct rondo_slot *slot);
// Sends a message without payload. Returns 0 if it cannot be sent now: slots of a process may
// arrive before its address.
int rondo_proxy_send_head(struct rondo_proxy *p, uint32_t to, const struct rondo_proxy_head *head);
// Forgets the slots that have not arrived whole, when their link is over.
void rondo_proxy_arriving_drop(struct rondo_proxy *p, struct rondo_proxy_link *link);
void rondo_proxy_transfers_free(struct rondo_proxy *p);

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_STATE_H
