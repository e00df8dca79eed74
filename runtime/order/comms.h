// The communicators of a job: the state that this folder keeps for the job, and its callbacks for
// the job and the ranks.
#ifndef RONDO_RUNTIME_ORDER_COMMS_H
#define RONDO_RUNTIME_ORDER_COMMS_H

#include "runtime/job/job.h"
#include "runtime/order/journal.h"
#include "runtime/order/bounded_list.h"

struct rondo_rank_extension;

// Guarded by the lock of the job.
struct rondo_comms {
  struct rondo_journals journals;
  struct rondo_bounded_list detachments;   // for ends that do not exist here yet (comm_detach.h)
  struct rondo_bounded_list detached_ends; // ends of ranks here that do not exist any more
  struct rondo_bounded_list failures;      // for ends that do not exist here yet (comm_failure.h)
  struct rondo_comm_end *failing;          // ends whose collectives are to fail
  int is_failing;
};

static inline struct rondo_comms *rondo_comms_of(const struct rondo_job *job) { return job->comms; }

extern const struct rondo_job_extension rondo_order_extension;
extern const struct rondo_rank_extension rondo_order_rank_extension;

#endif // RONDO_RUNTIME_ORDER_COMMS_H
