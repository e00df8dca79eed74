// How far all-reduces of 16-bit types are from sums in float32.
//
//   bench_rounding [--count=N] [--seed=N]
//
// Ranks of this process sum random numbers, with the algorithm of small all-reduces and with the
// ring. For each of N sums the reference adds the same inputs in float32, in the order of the
// ranks. "library" is the error of the all-reduce against the reference, "once" the error of the
// reference rounded to the type; both are divided by the sum of the magnitudes of the inputs.
// "ratio" is the mean of the first by the mean of the second. Inputs are uniform in [0, 1)
// ("positive") or in [-1, 1) ("signed"), rounded to the type.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#include "daemon/core/convert_core.h"
#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "tools/kit/options.h"
#include "tools/kit/thread_group.h"

#define MAX_RANKS 64u
#define TIMEOUT_NS INT64_C(60000000000)

struct type {
  const char *name;
  int dtype;
  float (*widen)(uint16_t code);
  uint16_t (*narrow)(float value);
};

static const struct type types[] = {
    {"float16", RONDO_FLOAT16, rondo_float_of_float16, rondo_float16_of_float},
    {"bfloat16", RONDO_BFLOAT16, rondo_float_of_bfloat16, rondo_bfloat16_of_float},
};

// A run sums so many elements: 8 KiB, the most that counts as small, and enough for a ring.
static const uint32_t run_counts[] = {4096, 65536};
static const uint32_t rank_counts[] = {2, 8, 64};
static const char *const input_names[] = {"positive", "signed"};

struct options {
  uint64_t count, seed;
};

// All ranks of a job and the buffers of one run.
struct bench {
  const struct type *type;
  uint32_t ranks, count;
  float least; // inputs are uniform from here to 1
  uint64_t random;
  struct rondo_context contexts[MAX_RANKS];
  struct rondo_collective collectives[MAX_RANKS];
  uint16_t *inputs[MAX_RANKS], *outputs[MAX_RANKS];
};

// The errors of many sums.
struct errors {
  double sum, max;
  uint64_t count;
};

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "bench_rounding: %s: %s\n", call, rondo_status_string(status));
    exit(1);
  }
}

static void bench_open(struct bench *b) {
  struct rondo_collective_desc desc = rondo_all_reduce(1, b->count, b->type->dtype, RONDO_SUM);
  struct rondo_config config = RONDO_CONFIG_INIT;
  status_check(rondo_unique_id_create(&config.id), "rondo_unique_id_create");
  config.rank_count = b->ranks;
  for (uint32_t r = 0; r < b->ranks; r++) {
    config.rank = r;
    status_check(rondo_init(&b->contexts[r], &config), "rondo_init");
    status_check(rondo_register(b->contexts[r], &desc, &b->collectives[r]), "rondo_register");
    b->inputs[r] = calloc(b->count, sizeof *b->inputs[r]);
    b->outputs[r] = calloc(b->count, sizeof *b->outputs[r]);
    if (!b->inputs[r] || !b->outputs[r])
      status_check(RONDO_ERR_NO_MEMORY, "calloc");
  }
}

static void bench_close(struct bench *b) {
  for (uint32_t r = 0; r < b->ranks; r++) {
    status_check(rondo_destroy(b->contexts[r], RONDO_DESTROY_DRAIN, TIMEOUT_NS), "rondo_destroy");
    free(b->inputs[r]);
    free(b->outputs[r]);
  }
}

// splitmix64, its upper bits as a float in [0, 1).
static float random_unit(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (float)((z ^ (z >> 31)) >> 40) * 0x1p-24f;
}

static void bench_run(struct bench *b) {
  for (uint32_t r = 0; r < b->ranks; r++)
    for (uint32_t i = 0; i < b->count; i++)
      b->inputs[r][i] = b->type->narrow(b->least + (1 - b->least) * random_unit(&b->random));
  for (uint32_t r = 0; r < b->ranks; r++)
    status_check(
        rondo_run(b->contexts[r], b->collectives[r], b->inputs[r], b->outputs[r], NULL, NULL),
        "rondo_run");
  for (uint32_t r = 0; r < b->ranks; r++)
    status_check(rondo_wait(b->contexts[r], b->collectives[r], RONDO_LAST_RUN, TIMEOUT_NS),
                 "rondo_wait");
}

static void errors_add(struct errors *e, double error) {
  e->sum += error;
  e->max = error > e->max ? error : e->max;
  e->count++;
}

// Adds the errors of the last run.
static void bench_compare(const struct bench *b, struct errors *library, struct errors *once) {
  for (uint32_t i = 0; i < b->count; i++) {
    float reference = 0;
    double magnitudes = 0;
    for (uint32_t r = 0; r < b->ranks; r++) {
      float input = b->type->widen(b->inputs[r][i]);
      reference += input;
      magnitudes += fabsf(input);
    }
    if (magnitudes == 0)
      continue;
    double result = b->type->widen(b->outputs[0][i]);
    double rounded = b->type->widen(b->type->narrow(reference));
    errors_add(library, fabs(result - (double)reference) / magnitudes);
    errors_add(once, fabs(rounded - (double)reference) / magnitudes);
  }
}

static const char *algorithm_name(const struct bench *b) {
  const struct rondo_cost_query query = {.kind = RONDO_ALL_REDUCE,
                                         .nranks = b->ranks,
                                         .bytes = b->count * sizeof(uint16_t),
                                         .cores = rondo_kit_core_count()};
  return rondo_plan_algorithm_name(rondo_cost_choose(&rondo_cost_defaults, &query).algorithm);
}

static void row_print(struct bench *b, const char *inputs, const struct options *options) {
  struct errors library = {0}, once = {0};
  bench_open(b);
  while (library.count < options->count) {
    bench_run(b);
    bench_compare(b, &library, &once);
  }
  printf("%-8s  %-8s  %5u  %-9s  %9.2e  %9.2e  %9.2e  %9.2e  %5.1f\n", b->type->name, inputs,
         b->ranks, algorithm_name(b), library.sum / (double)library.count, library.max,
         once.sum / (double)once.count, once.max, library.sum / once.sum);
  fflush(stdout);
  bench_close(b);
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"count", 'n', "N", "sums in each row, at least (1048576)", RONDO_KIT_U64,
       offsetof(struct options, count), .low = 1, .high = UINT64_MAX},
      {"seed", 's', "N", "of the random numbers (1)", RONDO_KIT_U64, offsetof(struct options, seed),
       .high = UINT64_MAX},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures how far 16-bit sums are from sums in float32."};
  struct options options = {1u << 20, 1};
  rondo_kit_command_read(&command, argc, argv, &options);
  printf("# all-reduce (sum), %llu sums in each row, seed %llu\n",
         (unsigned long long)options.count, (unsigned long long)options.seed);
  printf("# errors against float32 accumulation, divided by the sum of the inputs' magnitudes\n");
  printf("%-36s%-22s%s\n", "", "library", "once");
  printf("%-8s  %-8s  %5s  %-9s  %9s  %9s  %9s  %9s  %5s\n", "type", "inputs", "ranks", "algorithm",
         "mean", "max", "mean", "max", "ratio");
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t i = 0; i < 2; i++)
      for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++)
        for (size_t k = 0; k < sizeof run_counts / sizeof *run_counts; k++) {
          struct bench bench = {.type = &types[t],
                                .ranks = rank_counts[n],
                                .count = run_counts[k],
                                .least = i == 0 ? 0 : -1,
                                .random = options.seed};
          row_print(&bench, input_names[i], &options);
        }
  return 0;
}
