// What the daemon of a rank on a CUDA device is made of, and where each part lies.
//
// Page-locked, because both sides use it: the rings of the submission and the completion queue, the
// word that ends the daemon, the status lines. Device memory, because only blocks use it, or much more
// often than the CPU: the other halves of the queues, the rings between blocks, the table, the
// homes of the blocks. The latter is built as an image and written at once.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/cuda/backend.h"

// A daemon whose policy never preempts never leaves; a GPU must not be lost to it.
#define NEVER_LEAVES_NS UINT64_C(60000000000)
#define LEAVING_SLACK_NS UINT64_C(10000000) // beyond its residency, for one step and the way home
#define STEP_MIN_NS 8u                      // no step is shorter: so many fit in the longest stay

static_assert(RONDO_MAX_THREADS == RONDO_CUDA_MAX_THREADS, "what the kernel is compiled for");

// Pieces of one stretch of memory, each on lines of its own.
struct cut {
  uint64_t base;
  uint64_t used;
};

static uint64_t cut_off(struct cut *c, uint64_t bytes) {
  uint64_t at = c->base + c->used;
  c->used += (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
  return at;
}

// Addresses of the parts.
struct layout {
  uint64_t exit, sq_ring, cq_ring, status; // page-locked
  uint64_t pinned_bytes;
  uint64_t core, cq, inboxes, rings, table, homes, times; // device
  uint64_t ring_bytes, home_bytes, device_bytes;
};

static struct layout lay_out(uint64_t pinned, uint64_t device, int keeps_times,
                             const struct rondo_daemon_request *r) {
  struct layout l;
  struct cut p = {pinned, 0};
  struct cut d = {device, 0};
  uint32_t blocks = r->cfg->blocks;
  l.exit = cut_off(&p, sizeof(uint32_t));
  l.sq_ring = cut_off(&p, rondo_sq_ring_bytes(r->sq_entries));
  l.cq_ring = cut_off(&p, rondo_cq_ring_bytes(r->cq_entries));
  l.status = cut_off(&p, blocks * sizeof(struct rondo_cuda_block_status));
  l.pinned_bytes = p.used;
  l.ring_bytes = rondo_sq_ring_bytes(r->sq_entries);
  l.home_bytes = rondo_cuda_home_bytes(r->cfg->max_collectives);
  l.core = cut_off(&d, sizeof(struct rondo_daemon_core));
  l.cq = cut_off(&d, sizeof(struct rondo_cq_producers));
  l.inboxes = cut_off(&d, blocks * sizeof(struct rondo_sq_producer));
  l.rings = cut_off(&d, blocks * l.ring_bytes);
  l.table = cut_off(&d, sizeof(struct rondo_device_table));
  l.homes = cut_off(&d, blocks * l.home_bytes);
  l.times = keeps_times ? cut_off(&d, blocks * sizeof(struct rondo_times)) : 0;
  l.device_bytes = d.used;
  return l;
}

// Where a part of device memory is in the image of it.
struct image {
  char *bytes;
  uint64_t base;
};

static void *in_image(const struct image *i, uint64_t address) {
  return i->bytes + (address - i->base);
}

// The core, as the blocks see it. Its policy is bounded by what the device demands.
static void fill_core(const struct rondo_cuda_device *device, const struct layout *l,
                      const struct rondo_daemon_request *r, struct rondo_daemon_core *core) {
  rondo_daemon_core_configure(core, r->cfg);
  core->inboxes = (struct rondo_sq_producer *)(uintptr_t)l->inboxes;
  core->cq = (struct rondo_cq_producers *)(uintptr_t)l->cq;
  core->table = (struct rondo_device_table *)(uintptr_t)l->table;
  core->exit = (uint32_t *)(uintptr_t)l->exit;
  if (!r->cfg->tuning.look_ns)
    core->policy.look_ns = RONDO_CUDA_LOOK_NS;
  if (device->residency_ns && device->residency_ns < core->residency_ns)
    core->residency_ns = device->residency_ns;
}

// Block `b`, its home, and the queue that it is fed from.
static void fill_block(const struct layout *l, const struct image *image,
                       const struct rondo_daemon_request *r, uint32_t b) {
  struct rondo_cuda_block_home *home = in_image(image, l->homes + b * l->home_bytes);
  uint64_t waits = l->homes + b * l->home_bytes + sizeof *home;
  uint64_t entries = waits + r->cfg->max_collectives * sizeof(struct rondo_wait);
  const struct rondo_block_tasks tasks = {.entries = (uint32_t *)(uintptr_t)entries,
                                          .waits = (struct rondo_wait *)(uintptr_t)waits,
                                          .capacity = r->cfg->max_collectives};
  struct rondo_sq_consumer source;
  uint64_t ring = b == 0 ? l->sq_ring : l->rings + b * l->ring_bytes;
  rondo_sq_consumer_init(&source, ring, r->sq_entries, r->first_sequence);
  rondo_block_init(&home->block, (const struct rondo_daemon_core *)(uintptr_t)l->core, &source, b,
                   &tasks);
  if (b == 0)
    return;
  // A ring is made of marks and holds no address: it may be made where it is not.
  rondo_sq_ring_init(in_image(image, ring), r->sq_entries, r->first_sequence);
  struct rondo_sq_producer *inbox = in_image(image, l->inboxes);
  rondo_sq_producer_init(&inbox[b], ring, r->sq_entries, r->first_sequence);
}

static int write_image(struct rondo_cuda_device *device, const struct layout *l,
                       const struct rondo_daemon_request *r, uint64_t base) {
  struct image image = {calloc(1, l->device_bytes), base};
  if (!image.bytes)
    return RONDO_ERR_NO_MEMORY;
  fill_core(device, l, r, in_image(&image, l->core));
  rondo_cq_producers_init(in_image(&image, l->cq), l->cq_ring, r->cq_entries, r->first_sequence);
  for (uint32_t b = 0; b < r->cfg->blocks; b++)
    fill_block(l, &image, r, b);
  int status = rondo_cuda_write(&device->base, base, image.bytes, l->device_bytes);
  free(image.bytes);
  return status;
}

static void fill_pinned(struct rondo_cuda_daemon *d, const struct layout *l,
                        const struct rondo_daemon_request *r) {
  rondo_sq_ring_init((struct rondo_sq_ring *)(uintptr_t)l->sq_ring, r->sq_entries,
                     r->first_sequence);
  rondo_sq_producer_init(&d->base.sq, l->sq_ring, r->sq_entries, r->first_sequence);
  rondo_cq_ring_init((struct rondo_cq_ring *)(uintptr_t)l->cq_ring, r->cq_entries,
                     r->first_sequence);
  rondo_cq_consumer_init(&d->base.cq, l->cq_ring, r->cq_entries);
  d->base.exit = (uint32_t *)(uintptr_t)l->exit;
  d->base.table = l->table;
  d->status = (struct rondo_cuda_block_status *)(uintptr_t)l->status;
}

static void fill_launch(struct rondo_cuda_daemon *d, const struct layout *l,
                        const struct rondo_config *cfg) {
  struct rondo_cuda_launch *launch = &d->launch;
  uint64_t residency_ns = cfg->tuning.residency_ns;
  uint64_t fits = (d->device->fast_bytes - sizeof(struct rondo_cuda_fast)) / sizeof(uint32_t);
  launch->homes = l->homes;
  launch->home_bytes = l->home_bytes;
  launch->status = l->status;
  launch->longest_ns =
      cfg->budget == RONDO_BUDGET_NEVER ? NEVER_LEAVES_NS : residency_ns + LEAVING_SLACK_NS;
  launch->max_steps = launch->longest_ns / STEP_MIN_NS;
  launch->block_count = cfg->blocks;
  launch->times = d->times = l->times;
  launch->fast_tasks = cfg->max_collectives < fits ? cfg->max_collectives : (uint32_t)fits;
}

static int make_streams(struct rondo_cuda_daemon *d) {
  const struct rondo_cuda_device *device = d->device;
  struct rondo_cuda_stay stay;
  CUresult result = rondo_cuda_enter(device, &stay);
  if (result != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS && result == CUDA_SUCCESS; i++)
    result = device->api->stream_create_with_priority(&d->streams[i], CU_STREAM_NON_BLOCKING,
                                                      device->priority);
  rondo_cuda_leave(&stay);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : RONDO_ERR_SYSTEM;
}

// Makes the parts of a daemon that is otherwise set up.
static int make_parts(struct rondo_cuda_daemon *d, const struct rondo_daemon_request *r) {
  int keeps_times = d->device->keeps_times;
  struct layout l = lay_out(0, 0, keeps_times, r);
  d->pinned = rondo_cuda_alloc(&d->device->base, RONDO_MEMORY_SHARED, l.pinned_bytes);
  if (d->pinned)
    d->memory = rondo_cuda_alloc(&d->device->base, RONDO_MEMORY_DEVICE, l.device_bytes);
  if (!d->memory)
    return RONDO_ERR_NO_MEMORY;
  uint64_t base = (uint64_t)(uintptr_t)d->memory;
  l = lay_out((uint64_t)(uintptr_t)d->pinned, base, keeps_times, r);
  fill_pinned(d, &l, r);
  fill_launch(d, &l, r->cfg);
  int status = write_image(d->device, &l, r, base);
  return status == RONDO_SUCCESS ? make_streams(d) : status;
}

int rondo_cuda_create(struct rondo_device *device, const struct rondo_daemon_request *request,
                      struct rondo_daemon **daemon) {
  const struct rondo_config *cfg = request->cfg;
  struct rondo_cuda_daemon *d = rondo_memory_alloc(sizeof *d);
  if (!d)
    return RONDO_ERR_NO_MEMORY;
  if (!rondo_cuda_take_blocks(rondo_cuda_device_of(device), cfg->blocks, cfg->multiprocessors)) {
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
  int status = make_parts(d, request);
  if (status == RONDO_SUCCESS)
    *daemon = &d->base;
  else
    rondo_cuda_destroy(&d->base);
  return status;
}

void rondo_cuda_destroy(struct rondo_daemon *base) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  struct rondo_cuda_device *device = d->device;
  if (d->is_lost) {
    rondo_cuda_keep(device); // the kernel that did not leave may still use all of it
    return;
  }
  for (uint32_t i = 0; i < RONDO_CUDA_STREAMS; i++)
    if (d->streams[i])
      (void)device->api->stream_destroy(d->streams[i]);
  rondo_cuda_free(&device->base, RONDO_MEMORY_DEVICE, d->memory);
  rondo_cuda_free(&device->base, RONDO_MEMORY_SHARED, d->pinned);
  rondo_cuda_give_blocks(device, d->block_count);
  rondo_memory_free(d);
}

int rondo_cuda_times(struct rondo_daemon *base, uint32_t block, struct rondo_times *out) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  if (!d->times || block >= d->block_count)
    return RONDO_ERR_UNSUPPORTED;
  return rondo_cuda_read(base->device, out, d->times + block * sizeof *out, sizeof *out);
}
