// The life of a context.
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/api/group.h"
#include "runtime/api/rank.h"
#include "runtime/memory/memory.h"
#include "runtime/observe/log.h"
#include "runtime/observe/report.h"

// After an abort every run ends as soon as no peer is reading a buffer: far within this.
#define ABORT_BOUND_NS INT64_C(10000000000)

// ------------------------------------------------------------------- making ---

static size_t in_lines(size_t bytes) {
  return (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
}

// Takes the next piece of the memory at `at`.
static void *carve(char **at, size_t bytes) {
  void *piece = *at;
  *at += in_lines(bytes);
  return piece;
}

// A queue to block `block`: its ring, and the halves of its two sides.
static void make_sq(struct rondo_rank *rank, char **at, struct rondo_sq_producer *producer,
                    struct rondo_sq_consumer *consumer) {
  uint32_t entries = rank->manual.sq_entries ? rank->manual.sq_entries : RONDO_SQ_ENTRIES;
  uint32_t first = rank->manual.first_sequence;
  struct rondo_sq_ring *ring = carve(at, rondo_sq_ring_bytes(entries));
  rondo_sq_ring_init(ring, entries, first);
  rondo_sq_producer_init(producer, (uint64_t)(uintptr_t)ring, entries, first);
  rondo_sq_consumer_init(consumer, (uint64_t)(uintptr_t)ring, entries, first);
}

// Makes the queues; the consumers' halves of those to the blocks are written to `sources`.
static int make_queues(struct rondo_rank *rank, struct rondo_sq_consumer *sources) {
  struct rondo_host_daemon *d = &rank->daemon;
  const struct rondo_manual *m = &rank->manual;
  uint32_t blocks = d->core.block_count;
  uint32_t sq_entries = m->sq_entries ? m->sq_entries : RONDO_SQ_ENTRIES;
  uint32_t cq_entries = m->cq_entries ? m->cq_entries : RONDO_CQ_ENTRIES;
  size_t inboxes_bytes = blocks * sizeof *d->core.inboxes;
  size_t bytes = in_lines(rondo_cq_ring_bytes(cq_entries)) + sizeof *d->core.cq +
                 in_lines(inboxes_bytes) + blocks * in_lines(rondo_sq_ring_bytes(sq_entries));
  d->queues = rondo_memory_alloc(bytes);
  if (!d->queues)
    return RONDO_ERR_NO_MEMORY;
  char *at = d->queues;
  struct rondo_cq_ring *ring = carve(&at, rondo_cq_ring_bytes(cq_entries));
  d->core.cq = carve(&at, sizeof *d->core.cq);
  d->core.inboxes = carve(&at, inboxes_bytes);
  rondo_cq_ring_init(ring, cq_entries, m->first_sequence);
  rondo_cq_producers_init(d->core.cq, (uint64_t)(uintptr_t)ring, cq_entries, m->first_sequence);
  rondo_cq_consumer_init(&d->cq, (uint64_t)(uintptr_t)ring, cq_entries);
  for (uint32_t b = 0; b < blocks; b++)
    make_sq(rank, &at, b == 0 ? &d->sq : &d->core.inboxes[b], &sources[b]);
  return RONDO_SUCCESS;
}

static int make_daemon(struct rondo_rank *rank) {
  struct rondo_host_daemon *d = &rank->daemon;
  const struct rondo_tuning *t = &rank->cfg.tuning;
  struct rondo_policy policy = {.order = (uint8_t)rank->cfg.order,
                                .budget = (uint8_t)rank->cfg.budget,
                                .success_factor = t->success_factor,
                                .front_budget_ns = t->front_budget_ns,
                                .min_budget_ns = t->min_budget_ns,
                                .max_budget_ns = t->max_budget_ns};
  struct rondo_sq_consumer sources[RONDO_MAX_BLOCKS];
  d->core.table = &rank->table;
  d->core.exit = &d->exit;
  d->core.policy = policy;
  d->core.quit_period_ns = t->quit_period_ns;
  d->core.residency_ns = t->residency_ns;
  d->core.block_count = rank->cfg.blocks;
  d->restart_min_ns = t->restart_min_ns;
  d->restart_max_ns = t->restart_max_ns;
  d->service = rondo_rank_service;
  d->needs_service = rondo_rank_needs_service;
  d->owner = rank;
  int status = make_queues(rank, sources);
  if (status == RONDO_SUCCESS)
    status = rondo_host_blocks_create(d, sources, rank->cfg.max_collectives);
  return status;
}

static void rank_free(struct rondo_rank *rank) {
  rondo_host_blocks_destroy(&rank->daemon);
  rondo_memory_free(rank->daemon.queues);
  for (uint32_t i = 0; i < RONDO_TABLE_PAGES; i++) {
    rondo_memory_free(rank->pages[i]);
    rondo_memory_free((void *)(uintptr_t)rank->table.pages[i]);
  }
  while (rank->free_records) {
    struct rondo_run_record *record = rank->free_records;
    rank->free_records = record->next;
    free(record);
  }
  rondo_groups_free(rank);
  if (rank->event_fd >= 0)
    close(rank->event_fd);
  pthread_mutex_destroy(&rank->lock);
  rondo_memory_free(rank);
}

static int attach(struct rondo_rank *rank) {
  const struct rondo_config *c = &rank->cfg;
  int status = rondo_host_device_get(c->workers);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: the system gives no worker thread");
  uint32_t first = c->first_worker >= 0 ? (uint32_t)c->first_worker : c->rank * c->blocks;
  status = rondo_host_attach(&rank->daemon, first, c->workers);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: no memory");
  return RONDO_SUCCESS;
}

// Joins the job and, unless manual, the device; takes a handle.
static int enlist(struct rondo_rank *rank, uint64_t *handle) {
  int status = rondo_world_join(&rank->cfg, rank, &rank->world);
  if (status != RONDO_SUCCESS)
    return status;
  if (!rank->is_manual)
    status = attach(rank);
  if (status == RONDO_SUCCESS) {
    *handle = rondo_handle_create(rank);
    if (*handle)
      return RONDO_SUCCESS;
    if (!rank->is_manual)
      rondo_host_detach(&rank->daemon);
    status = RONDO_LOG_REFUSE(RONDO_ERR_FULL, "init: the process has its most, %u contexts",
                              RONDO_MAX_CONTEXTS);
  }
  rondo_world_leave(rank->world, rank->cfg.rank);
  return status;
}

int rondo_rank_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                      const struct rondo_manual *manual) {
  struct rondo_config resolved;
  if (!ctx || !cfg)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: a null argument");
  resolved = *cfg;
  int status = rondo_config_complete(&resolved);
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_rank *rank = rondo_memory_alloc(sizeof *rank);
  if (!rank)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a context");
  rank->cfg = resolved;
  rank->is_manual = manual != NULL;
  if (manual)
    rank->manual = *manual;
  rank->event_fd = -1;
  pthread_mutex_init(&rank->lock, NULL);
  rondo_callbacks_init(&rank->callbacks, manual != NULL);
  status = make_daemon(rank);
  if (status != RONDO_SUCCESS)
    (void)RONDO_LOG_REFUSE(status, "init: no memory for queues");
  else
    status = enlist(rank, &ctx->handle);
  if (status != RONDO_SUCCESS) {
    rondo_callbacks_fini(&rank->callbacks);
    rank_free(rank);
  }
  return status;
}

int rondo_init(struct rondo_context *ctx, const struct rondo_config *cfg) {
  int status = rondo_rank_create(ctx, cfg, NULL);
  if (status == RONDO_SUCCESS)
    rondo_report_on_signal();
  return status;
}

// -------------------------------------------------------------------- ending ---

// Fails the communicators of every registered collective of this rank.
static void abort_all(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->world->lock);
  pthread_mutex_lock(&rank->lock);
  for (uint32_t i = 0; i < rank->coll_slots; i++) {
    struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      rondo_communicator_fail(coll->party.comm, RONDO_ERR_ABORTED, rank->cfg.rank);
  }
  pthread_mutex_unlock(&rank->lock);
  pthread_mutex_unlock(&rank->world->lock);
}

int rondo_abort(struct rondo_context ctx) {
  struct rondo_rank *rank;
  int status = rondo_rank_enter(ctx, "abort", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  abort_all(rank);
  if (!rank->is_manual)
    rondo_host_kick(&rank->daemon, 1);
  rondo_rank_exit(ctx);
  return RONDO_SUCCESS;
}

static int is_idle(void *arg) {
  struct rondo_rank *rank = arg;
  return rondo_load_seq_cst_u64(&rank->daemon.outstanding) == 0;
}

static int help_until_idle(struct rondo_rank *rank, int64_t timeout_ns) {
  uint64_t now_ns = rondo_host_now_ns();
  if (rank->is_manual || timeout_ns <= 0)
    return is_idle(rank);
  return rondo_host_help(&rank->daemon, is_idle, rank, now_ns + (uint64_t)timeout_ns);
}

// Other threads are about to leave: they see `closing` and return.
static void await_users(struct rondo_context ctx) {
  const struct timespec pause = {0, 50000};
  while (rondo_rank_users(ctx) > 1)
    nanosleep(&pause, NULL);
}

static void free_node(void *node) { (void)node; }

static void dismantle(struct rondo_context ctx, struct rondo_rank *rank) {
  rondo_store_release_u32(&rank->daemon.exit, 1);
  rondo_callbacks_fini(&rank->callbacks);
  if (!rank->is_manual)
    rondo_host_detach(&rank->daemon);
  await_users(ctx);
  for (uint32_t i = 0; i < rank->coll_slots; i++) {
    struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      rondo_coll_remove(rank, coll);
  }
  tdestroy(rank->by_id, free_node);
  rondo_world_leave(rank->world, rank->cfg.rank);
  rondo_handle_destroy(ctx.handle);
  rondo_rank_exit(ctx);
  rank_free(rank);
}

int rondo_destroy(struct rondo_context ctx, int mode, int64_t timeout_ns) {
  struct rondo_rank *rank;
  if (mode != RONDO_DESTROY_DRAIN && mode != RONDO_DESTROY_ABORT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "destroy: mode %d is none", mode);
  if (rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "destroy: a callback may not destroy a context");
  int status = rondo_rank_close(ctx, &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (mode == RONDO_DESTROY_DRAIN && !help_until_idle(rank, timeout_ns)) {
    rondo_log(RONDO_LOG_WARN, "destroy: rank %u: runs did not end in time and are aborted",
              rank->cfg.rank);
    status = RONDO_ERR_TIMEOUT;
  }
  rondo_store_seq_cst_u32(&rank->closing, 1);
  if (!is_idle(rank)) {
    abort_all(rank);
    if (!help_until_idle(rank, ABORT_BOUND_NS))
      return RONDO_LOG_REFUSE(RONDO_ERR_INTERNAL,
                              "destroy: rank %u: aborted runs did not end; the context is kept",
                              rank->cfg.rank);
  }
  dismantle(ctx, rank);
  return status;
}
