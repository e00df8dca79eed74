// The other processes of a job on this machine, where devices cannot use their memory as it is: which of it is made
// known to devices, and how. Part of the world: see peers.h.
//
// Each process has a range of its devices' memory (range.h), made before any daemon runs: getting memory may wait for those.
// Its parts go to the others as they are added, before the next
// message; each answers how much of it it has mapped. A registration waits for the first answers: they decide where
// connectors lie. Where the range is not to be had, or not mapped, connectors lie in the arena, which both lock page by page.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/boot/peers.h"

// ------------------------------------------------------------------- our own ---

// Memory of a device for the first connectors; and what the others say to that decides where all lie.
static int add_part(struct rondo_range *range, struct rondo_device *device, char *why) {
  void *memory = rondo_range_alloc(range, device, 1, why);
  if (!memory)
    return RONDO_ERR_NO_MEMORY;
  (void)rondo_range_free(range, memory);
  return RONDO_SUCCESS;
}

static void report_none(const struct rondo_world *world) {
  rondo_log(RONDO_LOG_INFO, "memory of devices is not shared between processes: %s",
            world->no_range);
}

void rondo_near_open(struct rondo_world *world) {
  struct rondo_range *range = NULL;
  if (!world->device->driver->sharing)
    return;
  rondo_arena_keep_pages(world->arena);
  rondo_pins_init(&world->pins, world->device, rondo_arena_base(world->arena),
                  rondo_arena_bytes(world->arena));
  if (world->transport == RONDO_TRANSPORT_UCX)
    return;
  if (world->transport == RONDO_TRANSPORT_NCCL && world->device->driver->setup)
    rondo_window_open(world);
  int status = rondo_range_create(world->device, 0, &range, world->no_range);
  if (status == RONDO_SUCCESS)
    status = add_part(range, world->device, world->no_range);
  if (status == RONDO_SUCCESS) {
    world->range = range;
    return;
  }
  rondo_range_destroy(range);
  report_none(world);
}

void rondo_near_admit(struct rondo_world *world, struct rondo_device *device) {
  if (!world->range || (rondo_range_admit(world->range, device, world->no_range) == RONDO_SUCCESS &&
                        add_part(world->range, device, world->no_range) == RONDO_SUCCESS))
    return;
  report_none(world);
  world->is_range_ours = 1;
}

static int is_offered(const struct rondo_world *world) {
  return world->range && !world->is_range_ours;
}

// ------------------------------------------------------------------- telling ---

void rondo_near_describe(const struct rondo_world *world, struct rondo_notice_hello *hello) {
  struct rondo_range_part part;
  if (!is_offered(world))
    return;
  hello->range_base = rondo_range_base(world->range);
  hello->range_bytes = rondo_range_bytes(world->range);
  for (uint32_t i = 0; rondo_range_part(world->range, i, &part); i++)
    hello->parts_bytes = part.at + part.bytes;
}

int rondo_near_next_part(const struct rondo_world *world, uint32_t process,
                         struct rondo_range_part *part) {
  struct rondo_peer *peer = &world->peers[process];
  if (!is_offered(world) || !rondo_range_part(world->range, peer->parts_told, part))
    return 0;
  peer->parts_told++;
  peer->told = part->at + part->bytes;
  return 1;
}

// 1 while the process has not said whether it maps all that it has been told of.
static int is_asked(const struct rondo_peer *peer) {
  return !peer->refuses_range && peer->mapped < peer->told;
}

int rondo_near_is_bindable(const struct rondo_world *world, uint32_t process) {
  return !is_asked(&world->peers[process]);
}

int rondo_near_is_settled(const struct rondo_world *world, uint32_t process) {
  struct rondo_peer *peer = &world->peers[process];
  if (!world->device->driver->sharing || peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return 1;
  if (peer->is_greeted && !is_asked(peer) && rondo_window_is_settled(world, process))
    peer->is_settled = 1;
  return peer->is_settled;
}

int rondo_near_maps(const struct rondo_world *world, uint32_t process) {
  const struct rondo_peer *peer = &world->peers[process];
  unsigned maps = is_offered(world) && !peer->refuses_range && peer->mapped ? RONDO_MAPS_RANGE : 0;
  if (rondo_window_leads(world, process))
    maps |= RONDO_MAPS_WINDOW;
  return (int)maps;
}

// ------------------------------------------------------------------ their own --

static void tell_mapped(struct rondo_world *world, uint32_t process) {
  const struct rondo_peer *peer = &world->peers[process];
  struct rondo_notice_mapped notice = {.bytes = peer->view_bytes,
                                       .is_refused = peer->no_view[0] != '\0'};
  rondo_peers_send(world, process, RONDO_NOTICE_MAPPED, &notice, sizeof notice);
}

// Makes the addresses for the range of a process, all devices here to use it.
static int open_view(struct rondo_world *world, struct rondo_peer *peer) {
  int status =
      rondo_range_create(world->device, peer->hello.range_bytes, &peer->view, peer->no_view);
  for (uint32_t i = 0; i < world->other_count && status == RONDO_SUCCESS; i++)
    status = rondo_range_admit(peer->view, world->others[i], peer->no_view);
  return status;
}

void rondo_near_meet(struct rondo_world *world, uint32_t process) {
  struct rondo_peer *peer = &world->peers[process];
  if (!peer->hello.range_bytes)
    return;
  if (!world->device->driver->sharing)
    snprintf(peer->no_view, sizeof peer->no_view, "the ranks here are on no device");
  else if (open_view(world, peer) == RONDO_SUCCESS)
    peer->no_view[0] = '\0';
  if (peer->no_view[0])
    rondo_log(RONDO_LOG_INFO, "the memory of process %u's devices is not mapped: %s", process,
              peer->no_view);
}

int rondo_near_part(struct rondo_world *world, const struct rondo_mesh_message *message) {
  struct rondo_peer *peer = &world->peers[message->from];
  struct rondo_notice_part notice;
  char why[RONDO_WHY_BYTES];
  if (message->size != sizeof notice || message->fd_count != 1 || !peer->hello.range_bytes)
    return 0;
  memcpy(&notice, message->bytes, sizeof notice);
  const struct rondo_range_part part = {notice.at, notice.bytes, message->fds[0]};
  if (!peer->no_view[0]) {
    if (rondo_range_map(peer->view, &part, why) == RONDO_SUCCESS) {
      peer->view_bytes = part.at + part.bytes;
    } else {
      snprintf(peer->no_view, sizeof peer->no_view, "%s", why);
      rondo_log(RONDO_LOG_INFO, "the memory of process %u's devices is not mapped: %s",
                message->from, why);
    }
  }
  tell_mapped(world, message->from);
  return 1;
}

int rondo_near_answer(struct rondo_world *world, const struct rondo_mesh_message *message) {
  struct rondo_peer *peer = &world->peers[message->from];
  struct rondo_notice_mapped notice;
  if (message->size != sizeof notice)
    return 0;
  memcpy(&notice, message->bytes, sizeof notice);
  if (notice.bytes < peer->mapped || notice.bytes > peer->told)
    return 0;
  peer->mapped = notice.bytes;
  peer->refuses_range |= notice.is_refused != 0;
  return 1;
}

// --------------------------------------------------------------- connectors ----

uint32_t rondo_near_place(int kind) {
  if (kind == RONDO_PLACE_WINDOW)
    return RONDO_OFFER_WINDOW;
  return kind == RONDO_PLACE_RANGE ? RONDO_OFFER_RANGE : RONDO_OFFER_ARENA;
}

int rondo_near_kind(const struct rondo_offer *offer) {
  if (offer->place == RONDO_OFFER_WINDOW)
    return RONDO_PLACE_WINDOW;
  return offer->place == RONDO_OFFER_RANGE ? RONDO_PLACE_RANGE : RONDO_PLACE_LENT;
}

uint64_t rondo_near_base(const struct rondo_world *world, int kind) {
  if (kind == RONDO_PLACE_WINDOW)
    return rondo_range_base(world->window);
  if (kind == RONDO_PLACE_RANGE)
    return rondo_range_base(world->range);
  return (uint64_t)(uintptr_t)rondo_arena_base(world->arena);
}

static void *find_in_window(const struct rondo_world *world, uint32_t process,
                            const struct rondo_offer *offer, uint64_t bytes) {
  uint64_t whole = rondo_window_leads(world, process) ? rondo_range_bytes(world->window) : 0;
  if (offer->at >= whole || bytes > whole - offer->at)
    return NULL;
  return (void *)(uintptr_t)(rondo_window_view(world, process) + offer->at);
}

// Where the offered connectors are here; null if there is no such place.
void *rondo_near_find(struct rondo_world *world, uint32_t process, const struct rondo_offer *offer,
                      uint64_t bytes) {
  struct rondo_peer *peer = &world->peers[process];
  int in_range = offer->place == RONDO_OFFER_RANGE;
  uint64_t whole = in_range ? peer->view_bytes : peer->bytes;
  char why[RONDO_WHY_BYTES];
  if (offer->place == RONDO_OFFER_WINDOW)
    return find_in_window(world, process, offer, bytes);
  if (offer->at >= whole || bytes > whole - offer->at)
    return NULL;
  if (in_range)
    return (void *)(uintptr_t)(rondo_range_base(peer->view) + offer->at);
  char *memory = peer->map ? (char *)peer->map + offer->at : NULL;
  if (!memory || !world->device->driver->sharing ||
      rondo_pins_cover(&peer->pins, memory, bytes, why) == RONDO_SUCCESS)
    return memory;
  rondo_log(RONDO_LOG_ERROR, "connectors of process %u cannot be used: %s", process, why);
  return NULL;
}

// What of this process's memory the process can read where it is: from here to there.
void rondo_near_lent(const struct rondo_world *world, uint32_t process, int kind, uint64_t *begin,
                     uint64_t *end) {
  *begin = *end = 0;
  if (kind == RONDO_PLACE_WINDOW) {
    *begin = rondo_range_base(world->window);
    *end = *begin + rondo_range_bytes(world->window);
  } else if (!world->device->driver->sharing) {
    *begin = (uint64_t)(uintptr_t)rondo_arena_base(world->arena);
    *end = *begin + rondo_arena_bytes(world->arena);
  } else if ((unsigned)rondo_near_maps(world, process) & RONDO_MAPS_RANGE) {
    *begin = rondo_range_base(world->range);
    *end = *begin + world->peers[process].mapped;
  }
}

uint64_t rondo_near_bias(const struct rondo_world *world, uint32_t process, int kind) {
  const struct rondo_peer *peer = &world->peers[process];
  if (kind == RONDO_PLACE_WINDOW)
    return rondo_window_bias(world, process);
  if (!world->device->driver->sharing)
    return (uint64_t)(uintptr_t)peer->map - peer->base;
  return peer->view ? rondo_range_base(peer->view) - peer->hello.range_base : 0;
}

int rondo_near_say(const struct rondo_world *world, uint32_t process, char *why, size_t why_bytes) {
  const struct rondo_peer *peer = &world->peers[process];
  const char *reason = peer->no_view;
  if (rondo_window_leads(world, process)) {
    (void)snprintf(why, why_bytes, "another process of this machine; in a window of NCCL");
    return RONDO_TRANSPORT_NCCL;
  }
  if (!rondo_window_is_settled(world, process)) {
    (void)snprintf(why, why_bytes, "whether NCCL makes a window is not known yet");
    return -1;
  }
  if (!peer->map || (!reason[0] && peer->view_bytes < peer->hello.parts_bytes)) {
    (void)snprintf(why, why_bytes, "where its memory is is not known yet");
    return -1;
  }
  if (!peer->hello.range_bytes)
    reason = "it shares no memory of its devices";
  if (reason[0])
    (void)snprintf(why, why_bytes,
                   "another process of this machine; in page-locked host memory: %s", reason);
  else
    (void)snprintf(why, why_bytes,
                   "another process of this machine; in memory of its device, which is mapped");
  const char *no_window = rondo_window_why(world, process);
  size_t length = strlen(why);
  if (no_window[0])
    (void)snprintf(why + length, why_bytes - length, "; no window of NCCL: %s", no_window);
  return RONDO_TRANSPORT_SHARED_MEMORY;
}

// ------------------------------------------------------------------- closing ---

void rondo_near_unmap(struct rondo_peer *peer) {
  rondo_range_destroy(peer->view);
  rondo_pins_fini(&peer->pins);
  rondo_arena_unmap(peer->map, peer->bytes);
  peer->view = NULL;
  peer->map = NULL;
  peer->view_bytes = 0;
}
