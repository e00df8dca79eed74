// bench_cq: Rondo's completion queue against the three of the DFCCL paper, on the same threads.
//
//   write     time of one push into a queue that has room and whose consumer is looking
//   deliver   from before the push until the consumer has it: half of a round trip
//   stream    time for each completion when producers push as fast as they can
//
// The variants take turns within each round, and a table shows medians of the rounds.
#include <argp.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "benchmarks/micro/cq_variants.h"
#include "tools/kit/barrier.h"
#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"
#include "tools/kit/stats.h"
#include "tools/kit/thread_group.h"

#define EXIT_USAGE 2
#define MAX_ROUNDS 1000u
#define FRUITLESS 1000u // looks before yielding: threads may outnumber cores

struct options {
  uint32_t rounds;
  uint32_t count; // completions of a producer in one round
  uint32_t producers;
  const char *json_path;
};

enum quantity { WRITE = 0, DELIVER = 1, STREAM = 2, QUANTITIES = 3 };
static const char *const quantity_names[QUANTITIES] = {"write", "deliver", "stream"};

struct test {
  struct rondo_kit_barrier barrier;
  const struct options *options;
  const struct cq_variant *variant;
  enum quantity quantity;
  void *queues[2];          // there and, to measure delivery, back
  _Atomic uint32_t drained; // completions that the consumer has popped
  uint64_t elapsed_ns;      // of what was timed
  uint64_t lost;            // ids that came not exactly once, as a difference of sums
};

static void pause_after(uint32_t *fruitless) {
  if (++*fruitless < FRUITLESS)
    return;
  *fruitless = 0;
  sched_yield();
}

static void push(const struct test *t, void *queue, uint32_t id) {
  uint32_t fruitless = 0;
  while (!t->variant->try_push(queue, id))
    pause_after(&fruitless);
}

static uint32_t pop(const struct test *t, void *queue) {
  uint32_t fruitless = 0;
  uint32_t id;
  while (!t->variant->try_pop(queue, &id))
    pause_after(&fruitless);
  return id;
}

// ------------------------------------------------------------- the threads ---

// Pushes as many as the smallest queue holds, then lets the consumer empty it.
static void produce_with_room(struct test *t) {
  uint64_t writing_ns = 0;
  for (uint32_t i = 0; i < t->options->count; i += CQ_SLOTS) {
    uint64_t start_ns = rondo_kit_now_ns();
    for (uint32_t k = 0; k < CQ_SLOTS; k++)
      push(t, t->queues[0], i + k);
    writing_ns += rondo_kit_now_ns() - start_ns;
    uint32_t fruitless = 0;
    while (atomic_load_explicit(&t->drained, memory_order_acquire) < i + CQ_SLOTS)
      pause_after(&fruitless);
  }
  t->elapsed_ns = writing_ns;
}

static void produce_and_await(struct test *t) {
  uint64_t start_ns = rondo_kit_now_ns();
  for (uint32_t i = 0; i < t->options->count; i++) {
    push(t, t->queues[0], i);
    pop(t, t->queues[1]);
  }
  t->elapsed_ns = (rondo_kit_now_ns() - start_ns) / 2;
}

static void produce(struct test *t, uint32_t producer) {
  if (t->quantity == WRITE)
    produce_with_room(t);
  else if (t->quantity == DELIVER)
    produce_and_await(t);
  else
    for (uint32_t i = 0; i < t->options->count; i++)
      push(t, t->queues[0], producer * t->options->count + i);
}

static void consume(struct test *t, uint32_t producers) {
  uint32_t total = producers * t->options->count;
  uint64_t sum = 0;
  uint64_t start_ns = rondo_kit_now_ns();
  for (uint32_t i = 0; i < total; i++) {
    uint32_t id = pop(t, t->queues[0]);
    sum += id;
    if (t->quantity == DELIVER)
      push(t, t->queues[1], id);
    else if (t->quantity == WRITE)
      atomic_store_explicit(&t->drained, i + 1, memory_order_release);
  }
  if (t->quantity == STREAM)
    t->elapsed_ns = rondo_kit_now_ns() - start_ns;
  t->lost = sum - (uint64_t)total * (total - 1) / 2;
}

static void member_main(void *arg, uint32_t rank) {
  struct test *t = arg;
  rondo_kit_barrier_wait(&t->barrier);
  if (rank == 0)
    consume(t, t->barrier.count - 1);
  else
    produce(t, rank - 1);
}

// ---------------------------------------------------------------- rounds -----

// The time for one completion, or -1 when one was lost or there is no memory.
static double perform(const struct options *options, const struct cq_variant *variant,
                      enum quantity quantity) {
  struct test t = {.options = options, .variant = variant, .quantity = quantity};
  uint32_t producers = quantity == STREAM ? options->producers : 1;
  struct rondo_kit_thread_group group = {producers + 1, true, member_main, &t};
  rondo_kit_barrier_init(&t.barrier, producers + 1, rondo_kit_core_count());
  t.queues[0] = cq_create();
  t.queues[1] = cq_create();
  bool good = t.queues[0] && t.queues[1] && rondo_kit_thread_group_run(&group) == 0 && t.lost == 0;
  cq_free(t.queues[0]);
  cq_free(t.queues[1]);
  return good ? (double)t.elapsed_ns / ((double)producers * options->count) : -1;
}

// Times in tenths of a nanosecond, so that integers hold them well.
struct samples {
  uint64_t tenths[CQ_VARIANT_COUNT][QUANTITIES][MAX_ROUNDS];
};

static bool measure(const struct options *options, struct samples *samples) {
  for (uint32_t round = 0; round < options->rounds; round++)
    for (uint32_t i = 0; i < CQ_VARIANT_COUNT * QUANTITIES; i++) {
      uint32_t v = (i + round) % CQ_VARIANT_COUNT; // another one begins each round
      uint32_t q = i / CQ_VARIANT_COUNT;
      double time_ns = perform(options, &cq_variants[v], (enum quantity)q);
      if (time_ns < 0) {
        fprintf(stderr, "bench_cq: %s lost a completion, or there is no memory\n",
                cq_variants[v].name);
        return false;
      }
      samples->tenths[v][q][round] = (uint64_t)(time_ns * 10);
    }
  return true;
}

static json_t *print(const struct options *options, struct samples *samples) {
  double medians[CQ_VARIANT_COUNT][QUANTITIES];
  json_t *rows = json_array();
  printf("%-14s  %10s  %10s  %10s  %28s\n", "queue", "write ns", "deliver ns", "stream ns",
         "times Rondo's, of each");
  for (uint32_t v = 0; v < CQ_VARIANT_COUNT; v++) {
    json_t *row = json_pack("{s:s}", "queue", cq_variants[v].name);
    for (uint32_t q = 0; q < QUANTITIES; q++) {
      medians[v][q] = rondo_kit_stats_of(samples->tenths[v][q], options->rounds).median_ns / 10;
      json_object_set_new(row, quantity_names[q], json_real(medians[v][q]));
    }
    json_array_append_new(rows, row);
    printf("%-14s  %10.1f  %10.1f  %10.1f", cq_variants[v].name, medians[v][WRITE],
           medians[v][DELIVER], medians[v][STREAM]);
    for (uint32_t q = 0; q < QUANTITIES; q++)
      printf("  %8.2f", medians[v][q] / medians[0][q]);
    printf("\n");
  }
  return rows;
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
  struct options *o = state->input;
  bool understood = true;
  switch (key) {
  case 'r':
    understood = rondo_kit_read_u32(text, 1, MAX_ROUNDS, &o->rounds);
    break;
  case 'n':
    understood = rondo_kit_read_u32(text, CQ_SLOTS, 100000000, &o->count);
    o->count -= o->count % CQ_SLOTS;
    break;
  case 'p':
    understood = rondo_kit_read_u32(text, 1, 64, &o->producers);
    break;
  case 'J':
    o->json_path = text;
    break;
  case ARGP_KEY_ARG:
    argp_error(state, "no argument is expected: '%s'", text);
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  if (!understood)
    argp_error(state, "-%c does not take '%s'", key, text);
  return 0;
}

static void read_options(struct options *options, int argc, char **argv) {
  static const struct argp_option table[] = {
      {"rounds", 'r', "N", 0, "Rounds in which the queues take turns (default 9)", 0},
      {"count", 'n', "N", 0, "Completions of a producer in each (default 20000)", 0},
      {"producers", 'p', "N", 0, "Producers of the stream (default 1)", 0},
      {"json", 'J', "FILE", 0, "Write the medians as JSON, too", 0},
      {NULL, 0, NULL, 0, NULL, 0}};
  static const struct argp argp = {
      .options = table,
      .parser = parse_option,
      .doc = "Compares Rondo's completion queue with the three of the DFCCL paper."};
  argp_err_exit_status = EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, options);
}

int main(int argc, char **argv) {
  struct options options = {.rounds = 9, .count = 20000, .producers = 1};
  struct rondo_kit_machine machine;
  read_options(&options, argc, argv);
  struct samples *samples = malloc(sizeof(*samples));
  if (!samples)
    return 1;
  rondo_kit_machine_read(&machine);
  rondo_kit_machine_print(&machine, "# ", stdout);
  printf("# %" PRIu32 " rounds of %" PRIu32 " completions; %" PRIu32
         " producer(s) in the stream, one in the others; threads pinned\n",
         options.rounds, options.count, options.producers);
  bool good = measure(&options, samples);
  if (good) {
    json_t *rows = print(&options, samples);
    if (options.json_path &&
        !rondo_kit_output_save(options.json_path, json_dumps(rows, JSON_INDENT(1))))
      good = false;
    json_decref(rows);
  }
  free(samples);
  return good ? 0 : 1;
}
