// How the failure of one call becomes that of the whole communicator, on all its members.
//
// When a collective of a communicator fails, for whatever reason, here or elsewhere, every end of that
// communicator in this process is marked, its processes are told, and all its collectives
// fail: also those that only one rank has. Everything is done under the lock of the job, and
// without recursion: ends that are marked wait in a list until rondo_comms_broadcast_failures. A member that makes its end only then
// gets the failure, and the reason, with it.
#ifndef RONDO_RUNTIME_ORDER_FAILURE_H
#define RONDO_RUNTIME_ORDER_FAILURE_H

#include <stddef.h>
#include <stdint.h>

struct rondo_job;
struct rondo_communicator;
struct rondo_comm_end;

// What failed last, for ends that are made later. No more than so many are kept.
#define RONDO_MOST_FAILURES 64u

// A collective of the end's may have failed.
void rondo_comm_receive_failure(struct rondo_job *job, struct rondo_comm_end *end,
                                const struct rondo_communicator *comm);

// The communicator has failed. Its first status stays. Returns 1 if this was the first that was heard.
int rondo_comm_mark_failed(struct rondo_job *job, struct rondo_comm_end *end, int status,
                           const char *why);

// An end is there from now on: it has failed if its communicator has.
void rondo_comm_inherit_failure(struct rondo_comm_end *end);

// Fails the collectives of all ends that are marked.
void rondo_comms_broadcast_failures(struct rondo_job *job);

// It is known now where everybody is: tells of what has failed by then.
void rondo_failures_announce(struct rondo_job *job);

// Another process says that a communicator has failed. Returns 0 if no member sends such a thing.
int rondo_failures_receive(struct rondo_job *job, uint32_t process, const void *bytes, size_t size);

#endif // RONDO_RUNTIME_ORDER_FAILURE_H
