// The host driver's table, and the memory of a daemon.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/memory.h"
#include "daemon/host/host_device.h"
#include "daemon/host/host.h"

#define OWN_ATTEMPTS 2000 // to own a block before try_inspect gives up
// The longest pause is that many times restart_max_ns: a block is started at once when its
// collectives can move, so other starts are a second line of defence.
#define RESTART_PAUSES 100u

static struct rondo_device the_device = {&rondo_host_driver};

// ------------------------------------------------------------------ queues ---

static size_t round_to_lines(size_t bytes) { return rondo_round_up(bytes, RONDO_LINE_BYTES); }

// Takes the next piece of memory at `at`.
static void *memory_carve(char **at, size_t bytes) {
  void *piece = *at;
  *at += round_to_lines(bytes);
  return piece;
}

// Initialises the queue to one block: ring, producer and consumer.
static void queues_init_sq(char **at, const struct rondo_daemon_request *r,
                           struct rondo_sq_producer *producer, struct rondo_sq_consumer *consumer) {
  struct rondo_sq_ring *ring = memory_carve(at, rondo_sq_ring_bytes(r->sq_entries));
  uint64_t address = (uint64_t)(uintptr_t)ring;
  rondo_sq_ring_init(ring, r->sq_entries, r->first_sequence);
  rondo_sq_producer_init(producer, address, r->sq_entries, r->first_sequence);
  rondo_sq_consumer_init(consumer, address, r->sq_entries, r->first_sequence);
}

// Creates the queues. Writes the consumers of the queues to the blocks to `sources`.
static int queues_create(struct rondo_host_daemon *d, const struct rondo_daemon_request *r,
                         struct rondo_sq_consumer *sources) {
  uint32_t blocks = d->core.block_count;
  size_t inboxes_bytes = blocks * sizeof *d->core.inboxes;
  size_t bytes = round_to_lines(rondo_cq_ring_bytes(r->cq_entries)) + sizeof *d->core.cq +
                 round_to_lines(inboxes_bytes) +
                 blocks * round_to_lines(rondo_sq_ring_bytes(r->sq_entries));
  d->queues = rondo_memory_alloc(bytes);
  if (!d->queues)
    return RONDO_ERR_NO_MEMORY;
  char *at = d->queues;
  struct rondo_cq_ring *ring = memory_carve(&at, rondo_cq_ring_bytes(r->cq_entries));
  uint64_t address = (uint64_t)(uintptr_t)ring;
  d->core.cq = memory_carve(&at, sizeof *d->core.cq);
  d->core.inboxes = memory_carve(&at, inboxes_bytes);
  rondo_cq_ring_init(ring, r->cq_entries, r->first_sequence);
  rondo_cq_producers_init(d->core.cq, address, r->cq_entries, r->first_sequence);
  rondo_cq_consumer_init(&d->base.cq, address, r->cq_entries);
  for (uint32_t b = 0; b < blocks; b++)
    queues_init_sq(&at, r, b == 0 ? &d->base.sq : &d->core.inboxes[b], &sources[b]);
  return RONDO_SUCCESS;
}

// ------------------------------------------------------------------ daemons --

// Gives the blocks their tallies. Pages that no block writes take no memory.
static int tallies_create(struct rondo_host_daemon *d, uint32_t capacity) {
  d->base.tallies = calloc((size_t)d->core.block_count * capacity, sizeof *d->base.tallies);
  d->base.tally_capacity = capacity;
  if (!d->base.tallies)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t b = 0; b < d->core.block_count; b++)
    d->blocks[b].core.tallies = (uint64_t)(uintptr_t)(d->base.tallies + (size_t)b * capacity);
  return RONDO_SUCCESS;
}

static void host_destroy(struct rondo_daemon *base) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  free(d->base.tallies);
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
  int status = queues_create(d, request, sources);
  if (status == RONDO_SUCCESS)
    status = rondo_host_blocks_create(d, sources, request->cfg->max_collectives);
  if (status == RONDO_SUCCESS && request->cfg->collective_counters)
    status = tallies_create(d, request->cfg->max_collectives);
  if (status == RONDO_SUCCESS)
    *daemon = &d->base;
  else
    host_destroy(&d->base);
  return status;
}

// --------------------------------------------------------------- inspection --

static bool block_own(struct rondo_host_block *block) {
  for (int i = 0; i < OWN_ATTEMPTS; i++) {
    if (rondo_host_block_try_own(block))
      return true;
    sched_yield();
  }
  return false;
}

static bool block_inspect(const struct rondo_block *b, uint32_t index,
                          struct rondo_block_view *view) {
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  const struct rondo_task_context *c = rondo_table_context(b->daemon->table, index, b->index);
  bool is_active = slot && slot->context.fixed.generation == c->fixed.generation;
  if (is_active)
    c = &slot->context;
  if (c->state.phase == RONDO_PHASE_IDLE)
    return false;
  view->state = c->state;
  view->is_scheduled =
      b->queue.count > 0 && rondo_task_index(rondo_task_queue_current(&b->queue)) == index;
  uint64_t now_ns = rondo_now_ns();
  uint64_t since_ns = b->last_progress_ns;
  if (is_active && slot->blocked_since_ns && slot->blocked_since_ns < since_ns)
    since_ns = slot->blocked_since_ns;
  view->waiting_ns = now_ns > since_ns ? now_ns - since_ns : 0;
  view->has_data = c->state.phase == RONDO_PHASE_OPS &&
                   (rondo_context_op(c)->primitive & RONDO_PRIM_RECV) &&
                   rondo_connector_try_peek(rondo_context_recv(c));
  return true;
}

static bool host_try_inspect(struct rondo_daemon *base, uint32_t index_of_block, uint32_t index,
                             struct rondo_block_view *view) {
  struct rondo_host_block *block = &rondo_host_daemon_of(base)->blocks[index_of_block];
  if (!block_own(block))
    return false;
  bool found = block_inspect(&block->core, index, view);
  rondo_host_block_disown(block);
  return found;
}

static uint64_t host_ready_byte(const struct rondo_daemon *base, uint32_t block) {
  const struct rondo_host_daemon *d = (const struct rondo_host_daemon *)base;
  return rondo_host_has_ready_bytes() ? (uint64_t)(uintptr_t)d->blocks[block].ready : 0;
}

static uint64_t host_moved_byte(struct rondo_daemon *base, uint32_t index, uint32_t process) {
  struct rondo_host_block *block = &rondo_host_daemon_of(base)->blocks[index];
  uint64_t moved = rondo_load_relaxed_u64(&block->moved);
  if (!moved) {
    moved = (uint64_t)(uintptr_t)calloc(
        1, rondo_event_counts_moved_bytes(base->event_counts->capacity));
    rondo_store_release_u64(&block->moved, moved);
  }
  return moved ? moved + process : 0;
}

static void host_read_counters(struct rondo_daemon *base, struct rondo_daemon_counters *c) {
  const struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  memset(c, 0, sizeof *c);
  for (uint32_t b = 0; b < d->core.block_count; b++) {
    rondo_daemon_counters_add(c, &d->blocks[b].core.counters);
    c->helped += rondo_load_relaxed_u64(&d->blocks[b].helped);
  }
  c->starts = rondo_load_relaxed_u64(&d->starts);
}

// ------------------------------------------------------------------- device --

static void host_complete_config(struct rondo_config *cfg) {
  if (!cfg->blocks)
    cfg->blocks = 1;
  if (!cfg->workers)
    cfg->workers = rondo_cores_count();
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
                                               .is_direct = true,
                                               .complete_config = host_complete_config,
                                               .open = host_open,
                                               .close = host_close,
                                               .alloc = host_alloc,
                                               .free = host_free,
                                               .write = host_write,
                                               .read = host_read,
                                               .copy = host_copy,
                                               .set_local_ranks = rondo_host_set_local_ranks,
                                               .count_competing = rondo_host_count_competing,
                                               .set_competing = rondo_host_set_competing,
                                               .create = host_create,
                                               .destroy = host_destroy,
                                               .attach = rondo_host_attach,
                                               .detach = rondo_host_detach,
                                               .notify_submission = rondo_host_notify_submission,
                                               .submit_inline = rondo_host_submit_inline,
                                               .poll_inline = rondo_host_poll_inline,
                                               .poll = rondo_host_poll,
                                               .notify_completion = rondo_host_notify_completion,
                                               .notify_arrival = rondo_host_notify_arrival,
                                               .wait = rondo_host_wait,
                                               .synchronize = rondo_host_synchronize,
                                               .use_flags = rondo_host_use_flags,
                                               .ready_byte = host_ready_byte,
                                               .moved_byte = host_moved_byte,
                                               .try_inspect = host_try_inspect,
                                               .read_counters = host_read_counters};
