// The other processes of a job with which no memory is shared: the proxy leads there. Part of the
// job: see peers.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "runtime/api/rank.h"
#include "runtime/job/processes.h"
#include "runtime/transport/ucx/ucx.h"

#define DRAIN_NS UINT64_C(2000000000)  // for what is published when a job ends here
#define BROKEN_NS UINT64_C(1000000000) // in which the mesh says why, at most

const struct rondo_carrier_calls *rondo_proxied_carrier = &rondo_ucx_carrier;

// ------------------------------------------------------------------- events ---

static void on_over(void *owner, struct rondo_proxy_link *link, int is_whole) {
  struct rondo_job *job = owner;
  pthread_mutex_lock(&job->lock);
  rondo_match_over(job, link, is_whole);
  pthread_mutex_unlock(&job->lock);
}

// The mesh has said nothing for a while: it is only the messages that do not get there.
static void give_up_broken(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  for (uint32_t p = 0; p < job->peer_count; p++) {
    if (!job->peers[p].is_broken || job->peers[p].is_lost)
      continue;
    rondo_log(RONDO_LOG_ERROR, "process %u is given up: %s does not lead there any more", p,
              rondo_proxied_carrier->name);
    rondo_processes_send(job, p, RONDO_MESSAGE_EVICT, NULL, 0);
    rondo_processes_give_up(job, p);
  }
  pthread_mutex_unlock(&job->lock);
}

static void on_broken(void *owner, uint32_t process, const char *text) {
  struct rondo_job *job = owner;
  uint64_t delay_ns = job->peer_timeout_ns / 2;
  pthread_mutex_lock(&job->lock);
  if (!job->peers[process].is_lost && !job->is_leaving) {
    rondo_log(RONDO_LOG_INFO, "process %u: %s: %s", process, rondo_proxied_carrier->name, text);
    job->peers[process].is_broken = 1;
    (void)rondo_mesh_calls->after(job->mesh, delay_ns < BROKEN_NS ? delay_ns : BROKEN_NS,
                                  give_up_broken, job);
  }
  pthread_mutex_unlock(&job->lock);
}

// Who holds the lock will submit, or has something else to do with us.
static int is_busy(void *owner) {
  struct rondo_job *job = owner;
  int busy = 0;
  if (pthread_mutex_trylock(&job->lock))
    return 1;
  for (uint32_t r = 0; r < job->rank_count && !busy; r++)
    busy = job->members[r] && rondo_load_seq_cst_u64(&job->members[r]->daemon->outstanding); // P1
  pthread_mutex_unlock(&job->lock);
  return busy;
}

static int is_used(void *owner, const struct rondo_proxy_link *link) {
  struct rondo_job *job = owner;
  pthread_mutex_lock(&job->lock);
  int used = rondo_match_is_used(job, link);
  pthread_mutex_unlock(&job->lock);
  return used;
}

// The rank may have left: only the job knows.
static void on_stir(void *owner, const struct rondo_proxy_link *link) {
  struct rondo_job *job = owner;
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(link);
  uint32_t number =
      config->is_outgoing ? config->first->producer_rank : config->first->consumer_rank;
  pthread_mutex_lock(&job->lock);
  const struct rondo_rank *rank = number < job->rank_count ? job->members[number] : NULL;
  if (rank && !rank->is_manual && rank->daemon->driver->stir)
    rank->daemon->driver->stir(rank->daemon);
  pthread_mutex_unlock(&job->lock);
}

// --------------------------------------------------------------------- calls ---

// Threads that step blocks look at it without the lock.
static void set_proxy(struct rondo_job *job, struct rondo_proxy *proxy) {
  job->proxy = proxy;
  rondo_store_release_u64(&job->rung, (uint64_t)(uintptr_t)proxy); // P2
}

static void open_proxy(struct rondo_job *job) {
  struct rondo_proxy_config config = {.calls = rondo_proxied_carrier,
                                      .self = job->self,
                                      .process_count = job->peer_count,
                                      .ways = job->endpoints,
                                      .is_manual = job->is_manual,
                                      .owner = job,
                                      .over = on_over,
                                      .broken = on_broken,
                                      .stir = on_stir,
                                      .is_used = is_used,
                                      .is_busy = job->device->driver->is_silent ? is_busy : NULL};
  struct rondo_proxy *proxy = NULL;
  int status = rondo_proxy_create(&config, &proxy, job->no_proxy, sizeof job->no_proxy);
  if (status == RONDO_SUCCESS)
    set_proxy(job, proxy);
  else
    rondo_log(RONDO_LOG_WARN, "processes that share no memory cannot be reached: %s",
              job->no_proxy);
}

int rondo_proxied_reach(struct rondo_job *job, uint32_t process) {
  if (job->transport != RONDO_TRANSPORT_UCX && rondo_mesh_calls->is_near(job->mesh, process))
    return RONDO_TRANSPORT_SHARED_MEMORY;
  if (job->transport == RONDO_TRANSPORT_SHARED_MEMORY)
    return RONDO_TRANSPORT_NONE;
  if (!job->proxy && !job->no_proxy[0])
    open_proxy(job);
  return job->proxy ? RONDO_TRANSPORT_UCX : RONDO_TRANSPORT_NONE;
}

void rondo_proxied_greet(struct rondo_job *job, uint32_t process) {
  size_t bytes = 0;
  const void *address = rondo_proxy_address(job->proxy, &bytes);
  rondo_processes_send(job, process, RONDO_MESSAGE_PROXY, address, bytes);
}

int rondo_proxied_meet(struct rondo_job *job, const struct rondo_mesh_message *message) {
  if (!job->proxy)
    return 1; // what is registered with it fails, and says why
  // What it says of itself, and behind that where its machine is.
  struct sockaddr_storage at;
  uint32_t at_bytes = rondo_mesh_calls->address_of(job->mesh, message->from, &at);
  char *address = malloc(message->size + sizeof at);
  int status = RONDO_ERR_NO_MEMORY;
  if (address) {
    memcpy(address, message->bytes, message->size);
    memcpy(address + message->size, &at, at_bytes);
    status = rondo_proxy_meet(job->proxy, message->from, address, message->size + at_bytes);
  }
  free(address);
  if (status == RONDO_ERR_NO_MEMORY)
    rondo_log(RONDO_LOG_ERROR, "process %u cannot be reached: no memory for its address",
              message->from);
  return status != RONDO_ERR_INVALID;
}

void rondo_proxied_lose(struct rondo_job *job, uint32_t process) {
  if (job->proxy)
    rondo_proxy_lose(job->proxy, process);
}

void rondo_proxied_drain(struct rondo_job *job) {
  if (job->proxy && !rondo_proxy_drain(job->proxy, DRAIN_NS) && !job->is_manual)
    rondo_log(RONDO_LOG_WARN, "destroy: some process has not taken all that was sent to it");
  pthread_mutex_lock(&job->lock);
  job->is_leaving = 1;
  pthread_mutex_unlock(&job->lock);
}

void rondo_proxied_close(struct rondo_job *job) {
  rondo_proxy_destroy(job->proxy);
  job->proxy = NULL;
}

// -------------------------------------------------------------------- blocks ---

static struct rondo_proxy *proxy_of(const struct rondo_rank *rank) {
  const struct rondo_job *job = rank->job;
  return job ? (struct rondo_proxy *)(uintptr_t)rondo_load_acquire_u64(&job->rung) : NULL; // P2
}

void rondo_proxied_moved(void *owner) {
  const struct rondo_rank *rank = owner;
  struct rondo_proxy *proxy = proxy_of(rank);
  if (proxy)
    rondo_proxy_ring(proxy);
}

int rondo_proxied_forward(void *owner, int then) {
  const struct rondo_rank *rank = owner;
  struct rondo_proxy *proxy = proxy_of(rank);
  if (!proxy)
    return 0;
  if (then == RONDO_FORWARD_STAY)
    return rondo_proxy_help(proxy);
  int is_busy = rondo_load_relaxed_u64(&rank->daemon->outstanding) > 0;
  return then == RONDO_FORWARD_LEAVE ? rondo_proxy_flush(proxy, is_busy)
                                     : rondo_proxy_release(proxy, is_busy);
}
