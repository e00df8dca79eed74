// Creates a daemon on a CUDA device, and lays out its memory.
//
// Page-locked memory holds what both sides use: the rings of the submission and the completion
// queue, the exit word, the status lines. Device memory holds what only blocks use, or use much
// more often than the CPU: the other queue halves, the rings between blocks, the table, the homes
// of the blocks, the mirror of the host's words. The device part is built as an image and written
// at once.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/cuda/cuda_backend.h"

// For a policy that never preempts, and so never leaves: the GPU must not be lost to it.
#define NEVER_LEAVES_NS UINT64_C(60000000000)
#define LEAVING_SLACK_NS UINT64_C(10000000) // beyond the residency: one step, and saving the state
#define STEP_MIN_NS 8u // no step is shorter, so this bounds the steps of the longest residency

static_assert(RONDO_MAX_THREADS == RONDO_CUDA_MAX_THREADS, "what the kernel is compiled for");
static_assert(RONDO_MIN_THREADS == RONDO_CUDA_MIN_THREADS, "the warps that the kernel needs");

// A stretch of memory, cut into pieces on lines of their own.
struct region {
  uint64_t base;
  uint64_t used;
};

static uint64_t region_take(struct region *c, uint64_t bytes) {
  uint64_t at = c->base + c->used;
  c->used += (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
  return at;
}

// Addresses of the parts.
struct layout {
  uint64_t exit, held, sq_ring, cq_ring, status; // page-locked
  uint64_t pinned_bytes;
  uint64_t core, cq, inboxes, rings, table, homes, times; // device
  uint64_t mirror, copies, watched;
  uint64_t ring_bytes, home_bytes, device_bytes;
};

static struct layout layout_make(uint64_t pinned, uint64_t device, bool keeps_times,
                                 const struct rondo_daemon_request *r) {
  struct layout l;
  struct region p = {pinned, 0};
  struct region d = {device, 0};
  uint32_t blocks = r->cfg->blocks;
  l.exit = region_take(&p, 2 * sizeof(uint32_t));
  l.held = l.exit + sizeof(uint32_t);
  l.sq_ring = region_take(&p, rondo_sq_ring_bytes(r->sq_entries));
  l.cq_ring = region_take(&p, rondo_cq_ring_bytes(r->cq_entries));
  l.status = region_take(&p, blocks * sizeof(struct rondo_cuda_block_status));
  l.pinned_bytes = p.used;
  l.ring_bytes = rondo_sq_ring_bytes(r->sq_entries);
  l.home_bytes = rondo_cuda_home_bytes(r->cfg->max_collectives);
  l.core = region_take(&d, sizeof(struct rondo_daemon_core));
  l.cq = region_take(&d, sizeof(struct rondo_cq_producers));
  l.inboxes = region_take(&d, blocks * sizeof(struct rondo_sq_producer));
  l.rings = region_take(&d, blocks * l.ring_bytes);
  l.table = region_take(&d, sizeof(struct rondo_device_table));
  l.homes = region_take(&d, blocks * l.home_bytes);
  l.mirror = region_take(&d, sizeof(struct rondo_mirror));
  l.copies = region_take(&d, r->cfg->max_collectives * sizeof(struct rondo_mirror_copy));
  l.watched = region_take(&d, r->cfg->max_collectives * sizeof(uint32_t));
  l.times = keeps_times ? region_take(&d, blocks * sizeof(struct rondo_times)) : 0;
  l.device_bytes = d.used;
  return l;
}

// A copy of device memory, written here before it goes there.
struct image {
  char *bytes;
  uint64_t base;
};

static void *image_at(const struct image *i, uint64_t address) {
  return i->bytes + (address - i->base);
}

// The core that the blocks see. The device bounds its policy.
static void core_fill(const struct rondo_cuda_device *device, const struct layout *l,
                      const struct rondo_daemon_request *r, struct rondo_daemon_core *core) {
  rondo_daemon_core_configure(core, r->cfg);
  core->sq_ring = l->sq_ring;
  core->copies = l->copies;
  core->cq = (struct rondo_cq_producers *)(uintptr_t)l->cq;
  core->table = (struct rondo_device_table *)(uintptr_t)l->table;
  core->exit = (uint32_t *)(uintptr_t)(l->mirror + offsetof(struct rondo_mirror, exit));
  core->ask_ns = RONDO_CUDA_ASK_NS;
  if (!r->cfg->tuning.look_ns)
    core->policy.look_ns = RONDO_CUDA_LOOK_NS;
  if (device->residency_ns && device->residency_ns < core->residency_ns)
    core->residency_ns = device->residency_ns;
}

static void mirror_fill(const struct layout *l, const struct rondo_daemon_request *r,
                        struct rondo_mirror *m) {
  rondo_sq_consumer_init(&m->source, l->sq_ring, r->sq_entries, r->first_sequence);
  m->exit_word = l->exit;
  m->inboxes = l->inboxes;
  m->copies = l->copies;
  m->watched = l->watched;
}

// Block `b`, its home, and the queue that it fetches from.
static void block_fill(const struct layout *l, const struct image *image,
                       const struct rondo_daemon_request *r, uint32_t b) {
  struct rondo_cuda_block_home *home = image_at(image, l->homes + b * l->home_bytes);
  uint64_t waits = l->homes + b * l->home_bytes + sizeof *home;
  uint64_t entries = waits + r->cfg->max_collectives * sizeof(struct rondo_wait);
  const struct rondo_block_tasks tasks = {.entries = (uint32_t *)(uintptr_t)entries,
                                          .waits = (struct rondo_wait *)(uintptr_t)waits,
                                          .capacity = r->cfg->max_collectives};
  struct rondo_sq_consumer source;
  uint64_t ring = l->rings + b * l->ring_bytes;
  rondo_sq_consumer_init(&source, ring, r->sq_entries, r->first_sequence);
  rondo_block_init(&home->block, (const struct rondo_daemon_core *)(uintptr_t)l->core, &source, b,
                   &tasks);
  // A ring holds marks and no addresses, so it can be initialised in the image.
  rondo_sq_ring_init(image_at(image, ring), r->sq_entries, r->first_sequence);
  struct rondo_sq_producer *inbox = image_at(image, l->inboxes);
  rondo_sq_producer_init(&inbox[b], ring, r->sq_entries, r->first_sequence);
}

static int image_write(struct rondo_cuda_device *device, const struct layout *l,
                       const struct rondo_daemon_request *r, uint64_t base) {
  struct image image = {calloc(1, l->device_bytes), base};
  if (!image.bytes)
    return RONDO_ERR_NO_MEMORY;
  core_fill(device, l, r, image_at(&image, l->core));
  mirror_fill(l, r, image_at(&image, l->mirror));
  rondo_cq_producers_init(image_at(&image, l->cq), l->cq_ring, r->cq_entries, r->first_sequence);
  for (uint32_t b = 0; b < r->cfg->blocks; b++)
    block_fill(l, &image, r, b);
  int status = rondo_cuda_write(&device->base, base, image.bytes, l->device_bytes);
  free(image.bytes);
  return status;
}

static void daemon_fill_pinned(struct rondo_cuda_daemon *d, const struct layout *l,
                               const struct rondo_daemon_request *r) {
  rondo_sq_ring_init((struct rondo_sq_ring *)(uintptr_t)l->sq_ring, r->sq_entries,
                     r->first_sequence);
  rondo_sq_producer_init(&d->base.sq, l->sq_ring, r->sq_entries, r->first_sequence);
  rondo_cq_ring_init((struct rondo_cq_ring *)(uintptr_t)l->cq_ring, r->cq_entries,
                     r->first_sequence);
  rondo_cq_consumer_init(&d->base.cq, l->cq_ring, r->cq_entries);
  d->base.exit = (uint32_t *)(uintptr_t)l->exit;
  d->base.table = l->table;
  d->base.copies = l->copies;
  d->status = (struct rondo_cuda_block_status *)(uintptr_t)l->status;
}

static void daemon_fill_launch(struct rondo_cuda_daemon *d, const struct layout *l,
                               const struct rondo_config *cfg) {
  struct rondo_cuda_launch *launch = &d->launch;
  uint64_t residency_ns = cfg->tuning.residency_ns;
  uint64_t fits = (d->device->fast_bytes - sizeof(struct rondo_cuda_fast)) / sizeof(uint32_t);
  launch->mirror = l->mirror;
  launch->homes = l->homes;
  launch->home_bytes = l->home_bytes;
  launch->status = l->status;
  launch->held = l->held;
  launch->longest_ns =
      cfg->budget == RONDO_BUDGET_NEVER ? NEVER_LEAVES_NS : residency_ns + LEAVING_SLACK_NS;
  launch->max_steps = launch->longest_ns / STEP_MIN_NS;
  launch->block_count = cfg->blocks;
  launch->times = d->times = l->times;
  launch->fast_tasks = cfg->max_collectives < fits ? cfg->max_collectives : (uint32_t)fits;
}

static CUresult launch_stream_create(const struct rondo_cuda_device *device,
                                     struct rondo_cuda_launch_stream *s) {
  CUresult result = device->api->stream_create_with_priority(&s->handle, CU_STREAM_NON_BLOCKING,
                                                             device->priority);
  return result == CUDA_SUCCESS ? device->api->event_create(&s->reached, CU_EVENT_DISABLE_TIMING)
                                : result;
}

static int daemon_create_streams(struct rondo_cuda_daemon *d) {
  const struct rondo_cuda_device *device = d->device;
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(device, &scope);
  if (result != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS && result == CUDA_SUCCESS; i++)
    result = device->api->stream_create_with_priority(&d->streams[i], CU_STREAM_NON_BLOCKING,
                                                      device->priority);
  for (uint32_t i = 0; i < RONDO_CUDA_TIES && result == CUDA_SUCCESS; i++)
    result = launch_stream_create(device, &d->launch_streams[i]);
  rondo_cuda_leave(&scope);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : RONDO_ERR_SYSTEM;
}

// Creates the memory and the streams of a daemon.
static int daemon_create_parts(struct rondo_cuda_daemon *d, const struct rondo_daemon_request *r) {
  bool keeps_times = d->device->keeps_times;
  struct layout l = layout_make(0, 0, keeps_times, r);
  d->pinned = rondo_cuda_alloc(&d->device->base, RONDO_MEMORY_SHARED, l.pinned_bytes);
  if (d->pinned)
    d->memory = rondo_cuda_alloc(&d->device->base, RONDO_MEMORY_DEVICE, l.device_bytes);
  if (!d->memory)
    return RONDO_ERR_NO_MEMORY;
  uint64_t base = (uint64_t)(uintptr_t)d->memory;
  l = layout_make((uint64_t)(uintptr_t)d->pinned, base, keeps_times, r);
  daemon_fill_pinned(d, &l, r);
  daemon_fill_launch(d, &l, r->cfg);
  int status = image_write(d->device, &l, r, base);
  return status == RONDO_SUCCESS ? daemon_create_streams(d) : status;
}

int rondo_cuda_create(struct rondo_device *device, const struct rondo_daemon_request *request,
                      struct rondo_daemon **daemon) {
  const struct rondo_config *cfg = request->cfg;
  struct rondo_cuda_daemon *d = rondo_memory_alloc(sizeof *d);
  if (!d)
    return RONDO_ERR_NO_MEMORY;
  if (!rondo_cuda_try_add_blocks(rondo_cuda_device_of(device), cfg->blocks, cfg->multiprocessors)) {
    snprintf(request->why, RONDO_WHY_BYTES,
             "with its %u blocks the daemons on device %d would take more than %u multiprocessors",
             cfg->blocks, cfg->device, cfg->multiprocessors);
    rondo_memory_free(d);
    return RONDO_ERR_FULL;
  }
  rondo_daemon_init(&d->base, device, request);
  d->device = rondo_cuda_device_of(device);
  d->block_count = cfg->blocks;
  d->threads = cfg->threads;
  d->restart_min_ns = d->pause_ns = cfg->tuning.restart_min_ns;
  d->restart_max_ns = cfg->tuning.restart_max_ns;
  int status = daemon_create_parts(d, request);
  if (status == RONDO_SUCCESS)
    *daemon = &d->base;
  else
    rondo_cuda_destroy(&d->base);
  return status;
}

static void daemon_destroy_streams(const struct rondo_cuda_daemon *d) {
  const struct rondo_cuda_api *api = d->device->api;
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS; i++)
    if (d->streams[i])
      (void)api->stream_destroy(d->streams[i]);
  for (uint32_t i = 0; i < RONDO_CUDA_TIES; i++) {
    if (d->launch_streams[i].handle)
      (void)api->stream_destroy(d->launch_streams[i].handle);
    if (d->launch_streams[i].reached)
      (void)api->event_destroy(d->launch_streams[i].reached);
  }
}

void rondo_cuda_destroy(struct rondo_daemon *base) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  struct rondo_cuda_device *device = d->device;
  if (d->is_lost) {
    rondo_cuda_retain(&device->base); // the kernel or the inspector may still use this memory
    return;
  }
  daemon_destroy_streams(d);
  rondo_cuda_free(&device->base, RONDO_MEMORY_DEVICE, d->memory);
  rondo_cuda_free(&device->base, RONDO_MEMORY_SHARED, d->pinned);
  rondo_cuda_remove_blocks(device, d->block_count);
  rondo_memory_free(d);
}

int rondo_cuda_read_times(struct rondo_daemon *base, uint32_t block, struct rondo_times *out) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  if (!d->times || block >= d->block_count)
    return RONDO_ERR_UNSUPPORTED;
  return rondo_cuda_read(base->device, out, d->times + block * sizeof *out, sizeof *out);
}
