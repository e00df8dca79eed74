#include "runtime/transport/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/range.h"
#include "runtime/transport/mapped.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/ucx/ucx.h"
#include "runtime/transport/window_group.h"

#define DRAIN_NS UINT64_C(2000000000) // for published slots when the job ends here

const struct rondo_carrier_calls *rondo_transports_carrier = &rondo_ucx_carrier;

// ---------------------------------------------------------- opening, closing ---

// Puts our event count at the front of the arena, where peers look for it.
static void event_count_create(struct rondo_transports *t) {
  void *head = rondo_arena_alloc(t->arena, RONDO_ARENA_HEAD_BYTES);
  if (head == rondo_arena_base(t->arena))
    t->event_counts.own = head;
  else
    (void)rondo_arena_free(t->arena, head);
}

static int arena_open(struct rondo_transports *t) {
  int is_direct = t->device->driver->is_direct;
  int status = rondo_arena_create(0, is_direct && t->config.huge_pages, &t->arena);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_mapped_open(t);
  if (is_direct)
    event_count_create(t);
  return RONDO_SUCCESS;
}

int rondo_transports_open(struct rondo_transports *t, const struct rondo_transports_config *config,
                          struct rondo_device *device, int is_shared) {
  t->config = *config;
  t->device = device;
  int status = is_shared ? arena_open(t) : RONDO_SUCCESS;
  // Devices that cannot use memory of other processes have their connectors in their own memory.
  rondo_pool_init(&t->pool, config->connector_bytes, device,
                  device->driver->is_direct ? t->arena : NULL);
  t->pool.exported = t->arena;
  t->pool.pins = &t->pins;
  t->pool.range = t->range;
  t->pool.window = t->window;
  return status;
}

// Ready flags outside an arena.
struct rondo_transport_flags {
  struct rondo_transport_flags *next;
  _Alignas(RONDO_LINE_BYTES) uint8_t bytes[];
};

uint8_t *rondo_transports_alloc_flags(struct rondo_transports *t, uint64_t bytes) {
  if (t->arena)
    return rondo_arena_alloc(t->arena, bytes);
  struct rondo_transport_flags *flags = rondo_memory_alloc(sizeof *flags + bytes);
  if (!flags)
    return NULL;
  pthread_mutex_lock(t->config.lock);
  flags->next = t->flags;
  t->flags = flags;
  pthread_mutex_unlock(t->config.lock);
  return flags->bytes;
}

static void flags_free(struct rondo_transports *t) {
  while (t->flags) {
    struct rondo_transport_flags *flags = t->flags;
    t->flags = flags->next;
    rondo_memory_free(flags);
  }
}

void rondo_transports_close(struct rondo_transports *t) {
  flags_free(t);
  rondo_pool_fini(&t->pool);
  rondo_window_group_close(t);
  rondo_range_destroy(t->range);
  rondo_pins_fini(&t->pins);
  rondo_arena_destroy(t->arena);
  for (uint32_t i = 0; i < t->other_count; i++)
    t->others[i]->driver->close(t->others[i]);
  free(t->others);
  t->device->driver->close(t->device);
}

static bool others_try_add(struct rondo_transports *t, struct rondo_device *device) {
  pthread_mutex_lock(t->config.lock);
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  struct rondo_device **grown = realloc(t->others, (t->other_count + 1) * sizeof *grown);
  if (grown) {
    t->others = grown;
    t->others[t->other_count++] = device;
  }
  pthread_mutex_unlock(t->config.lock);
  return grown != NULL;
}

int rondo_transports_add_device(struct rondo_transports *t, const struct rondo_config *cfg,
                                struct rondo_device *device, char *why) {
  int is_known = t->device == device;
  for (uint32_t i = 0; i < t->other_count && !is_known; i++)
    is_known = t->others[i] == device;
  if (is_known)
    return RONDO_SUCCESS;
  struct rondo_device *opened = NULL;
  int status = device->driver->open(cfg, &opened, why);
  if (status != RONDO_SUCCESS)
    return status;
  if (!others_try_add(t, opened)) {
    opened->driver->close(opened);
    (void)snprintf(why, RONDO_WHY_BYTES, "no memory");
    return RONDO_ERR_NO_MEMORY;
  }
  rondo_mapped_admit(t, device);
  return RONDO_SUCCESS;
}

void rondo_transports_drain(struct rondo_transports *t) {
  if (t->proxy && !rondo_proxy_drain(t->proxy, DRAIN_NS) && !t->config.is_manual)
    rondo_log(RONDO_LOG_WARN,
              "destroy: some process has not received all slots that were sent to it");
}

void rondo_transports_disconnect(struct rondo_transports *t) {
  rondo_proxy_destroy(t->proxy);
  t->proxy = NULL;
  for (uint32_t p = 0; p < t->peer_count; p++)
    rondo_mapped_forget(&t->peers[p]);
  for (uint32_t i = 0; i < t->event_counts.count; i++)
    rondo_arena_unmap(t->event_counts.others[i], RONDO_ARENA_HEAD_BYTES);
  free(t->event_counts.others);
  free(t->peers);
  t->event_counts.others = NULL;
  t->peers = NULL;
}

// ------------------------------------------------------------------ the proxy ---

static void proxy_open(struct rondo_transports *t) {
  const struct rondo_transports_events *events = t->config.events;
  struct rondo_proxy_config config = {.calls = rondo_transports_carrier,
                                      .self = t->self,
                                      .process_count = t->peer_count,
                                      .endpoints = t->config.endpoints,
                                      .address = (const struct sockaddr *)&t->address,
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

static int proxy_receive(struct rondo_transports *t,
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

// --------------------------------------------------------------------- peers ---

// Chooses how a process is reached: enum rondo_transport. Starts the proxy for the first process
// that needs it.
static int process_choose(struct rondo_transports *t, uint32_t process) {
  int transport = t->config.transport;
  if (transport != RONDO_TRANSPORT_UCX && t->peers[process].is_same_machine)
    return RONDO_TRANSPORT_SHARED_MEMORY;
  if (transport == RONDO_TRANSPORT_SHARED_MEMORY)
    return RONDO_TRANSPORT_NONE;
  if (!t->proxy && !t->no_proxy[0])
    proxy_open(t);
  return t->proxy ? RONDO_TRANSPORT_UCX : RONDO_TRANSPORT_NONE;
}

void rondo_transports_meet(struct rondo_transports *t, uint32_t self,
                           const struct sockaddr_storage *address, uint32_t peer_count,
                           struct rondo_transport_peer *peers) {
  t->self = self;
  t->address = *address;
  t->peers = peers;
  t->peer_count = t->event_counts.capacity = peer_count;
  t->event_counts.others =
      calloc(peer_count, sizeof(struct rondo_event_count *)); // null: peers are not woken
  for (uint32_t p = 0; p < peer_count; p++)
    if (p != self)
      peers[p].reach = (uint8_t)process_choose(t, p);
  // Where devices share memory, asks each peer now whether it can map ours.
  for (uint32_t p = 0; p < peer_count && t->device->driver->sharing; p++)
    if (peers[p].reach == RONDO_TRANSPORT_SHARED_MEMORY)
      rondo_transports_introduce(t, p);
  rondo_window_group_begin(t);
}

void rondo_transports_introduce(struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  int is_first = !peer->is_introduced;
  peer->is_introduced = 1;
  if (is_first && peer->reach == RONDO_TRANSPORT_UCX) {
    size_t bytes = 0;
    const void *address = rondo_proxy_address(t->proxy, &bytes);
    t->config.events->send(t->config.owner, process, RONDO_MESSAGE_PROXY, address, bytes, -1);
  }
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return;
  if (is_first)
    rondo_mapped_introduce(t, process);
  rondo_mapped_introduce_parts(t, process);
}

// Maps the peer's event count, so that blocks here wake its threads when they have moved something.
static void event_count_add(struct rondo_transports *t, struct rondo_transport_peer *peer, int fd) {
  struct rondo_event_counts *event_counts = &t->event_counts;
  void *head = NULL;
  if (!event_counts->others || !event_counts->own ||
      event_counts->count == event_counts->capacity ||
      rondo_arena_map_head(fd, peer->theirs.bytes, &head) != RONDO_SUCCESS)
    return;
  event_counts->others[event_counts->count] = head;
  peer->event_count = event_counts->count + 1;
  rondo_store_release_u32(&event_counts->count, event_counts->count + 1);
}

static void arena_receive(struct rondo_transports *t, struct rondo_transport_arrival *arrival) {
  struct rondo_transport_peer *peer = &t->peers[arrival->from];
  struct rondo_message_arena theirs;
  int status = RONDO_ERR_INVALID;
  if (arrival->size == sizeof theirs && arrival->fd_count == 1 && !peer->map) {
    memcpy(&theirs, arrival->bytes, sizeof theirs);
    status = rondo_mapped_map(t, arrival->from, &theirs, arrival->fds[0]);
  }
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "the memory of process %u cannot be mapped: %s", arrival->from,
              rondo_status_name(status));
    return;
  }
  event_count_add(t, peer, arrival->fds[0]);
  rondo_mapped_open_view(t, arrival->from);
}

int rondo_transports_receive(struct rondo_transports *t, struct rondo_transport_arrival *arrival) {
  switch (arrival->type) {
  case RONDO_MESSAGE_ARENA:
    arena_receive(t, arrival);
    return 1;
  case RONDO_MESSAGE_PROXY:
    return proxy_receive(t, arrival);
  case RONDO_MESSAGE_PART:
    return rondo_mapped_receive_part(t, arrival);
  case RONDO_MESSAGE_MAPPED:
    return rondo_mapped_receive_answer(t, arrival);
  case RONDO_MESSAGE_WINDOW:
    return rondo_window_group_receive(t, arrival);
  default:
    return 0;
  }
}

void rondo_transports_lose(struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  peer->is_lost = 1;
  if (t->proxy)
    rondo_proxy_lose(t->proxy, process);
  rondo_window_group_lose(t, process);
  if (!peer->links)
    rondo_mapped_leave(t, peer);
}

void rondo_transports_unuse(struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  peer->links--;
  if (!peer->links && peer->is_lost)
    rondo_mapped_leave(t, peer);
}

// -------------------------------------------------------------------- reasons ---

static int peer_explain_mapped(const struct rondo_transport_peer *peer, char *why,
                               size_t why_bytes) {
  (void)snprintf(why, why_bytes, "another process of this machine; its memory is mapped%s",
                 peer->map ? "" : " when first needed");
  return RONDO_TRANSPORT_SHARED_MEMORY;
}

static int peer_explain_proxied(const struct rondo_transports *t, uint32_t process, char *why,
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

int rondo_transports_explain(const struct rondo_transports *t, const struct rondo_device *from,
                             uint32_t process, char *why, size_t why_bytes) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return peer_explain_proxied(t, process, why, why_bytes);
  if (from->driver->sharing)
    return rondo_mapped_explain(t, process, why, why_bytes);
  return peer_explain_mapped(peer, why, why_bytes);
}
