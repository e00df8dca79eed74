// The host driver as the runtime sees it: its table, and what a daemon is made of.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/host/device.h"
#include "daemon/host/host.h"

#define OWN_ATTEMPTS 2000 // of a look, before the block is left alone
// A block is started at once when its collectives can move: other starts are a second line of
// defence.
#define RESTART_PAUSES 100u

static struct rondo_device the_device = {&rondo_host_driver};

// ------------------------------------------------------------------ queues ---

static size_t in_lines(size_t bytes) {
  return (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
}

// Takes the next piece of the memory at `at`.
static void *carve(char **at, size_t bytes) {
  void *piece = *at;
  *at += in_lines(bytes);
  return piece;
}

// A queue to one block: its ring, and the halves of its two sides.
static void make_sq(char **at, const struct rondo_daemon_request *r,
                    struct rondo_sq_producer *producer, struct rondo_sq_consumer *consumer) {
  struct rondo_sq_ring *ring = carve(at, rondo_sq_ring_bytes(r->sq_entries));
  uint64_t address = (uint64_t)(uintptr_t)ring;
  rondo_sq_ring_init(ring, r->sq_entries, r->first_sequence);
  rondo_sq_producer_init(producer, address, r->sq_entries, r->first_sequence);
  rondo_sq_consumer_init(consumer, address, r->sq_entries, r->first_sequence);
}

// Makes the queues; the consumers' halves of those to the blocks are written to `sources`.
static int make_queues(struct rondo_host_daemon *d, const struct rondo_daemon_request *r,
                       struct rondo_sq_consumer *sources) {
  uint32_t blocks = d->core.block_count;
  size_t inboxes_bytes = blocks * sizeof *d->core.inboxes;
  size_t bytes = in_lines(rondo_cq_ring_bytes(r->cq_entries)) + sizeof *d->core.cq +
                 in_lines(inboxes_bytes) + blocks * in_lines(rondo_sq_ring_bytes(r->sq_entries));
  d->queues = rondo_memory_alloc(bytes);
  if (!d->queues)
    return RONDO_ERR_NO_MEMORY;
  char *at = d->queues;
  struct rondo_cq_ring *ring = carve(&at, rondo_cq_ring_bytes(r->cq_entries));
  uint64_t address = (uint64_t)(uintptr_t)ring;
  d->core.cq = carve(&at, sizeof *d->core.cq);
  d->core.inboxes = carve(&at, inboxes_bytes);
  rondo_cq_ring_init(ring, r->cq_entries, r->first_sequence);
  rondo_cq_producers_init(d->core.cq, address, r->cq_entries, r->first_sequence);
  rondo_cq_consumer_init(&d->base.cq, address, r->cq_entries);
  for (uint32_t b = 0; b < blocks; b++)
    make_sq(&at, r, b == 0 ? &d->base.sq : &d->core.inboxes[b], &sources[b]);
  return RONDO_SUCCESS;
}

// ------------------------------------------------------------------ daemons --

static void host_destroy(struct rondo_daemon *base) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  rondo_host_blocks_destroy(d);
  rondo_memory_free(d->queues);
  rondo_memory_free(d);
}

static int host_create(struct rondo_device *device, const struct rondo_daemon_request *request,
                       struct rondo_daemon **daemon) {
  struct rondo_sq_consumer sources[RONDO_MAX_BLOCKS];
  struct rondo_host_daemon *d = rondo_memory_alloc(sizeof *d);
  if (!d)
    return RONDO_ERR_NO_MEMORY;
  rondo_daemon_init(&d->base, device, request);
  rondo_daemon_core_configure(&d->core, request->cfg);
  d->base.table = (uint64_t)(uintptr_t)&d->table;
  d->base.exit = &d->exit;
  d->core.table = &d->table;
  d->core.exit = &d->exit;
  d->restart_min_ns = request->cfg->tuning.restart_min_ns;
  d->restart_max_ns = RESTART_PAUSES * request->cfg->tuning.restart_max_ns;
  int status = make_queues(d, request, sources);
  if (status == RONDO_SUCCESS)
    status = rondo_host_blocks_create(d, sources, request->cfg->max_collectives);
  if (status == RONDO_SUCCESS)
    *daemon = &d->base;
  else
    host_destroy(&d->base);
  return status;
}

static int host_attach(struct rondo_daemon *base, const struct rondo_config *cfg) {
  int status = rondo_host_device_get(cfg->workers);
  uint32_t first = cfg->first_worker >= 0 ? (uint32_t)cfg->first_worker : cfg->rank * cfg->blocks;
  if (status == RONDO_SUCCESS)
    status = rondo_host_attach(rondo_host_daemon_of(base), first, cfg->workers);
  return status;
}

static void host_detach(struct rondo_daemon *base) {
  rondo_host_detach(rondo_host_daemon_of(base));
}

// --------------------------------------------------------------- looking on --

static int own_block(struct rondo_host_block *block) {
  for (int i = 0; i < OWN_ATTEMPTS; i++) {
    if (rondo_host_try_own(block))
      return 1;
    sched_yield();
  }
  return 0;
}

static int look_at(const struct rondo_block *b, uint32_t index, struct rondo_look *look) {
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  const struct rondo_task_context *c = rondo_table_context(b->daemon->table, index, b->index);
  int active = slot && slot->context.fixed.generation == c->fixed.generation;
  if (active)
    c = &slot->context;
  if (c->state.phase == RONDO_PHASE_IDLE)
    return 0;
  look->state = c->state;
  look->is_scheduled =
      b->queue.count > 0 && rondo_task_index(rondo_task_queue_current(&b->queue)) == index;
  uint64_t now_ns = rondo_now_ns();
  uint64_t since_ns = b->last_progress_ns;
  if (active && slot->blocked_since_ns && slot->blocked_since_ns < since_ns)
    since_ns = slot->blocked_since_ns;
  look->waiting_ns = now_ns > since_ns ? now_ns - since_ns : 0;
  look->has_data = c->state.phase == RONDO_PHASE_OPS &&
                   (rondo_context_op(c)->primitive & RONDO_PRIM_RECV) &&
                   rondo_connector_try_peek(&c->state.recv);
  return 1;
}

static int host_look(struct rondo_daemon *base, uint32_t index_of_block, uint32_t index,
                     struct rondo_look *look) {
  struct rondo_host_block *block = &rondo_host_daemon_of(base)->blocks[index_of_block];
  if (!own_block(block))
    return 0;
  int found = look_at(&block->core, index, look);
  rondo_host_disown(block);
  return found;
}

static uint64_t host_ready_at(const struct rondo_daemon *base, uint32_t block) {
  const struct rondo_host_daemon *d = (const struct rondo_host_daemon *)base;
  return rondo_host_is_told() ? (uint64_t)(uintptr_t)d->blocks[block].ready : 0;
}

static uint64_t host_ring_at(struct rondo_daemon *base, uint32_t index, uint32_t bell) {
  struct rondo_host_block *block = &rondo_host_daemon_of(base)->blocks[index];
  uint64_t moved = rondo_load_relaxed_u64(&block->moved);
  if (!moved) {
    moved = (uint64_t)(uintptr_t)calloc(1, rondo_bells_moved_bytes(base->bells->capacity));
    rondo_store_release_u64(&block->moved, moved);
  }
  return moved ? moved + bell : 0;
}

static void host_count(struct rondo_daemon *base, struct rondo_daemon_counters *c) {
  const struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  memset(c, 0, sizeof *c);
  for (uint32_t b = 0; b < d->core.block_count; b++) {
    rondo_daemon_counters_add(c, &d->blocks[b].core.counters);
    c->helped += rondo_load_relaxed_u64(&d->blocks[b].helped);
  }
  c->starts = rondo_load_relaxed_u64(&d->starts);
}

// ------------------------------------------------------------------- device --

static void host_complete(struct rondo_config *cfg) {
  if (!cfg->blocks)
    cfg->blocks = 1;
  if (!cfg->workers)
    cfg->workers = rondo_host_cores();
}

static int host_open(const struct rondo_config *cfg, struct rondo_device **device, char *why) {
  (void)cfg, (void)why;
  *device = &the_device;
  return RONDO_SUCCESS;
}

static void host_close(struct rondo_device *device) { (void)device; }

static void *host_alloc(struct rondo_device *device, int kind, uint64_t bytes) {
  (void)device, (void)kind;
  return rondo_memory_alloc(bytes);
}

static void host_free(struct rondo_device *device, int kind, void *memory) {
  (void)device, (void)kind;
  rondo_memory_free(memory);
}

static int host_write(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes) {
  (void)device;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return RONDO_SUCCESS;
}

static int host_read(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes) {
  (void)device;
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return RONDO_SUCCESS;
}

static int host_copy(struct rondo_device *device, void *dst, const void *src, uint64_t bytes) {
  (void)device;
  memcpy(dst, src, bytes);
  return RONDO_SUCCESS;
}

const struct rondo_driver rondo_host_driver = {.name = "host",
                                               .is_direct = 1,
                                               .complete = host_complete,
                                               .open = host_open,
                                               .close = host_close,
                                               .alloc = host_alloc,
                                               .free = host_free,
                                               .write = host_write,
                                               .read = host_read,
                                               .copy = host_copy,
                                               .crowd = rondo_host_crowd,
                                               .competitors = rondo_host_competitors,
                                               .compete = rondo_host_compete,
                                               .create = host_create,
                                               .destroy = host_destroy,
                                               .attach = host_attach,
                                               .detach = host_detach,
                                               .kick = rondo_host_kick,
                                               .begin = rondo_host_begin,
                                               .begun = rondo_host_begun,
                                               .assist = rondo_host_assist,
                                               .done = rondo_host_done,
                                               .stir = rondo_host_stir,
                                               .help = rondo_host_help,
                                               .synchronize = rondo_host_synchronize,
                                               .ready_at = host_ready_at,
                                               .ring_at = host_ring_at,
                                               .look = host_look,
                                               .count = host_count};
