// Registering and deregistering collectives. Neither waits for another rank.
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "daemon/plan/build.h"
#include "runtime/job/match.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/group.h"
#include "runtime/rank/lending.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/stream.h"
#include "runtime/rank/submit.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/link_binding.h"

// Limit of a buffer's size. Sums of such sizes do not overflow.
#define MAX_BUFFER_BYTES (UINT64_C(1) << 60)

// Connectors get payload memory while they take less than this part of connector_bytes: 16 MiB of
// the default.
#define PAYLOAD_SHARE 256u

// More scratch than this is lent where payload memory is.
#define OWN_SCRATCH_BYTES 1024u

// ------------------------------------------------------------------- table ---

struct rondo_coll *rondo_coll_at(struct rondo_rank *rank, uint32_t index) {
  if (index >= rondo_load_acquire_u32(&rank->coll_slots))
    return NULL;
  return &rank->pages[index / RONDO_COLL_PAGE][index % RONDO_COLL_PAGE];
}

struct rondo_collective rondo_coll_handle(const struct rondo_coll *coll) {
  struct rondo_collective handle = {(uint64_t)coll->generation << 32 | coll->index};
  return handle;
}

struct rondo_coll *rondo_coll_find(struct rondo_rank *rank, struct rondo_collective handle) {
  uint32_t index = (uint32_t)handle.handle;
  uint32_t generation = (uint32_t)(handle.handle >> 32);
  struct rondo_coll *coll = generation % 2 ? rondo_coll_at(rank, index) : NULL;
  if (!coll)
    return NULL;
  return rondo_load_acquire_u32(&coll->generation) == generation ? coll : NULL;
}

struct rondo_coll *rondo_coll_hold(struct rondo_rank *rank, struct rondo_collective handle) {
  rondo_lock_take(&rank->lock);
  struct rondo_coll *coll = rondo_coll_find(rank, handle);
  if (coll)
    coll->holders++;
  rondo_lock_give(&rank->lock);
  return coll;
}

void rondo_coll_unhold(struct rondo_rank *rank, struct rondo_coll *coll) {
  rondo_lock_take(&rank->lock);
  coll->holders--;
  rondo_lock_give(&rank->lock);
}

struct rondo_coll *rondo_coll_find_logged(struct rondo_rank *rank, struct rondo_collective handle,
                                          const char *call) {
  struct rondo_coll *coll = rondo_coll_find(rank, handle);
  if (!coll)
    rondo_log(RONDO_LOG_ERROR, "%s: rank %u has no such collective", call, rank->cfg.rank);
  return coll;
}

// Memory for a page of this table, and of the daemon's.
struct table_page {
  struct rondo_coll *colls;
  void *on_device;
};

static void page_free(struct rondo_rank *rank, const struct table_page *page) {
  if (page->on_device)
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_DEVICE, page->on_device);
  rondo_memory_free(page->colls);
}

// Adds a page to this table. The rank's lock is held.
static void table_add_page(struct rondo_rank *rank, const struct table_page *page) {
  uint32_t at = rank->coll_slots / RONDO_COLL_PAGE;
  for (uint32_t i = RONDO_COLL_PAGE; i-- > 0;) {
    page->colls[i].index = at * RONDO_COLL_PAGE + i;
    page->colls[i].next = rank->free_colls;
    rank->free_colls = &page->colls[i];
  }
  rank->pages[at] = page->colls;
  rank->device_pages[at] = page->on_device;
  rondo_store_release_u32(&rank->coll_slots, rank->coll_slots + RONDO_COLL_PAGE);
}

// Adds a page of entries, unless another thread has added one meanwhile. No lock is held, because
// the driver may wait for the device.
static int table_grow(struct rondo_rank *rank) {
  const struct rondo_driver *driver = rank->member.device->driver;
  struct table_page page = {rondo_memory_alloc(RONDO_COLL_PAGE * sizeof *page.colls), NULL};
  if (page.colls)
    page.on_device = driver->alloc(rank->member.device, RONDO_MEMORY_DEVICE,
                                   RONDO_TABLE_PAGE * sizeof(struct rondo_device_collective));
  if (!page.on_device) {
    page_free(rank, &page);
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY,
                            "register: rank %u: no memory for more collectives", rank->cfg.rank);
  }
  rondo_lock_take(&rank->lock);
  bool is_needed = !rank->free_colls && rank->coll_slots / RONDO_COLL_PAGE < RONDO_TABLE_PAGES;
  if (is_needed)
    table_add_page(rank, &page);
  rondo_lock_give(&rank->lock);
  if (!is_needed)
    page_free(rank, &page);
  return RONDO_SUCCESS;
}

// Writes the address of a page to the daemon's table before the first of its entries is used. Two
// threads may write the same address at once, also while a block reads it: it is one word.
static int device_page_publish(struct rondo_rank *rank, uint32_t page) {
  uint64_t bit = UINT64_C(1) << page;
  if (rondo_load_acquire_u64(&rank->pages_on_device) & bit)
    return RONDO_SUCCESS;
  uint64_t address = (uint64_t)(uintptr_t)rank->device_pages[page];
  uint64_t at = rank->member.daemon->table + offsetof(struct rondo_device_table, pages) +
                page * sizeof address;
  int status =
      rank->member.device->driver->write(rank->member.device, at, &address, sizeof address);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_lock_take(&rank->lock);
  rondo_store_release_u64(&rank->pages_on_device, rank->pages_on_device | bit);
  rondo_lock_give(&rank->lock);
  return RONDO_SUCCESS;
}

static int coll_compare_ids(const void *a, const void *b) {
  return rondo_id_compare(((const struct rondo_coll *)a)->registration.id,
                          ((const struct rondo_coll *)b)->registration.id);
}

// The collective of an id, or null. Registration of that id may be incomplete: `generation` tells.
// The rank's lock is held.
static struct rondo_coll *coll_by_id(struct rondo_rank *rank, struct rondo_id id) {
  struct rondo_coll key = {.registration.id = id};
  struct rondo_coll **found = tfind(&key, &rank->by_id, coll_compare_ids);
  return found ? *found : NULL;
}

int rondo_rank_lookup(struct rondo_rank *rank, uint64_t id, struct rondo_collective *handle) {
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *coll =
      coll_by_id(rank, (struct rondo_id){.number = id, .space = RONDO_SPACE_USER});
  int is_known = coll && coll->generation % 2;
  if (is_known)
    *handle = rondo_coll_handle(coll);
  rondo_lock_give(&rank->lock);
  if (is_known)
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "lookup: rank %u has not registered id %llu",
                          rank->cfg.rank, (unsigned long long)id);
}

// ------------------------------------------------------------------ checks ---

static int desc_check(const struct rondo_collective_desc *d) {
  if (!d || d->size != sizeof *d || d->version != RONDO_COLLECTIVE_DESC_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "register: the descriptor is null or of another version");
  if (d->kind < 0 || d->kind >= RONDO_KIND_COUNT || !rondo_dtype_bytes(d->dtype) || d->redop < 0 ||
      d->redop >= RONDO_REDOP_COUNT || d->on_loss >= RONDO_ON_LOSS_COUNT ||
      d->quantisation >= RONDO_QUANTISATION_COUNT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "register: id %llu: kind %d, type %d, reduction %d, on_loss %u or "
                            "quantisation %u does not exist",
                            (unsigned long long)d->id, d->kind, d->dtype, d->redop, d->on_loss,
                            d->quantisation);
  bool can_quantise = d->kind == RONDO_ALL_REDUCE && d->dtype == RONDO_FLOAT32 &&
                      (d->redop == RONDO_SUM || d->redop == RONDO_AVG);
  if (d->quantisation && !can_quantise)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "register: id %llu: quantised messages are for an all-reduce of "
                            "float32 by sum or average, not for %s of %s by %s",
                            (unsigned long long)d->id, rondo_kind_name(d->kind),
                            rondo_dtype_name(d->dtype), rondo_redop_name(d->redop));
  if (!rondo_plan_reduces(d->kind) && d->redop != RONDO_SUM)
    return RONDO_LOG_REFUSE(
        RONDO_ERR_INVALID, "register: id %llu: %s does not reduce: its reduction must be RONDO_SUM",
        (unsigned long long)d->id, rondo_kind_name(d->kind));
  if ((d->kind == RONDO_BARRIER || d->kind == RONDO_ALL_TO_ALL_V) && d->count)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: the count of %s must be 0",
                            (unsigned long long)d->id, rondo_kind_name(d->kind));
  if (d->priority < RONDO_PRIORITY_MIN || d->priority > RONDO_PRIORITY_MAX || isnan(d->scalar))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "register: id %llu: priority %d or scalar %g out of range",
                            (unsigned long long)d->id, d->priority, d->scalar);
  return RONDO_SUCCESS;
}

// Refuses quantised messages where an algorithm is forced that cannot have them.
static int forced_check(const struct rondo_rank *rank, const struct rondo_collective_desc *d) {
  uint8_t forced =
      rondo_forced_find(&rank->forced, d->kind, d->count * rondo_dtype_bytes(d->dtype));
  if (!d->quantisation || !forced || rondo_plan_can_quantise(d->kind, forced - 1))
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(
      RONDO_ERR_UNSUPPORTED,
      "register: id %llu: RONDO_ALGO forces %s, which has no quantised messages",
      (unsigned long long)d->id, rondo_plan_algorithm_name(forced - 1));
}

static void coll_set_list(struct rondo_coll *coll, const struct rondo_member_list *list) {
  coll->registration.members = list->members;
  coll->registration.nranks = list->nranks;
}

// Replaces the group of a send-recv by its two ranks, the sender first.
static int pair_check(const struct rondo_rank *rank, struct rondo_coll *coll) {
  struct rondo_collective_desc *d = &coll->desc;
  struct rondo_registration *r = &coll->registration;
  if (d->peer >= r->nranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: peer %u of %u ranks",
                            (unsigned long long)d->id, d->peer, r->nranks);
  if (r->position != d->root && r->position != d->peer)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "register: id %llu: rank %u neither sends (position %u) nor receives "
                            "(position %u)",
                            (unsigned long long)d->id, rank->cfg.rank, d->root, d->peer);
  const uint32_t pair[2] = {r->members[d->root], r->members[d->peer]};
  const struct rondo_member_list *list =
      rondo_job_list(rank->job, pair, d->root == d->peer ? 1 : 2);
  if (!list)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: no memory");
  coll_set_list(coll, list);
  r->position = r->position != d->root;
  d->root = 0;
  d->peer = r->nranks - 1;
  return RONDO_SUCCESS;
}

static int group_check(const struct rondo_rank *rank, struct rondo_coll *coll) {
  const struct rondo_collective_desc *d = &coll->desc;
  struct rondo_registration *r = &coll->registration;
  r->position = UINT32_MAX;
  for (uint32_t i = 0; i < r->nranks; i++)
    if (r->members[i] == rank->cfg.rank)
      r->position = i;
  if (r->position == UINT32_MAX)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: rank %u is not in the group",
                            (unsigned long long)d->id, rank->cfg.rank);
  if (d->root >= r->nranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: root %u of %u ranks",
                            (unsigned long long)d->id, d->root, r->nranks);
  if (d->count > MAX_BUFFER_BYTES / r->nranks / rondo_dtype_bytes(d->dtype))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: count %llu is too large",
                            (unsigned long long)d->id, (unsigned long long)d->count);
  return d->kind == RONDO_SEND_RECV ? pair_check(rank, coll) : RONDO_SUCCESS;
}

// Copies the counts of an all-to-all-v, unless its runs have their own.
static int counts_check(struct rondo_coll *coll, const struct rondo_register_request *request) {
  struct rondo_collective_desc *d = &coll->desc;
  const struct rondo_registration *r = &coll->registration;
  if (d->kind != RONDO_ALL_TO_ALL_V || (request->run && request->run->exchange))
    return RONDO_SUCCESS;
  int status = rondo_exchange_make(d, r->nranks, r->position, &coll->exchange);
  if (status != RONDO_SUCCESS)
    return status;
  d->send_counts = coll->exchange->counts;
  d->recv_counts = coll->exchange->counts + r->nranks;
  d->send_displacements = d->recv_displacements = NULL; // the caller's; no longer needed
  return RONDO_SUCCESS;
}

static int table_check_room(struct rondo_rank *rank, struct rondo_id id) {
  if (coll_by_id(rank, id))
    return RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "register: rank %u has registered id %llu already",
                            rank->cfg.rank, (unsigned long long)id.number);
  if (rank->coll_count >= rank->cfg.max_collectives)
    return RONDO_LOG_REFUSE(RONDO_ERR_FULL,
                            "register: rank %u has %u collectives already (max_collectives)",
                            rank->cfg.rank, rank->cfg.max_collectives);
  if (!rank->free_colls && rank->coll_slots / RONDO_COLL_PAGE == RONDO_TABLE_PAGES)
    return RONDO_LOG_REFUSE(RONDO_ERR_FULL, "register: rank %u: its table is full", rank->cfg.rank);
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------- building ---

static uint8_t coll_find_used_buffers(const struct rondo_coll *coll) {
  int is_root = coll->registration.position == coll->desc.root;
  uint8_t not_empty = (uint8_t)((coll->send_bytes ? 1u : 0u) | (coll->recv_bytes ? 2u : 0u));
  switch (coll->desc.kind) {
  case RONDO_REDUCE:
  case RONDO_GATHER:
    return is_root ? not_empty : not_empty & 1;
  case RONDO_BROADCAST:
  case RONDO_SCATTER:
    return is_root ? not_empty : not_empty & 2;
  case RONDO_SEND_RECV:
    return coll->registration.nranks == 1 ? not_empty : not_empty & (is_root ? 1u : 2u);
  default:
    return not_empty;
  }
}

static void coll_set_buffers(struct rondo_coll *coll) {
  const struct rondo_collective_desc *d = &coll->desc;
  uint64_t bytes = d->count * rondo_dtype_bytes(d->dtype);
  uint64_t all_bytes = bytes * coll->registration.nranks;
  int exchanges = d->kind == RONDO_ALL_TO_ALL;
  int scatters = d->kind == RONDO_REDUCE_SCATTER || d->kind == RONDO_SCATTER;
  int gathers = d->kind == RONDO_ALL_GATHER || d->kind == RONDO_GATHER;
  coll->send_bytes = scatters || exchanges ? all_bytes : bytes;
  coll->recv_bytes = gathers || exchanges ? all_bytes : bytes;
  coll->in_place_bytes = scatters || gathers ? bytes * coll->registration.position : 0;
  if (coll->exchange) {
    coll->send_bytes = coll->exchange->send_bytes;
    coll->recv_bytes = coll->exchange->recv_bytes;
  }
  coll->used_buffers = coll_find_used_buffers(coll);
}

// Device memory of a collective: a context for each block; for each block the parts of an
// all-to-all-v; its struct rondo_own_memory, the ops of the plan and the order of its chunks; for
// each block the endpoints of its peers, which are written when the gate opens; scratch for each
// block. If the plan was not known at registration (`is_late`), a static part for each context
// follows the parts, and the rest is memory apart.

static uint64_t round_to_vectors(uint64_t bytes) {
  return (bytes + RONDO_CONTEXT_VECTOR_BYTES - 1) / RONDO_CONTEXT_VECTOR_BYTES *
         RONDO_CONTEXT_VECTOR_BYTES;
}

static uint64_t coll_parts_bytes(const struct rondo_coll *coll) {
  return coll->desc.kind == RONDO_ALL_TO_ALL_V ? rondo_listed_bytes(coll->registration.nranks) : 0;
}

static uint64_t coll_parts_offset(const struct rondo_coll *coll, uint32_t block) {
  return coll->block_count * sizeof(struct rondo_task_context) + block * coll_parts_bytes(coll);
}

// All before the ops.
static uint64_t coll_base_bytes(const struct rondo_coll *coll) {
  uint64_t late = coll->is_late ? coll->block_count * sizeof(struct rondo_context_static) : 0;
  return coll_parts_offset(coll, coll->block_count) + late;
}

static uint64_t coll_ops_bytes(const struct rondo_coll *coll) {
  return round_to_vectors(coll->plan->op_count * sizeof coll->plan->ops[0]);
}

// The head, the ops, and the order of chunks if the plan takes them by place.
static uint64_t coll_program_bytes(const struct rondo_coll *coll) {
  uint64_t order = coll->plan->by_place ? coll->plan->nranks * sizeof(uint32_t) : 0;
  return sizeof(struct rondo_own_memory) + coll_ops_bytes(coll) + round_to_vectors(order);
}

struct rondo_own_memory *rondo_coll_memory(const struct rondo_coll *coll) {
  char *program = coll->is_late ? coll->late : (char *)coll->contexts + coll_base_bytes(coll);
  return (struct rondo_own_memory *)(void *)program;
}

static struct rondo_shape_lent coll_shape_lent(const struct rondo_coll *coll) {
  const struct rondo_rank *rank = coll->registration.home;
  return rondo_shape_lent(&coll->registration.shape, coll->plan, !rank->job->membership);
}

// Of all blocks.
static uint64_t coll_scratch_bytes(const struct rondo_coll *coll) {
  return coll->block_count * rondo_shape_scratch_bytes(&coll->registration.shape, coll->plan);
}

// True if the scratch is lent, and not the collective's own.
static bool coll_borrows_scratch(const struct rondo_coll *coll) {
  return coll->registration.shape.payload_limit && coll_scratch_bytes(coll) > OWN_SCRATCH_BYTES;
}

// Notes what the collective borrows, once its plan is made.
static void coll_note_lent(struct rondo_coll *coll) {
  const struct rondo_shape_lent lent = coll_shape_lent(coll);
  coll->borrows_scratch = coll_borrows_scratch(coll);
  uint64_t scratch = coll->borrows_scratch ? coll_scratch_bytes(coll) : 0;
  coll->borrows = lent.bytes || scratch ? RONDO_BORROWS_MAYBE : RONDO_BORROWS_NOTHING;
  coll->lent_class = rondo_pool_class(scratch + lent.bytes);
}

static uint64_t coll_endpoint_bytes(const struct rondo_coll *coll) {
  uint64_t peers = rondo_plan_connector_count(coll->plan);
  return coll->block_count * peers * sizeof(struct rondo_endpoint);
}

// The address of the endpoints, behind a program that ends at `end`. Each is a cache line.
static uint64_t endpoints_place(uint64_t end) {
  return rondo_round_up(end, sizeof(struct rondo_endpoint));
}

// The endpoints and scratch, with room for the alignment of both.
static uint64_t coll_private_bytes(const struct rondo_coll *coll) {
  uint64_t scratch = coll_borrows_scratch(coll) ? 0 : coll_scratch_bytes(coll);
  return coll_endpoint_bytes(coll) + sizeof(struct rondo_endpoint) +
         (scratch ? scratch + RONDO_SCRATCH_ALIGN_BYTES : 0);
}

// Writes all three to zeroed memory. The place of the endpoints is known.
static void program_fill(const struct rondo_coll *coll, char *to) {
  const struct rondo_plan *plan = coll->plan;
  uint64_t end = coll->registration.endpoints + coll_endpoint_bytes(coll);
  struct rondo_own_memory own = {.slot_bytes = coll_shape_lent(coll).slot_bytes,
                                 .scratch_first = plan->scratch_first,
                                 .scratch_bytes =
                                     rondo_shape_scratch_bytes(&coll->registration.shape, plan),
                                 .recv_peer_count = (uint16_t)plan->recv.count,
                                 .round_chunks = (uint16_t)plan->round_chunks};
  if (coll->registration.gate_writes) {
    own.gate_writes = (uint64_t)(uintptr_t)coll->registration.gate_writes;
    own.gate_write_count = rondo_binding_gate_writes(plan);
  }
  if (!coll_borrows_scratch(coll))
    own.scratch = rondo_round_up(end, RONDO_SCRATCH_ALIGN_BYTES);
  memcpy(to, &own, sizeof own);
  to += sizeof own;
  memcpy(to, plan->ops, plan->op_count * sizeof plan->ops[0]);
  uint32_t *order = (uint32_t *)(void *)(to + coll_ops_bytes(coll));
  for (uint32_t i = 0; plan->by_place && i < plan->nranks; i++)
    order[i] = rondo_plan_topology_at(coll->registration.shape.topology,
                                      rondo_plan_lane_place(plan->nranks, plan->by_place, i));
}

// What is written at registration.
static uint64_t coll_image_bytes(const struct rondo_coll *coll) {
  return coll_base_bytes(coll) + (coll->is_late ? 0 : coll_program_bytes(coll));
}

// Fills what depends on the plan. `program`: the address of what program_fill writes.
static void plan_fill(const struct rondo_coll *coll, uint32_t block, uint64_t program,
                      struct rondo_context_static *fixed) {
  const struct rondo_registration *r = &coll->registration;
  const struct rondo_plan *plan = coll->plan;
  fixed->ops = program + sizeof(struct rondo_own_memory);
  fixed->geometry = rondo_shape_geometry(&r->shape, block);
  if (coll->desc.kind == RONDO_ALL_TO_ALL_V)
    fixed->geometry.listed = (uint64_t)(uintptr_t)coll->contexts + coll_parts_offset(coll, block);
  if (plan->by_place)
    fixed->geometry.order = fixed->ops + coll_ops_bytes(coll);
  fixed->op_count = (uint8_t)plan->op_count;
  fixed->first_pass = (uint8_t)plan->first_pass;
  fixed->send_peer_count = (uint16_t)plan->send.count;
  fixed->block = (uint8_t)block;
  uint32_t peers = rondo_plan_connector_count(plan);
  uint64_t at = r->endpoints + (uint64_t)block * peers * sizeof(struct rondo_endpoint);
  fixed->send_table = at;
  fixed->recv_table = at + plan->send.count * sizeof(struct rondo_endpoint);
}

// The mirror's copy of the gate of this collective; 0: its blocks read the gate itself.
static uint64_t coll_gate_copy(const struct rondo_coll *coll) {
  const struct rondo_rank *rank = coll->registration.home;
  const uint64_t copies = rank->member.daemon->copies;
  return copies ? (uint64_t)(uintptr_t)rondo_mirror_copy_at(copies, coll->index) : 0;
}

// Fills what does not.
static void static_fill(const struct rondo_coll *coll, struct rondo_context_static *fixed) {
  const struct rondo_registration *r = &coll->registration;
  const uint64_t copy = coll_gate_copy(coll);
  fixed->gate = copy ? copy : (uint64_t)(uintptr_t)&r->comm->gate;
  fixed->reduction =
      rondo_reduction_lower(coll->desc.dtype, coll->desc.redop, coll->desc.scalar, r->nranks);
  fixed->index = coll->index;
  fixed->generation = coll->device_generation;
  if (coll->desc.kind != RONDO_BARRIER)
    fixed->elem_bytes = (uint8_t)rondo_dtype_bytes(coll->desc.dtype);
  fixed->urgency = (uint8_t)(coll->desc.priority + 128);
}

static void context_fill(const struct rondo_coll *coll, uint32_t block,
                         struct rondo_task_context *c) {
  const uint64_t contexts = (uint64_t)(uintptr_t)coll->contexts;
  static_fill(coll, &c->fixed);
  if (coll->is_late) {
    c->fixed.is_provisional = 1;
    c->fixed.send_table = contexts + coll_parts_offset(coll, coll->block_count) +
                          block * sizeof(struct rondo_context_static);
    c->fixed.recv_table = contexts + block * sizeof *c;
  } else {
    plan_fill(coll, block, contexts + coll_base_bytes(coll), &c->fixed);
  }
  c->state.phase = RONDO_PHASE_IDLE;
  c->state.flags = RONDO_RUN_FIRST;
  c->state.bound_send = RONDO_PLAN_NO_PEER;
}

static int coll_build_plan(struct rondo_coll *coll) {
  struct rondo_registration *r = &coll->registration;
  struct rondo_plan plan;
  struct rondo_plan_request request = {coll->desc.kind,   r->shape.algorithm,   r->position,
                                       r->nranks,         coll->desc.root,      r->shape.keeps_sums,
                                       r->shape.topology, r->shape.quantisation};
  int status = rondo_plan_build(&request, &plan);
  if (status != RONDO_SUCCESS)
    return status == RONDO_ERR_UNSUPPORTED ? RONDO_ERR_UNSUPPORTED : RONDO_ERR_INTERNAL;
  coll->plan = malloc(rondo_plan_bytes(&plan));
  if (!coll->plan)
    return RONDO_ERR_NO_MEMORY;
  memcpy(coll->plan, &plan, rondo_plan_bytes(&plan));
  r->plan = coll->plan;
  return RONDO_SUCCESS;
}

static struct rondo_coll *coll_of(struct rondo_registration *r) {
  return (struct rondo_coll *)((char *)r - offsetof(struct rondo_coll, registration));
}

// What the cost model must know of the members. It is the same on all of them.
static void limits_place(const struct rondo_rank *rank, struct rondo_shape_limits *limits) {
  rondo_cost_query_place(&limits->place, limits->topology);
  if (rank->member.is_manual)
    limits->place.cores = 0; // the same on every machine, so that a failure can be replayed
  if (rank->member.device->driver->reach) {
    limits->place.inner = RONDO_COST_NVLINK;
    if (limits->place.machines == 1)
      limits->place.link = RONDO_COST_NVLINK;
    limits->place.cores = UINT32_MAX; // the blocks of all ranks run at the same time
  }
}

// Decides the shape. Without a topology the number of blocks is right, and nothing else counts.
static void registration_shape(struct rondo_registration *r) {
  const struct rondo_rank *rank = r->home;
  struct rondo_shape_limits limits = rank->manual.shape;
  limits.blocks = rank->cfg.blocks;
  limits.slot_bytes = rank->cfg.slot_bytes;
  if (!limits.algorithms[r->desc->kind])
    limits.algorithms[r->desc->kind] = rondo_forced_find(
        &rank->forced, r->desc->kind, r->desc->count * rondo_dtype_bytes(r->desc->dtype));
  limits.shares_memory = !rank->job->membership && !rank->member.device->driver->reach;
  if (!limits.payload_limit && rank->member.device->driver->is_direct)
    limits.payload_limit = rank->cfg.connector_bytes / PAYLOAD_SHARE + 1;
  limits.topology = r->shape.topology;
  limits_place(rank, &limits);
  if (limits.topology)
    limits.model = rank->job->model;
  r->shape = rondo_shape_make(r->desc, r->nranks, &limits);
}

static int registration_plan(struct rondo_registration *r) {
  struct rondo_coll *coll = coll_of(r);
  struct rondo_rank *rank = r->home;
  registration_shape(r);
  rondo_lock_take(&rank->lock); // for those who write the flight record
  coll->tag.algorithm = (uint8_t)r->shape.algorithm;
  coll->tag.rule = (uint8_t)r->shape.rule;
  rondo_lock_give(&rank->lock);
  return coll_build_plan(coll);
}

// Gets memory for the gate writes that the plan needs. Returns false if there is none.
static bool coll_get_gate_writes(const struct rondo_rank *rank, struct rondo_coll *coll) {
  struct rondo_device *device = rank->member.device;
  uint64_t count = (uint64_t)coll->block_count * rondo_binding_gate_writes(coll->plan);
  if (device->driver->is_direct || count == 0)
    return true;
  struct rondo_gate_write **writes = &coll->registration.gate_writes;
  *writes = device->driver->alloc(device, RONDO_MEMORY_SHARED, count * sizeof **writes);
  return *writes != NULL;
}

// Writes a plan that was not known when the collective was registered. No block reads what is
// written here before the gate opens.
static int registration_load(struct rondo_registration *r) {
  struct rondo_coll *coll = coll_of(r);
  struct rondo_rank *rank = r->home;
  struct rondo_device *device = rank->member.device;
  const uint64_t bytes = coll->block_count * sizeof(struct rondo_context_static);
  struct rondo_context_static *plans = calloc(1, bytes);
  char *program = calloc(1, coll_program_bytes(coll) + 1);
  coll->late = device->driver->alloc(device, RONDO_MEMORY_DEVICE,
                                     coll_program_bytes(coll) + coll_private_bytes(coll) + 1);
  const uint64_t late = (uint64_t)(uintptr_t)coll->late;
  bool has_memory = plans && program && late && coll_get_gate_writes(rank, coll);
  int status = has_memory ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  r->endpoints = endpoints_place(late + coll_program_bytes(coll));
  for (uint32_t b = 0; b < coll->block_count && status == RONDO_SUCCESS; b++) {
    static_fill(coll, &plans[b]);
    plan_fill(coll, b, late, &plans[b]);
  }
  if (status == RONDO_SUCCESS)
    status = device->driver->write(
        device, (uint64_t)(uintptr_t)coll->contexts + coll_parts_offset(coll, coll->block_count),
        plans, bytes);
  if (status == RONDO_SUCCESS) {
    program_fill(coll, program);
    status = device->driver->write(device, late, program, coll_program_bytes(coll));
  }
  free(program);
  free(plans);
  rondo_lock_take(&rank->lock);
  if (status == RONDO_SUCCESS)
    coll_note_lent(coll);
  if (coll->head && coll->borrows)
    status = rondo_coll_lend(rank, coll);
  rondo_lock_give(&rank->lock);
  return status;
}

static const struct rondo_registration_calls registration_calls = {registration_plan,
                                                                   registration_load};

// Plans the collective if that is possible already. A plan that cannot be made ends the runs.
static int coll_plan(struct rondo_rank *rank, struct rondo_coll *coll) {
  struct rondo_registration *r = &coll->registration;
  coll->tag.rule = RONDO_PLAN_RULE_COUNT;
  if (rondo_job_plan(rank->job, r) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: no memory");
  coll->is_late = !r->is_planned;
  r->is_written = r->is_loaded = r->is_planned;
  if (coll->is_late && r->plan_status == RONDO_SUCCESS)
    registration_shape(r); // for the number of blocks
  coll->block_count = (uint8_t)r->shape.blocks;
  if (r->is_planned)
    coll_note_lent(coll);
  return RONDO_SUCCESS;
}

// Allocates device memory, and memory for what is written there, and registers with the job. After
// that no allocation can fail: a peer would take a registration that ends for one that it may run.
static int coll_build(struct rondo_rank *rank, struct rondo_coll *coll, char **image) {
  struct rondo_registration *r = &coll->registration;
  uint64_t bytes = coll_image_bytes(coll) + (coll->is_late ? 0 : coll_private_bytes(coll));
  coll->contexts =
      rank->member.device->driver->alloc(rank->member.device, RONDO_MEMORY_DEVICE, bytes);
  r->index = coll->index;
  if (!coll->is_late)
    r->endpoints = endpoints_place((uint64_t)(uintptr_t)coll->contexts + coll_image_bytes(coll));
  bool needs_parts = coll->desc.kind == RONDO_ALL_TO_ALL_V && !coll->exchange;
  if (needs_parts)
    coll->parts = rank->member.device->driver->alloc(rank->member.device, RONDO_MEMORY_SHARED,
                                                     RONDO_DEVICE_RUNS * coll_parts_bytes(coll));
  *image = calloc(1, coll_image_bytes(coll));
  bool has_memory = coll->contexts && (coll->parts || !needs_parts) && *image &&
                    (coll->is_late || coll_get_gate_writes(rank, coll));
  int status = has_memory ? rondo_job_register(rank->job, r) : RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(
        status, "register: id %llu: no memory, or connector_bytes (%llu) is used up",
        (unsigned long long)coll->desc.id, (unsigned long long)rank->cfg.connector_bytes);
  return RONDO_SUCCESS;
}

// Writes the collective to the device, where nothing refers to it yet. `image`: zeroed memory for
// all before the endpoints.
static int coll_write_to_device(struct rondo_rank *rank, const struct rondo_coll *coll,
                                char *image) {
  const struct rondo_driver *driver = rank->member.device->driver;
  struct rondo_device_collective entry = {.contexts = (uint64_t)(uintptr_t)coll->contexts,
                                          .block_count = coll->block_count,
                                          .generation = coll->device_generation};
  uint64_t bytes = coll_image_bytes(coll);
  for (uint32_t b = 0; b < coll->block_count; b++) {
    context_fill(coll, b, (struct rondo_task_context *)image + b);
    if (coll->desc.kind == RONDO_ALL_TO_ALL_V)
      rondo_exchange_write(coll->exchange, coll->registration.nranks,
                           (uint64_t)(uintptr_t)coll->parts,
                           (struct rondo_listed *)(void *)(image + coll_parts_offset(coll, b)));
  }
  if (!coll->is_late)
    program_fill(coll, image + coll_base_bytes(coll));
  int status =
      driver->write(rank->member.device, (uint64_t)(uintptr_t)coll->contexts, image, bytes);
  uint64_t page = (uint64_t)(uintptr_t)rank->device_pages[coll->index / RONDO_TABLE_PAGE];
  if (status == RONDO_SUCCESS)
    status = device_page_publish(rank, coll->index / RONDO_TABLE_PAGE);
  if (status == RONDO_SUCCESS)
    status =
        driver->write(rank->member.device, page + coll->index % RONDO_TABLE_PAGE * sizeof entry,
                      &entry, sizeof entry);
  const uint64_t copy = coll_gate_copy(coll);
  const uint64_t gate = (uint64_t)(uintptr_t)&coll->registration.comm->gate;
  if (status == RONDO_SUCCESS && copy)
    status = driver->write(rank->member.device, copy + offsetof(struct rondo_mirror_copy, gate),
                           &gate, sizeof gate);
  return status;
}

// Makes the collective visible to callers. The rank's lock is held.
static void coll_publish(const struct rondo_rank *rank, struct rondo_coll *coll) {
  coll->on_device = 0;
  coll->failed_from = 0;
  rondo_store_relaxed_u64(&coll->submitted, rank->manual.first_run);
  coll->failed_status = RONDO_SUCCESS;
  rondo_store_relaxed_u64(&coll->completed, coll->submitted);
  rondo_store_relaxed_u64(&coll->inline_run, 0);
  rondo_daemon_clear_tally(rank->member.daemon, rank->cfg.blocks, coll->index);
  rondo_store_release_u32(&coll->generation, coll->generation + 1);
}

static void coll_discard(struct rondo_rank *rank, struct rondo_coll *coll) {
  free(coll->exchange);
  free(coll->plan);
  coll->exchange = NULL;
  coll->plan = NULL;
  if (coll->contexts)
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_DEVICE, coll->contexts);
  if (coll->parts)
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_SHARED, coll->parts);
  if (coll->late)
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_DEVICE, coll->late);
  if (coll->registration.gate_writes)
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_SHARED,
                                      coll->registration.gate_writes);
  coll->contexts = coll->parts = coll->late = NULL;
  coll->registration.gate_writes = NULL;
  rondo_lock_take(&rank->lock);
  rondo_coll_return(rank, coll);
  tdelete(coll, &rank->by_id, coll_compare_ids);
  coll->next = rank->free_colls;
  rank->free_colls = coll;
  rank->coll_count--;
  rondo_lock_give(&rank->lock);
}

// Allocates an entry and reserves its id. On failure returns null and writes `status`; if that is
// RONDO_SUCCESS the table must grow first.
static struct rondo_coll *
coll_try_claim(struct rondo_rank *rank, const struct rondo_register_request *request, int *status) {
  const struct rondo_collective_desc *desc = request->desc;
  struct rondo_coll *coll = NULL;
  rondo_lock_take(&rank->lock);
  *status = table_check_room(rank, request->id);
  if (*status == RONDO_SUCCESS)
    coll = rank->free_colls;
  if (coll) {
    coll->desc = *desc;
    coll->registration = (struct rondo_registration){.id = request->id,
                                                     .owner = request->owner,
                                                     .rank = rank->cfg.rank,
                                                     .desc = &coll->desc,
                                                     .submitted = &coll->submitted,
                                                     .completed = &coll->completed,
                                                     .calls = &registration_calls,
                                                     .home = rank};
    coll->device_generation = coll->generation + 1; // coll_publish adds 1
    coll->borrows = RONDO_BORROWS_NOTHING;          // until its plan is made
    coll->has_places = 0;
    coll->retry = request->retry;
    coll->retries = request->retry != NULL;
    const struct rondo_member_list *list = NULL;
    *status = rondo_group_list(rank, desc->group, &list);
    if (list)
      coll_set_list(coll, list);
  }
  if (coll && *status == RONDO_SUCCESS && !tsearch(coll, &rank->by_id, coll_compare_ids))
    *status = RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: no memory");
  if (coll && *status == RONDO_SUCCESS) {
    rank->free_colls = coll->next;
    rank->coll_count++; // now, so that concurrent calls respect max_collectives
  }
  rondo_lock_give(&rank->lock);
  return *status == RONDO_SUCCESS ? coll : NULL;
}

// Does the same, and lets the table grow as needed. Each time round another thread has taken the
// last entry of a new page.
static struct rondo_coll *coll_claim(struct rondo_rank *rank,
                                     const struct rondo_register_request *request, int *status) {
  struct rondo_coll *coll = coll_try_claim(rank, request, status);
  while (!coll && *status == RONDO_SUCCESS) {
    *status = table_grow(rank);
    if (*status == RONDO_SUCCESS)
      coll = coll_try_claim(rank, request, status);
  }
  return coll;
}

// Refuses a registration, which the other processes must be told of, while too many messages wait
// for processes that are slow.
static int mesh_check_room(const struct rondo_rank *rank) {
  struct rondo_members *mesh = rank->job->membership;
  if (!mesh || !rondo_members_calls->is_full || !rondo_members_calls->is_full(mesh))
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(RONDO_ERR_FULL,
                          "register: rank %u: %llu MiB of messages wait for slow processes",
                          rank->cfg.rank, (unsigned long long)(RONDO_MESH_QUEUE_BYTES >> 20));
}

static int run_check(const struct rondo_rank *rank, const struct rondo_coll *coll,
                     const struct rondo_submission *run) {
  const struct rondo_buffers buffers = rondo_coll_buffers(coll, run);
  bool is_private = false;
  int status = rondo_coll_check_buffers(coll, run);
  return status == RONDO_SUCCESS ? rondo_buffers_check_reach(rank, &buffers, &is_private) : status;
}

int rondo_rank_register(struct rondo_rank *rank, const struct rondo_register_request *request,
                        struct rondo_collective *handle) {
  const struct rondo_collective_desc *desc = request->desc;
  int status = desc_check(desc);
  if (status == RONDO_SUCCESS)
    status = forced_check(rank, desc);
  if (status == RONDO_SUCCESS)
    status = mesh_check_room(rank);
  if (status != RONDO_SUCCESS)
    return status;
  char *image = NULL;
  struct rondo_coll *coll = coll_claim(rank, request, &status);
  if (!coll)
    return status;
  status = group_check(rank, coll);
  if (status == RONDO_SUCCESS)
    status = counts_check(coll, request);
  if (status == RONDO_SUCCESS)
    coll_set_buffers(coll);
  if (status == RONDO_SUCCESS && request->run)
    status = run_check(rank, coll, request->run);
  if (status == RONDO_SUCCESS)
    status = coll_plan(rank, coll);
  if (status == RONDO_SUCCESS)
    status = coll_build(rank, coll, &image);
  if (status != RONDO_SUCCESS) {
    free(image);
    coll_discard(rank, coll);
    return status;
  }
  status = coll_write_to_device(rank, coll, image);
  free(image);
  if (status == RONDO_SUCCESS && coll->is_late)
    rondo_job_written(rank->job, &coll->registration);
  if (status != RONDO_SUCCESS) {
    rondo_coll_remove(rank, coll);
    return RONDO_LOG_REFUSE(status, "register: id %llu: cannot be written to the device",
                            (unsigned long long)desc->id);
  }
  rondo_lock_take(&rank->lock);
  coll_publish(rank, coll);
  *handle = rondo_coll_handle(coll);
  struct rondo_flight_tag tag =
      rondo_flight_tag_make(&coll->desc, handle->handle, coll->registration.members,
                            coll->registration.nranks, rank->cfg.rank_count);
  tag.algorithm = coll->tag.algorithm;
  tag.rule = coll->tag.rule;
  coll->tag = tag;
  (void)rondo_flight_add(&rank->flight, RONDO_FLIGHT_REGISTERED, &coll->tag);
  rondo_lock_give(&rank->lock);
  return RONDO_SUCCESS;
}

// ------------------------------------------------------------ deregistration --

void rondo_coll_remove(struct rondo_rank *rank, struct rondo_coll *coll) {
  if (!rondo_job_deregister(rank->job, &coll->registration, coll->completed)) {
    rondo_log(RONDO_LOG_WARN,
              "deregister: id %llu: the device does not answer; memory there stays allocated",
              (unsigned long long)coll->desc.id);
    coll->contexts = coll->parts = coll->late = NULL;
    coll->registration.gate_writes = NULL;
  }
  rondo_coll_forget_streams(rank, coll);
  coll_discard(rank, coll);
}

// Logs why a collective cannot be deregistered yet.
static int coll_refuse_busy(const struct rondo_coll *coll) {
  if (coll->replays)
    return RONDO_LOG_REFUSE(RONDO_ERR_BUSY, "deregister: id %llu is in a graph that still exists",
                            (unsigned long long)coll->desc.id);
  return RONDO_LOG_REFUSE(RONDO_ERR_BUSY, "deregister: id %llu has %llu runs outstanding",
                          (unsigned long long)coll->desc.id,
                          (unsigned long long)(coll->submitted - coll->completed));
}

// True if the collective cannot be deregistered yet. After a refusal its owner is about to fail.
static bool coll_is_busy(const struct rondo_coll *coll) {
  const struct rondo_owner *owner = coll->registration.owner;
  bool is_failing = owner && rondo_load_relaxed_u32(&owner->has_refused) &&
                    !rondo_load_relaxed_u32(&owner->failed);
  return coll->replays || coll->head || coll->holders || is_failing;
}

int rondo_rank_deregister(struct rondo_rank *rank, struct rondo_collective handle, int logs) {
  int status = RONDO_SUCCESS;
  rondo_rank_lock(rank);
  rondo_replays_reap(rank);
  struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "deregister");
  if (!coll)
    status = RONDO_ERR_UNKNOWN;
  else if (coll_is_busy(coll))
    status = logs ? coll_refuse_busy(coll) : RONDO_ERR_BUSY;
  if (status == RONDO_SUCCESS) {
    rondo_store_release_u32(&coll->generation, coll->generation + 1);
    (void)rondo_flight_add(&rank->flight, RONDO_FLIGHT_DEREGISTERED, &coll->tag);
  }
  rondo_lock_give(&rank->lock);
  if (status == RONDO_SUCCESS)
    rondo_coll_remove(rank, coll);
  return status;
}
