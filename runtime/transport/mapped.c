#include "runtime/transport/mapped.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/range.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/window_group.h"

static const char no_reason[] = "there was no memory for the reason";

// ------------------------------------------------------------------ our range ---

// Adds the first part, so that the answers of the peers decide where connectors lie.
static int range_add_part(struct rondo_range *range, struct rondo_device *device, char *why) {
  void *memory = rondo_range_alloc(range, device, 1, why);
  if (!memory)
    return RONDO_ERR_NO_MEMORY;
  (void)rondo_range_free(range, memory);
  return RONDO_SUCCESS;
}

static void log_no_range(const struct rondo_transports *t) {
  rondo_log(RONDO_LOG_INFO, "memory of devices is not shared between processes: %s", t->no_range);
}

void rondo_mapped_open(struct rondo_transports *t) {
  struct rondo_range *range = NULL;
  if (!t->device->driver->sharing)
    return;
  rondo_arena_keep_pages(t->arena);
  rondo_pins_init(&t->pins, t->device, rondo_arena_base(t->arena), rondo_arena_bytes(t->arena));
  if (t->config.transport == RONDO_TRANSPORT_UCX)
    return;
  if (t->config.transport == RONDO_TRANSPORT_NCCL && t->device->driver->setup)
    rondo_window_group_open(t);
  int status = rondo_range_create(t->device, 0, &range, t->no_range);
  if (status == RONDO_SUCCESS)
    status = range_add_part(range, t->device, t->no_range);
  if (status == RONDO_SUCCESS) {
    t->range = range;
    return;
  }
  rondo_range_destroy(range);
  log_no_range(t);
}

void rondo_mapped_admit(struct rondo_transports *t, struct rondo_device *device) {
  char why[RONDO_WHY_BYTES];
  if (!t->range || (rondo_range_admit(t->range, device, why) == RONDO_SUCCESS &&
                    range_add_part(t->range, device, why) == RONDO_SUCCESS))
    return;
  pthread_mutex_lock(t->config.lock);
  (void)snprintf(t->no_range, sizeof t->no_range, "%s", why);
  log_no_range(t);
  t->is_range_private = 1;
  pthread_mutex_unlock(t->config.lock);
}

static bool range_is_offered(const struct rondo_transports *t) {
  return t->range && !t->is_range_private;
}

// ---------------------------------------------------------------- introducing ---

void rondo_mapped_introduce(struct rondo_transports *t, uint32_t process) {
  struct rondo_message_arena ours = {.base = (uint64_t)(uintptr_t)rondo_arena_base(t->arena),
                                     .bytes = rondo_arena_bytes(t->arena)};
  if (range_is_offered(t)) {
    struct rondo_range_part part;
    ours.range_base = rondo_range_base(t->range);
    ours.range_bytes = rondo_range_bytes(t->range);
    for (uint32_t i = 0; rondo_range_part(t->range, i, &part); i++)
      ours.parts_bytes = part.at + part.bytes;
  }
  t->config.events->send(t->config.owner, process, RONDO_MESSAGE_ARENA, &ours, sizeof ours,
                         rondo_arena_fd(t->arena));
}

void rondo_mapped_introduce_parts(struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  struct rondo_range_part part;
  while (range_is_offered(t) && rondo_range_part(t->range, peer->parts_told, &part)) {
    const struct rondo_message_part message = {part.at, part.bytes};
    peer->parts_told++;
    peer->told = part.at + part.bytes;
    t->config.events->send(t->config.owner, process, RONDO_MESSAGE_PART, &message, sizeof message,
                           part.fd);
  }
}

// -------------------------------------------------------------------- answers ---

bool rondo_mapped_is_bindable(const struct rondo_transports *t, uint32_t process) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  return peer->refuses_range || peer->mapped >= peer->told;
}

bool rondo_mapped_is_settled(const struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  if (!t->device->driver->sharing || peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return true;
  if (peer->is_introduced && rondo_mapped_is_bindable(t, process) &&
      rondo_window_group_is_settled(t, process))
    peer->is_settled = 1;
  return peer->is_settled;
}

// True once the process's arena, and what it had of its range, are mapped here or never will be.
static bool peer_is_mapped(const struct rondo_transport_peer *peer) {
  return peer->map && (peer->no_view || peer->view_bytes >= peer->theirs.parts_bytes);
}

bool rondo_mapped_is_complete(const struct rondo_transports *t, uint32_t process) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  if (!t->device->driver->sharing || peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return true;
  return rondo_mapped_is_settled(t, process) && peer_is_mapped(peer);
}

int rondo_mapped_places(const struct rondo_transports *t, uint32_t process) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  int has_range = range_is_offered(t) && !peer->refuses_range && peer->mapped;
  unsigned places = has_range ? RONDO_MAPS_RANGE : 0;
  if (rondo_window_group_leads(t, process))
    places |= RONDO_MAPS_WINDOW;
  return (int)places;
}

int rondo_mapped_receive_answer(struct rondo_transports *t,
                                const struct rondo_transport_arrival *arrival) {
  struct rondo_transport_peer *peer = &t->peers[arrival->from];
  struct rondo_message_mapped message;
  if (arrival->size != sizeof message)
    return 0;
  memcpy(&message, arrival->bytes, sizeof message);
  if (message.bytes < peer->mapped || message.bytes > peer->told)
    return 0;
  peer->mapped = message.bytes;
  peer->refuses_range |= message.is_refused != 0;
  t->config.events->resume(t->config.owner);
  return 1;
}

// ------------------------------------------------------------------ their range --

int rondo_mapped_map(struct rondo_transports *t, uint32_t process,
                     const struct rondo_message_arena *theirs, int fd) {
  struct rondo_transport_peer *peer = &t->peers[process];
  struct rondo_pins *pins = malloc(sizeof *pins);
  int status = pins ? rondo_arena_map(fd, theirs->bytes, &peer->map) : RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS) {
    free(pins);
    return status;
  }
  rondo_pins_init(pins, t->device, peer->map, theirs->bytes);
  peer->pins = pins;
  peer->theirs = *theirs;
  return RONDO_SUCCESS;
}

// A warning if the memory does not work, though the driver offers it.
static void log_no_view(uint32_t process, int status, const char *why) {
  rondo_log(status == RONDO_ERR_INTERNAL ? RONDO_LOG_WARN : RONDO_LOG_INFO,
            "the memory of process %u's devices is not mapped: %s", process, why);
}

// Notes why the process's range is not mapped whole.
static void view_refuse(struct rondo_transport_peer *peer, const char *why) {
  const char *text = strdup(why);
  peer->no_view = text ? text : no_reason;
}

// Releases the lock while this thread uses the mapping of a process, and takes it again.
static void peer_unlock(struct rondo_transports *t, uint32_t process) {
  t->peers[process].links++;
  pthread_mutex_unlock(t->config.lock);
}

static void peer_lock(struct rondo_transports *t, uint32_t process) {
  pthread_mutex_lock(t->config.lock);
  rondo_transports_unuse(t, process);
}

// Reserves the addresses and gives all devices here access to them. They have no part yet, so that
// calls no driver, and needs no release of the lock.
static int view_create(struct rondo_transports *t, uint32_t process, char *why) {
  struct rondo_range *view = NULL;
  uint64_t bytes = t->peers[process].theirs.range_bytes;
  peer_unlock(t, process);
  int status = rondo_range_create(t->device, bytes, &view, why);
  peer_lock(t, process);
  t->peers[process].view = view;
  for (uint32_t i = 0; i < t->other_count && status == RONDO_SUCCESS; i++)
    status = rondo_range_admit(view, t->others[i], why);
  return status;
}

void rondo_mapped_open_view(struct rondo_transports *t, uint32_t process) {
  struct rondo_transport_peer *peer = &t->peers[process];
  char why[RONDO_WHY_BYTES] = "";
  if (!peer->theirs.range_bytes)
    return;
  if (!t->device->driver->sharing)
    (void)snprintf(why, sizeof why, "the ranks here are on no device");
  else if (view_create(t, process, why) == RONDO_SUCCESS)
    why[0] = '\0';
  if (!why[0])
    return;
  view_refuse(peer, why);
  log_no_view(process, RONDO_ERR_UNSUPPORTED, why);
}

int rondo_mapped_receive_part(struct rondo_transports *t,
                              const struct rondo_transport_arrival *arrival) {
  struct rondo_transport_peer *peer = &t->peers[arrival->from];
  struct rondo_message_part message;
  char why[RONDO_WHY_BYTES];
  if (arrival->size != sizeof message || arrival->fd_count != 1 || !peer->theirs.range_bytes)
    return 0;
  memcpy(&message, arrival->bytes, sizeof message);
  const struct rondo_range_part part = {message.at, message.bytes, arrival->fds[0]};
  if (!peer->no_view) {
    peer_unlock(t, arrival->from);
    int status = rondo_range_map(peer->view, &part, t->self, why);
    peer_lock(t, arrival->from);
    if (status == RONDO_SUCCESS) {
      peer->view_bytes = part.at + part.bytes;
    } else {
      view_refuse(peer, why);
      log_no_view(arrival->from, status, why);
    }
  }
  struct rondo_message_mapped answer = {peer->view_bytes, peer->no_view != NULL};
  rondo_transports_introduce(t, arrival->from);
  t->config.events->send(t->config.owner, arrival->from, RONDO_MESSAGE_MAPPED, &answer,
                         sizeof answer, -1);
  return 1;
}

void rondo_mapped_unmap(struct rondo_transport_peer *peer) {
  rondo_range_destroy(peer->view);
  if (peer->pins)
    rondo_pins_fini(peer->pins);
  free(peer->pins);
  rondo_arena_unmap(peer->map, peer->theirs.bytes);
  peer->view = NULL;
  peer->pins = NULL;
  peer->map = NULL;
  peer->view_bytes = 0;
}

void rondo_mapped_forget(struct rondo_transport_peer *peer) {
  rondo_mapped_unmap(peer);
  if (peer->no_view != no_reason)
    free((void *)(uintptr_t)peer->no_view);
  peer->no_view = NULL;
}

void rondo_mapped_leave(struct rondo_transports *t, struct rondo_transport_peer *peer) {
  if (!t->device->driver->sharing) {
    rondo_mapped_unmap(peer);
  } else if (!peer->must_unmap && (peer->map || peer->view)) {
    peer->must_unmap = 1;
    t->unmap_count++;
  }
}

// ---------------------------------------------------------------- device work ----

// Unmaps the memory of the processes that nothing uses any more. They are lost, so no thread maps
// it again, and none page-locks it.
static void peers_unmap(struct rondo_transports *t) {
  for (uint32_t p = 0; p < t->peer_count && t->unmap_count; p++) {
    struct rondo_transport_peer *peer = &t->peers[p];
    if (!peer->must_unmap)
      continue;
    struct rondo_transport_peer unmapped = {.view = peer->view, .map = peer->map};
    unmapped.pins = peer->pins;
    unmapped.theirs = peer->theirs;
    peer->must_unmap = 0;
    peer->view = NULL;
    peer->pins = NULL;
    peer->map = NULL;
    peer->view_bytes = 0;
    t->unmap_count--;
    if (t->pin.process == p)
      t->pin = (struct rondo_transport_pin){0};
    pthread_mutex_unlock(t->config.lock);
    rondo_mapped_unmap(&unmapped);
    pthread_mutex_lock(t->config.lock);
  }
}

static void pin_cover(struct rondo_transports *t) {
  const struct rondo_transport_pin pin = t->pin;
  char why[RONDO_WHY_BYTES];
  t->is_pinning = true;
  peer_unlock(t, pin.process);
  int status = rondo_pins_cover(t->peers[pin.process].pins, pin.memory, pin.bytes, why);
  peer_lock(t, pin.process);
  t->is_pinning = false;
  if (status == RONDO_SUCCESS) {
    t->pin.bytes = 0;
    return;
  }
  t->pin.is_refused = 1;
  rondo_log(RONDO_LOG_ERROR, "connectors of process %u cannot be used: %s", pin.process, why);
}

bool rondo_mapped_work(struct rondo_transports *t) {
  if (t->unmap_count) {
    peers_unmap(t);
    return true;
  }
  if (t->pin.is_refused) // the link that has waited for it is gone
    t->pin = (struct rondo_transport_pin){0};
  if (!t->pin.bytes || t->is_pinning)
    return false;
  pin_cover(t);
  return true;
}

// ----------------------------------------------------------------- connectors ----

uint64_t rondo_mapped_base(const struct rondo_transports *t, int kind) {
  if (kind == RONDO_PLACE_WINDOW)
    return rondo_range_base(t->window);
  if (kind == RONDO_PLACE_RANGE)
    return rondo_range_base(t->range);
  return (uint64_t)(uintptr_t)rondo_arena_base(t->arena);
}

// Returns memory of a peer's arena if it is page-locked, or the devices here need no such memory.
// Else has rondo_mapped_work page-lock it, and sets `waits`, unless the driver has refused that.
static void *arena_find_pinned(struct rondo_transports *t, uint32_t process, void *memory,
                               uint64_t bytes, bool *waits) {
  if (!t->device->driver->sharing || rondo_pins_is_covered(t->peers[process].pins, memory, bytes))
    return memory;
  bool is_refused = t->pin.is_refused && t->pin.memory == memory && t->pin.bytes == bytes;
  *waits = !is_refused;
  if (is_refused)
    t->pin = (struct rondo_transport_pin){0};
  else if (!t->pin.bytes || t->pin.is_refused)
    t->pin = (struct rondo_transport_pin){process, memory, bytes, 0};
  return NULL;
}

void *rondo_mapped_find(struct rondo_transports *t, uint32_t process, int kind, uint64_t at,
                        uint64_t bytes, bool *waits) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  uint64_t base = (uint64_t)(uintptr_t)peer->map;
  uint64_t whole = peer->map ? peer->theirs.bytes : 0;
  if (kind == RONDO_PLACE_WINDOW) {
    bool leads = rondo_window_group_leads(t, process);
    base = leads ? rondo_window_group_view(t, process) : 0;
    whole = leads ? rondo_range_bytes(t->window) : 0;
  } else if (kind == RONDO_PLACE_RANGE) {
    base = peer->view ? rondo_range_base(peer->view) : 0;
    whole = peer->view_bytes;
  }
  if (at >= whole || bytes > whole - at)
    return NULL;
  void *memory = (void *)(uintptr_t)(base + at);
  if (kind != RONDO_PLACE_EXPORTED)
    return memory;
  return arena_find_pinned(t, process, memory, bytes, waits);
}

void rondo_mapped_exported(const struct rondo_transports *t, uint32_t process, int kind,
                           uint64_t *begin, uint64_t *end) {
  *begin = *end = 0;
  if (kind == RONDO_PLACE_WINDOW) {
    *begin = rondo_range_base(t->window);
    *end = *begin + rondo_range_bytes(t->window);
  } else if (!t->device->driver->sharing) {
    *begin = (uint64_t)(uintptr_t)rondo_arena_base(t->arena);
    *end = *begin + rondo_arena_bytes(t->arena);
  } else if ((unsigned)rondo_mapped_places(t, process) & RONDO_MAPS_RANGE) {
    *begin = rondo_range_base(t->range);
    *end = *begin + t->peers[process].mapped;
  }
}

uint64_t rondo_mapped_bias(const struct rondo_transports *t, uint32_t process, int kind) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  if (kind == RONDO_PLACE_WINDOW)
    return rondo_window_group_bias(t, process);
  if (!t->device->driver->sharing)
    return (uint64_t)(uintptr_t)peer->map - peer->theirs.base;
  return peer->view ? rondo_range_base(peer->view) - peer->theirs.range_base : 0;
}

// -------------------------------------------------------------------- reasons ---

int rondo_mapped_explain(const struct rondo_transports *t, uint32_t process, char *why,
                         size_t why_bytes) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  const char *reason = peer->no_view;
  if (rondo_window_group_leads(t, process)) {
    (void)snprintf(why, why_bytes, "another process of this machine; in a window of NCCL");
    return RONDO_TRANSPORT_NCCL;
  }
  if (!rondo_window_group_is_settled(t, process)) {
    (void)snprintf(why, why_bytes, "it is not known yet whether NCCL makes a window");
    return -1;
  }
  if (!peer_is_mapped(peer)) {
    (void)snprintf(why, why_bytes, "the address of its memory is not known yet");
    return -1;
  }
  if (!peer->theirs.range_bytes)
    reason = "it shares no memory of its devices";
  if (reason)
    (void)snprintf(why, why_bytes,
                   "another process of this machine; in page-locked host memory: %s", reason);
  else
    (void)snprintf(why, why_bytes,
                   "another process of this machine; in memory of its device, which is mapped");
  const char *no_window = rondo_window_group_why(t, process);
  size_t length = strlen(why);
  if (no_window[0])
    (void)snprintf(why + length, why_bytes - length, "; no window of NCCL: %s", no_window);
  return RONDO_TRANSPORT_SHARED_MEMORY;
}
