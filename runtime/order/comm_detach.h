// Members that have detached: they have destroyed their ends of a communicator.
//
//   rondo_comm_detach -> rondo_comm_attach (of an end made later) -> rondo_comm_find_detached
//
// A member that detaches says how many calls of each series it has made. If another member calls
// more, the detached member will never make that call, so the communicator fails.
//
// Only those members are told that can find such a call first: the two neighbours in the group,
// whose calls are compared with this rank's (journal.h), and the other rank of each pair. A call
// that lacks nothing but detached members has been made by their neighbours. So a job of n
// processes sends 2 n messages when all its members detach, and one for each pair that has made
// calls. If a member calls a pair for the first time after this rank has detached, its journal
// comes here, and the process answers.
//
// The lock of the job guards everything here.
#ifndef RONDO_RUNTIME_ORDER_COMM_DETACH_H
#define RONDO_RUNTIME_ORDER_COMM_DETACH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/order/bounded_list.h"

struct rondo_comm_end;
struct rondo_job;
struct rondo_journal_name;
struct rondo_mesh_message;
struct rondo_series;

// Rank `rank` has detached, and tells `to`. Processes send each other this structure.
struct rondo_detachment {
  uint64_t key;
  uint32_t rank, to;
  uint64_t collective, sent, received; // calls; `sent` to `to`, `received` from it
};

// A process keeps so many detachments while the end of `to` does not exist, or its process is
// unknown. It remembers as many detached ends of its own ranks.
#define RONDO_MAX_KEPT_DETACHMENTS 1024u

// Tells the neighbours, and the other ranks of pairs, that this end detaches.
void rondo_comm_detach(struct rondo_comm_end *end);
// Gives a new end the detachments that were kept for it.
void rondo_comm_attach(struct rondo_comm_end *end);
// Frees the detachments of an end.
void rondo_comm_free_detachments(struct rondo_comm_end *end);

// Finds a member that detached after fewer calls of the series than this rank has made, and writes
// that member's number of calls to `made`. Null if there is none.
const struct rondo_detachment *rondo_comm_find_detached(const struct rondo_comm_end *end,
                                                        const struct rondo_series *series,
                                                        uint64_t *made);

// Answers the first call of a pair: `name` is the journal of a rank that has called it. If the
// other rank has detached from its end in this process, tells the first one.
void rondo_detachments_answer(struct rondo_job *job, const struct rondo_journal_name *name);
// Sends the detachments that were kept because the roster was not known.
void rondo_detachments_announce(struct rondo_job *job);
// Receives a RONDO_MESSAGE_COMM_DETACHED. Returns 0 if the message is invalid.
int rondo_detachments_receive(struct rondo_job *job, const struct rondo_mesh_message *message);

#endif // RONDO_RUNTIME_ORDER_COMM_DETACH_H
