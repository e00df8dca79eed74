// bench_urgent: how long a small, urgent all-reduce takes behind large ones that were submitted
// before it, without and with priority. Ranks are threads. Every sum of the urgent one is checked.
// The output is a line of JSON for each.
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "benchmarks/peers/urgent.h"
#include "tools/kit/barrier.h"
#include "tools/kit/clock.h"
#include "tools/kit/thread_group.h"

#define TIMEOUT_NS (60 * (int64_t)RONDO_KIT_SECOND_NS)

struct bench {
  struct rondo_kit_barrier barrier;
  struct urgent_options options;
  int order; // enum rondo_order_policy
  struct rondo_unique_id id;
  _Atomic int status;                                                       // the first failure
  _Atomic uint64_t wrong;                                                   // urgent elements
  _Atomic uint64_t urgent_ns[URGENT_MAX_ROUNDS], all_ns[URGENT_MAX_ROUNDS]; // of the slowest rank
};

struct rank {
  struct bench *bench;
  uint32_t rank;
  struct rondo_context context;
  struct rondo_collective colls[URGENT_MAX_COUNT + 1]; // the urgent one comes last
  char *buffers[URGENT_MAX_COUNT + 1];
};

static bool call_succeeded(struct bench *bench, int status) {
  int none = RONDO_SUCCESS;
  if (status != RONDO_SUCCESS)
    atomic_compare_exchange_strong(&bench->status, &none, status);
  return status == RONDO_SUCCESS;
}

static uint64_t rank_bytes(const struct rank *self, uint32_t i) {
  const struct urgent_options *o = &self->bench->options;
  return i < o->count ? o->bytes : o->urgent_bytes;
}

static bool rank_open(struct rank *self, uint32_t rank) {
  struct bench *bench = self->bench;
  struct rondo_config config = RONDO_CONFIG_INIT;
  config.id = bench->id;
  config.rank = rank;
  config.rank_count = bench->options.ranks;
  config.order = bench->order;
  if (!call_succeeded(bench, rondo_init(&self->context, &config)))
    return false;
  for (uint32_t i = 0; i <= bench->options.count; i++) {
    uint64_t count = rank_bytes(self, i) / sizeof(float);
    struct rondo_collective_desc desc = rondo_all_reduce(i, count, RONDO_FLOAT32, RONDO_SUM);
    desc.priority = i == bench->options.count ? RONDO_PRIORITY_MAX : 0;
    if (call_succeeded(bench, rondo_register(self->context, &desc, &self->colls[i])))
      self->buffers[i] = malloc(rank_bytes(self, i));
    if (!self->buffers[i])
      call_succeeded(bench, RONDO_ERR_NO_MEMORY);
    else
      memset(self->buffers[i], 0, rank_bytes(self, i)); // the pages come now
  }
  return true;
}

static void most_raise(_Atomic uint64_t *most, uint64_t value) {
  uint64_t old = atomic_load(most);
  while (old < value && !atomic_compare_exchange_weak(most, &old, value))
    continue;
}

// An element of the urgent one. `factor`: the rank and 1, or the sum of that over all ranks. Exact.
static float urgent_element(uint64_t index, uint32_t factor) {
  return (float)((index % 8191 + 1) * factor);
}

static void urgent_fill(const struct rank *self) {
  const struct urgent_options *o = &self->bench->options;
  float *data = (float *)self->buffers[o->count];
  for (uint64_t i = 0; i < o->urgent_bytes / sizeof(float); i++)
    data[i] = urgent_element(i, self->rank + 1);
}

static void urgent_check(const struct rank *self) {
  const struct urgent_options *o = &self->bench->options;
  const float *data = (const float *)self->buffers[o->count];
  for (uint64_t i = 0; i < o->urgent_bytes / sizeof(float); i++)
    if (data[i] != urgent_element(i, o->ranks * (o->ranks + 1) / 2))
      atomic_fetch_add(&self->bench->wrong, 1);
}

static void round_run(struct rank *self, uint64_t *urgent_ns, uint64_t *all_ns) {
  struct bench *bench = self->bench;
  uint32_t last = bench->options.count;
  uint64_t submitted_ns = 0, start_ns = rondo_kit_now_ns();
  for (uint32_t i = 0; i <= last; i++) {
    submitted_ns = rondo_kit_now_ns();
    call_succeeded(bench, rondo_run(self->context, self->colls[i], self->buffers[i],
                                    self->buffers[i], NULL, NULL));
  }
  call_succeeded(bench, rondo_wait(self->context, self->colls[last], RONDO_LAST_RUN, TIMEOUT_NS));
  *urgent_ns = rondo_kit_now_ns() - submitted_ns;
  for (uint32_t i = 0; i < last; i++)
    call_succeeded(bench, rondo_wait(self->context, self->colls[i], RONDO_LAST_RUN, TIMEOUT_NS));
  *all_ns = rondo_kit_now_ns() - start_ns;
}

static void rank_main(void *arg, uint32_t rank) {
  struct bench *bench = arg;
  struct rank self = {.bench = bench, .rank = rank};
  bool opened = rank_open(&self, rank);
  rondo_kit_barrier_wait(&bench->barrier);
  bool runs = atomic_load(&bench->status) == RONDO_SUCCESS; // the same on all: nobody changes it
  rondo_kit_barrier_wait(&bench->barrier);
  for (uint32_t i = 0; runs && i <= bench->options.rounds; i++) {
    uint64_t urgent_ns, all_ns;
    urgent_fill(&self);
    rondo_kit_barrier_wait(&bench->barrier);
    round_run(&self, &urgent_ns, &all_ns);
    urgent_check(&self);
    if (i > 0) { // the first one warms up
      most_raise(&bench->urgent_ns[i - 1], urgent_ns);
      most_raise(&bench->all_ns[i - 1], all_ns);
    }
    rondo_kit_barrier_wait(&bench->barrier);
  }
  if (opened)
    rondo_destroy(self.context, RONDO_DESTROY_DRAIN, TIMEOUT_NS);
  for (uint32_t i = 0; i <= bench->options.count; i++)
    free(self.buffers[i]);
}

static bool order_measure(const struct urgent_options *options, int order, const char *what) {
  static struct bench bench;
  static uint64_t urgent_ns[URGENT_MAX_ROUNDS], all_ns[URGENT_MAX_ROUNDS];
  memset(&bench, 0, sizeof bench);
  bench.options = *options;
  bench.order = order;
  rondo_kit_barrier_init(&bench.barrier, options->ranks, rondo_kit_core_count());
  struct rondo_kit_thread_group group = {options->ranks, options->ranks <= rondo_kit_core_count(),
                                         rank_main, &bench};
  int status = rondo_unique_id_create(&bench.id);
  if (status == RONDO_SUCCESS)
    status = rondo_kit_thread_group_run(&group) == 0 ? bench.status : RONDO_ERR_SYSTEM;
  if (status != RONDO_SUCCESS || bench.wrong) {
    fprintf(stderr, "bench_urgent: %s: %s, %" PRIu64 " wrong elements\n", what,
            rondo_status_string(status), bench.wrong);
    return false;
  }
  for (uint32_t i = 0; i < options->rounds; i++) {
    urgent_ns[i] = bench.urgent_ns[i];
    all_ns[i] = bench.all_ns[i];
  }
  urgent_print(what, options, urgent_ns, all_ns);
  return true;
}

int main(int argc, char **argv) {
  struct urgent_options options = URGENT_OPTIONS_INIT;
  urgent_options_read("Measures a small all-reduce behind large ones, without and with priority.",
                      argc, argv, &options);
  return order_measure(&options, RONDO_ORDER_FIFO, "fifo") &&
                 order_measure(&options, RONDO_ORDER_PRIORITY, "priority")
             ? 0
             : 1;
}
