// The failure of one call becomes the failure of the whole communicator, on all members.
//
// When a collective of a communicator fails, in this process or another, every end of the
// communicator in this process is marked failed, the other processes of the communicator are told
// along the tree of the agreement (agreement.h), and all its collectives fail, also those that only
// one rank has registered. An end that is made later inherits the failure and its reason. When a
// member is lost, each process marks its own ends, and sends no message: the membership tells all
// processes.
//
// The lock of the job guards everything here. Marked ends wait in a list until
// rondo_comms_broadcast_failures, so that nothing recurses.
#ifndef RONDO_RUNTIME_ORDER_COMM_FAILURE_H
#define RONDO_RUNTIME_ORDER_COMM_FAILURE_H

#include <stdint.h>

struct rondo_agreement_failure;
struct rondo_job;
struct rondo_communicator;
struct rondo_comm_end;
struct rondo_owner;

// Failures that a process keeps for ends that are made later.
#define RONDO_MAX_KEPT_FAILURES 64u

// Marks the end that owns registrations failed if the collective of `comm` has failed.
void rondo_comm_receive_failure(struct rondo_job *job, struct rondo_owner *owner,
                                const struct rondo_communicator *comm);

// Marks the communicator failed. Its first status stays. Returns 1 if it had not failed before.
int rondo_comm_mark_failed(struct rondo_job *job, struct rondo_comm_end *end, int status,
                           const char *why);

// If `rank` is lost: marks the ends here of all its communicators failed.
void rondo_failures_lose(struct rondo_job *job, uint32_t rank);

// Marks a new end failed if its communicator has failed, or a member is lost.
void rondo_comm_inherit_failure(struct rondo_comm_end *end);

// Fails the collectives of all marked ends.
void rondo_comms_broadcast_failures(struct rondo_job *job);

// Another process says that the communicator `key` has failed: marks the ends here.
void rondo_failures_receive(struct rondo_job *job, uint64_t key,
                            const struct rondo_agreement_failure *failure);

#endif // RONDO_RUNTIME_ORDER_COMM_FAILURE_H
