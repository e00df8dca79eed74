#include "tools/perf/point.h"

#include <inttypes.h>
#include <stdio.h>

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

struct perf_bytes perf_point_bytes(const struct perf_point *point) {
  struct perf_bytes bytes = {0};
  for (uint32_t i = 0; i < point->in_flight; i++) {
    struct rondo_kit_shape shape = perf_point_shape(point, i);
    size_t one = rondo_kit_shape_bytes(&shape);
    bytes.all += (double)one;
    bytes.bus += (double)one * rondo_kit_shape_bus_factor(&shape);
    bytes.stride = one > bytes.stride ? one : bytes.stride;
  }
  bytes.stride = (bytes.stride + UNALIGN_ROOM + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
  return bytes;
}

const char *perf_point_name(const struct perf_point *point) {
  return point->is_mixed ? "mixed" : rondo_kind_name(point->shape.kind);
}

const char *perf_wait_name(uint32_t wait) {
  static const char *const names[PERF_WAIT_COUNT] = {"callback", "rondo_wait", "rondo_test",
                                                     "rondo_event_fd"};
  return names[wait];
}

// Of each rank: a send and a receive buffer a run, which in place are one, and the input of each
// collective.
static uint64_t buffers_count(const struct perf_setup *setup, const struct perf_point *point) {
  uint64_t of_run = point->in_place ? 1 : 2;
  return (of_run * setup->depth + 1) * point->in_flight;
}

double perf_memory_bytes(const struct perf_setup *setup, const struct perf_point *point) {
  double buffers = (double)buffers_count(setup, point) * (double)perf_point_bytes(point).stride;
  double times = sizeof(uint64_t) * (double)setup->capacity;
  return setup->ranks * (buffers + times);
}

bool perf_memory_suffices(const struct perf_setup *setup, const struct perf_point *point,
                          uint64_t available, char *text) {
  char all[RONDO_KIT_SIZE_TEXT_BYTES], one[RONDO_KIT_SIZE_TEXT_BYTES];
  char there[RONDO_KIT_SIZE_TEXT_BYTES];
  double bytes = perf_memory_bytes(setup, point);
  if (available == 0 || bytes <= (double)available)
    return true;
  snprintf(text, PERF_MEMORY_TEXT_BYTES,
           "%s of memory are needed (%" PRIu32 " rank%s x %" PRIu64 " buffers of %s, and %" PRIu32
           " samples of time each), and %s are available",
           rondo_kit_size_text(bytes, all), setup->ranks, setup->ranks == 1 ? "" : "s",
           buffers_count(setup, point),
           rondo_kit_size_text((double)perf_point_bytes(point).stride, one), setup->capacity,
           rondo_kit_size_text((double)available, there));
  return false;
}
