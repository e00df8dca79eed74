#include "runtime/job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/condition.h"
#include "base/cores.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/log.h"
#include "runtime/job/agreeing.h"
#include "runtime/job/device_work.h"
#include "runtime/job/match_entry.h"
#include "runtime/job/processes.h"
#include "runtime/net/topology.h"
#include "runtime/transport/communicator.h"

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
// Broadcast when a rank has been added to a job, or could not be. The driver may wait meanwhile, so
// the lock is not held.
static pthread_cond_t jobs_changed = PTHREAD_COND_INITIALIZER;
static struct rondo_job *jobs;

// The parent's jobs stay in the child's memory, unused.
static void jobs_forked(void) {
  jobs = NULL;
  jobs_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  jobs_changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
RONDO_ON_FORK(jobs_forked)

// ------------------------------------------------------------ making, ending ---

static bool is_private(const struct rondo_unique_id *id) {
  static const struct rondo_unique_id none;
  return memcmp(id, &none, sizeof none) == 0;
}

static struct rondo_job *job_find(const struct rondo_job_request *request) {
  const struct rondo_unique_id *id = &request->cfg->id;
  if (is_private(id))
    return NULL;
  for (struct rondo_job *j = jobs; j; j = j->next)
    if (memcmp(&j->id, id, sizeof *id) == 0 && j->simulated_process == request->simulated_process)
      return j;
  return NULL;
}

// Frees a job whose transports are not open.
static void job_dispose(struct rondo_job *j) {
  pthread_cond_destroy(&j->written);
  pthread_cond_destroy(&j->attendance);
  pthread_mutex_destroy(&j->lock);
  rondo_agreeing_destroy(j->agreeing);
  rondo_member_lists_fini(&j->lists);
  free(j->gone);
  free(j->was_here);
  free(j->members);
  free(j->own_model);
  free(j);
}

static void job_free(struct rondo_job *j) {
  rondo_match_entries_free(j);
  RONDO_JOB_CALL(j, close, j);
  rondo_transports_close(&j->transports);
  job_dispose(j);
}

static struct rondo_job *job_alloc(const struct rondo_job_request *request) {
  const struct rondo_config *cfg = request->cfg;
  struct rondo_job *j = calloc(1, sizeof *j);
  if (!j)
    return NULL;
  j->members = calloc(cfg->rank_count, sizeof(struct rondo_member *));
  j->was_here = calloc(cfg->rank_count, 1);
  rondo_member_lists_init(&j->lists, cfg->rank_count);
  j->world = rondo_member_lists_get_all(&j->lists);
  if (!j->members || !j->was_here || !j->world) {
    rondo_member_lists_fini(&j->lists);
    free(j->members);
    free(j->was_here);
    free(j);
    return NULL;
  }
  j->id = cfg->id;
  j->simulated_process = request->simulated_process;
  j->rank_count = cfg->rank_count;
  j->cores = rondo_cores_count();
  j->peer_timeout_ns = cfg->peer_timeout_ns;
  j->is_manual = request->member->is_manual;
  j->extensions = request->extensions;
  j->own_model = *request->model;
  j->model = j->own_model ? &j->own_model->model : NULL;
  *request->model = NULL;
  pthread_mutex_init(&j->lock, NULL);
  rondo_condition_init(&j->attendance);
  rondo_condition_init(&j->written);
  j->written_bound_ns = RONDO_DEVICE_WORK_NS;
  return j;
}

// Opens a new job. No lock is held, because the driver may wait for the device. If this fails, the
// caller discards the job.
static int job_open(struct rondo_job *j, const struct rondo_job_request *request) {
  const struct rondo_config *cfg = request->cfg;
  char why[RONDO_WHY_BYTES];
  struct rondo_device *device = NULL;
  int status = request->member->device->driver->open(cfg, &device, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                            cfg->rank_count);
  for (const struct rondo_job_extension *const *e = j->extensions; *e; e++) {
    int one = (*e)->open(j);
    status = status == RONDO_SUCCESS ? one : status;
  }
  int opened = rondo_processes_open(j, cfg, device);
  return status == RONDO_SUCCESS ? opened : status;
}

// Frees a job that could not be opened, and is in no list.
static void job_discard(struct rondo_job *j) {
  if (j->membership)
    rondo_processes_close(j, 0);
  if (j->transports.device)
    job_free(j);
  else
    job_dispose(j);
}

// Warns if a further rank of this process has another cost model than the first.
static void job_compare_model(const struct rondo_job *j, const struct rondo_job_request *request) {
  const struct rondo_cost_file *model = *request->model;
  if (model && (!j->own_model || j->own_model->model.digest != model->model.digest))
    rondo_log(RONDO_LOG_WARN,
              "init: rank %u: its cost model (RONDO_COST_MODEL) is not used: the first rank of the "
              "job in this process has another one",
              request->cfg->rank);
}

// Adds a rank to a job that this process has joined.
static int job_add(struct rondo_job *j, const struct rondo_job_request *request) {
  const struct rondo_config *cfg = request->cfg;
  struct rondo_device *device = request->member->device;
  const struct rondo_driver *driver = j->transports.device->driver;
  char why[RONDO_WHY_BYTES];
  if (j->rank_count != cfg->rank_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: rank %u has rank_count %u, other ranks of its job have %u",
                            cfg->rank, cfg->rank_count, j->rank_count);
  if (driver != device->driver)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "init: rank %u has the %s backend, others of its job in this process "
                            "the %s backend",
                            cfg->rank, device->driver->name, driver->name);
  if (j->members[cfg->rank])
    return RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "init: rank %u is in this job already", cfg->rank);
  int status = rondo_transports_add_device(&j->transports, cfg, device, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: rank %u: %s", cfg->rank, why);
  job_compare_model(j, request);
  if (!j->membership)
    return RONDO_SUCCESS;
  const struct rondo_topology_place place = rondo_processes_place(device);
  return rondo_members_calls->add_rank(j->membership, cfg->rank, &place);
}

// Sets the driver's number of local ranks, that of its largest job here. `jobs_lock` is held.
static void driver_count_ranks(const struct rondo_driver *driver) {
  uint32_t most = 0;
  for (const struct rondo_job *j = jobs; j; j = j->next)
    if (!j->is_opening && j->transports.device->driver == driver && j->member_count > most)
      most = j->member_count;
  if (driver->set_local_ranks)
    driver->set_local_ranks(most);
}

// The job that the request names, once no rank is being added to it; or null. `jobs_lock` is held,
// and released meanwhile.
static struct rondo_job *job_await(const struct rondo_job_request *request) {
  struct rondo_job *j = job_find(request);
  while (j && j->is_joining) {
    pthread_cond_wait(&jobs_changed, &jobs_lock);
    j = job_find(request);
  }
  return j;
}

// Finds the job that the request names, or lists a new one. Only this thread adds a rank to it
// until job_end_join. Null: no memory.
static struct rondo_job *job_begin_join(const struct rondo_job_request *request) {
  pthread_mutex_lock(&jobs_lock);
  struct rondo_job *j = job_await(request);
  if (!j && (j = job_alloc(request))) {
    j->is_opening = true;
    j->next = jobs;
    jobs = j;
  }
  if (j)
    j->is_joining = true;
  pthread_mutex_unlock(&jobs_lock);
  return j;
}

// Adds the rank if it could join (`status`). Takes a new job that could not be opened off the list.
static void job_end_join(struct rondo_job *j, struct rondo_member *member, uint32_t rank,
                         int status) {
  pthread_mutex_lock(&jobs_lock);
  if (status == RONDO_SUCCESS) {
    j->is_opening = false;
    pthread_mutex_lock(&j->lock);
    j->members[rank] = member;
    j->was_here[rank] = 1;
    j->member_count++;
    pthread_cond_broadcast(&j->attendance);
    pthread_mutex_unlock(&j->lock);
    driver_count_ranks(j->transports.device->driver);
  } else if (j->is_opening) {
    RONDO_LIST_REMOVE(jobs, j, next);
  }
  j->is_joining = false;
  pthread_cond_broadcast(&jobs_changed);
  pthread_mutex_unlock(&jobs_lock);
}

int rondo_job_join(const struct rondo_job_request *request, struct rondo_job **job) {
  struct rondo_job *j = job_begin_join(request);
  if (!j)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                            request->cfg->rank_count);
  bool is_new = j->is_opening;
  int status = is_new ? job_open(j, request) : job_add(j, request);
  job_end_join(j, request->member, request->cfg->rank, status);
  if (status == RONDO_SUCCESS)
    *job = j;
  else if (is_new)
    job_discard(j);
  return status;
}

void rondo_job_leave(struct rondo_job *job, uint32_t rank, int64_t join_ns) {
  const struct rondo_driver *driver = job->transports.device->driver;
  pthread_mutex_lock(&jobs_lock);
  while (job->is_joining)
    pthread_cond_wait(&jobs_changed, &jobs_lock);
  pthread_mutex_lock(&job->lock);
  job->members[rank] = NULL;
  pthread_cond_broadcast(&job->attendance);
  int empty = --job->member_count == 0;
  rondo_agreeing_leave(job, rank);
  pthread_mutex_unlock(&job->lock);
  if (empty)
    RONDO_LIST_REMOVE(jobs, job, next);
  else if (job->membership)
    rondo_members_calls->remove_rank(job->membership,
                                     rank); // under the lock: the last rank frees the job
  driver_count_ranks(driver);
  pthread_mutex_unlock(&jobs_lock);
  if (!empty)
    return;
  if (job->membership)
    rondo_processes_close(job, join_ns);
  job_free(job);
}

const struct rondo_member_list *rondo_job_list(struct rondo_job *job, const uint32_t *ranks,
                                               uint32_t count) {
  pthread_mutex_lock(&job->lock);
  const struct rondo_member_list *list = rondo_member_lists_get(&job->lists, ranks, count);
  pthread_mutex_unlock(&job->lock);
  return list;
}

void rondo_job_visit(void (*visit)(struct rondo_job *job, void *arg), void *arg) {
  pthread_mutex_lock(&jobs_lock);
  for (struct rondo_job *j = jobs; j; j = j->next)
    if (!j->is_opening)
      visit(j, arg);
  pthread_mutex_unlock(&jobs_lock);
}

void rondo_job_wake_members(struct rondo_job *job, const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_member *member = job->members[comm->ranks[i]];
    if (member && !member->is_manual)
      member->daemon->driver->notify_submission(member->daemon, 1);
  }
}
