// The other processes of a job on this machine, where devices cannot use their memory as it is: which of it is made
// known to devices, and how. Part of the job: see peers.h.
//
// Each process has a range of its devices' memory (range.h), made before any daemon runs: getting memory may wait for those.
// Its parts go to the others as they are added, before the next
// message; each answers how much of it it has mapped. A registration waits for the first answers: they decide where
// connectors lie. Where the range is not to be had, or not mapped, connectors lie in the arena, which both lock page by page.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/job/processes.h"

// ------------------------------------------------------------------- our own ---

// Memory of a device for the first connectors; and what the others say to that decides where all lie.
static int add_part(struct rondo_range *range, struct rondo_device *device, char *why) {
  void *memory = rondo_range_alloc(range, device, 1, why);
  if (!memory)
    return RONDO_ERR_NO_MEMORY;
  (void)rondo_range_free(range, memory);
  return RONDO_SUCCESS;
}

static void report_none(const struct rondo_job *job) {
  rondo_log(RONDO_LOG_INFO, "memory of devices is not shared between processes: %s", job->no_range);
}

void rondo_mapped_open(struct rondo_job *job) {
  struct rondo_range *range = NULL;
  if (!job->device->driver->sharing)
    return;
  rondo_arena_keep_pages(job->arena);
  rondo_pins_init(&job->pins, job->device, rondo_arena_base(job->arena),
                  rondo_arena_bytes(job->arena));
  if (job->transport == RONDO_TRANSPORT_UCX)
    return;
  if (job->transport == RONDO_TRANSPORT_NCCL && job->device->driver->setup)
    rondo_window_group_open(job);
  int status = rondo_range_create(job->device, 0, &range, job->no_range);
  if (status == RONDO_SUCCESS)
    status = add_part(range, job->device, job->no_range);
  if (status == RONDO_SUCCESS) {
    job->range = range;
    return;
  }
  rondo_range_destroy(range);
  report_none(job);
}

void rondo_mapped_admit(struct rondo_job *job, struct rondo_device *device) {
  if (!job->range || (rondo_range_admit(job->range, device, job->no_range) == RONDO_SUCCESS &&
                      add_part(job->range, device, job->no_range) == RONDO_SUCCESS))
    return;
  report_none(job);
  job->is_range_ours = 1;
}

static int is_offered(const struct rondo_job *job) { return job->range && !job->is_range_ours; }

// ------------------------------------------------------------------- telling ---

void rondo_mapped_describe(const struct rondo_job *job, struct rondo_message_hello *hello) {
  struct rondo_range_part part;
  if (!is_offered(job))
    return;
  hello->range_base = rondo_range_base(job->range);
  hello->range_bytes = rondo_range_bytes(job->range);
  for (uint32_t i = 0; rondo_range_part(job->range, i, &part); i++)
    hello->parts_bytes = part.at + part.bytes;
}

int rondo_mapped_next_part(const struct rondo_job *job, uint32_t process,
                           struct rondo_range_part *part) {
  struct rondo_peer *peer = &job->peers[process];
  if (!is_offered(job) || !rondo_range_part(job->range, peer->parts_told, part))
    return 0;
  peer->parts_told++;
  peer->told = part->at + part->bytes;
  return 1;
}

// 1 while the process has not said whether it maps all that it has been told of.
static int is_asked(const struct rondo_peer *peer) {
  return !peer->refuses_range && peer->mapped < peer->told;
}

int rondo_mapped_is_bindable(const struct rondo_job *job, uint32_t process) {
  return !is_asked(&job->peers[process]);
}

int rondo_mapped_is_settled(const struct rondo_job *job, uint32_t process) {
  struct rondo_peer *peer = &job->peers[process];
  if (!job->device->driver->sharing || peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return 1;
  if (peer->is_greeted && !is_asked(peer) && rondo_window_group_is_settled(job, process))
    peer->is_settled = 1;
  return peer->is_settled;
}

int rondo_mapped_maps(const struct rondo_job *job, uint32_t process) {
  const struct rondo_peer *peer = &job->peers[process];
  unsigned maps = is_offered(job) && !peer->refuses_range && peer->mapped ? RONDO_MAPS_RANGE : 0;
  if (rondo_window_group_leads(job, process))
    maps |= RONDO_MAPS_WINDOW;
  return (int)maps;
}

// ------------------------------------------------------------------ their own --

static void tell_mapped(struct rondo_job *job, uint32_t process) {
  const struct rondo_peer *peer = &job->peers[process];
  struct rondo_message_mapped notice = {.bytes = peer->view_bytes,
                                        .is_refused = peer->no_view[0] != '\0'};
  rondo_processes_send(job, process, RONDO_MESSAGE_MAPPED, &notice, sizeof notice);
}

// Makes the addresses for the range of a process, all devices here to use it.
static int open_view(struct rondo_job *job, struct rondo_peer *peer) {
  int status = rondo_range_create(job->device, peer->hello.range_bytes, &peer->view, peer->no_view);
  for (uint32_t i = 0; i < job->other_count && status == RONDO_SUCCESS; i++)
    status = rondo_range_admit(peer->view, job->others[i], peer->no_view);
  return status;
}

void rondo_mapped_meet(struct rondo_job *job, uint32_t process) {
  struct rondo_peer *peer = &job->peers[process];
  if (!peer->hello.range_bytes)
    return;
  if (!job->device->driver->sharing)
    snprintf(peer->no_view, sizeof peer->no_view, "the ranks here are on no device");
  else if (open_view(job, peer) == RONDO_SUCCESS)
    peer->no_view[0] = '\0';
  if (peer->no_view[0])
    rondo_log(RONDO_LOG_INFO, "the memory of process %u's devices is not mapped: %s", process,
              peer->no_view);
}

int rondo_mapped_part(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_peer *peer = &job->peers[message->from];
  struct rondo_message_part notice;
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
  tell_mapped(job, message->from);
  return 1;
}

int rondo_mapped_answer(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_peer *peer = &job->peers[message->from];
  struct rondo_message_mapped notice;
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

uint32_t rondo_mapped_place(int kind) {
  if (kind == RONDO_PLACE_WINDOW)
    return RONDO_OFFER_WINDOW;
  return kind == RONDO_PLACE_RANGE ? RONDO_OFFER_RANGE : RONDO_OFFER_ARENA;
}

int rondo_mapped_kind(const struct rondo_offer *offer) {
  if (offer->place == RONDO_OFFER_WINDOW)
    return RONDO_PLACE_WINDOW;
  return offer->place == RONDO_OFFER_RANGE ? RONDO_PLACE_RANGE : RONDO_PLACE_EXPORTED;
}

uint64_t rondo_mapped_base(const struct rondo_job *job, int kind) {
  if (kind == RONDO_PLACE_WINDOW)
    return rondo_range_base(job->window);
  if (kind == RONDO_PLACE_RANGE)
    return rondo_range_base(job->range);
  return (uint64_t)(uintptr_t)rondo_arena_base(job->arena);
}

static void *find_in_window(const struct rondo_job *job, uint32_t process,
                            const struct rondo_offer *offer, uint64_t bytes) {
  uint64_t whole = rondo_window_group_leads(job, process) ? rondo_range_bytes(job->window) : 0;
  if (offer->at >= whole || bytes > whole - offer->at)
    return NULL;
  return (void *)(uintptr_t)(rondo_window_group_view(job, process) + offer->at);
}

// Where the offered connectors are here; null if there is no such place.
void *rondo_mapped_find(struct rondo_job *job, uint32_t process, const struct rondo_offer *offer,
                        uint64_t bytes) {
  struct rondo_peer *peer = &job->peers[process];
  int in_range = offer->place == RONDO_OFFER_RANGE;
  uint64_t whole = in_range ? peer->view_bytes : peer->bytes;
  char why[RONDO_WHY_BYTES];
  if (offer->place == RONDO_OFFER_WINDOW)
    return find_in_window(job, process, offer, bytes);
  if (offer->at >= whole || bytes > whole - offer->at)
    return NULL;
  if (in_range)
    return (void *)(uintptr_t)(rondo_range_base(peer->view) + offer->at);
  char *memory = peer->map ? (char *)peer->map + offer->at : NULL;
  if (!memory || !job->device->driver->sharing ||
      rondo_pins_cover(&peer->pins, memory, bytes, why) == RONDO_SUCCESS)
    return memory;
  rondo_log(RONDO_LOG_ERROR, "connectors of process %u cannot be used: %s", process, why);
  return NULL;
}

// What of this process's memory the process can read where it is: from here to there.
void rondo_mapped_exported(const struct rondo_job *job, uint32_t process, int kind, uint64_t *begin,
                           uint64_t *end) {
  *begin = *end = 0;
  if (kind == RONDO_PLACE_WINDOW) {
    *begin = rondo_range_base(job->window);
    *end = *begin + rondo_range_bytes(job->window);
  } else if (!job->device->driver->sharing) {
    *begin = (uint64_t)(uintptr_t)rondo_arena_base(job->arena);
    *end = *begin + rondo_arena_bytes(job->arena);
  } else if ((unsigned)rondo_mapped_maps(job, process) & RONDO_MAPS_RANGE) {
    *begin = rondo_range_base(job->range);
    *end = *begin + job->peers[process].mapped;
  }
}

uint64_t rondo_mapped_bias(const struct rondo_job *job, uint32_t process, int kind) {
  const struct rondo_peer *peer = &job->peers[process];
  if (kind == RONDO_PLACE_WINDOW)
    return rondo_window_group_bias(job, process);
  if (!job->device->driver->sharing)
    return (uint64_t)(uintptr_t)peer->map - peer->base;
  return peer->view ? rondo_range_base(peer->view) - peer->hello.range_base : 0;
}

int rondo_mapped_say(const struct rondo_job *job, uint32_t process, char *why, size_t why_bytes) {
  const struct rondo_peer *peer = &job->peers[process];
  const char *reason = peer->no_view;
  if (rondo_window_group_leads(job, process)) {
    (void)snprintf(why, why_bytes, "another process of this machine; in a window of NCCL");
    return RONDO_TRANSPORT_NCCL;
  }
  if (!rondo_window_group_is_settled(job, process)) {
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
  const char *no_window = rondo_window_group_why(job, process);
  size_t length = strlen(why);
  if (no_window[0])
    (void)snprintf(why + length, why_bytes - length, "; no window of NCCL: %s", no_window);
  return RONDO_TRANSPORT_SHARED_MEMORY;
}

// ------------------------------------------------------------------- closing ---

void rondo_mapped_unmap(struct rondo_peer *peer) {
  rondo_range_destroy(peer->view);
  rondo_pins_fini(&peer->pins);
  rondo_arena_unmap(peer->map, peer->bytes);
  peer->view = NULL;
  peer->map = NULL;
  peer->view_bytes = 0;
}
