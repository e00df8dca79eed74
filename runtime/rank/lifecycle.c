// Creates and destroys a rank.
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/cuda/cuda_driver.h"
#include "daemon/host/host.h"
#include "runtime/job/match.h"
#include "runtime/rank/allocation.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/lending.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/retry.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/stream.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"

// Limit for aborted runs to end. They end as soon as no peer reads their buffers.
#define ABORT_BOUND_NS INT64_C(10000000000)

// ------------------------------------------------------------------- making ---

const struct rondo_driver *rondo_driver_of(int backend) {
  if (backend == RONDO_BACKEND_HOST)
    return &rondo_host_driver;
#if defined(RONDO_HAVE_CUDA)
  if (backend == RONDO_BACKEND_CUDA)
    return &rondo_cuda_driver;
#endif
  return NULL;
}

static uint32_t value_or(uint32_t value, uint32_t fallback) { return value ? value : fallback; }

// Opens the rank's device and makes its daemon.
static int daemon_make(struct rondo_rank *rank) {
  const struct rondo_driver *driver = rondo_driver_of(rank->cfg.backend);
  char why[RONDO_WHY_BYTES] = "";
  int status = driver->open(&rank->cfg, &rank->member.device, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: rank %u: the %s backend: %s", rank->cfg.rank,
                            driver->name, why);
  if (why[0])
    rondo_log(RONDO_LOG_WARN, "init: rank %u: the %s backend: %s", rank->cfg.rank, driver->name,
              why);
  struct rondo_daemon_request request = {
      .cfg = &rank->cfg,
      .sq_entries = value_or(rank->manual.sq_entries, RONDO_SQ_ENTRIES),
      .cq_entries = value_or(rank->manual.cq_entries, RONDO_CQ_ENTRIES),
      .first_sequence = rank->manual.shape.first_sequence,
      .service = rondo_rank_service,
      .needs_service = rondo_rank_needs_service,
      .on_change = rondo_rank_on_change,
      .on_lost = rondo_rank_on_lost,
      .on_moved = rondo_rank_on_moved,
      .forward = rondo_rank_forward,
      .owner = rank,
      .why = why};
  why[0] = '\0';
  status = driver->create(rank->member.device, &request, &rank->member.daemon);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: rank %u: %s", rank->cfg.rank,
                            why[0] ? why : "no memory for queues");
  return RONDO_SUCCESS;
}

static void device_side_free(struct rondo_rank *rank) {
  if (!rank->member.device)
    return;
  const struct rondo_driver *driver = rank->member.device->driver;
  if (rank->member.daemon)
    driver->destroy(rank->member.daemon);
  rondo_streams_free(rank);
  rondo_replays_free(rank);
  for (uint32_t i = 0; i < RONDO_TABLE_PAGES; i++)
    if (rank->device_pages[i])
      driver->free(rank->member.device, RONDO_MEMORY_DEVICE, rank->device_pages[i]);
  driver->close(rank->member.device);
}

static void rank_free(struct rondo_rank *rank) {
  device_side_free(rank);
  for (uint32_t i = 0; i < RONDO_TABLE_PAGES; i++)
    rondo_memory_free(rank->pages[i]);
  while (rank->free_records) {
    struct rondo_run_record *record = rank->free_records;
    rank->free_records = record->next;
    free(record);
  }
  free(rank->overflow.entries);
  rondo_groups_free(rank);
  if (rank->event_fd >= 0)
    close(rank->event_fd);
  pthread_mutex_destroy(&rank->comms_lock);
  rondo_decline_fini(&rank->decline);
  rondo_retries_free(rank->retries);
  pthread_cond_destroy(&rank->stream_given);
  pthread_mutex_destroy(&rank->stream_lock);
  rondo_memory_free(rank);
}

static int daemon_attach(struct rondo_rank *rank) {
  int status = rank->member.daemon->driver->attach(rank->member.daemon, &rank->cfg);
  if (status == RONDO_ERR_SYSTEM)
    return RONDO_LOG_REFUSE(status, "init: a worker thread cannot be created");
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: no memory");
  return RONDO_SUCCESS;
}

// Gives the daemon its ready flags.
static int daemon_use_flags(struct rondo_rank *rank) {
  struct rondo_daemon *d = rank->member.daemon;
  if (!d->driver->use_flags)
    return RONDO_SUCCESS;
  uint8_t *flags = rondo_transports_alloc_flags(
      &rank->job->transports,
      rank->cfg.blocks * rondo_block_flags_bytes(rank->cfg.max_collectives));
  if (!flags || d->driver->use_flags(d, flags) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for ready flags");
  return RONDO_SUCCESS;
}

// Joins the job, attaches the daemon to its device unless manual, and makes the handle.
static int rank_join(struct rondo_rank *rank, const struct rondo_rank_request *request,
                     uint64_t *handle) {
  const struct rondo_job_request joining = {.cfg = &rank->cfg,
                                            .member = &rank->member,
                                            .simulated_process = rank->manual.process,
                                            .extensions = request->job_extensions,
                                            .model = request->model};
  int status = rondo_job_join(&joining, &rank->job);
  if (status != RONDO_SUCCESS)
    return status;
  rank->member.daemon->proxy = &rank->job->transports.proxy_address;
  rank->member.daemon->event_counts =
      rank->job->membership ? &rank->job->transports.event_counts : NULL;
  status = daemon_use_flags(rank);
  if (status == RONDO_SUCCESS && !rank->member.is_manual)
    status = daemon_attach(rank);
  if (status == RONDO_SUCCESS) {
    *handle = rondo_handle_create(rank);
    rank->ctx.handle = *handle;
    if (*handle)
      return RONDO_SUCCESS;
    if (!rank->member.is_manual)
      rank->member.daemon->driver->detach(rank->member.daemon);
    status = RONDO_LOG_REFUSE(RONDO_ERR_FULL, "init: a process can have %u contexts at most",
                              RONDO_MAX_CONTEXTS);
  }
  rondo_job_leave(rank->job, rank->cfg.rank, 0);
  return status;
}

static void rank_drive_callbacks(void *owner) {
  const struct rondo_rank *rank = owner;
  if (rank->member.daemon->driver->poll)
    rank->member.daemon->driver->poll(rank->member.daemon, 0);
  else
    rondo_rank_poll(rank);
}

int rondo_rank_create(struct rondo_context *ctx, const struct rondo_rank_request *request) {
  struct rondo_rank *rank = rondo_memory_alloc(sizeof *rank);
  struct rondo_retries *retries = rondo_retries_create();
  if (!rank || !retries) {
    rondo_memory_free(rank);
    free(retries);
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a context");
  }
  rank->retries = retries;
  rank->cfg = *request->cfg;
  rank->member.rank = request->cfg->rank;
  rank->member.is_manual = request->manual && !request->manual->has_threads;
  if (request->manual)
    rank->manual = *request->manual;
  rank->forced = *request->forced;
  rank->extension = request->extension;
  rank->on_timeout = request->on_timeout;
  rank->event_fd = -1;
  pthread_mutex_init(&rank->stream_lock, NULL);
  pthread_cond_init(&rank->stream_given, NULL);
  pthread_mutex_init(&rank->comms_lock, NULL);
  rondo_decline_init(&rank->decline);
  rondo_callbacks_init(&rank->callbacks, rank->member.is_manual ? NULL : rank_drive_callbacks,
                       rank);
  int status = daemon_make(rank);
  if (status == RONDO_SUCCESS)
    status = rank_join(rank, request, &ctx->handle);
  if (status != RONDO_SUCCESS) {
    rondo_callbacks_fini(&rank->callbacks);
    rank_free(rank);
  }
  return status;
}

// ---- ending -----------------------------------------------------------------

void rondo_rank_abort(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  for (uint32_t i = 0; i < rank->coll_slots; i++) {
    struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      rondo_job_fail(rank->job, &coll->registration, RONDO_ERR_ABORTED);
  }
  rondo_retries_abort(rank);
  (void)rondo_flight_add(&rank->flight, RONDO_FLIGHT_ABORTED, NULL);
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
  rondo_submission_notify(rank, 1);
}

static int is_idle(void *arg) {
  struct rondo_rank *rank = arg;
  return rondo_load_seq_cst_u64(&rank->member.daemon->outstanding) == 0;
}

// Decides by the application's counters: a thread that takes the last completion updates the
// driver's `outstanding` later.
static bool has_ended_all(struct rondo_rank *rank) {
  rondo_rank_lock(rank);
  bool ended = rank->completed == rank->submitted && !rank->hidden_runs;
  rondo_lock_give(&rank->lock);
  return ended;
}

// Waits while other threads of a test step the blocks.
static void manual_drain(struct rondo_rank *rank, int64_t timeout_ns) {
  const struct timespec pause = {0, 50000};
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  while (!has_ended_all(rank) && rondo_now_ns() < end_ns)
    nanosleep(&pause, NULL);
}

// Waits until all runs have ended. Returns false if they have not after `timeout_ns`.
static bool rank_try_drain(struct rondo_rank *rank, int64_t timeout_ns) {
  if (rank->member.is_manual)
    manual_drain(rank, timeout_ns);
  else if (timeout_ns > 0)
    (void)rank->member.daemon->driver->wait(rank->member.daemon, is_idle, rank, timeout_ns);
  return has_ended_all(rank);
}

// Waits for other callers, which see `closing` and return.
static void users_await(struct rondo_context ctx, struct rondo_job *job) {
  const struct timespec pause = {0, 50000};
  pthread_mutex_lock(&job->lock);
  pthread_cond_broadcast(&job->attendance);
  pthread_mutex_unlock(&job->lock);
  while (rondo_rank_users(ctx) > 1)
    nanosleep(&pause, NULL);
}

static void rank_dismantle(struct rondo_context ctx, struct rondo_rank *rank, int64_t join_ns) {
  rondo_retries_stop(rank);
  if (!has_ended_all(rank)) { // a flush has begun meanwhile
    rondo_rank_abort(rank);
    (void)rank_try_drain(rank, ABORT_BOUND_NS);
  }
  rondo_store_release_u32(rank->member.daemon->exit, 1);
  rondo_callbacks_fini(&rank->callbacks);
  if (!rank->member.is_manual)
    rank->member.daemon->driver->detach(rank->member.daemon);
  users_await(ctx, rank->job);
  for (uint32_t i = 0; i < rank->coll_slots; i++) {
    struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      rondo_coll_remove(rank, coll);
  }
  rondo_allocations_free(rank);
  rondo_lending_fini(rank);
  rank->extension->close(rank);
  rondo_job_leave(rank->job, rank->cfg.rank, join_ns);
  rondo_handle_destroy(ctx.handle);
  rondo_rank_unpin(ctx);
  rank_free(rank);
}

static int64_t timeout_rest_ns(int64_t timeout_ns, uint64_t begin_ns) {
  uint64_t gone_ns = rondo_now_ns() - begin_ns;
  return timeout_ns > 0 && gone_ns < (uint64_t)timeout_ns ? timeout_ns - (int64_t)gone_ns : 0;
}

int rondo_rank_destroy(struct rondo_context ctx, int mode, int64_t timeout_ns) {
  struct rondo_rank *rank;
  uint64_t begin_ns = rondo_now_ns();
  int status = rondo_rank_close(ctx, &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (mode == RONDO_DESTROY_DRAIN && !rank_try_drain(rank, timeout_ns)) {
    rondo_log(RONDO_LOG_WARN, "destroy: rank %u: runs that did not end in time are aborted",
              rank->cfg.rank);
    status = RONDO_ERR_TIMEOUT;
  }
  rondo_store_seq_cst_u32(&rank->closing, 1);
  if (!has_ended_all(rank)) {
    rondo_rank_abort(rank);
    if (!rank_try_drain(rank, ABORT_BOUND_NS)) {
      status = RONDO_LOG_REFUSE(RONDO_ERR_INTERNAL,
                                "destroy: rank %u: aborted runs did not end; the context is kept",
                                rank->cfg.rank);
      rondo_rank_unpin(ctx);
      return status;
    }
  }
  rank_dismantle(ctx, rank, timeout_rest_ns(timeout_ns, begin_ns));
  return status;
}
