// What the parts of the proxy share: proxy.c has the thread and the processes, proxy_links.c the links and
// their connectors, proxy_link_sets.c which of them are looked at, proxy_messages.c what goes over the wire. Nobody
// else includes this.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXY_STATE_H
#define RONDO_RUNTIME_TRANSPORT_PROXY_STATE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/proxy_wire.h"

// A message under way: its head, and whose slot it comes from or goes to.
struct rondo_proxy_transfer {
  struct rondo_proxy_transfer *next;
  struct rondo_proxy_head head;
  struct rondo_proxy_link *link; // null: no slot
  uint32_t to;
};

// One block's connector.
struct rondo_proxied_connector {
  struct rondo_endpoint end; // outgoing: the next slot to send
  uint32_t credited; // outgoing: what the peer has consumed; incoming: what it has been told
  uint32_t released; // outgoing: what the mirror's `consumed` says
  uint64_t busy;     // slots that are being sent or are landing
};

struct rondo_proxy_link {
  struct rondo_proxy_link *next;       // of the link_set: who has taken the proxy; of `fresh`
  struct rondo_proxy_link *next_dirty; // guarded by the lock
  struct rondo_proxy_link_config config;
  uint64_t number;
  // Guarded by the lock: what is wished for.
  int is_dirty, wants_bound, wants_closed;
  uint64_t wants_number;
  // Of who has taken the proxy.
  int is_bound, is_closing, has_said_close, is_closed;
  int is_stirred;          // something has come for the block
  uint64_t back;           // the other side's number; UINT64_MAX: not known yet
  uint64_t sent, received; // slots
  uint64_t count;          // incoming, once the other side has closed: slots in all
  uint32_t transfers;      // that touch the connectors
  // Incoming: slots that the other side has not been told to be consumed, and the links of that kind with its process.
  uint32_t unpaid;
  struct rondo_proxy_link *next_owing, *before_owing;
  struct rondo_proxied_connector connectors[];
};

struct rondo_proxy_peer {
  // Guarded by the lock.
  void *address; // the carrier's; null: not met
  size_t address_bytes;
  uint64_t token;
  int wants_lost;
  // Of who has taken the proxy.
  int is_connected, is_lost, is_broken, has_told_broken;
  struct rondo_proxy_link *owing; // links with unpaid slots, that which got one last first
  char why[96];
};

enum rondo_proxy_park {
  RONDO_PROXY_AWAKE = 0,
  RONDO_PROXY_PARKED, // until something comes
  RONDO_PROXY_AWAY    // for a while: others take its turns
};

struct rondo_proxy {
  struct rondo_proxy_config config;
  struct rondo_carrier *carrier;
  uint64_t token;
  void *address;
  size_t address_bytes;
  pthread_t thread;
  int has_thread;
  uint32_t stop;
  uint32_t parked;    // enum rondo_proxy_park (P1)
  uint32_t bell;      // changes when a block has moved, or somebody has a wish (P1)
  uint32_t news;      // changes when there are wishes
  uint32_t is_helped; // somebody else takes turns
  uint32_t taken;     // 1 while somebody takes a turn (P3)
  uint32_t transfers; // slots that are being sent
  uint32_t has_woken;
  pthread_mutex_t lock;
  pthread_cond_t drained;
  // Guarded by the lock.
  struct rondo_proxy_link *fresh, *dirty;
  struct rondo_proxy_link **table;
  uint32_t table_count, table_capacity;
  uint32_t table_free; // no place before this one is free
  struct rondo_link_set *woken;
  uint64_t serial;
  uint32_t closing; // links that are wanted closed and are not over
  struct rondo_proxy_peer *peers;
  // Who has taken the proxy.
  uint32_t seen;  // of the news
  int is_stirred; // some link is
  struct rondo_link_set *awake, *asleep;
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

// Of rondo_proxied_connector.busy.
static inline uint64_t rondo_proxy_bit(const struct rondo_connector *c, uint32_t sequence) {
  return UINT64_C(1) << (sequence & (c->slot_count - 1));
}

static inline void rondo_proxy_stir(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  link->is_stirred = p->is_stirred = 1;
}

static inline int rondo_proxy_is_reachable(const struct rondo_proxy *p, uint32_t process) {
  return !p->peers[process].is_lost && !p->peers[process].is_broken;
}

// ------------------------------------------------------------------- proxy.c ---

// Somebody has a wish.
void rondo_proxy_tell(struct rondo_proxy *p);
// Nothing goes to that process any more; the owner hears of it at the end of the turn.
void rondo_proxy_break(struct rondo_proxy *p, uint32_t process, const char *why);

// ------------------------------------------------------------- proxy_links.c ---

// The link of that number, if it leads to `process` and has not ended: something has come for it.
struct rondo_proxy_link *rondo_proxy_link_find(struct rondo_proxy *p, uint64_t number,
                                               uint32_t process);
// Lets the mirror's producer have the slots that the peer has consumed and nobody sends from any more.
void rondo_proxy_link_release(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block);
// 1 if the slot of that head is free for its payload: the sender has had its credit, and sends it once.
int rondo_proxy_link_expects(const struct rondo_proxy_link *link,
                             const struct rondo_proxy_head *head);
// Shows the block a slot that has landed.
void rondo_proxy_link_publish(struct rondo_proxy *p, struct rondo_proxy_link *link,
                              const struct rondo_proxy_head *head);
// Takes over what others wish for. The lock is held.
void rondo_proxy_links_grant(struct rondo_proxy *p);
// Forwards slots, says what has been consumed, and ends the links that are through. All return 1 if anything moved.
int rondo_proxy_links_send(struct rondo_proxy *p);
// `is_leaving`: only those without which the other side might soon have no slot.
int rondo_proxy_links_credit(struct rondo_proxy *p, int is_leaving);
int rondo_proxy_links_retire(struct rondo_proxy *p);
// 1 if there is nothing to send, to say or to wait for by itself.
int rondo_proxy_link_is_at_rest(const struct rondo_proxy *p, const struct rondo_proxy_link *link);
// Puts a credit that is due to the process into the head of a slot that goes there.
void rondo_proxy_links_enclose(struct rondo_proxy *p, uint32_t process,
                               struct rondo_proxy_head *head);
void rondo_proxy_links_free(struct rondo_proxy *p);

// ----------------------------------------------------------- proxy_link_sets.c ---

// Its link_set gets a link, or one is over: the caller frees it.
void rondo_link_set_add(struct rondo_proxy *p, struct rondo_proxy_link *link);
void rondo_link_set_remove(struct rondo_proxy *p, struct rondo_proxy_link *link);
// Something has moved, or is about to: it is looked at for a while.
void rondo_link_set_touch(struct rondo_proxy *p, struct rondo_link_set *c);
void rondo_proxy_link_sets_wake_all(struct rondo_proxy *p);
// Lets those sleep that are quiet and not used; wakes those that were woken.
void rondo_proxy_link_sets_sleep(struct rondo_proxy *p);
void rondo_proxy_link_sets_wake_requested(struct rondo_proxy *p);

// ---------------------------------------------------------- proxy_messages.c ---

// What the carrier calls.
extern const struct rondo_carrier_events rondo_proxy_events;
// Sends the slot at which the lane stands. Returns 1, or 0 if that was not possible.
int rondo_proxy_send_slot(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block,
                          const struct rondo_slot *slot);
// Sends a message without payload. Returns 0 if that was not possible now. Messages may overtake
// the notice that says where a process is.
int rondo_proxy_say(struct rondo_proxy *p, uint32_t to, const struct rondo_proxy_head *head);
void rondo_proxy_flights_free(struct rondo_proxy *p);

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_STATE_H
