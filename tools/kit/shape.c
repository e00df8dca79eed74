#include "tools/kit/shape.h"

#include "tools/kit/values.h"

enum trait {
  IS_KIND = 1, // rondo_kit_shape_is_kind
  REDUCES = 2,
  IS_ROOTED = 4,
  ROOT_SENDS = 8,  // the root alone
  SEND_PARTS = 16, // the send buffer holds a part for each rank
  RECV_PARTS = 32  // the receive buffer does
};

static const unsigned traits[RONDO_KIND_COUNT] = {
    [RONDO_ALL_REDUCE] = IS_KIND | REDUCES,
    [RONDO_ALL_GATHER] = IS_KIND | RECV_PARTS,
    [RONDO_REDUCE_SCATTER] = IS_KIND | REDUCES | SEND_PARTS,
    [RONDO_REDUCE] = IS_KIND | REDUCES | IS_ROOTED,
    [RONDO_BROADCAST] = IS_KIND | IS_ROOTED | ROOT_SENDS,
    [RONDO_ALL_TO_ALL] = IS_KIND | SEND_PARTS | RECV_PARTS,
    [RONDO_GATHER] = IS_KIND | IS_ROOTED | RECV_PARTS,
    [RONDO_SCATTER] = IS_KIND | IS_ROOTED | ROOT_SENDS | SEND_PARTS};

static bool kind_has(int kind, unsigned any) { return (traits[kind] & any) != 0; }
bool rondo_kit_shape_is_kind(int kind) { return kind_has(kind, IS_KIND); }
bool rondo_kit_shape_reduces(int kind) { return kind_has(kind, REDUCES); }
bool rondo_kit_shape_is_rooted(int kind) { return kind_has(kind, IS_ROOTED); }

bool rondo_kit_shape_sends(const struct rondo_kit_shape *s, uint32_t rank) {
  return kind_has(s->kind, ROOT_SENDS) ? rank == s->root : s->kind != RONDO_BARRIER;
}

bool rondo_kit_shape_may_be_in_place(const struct rondo_kit_shape *s) {
  return kind_has(s->kind, IS_KIND) && s->kind != RONDO_ALL_TO_ALL;
}

void rondo_kit_shape_size(struct rondo_kit_shape *shape, uint64_t bytes) {
  uint64_t elements = bytes / rondo_dtype_bytes(shape->dtype);
  if (kind_has(shape->kind, SEND_PARTS | RECV_PARTS) || shape->kind == RONDO_ALL_TO_ALL_V)
    elements /= shape->rank_count;
  shape->count = elements > 0 ? elements : 1;
  if (shape->kind == RONDO_BARRIER)
    shape->count = 0;
}

uint64_t rondo_kit_shape_part(const struct rondo_kit_shape *shape, uint32_t from, uint32_t to) {
  uint32_t n = shape->rank_count;
  uint32_t distance = (to + n - from) % n;
  return n == 1 ? shape->count : 2 * shape->count * distance / (n - 1);
}

// Elements that a rank sends to the ranks before `end`, or receives from them.
static uint64_t parts_count(const struct rondo_kit_shape *s, uint32_t rank, uint32_t end,
                            bool sends) {
  uint64_t elements = 0;
  for (uint32_t r = 0; r < end; r++)
    elements += sends ? rondo_kit_shape_part(s, rank, r) : rondo_kit_shape_part(s, r, rank);
  return elements;
}

uint64_t rondo_kit_shape_send_bytes(const struct rondo_kit_shape *shape) {
  uint64_t element_bytes = rondo_dtype_bytes(shape->dtype);
  if (shape->kind == RONDO_ALL_TO_ALL_V)
    return parts_count(shape, 0, shape->rank_count, true) * element_bytes;
  uint64_t bytes = shape->count * element_bytes;
  return kind_has(shape->kind, SEND_PARTS) ? bytes * shape->rank_count : bytes;
}

uint64_t rondo_kit_shape_recv_bytes(const struct rondo_kit_shape *shape) {
  if (shape->kind == RONDO_ALL_TO_ALL_V)
    return rondo_kit_shape_send_bytes(shape);
  uint64_t bytes = shape->count * rondo_dtype_bytes(shape->dtype);
  return kind_has(shape->kind, RECV_PARTS) ? bytes * shape->rank_count : bytes;
}

uint64_t rondo_kit_shape_bytes(const struct rondo_kit_shape *shape) {
  uint64_t send = rondo_kit_shape_send_bytes(shape);
  uint64_t recv = rondo_kit_shape_recv_bytes(shape);
  return send > recv ? send : recv;
}

double rondo_kit_shape_bus_factor(const struct rondo_kit_shape *shape) {
  double n = shape->rank_count;
  if (shape->kind == RONDO_ALL_REDUCE)
    return 2 * (n - 1) / n;
  return kind_has(shape->kind, SEND_PARTS | RECV_PARTS) ? (n - 1) / n : 1;
}

static struct rondo_kit_values shape_values(const struct rondo_kit_shape *s, uint64_t round) {
  struct rondo_kit_values v = {s->dtype, s->redop, s->rank_count, round, s->quantisation};
  if (!rondo_kit_shape_reduces(s->kind))
    v.redop = RONDO_SUM;
  return v;
}

struct rondo_collective_desc rondo_kit_shape_desc(const struct rondo_kit_shape *shape, uint64_t id,
                                                  uint32_t rank) {
  struct rondo_kit_values v = shape_values(shape, 0);
  struct rondo_collective_desc d = rondo_all_reduce(id, shape->count, shape->dtype, v.redop);
  d.kind = shape->kind;
  if (rondo_kit_shape_is_rooted(shape->kind))
    d.root = shape->root;
  if (shape->kind == RONDO_SEND_RECV)
    d = rondo_send_recv(id, shape->count, shape->dtype, rank, (rank + 1) % shape->rank_count);
  if (shape->kind == RONDO_ALL_TO_ALL_V)
    d.count = 0;
  if (shape->kind == RONDO_BARRIER)
    d = rondo_barrier(id);
  d.scalar = rondo_kit_values_scalar(&v, rank);
  d.quantisation = (uint32_t)shape->quantisation;
  return d;
}

struct rondo_kit_place rondo_kit_shape_place(const struct rondo_kit_shape *shape, uint32_t rank,
                                             bool in_place, void *send_base, void *recv_base) {
  struct rondo_kit_place p = {send_base, recv_base};
  if (!in_place || !rondo_kit_shape_may_be_in_place(shape))
    return p;
  uint64_t part_bytes = shape->count * rondo_dtype_bytes(shape->dtype);
  char *part = (char *)recv_base + rank * part_bytes;
  p.send = kind_has(shape->kind, RECV_PARTS) ? part : recv_base;
  p.recv = kind_has(shape->kind, SEND_PARTS) ? part : recv_base;
  return p;
}

void rondo_kit_shape_fill(const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                          void *send) {
  struct rondo_kit_values v = shape_values(shape, round);
  uint64_t count = rondo_kit_shape_send_bytes(shape) / rondo_dtype_bytes(shape->dtype);
  rondo_kit_values_fill(&v, rank, send, 0, count);
}

static bool rank_receives(const struct rondo_kit_shape *shape, uint32_t rank) {
  return (shape->kind != RONDO_REDUCE && shape->kind != RONDO_GATHER) || rank == shape->root;
}

uint64_t rondo_kit_shape_checked(const struct rondo_kit_shape *shape, uint32_t rank) {
  if (!rank_receives(shape, rank))
    return 0;
  return rondo_kit_shape_recv_bytes(shape) / rondo_dtype_bytes(shape->dtype);
}

// Wrong elements of an all-to-all-v.
static uint64_t parts_wrong(const struct rondo_kit_shape *s, const struct rondo_kit_values *v,
                            uint32_t rank, const char *recv) {
  uint64_t wrong = 0;
  for (uint32_t r = 0; r < s->rank_count; r++) {
    uint64_t at = parts_count(s, rank, r, false) * rondo_dtype_bytes(s->dtype);
    wrong += rondo_kit_values_wrong(v, r, recv + at, parts_count(s, r, rank, true),
                                    rondo_kit_shape_part(s, r, rank));
  }
  return wrong;
}

uint64_t rondo_kit_shape_wrong(const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                               const void *recv) {
  if (!rank_receives(shape, rank))
    return 0;
  struct rondo_kit_values v = shape_values(shape, round);
  uint64_t count = shape->count;
  uint64_t wrong = 0;
  switch (shape->kind) {
  case RONDO_ALL_GATHER:
  case RONDO_GATHER:
  case RONDO_ALL_TO_ALL:
    for (uint32_t r = 0; r < shape->rank_count; r++)
      wrong += rondo_kit_values_wrong(
          &v, r, (const char *)recv + r * count * rondo_dtype_bytes(shape->dtype),
          shape->kind == RONDO_ALL_TO_ALL ? rank * count : 0, count);
    return wrong;
  case RONDO_ALL_TO_ALL_V:
    return parts_wrong(shape, &v, rank, recv);
  case RONDO_SEND_RECV:
    return rondo_kit_values_wrong(&v, (rank + shape->rank_count - 1) % shape->rank_count, recv, 0,
                                  count);
  case RONDO_BARRIER:
    return 0;
  case RONDO_SCATTER:
    return rondo_kit_values_wrong(&v, shape->root, recv, rank * count, count);
  case RONDO_BROADCAST:
    return rondo_kit_values_wrong(&v, shape->root, recv, 0, count);
  case RONDO_REDUCE_SCATTER:
    return rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, recv, rank * count, count);
  default:
    return rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, recv, 0, count);
  }
}
