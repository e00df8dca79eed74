#include "runtime/job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/condition.h"
#include "base/log.h"
#include "daemon/driver/driver.h"
#include "runtime/api/rank.h"
#include "runtime/job/match_entry.h"
#include "runtime/job/processes.h"

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondo_job *jobs;

// The jobs stay where they are, in memory of this child that nobody uses.
void rondo_jobs_forked(void) {
  jobs = NULL;
  jobs_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

// ------------------------------------------------------------------ jobs ---

static int is_private(const struct rondo_unique_id *id) {
  static const struct rondo_unique_id none;
  return memcmp(id, &none, sizeof none) == 0;
}

static struct rondo_job *job_find(const struct rondo_config *cfg, uint32_t process) {
  if (is_private(&cfg->id))
    return NULL;
  for (struct rondo_job *w = jobs; w; w = w->next)
    if (memcmp(&w->id, &cfg->id, sizeof cfg->id) == 0 && w->process == process)
      return w;
  return NULL;
}

static void job_free(struct rondo_job *w) {
  rondo_match_entries_free(w);
  rondo_journals_free(w);
  rondo_latest_free(&w->detachments);
  rondo_latest_free(&w->failures);
  rondo_pool_fini(&w->pool);
  rondo_window_group_close(w);
  rondo_range_destroy(w->range);
  rondo_pins_fini(&w->pins);
  rondo_arena_destroy(w->arena);
  for (uint32_t i = 0; i < w->other_count; i++)
    w->others[i]->driver->close(w->others[i]);
  w->device->driver->close(w->device);
  free(w->others);
  rondo_views_fini(w);
  pthread_mutex_destroy(&w->journals.news_lock);
  pthread_cond_destroy(&w->attendance);
  pthread_mutex_destroy(&w->lock);
  free(w->was_here);
  free(w->members);
  free(w);
}

void rondo_job_notify(struct rondo_job *job) { pthread_cond_broadcast(&job->attendance); }

static int job_create(const struct rondo_rank *rank, struct rondo_job **job) {
  const struct rondo_config *cfg = &rank->cfg;
  char why[RONDO_WHY_BYTES];
  struct rondo_job *w = calloc(1, sizeof *w);
  if (w) {
    w->members = calloc(cfg->rank_count, sizeof(struct rondo_rank *));
    w->was_here = calloc(cfg->rank_count, 1);
  }
  if (!w || !w->members || !w->was_here ||
      rank->device->driver->open(cfg, &w->device, why) != RONDO_SUCCESS) {
    if (w) {
      free(w->was_here);
      free(w->members);
    }
    free(w);
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                            cfg->rank_count);
  }
  w->id = cfg->id;
  w->process = rank->manual.process;
  w->rank_count = cfg->rank_count;
  w->peer_timeout_ns = cfg->peer_timeout_ns;
  w->transport = cfg->transport;
  w->endpoints = cfg->endpoints;
  w->is_manual = rank->is_manual;
  pthread_mutex_init(&w->lock, NULL);
  rondo_condition_init(&w->attendance);
  pthread_mutex_init(&w->journals.news_lock, NULL);
  rondo_views_init(w);
  int status = rondo_mesh_calls->is_needed(cfg) ? rondo_processes_open(w, cfg) : RONDO_SUCCESS;
  // Devices that cannot use the memory of other processes have their connectors in their own.
  rondo_pool_init(&w->pool, cfg->connector_bytes, w->device,
                  w->device->driver->is_direct ? w->arena : NULL);
  w->pool.lent = w->arena;
  w->pool.pins = &w->pins;
  w->pool.range = w->range;
  w->pool.window = w->window;
  if (status != RONDO_SUCCESS) {
    job_free(w);
    return status;
  }
  w->next = jobs;
  jobs = w;
  *job = w;
  return RONDO_SUCCESS;
}

// Keeps the rank's device open as long as the job: connectors may lie there.
static int keep_device(struct rondo_job *w, const struct rondo_rank *rank) {
  char why[RONDO_WHY_BYTES] = "no memory";
  int is_known = w->device == rank->device;
  for (uint32_t i = 0; i < w->other_count && !is_known; i++)
    is_known = w->others[i] == rank->device;
  if (is_known)
    return RONDO_SUCCESS;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  struct rondo_device **grown = realloc(w->others, (w->other_count + 1) * sizeof *grown);
  int status = grown ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  if (grown) {
    w->others = grown;
    status = rank->device->driver->open(&rank->cfg, &w->others[w->other_count], why);
  }
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: rank %u: %s", rank->cfg.rank, why);
  w->other_count++;
  pthread_mutex_lock(&w->lock);
  rondo_mapped_admit(w, rank->device);
  pthread_mutex_unlock(&w->lock);
  return RONDO_SUCCESS;
}

// One more rank of a job that is here already.
static int job_add(struct rondo_job *w, const struct rondo_rank *rank) {
  const struct rondo_config *cfg = &rank->cfg;
  if (w->rank_count != cfg->rank_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: rank %u says the job has %u ranks, others say %u", cfg->rank,
                            cfg->rank_count, w->rank_count);
  if (w->device->driver != rank->device->driver)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "init: rank %u has the %s backend, others of its job in this process "
                            "the %s backend",
                            cfg->rank, rank->device->driver->name, w->device->driver->name);
  if (w->members[cfg->rank])
    return RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "init: rank %u is in this job already", cfg->rank);
  int status = keep_device(w, rank);
  if (status == RONDO_SUCCESS && w->mesh)
    status = rondo_mesh_calls->add_rank(w->mesh, cfg->rank);
  return status;
}

// Tells a driver that needs cores how many ranks its largest job here has. The list is locked.
static void count_crowd(const struct rondo_driver *driver) {
  uint32_t most = 0;
  for (const struct rondo_job *w = jobs; w; w = w->next)
    if (w->device->driver == driver && w->member_count > most)
      most = w->member_count;
  if (driver->crowd)
    driver->crowd(most);
}

int rondo_job_join(struct rondo_rank *rank, struct rondo_job **job) {
  uint32_t number = rank->cfg.rank;
  pthread_mutex_lock(&jobs_lock);
  struct rondo_job *w = job_find(&rank->cfg, rank->manual.process);
  int status = w ? job_add(w, rank) : job_create(rank, &w);
  if (status == RONDO_SUCCESS) {
    pthread_mutex_lock(&w->lock);
    w->members[number] = rank;
    w->was_here[number] = 1;
    w->member_count++;
    rondo_job_notify(w);
    pthread_mutex_unlock(&w->lock);
    count_crowd(w->device->driver);
    *job = w;
  }
  pthread_mutex_unlock(&jobs_lock);
  return status;
}

static void take_from_list(const struct rondo_job *w) {
  struct rondo_job **at = &jobs;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
}

void rondo_job_leave(struct rondo_job *job, uint32_t rank, int64_t join_ns) {
  const struct rondo_driver *driver = job->device->driver;
  pthread_mutex_lock(&jobs_lock);
  pthread_mutex_lock(&job->lock);
  job->members[rank] = NULL;
  rondo_job_notify(job);
  int empty = --job->member_count == 0;
  pthread_mutex_unlock(&job->lock);
  if (empty)
    take_from_list(job);
  else if (job->mesh)
    rondo_mesh_calls->remove_rank(job->mesh, rank); // under the lock: the last one frees all
  count_crowd(driver);
  pthread_mutex_unlock(&jobs_lock);
  if (!empty)
    return;
  if (job->mesh)
    rondo_processes_close(job, join_ns);
  job_free(job);
}

void rondo_job_visit(void (*visit)(struct rondo_job *job, void *arg), void *arg) {
  pthread_mutex_lock(&jobs_lock);
  for (struct rondo_job *w = jobs; w; w = w->next)
    visit(w, arg);
  pthread_mutex_unlock(&jobs_lock);
}
