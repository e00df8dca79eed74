// Members that have destroyed their end of a communicator: what others call after that would never end.
//
//   rondo_comm_detach -> rondo_comm_attach (an end that is made later) -> rondo_comm_find_detached
//
// Who leaves says to each other member how many calls of each series it has made. A call beyond them is
// one that it will never make, so the communicator fails. Everything is guarded by the lock of the job.
#ifndef RONDO_RUNTIME_ORDER_DETACH_H
#define RONDO_RUNTIME_ORDER_DETACH_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/order/latest.h"

struct rondo_job;
struct rondo_comm_end;
struct rondo_series;

// `rank` has left, and says it to `to`.
struct rondo_detachment {
  struct rondo_latest link;
  uint64_t key;
  uint32_t rank, to;
  uint64_t collective, sent, received; // calls: sends to `to`, receives from it
};

// Those that have nobody to hear them yet: the end of `to` is not made, or it is not known where that
// rank is. No more than so many are kept, the latest.
#define RONDO_MOST_DETACHMENTS 1024u

// This end goes: tells the other members, as far as they have not gone before.
void rondo_comm_detach(struct rondo_comm_end *end);
// An end is there from now on: it gets what was kept for it.
void rondo_comm_attach(struct rondo_comm_end *end);
// Frees what it has got.
void rondo_comm_forget_detached(struct rondo_comm_end *end);

// Who has left without making as many calls of a series as this rank has; `made` gets how many. Null: nobody.
const struct rondo_detachment *rondo_comm_find_detached(const struct rondo_comm_end *end,
                                                        const struct rondo_series *series,
                                                        uint64_t *made);

// It is known now where everybody is: tells what could not be told before.
void rondo_detachments_announce(struct rondo_job *job);
// A notice has come. Returns 0 if no member sends such a thing.
int rondo_detachments_receive(struct rondo_job *job, uint32_t process, const void *bytes,
                              size_t size);

#endif // RONDO_RUNTIME_ORDER_DETACH_H
