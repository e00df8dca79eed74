// The proxy: forwards the slots of connectors to and from processes that share no memory with this
// one.
//
//   create -> the mesh sends its address to the peers -> meet (each peer) ...
//     link_create -> the consumer's side sends the link's number to the producer's side
//     -> link_bind -> link_close -> `over`
//   -> drain -> destroy
//
// A *link* is the set of connectors, one for each block, from one rank to a rank of another
// process. It has connectors on both sides. The producer's block publishes into a *mirror*: a
// connector of the same shape in its own process. The proxy there consumes the mirror. The proxy of
// the peer produces into the real connector, whose consumer is the peer's block. Slots keep their
// sequence numbers, so they may arrive in any order. A mirror has as many slots as the connector,
// so a published slot always has room on the other side. A *credit* tells the producer's side which
// slots were consumed. Payloads are not copied: the sender reads them in the mirror's slot, and the
// receiver writes them to the connector's slot.
//
// Each side closes its link: the producer's side when nothing more will be published, the
// consumer's side when nothing more will be read. The producer's proxy first sends the slots that
// are published. On each side, the proxy calls `over` when it does not use the link's memory any
// more.
//
// A job has one proxy in a process, with one thread for all ranks: the ranks share the network, so
// a thread for each rank would gain nothing. One thread at a time runs a *round*: a pass over all
// links that are awake. A thread that waits for a run runs rounds itself (rondo_proxy_help). It
// runs none while another thread runs one. The proxy's thread sleeps while there is nothing to do.
// A message, rondo_proxy_ring or a request wakes the proxy's thread.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXY_H
#define RONDO_RUNTIME_TRANSPORT_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "queues/connector_core.h"

struct rondo_carrier_calls;
struct rondo_proxy;
struct rondo_proxy_link;

// The links of one communicator, which sleep and wake together. Their blocks make progress only
// while runs of the communicator are outstanding here. A set that made no progress for a while, and
// has no outstanding run, sleeps: the proxy skips its links, so that a thousand idle collectives
// cost nothing. A message for one of its links wakes the set, and so does the submission of a run
// (P4). The owner zeroes the set, and calls rondo_proxy_forget before freeing it.
struct rondo_link_set {
  uint32_t is_asleep; // atomic; 1: a thread that submits a run must wake the set (P4)
  // Guarded by the proxy's lock.
  uint32_t is_woken; // 1: rondo_proxy_wake was called, and no round has handled the call
  struct rondo_link_set *next_woken;
  // Used only by the thread that has claimed the proxy, to run a round.
  LIST_ENTRY(rondo_link_set) listed; // in the list of the sets that are awake, or asleep
  struct rondo_proxy_link *links;
  uint32_t is_awake; // 1: `listed` is in the list of the sets that are awake
  uint32_t quiet;    // rounds without progress
};

struct rondo_proxy_config {
  const struct rondo_carrier_calls *calls;
  uint32_t self, process_count;
  uint32_t endpoints; // connections to each process, until rondo_proxy_spread changes it; 0: 1
  const struct sockaddr *address; // rondo_carrier_config.address
  int is_manual;                  // tests: no thread; the test makes progress
  uint32_t piece_bytes;           // tests: the least piece of a slot; 0: the usual one
  // The functions are called by the thread that makes progress, without a lock.
  void *owner;
  // The proxy does not use the link's memory any more, and frees the link when this returns.
  // `is_whole`: 0 if slots that the peer has sent over the link may be missing.
  void (*over)(void *owner, struct rondo_proxy_link *link, int is_whole);
  void (*broken)(void *owner, uint32_t process, const char *text);
  // Slots, or room for slots, have arrived for the block at this side of the link.
  void (*on_arrival)(void *owner, const struct rondo_proxy_link *link);
  // Returns 1 if a run is outstanding, so that the proxy must poll. For backends whose blocks
  // cannot call rondo_proxy_ring. Null: all blocks call it.
  int (*is_busy)(void *owner);
  // Returns 1 if a run of the link's set is outstanding, or is being submitted while the set goes
  // to sleep (P4). Null: sets never sleep.
  int (*is_used)(void *owner, const struct rondo_proxy_link *link);
};

// Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, RONDO_ERR_SYSTEM or what the carrier's open returns,
// with the reason in `why`.
int rondo_proxy_create(const struct rondo_proxy_config *config, struct rondo_proxy **out, char *why,
                       size_t why_bytes);

// What other processes need to reach this one. It is sent unchanged, over a trusted connection.
const void *rondo_proxy_address(const struct rondo_proxy *proxy, size_t *bytes);

// Any thread may call the functions below, except destroy. They do not wait and do not fail unless
// their comment says so.

// Takes the address of a process. Returns RONDO_SUCCESS, RONDO_ERR_INVALID or RONDO_ERR_NO_MEMORY.
int rondo_proxy_meet(struct rondo_proxy *proxy, uint32_t process, const void *address,
                     size_t bytes);
bool rondo_proxy_has_met(struct rondo_proxy *proxy, uint32_t process);
// Sets over how many connections the slots of links to a process are spread, 1 to
// RONDO_MAX_ENDPOINTS; 0: keeps the number. More are made when they are needed, and none is closed.
// Returns the number.
uint32_t rondo_proxy_spread(struct rondo_proxy *proxy, uint32_t process, uint32_t endpoints);
// Ends all links with a process that is lost.
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

// Makes a link. The caller has initialised its connectors, and keeps them until `over`. Null: no
// memory.
struct rondo_proxy_link *rondo_proxy_link_create(struct rondo_proxy *proxy,
                                                 const struct rondo_proxy_link_config *config);
const struct rondo_proxy_link_config *rondo_proxy_link_config(const struct rondo_proxy_link *link);
// The number by which the other side names the link.
uint64_t rondo_proxy_link_number(const struct rondo_proxy_link *link);
// Gives an outgoing link the other side's number, so that slots can be sent.
void rondo_proxy_link_bind(struct rondo_proxy *proxy, struct rondo_proxy_link *link,
                           uint64_t number);
// Closes a link. Outgoing: nothing more will be published. Incoming: nothing more will be read.
void rondo_proxy_link_close(struct rondo_proxy *proxy, struct rondo_proxy_link *link);

// Wakes a set after a submission has seen that it sleeps. The next round checks all its links,
// because its blocks may have published before.
void rondo_proxy_wake(struct rondo_proxy *proxy, struct rondo_link_set *link_set);
// Forgets a set before it is freed. All its links are over.
void rondo_proxy_forget(struct rondo_proxy *proxy, struct rondo_link_set *link_set);

// Tells the proxy that a block has published or consumed a slot.
void rondo_proxy_ring(struct rondo_proxy *proxy);
// Runs a round on a thread that would wait otherwise. The proxy's own thread sleeps while such
// calls keep coming. Returns 1 if anything moved.
int rondo_proxy_help(struct rondo_proxy *proxy);
// Forwards published slots until none is in flight, for a bounded time. Called by a thread that is
// about to do other work, on a core that the proxy's thread may need. Credits that are not urgent
// stay for later rounds. `is_busy`: the caller's rank has runs outstanding. Returns 1 if anything
// moved.
int rondo_proxy_flush(struct rondo_proxy *proxy, int is_busy);
// Runs a round on a thread that sleeps afterwards. The proxy's thread then runs the rounds again.
int rondo_proxy_release(struct rondo_proxy *proxy, int is_busy);

// Waits until all closed links are over, at most `timeout_ns`. Returns 1 if they are.
int rondo_proxy_drain(struct rondo_proxy *proxy, uint64_t timeout_ns);

// Ends the thread and frees everything. Links that are left get no `over`.
void rondo_proxy_destroy(struct rondo_proxy *proxy);

// Runs a round, unless another thread does. Returns 1 if anything moved.
int rondo_proxy_progress(struct rondo_proxy *proxy);

// All fields are uint64_t: they are read as an array.
struct rondo_proxy_counters {
  uint64_t slots_sent, slots_received, credits_sent;
  uint64_t refused; // messages
  uint64_t rounds;
  uint64_t waits; // times that the proxy's thread went to sleep
  uint64_t looks; // times that a link was checked for slots to send
};
void rondo_proxy_counters(const struct rondo_proxy *proxy, struct rondo_proxy_counters *out);

#endif // RONDO_RUNTIME_TRANSPORT_PROXY_H
