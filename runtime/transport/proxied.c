#include "runtime/transport/proxied.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/ucx/ucx.h"

#define DRAIN_NS UINT64_C(2000000000) // for published slots when the job ends here

const struct rondo_carrier_calls *rondo_proxied_carrier = &rondo_ucx_carrier;

static void proxy_open(struct rondo_transports *t) {
  const struct rondo_transports_events *events = t->config.events;
  struct rondo_proxy_config config = {.calls = rondo_proxied_carrier,
                                      .self = t->self,
                                      .process_count = t->peer_count,
                                      .endpoints = t->config.endpoints,
                                      .is_manual = t->config.is_manual,
                                      .owner = t->config.owner,
                                      .over = events->link_over,
                                      .broken = events->broken,
                                      .on_arrival = events->notify,
                                      .is_used = events->is_link_used};
  if (t->device->driver->is_silent)
    config.is_busy = events->is_busy;
  struct rondo_proxy *proxy = NULL;
  int status = rondo_proxy_create(&config, &proxy, t->no_proxy, sizeof t->no_proxy);
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_WARN, "processes that share no memory cannot be reached: %s", t->no_proxy);
    return;
  }
  t->proxy = proxy;
  rondo_store_release_u64(&t->proxy_address, (uint64_t)(uintptr_t)proxy); // P2
}

int rondo_proxied_choose(struct rondo_transports *t, uint32_t process) {
  int transport = t->config.transport;
  if (transport != RONDO_TRANSPORT_UCX && t->peers[process].is_same_machine)
    return RONDO_TRANSPORT_SHARED_MEMORY;
  if (transport == RONDO_TRANSPORT_SHARED_MEMORY)
    return RONDO_TRANSPORT_NONE;
  if (!t->proxy && !t->no_proxy[0])
    proxy_open(t);
  return t->proxy ? RONDO_TRANSPORT_UCX : RONDO_TRANSPORT_NONE;
}

void rondo_proxied_introduce(struct rondo_transports *t, uint32_t process) {
  size_t bytes = 0;
  const void *address = rondo_proxy_address(t->proxy, &bytes);
  t->config.events->send(t->config.owner, process, RONDO_MESSAGE_PROXY, address, bytes, -1);
}

int rondo_proxied_receive(struct rondo_transports *t,
                          const struct rondo_transport_arrival *arrival) {
  if (!t->proxy)
    return 1; // registrations with that process fail, with the reason
  // The carrier gets the proxy's address followed by the socket address of the machine.
  char *address = malloc(arrival->size + arrival->address_bytes + 1);
  int status = RONDO_ERR_NO_MEMORY;
  if (address) {
    memcpy(address, arrival->bytes, arrival->size);
    memcpy(address + arrival->size, &arrival->address, arrival->address_bytes);
    status =
        rondo_proxy_meet(t->proxy, arrival->from, address, arrival->size + arrival->address_bytes);
  }
  free(address);
  if (status == RONDO_ERR_NO_MEMORY)
    rondo_log(RONDO_LOG_ERROR, "process %u cannot be reached: no memory for its address",
              arrival->from);
  return status != RONDO_ERR_INVALID;
}

void rondo_proxied_lose(struct rondo_transports *t, uint32_t process) {
  if (t->proxy)
    rondo_proxy_lose(t->proxy, process);
}

void rondo_proxied_drain(struct rondo_transports *t) {
  if (t->proxy && !rondo_proxy_drain(t->proxy, DRAIN_NS) && !t->config.is_manual)
    rondo_log(RONDO_LOG_WARN,
              "destroy: some process has not received all slots that were sent to it");
}

void rondo_proxied_close(struct rondo_transports *t) {
  rondo_proxy_destroy(t->proxy);
  t->proxy = NULL;
}

int rondo_proxied_explain(const struct rondo_transports *t, uint32_t process, char *why,
                          size_t why_bytes) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  const char *where = peer->is_same_machine ? "another process of this machine"
                                            : "another machine, or another network namespace";
  int transport = t->config.transport;
  if (peer->reach == RONDO_TRANSPORT_UCX)
    (void)snprintf(why, why_bytes, "%s%s", where,
                   transport == peer->reach ? "; the configuration asks for it" : "");
  else if (transport == RONDO_TRANSPORT_SHARED_MEMORY)
    (void)snprintf(why, why_bytes, "%s; the configuration asks for shared memory alone", where);
  else
    (void)snprintf(why, why_bytes, "%s; %s", where, t->no_proxy);
  return peer->reach;
}

// ------------------------------------------------------------------- daemons ---

static struct rondo_proxy *proxy_of(const struct rondo_transports *t) {
  return (struct rondo_proxy *)(uintptr_t)rondo_load_acquire_u64(&t->proxy_address); // P2
}

void rondo_transports_ring(const struct rondo_transports *t) {
  struct rondo_proxy *proxy = proxy_of(t);
  if (proxy)
    rondo_proxy_ring(proxy);
}

int rondo_transports_forward(const struct rondo_transports *t, int then, int is_busy) {
  struct rondo_proxy *proxy = proxy_of(t);
  if (!proxy)
    return 0;
  if (then == RONDO_FORWARD_STAY)
    return rondo_proxy_help(proxy);
  return then == RONDO_FORWARD_LEAVE ? rondo_proxy_flush(proxy, is_busy)
                                     : rondo_proxy_release(proxy, is_busy);
}
