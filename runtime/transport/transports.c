#include "runtime/transport/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/range.h"
#include "runtime/transport/mapped.h"
#include "runtime/transport/proxied.h"
#include "runtime/transport/window_group.h"

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

void rondo_transports_close(struct rondo_transports *t) {
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

int rondo_transports_add_device(struct rondo_transports *t, const struct rondo_config *cfg,
                                struct rondo_device *device, char *why) {
  int is_known = t->device == device;
  for (uint32_t i = 0; i < t->other_count && !is_known; i++)
    is_known = t->others[i] == device;
  if (is_known)
    return RONDO_SUCCESS;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  struct rondo_device **grown = realloc(t->others, (t->other_count + 1) * sizeof *grown);
  if (!grown) {
    (void)snprintf(why, RONDO_WHY_BYTES, "no memory");
    return RONDO_ERR_NO_MEMORY;
  }
  t->others = grown;
  int status = device->driver->open(cfg, &t->others[t->other_count], why);
  if (status != RONDO_SUCCESS)
    return status;
  t->other_count++;
  pthread_mutex_lock(t->config.lock);
  rondo_mapped_admit(t, device);
  pthread_mutex_unlock(t->config.lock);
  return RONDO_SUCCESS;
}

void rondo_transports_drain(struct rondo_transports *t) { rondo_proxied_drain(t); }

void rondo_transports_disconnect(struct rondo_transports *t) {
  rondo_proxied_close(t);
  for (uint32_t p = 0; p < t->peer_count; p++)
    rondo_mapped_unmap(&t->peers[p]);
  for (uint32_t i = 0; i < t->event_counts.count; i++)
    rondo_arena_unmap(t->event_counts.others[i], RONDO_ARENA_HEAD_BYTES);
  free(t->event_counts.others);
  free(t->peers);
  t->event_counts.others = NULL;
  t->peers = NULL;
}

// --------------------------------------------------------------------- peers ---

void rondo_transports_meet(struct rondo_transports *t, uint32_t self, uint32_t peer_count,
                           struct rondo_transport_peer *peers) {
  t->self = self;
  t->peers = peers;
  t->peer_count = t->event_counts.capacity = peer_count;
  t->event_counts.others =
      calloc(peer_count, sizeof(struct rondo_event_count *)); // null: peers are not woken
  for (uint32_t p = 0; p < peer_count; p++)
    if (p != self)
      peers[p].reach = (uint8_t)rondo_proxied_choose(t, p);
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
  if (is_first && peer->reach == RONDO_TRANSPORT_UCX)
    rondo_proxied_introduce(t, process);
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
    status = rondo_arena_map(arrival->fds[0], theirs.bytes, &peer->map);
  }
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "the memory of process %u cannot be mapped: %s", arrival->from,
              rondo_status_name(status));
    return;
  }
  peer->theirs = theirs;
  event_count_add(t, peer, arrival->fds[0]);
  rondo_pins_init(&peer->pins, t->device, peer->map, theirs.bytes);
  rondo_mapped_open_view(t, arrival->from);
}

int rondo_transports_receive(struct rondo_transports *t, struct rondo_transport_arrival *arrival) {
  switch (arrival->type) {
  case RONDO_MESSAGE_ARENA:
    arena_receive(t, arrival);
    return 1;
  case RONDO_MESSAGE_PROXY:
    return rondo_proxied_receive(t, arrival);
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
  rondo_proxied_lose(t, process);
  rondo_window_group_lose(t, process);
  if (!peer->links)
    rondo_mapped_unmap(peer);
}

void rondo_transports_unuse(struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  peer->links--;
  if (!peer->links && peer->is_lost)
    rondo_mapped_unmap(peer);
}

// -------------------------------------------------------------------- reasons ---

static int peer_explain_mapped(const struct rondo_transport_peer *peer, char *why,
                               size_t why_bytes) {
  (void)snprintf(why, why_bytes, "another process of this machine; its memory is mapped%s",
                 peer->map ? "" : " when first needed");
  return RONDO_TRANSPORT_SHARED_MEMORY;
}

int rondo_transports_explain(const struct rondo_transports *t, const struct rondo_device *from,
                             uint32_t process, char *why, size_t why_bytes) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return rondo_proxied_explain(t, process, why, why_bytes);
  if (from->driver->sharing)
    return rondo_mapped_explain(t, process, why, why_bytes);
  return peer_explain_mapped(peer, why, why_bytes);
}
