// How fast the host's kernels are, against memcpy of the same bytes in the same process.
//
//   bench_move [--level=NAME] [--time-ms=N]
//
// A row is one kernel and size; GB/s counts the bytes of the destination, so a reduction in
// place reads two and writes one byte for each. "ratio" is the time of memcpy by the time of
// the kernel: about 1 where memory bounds both, because a copy through the caches reads its
// destination too before it writes it.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/move.h"
#include "daemon/host/move_host.h"
#include "rondo/types.h"
#include "tools/kit/clock.h"
#include "tools/kit/options.h"

#define NAME_BYTES 64

struct options {
  int level; // -1: what the library chooses
  uint32_t time_ms;
};

struct kernel {
  int dtype, redop, final;
};

static const struct kernel KERNELS[] = {
    {RONDO_FLOAT32, RONDO_SUM, 0},     {RONDO_FLOAT32, RONDO_AVG, 0},
    {RONDO_FLOAT32, RONDO_MAX, 0},     {RONDO_FLOAT64, RONDO_SUM, 0},
    {RONDO_FLOAT64, RONDO_MAX, 0},     {RONDO_FLOAT16, RONDO_SUM, 0},
    {RONDO_FLOAT16, RONDO_AVG, 0},     {RONDO_FLOAT16, RONDO_MAX, 0},
    {RONDO_BFLOAT16, RONDO_SUM, 0},    {RONDO_BFLOAT16, RONDO_AVG, 0},
    {RONDO_BFLOAT16, RONDO_MAX, 0},    {RONDO_FLOAT8_E4M3, RONDO_SUM, 0},
    {RONDO_FLOAT8_E5M2, RONDO_SUM, 0}, {RONDO_INT8, RONDO_SUM, 0},
    {RONDO_INT8, RONDO_PROD, 0},       {RONDO_INT8, RONDO_AVG, 1},
    {RONDO_INT32, RONDO_SUM, 0},       {RONDO_INT32, RONDO_AVG, 1},
    {RONDO_INT64, RONDO_PROD, 0},      {RONDO_INT64, RONDO_MAX, 0},
    {RONDO_INT64, RONDO_AVG, 1},
};
#define KERNEL_COUNT (sizeof KERNELS / sizeof KERNELS[0])

// `kernel` null: memcpy from b to a.
static void kernel_run(const struct kernel *kernel, void *a, void *b, size_t bytes) {
  if (!kernel) {
    memcpy(a, b, bytes);
    __asm__ volatile("" : : "r"(a) : "memory");
    return;
  }
  const struct rondo_reduction r = rondo_reduction_lower(kernel->dtype, kernel->redop, 0, 7);
  rondo_move_reduce(&r, a, NULL, a, b, bytes / rondo_dtype_bytes(kernel->dtype), kernel->final);
}

// The best time of one call in ns, over batches that move 4 MiB or more.
static double time_best_ns(const struct kernel *kernel, void *a, void *b, size_t bytes,
                           const struct options *options) {
  const int batch = bytes >= (4u << 20) ? 1 : (int)((4u << 20) / bytes);
  const uint64_t end_ns = rondo_kit_now_ns() + options->time_ms * RONDO_KIT_MILLISECOND_NS;
  double best = 0;
  kernel_run(kernel, a, b, bytes);
  do {
    const uint64_t start_ns = rondo_kit_now_ns();
    for (int i = 0; i < batch; i++)
      kernel_run(kernel, a, b, bytes);
    const double ns = (double)(rondo_kit_now_ns() - start_ns) / batch;
    if (best == 0 || ns < best)
      best = ns;
  } while (rondo_kit_now_ns() < end_ns);
  return best;
}

static int size_measure(size_t bytes, const struct options *options) {
  void *a = aligned_alloc(4096, bytes);
  void *b = aligned_alloc(4096, bytes);
  if (!a || !b) {
    fprintf(stderr, "bench_move: no memory for two buffers of %zu bytes\n", bytes);
    free(a);
    free(b);
    return 1;
  }
  // Normal numbers in all types.
  memset(a, 0x35, bytes);
  memset(b, 0x36, bytes);
  const double copy_ns = time_best_ns(NULL, a, b, bytes, options);
  printf("%6zu KiB  %-20s %7.1f GB/s\n", bytes >> 10, "memcpy", (double)bytes / copy_ns);
  for (size_t k = 0; k < KERNEL_COUNT; k++) {
    memset(a, 0x35, bytes);
    const struct kernel *kernel = &KERNELS[k];
    const double ns = time_best_ns(kernel, a, b, bytes, options);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s %s%s", rondo_dtype_name(kernel->dtype),
             rondo_redop_name(kernel->redop), kernel->final ? ", last hop" : "");
    printf("%6zu KiB  %-20s %7.1f GB/s  ratio %.2f\n", bytes >> 10, name, (double)bytes / ns,
           copy_ns / ns);
  }
  free(a);
  free(b);
  return 0;
}

static bool level_read(const char *text, void *values) {
  struct options *options = values;
  for (int level = 0; level < RONDO_MOVE_LEVEL_COUNT; level++)
    if (strcmp(text, rondo_move_level_name(level)) == 0)
      options->level = level;
  return options->level >= 0 && rondo_move_level_is_supported(options->level);
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"level", 'l', "NAME", "base, avx2 or avx512 (default: the best there is)",
       .read = level_read},
      {"time-ms", 't', "N", "milliseconds for a row (default 20)", RONDO_KIT_U32,
       offsetof(struct options, time_ms), .low = 1, .high = 1000000},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Speed of copy and reduction on the host."};
  static const size_t sizes[] = {64u << 10, 512u << 10, 64u << 20};
  struct options options = {.level = -1, .time_ms = 20};
  rondo_kit_command_read(&command, argc, argv, &options);
  if (options.level >= 0)
    rondo_move_level_select(options.level);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    if (size_measure(sizes[i], &options))
      return 1;
  return 0;
}
