// Members that have detached: they have destroyed their ends of a communicator.
//
//   rondo_comm_detach -> rondo_comm_attach (of an end made later) -> rondo_comm_find_detached
//
// A member that detaches tells each other member how many calls of each series it has made. If
// another member calls more, the detached member will never make that call, so the communicator
// fails. The lock of the job guards everything here.
#ifndef RONDO_RUNTIME_ORDER_COMM_DETACH_H
#define RONDO_RUNTIME_ORDER_COMM_DETACH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/order/bounded_list.h"

struct rondo_comm_end;
struct rondo_job;
struct rondo_mesh_message;
struct rondo_series;

// Rank `rank` has detached, and tells `to`. Processes send each other this structure.
struct rondo_detachment {
  uint64_t key;
  uint32_t rank, to;
  uint64_t collective, sent, received; // calls; `sent` to `to`, `received` from it
};

// Detachments that a process keeps while the end of `to` does not exist, or its process is unknown.
#define RONDO_MAX_KEPT_DETACHMENTS 1024u

// Tells the members that have not detached that this end detaches.
void rondo_comm_detach(struct rondo_comm_end *end);
// Gives a new end the detachments that were kept for it.
void rondo_comm_attach(struct rondo_comm_end *end);
// Frees the detachments of an end.
void rondo_comm_free_detachments(struct rondo_comm_end *end);

// True if the member `rank` has told this end that it has detached.
bool rondo_comm_has_detached(const struct rondo_comm_end *end, uint32_t rank);
// Finds a member that detached after fewer calls of the series than this rank has made, and writes
// that member's number of calls to `made`. Null if there is none.
const struct rondo_detachment *rondo_comm_find_detached(const struct rondo_comm_end *end,
                                                        const struct rondo_series *series,
                                                        uint64_t *made);

// Sends the detachments that were kept because the roster was not known.
void rondo_detachments_announce(struct rondo_job *job);
// Receives a RONDO_MESSAGE_COMM_DETACHED. Returns 0 if the message is invalid.
int rondo_detachments_receive(struct rondo_job *job, const struct rondo_mesh_message *message);

#endif // RONDO_RUNTIME_ORDER_COMM_DETACH_H
