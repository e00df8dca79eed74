#include "tools/perf/memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/kit/options.h"

// Of each rank: a send and a receive buffer a run, which in place are one, and the input of each
// collective.
static uint64_t buffers_count(const struct perf_setup *setup, const struct perf_point *point) {
  uint64_t of_run = point->in_place ? 1 : 2;
  return (of_run * setup->depth + 1) * point->in_flight;
}

double perf_memory_bytes(const struct perf_setup *setup, const struct perf_point *point) {
  double buffers = (double)buffers_count(setup, point) * (double)perf_point_stride_bytes(point);
  double times = sizeof(uint64_t) * (double)setup->capacity;
  return setup->ranks * (buffers + times);
}

static const char *bytes_text(double bytes, char *text) {
  return rondo_kit_size_text(bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX, text);
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
           bytes_text(bytes, all), setup->ranks, setup->ranks == 1 ? "" : "s",
           buffers_count(setup, point), bytes_text((double)perf_point_stride_bytes(point), one),
           setup->capacity, bytes_text((double)available, there));
  return false;
}
