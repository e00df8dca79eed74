// What the order room keeps for a job, and how the job and its ranks call it.
#ifndef RONDO_RUNTIME_ORDER_COMMS_H
#define RONDO_RUNTIME_ORDER_COMMS_H

#include "runtime/job/job.h"
#include "runtime/order/journal.h"
#include "runtime/order/latest.h"

struct rondo_rank_extension;

// Guarded by the lock of the job.
struct rondo_comms {
  struct rondo_journals journals;
  struct rondo_latest_list detachments; // of ends that nobody here has made yet (detach.h)
  struct rondo_latest_list failures;    // likewise (failure.h)
  struct rondo_comm_end *failing;       // ends whose collectives have to fail yet
  int is_failing;
};

static inline struct rondo_comms *rondo_comms_of(const struct rondo_job *job) { return job->comms; }

extern const struct rondo_job_extension rondo_order_extension;
extern const struct rondo_rank_extension rondo_order_rank_extension;

#endif // RONDO_RUNTIME_ORDER_COMMS_H
