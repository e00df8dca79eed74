// Matching: decides which registrations share a communicator, when its gate opens, and when its
// runs fail.
//
// The lock of the job is held unless a comment says otherwise.
#ifndef RONDO_RUNTIME_JOB_MATCH_H
#define RONDO_RUNTIME_JOB_MATCH_H

#include "runtime/job/agreement.h"
#include "runtime/job/match_entry.h"

struct rondo_binding_member;

// ---- registrations of ranks here ----

// Plans a registration if the places of its members are known; sets is_planned or plan_status then.
// The caller has set rank, position, nranks, members, desc, plan, calls and home. Returns
// RONDO_SUCCESS or RONDO_ERR_NO_MEMORY. The lock is not held.
int rondo_job_plan(struct rondo_job *job, struct rondo_registration *registration);

// Adds a registration and finds or makes its communicator. The caller owns the registration and has
// also set id, index, shape, submitted, completed and owner, and endpoints if it is planned. Takes
// the topology of the shape, unless it fails. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY; a
// mismatch fails runs, not this call. The lock is not held.
int rondo_job_register(struct rondo_job *job, struct rondo_registration *registration);

// The device has the collective of a registration that was not planned before rondo_job_register.
// The lock is not held.
void rondo_job_written(struct rondo_job *job, struct rondo_registration *registration);

// The registration's rank, as link_binding.h knows it.
struct rondo_binding_member rondo_match_binding_member(const struct rondo_job *job,
                                                       const struct rondo_registration *r);

// Ends all runs of the registration's communicator with `status`, in all processes.
void rondo_job_fail(struct rondo_job *job, struct rondo_registration *registration, int status);
// The same, with the reason in words.
void rondo_job_fail_because(struct rondo_job *job, struct rondo_registration *registration,
                            int status, const char *text);

// Removes the registration. Members that are still registered cannot run past `completed`.
// Waits, for a bounded time, for writes to the registration's device memory. Returns false if they
// do not end: then the caller must not free that memory. The lock is not held.
bool rondo_job_deregister(struct rondo_job *job, struct rondo_registration *registration,
                          uint64_t completed);

// ---- what the agreement says (agreeing.h) ----

// All members have registered the same.
void rondo_match_agreed(struct rondo_job *job, const struct rondo_agreement_key *key);
void rondo_match_failed(struct rondo_job *job, const struct rondo_agreement_key *key,
                        const struct rondo_agreement_failure *failure);
// Rank `culprit` has deregistered after `completed` runs.
void rondo_match_limit(struct rondo_job *job, const struct rondo_agreement_key *key,
                       uint64_t completed, uint32_t culprit);

// ---- messages from other processes (offers.h) ----

// Offers have arrived, and are in the match entry.
void rondo_match_offered(struct rondo_job *job, struct rondo_match_entry *m,
                         const struct rondo_offers *offers);
// A producer in another process no longer writes to its connectors of generation `generation` (0:
// of any) to rank `consumer` (UINT32_MAX: to any rank).
void rondo_match_release(struct rondo_job *job, struct rondo_match_entry *m, uint64_t generation,
                         uint32_t producer, uint32_t consumer);
// A rank of another process is gone. `left`: it left after it had ended all its registrations. The
// agreement says what has failed. May drop the entry.
void rondo_match_lost(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank, int left);

// The processes of all members are known: plans the registrations of an entry.
void rondo_match_plan_all(struct rondo_job *job, struct rondo_match_entry *m);
// A planned registration of the communicator that the device has, and its plan not; or null.
struct rondo_registration *rondo_match_unloaded(const struct rondo_communicator *comm);
// Continues a registration once the processes of all members are known: makes its links and offers
// its connectors. Does so only in part if that needs device work first (device_work.h).
void rondo_match_settle(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration);
// True if the collective can begin without further calls of the driver here: its connectors are
// offered, and the memory of the processes of its peers is mapped. Or if it has failed, or the job
// has one process. The lock is not held.
bool rondo_job_has_places(struct rondo_job *job, const struct rondo_registration *registration);
// Continues all registrations of an entry that have not offered their connectors.
void rondo_match_settle_all(struct rondo_job *job, struct rondo_match_entry *m);
// The writes of a communicator to devices have been carried out with `status`, the last one to the
// device of `rank`. Goes on with what has waited for them.
void rondo_match_written(struct rondo_job *job, struct rondo_communicator *comm, int status,
                         uint32_t rank);
// Binds links that waited for an answer of another process.
void rondo_match_rebind(struct rondo_job *job, struct rondo_match_entry *m);

// ---- the proxy ----

// The proxy no longer uses the connectors of a link. `is_whole`: 0 if slots that were sent may be
// missing.
void rondo_match_link_over(struct rondo_job *job, struct rondo_proxy_link *proxied, int is_whole);
// Returns 1 if a rank here has a run outstanding whose slots pass through the link.
int rondo_match_is_link_used(struct rondo_job *job, const struct rondo_proxy_link *proxied);

#endif // RONDO_RUNTIME_JOB_MATCH_H
