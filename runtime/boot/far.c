// The other processes of a job with which no memory is shared: the proxy leads there. Part of the
// world: see peers.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "runtime/api/rank.h"
#include "runtime/boot/peers.h"
#include "runtime/transport/ucx/ucx.h"

#define DRAIN_NS UINT64_C(2000000000)  // for what is published when a job ends here
#define BROKEN_NS UINT64_C(1000000000) // in which the mesh says why, at most

const struct rondo_carrier_calls *rondo_far_carrier = &rondo_ucx_carrier;

// ------------------------------------------------------------------- events ---

static void on_over(void *owner, struct rondo_proxy_link *link, int is_whole) {
  struct rondo_world *world = owner;
  pthread_mutex_lock(&world->lock);
  rondo_match_over(world, link, is_whole);
  pthread_mutex_unlock(&world->lock);
}

// The mesh has said nothing for a while: it is only the messages that do not get there.
static void give_up_broken(void *arg) {
  struct rondo_world *world = arg;
  pthread_mutex_lock(&world->lock);
  for (uint32_t p = 0; p < world->peer_count; p++) {
    if (!world->peers[p].is_broken || world->peers[p].is_lost)
      continue;
    rondo_log(RONDO_LOG_ERROR, "process %u is given up: %s does not lead there any more", p,
              rondo_far_carrier->name);
    rondo_peers_send(world, p, RONDO_NOTICE_EVICT, NULL, 0);
    rondo_peers_give_up(world, p);
  }
  pthread_mutex_unlock(&world->lock);
}

static void on_broken(void *owner, uint32_t process, const char *text) {
  struct rondo_world *world = owner;
  uint64_t delay_ns = world->peer_timeout_ns / 2;
  pthread_mutex_lock(&world->lock);
  if (!world->peers[process].is_lost && !world->is_leaving) {
    rondo_log(RONDO_LOG_INFO, "process %u: %s: %s", process, rondo_far_carrier->name, text);
    world->peers[process].is_broken = 1;
    (void)rondo_mesh_calls->after(world->mesh, delay_ns < BROKEN_NS ? delay_ns : BROKEN_NS,
                                  give_up_broken, world);
  }
  pthread_mutex_unlock(&world->lock);
}

// Who holds the lock will submit, or has something else to do with us.
static int is_busy(void *owner) {
  struct rondo_world *world = owner;
  int busy = 0;
  if (pthread_mutex_trylock(&world->lock))
    return 1;
  for (uint32_t r = 0; r < world->rank_count && !busy; r++)
    busy =
        world->members[r] && rondo_load_seq_cst_u64(&world->members[r]->daemon->outstanding); // P1
  pthread_mutex_unlock(&world->lock);
  return busy;
}

static int is_used(void *owner, const struct rondo_proxy_link *link) {
  struct rondo_world *world = owner;
  pthread_mutex_lock(&world->lock);
  int used = rondo_match_is_used(world, link);
  pthread_mutex_unlock(&world->lock);
  return used;
}

// The rank may have left: only the job knows.
static void on_stir(void *owner, const struct rondo_proxy_link *link) {
  struct rondo_world *world = owner;
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(link);
  uint32_t number =
      config->is_outgoing ? config->first->producer_rank : config->first->consumer_rank;
  pthread_mutex_lock(&world->lock);
  const struct rondo_rank *rank = number < world->rank_count ? world->members[number] : NULL;
  if (rank && !rank->is_manual && rank->daemon->driver->stir)
    rank->daemon->driver->stir(rank->daemon);
  pthread_mutex_unlock(&world->lock);
}

// --------------------------------------------------------------------- calls ---

// Threads that step blocks look at it without the lock.
static void set_proxy(struct rondo_world *world, struct rondo_proxy *proxy) {
  world->proxy = proxy;
  rondo_store_release_u64(&world->rung, (uint64_t)(uintptr_t)proxy); // P2
}

static void open_proxy(struct rondo_world *world) {
  struct rondo_proxy_config config = {.calls = rondo_far_carrier,
                                      .self = world->self,
                                      .process_count = world->peer_count,
                                      .ways = world->endpoints,
                                      .is_manual = world->is_manual,
                                      .owner = world,
                                      .over = on_over,
                                      .broken = on_broken,
                                      .stir = on_stir,
                                      .is_used = is_used,
                                      .is_busy = world->device->driver->is_silent ? is_busy : NULL};
  struct rondo_proxy *proxy = NULL;
  int status = rondo_proxy_create(&config, &proxy, world->no_proxy, sizeof world->no_proxy);
  if (status == RONDO_SUCCESS)
    set_proxy(world, proxy);
  else
    rondo_log(RONDO_LOG_WARN, "processes that share no memory cannot be reached: %s",
              world->no_proxy);
}

int rondo_far_reach(struct rondo_world *world, uint32_t process) {
  if (world->transport != RONDO_TRANSPORT_UCX && rondo_mesh_calls->is_near(world->mesh, process))
    return RONDO_TRANSPORT_SHARED_MEMORY;
  if (world->transport == RONDO_TRANSPORT_SHARED_MEMORY)
    return RONDO_TRANSPORT_NONE;
  if (!world->proxy && !world->no_proxy[0])
    open_proxy(world);
  return world->proxy ? RONDO_TRANSPORT_UCX : RONDO_TRANSPORT_NONE;
}

void rondo_far_greet(struct rondo_world *world, uint32_t process) {
  size_t bytes = 0;
  const void *address = rondo_proxy_address(world->proxy, &bytes);
  rondo_peers_send(world, process, RONDO_NOTICE_PROXY, address, bytes);
}

int rondo_far_meet(struct rondo_world *world, const struct rondo_mesh_message *message) {
  if (!world->proxy)
    return 1; // what is registered with it fails, and says why
  // What it says of itself, and behind that where its machine is.
  struct sockaddr_storage at;
  uint32_t at_bytes = rondo_mesh_calls->address_of(world->mesh, message->from, &at);
  char *address = malloc(message->size + sizeof at);
  int status = RONDO_ERR_NO_MEMORY;
  if (address) {
    memcpy(address, message->bytes, message->size);
    memcpy(address + message->size, &at, at_bytes);
    status = rondo_proxy_meet(world->proxy, message->from, address, message->size + at_bytes);
  }
  free(address);
  if (status == RONDO_ERR_NO_MEMORY)
    rondo_log(RONDO_LOG_ERROR, "process %u cannot be reached: no memory for its address",
              message->from);
  return status != RONDO_ERR_INVALID;
}

void rondo_far_lose(struct rondo_world *world, uint32_t process) {
  if (world->proxy)
    rondo_proxy_lose(world->proxy, process);
}

void rondo_far_drain(struct rondo_world *world) {
  if (world->proxy && !rondo_proxy_drain(world->proxy, DRAIN_NS) && !world->is_manual)
    rondo_log(RONDO_LOG_WARN, "destroy: some process has not taken all that was sent to it");
  pthread_mutex_lock(&world->lock);
  world->is_leaving = 1;
  pthread_mutex_unlock(&world->lock);
}

void rondo_far_close(struct rondo_world *world) {
  rondo_proxy_destroy(world->proxy);
  world->proxy = NULL;
}

// -------------------------------------------------------------------- blocks ---

static struct rondo_proxy *proxy_of(const struct rondo_rank *rank) {
  const struct rondo_world *world = rank->world;
  return world ? (struct rondo_proxy *)(uintptr_t)rondo_load_acquire_u64(&world->rung) : NULL; // P2
}

void rondo_far_moved(void *owner) {
  const struct rondo_rank *rank = owner;
  struct rondo_proxy *proxy = proxy_of(rank);
  if (proxy)
    rondo_proxy_ring(proxy);
}

int rondo_far_forward(void *owner, int then) {
  const struct rondo_rank *rank = owner;
  struct rondo_proxy *proxy = proxy_of(rank);
  if (!proxy)
    return 0;
  if (then == RONDO_FORWARD_STAY)
    return rondo_proxy_help(proxy);
  int is_busy = rondo_load_relaxed_u64(&rank->daemon->outstanding) > 0;
  return then == RONDO_FORWARD_LEAVE ? rondo_proxy_see_off(proxy, is_busy)
                                     : rondo_proxy_unhelp(proxy, is_busy);
}
