// Binding: connects the links of a communicator with other processes on both sides.
//
//   locate (each member) -> rondo_communicator_connect -> open_proxied -> collect_offers
//     -> the offers go to the peers -> bind (each link, when its peer's offers are here)
//     -> write_endpoints -> the gate opens ... unbind
//
// The consumer of a link owns its connectors and offers them; the producer takes the offer. Part of
// transports.h: the caller holds the job's lock.
#ifndef RONDO_RUNTIME_TRANSPORT_LINK_BINDING_H
#define RONDO_RUNTIME_TRANSPORT_LINK_BINDING_H

#include "runtime/transport/communicator.h"
#include "runtime/transport/transports.h"

// Where the connectors lie through which rank `from` sends to the rank that registers. Sent between
// processes.
struct rondo_connector_offer {
  uint32_t from;
  uint32_t place;        // of the sender: 0, the arena; 1, the range; 2, the window
  uint64_t at;           // offset of the first block's connector; of a proxied link its number
  uint64_t stride_bytes; // from one block's connector to the next; 0: the link is proxied
};

// Records the process of the known member at `position`, as in struct rondo_communicator_member.
void rondo_binding_locate(const struct rondo_transports *t, struct rondo_communicator *comm,
                          uint32_t position, uint32_t process);

// Registers new proxied links with the proxy; their events carry `home`.
// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_binding_open_proxied(const struct rondo_transports *t, struct rondo_communicator *comm,
                               void *home);

// A member here.
struct rondo_binding_member {
  const struct rondo_plan *plan;
  uint32_t position;
  struct rondo_daemon *daemon;
  uint32_t index;                       // of the collective in the daemon's table
  uint64_t endpoints;                   // device memory for its endpoints
  struct rondo_gate_write *gate_writes; // null: the CPU accesses the endpoints and connectors
};

// How many gate writes each block of a member needs at most.
static inline uint32_t rondo_binding_gate_writes(const struct rondo_plan *plan) {
  const uint32_t endpoint = RONDO_ENDPOINT_INIT_BYTES / sizeof(uint64_t);
  return plan->send.count * (endpoint + 2) + plan->recv.count * (endpoint + 1);
}

// Writes to `offers` (room for plan->recv.count) the connectors here by which other processes send
// to the member, and returns how many.
uint32_t rondo_binding_collect_offers(const struct rondo_transports *t,
                                      struct rondo_communicator *comm,
                                      const struct rondo_binding_member *member,
                                      struct rondo_connector_offer *offers);

// Wakes the proxied links of the communicator if they sleep. Called after a run was counted; the
// run may have ended already. Any thread.
static inline void rondo_binding_wake(const struct rondo_transports *t,
                                      struct rondo_communicator *comm) {
  // Without a proxy there are no such links, and the communicator's line is not touched.
  if (rondo_load_acquire_u64(&t->proxy_address) &&       // P2
      rondo_load_seq_cst_u32(&comm->link_set.is_asleep)) // P4
    rondo_proxy_wake(t->proxy, &comm->link_set);
}

enum rondo_binding {
  RONDO_BINDING_WAITS = 0, // for an offer or an answer of the peer, or for rondo_mapped_work
  RONDO_BINDING_READY = 1,
  RONDO_BINDING_UNSOUND = 2 // the offer cannot be used
};
// Binds one link to another process; `offers` are those of the peer.
enum rondo_binding rondo_binding_bind(struct rondo_transports *t, struct rondo_communicator *comm,
                                      struct rondo_link *link,
                                      const struct rondo_connector_offer *offers,
                                      uint32_t offer_count);
// Closes the links when no rank here uses the communicator any more, and releases the memory of
// peers.
void rondo_binding_unbind(struct rondo_transports *t, struct rondo_communicator *comm);

// Called once before the gate opens, when all links are bound. Writes the endpoints of the member:
// for each block those of the plan's send peers, then those of its recv peers. Writes to the
// connectors which memory of the other process each side can read, and which bytes each side sets.
// What the CPU cannot write itself the member's blocks write: it becomes their gate writes.
void rondo_binding_write_endpoints(const struct rondo_transports *t,
                                   const struct rondo_communicator *comm,
                                   const struct rondo_binding_member *member);

#endif // RONDO_RUNTIME_TRANSPORT_LINK_BINDING_H
