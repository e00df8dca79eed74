#include "runtime/job/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/numa_node.h"
#include "runtime/job/agreeing.h"
#include "runtime/net/topology.h"
#include "runtime/transport/proxy.h"

#define STOP_NS INT64_C(2000000000) // for queued messages when a job ends here

// ---------------------------------------------------------- opening, closing ---

struct rondo_topology_place rondo_processes_place(const struct rondo_device *device) {
  const struct rondo_driver *driver = device->driver;
  struct rondo_topology_place place = {.is_gpu = driver->pci != NULL};
  place.node = (int16_t)(driver->node ? driver->node(device) : rondo_node_here());
  place.pci = driver->pci ? driver->pci(device) : 0;
  place.links = driver->links ? (uint8_t)driver->links(device) : 0;
  return place;
}

static int members_open(struct rondo_job *job, const struct rondo_config *cfg,
                        const struct rondo_device *device) {
  const struct rondo_topology_place place = rondo_processes_place(device);
  job->gone = calloc(job->rank_count, 1);
  job->agreeing = rondo_agreeing_create(&job->lists);
  if (!job->gone || !job->agreeing)
    return RONDO_ERR_NO_MEMORY;
  // Events wait for the lock, so that none runs before `job->membership` is set.
  pthread_mutex_lock(&job->lock);
  int status =
      rondo_members_calls->start(cfg, &place, &rondo_job_members_events, job, &job->membership);
  if (status == RONDO_SUCCESS)
    rondo_processes_watch(job);
  pthread_mutex_unlock(&job->lock);
  return status;
}

int rondo_processes_open(struct rondo_job *job, const struct rondo_config *cfg,
                         struct rondo_device *device) {
  int is_shared = rondo_members_calls->is_needed(cfg);
  const struct rondo_transports_config config = {.transport = cfg->transport,
                                                 .endpoints = cfg->endpoints,
                                                 .is_manual = (int)job->is_manual,
                                                 .huge_pages = (int)cfg->huge_pages,
                                                 .connector_bytes = cfg->connector_bytes,
                                                 .lock = &job->lock,
                                                 .events = &rondo_job_transport_events,
                                                 .owner = job};
  int status = rondo_transports_open(&job->transports, &config, device, is_shared);
  return status == RONDO_SUCCESS && is_shared ? members_open(job, cfg, device) : status;
}

void rondo_processes_close(struct rondo_job *job, int64_t join_ns) {
  rondo_transports_drain(&job->transports);
  pthread_mutex_lock(&job->lock);
  job->is_leaving = 1; // on_broken no longer uses the members
  pthread_mutex_unlock(&job->lock);
  rondo_members_calls->stop(job->membership, STOP_NS, join_ns);
  rondo_transports_disconnect(&job->transports);
  if (job->competing_ranks)
    job->transports.device->driver->set_competing(job->competing_ranks, 0);
  job->roster = RONDO_ROSTER_FAILED;
  free(job->processes);
  job->processes = NULL;
}

// -------------------------------------------------------------------- where ---

uint32_t rondo_processes_where(const struct rondo_job *job, uint32_t rank) {
  if (job->members[rank])
    return RONDO_HERE;
  if (job->roster != RONDO_ROSTER_KNOWN)
    return RONDO_SOMEWHERE;
  uint32_t process = rondo_members_calls->process_of(job->membership, rank);
  if (process == RONDO_MESH_NOBODY)
    return RONDO_SOMEWHERE;
  return process == job->self ? RONDO_HERE : process;
}

bool rondo_processes_is_rank_at(const struct rondo_job *job, uint32_t rank, uint32_t process) {
  return rank < job->rank_count && rondo_processes_where(job, rank) == process;
}

bool rondo_processes_has_rank(const struct rondo_job *job, uint32_t process) {
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (!job->gone[r] && rondo_processes_where(job, r) == process)
      return true;
  return false;
}

static int transport_explain(char *why, size_t why_bytes, int transport, const char *text) {
  (void)snprintf(why, why_bytes, "%s", text);
  return transport;
}

// Where a rank is for plans. A rank that never joined is on a machine of its own: its group runs
// nothing.
static struct rondo_plan_location rank_location(const struct rondo_job *job, uint32_t rank) {
  uint32_t process = job->membership ? rondo_processes_where(job, rank) : RONDO_HERE;
  if (process == RONDO_HERE)
    process = job->self;
  if (process < job->process_count)
    return (struct rondo_plan_location){.machine = job->processes[process].machine,
                                        .process = process,
                                        .cores = job->processes[process].cores,
                                        .ports = job->processes[process].ports};
  return (struct rondo_plan_location){.process = process, .cores = job->cores};
}

const struct rondo_plan_topology *
rondo_processes_topology(struct rondo_job *job, const uint32_t *members, uint32_t nranks) {
  struct rondo_member_list *list = rondo_member_lists_get(&job->lists, members, nranks);
  if (!list || list->topology)
    return list ? list->topology : NULL;
  struct rondo_plan_location *locations = malloc(nranks * sizeof *locations);
  for (uint32_t i = 0; i < nranks && locations; i++)
    locations[i] = rank_location(job, members[i]);
  if (locations)
    list->topology = rondo_plan_topology_create(locations, nranks);
  free(locations);
  return list->topology;
}

// How ranks of this process reach each other: depends on where their devices allow connectors.
static int local_explain(const struct rondo_job *job, const struct rondo_member *self,
                         uint32_t rank, char *why, size_t why_bytes) {
  char reason[RONDO_WHY_BYTES];
  const struct rondo_driver *driver = self->device->driver;
  if (!driver->reach)
    return transport_explain(why, why_bytes, RONDO_TRANSPORT_LOCAL, "the rank is in this process");
  if (!job->members[rank])
    return transport_explain(why, why_bytes, -1, "the rank's device is not known yet");
  (void)driver->reach(self->device, job->members[rank]->device, reason);
  return transport_explain(why, why_bytes, RONDO_TRANSPORT_LOCAL, reason);
}

int rondo_processes_transport(const struct rondo_job *job, const struct rondo_member *self,
                              uint32_t rank, char *why, size_t why_bytes) {
  uint32_t process = job->membership ? rondo_processes_where(job, rank) : RONDO_HERE;
  if (process == RONDO_HERE)
    return local_explain(job, self, rank, why, why_bytes);
  if (job->gone[rank])
    return transport_explain(why, why_bytes, RONDO_TRANSPORT_NONE, "the rank has left or is lost");
  if (process >= job->process_count)
    return transport_explain(why, why_bytes, -1, "the rank's process is not known yet");
  if (job->processes[process].is_lost)
    return transport_explain(why, why_bytes, RONDO_TRANSPORT_NONE, "the rank's process is lost");
  return rondo_transports_explain(&job->transports, self->device, process, why, why_bytes);
}

uint32_t rondo_processes_spread(const struct rondo_job *job, const struct rondo_member *self,
                                uint32_t rank, uint32_t endpoints) {
  char why[RONDO_WHY_BYTES];
  int transport = rondo_processes_transport(job, self, rank, why, sizeof why);
  return transport == RONDO_TRANSPORT_UCX && job->transports.proxy
             ? rondo_proxy_spread(job->transports.proxy, rondo_processes_where(job, rank),
                                  endpoints)
             : 0;
}

// ------------------------------------------------------------------ sending ---

void rondo_processes_send(struct rondo_job *job, uint32_t process, uint32_t type, const void *bytes,
                          size_t size) {
  if (process >= job->process_count || job->processes[process].is_lost ||
      job->processes[process].is_failed)
    return;
  rondo_transports_introduce(&job->transports, process);
  rondo_job_transport_events.send(job, process, type, bytes, size, -1);
}
