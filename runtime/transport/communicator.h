// The communicator: the connectors of one collective, and the gate that its members share. The
// members in one process share one object; each process has its own.
//
//   create (by the first member) -> connect (each member) -> ... -> destroy
//
// Connector memory is borrowed from the pool of the consumer's job. Calls are made under the lock
// of the job. The data plane sees only connectors and the gate.
#ifndef RONDO_RUNTIME_TRANSPORT_COMMUNICATOR_H
#define RONDO_RUNTIME_TRANSPORT_COMMUNICATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/context_core.h"
#include "daemon/plan/plan.h"
#include "runtime/memory/pool.h"
#include "runtime/memory/writes.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/collective_shape.h"
#include <rondo/rondo.h>

#define RONDO_MAPS_RANGE 1u
#define RONDO_MAPS_WINDOW 2u

// The connectors from position `from` to position `to`, one a block.
struct rondo_link {
  uint32_t from, to;
  uint32_t process;              // of the other side; RONDO_HERE: both sides are here
  uint8_t is_outgoing;           // the producer is here, and the consumer is not
  uint8_t is_ready;              // connected on both sides
  uint8_t is_owed;               // a producer elsewhere, or the proxy, may still use the connectors
  uint8_t is_proxied;            // the proxy forwards: that process shares no memory
  uint8_t is_opened;             // of a proxied link: the proxy has been told of it
  struct rondo_connector *first; // null: not known yet
  uint64_t stride_bytes;         // from one block's connector to the next
  uint64_t bytes;                // borrowed from the pool; 0: outgoing and not proxied
  struct rondo_place at;         // where the pool has it
  uint32_t next_from;            // index of another link with the same `from`; UINT32_MAX: none
  struct rondo_proxy_link *proxy_link; // of a proxied link; null: none yet, or over
};

// A member that is here, or is a peer of one that is here.
struct rondo_communicator_member {
  uint32_t position;
  uint32_t process;            // its number; RONDO_HERE; RONDO_SOMEWHERE
  struct rondo_device *device; // null: elsewhere, or not known yet
  int node;                    // the NUMA node for connectors that the member reads
  uint8_t is_proxied;          // 1: the proxy forwards
  uint8_t maps;                // memory of this process that the member's maps: RONDO_MAPS_*
  uint32_t first_from;         // the newest link from there; UINT32_MAX: none
};

struct rondo_communicator {
  struct rondo_communicator_gate gate;
  struct rondo_shape shape;
  struct rondo_pool *pool;
  struct rondo_communicator *next;           // of the same id
  uint64_t generation;                       // of its registrations
  const uint32_t *ranks;                     // of the job, by position; the job owns them
  struct rondo_communicator_member *members; // known ones, by position
  uint32_t member_count, member_capacity;
  uint32_t joined;     // members that have registered, here or elsewhere
  uint32_t present;    // members here that have not deregistered
  uint32_t link_count; // links from one position to another
  uint32_t link_capacity;
  struct rondo_link *links;
  struct rondo_link_set link_set; // of its proxied links
  uint64_t bytes;                 // borrowed from the pool
  char *reason;                   // why it has failed; null: the gate tells
  struct rondo_writes writes;     // to devices; the gate opens when they have been carried out
  // For its owner (job/device_work.h).
  bool is_listed, is_writing;
  struct rondo_communicator *next_written;
  void *home;
};

// Makes a communicator for `ranks`, which outlive it. Null: no memory. The driver may wait for the
// device, so the caller holds no lock.
struct rondo_communicator *rondo_communicator_create(struct rondo_pool *pool,
                                                     const struct rondo_shape *shape,
                                                     const uint32_t *ranks);

// Makes the member at `position`, and the peers of its plan, known. `plan` is null if there is none
// yet. All are in this process unless the caller changes `process` and `is_proxied`. If devices
// differ in what they reach, or the machine has several NUMA nodes, the caller sets `device` and
// `node` of each member that registers. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_communicator_admit(struct rondo_communicator *comm, uint32_t position,
                             const struct rondo_plan *plan);

// The member at `position`, or null if it is not known. Valid until the next admit.
struct rondo_communicator_member *rondo_communicator_member(const struct rondo_communicator *comm,
                                                            uint32_t position);

// Makes the missing links of the member at `position` to those peers of its `plan` whose process
// and device are known, after admit for the same plan, and connectors for links whose consumer is
// here or that are proxied. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM; or
// RONDO_IN_PROGRESS: the caller supplies `want` (pool.h) and connects again. Except after
// RONDO_SUCCESS no link is left that it has made. Adds to `writes` what connectors on devices hold.
int rondo_communicator_connect(struct rondo_communicator *comm, const struct rondo_plan *plan,
                               uint32_t position, struct rondo_pool_want *want);

// The link from one position to another, or null. Valid until the next connect.
struct rondo_link *rondo_communicator_link(const struct rondo_communicator *comm, uint32_t from,
                                           uint32_t to);

// True if every link that `plan` of the member at `position` needs is ready.
bool rondo_communicator_is_ready(const struct rondo_communicator *comm,
                                 const struct rondo_plan *plan, uint32_t position);

// True if a producer in another process, or the proxy, may still use a connector.
bool rondo_communicator_is_owed(const struct rondo_communicator *comm);

static inline struct rondo_connector *rondo_link_connector(const struct rondo_link *link,
                                                           uint32_t block) {
  return (struct rondo_connector *)((char *)link->first + block * link->stride_bytes);
}

// Ends all runs with `status`, now and later. The first status stays. `culprit` is the rank that
// caused it.
void rondo_communicator_fail(struct rondo_communicator *comm, int status, uint32_t culprit);

// Writes to `text` what the rank has done that caused `status`.
void rondo_reason_of_rank(uint32_t rank, int status, char *text, size_t text_bytes);
// Writes to `text` why the communicator has failed; "" if it has not.
void rondo_communicator_reason(const struct rondo_communicator *comm, char *text,
                               size_t text_bytes);

// True while writes to devices have not been carried out.
static inline bool rondo_communicator_is_unwritten(const struct rondo_communicator *comm) {
  return comm->writes.first || comm->is_writing;
}

void rondo_communicator_destroy(struct rondo_communicator *comm);

#endif // RONDO_RUNTIME_TRANSPORT_COMMUNICATOR_H
