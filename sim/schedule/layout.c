#include "sim/schedule/layout.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/core/context_core.h"
#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "sim/common/rng.h"
#include <rondo/rondo.h>

#define ALIGN_BYTES 64u
#define MOST_LINKS 100000000u // 38 GB of connectors

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// ------------------------------------------------------------------- cutting ---

// One block has all elements; a slot holds all chunks of an op.
static void geometry_make(struct rondo_schedule_layout *l, uint32_t chunk_count) {
  const struct rondo_schedule_shape *s = &l->shape;
  struct rondo_geometry *g = &l->geometry;
  bool splits = rondo_plan_splits(s->kind, s->algorithm);
  uint32_t elem_bytes = s->bytes % 4 ? 1 : 4;
  uint64_t count = s->bytes / elem_bytes;
  uint64_t most_width = rondo_plan_most_width(s->kind, s->algorithm, s->nranks);
  uint64_t slot_bytes = s->slot_bytes;
  if (rondo_plan_has_packets(s->algorithm)) // as rondo_shape_make does
    slot_bytes = rondo_geometry_min(slot_bytes / 2, RONDO_COST_PACKETS_LOOP_BYTES);
  uint64_t most_bytes = slot_bytes / most_width / ALIGN_BYTES * ALIGN_BYTES;
  uint64_t chunk_bytes =
      divide_up(divide_up(s->bytes, splits ? chunk_count : 1), ALIGN_BYTES) * ALIGN_BYTES;
  chunk_bytes = chunk_bytes > most_bytes ? most_bytes : chunk_bytes;
  chunk_bytes = chunk_bytes < ALIGN_BYTES ? ALIGN_BYTES : chunk_bytes;
  g->end = count;
  g->chunk_count = chunk_count;
  g->chunk_elems = (uint32_t)(chunk_bytes / elem_bytes);
  g->segment = splits ? 0 : count;
  if (splits) {
    g->align_elems = ALIGN_BYTES / elem_bytes;
  }
  l->elem_bytes = (uint8_t)elem_bytes;
  if (s->kind == RONDO_BARRIER) {
    l->elem_bytes = 0;
    g->chunk_elems = 1;
    g->end = g->segment = s->nranks > 1;
  }
}

// --------------------------------------------------------------------- parts ---

uint64_t rondo_schedule_part_bytes(const struct rondo_schedule_shape *shape, uint32_t from,
                                   uint32_t to) {
  struct rondo_sim_rng rng;
  uint32_t sender = shape->returns ? to : from, receiver = shape->returns ? from : to;
  rondo_sim_rng_begin(&rng, shape->parts_seed, sender, receiver);
  return rondo_sim_rng_below(&rng, 2 * (uint32_t)shape->bytes + 1);
}

static struct rondo_listed *parts_at(const struct rondo_schedule_layout *l, uint32_t position) {
  return (struct rondo_listed *)(void *)(l->parts + position * rondo_listed_bytes(l->shape.nranks));
}

const struct rondo_listed *rondo_schedule_layout_parts(const struct rondo_schedule_layout *layout,
                                                       uint32_t position) {
  return parts_at(layout, position);
}

// The parts lie one after the other in the buffers, in elements of a byte.
static void parts_make(struct rondo_schedule_layout *l) {
  uint32_t n = l->shape.nranks;
  l->parts = rondo_sim_calloc(n, rondo_listed_bytes(n));
  for (uint32_t i = 0; i < n; i++) {
    struct rondo_listed *listed = parts_at(l, i);
    struct rondo_span *places = rondo_listed_places(listed);
    uint64_t at[2] = {0, 0};
    for (uint32_t k = 0; k < 2 * n; k++) {
      bool comes = k >= n;
      uint32_t peer = comes ? k - n : k;
      places[k].offset = at[comes];
      places[k].count = rondo_schedule_part_bytes(&l->shape, comes ? peer : i, comes ? i : peer);
      at[comes] += places[k].count;
      if (places[k].count > listed->most_elems) {
        listed->most_elems = places[k].count;
      }
    }
  }
  l->elem_bytes = 1;
  l->geometry = (struct rondo_geometry){.end = 1,
                                        .segment = l->shape.slot_bytes,
                                        .chunk_elems = l->shape.slot_bytes,
                                        .chunk_count = n};
}

// ------------------------------------------------------------------ programs ---

static uint64_t digest_of(const unsigned char *data, size_t bytes) {
  uint64_t digest = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; i++) {
    digest = (digest ^ data[i]) * UINT64_C(0x100000001b3);
  }
  return digest ^ digest >> 32;
}

static const char *program_begin(const struct rondo_schedule_program *p) {
  return (const char *)p->ops - sizeof(struct rondo_own_memory);
}

// The place in the hash table of a program with this content: where it is, or where it would be.
static uint32_t program_place(const struct rondo_schedule_layout *l, const char *content,
                              uint32_t bytes) {
  uint32_t mask = l->digest_capacity - 1;
  uint32_t at = (uint32_t)digest_of((const unsigned char *)content, bytes) & mask;
  for (; l->by_digest[at]; at = (at + 1) & mask) {
    const struct rondo_schedule_program *p = &l->programs[l->by_digest[at] - 1];
    if (p->bytes == bytes && memcmp(program_begin(p), content, bytes) == 0) {
      break;
    }
  }
  return at;
}

static void digests_grow(struct rondo_schedule_layout *l) {
  free(l->by_digest);
  l->digest_capacity = l->digest_capacity ? 2 * l->digest_capacity : 64;
  l->by_digest = rondo_sim_calloc(l->digest_capacity, sizeof *l->by_digest);
  for (uint32_t i = 0; i < l->program_count; i++) {
    const struct rondo_schedule_program *p = &l->programs[i];
    l->by_digest[program_place(l, program_begin(p), p->bytes)] = i + 1;
  }
}

// Returns the number of the program of a plan.
static uint32_t program_add(struct rondo_schedule_layout *l, const struct rondo_plan *plan) {
  union {
    struct rondo_own_memory own;
    char bytes[sizeof(struct rondo_own_memory) + sizeof plan->ops];
  } content = {
      .own = {.scratch_first = plan->scratch_first, .round_chunks = (uint16_t)plan->round_chunks}};
  uint32_t ops_bytes = plan->op_count * (uint32_t)sizeof plan->ops[0];
  uint32_t bytes = (uint32_t)sizeof content.own + ops_bytes;
  memcpy(content.bytes + sizeof content.own, plan->ops, ops_bytes);
  if (2 * l->program_count >= l->digest_capacity) {
    digests_grow(l);
  }
  uint32_t place = program_place(l, content.bytes, bytes);
  if (!l->by_digest[place]) {
    char *copy = rondo_sim_alloc(bytes);
    memcpy(copy, content.bytes, bytes);
    RONDO_SIM_GROW(l->programs, l->program_count, l->program_capacity, 16);
    l->programs[l->program_count++] = (struct rondo_schedule_program){
        .ops = (struct rondo_plan_op *)(void *)(copy + sizeof content.own),
        .bytes = bytes,
        .op_count = (uint8_t)plan->op_count,
        .first_pass = (uint8_t)plan->first_pass};
    l->by_digest[place] = l->program_count;
  }
  return l->by_digest[place] - 1;
}

// --------------------------------------------------------------------- links ---

// Peers as rondo_plan_peer has them, in few bytes if they are many.
struct peers {
  uint32_t count, stride, first, second;
  uint32_t listed_at; // in the array of all listed peers
};

struct peer_table {
  struct peers *of; // by position
  uint32_t *listed;
  uint64_t listed_count, listed_capacity;
  uint32_t nranks;
};

static void peers_add(struct peer_table *t, uint32_t position, const struct rondo_plan_peers *p) {
  t->of[position] = (struct peers){.count = p->count,
                                   .stride = p->stride,
                                   .first = p->listed[0],
                                   .second = p->listed[1],
                                   .listed_at = (uint32_t)t->listed_count};
  for (uint32_t i = 0; p->stride == 0 && i < p->count; i++) {
    RONDO_SIM_GROW(t->listed, t->listed_count, t->listed_capacity, 1024);
    t->listed[t->listed_count++] = p->listed[i];
  }
}

static uint32_t peer_at(const struct peer_table *t, const struct peers *p, uint32_t index) {
  if (p->stride == 0) {
    return t->listed[p->listed_at + index];
  }
  return index == 0 ? p->first
                    : (uint32_t)((p->second + (uint64_t)(index - 1) * p->stride) % t->nranks);
}

// Which of the peers `wanted` is; p->count if none.
static uint32_t peer_find(const struct peer_table *t, const struct peers *p, uint32_t wanted) {
  uint32_t n = t->nranks, found;
  if (p->stride == 0) {
    for (found = 0; found < p->count && t->listed[p->listed_at + found] != wanted; found++) {
    }
    return found;
  }
  if (wanted == p->first) {
    return 0;
  }
  uint64_t distance = (wanted + (uint64_t)n - p->second) % n;
  if (p->stride == n - 1) { // downwards
    found = 1 + (uint32_t)(distance ? n - distance : 0);
    return found < p->count ? found : p->count;
  }
  while (distance % p->stride != 0 && distance / p->stride < p->count) {
    distance += n;
  }
  found = 1 + (uint32_t)(distance / p->stride);
  return distance % p->stride == 0 && found < p->count ? found : p->count;
}

// Numbers the links, and finds for each recv peer the link of its sender.
static void links_make(struct rondo_schedule_layout *l, const struct peer_table *senders,
                       const struct peer_table *receivers) {
  uint32_t n = l->shape.nranks;
  l->send_first = rondo_sim_calloc((size_t)n + 1, sizeof *l->send_first);
  l->recv_first = rondo_sim_calloc((size_t)n + 1, sizeof *l->recv_first);
  for (uint32_t i = 0; i < n; i++) {
    l->send_first[i + 1] = l->send_first[i] + senders->of[i].count;
    l->recv_first[i + 1] = l->recv_first[i] + receivers->of[i].count;
  }
  l->link_count = l->send_first[n];
  l->recv_links = rondo_sim_calloc(l->link_count, sizeof *l->recv_links);
  l->receivers = rondo_sim_calloc(l->link_count, sizeof *l->receivers);
  for (uint32_t i = 0; i < n; i++) {
    const struct peers *recv = &receivers->of[i], *send = &senders->of[i];
    for (uint32_t k = 0; k < send->count; k++) {
      l->receivers[l->send_first[i] + k] = peer_at(senders, send, k);
    }
    for (uint32_t k = 0; k < recv->count; k++) {
      uint32_t from = peer_at(receivers, recv, k);
      l->recv_links[l->recv_first[i] + k] =
          l->send_first[from] + peer_find(senders, &senders->of[from], i);
    }
  }
}

static bool links_check(const struct rondo_schedule_shape *s, const struct peer_table *senders,
                        struct rondo_sim_error *error) {
  uint64_t links = 0;
  for (uint32_t i = 0; i < s->nranks; i++) {
    links += senders->of[i].count;
  }
  return links <= MOST_LINKS ||
         rondo_sim_refuse(error, "%s by %s needs %llu connectors for %u ranks, more than %u",
                          rondo_kind_name(s->kind), rondo_plan_algorithm_name(s->algorithm),
                          (unsigned long long)links, s->nranks, MOST_LINKS);
}

// -------------------------------------------------------------------- layout ---

static bool shape_check(const struct rondo_schedule_shape *s, struct rondo_sim_error *error) {
  uint32_t most = s->kind == RONDO_SEND_RECV ? 2 : RONDO_MAX_RANKS;
  if (s->nranks < 1 || s->nranks > most) {
    return rondo_sim_refuse(error, "%s has 1 to %u ranks, not %u", rondo_kind_name(s->kind), most,
                            s->nranks);
  }
  if (s->kind == RONDO_ALL_TO_ALL_V && s->bytes > INT32_MAX) {
    return rondo_sim_refuse(error, "all_to_all_v has parts of 2 GiB or less in the mean");
  }
  if (!rondo_plan_exists(s->kind, s->algorithm, s->nranks)) {
    return rondo_sim_refuse(error, "%s has no plan by the algorithm %s for %u ranks",
                            rondo_kind_name(s->kind), rondo_plan_algorithm_name(s->algorithm),
                            s->nranks);
  }
  return true;
}

struct rondo_schedule_layout *rondo_schedule_layout_create(const struct rondo_schedule_shape *shape,
                                                           struct rondo_sim_error *error) {
  struct rondo_plan plan;
  uint32_t n = shape->nranks;
  if (!shape_check(shape, error)) {
    return NULL;
  }
  struct rondo_schedule_layout *l = rondo_sim_calloc(1, sizeof *l);
  struct peer_table senders = {rondo_sim_calloc(n, sizeof *senders.of), .nranks = n};
  struct peer_table receivers = {rondo_sim_calloc(n, sizeof *receivers.of), .nranks = n};
  struct rondo_plan_request request = {.kind = shape->kind,
                                       .algorithm = shape->algorithm,
                                       .nranks = n,
                                       .root = shape->root,
                                       .topology = shape->topology};
  l->shape = *shape;
  if (shape->slot_count == 0) {
    l->shape.slot_count = rondo_plan_slots(shape->kind, shape->algorithm, n);
  }
  geometry_make(l, rondo_plan_chunk_count(&request));
  l->program_of = rondo_sim_calloc(n, sizeof *l->program_of);
  for (request.rank = 0; request.rank < n; request.rank++) {
    (void)rondo_plan_build(&request, &plan); // shape_check has looked at all that it refuses
    l->program_of[request.rank] = program_add(l, &plan);
    peers_add(&senders, request.rank, &plan.send);
    peers_add(&receivers, request.rank, &plan.recv);
  }
  bool ok = links_check(shape, &senders, error);
  if (ok) {
    links_make(l, &senders, &receivers);
    if (shape->kind == RONDO_ALL_TO_ALL_V) {
      parts_make(l);
    }
  }
  free(senders.of);
  free(senders.listed);
  free(receivers.of);
  free(receivers.listed);
  if (!ok) {
    rondo_schedule_layout_destroy(l);
    return NULL;
  }
  return l;
}

void rondo_schedule_layout_destroy(struct rondo_schedule_layout *l) {
  if (!l) {
    return;
  }
  for (uint32_t i = 0; i < l->program_count; i++) {
    free((char *)l->programs[i].ops - sizeof(struct rondo_own_memory));
  }
  free(l->parts);
  free(l->programs);
  free(l->by_digest);
  free(l->send_first);
  free(l->recv_first);
  free(l->recv_links);
  free(l->receivers);
  free(l->program_of);
  free(l);
}
