// The proxy: forwards the slots of connectors to and from processes with which no memory is shared.
//
//   create -> address goes to the others, by the mesh -> meet (each of them) ...
//     link_create -> its number goes to the producer -> link_bind -> link_close -> `over`
//   -> drain -> destroy
//
// A link between such processes has connectors on both sides. The producer's block publishes into a
// *mirror* in its own process; the proxy there is the mirror's consumer, and its peer is the producer
// of the real connector, in the process whose block consumes. Slots keep their sequence numbers, so it is
// no matter in which order they arrive, and a mirror has as many slots as the connector has: what has been
// published always has room at the other end. Credits come back the same way. Payloads are sent from
// the slot where they are, and received into the slot where they will be read.
//
// A link is closed by its producer's side when nothing more will be published; what has been is sent
// first. Each side hears `over` when its memory is not needed any more.
//
// One proxy per job and process, with one thread, whatever the number of ranks there: they share the
// network, and a thread each would only take turns on it. A thread that waits for a run takes turns instead
// of it (rondo_proxy_help); who finds the proxy taken leaves it alone. With nothing to do the thread sleeps
// until a message comes, a block rings, or somebody wishes for something.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXY_H
#define RONDO_RUNTIME_TRANSPORT_PROXY_H

#include <stddef.h>
#include <stdint.h>

#include "queues/connector_core.h"

struct rondo_carrier_calls;
struct rondo_proxy;
struct rondo_proxy_link;

// Links of one communicator: their blocks move only while runs of it are outstanding here. When nothing has moved for a
// while, and none is, the link_set falls asleep: no turn looks at its links any more, so that those of a thousand
// other collectives cost nothing. A message for one of them wakes it, and so does who submits a run (P4). Zeroed by its
// owner, who calls rondo_proxy_forget before it goes.
struct rondo_link_set {
  uint32_t is_asleep;
  uint32_t is_woken; // guarded by the proxy's lock; and the next
  struct rondo_link_set *next_woken;
  // Of who has taken the proxy.
  struct rondo_link_set *next, *before; // of those that are awake
  struct rondo_proxy_link *links;
  uint32_t is_awake;
  uint32_t quiet; // turns in which nothing moved
};

struct rondo_proxy_config {
  const struct rondo_carrier_calls *calls;
  uint32_t self, process_count;
  uint32_t ways; // to each process, over which slots are spread; 0: 1
  int is_manual; // tests: no thread; who made it takes its turns
  // Called by whoever takes a turn, without any lock held.
  void *owner;
  // The link is freed when this returns. `is_whole`: 0 if something that was sent to it may be missing.
  void (*over)(void *owner, struct rondo_proxy_link *link, int is_whole);
  void (*broken)(void *owner, uint32_t process, const char *text);
  // Something has come for the block at this end of the link: slots, or room for more.
  void (*on_arrival)(void *owner, const struct rondo_proxy_link *link);
  // Returns 1 if blocks may move that do not ring, so that somebody has to look. Null: all ring.
  int (*is_busy)(void *owner);
  // Returns 1 if a run of the link's link_set is outstanding, also if one is whose submission may not have seen that
  // the link_set is asleep (P4). Null: circles stay awake.
  int (*is_used)(void *owner, const struct rondo_proxy_link *link);
};

// Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, RONDO_ERR_SYSTEM, or what the carrier's open returns; `why`
// says more.
int rondo_proxy_create(const struct rondo_proxy_config *config, struct rondo_proxy **out, char *why,
                       size_t why_bytes);

// What other processes need to reach this one: to be sent as it is, by a way that is trusted.
const void *rondo_proxy_address(const struct rondo_proxy *proxy, size_t *bytes);

// The rest, save destroy, is for any thread, waits for nothing and cannot fail unless it says so.

// The address of a process has come. Returns RONDO_SUCCESS, RONDO_ERR_INVALID or RONDO_ERR_NO_MEMORY.
int rondo_proxy_meet(struct rondo_proxy *proxy, uint32_t process, const void *address,
                     size_t bytes);
int rondo_proxy_has_met(struct rondo_proxy *proxy, uint32_t process);
// A process is lost: all links with it will be over.
void rondo_proxy_lose(struct rondo_proxy *proxy, uint32_t process);

struct rondo_proxy_link_config {
  uint32_t process;     // of the other side
  uint32_t is_outgoing; // the producer is here
  struct rondo_connector *first;
  uint64_t stride_bytes; // from one block's connector to the next
  uint32_t blocks;
  uint32_t reserved;
  struct rondo_link_set *link_set;
  void *home, *tag; // the caller's
};

// Connectors that are written and stay until `over`. Null when memory is used up.
struct rondo_proxy_link *rondo_proxy_link_create(struct rondo_proxy *proxy,
                                                 const struct rondo_proxy_link_config *config);
const struct rondo_proxy_link_config *rondo_proxy_link_config(const struct rondo_proxy_link *link);
// By which the other side knows it.
uint64_t rondo_proxy_link_number(const struct rondo_proxy_link *link);
// Outgoing: the other side's number has come, so slots can be sent.
void rondo_proxy_link_bind(struct rondo_proxy *proxy, struct rondo_proxy_link *link,
                           uint64_t number);
// Outgoing: nothing more will be published. Incoming: nothing will be sent, or nobody wants it.
void rondo_proxy_link_close(struct rondo_proxy *proxy, struct rondo_proxy_link *link);

// A run has been submitted whose link_set was seen to be asleep: it is looked at from the next turn on, which
// comes soon. Its blocks may have moved before.
void rondo_proxy_wake(struct rondo_proxy *proxy, struct rondo_link_set *link_set);
// A link_set goes: all its links are over.
void rondo_proxy_forget(struct rondo_proxy *proxy, struct rondo_link_set *link_set);

// A block has moved: there may be something to forward.
void rondo_proxy_ring(struct rondo_proxy *proxy);
// A turn, by a thread that would have to wait otherwise. While such threads come back soon the proxy's own
// leaves it to them. Returns 1 if anything moved.
int rondo_proxy_help(struct rondo_proxy *proxy);
// Turns, until nothing that was published here is on its way any more, unless that takes long: for a thread that
// is about to do something else, on a core without which the proxy's own may be. What the others need not know yet is
// left to later turns. `is_busy`: something is still to come for its rank.
int rondo_proxy_flush(struct rondo_proxy *proxy, int is_busy);
// A turn, and the thread will not be back soon; it sleeps.
int rondo_proxy_release(struct rondo_proxy *proxy, int is_busy);

// Waits until all links that have been closed are over, at most `timeout_ns`. Returns 1 if they are.
int rondo_proxy_drain(struct rondo_proxy *proxy, uint64_t timeout_ns);

// Ends the thread and frees everything. Links that are left are forgotten, without `over`.
void rondo_proxy_destroy(struct rondo_proxy *proxy);

// Forwards what there is, unless somebody else is about it. Returns 1 if there was anything.
int rondo_proxy_turn(struct rondo_proxy *proxy);

// What it has done.
struct rondo_proxy_counters {
  uint64_t slots_sent, slots_received, credits_sent, refused, turns, waits;
  uint64_t looks; // at links, for something to send
};
void rondo_proxy_counters(const struct rondo_proxy *proxy, struct rondo_proxy_counters *out);

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_H
