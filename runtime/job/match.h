// Matching: which registrations make a communicator, when its gate opens, and what ends its runs.
//
// The lock of the job is held unless a comment says otherwise.
#ifndef RONDO_RUNTIME_JOB_MATCH_H
#define RONDO_RUNTIME_JOB_MATCH_H

#include "runtime/job/match_entry.h"

// ---- registrations of ranks here ----

// Enters a registration and gives it its communicator. The caller has set id, rank, position, nranks,
// members, desc, shape, plan, endpoints, submitted, completed and owner, and keeps it. Returns
// RONDO_SUCCESS or RONDO_ERR_NO_MEMORY; a mismatch is no failure of this call. Without the lock.
int rondo_job_register(struct rondo_job *job, struct rondo_registration *registration);

// Ends all runs of the registration's communicator with `status`, in all processes.
void rondo_job_fail(struct rondo_job *job, struct rondo_registration *registration, int status);

// Takes the registration out. Members that are still registered cannot run past `completed`. Without
// the lock.
void rondo_job_deregister(struct rondo_job *job, struct rondo_registration *registration,
                          uint64_t completed);

// ---- what other processes say ----

// A registration has come; it belongs to the match entry from now on.
void rondo_match_arrive(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration);
// A registration has failed in another process: of a rank there, or of one here.
void rondo_match_fail(struct rondo_job *job, struct rondo_registration *registration, int status,
                      uint32_t culprit);
// A registration of a rank elsewhere has ended; it is freed.
void rondo_match_depart(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration, uint64_t completed);
// A producer elsewhere will not write any more to the connectors of that generation (0: of any) to
// `consumer` (UINT32_MAX: to any rank).
void rondo_match_release(struct rondo_job *job, struct rondo_match_entry *m, uint64_t generation,
                         uint32_t producer, uint32_t consumer);
// A rank elsewhere is gone. `left`: it said so, and had ended all its registrations.
void rondo_match_lost(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank, int left);

// Goes on with a registration that waited until it was known where the members are: makes its links and
// announces it.
void rondo_match_settle(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration);
// Binds the links that waited for an answer of another process.
void rondo_match_rebind(struct rondo_job *job, struct rondo_match_entry *m);

// ---- the proxy ----

// The proxy does not use the connectors of a link any more. `is_whole`: 0 if something that was sent to
// it may be missing.
void rondo_match_link_over(struct rondo_job *job, struct rondo_proxy_link *link, int is_whole);
// 1 if a rank here has a run outstanding for which the proxy forwards by that link.
int rondo_match_is_link_used(struct rondo_job *job, const struct rondo_proxy_link *link);

#endif // RONDO_RUNTIME_JOB_MATCH_H
