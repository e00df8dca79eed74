// How fast the hash of shared state reads memory, against a plain read of the same memory by the
// same thread in the same run; and how long a synchronisation takes if nothing has changed.
//
//   bench_state [--bytes=SIZE] [--rounds=N] [--ranks=N] [--checked=SIZE]
//
// The memory should be larger than the last level of cache. Reads and hashes take turns. The plain
// read sums 64-bit words in a loop that the compiler vectorises; of its two variants, for the
// compiler's target and for AVX2, the faster one counts. "ratio" is the speed of the hash by that
// of the plain read, the median of all rounds and the best round of each.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/state/block_hash.h"
#include "tools/kit/clock.h"
#include "tools/kit/options.h"
#include "tools/kit/thread_group.h"
#include <rondo/state.h>

#define MOST_ROUNDS 1000u
#define LONG_NS INT64_C(60000000000)

struct options {
  uint64_t bytes, checked_bytes;
  uint32_t rounds, ranks;
};

static uint64_t read_base(const void *bytes, size_t size) {
  const uint64_t *words = bytes;
  uint64_t sum = 0;
  for (size_t i = 0; i < size / sizeof *words; i++)
    sum += words[i];
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const void *bytes, size_t size) {
  const uint64_t *words = bytes;
  uint64_t sum = 0;
  for (size_t i = 0; i < size / sizeof *words; i++)
    sum += words[i];
  return sum;
}
#endif

// ------------------------------------------------------------------------ hashes ---

struct reader {
  const char *name;
  rondo_block_hash *read;
  double gbps[MOST_ROUNDS], best;
};

static double measure(rondo_block_hash *read, const char *memory, uint64_t bytes) {
  static volatile uint64_t sink;
  uint64_t begin_ns = rondo_kit_now_ns();
  for (uint64_t at = 0; at < bytes; at += RONDO_STATE_BLOCK_BYTES)
    sink += read(memory + at, RONDO_STATE_BLOCK_BYTES);
  return (double)bytes / (double)(rondo_kit_now_ns() - begin_ns);
}

static int double_compare(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t count) {
  qsort(values, count, sizeof *values, double_compare);
  return values[count / 2];
}

static bool hashes_measure(const struct options *o) {
  static struct reader readers[] = {
    {.name = "plain read", .read = read_base},
#if defined(__x86_64__)
    {.name = "plain read, AVX2", .read = read_avx2},
#endif
    {.name = "hash"},
  };
  enum { COUNT = sizeof readers / sizeof *readers };
  static double ratios[MOST_ROUNDS];
  struct reader *hash = &readers[COUNT - 1];
  char *memory = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  hash->read = rondo_block_hash_select();
  if (memory == MAP_FAILED || !hash->read)
    return false;
  for (uint64_t i = 0; i < o->bytes; i++)
    memory[i] = (char)(i * 2654435761u >> 13);
  double best = 0;
  for (uint32_t round = 0; round < o->rounds; round++) {
    double plain = 0;
    for (struct reader *r = readers; r < readers + COUNT; r++) {
      r->gbps[round] = measure(r->read, memory, o->bytes);
      r->best = r->gbps[round] > r->best ? r->gbps[round] : r->best;
      if (r < hash && r->gbps[round] > plain)
        plain = r->gbps[round];
    }
    ratios[round] = hash->gbps[round] / plain;
  }
  for (struct reader *r = readers; r < hash; r++)
    best = r->best > best ? r->best : best;
  printf("%-20s %10s %10s\n", "one thread", "median", "best GB/s");
  for (struct reader *r = readers; r < readers + COUNT; r++)
    printf("%-20s %10.2f %10.2f\n", r->name, median(r->gbps, o->rounds), r->best);
  printf("%-20s %10.2f %10.2f\n", "ratio", median(ratios, o->rounds), hash->best / best);
  munmap(memory, o->bytes);
  return true;
}

// ------------------------------------------------------------- a call for nothing ---

struct job {
  const struct options *options;
  struct rondo_unique_id id;
  uint32_t failures;
};

static double call_us[MOST_ROUNDS];

static bool rank_sync(const struct job *job, struct rondo_context ctx, uint32_t rank) {
  const struct options *o = job->options;
  const struct rondo_state_tensor tensor = {"state", calloc(1, o->checked_bytes + 1),
                                            o->checked_bytes, RONDO_UINT8};
  struct rondo_state state = RONDO_STATE_INIT;
  bool is_good = tensor.memory != NULL;
  state.tensors = &tensor;
  state.tensor_count = 1;
  for (uint32_t round = 0; round < o->rounds + 1 && is_good; round++) {
    uint64_t begin_ns = rondo_kit_now_ns();
    is_good = rondo_state_sync(ctx, &state, LONG_NS, NULL, NULL) == RONDO_SUCCESS;
    if (rank == 0 && round)
      call_us[round - 1] = (double)(rondo_kit_now_ns() - begin_ns) / 1e3;
  }
  free(tensor.memory);
  return is_good;
}

static void rank_main(void *arg, uint32_t rank) {
  struct job *job = arg;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  cfg.id = job->id;
  cfg.rank = rank;
  cfg.rank_count = job->options->ranks;
  bool is_good = rondo_init(&ctx, &cfg) == RONDO_SUCCESS;
  if (is_good) {
    is_good = rank_sync(job, ctx, rank);
    (void)rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS);
  }
  if (!is_good)
    (void)__atomic_fetch_add(&job->failures, 1, __ATOMIC_RELAXED);
}

static bool calls_measure(const struct options *o) {
  struct job job = {.options = o};
  struct rondo_kit_thread_group group = {.count = o->ranks, .main = rank_main, .arg = &job};
  if (rondo_unique_id_create(&job.id) != RONDO_SUCCESS || rondo_kit_thread_group_run(&group) != 0 ||
      job.failures)
    return false;
  double middle_us = median(call_us, o->rounds);
  printf(
      "\nstate_sync of %llu bytes that have not changed, %u ranks: median %.1f us, best %.1f us\n",
      (unsigned long long)o->checked_bytes, o->ranks, middle_us, call_us[0]);
  return true;
}

#define DOC                                                                                        \
  "Hashes memory as shared state is hashed, against a plain read of the same memory by one "       \
  "thread; and synchronises a state that has not changed."

#define AT(field) .offset = offsetof(struct options, field)

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"bytes", 'b', "SIZE", "Memory to hash (default 256M)", RONDO_KIT_SIZE, AT(bytes)},
      {"rounds", 'r', "N", "Rounds (default 21)", RONDO_KIT_U32, AT(rounds), .low = 1,
       .high = MOST_ROUNDS},
      {"ranks", 't', "N", "Ranks that synchronise (default 2)", RONDO_KIT_U32, AT(ranks), .low = 1,
       .high = 64},
      {"checked", 'c', "SIZE", "State that they synchronise (default 400000)", RONDO_KIT_SIZE,
       AT(checked_bytes)},
      {0}};
  struct options o = {
      .bytes = UINT64_C(256) << 20, .rounds = 21, .ranks = 2, .checked_bytes = 400000};
  const struct rondo_kit_command command = {.options = table, .doc = DOC};
  rondo_kit_command_read(&command, argc, argv, &o);
  o.bytes -= o.bytes % RONDO_STATE_BLOCK_BYTES;
  return hashes_measure(&o) && calls_measure(&o) ? 0 : 1;
}
