#include "tools/perf/point.h"

#define BUFFER_ALIGN 4096u
#define UNALIGN_ROOM 128u

// In this order one collective of each kind follows the other in a mixed point.
static const int mixed_kinds[] = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER,  RONDO_REDUCE_SCATTER,
                                  RONDO_BROADCAST,  RONDO_REDUCE,      RONDO_ALL_TO_ALL,
                                  RONDO_GATHER,     RONDO_SCATTER,     RONDO_SEND_RECV,
                                  RONDO_BARRIER,    RONDO_ALL_TO_ALL_V};
#define MIXED_KIND_COUNT (sizeof mixed_kinds / sizeof *mixed_kinds)

struct rondo_kit_shape perf_point_shape(const struct perf_point *point, uint32_t index) {
  struct rondo_kit_shape shape = point->shape;
  if (!point->is_mixed)
    return shape;
  // The first shape is that of an all-reduce, whose two buffers are of the size that was asked for.
  shape.kind = mixed_kinds[index % MIXED_KIND_COUNT];
  rondo_kit_shape_size(&shape, rondo_kit_shape_bytes(&point->shape));
  return shape;
}

bool perf_point_may_be_in_place(const struct perf_point *point) {
  return !point->is_mixed && rondo_kit_shape_may_be_in_place(&point->shape);
}

double perf_point_bytes(const struct perf_point *point) {
  double bytes = 0;
  for (uint32_t i = 0; i < point->in_flight; i++) {
    struct rondo_kit_shape shape = perf_point_shape(point, i);
    bytes += (double)rondo_kit_shape_bytes(&shape);
  }
  return bytes;
}

double perf_point_bus_bytes(const struct perf_point *point) {
  double bytes = 0;
  for (uint32_t i = 0; i < point->in_flight; i++) {
    struct rondo_kit_shape shape = perf_point_shape(point, i);
    bytes += (double)rondo_kit_shape_bytes(&shape) * rondo_kit_shape_bus_factor(&shape);
  }
  return bytes;
}

size_t perf_point_stride_bytes(const struct perf_point *point) {
  size_t largest = 0;
  for (uint32_t i = 0; i < point->in_flight; i++) {
    struct rondo_kit_shape shape = perf_point_shape(point, i);
    size_t bytes = rondo_kit_shape_bytes(&shape);
    largest = bytes > largest ? bytes : largest;
  }
  return (largest + UNALIGN_ROOM + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

const char *perf_point_name(int kind, bool is_mixed) {
  return is_mixed ? "mixed" : rondo_kind_name(kind);
}

const char *perf_wait_name(int wait) {
  static const char *const names[PERF_WAIT_COUNT] = {"callback", "rondo_wait", "rondo_test",
                                                     "rondo_event_fd"};
  return wait >= 0 && wait < PERF_WAIT_COUNT ? names[wait] : "unknown";
}
