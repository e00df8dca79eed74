// How fast the CUDA backend is: gpu_bench [PART ...] prints one line of JSON a figure,
// {"name": ..., "value": ..., "unit": ...} and, where the figure has a target, "target" and "met";
// where gpu-model has a constant for it, "modelled". gpu_bench --list prints the parts.
// Several ranks share device 0. A watchdog on wall time ends it with 3, or what RONDO_TEST_SECONDS
// says; what was printed before counts. 77: there is no GPU.
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/bench.h"

#define SECONDS 90u

void print_figure(const char *name, double value, const char *unit) {
  printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"}\n", name, value, unit);
  fflush(stdout);
}

void print_target(const char *name, double value, const char *unit, int is_most, double target) {
  int is_met = is_most ? value <= target : value >= target;
  printf(
      "{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"target\": \"at %s %.4g\", \"met\": "
      "%s}\n",
      name, value, unit, is_most ? "most" : "least", target, is_met ? "true" : "false");
  fflush(stdout);
}

void print_modelled(const char *name, double value, const char *unit, double modelled) {
  printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"modelled\": %.4g}\n", name, value,
         unit, modelled);
  fflush(stdout);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double quantile(double *values, int count, double share) {
  if (count == 0)
    return 0;
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[(int)(share * (count - 1) + 0.5)];
}

// ----------------------------------------------------------------------- a team --

void team_open(struct team *t, uint64_t bytes) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.backend = RONDO_BACKEND_CUDA;
  c.rank_count = RANKS;
  c.blocks = t->blocks;
  t->bytes = bytes;
  OK(rondo_unique_id_create(&c.id));
  struct rondo_collective_desc d = rondo_all_reduce(1, bytes / 4, RONDO_FLOAT32, RONDO_SUM);
  for (uint32_t r = 0; r < RANKS; r++) {
    c.rank = r;
    OK(rondo_init(&t->ctx[r], &c));
    OK(rondo_register(t->ctx[r], &d, &t->colls[r]));
    t->send[r] = gpu_memory(bytes);
    t->recv[r] = gpu_memory(bytes);
  }
}

void team_submit(struct team *t, uint32_t first, uint32_t ranks) {
  for (uint32_t r = first; r < first + ranks; r++)
    OK(rondo_run(t->ctx[r], t->colls[r], gpu_pointer(t->send[r]), gpu_pointer(t->recv[r]), NULL,
                 NULL));
}

void team_await(struct team *t) {
  for (uint32_t r = 0; r < RANKS; r++)
    OK(rondo_wait(t->ctx[r], t->colls[r], RONDO_LAST_RUN, LONG_NS));
}

double team_run_us(struct team *t) {
  double begin = gpu_now_us();
  team_submit(t, 0, RANKS);
  team_await(t);
  return gpu_now_us() - begin;
}

void team_close(struct team *t) {
  for (uint32_t r = 0; r < RANKS; r++)
    OK(rondo_destroy(t->ctx[r], RONDO_DESTROY_DRAIN, LONG_NS));
  for (uint32_t r = 0; r < RANKS; r++) {
    gpu_release(t->send[r]);
    gpu_release(t->recv[r]);
  }
}

// ------------------------------------------------------------------------- main --

static const struct part {
  const char *name;
  void (*run)(void);
} parts[] = {{"constants", bench_constants}, {"breakdown", bench_breakdown},
             {"latency", bench_latency},     {"sizes", bench_sizes},
             {"blocks", bench_blocks},       {"memory", bench_memory},
             {"compute", bench_compute},     {"queues", bench_queues}};
#define PARTS (sizeof parts / sizeof *parts)

static int is_asked(const char *name, int argc, char **argv) {
  int is_named = argc < 2;
  for (int i = 1; i < argc; i++)
    is_named |= strcmp(argv[i], name) == 0;
  return is_named;
}

int main(int argc, char **argv) {
  const char *text = getenv("RONDO_TEST_SECONDS");
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (size_t i = 0; i < PARTS; i++)
      printf("%s\n", parts[i].name);
    return 0;
  }
  gpu_open("gpu_bench");
  gpu_watch(text ? (unsigned)strtoul(text, NULL, 10) : SECONDS, 3);
  if (gpu.is_stand_in)
    fprintf(stderr,
            "gpu_bench: on the stand-in for the CUDA driver: no figure says anything of a GPU\n");
  for (size_t i = 0; i < PARTS; i++)
    if (is_asked(parts[i].name, argc, argv))
      parts[i].run();
  return 0;
}
