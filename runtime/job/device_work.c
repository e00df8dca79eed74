#include "runtime/job/device_work.h"

#include "base/clock.h"
#include "base/condition.h"
#include "runtime/job/job.h"
#include "runtime/job/match.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/mapped.h"

void rondo_device_work_add(struct rondo_job *job, struct rondo_match_entry *m,
                           struct rondo_communicator *comm) {
  if (comm->is_listed || comm->is_writing)
    return; // the thread that writes takes these writes, too
  comm->home = m;
  comm->is_listed = true;
  comm->next_written = job->unwritten;
  job->unwritten = comm;
}

static void comm_unlist(struct rondo_job *job, struct rondo_communicator *comm) {
  struct rondo_communicator **at = &job->unwritten;
  while (*at != comm)
    at = &(*at)->next_written;
  *at = comm->next_written;
  comm->is_listed = false;
}

void rondo_device_work_drop(struct rondo_job *job, struct rondo_communicator *comm) {
  if (comm->is_listed)
    comm_unlist(job, comm);
  rondo_writes_free(rondo_writes_take(&comm->writes));
}

bool rondo_device_work_await(struct rondo_job *job, const struct rondo_communicator *comm) {
  uint64_t end_ns = 0;
  while (comm->is_writing) {
    if (!end_ns)
      end_ns = rondo_now_ns() + job->written_bound_ns;
    if (rondo_condition_wait(&job->written, &job->lock, end_ns) && rondo_now_ns() >= end_ns)
      return false;
  }
  return true;
}

// Writes the plans of registrations that were made before their plans to devices.
static int comm_load(struct rondo_job *job, const struct rondo_communicator *comm, uint32_t *rank) {
  struct rondo_registration *r = NULL;
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS && (r = rondo_match_unloaded(comm)) != NULL) {
    *rank = r->rank;
    pthread_mutex_unlock(&job->lock);
    status = r->calls->load(r);
    pthread_mutex_lock(&job->lock);
    r->is_loaded = status == RONDO_SUCCESS;
  }
  return status;
}

static void comm_write(struct rondo_job *job, struct rondo_communicator *comm) {
  uint32_t rank = 0;
  comm_unlist(job, comm);
  comm->is_writing = true;
  int status = comm_load(job, comm, &rank);
  while (comm->writes.first && status == RONDO_SUCCESS) {
    struct rondo_write *writes = rondo_writes_take(&comm->writes);
    pthread_mutex_unlock(&job->lock);
    status = rondo_writes_carry_out(writes, &rank);
    pthread_mutex_lock(&job->lock);
  }
  comm->is_writing = false;
  pthread_cond_broadcast(&job->written);
  rondo_match_written(job, comm, status, rank);
}

// Gets the memory that a registration lacks, and continues those that wait for memory.
static void want_supply(struct rondo_job *job) {
  job->is_supplying = true;
  rondo_pool_supply(&job->transports.pool, &job->want, &job->lock);
  job->is_supplying = false;
  rondo_match_entries_visit(job, rondo_match_settle_all);
  if (!rondo_pool_is_wanted(&job->want))
    job->want = (struct rondo_pool_want){0};
}

void rondo_job_unlock(struct rondo_job *job) {
  for (;;) {
    if (job->unwritten)
      comm_write(job, job->unwritten);
    else if (rondo_pool_is_wanted(&job->want) && !job->is_supplying)
      want_supply(job);
    else if (rondo_mapped_work(&job->transports))
      rondo_match_entries_visit(job, rondo_match_rebind);
    else
      break;
  }
  pthread_mutex_unlock(&job->lock);
}
