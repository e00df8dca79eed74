#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/numa_node.h"
#include "daemon/driver/driver.h"
#include "daemon/plan/build.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/transports.h"

#define REFERENCE_BYTES 4096u // payloads of at least this are passed by reference
#define BLOCK_BYTES 65536u    // a collective takes one block for each of these
#define ALIGN_BYTES 64u
// Between threads, all-reduces of at most this many bytes need no memory for partial sums
// (docs/algorithms.md): those of larger ones are faster in slots, which stay in the caches.
#define KEPT_SUMS_BYTES (UINT64_C(1) << 20)
#define LISTED_BYTES                                                                               \
  (UINT64_C(4) << 20)            // payload of a rank's connectors to all peers of an all-to-all-v
#define LISTED_LEAST_BYTES 4096u // ... but at least this for a chunk
// Largest chunks of a double tree: small, so that all levels of the trees work at once.
#define TREE_SUM_BYTES (UINT64_C(64) << 10)
#define TREE_COPY_BYTES (UINT64_C(128) << 10)
#define NO_LINK UINT32_MAX

// The largest chunk of an all-to-all-v. No rank knows all its sizes, so the bound is on the payload
// of all connectors of a rank.
static uint64_t shape_listed_chunk_bytes(const struct rondo_shape *shape, uint64_t cap_bytes) {
  uint64_t bytes = LISTED_BYTES / shape->nranks / shape->slot_count / ALIGN_BYTES * ALIGN_BYTES;
  bytes = bytes < LISTED_LEAST_BYTES ? LISTED_LEAST_BYTES : bytes;
  return bytes > cap_bytes ? cap_bytes : bytes;
}

static uint32_t or_default(uint32_t value, uint32_t fallback) { return value ? value : fallback; }

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static struct rondo_plan_choice shape_choose(const struct rondo_collective_desc *desc,
                                             uint32_t nranks,
                                             const struct rondo_shape_limits *limits) {
  struct rondo_cost_query query = limits->place;
  query.kind = desc->kind;
  query.nranks = nranks;
  query.bytes = desc->count * rondo_dtype_bytes(desc->dtype);
  query.quantisation = (int)desc->quantisation;
  uint8_t forced = limits->algorithms[desc->kind];
  if (forced)
    return (struct rondo_plan_choice){forced - 1, RONDO_PLAN_RULE_FORCED, 0};
  return rondo_cost_choose(limits->model ? limits->model : &rondo_cost_defaults, &query);
}

// The largest chunk, of any algorithm.
static uint64_t shape_cap_bytes(const struct rondo_shape *shape,
                                const struct rondo_shape_limits *limits) {
  uint64_t most = limits->slot_bytes;
  if (shape->algorithm == RONDO_ALGORITHM_DOUBLE_TREE)
    most = rondo_plan_reduces(shape->kind) ? TREE_SUM_BYTES : TREE_COPY_BYTES;
  if (rondo_plan_has_packets(shape->algorithm)) // which take two bytes for one
    return rondo_geometry_min(limits->slot_bytes / 2, RONDO_COST_PACKETS_LOOP_BYTES);
  return rondo_geometry_min(limits->slot_bytes, most);
}

static uint32_t shape_chunk_count(const struct rondo_shape *shape) {
  const struct rondo_plan_request request = {.kind = shape->kind,
                                             .algorithm = shape->algorithm,
                                             .nranks = shape->nranks,
                                             .topology = shape->topology};
  return rondo_plan_chunk_count(&request);
}

struct rondo_shape rondo_shape_make(const struct rondo_collective_desc *desc, uint32_t nranks,
                                    const struct rondo_shape_limits *limits) {
  uint64_t elem_bytes = rondo_dtype_bytes(desc->dtype);
  uint64_t bytes = desc->count * elem_bytes;
  uint64_t blocks = divide_up(bytes, or_default(limits->block_bytes, BLOCK_BYTES));
  struct rondo_shape shape = {.kind = desc->kind, .dtype = desc->dtype, .nranks = nranks};
  shape.root = desc->root;
  shape.count = desc->count;
  shape.quantisation = (int)desc->quantisation;
  struct rondo_plan_choice choice = shape_choose(desc, nranks, limits);
  shape.algorithm = choice.algorithm;
  shape.rule = choice.rule;
  uint64_t cap_bytes = shape_cap_bytes(&shape, limits);
  shape.topology = limits->topology;
  shape.blocks = (uint32_t)(blocks < 1 ? 1 : blocks > limits->blocks ? limits->blocks : blocks);
  shape.slot_count =
      or_default(limits->slot_count, rondo_plan_slots(desc->kind, shape.algorithm, nranks));
  shape.reference_bytes = or_default(limits->reference_bytes, REFERENCE_BYTES);
  if (shape.quantisation || rondo_plan_is_by_value(desc->kind, shape.algorithm))
    shape.reference_bytes = RONDO_REFERENCES_NONE;
  shape.first_sequence = limits->first_sequence;
  shape.is_mapped = limits->is_mapped;
  shape.scaled = rondo_reduction_lower(desc->dtype, desc->redop, desc->scalar, nranks).scale;
  // The largest chunk of any block; small collectives take small slots.
  uint64_t parts = shape.blocks;
  if (rondo_plan_splits(desc->kind, shape.algorithm))
    parts *= shape_chunk_count(&shape);
  // A slot holds all chunks of an op.
  uint64_t most_bytes = cap_bytes / rondo_plan_most_width(desc->kind, shape.algorithm, nranks);
  most_bytes = most_bytes / ALIGN_BYTES * ALIGN_BYTES;
  uint64_t chunk_bytes = divide_up(divide_up(bytes, parts), ALIGN_BYTES) * ALIGN_BYTES;
  chunk_bytes = chunk_bytes > most_bytes ? most_bytes : chunk_bytes;
  chunk_bytes = chunk_bytes < ALIGN_BYTES ? ALIGN_BYTES : chunk_bytes;
  shape.keeps_sums = limits->shares_memory && desc->kind == RONDO_ALL_REDUCE && nranks > 2 &&
                     shape.algorithm == RONDO_ALGORITHM_RING && !shape.scaled &&
                     !shape.quantisation && bytes <= KEPT_SUMS_BYTES &&
                     chunk_bytes >= shape.reference_bytes;
  if (shape.keeps_sums && !limits->reference_bytes)
    shape.reference_bytes = RONDO_CONNECTOR_INLINE_BYTES + 1;
  if (desc->kind == RONDO_ALL_TO_ALL_V) {
    shape.blocks = limits->blocks;
    chunk_bytes = shape_listed_chunk_bytes(&shape, cap_bytes);
  }
  shape.payload_limit = limits->payload_limit;
  shape.chunk_elems = desc->kind == RONDO_BARRIER ? 1 : (uint32_t)(chunk_bytes / elem_bytes);
  return shape;
}

struct rondo_geometry rondo_shape_geometry(const struct rondo_shape *shape, uint32_t block) {
  uint64_t elem_bytes = rondo_dtype_bytes(shape->dtype);
  uint64_t align = ALIGN_BYTES / elem_bytes;
  uint64_t share = divide_up(divide_up(shape->count, shape->blocks), align) * align;
  bool splits = rondo_plan_splits(shape->kind, shape->algorithm);
  struct rondo_geometry g = {0};
  g.begin = share * block < shape->count ? share * block : shape->count;
  g.end = shape->count - g.begin > share ? g.begin + share : shape->count;
  g.chunk_count = shape_chunk_count(shape);
  g.segment = splits ? 0 : shape->count;
  g.chunk_elems = shape->chunk_elems;
  if (splits)
    g.align_elems = align;
  if (shape->kind == RONDO_BARRIER)
    g.end = g.segment = shape->nranks > 1; // one loop of signals, unless the rank is alone
  if (shape->kind == RONDO_ALL_TO_ALL_V) {
    g.segment = (uint64_t)shape->blocks * shape->chunk_elems;
    g.begin = (uint64_t)block * shape->chunk_elems;
    g.end = UINT64_MAX; // never empty
  }
  return g;
}

static_assert(sizeof(struct rondo_communicator) % sizeof(uint64_t) == 0, "zeroed by whole words");

struct rondo_communicator *rondo_communicator_create(struct rondo_pool *pool,
                                                     const struct rondo_shape *shape,
                                                     const uint32_t *ranks) {
  struct rondo_device *device = pool->device;
  struct rondo_communicator *comm =
      device->driver->alloc(device, RONDO_MEMORY_GATE, sizeof *comm); // daemons see the gate
  if (!comm)
    return NULL;
  comm->pool = pool;
  comm->ranks = ranks;
  comm->shape = *shape;
  comm->gate.culprit = UINT32_MAX;
  // A mirror may still look at an earlier gate in this memory (daemon/core/mirror_core.h).
  rondo_store_relaxed_u32(&comm->gate.state, RONDO_GATE_CLOSED);
  rondo_store_relaxed_u64(&comm->gate.last_run, UINT64_MAX);
  return comm;
}

void rondo_communicator_destroy(struct rondo_communicator *comm) {
  struct rondo_device *device = comm->pool->device;
  for (uint32_t i = 0; comm->links && i < comm->link_count; i++)
    if (comm->links[i].bytes)
      rondo_pool_free(comm->pool, comm->links[i].at, comm->links[i].first, comm->links[i].bytes);
  rondo_writes_free(rondo_writes_take(&comm->writes));
  free(comm->reason);
  free(comm->links);
  free(comm->members);
  device->driver->free(device, RONDO_MEMORY_GATE, comm);
}

// ------------------------------------------------------------------ members ---

// The index of the first known member at `position` or behind it.
static uint32_t members_bound(const struct rondo_communicator *comm, uint32_t position) {
  uint32_t low = 0;
  uint32_t high = comm->member_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (comm->members[middle].position < position)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct rondo_communicator_member *rondo_communicator_member(const struct rondo_communicator *comm,
                                                            uint32_t position) {
  uint32_t at = members_bound(comm, position);
  bool is_known = at < comm->member_count && comm->members[at].position == position;
  return is_known ? &comm->members[at] : NULL;
}

// Makes room for one more item in an array made by malloc. Returns it, or null without memory.
static void *array_grow(void *items, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  if (count < *capacity)
    return items;
  uint32_t more = *capacity ? 2 * *capacity : 4;
  void *grown = realloc(items, more * item_bytes);
  if (grown)
    *capacity = more;
  return grown;
}

static int member_add(struct rondo_communicator *comm, uint32_t position) {
  uint32_t at = members_bound(comm, position);
  if (at < comm->member_count && comm->members[at].position == position)
    return RONDO_SUCCESS;
  struct rondo_communicator_member *grown =
      array_grow(comm->members, comm->member_count, &comm->member_capacity, sizeof *grown);
  if (!grown)
    return RONDO_ERR_NO_MEMORY;
  comm->members = grown;
  memmove(&comm->members[at + 1], &comm->members[at],
          (comm->member_count++ - at) * sizeof *comm->members);
  struct rondo_device *device = comm->pool->device;
  bool needs_place = device->driver->reach || rondo_node_here() != RONDO_NODE_ANY;
  comm->members[at] = (struct rondo_communicator_member){.position = position,
                                                         .process = RONDO_HERE,
                                                         .device = needs_place ? NULL : device,
                                                         .node = RONDO_NODE_ANY,
                                                         .first_from = NO_LINK};
  return RONDO_SUCCESS;
}

int rondo_communicator_admit(struct rondo_communicator *comm, uint32_t position,
                             const struct rondo_plan *plan) {
  int status = member_add(comm, position);
  uint32_t count = plan ? rondo_plan_connector_count(plan) : 0;
  for (uint32_t i = 0; i < count && status == RONDO_SUCCESS; i++)
    status = member_add(comm, rondo_plan_connector_peer(plan, i));
  return status;
}

// Of a member that is known, because it has a link.
static struct rondo_communicator_member *member_at(const struct rondo_communicator *comm,
                                                   uint32_t position) {
  return &comm->members[members_bound(comm, position)];
}

// -------------------------------------------------------------------- links ---

// What the producer of a link in this process can reach: bits of enum rondo_reach.
static unsigned link_reach(const struct rondo_communicator *comm, const struct rondo_link *link) {
  struct rondo_device *from = member_at(comm, link->from)->device;
  struct rondo_device *to = member_at(comm, link->to)->device;
  if (link->process != RONDO_HERE || !to->driver->reach)
    return RONDO_REACH_ALL;
  return to->driver->reach(from, to, NULL);
}

// The least payload that is passed by reference.
static uint32_t communicator_reference_bytes(const struct rondo_communicator *comm,
                                             unsigned reach) {
  return reach & RONDO_REACH_BUFFERS ? comm->shape.reference_bytes : RONDO_REFERENCES_NONE;
}

// Bytes of the largest message of an op with this width.
static uint64_t shape_message_bytes(const struct rondo_shape *s, uint32_t width) {
  uint64_t chunk_bytes = (uint64_t)s->chunk_elems * rondo_dtype_bytes(s->dtype);
  uint64_t most_bytes = s->count * rondo_dtype_bytes(s->dtype);
  if (s->kind == RONDO_ALL_TO_ALL_V)
    return chunk_bytes;
  if (s->quantisation)
    return rondo_quantised_bytes(rondo_geometry_min(s->chunk_elems, s->count));
  if (!rondo_plan_splits(s->kind, s->algorithm))
    most_bytes *= width;
  return width * chunk_bytes < most_bytes ? width * chunk_bytes : most_bytes;
}

// True if the message of an op that sends is never a reference: it is computed into the slot, or
// its chunks do not lie side by side, or the op uses scratch.
static bool op_fills_slot(const struct rondo_shape *s, const struct rondo_plan_op *op) {
  const unsigned kept = RONDO_PRIM_COPY | RONDO_PRIM_RESULT;
  struct rondo_geometry g = rondo_shape_geometry(s, 0);
  if (op->width > 1 && (op->first_chunk + op->width > s->nranks || !rondo_geometry_is_dense(&g)))
    return true;
  if (op->primitive & RONDO_PRIM_SCRATCH)
    return true;
  return !(op->primitive & kept) && ((op->primitive & RONDO_PRIM_RECV) || s->scaled);
}

struct rondo_shape_lent rondo_shape_lent(const struct rondo_shape *shape,
                                         const struct rondo_plan *plan, bool reads_buffers) {
  struct rondo_shape_lent lent = {0};
  bool may_copy = !reads_buffers || plan->by_value;
  uint64_t most_bytes = 0;
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    if (!(op->primitive & RONDO_PRIM_SEND))
      continue;
    uint64_t bytes = shape_message_bytes(shape, op->width);
    most_bytes = bytes > most_bytes ? bytes : most_bytes;
    may_copy |= bytes > RONDO_CONNECTOR_INLINE_BYTES && op_fills_slot(shape, op);
  }
  if (!shape->payload_limit || most_bytes <= RONDO_CONNECTOR_INLINE_BYTES || !may_copy)
    return lent;
  lent.slot_bytes = (uint32_t)(divide_up(most_bytes, ALIGN_BYTES) * ALIGN_BYTES);
  lent.bytes = (uint64_t)shape->blocks * plan->send.count * shape->slot_count * lent.slot_bytes;
  return lent;
}

uint64_t rondo_shape_scratch_bytes(const struct rondo_shape *shape, const struct rondo_plan *plan) {
  uint64_t elems = shape->chunk_elems < shape->count ? shape->chunk_elems : shape->count;
  uint64_t bytes = plan->scratch_count * elems * rondo_dtype_bytes(shape->dtype);
  return divide_up(bytes, RONDO_SCRATCH_ALIGN_BYTES) * RONDO_SCRATCH_ALIGN_BYTES;
}

// True if the messages of the link are packets, if it gets payload memory. A proxy forwards slots
// that have marks. Both sides of a link decide the same.
static bool link_may_have_packets(const struct rondo_communicator *comm,
                                  const struct rondo_link *link) {
  const struct rondo_shape *s = &comm->shape;
  return rondo_plan_has_packets(s->algorithm) && !link->is_proxied &&
         s->slot_count >= rondo_plan_least_slots(s->kind, s->algorithm, s->nranks);
}

// Payload bytes that a slot needs when the member at `from` sends: none for what fits beside the
// mark, and little where everything large is passed by reference. Between processes and between
// devices a reference depends on the buffers of each run, and between machines there are none, so
// slots hold a whole message.
static uint64_t link_needed_bytes(const struct rondo_communicator *comm,
                                  const struct rondo_link *link, unsigned reach) {
  const struct rondo_shape *s = &comm->shape;
  struct rondo_plan_request request = {s->kind, s->algorithm,  link->from,  s->nranks,
                                       s->root, s->keeps_sums, s->topology, s->quantisation};
  struct rondo_plan plan;
  uint64_t most_bytes = 0;
  if (link_may_have_packets(comm, link))
    return rondo_packets_bytes(shape_message_bytes(s, 1));
  if (rondo_plan_build(&request, &plan) != RONDO_SUCCESS)
    return shape_message_bytes(s, 1);
  bool refers = link->process == RONDO_HERE && (reach & RONDO_REACH_PRIVATE);
  for (uint32_t i = 0; i < plan.op_count; i++) {
    const struct rondo_plan_op *op = &plan.ops[i];
    // Where peers are listed, each op has one.
    if (!(op->primitive & RONDO_PRIM_SEND) ||
        (plan.send.stride == 0 && op->peer_stride == 0 &&
         rondo_plan_peer(&plan, &plan.send, op->send_peer) != link->to))
      continue;
    uint64_t bytes = shape_message_bytes(s, op->width);
    uint32_t reference_bytes = communicator_reference_bytes(comm, reach);
    if (refers && bytes >= reference_bytes && !op_fills_slot(s, op))
      bytes = reference_bytes > RONDO_CONNECTOR_INLINE_BYTES + 1 ? reference_bytes : 0;
    most_bytes = bytes > most_bytes ? bytes : most_bytes;
  }
  return most_bytes > RONDO_CONNECTOR_INLINE_BYTES ? most_bytes : 0;
}

// Payload bytes that a slot gets: what it needs, or nothing if the connectors of the job would then
// take more than the limit. Then the producer is lent this memory.
static uint64_t link_payload_bytes(const struct rondo_communicator *comm,
                                   const struct rondo_link *link, unsigned reach) {
  const struct rondo_shape *s = &comm->shape;
  uint64_t bytes = link_needed_bytes(comm, link, reach);
  uint64_t limit = s->payload_limit;
  bool is_lent = limit && !link->is_proxied &&
                 comm->pool->used_bytes + bytes * s->slot_count * s->blocks > limit;
  return is_lent ? 0 : bytes;
}

struct rondo_link *rondo_communicator_link(const struct rondo_communicator *comm, uint32_t from,
                                           uint32_t to) {
  const struct rondo_communicator_member *m = rondo_communicator_member(comm, from);
  for (uint32_t i = m ? m->first_from : NO_LINK; i != NO_LINK; i = comm->links[i].next_from)
    if (comm->links[i].to == to)
      return &comm->links[i];
  return NULL;
}

static uint32_t link_reference_bytes(const struct rondo_communicator *comm,
                                     const struct rondo_link *link, uint64_t slot_bytes,
                                     unsigned reach) {
  uint32_t bytes = communicator_reference_bytes(comm, reach);
  if (link->is_proxied)
    return RONDO_REFERENCES_NONE;
  if (!comm->shape.payload_limit || slot_bytes)
    return bytes;
  return bytes == RONDO_REFERENCES_NONE ? RONDO_REFERENCES_LENT : RONDO_CONNECTOR_INLINE_BYTES + 1;
}

// Writes the connectors of a link, one a block, to their memory.
static int link_write_connectors(struct rondo_communicator *comm, const struct rondo_link *link,
                                 uint64_t slot_bytes, unsigned reach) {
  const struct rondo_shape *s = &comm->shape;
  uint64_t head_bytes = rondo_connector_bytes(s->slot_count), bytes = head_bytes;
  bool has_packets = slot_bytes && link_may_have_packets(comm, link);
  if (has_packets)
    bytes += slot_bytes * s->slot_count;
  struct rondo_connector *c = calloc(1, bytes);
  int status = c ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  if (c) {
    c->payload = slot_bytes ? head_bytes : 0;
    c->slot_count = s->slot_count;
    c->slot_bytes = (uint32_t)slot_bytes;
    c->reference_bytes = link_reference_bytes(comm, link, slot_bytes, reach);
    c->reads_private = (reach & RONDO_REACH_PRIVATE) != 0;
    c->producer_rank = comm->ranks[link->from];
    c->consumer_rank = comm->ranks[link->to];
    rondo_connector_init(c, s->first_sequence);
    c->is_mapped = s->is_mapped || (link->process != RONDO_HERE && !link->is_proxied);
    if (has_packets)
      rondo_connector_init_packets(c);
  }
  for (uint32_t b = 0; b < s->blocks && status == RONDO_SUCCESS; b++)
    status = rondo_writes_add(&comm->writes, link->at, c->consumer_rank,
                              rondo_link_connector(link, b), c, bytes);
  free(c);
  return status;
}

// Frees the connectors of a link, which nobody uses yet.
static void link_free_connectors(struct rondo_communicator *comm, const struct rondo_link *link) {
  rondo_writes_drop(&comm->writes, link->first, link->bytes);
  rondo_pool_free(comm->pool, link->at, link->first, link->bytes);
}

static int mapped_memory_kind(unsigned maps) {
  if (maps & RONDO_MAPS_WINDOW)
    return RONDO_PLACE_WINDOW;
  return maps & RONDO_MAPS_RANGE ? RONDO_PLACE_RANGE : RONDO_PLACE_EXPORTED;
}

// The kind of memory for the connectors of a link: enum rondo_place_kind or rondo_memory.
static int link_memory_kind(const struct rondo_communicator *comm, const struct rondo_link *link,
                            unsigned reach) {
  if (link->is_proxied)
    return RONDO_MEMORY_SHARED; // a thread of the CPU uses it
  if (link->process != RONDO_HERE && !comm->pool->arena)
    return mapped_memory_kind(member_at(comm, link->from)->maps);
  return reach & RONDO_REACH_MEMORY ? RONDO_MEMORY_DEVICE : RONDO_MEMORY_SHARED;
}

// Makes the connectors of a link whose consumer is here: on the consumer's device if the producer
// reaches it, else on the consumer's NUMA node, because a read waits for memory and a write does
// not. For a proxied outgoing link, makes the mirror on the producer's device or node.
static int link_make_connectors(struct rondo_communicator *comm, struct rondo_link *link,
                                struct rondo_pool_want *want) {
  const struct rondo_shape *s = &comm->shape;
  unsigned reach = link_reach(comm, link);
  uint64_t slot_bytes = link_payload_bytes(comm, link, reach);
  uint64_t stride = rondo_connector_bytes(s->slot_count) + slot_bytes * s->slot_count;
  stride = divide_up(stride, RONDO_LINE_BYTES) * RONDO_LINE_BYTES;
  const struct rondo_communicator_member *owner =
      member_at(comm, link->is_outgoing ? link->from : link->to);
  link->at.device = owner->device;
  link->at.node = owner->node;
  link->at.kind = link_memory_kind(comm, link, reach);
  link->first = rondo_pool_alloc(comm->pool, link->at, stride * s->blocks, &link->bytes, want);
  if (!link->first && !rondo_pool_is_wanted(want) &&
      link->at.kind == RONDO_PLACE_WINDOW) { // the window is full
    link->at.kind = mapped_memory_kind(member_at(comm, link->from)->maps & ~RONDO_MAPS_WINDOW);
    link->first = rondo_pool_alloc(comm->pool, link->at, stride * s->blocks, &link->bytes, want);
  }
  if (!link->first)
    return rondo_pool_is_wanted(want) ? RONDO_IN_PROGRESS : RONDO_ERR_NO_MEMORY;
  link->stride_bytes = stride;
  int status = link_write_connectors(comm, link, slot_bytes, reach);
  if (status != RONDO_SUCCESS)
    link_free_connectors(comm, link);
  return status;
}

static int communicator_grow_links(struct rondo_communicator *comm) {
  struct rondo_link *grown =
      array_grow(comm->links, comm->link_count, &comm->link_capacity, sizeof *grown);
  if (!grown)
    return RONDO_ERR_NO_MEMORY;
  comm->links = grown;
  return RONDO_SUCCESS;
}

static int communicator_make_link(struct rondo_communicator *comm, uint32_t from, uint32_t to,
                                  struct rondo_pool_want *want) {
  struct rondo_communicator_member *producer = member_at(comm, from);
  const struct rondo_communicator_member *consumer = member_at(comm, to);
  uint32_t elsewhere = producer->process == RONDO_HERE ? consumer->process : producer->process;
  if (elsewhere == RONDO_SOMEWHERE || rondo_communicator_link(comm, from, to))
    return RONDO_SUCCESS;
  // Of two members here, the second one to tell its device makes the links between them.
  if ((producer->process == RONDO_HERE && !producer->device) ||
      (consumer->process == RONDO_HERE && !consumer->device))
    return RONDO_SUCCESS;
  struct rondo_link link = {.from = from, .to = to, .process = elsewhere};
  link.is_outgoing = consumer->process != RONDO_HERE;
  link.is_proxied = elsewhere != RONDO_HERE && (link.is_outgoing ? consumer : producer)->is_proxied;
  link.is_ready = elsewhere == RONDO_HERE;
  link.next_from = producer->first_from;
  int status = communicator_grow_links(comm);
  if (status == RONDO_SUCCESS && (link.is_proxied || !link.is_outgoing))
    status = link_make_connectors(comm, &link, want);
  if (status != RONDO_SUCCESS)
    return status;
  comm->bytes += link.bytes;
  producer->first_from = comm->link_count;
  comm->links[comm->link_count++] = link;
  return RONDO_SUCCESS;
}

// Undoes the last communicator_make_link.
static void communicator_drop_last_link(struct rondo_communicator *comm) {
  const struct rondo_link *link = &comm->links[--comm->link_count];
  member_at(comm, link->from)->first_from = link->next_from;
  comm->bytes -= link->bytes;
  if (link->bytes)
    link_free_connectors(comm, link);
}

int rondo_communicator_connect(struct rondo_communicator *comm, const struct rondo_plan *plan,
                               uint32_t position, struct rondo_pool_want *want) {
  const uint32_t before = comm->link_count;
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < rondo_plan_connector_count(plan) && status == RONDO_SUCCESS; i++) {
    const struct rondo_plan_connector at = rondo_plan_connector_at(plan, position, i);
    status = communicator_make_link(comm, at.from, at.to, want);
  }
  while (status != RONDO_SUCCESS && comm->link_count > before)
    communicator_drop_last_link(comm);
  return status;
}

static bool link_is_ready(const struct rondo_communicator *comm, uint32_t from, uint32_t to) {
  const struct rondo_link *link = rondo_communicator_link(comm, from, to);
  return link && link->is_ready;
}

bool rondo_communicator_is_ready(const struct rondo_communicator *comm,
                                 const struct rondo_plan *plan, uint32_t position) {
  bool ready = true;
  for (uint32_t i = 0; i < rondo_plan_connector_count(plan) && ready; i++) {
    const struct rondo_plan_connector at = rondo_plan_connector_at(plan, position, i);
    ready = link_is_ready(comm, at.from, at.to);
  }
  return ready;
}

bool rondo_communicator_is_owed(const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++)
    if (comm->links[i].is_owed)
      return true;
  return false;
}

void rondo_communicator_fail(struct rondo_communicator *comm, int status, uint32_t culprit) {
  if (rondo_load_relaxed_u32(&comm->gate.state) >= RONDO_GATE_FAILED)
    return;
  rondo_store_relaxed_u32(&comm->gate.culprit, culprit);
  rondo_store_release_u32(&comm->gate.state, RONDO_GATE_FAILED + (uint32_t)status); // G1
}

// What the rank that caused a status has done.
static const char *status_blame(int status) {
  static const char *const blames[] = {
      [RONDO_ERR_ABORTED] = "aborted",
      [RONDO_ERR_PEER] = "is lost, or left before its part was done",
      [RONDO_ERR_MISMATCH] = "registered something else",
      [RONDO_ERR_SYSTEM] = "has lost its device, or its memory cannot be reached",
  };
  bool is_known = (size_t)status < sizeof blames / sizeof *blames && blames[status];
  return is_known ? blames[status] : "could not take part";
}

void rondo_reason_of_rank(uint32_t rank, int status, char *text, size_t text_bytes) {
  (void)snprintf(text, text_bytes, "rank %u %s", rank, status_blame(status));
}

void rondo_communicator_reason(const struct rondo_communicator *comm, char *text,
                               size_t text_bytes) {
  uint32_t state = rondo_load_acquire_u32(&comm->gate.state); // G2
  uint64_t last_run = rondo_load_acquire_u64(&comm->gate.last_run);
  uint32_t culprit = rondo_load_relaxed_u32(&comm->gate.culprit);
  int status = state >= RONDO_GATE_FAILED ? (int)(state - RONDO_GATE_FAILED) : RONDO_SUCCESS;
  text[0] = '\0';
  if (status != RONDO_SUCCESS && comm->reason)
    (void)snprintf(text, text_bytes, "%s", comm->reason);
  else if (status != RONDO_SUCCESS)
    rondo_reason_of_rank(culprit, status, text, text_bytes);
  else if (last_run != UINT64_MAX)
    (void)snprintf(text, text_bytes, "rank %u has deregistered it after %llu runs", culprit,
                   (unsigned long long)last_run);
}
