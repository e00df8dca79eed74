// The communicator: the connectors of one collective, with the gate that its
// members share. Within one process it is one object that members join; each process has its own.
//
//   create (by the first member) -> connect (each member) -> ... -> destroy
//
// Connector memory comes from the pool of the consumer's job and goes back to it. Calls are
// made under the lock of the job; the data plane sees only connectors and the gate.
#ifndef RONDO_RUNTIME_TRANSPORT_COMMUNICATOR_H
#define RONDO_RUNTIME_TRANSPORT_COMMUNICATOR_H

#include <stdint.h>

#include "daemon/core/context_core.h"
#include "daemon/plan/plan.h"
#include "runtime/memory/pool.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/shape.h"
#include <rondo/rondo.h>

#define RONDO_MAPS_RANGE 1u
#define RONDO_MAPS_WINDOW 2u

// The connectors from position `from` to position `to`, one a block.
struct rondo_link {
  uint32_t from, to;
  uint32_t process;    // of the side that is not here; RONDO_HERE: both are
  uint8_t is_outgoing; // the producer is here, and the consumer is not
  uint8_t is_ready;    // both sides have what they need
  uint8_t is_owed;     // the producer, not here, or the proxy may still use the connectors
  uint8_t is_proxied;  // no memory is shared with that process: the proxy forwards
  struct rondo_connector *first; // null: a peer has not said where yet
  uint64_t stride_bytes;         // from one block's connector to the next
  uint64_t bytes;                // taken from the pool; outgoing and not proxied: none
  struct rondo_place at;         // where the pool has it
  uint32_t next_from;            // index of another link with the same `from`; UINT32_MAX: none
  struct rondo_proxy_link *proxy_link; // of a proxied link; null: none yet, or it is over
};

struct rondo_communicator {
  struct rondo_communicator_gate gate;
  struct rondo_shape shape;
  struct rondo_pool *pool;
  struct rondo_communicator *next; // of the same id
  uint64_t generation;             // of its registrations
  uint32_t *members;               // ranks of the job, by position
  uint32_t *where;                 // their processes, by position; RONDO_HERE; RONDO_SOMEWHERE
  struct rondo_device **devices;   // ... and devices, as far as they are here and known
  int *nodes;                      // ... and the NUMA nodes where they want what they read
  uint8_t *is_proxied;             // likewise: 1 if the proxy leads there
  uint8_t *maps;                   // ... what that process maps of this one: RONDO_MAPS_*
  uint32_t joined;                 // members that have registered, here or elsewhere
  uint32_t present;                // of those here, that have not deregistered
  uint32_t link_count;             // connectors from one position to another, for all blocks
  uint32_t link_capacity;
  uint32_t *first_from; // by position: the link made last that leads from there; UINT32_MAX: none
  struct rondo_link *links;
  struct rondo_link_set link_set; // of its proxied links
  uint64_t bytes;                 // taken from the pool
  char *reason;                   // why it has failed, in words; null: what the gate says
};

// Makes a communicator for the ranks `members` (copied), all of them here unless the caller changes
// `where` and `is_proxied`. If devices differ in what they reach, or the machine has several NUMA nodes, the caller puts
// those of each member into `devices` and `nodes` when it registers. Null when memory is used up.
struct rondo_communicator *rondo_communicator_create(struct rondo_pool *pool,
                                                     const struct rondo_shape *shape,
                                                     const uint32_t *members);

// Makes the links that `plan` of the member at `position` needs to peers of which is known where,
// and on which device, they are, unless they are there already, and connectors for those whose consumer is
// here or proxied. Returns 0, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_communicator_connect(struct rondo_communicator *comm, const struct rondo_plan *plan,
                               uint32_t position);

// The link from one position to another, or null. It is good until connect is called again.
struct rondo_link *rondo_communicator_link(const struct rondo_communicator *comm, uint32_t from,
                                           uint32_t to);

// 1 if every link that `plan` of the member at `position` needs is ready.
int rondo_communicator_is_ready(const struct rondo_communicator *comm,
                                const struct rondo_plan *plan, uint32_t position);

// 1 if a producer in another process, or the proxy, may still use one of its connectors.
int rondo_communicator_is_owed(const struct rondo_communicator *comm);

static inline struct rondo_connector *rondo_link_connector(const struct rondo_link *link,
                                                           uint32_t block) {
  return (struct rondo_connector *)((char *)link->first + block * link->stride_bytes);
}

// Ends all runs with `status`, for good. The first status stays. `culprit` is a rank.
void rondo_communicator_fail(struct rondo_communicator *comm, int status, uint32_t culprit);

// Why it has failed, in words, to `text`, of `text_bytes`; empty if it has not.
void rondo_communicator_reason(const struct rondo_communicator *comm, char *text,
                               size_t text_bytes);

void rondo_communicator_destroy(struct rondo_communicator *comm);

#endif // RONDO_RUNTIME_TRANSPORT_COMMUNICATOR_H
