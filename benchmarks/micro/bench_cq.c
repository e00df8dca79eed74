// bench_cq: Rondo's completion queue against the three of the DFCCL paper, on the same threads.
//
//   write     time of one push into a queue that has room and whose consumer is looking
//   deliver   from before the push until the consumer has it: half of a round trip
//   stream    time for each completion when producers push as fast as they can
//
// The variants take turns within each round, and a table shows medians of the rounds.
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/micro/cq_variants_core.h"
#include "tools/kit/barrier.h"
#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"
#include "tools/kit/thread_group.h"

#define MAX_ROUNDS 1000u
#define FRUITLESS 1000u // looks before yielding: threads may outnumber cores

// ------------------------------------------------------------- the queues ---

struct cq_variant {
  const char *name;
  bool (*try_push)(void *queue, uint32_t id);
  bool (*try_pop)(void *queue, uint32_t *id);
};

// Any variant may use it.
struct queue {
  struct cq_shared shared;
  struct cq_own own;
  alignas(RONDO_LINE_BYTES) struct cq_reader reader;
};

void cq_fence(void) { atomic_thread_fence(memory_order_seq_cst); }

void cq_exchange(uint64_t *word, uint64_t value) {
  (void)__atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

static void *queue_create(void) {
  struct queue *q = aligned_alloc(RONDO_LINE_BYTES, sizeof *q);
  if (!q)
    return NULL;
  memset(q, 0, sizeof *q);
  cq_init(&q->shared, &q->own, (uint64_t)(uintptr_t)&q->shared.ring);
  return q;
}

// Each queue by itself, so that the compiler sees which one it is.
#define CQ_CALLS(tag, variant)                                                                     \
  static bool tag##_push(void *queue, uint32_t id) {                                               \
    struct queue *q = queue;                                                                       \
    return cq_try_push(variant, &q->shared, &q->own, id);                                          \
  }                                                                                                \
  static bool tag##_pop(void *queue, uint32_t *id) {                                               \
    struct queue *q = queue;                                                                       \
    return cq_try_pop(variant, &q->shared, &q->reader, id);                                        \
  }

CQ_CALLS(rondo, CQ_RONDO)
CQ_CALLS(vanilla, CQ_VANILLA)
CQ_CALLS(packed, CQ_PACKED)
CQ_CALLS(slots, CQ_CAS_SLOTS)

static const struct cq_variant variants[CQ_VARIANT_COUNT] = {
    {"Rondo", rondo_push, rondo_pop},
    {"vanilla ring", vanilla_push, vanilla_pop},
    {"packed ring", packed_push, packed_pop},
    {"CAS slots", slots_push, slots_pop}};

// ------------------------------------------------------------- the threads ---

struct options {
  uint32_t rounds;
  uint32_t count; // completions of a producer in one round
  uint32_t producers;
};

enum quantity { WRITE = 0, DELIVER = 1, STREAM = 2, QUANTITIES = 3 };
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

static void thread_pause(uint32_t *fruitless) {
  if (++*fruitless < FRUITLESS)
    return;
  *fruitless = 0;
  sched_yield();
}

static void id_push(const struct test *t, void *queue, uint32_t id) {
  uint32_t fruitless = 0;
  while (!t->variant->try_push(queue, id))
    thread_pause(&fruitless);
}

static uint32_t id_pop(const struct test *t, void *queue) {
  uint32_t fruitless = 0;
  uint32_t id;
  while (!t->variant->try_pop(queue, &id))
    thread_pause(&fruitless);
  return id;
}

// Pushes as many as the smallest queue holds, then lets the consumer empty it.
static void produce_with_room(struct test *t) {
  uint64_t writing_ns = 0;
  for (uint32_t i = 0; i < t->options->count; i += CQ_SLOTS) {
    uint64_t start_ns = rondo_kit_now_ns();
    for (uint32_t k = 0; k < CQ_SLOTS; k++)
      id_push(t, t->queues[0], i + k);
    writing_ns += rondo_kit_now_ns() - start_ns;
    uint32_t fruitless = 0;
    while (atomic_load_explicit(&t->drained, memory_order_acquire) < i + CQ_SLOTS)
      thread_pause(&fruitless);
  }
  t->elapsed_ns = writing_ns;
}

static void produce_and_await(struct test *t) {
  uint64_t start_ns = rondo_kit_now_ns();
  for (uint32_t i = 0; i < t->options->count; i++) {
    id_push(t, t->queues[0], i);
    id_pop(t, t->queues[1]);
  }
  t->elapsed_ns = (rondo_kit_now_ns() - start_ns) / 2;
}

static void ids_produce(struct test *t, uint32_t producer) {
  if (t->quantity == WRITE)
    produce_with_room(t);
  else if (t->quantity == DELIVER)
    produce_and_await(t);
  else
    for (uint32_t i = 0; i < t->options->count; i++)
      id_push(t, t->queues[0], producer * t->options->count + i);
}

static void ids_consume(struct test *t, uint32_t producers) {
  uint32_t total = producers * t->options->count;
  uint64_t sum = 0;
  uint64_t start_ns = rondo_kit_now_ns();
  for (uint32_t i = 0; i < total; i++) {
    uint32_t id = id_pop(t, t->queues[0]);
    sum += id;
    if (t->quantity == DELIVER)
      id_push(t, t->queues[1], id);
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
    ids_consume(t, t->barrier.count - 1);
  else
    ids_produce(t, rank - 1);
}

// ---------------------------------------------------------------- rounds -----

// The time for one completion, or -1 when one was lost or there is no memory.
static double quantity_measure(const struct options *options, const struct cq_variant *variant,
                               enum quantity quantity) {
  struct test t = {.options = options, .variant = variant, .quantity = quantity};
  uint32_t producers = quantity == STREAM ? options->producers : 1;
  struct rondo_kit_thread_group group = {producers + 1, true, member_main, &t};
  rondo_kit_barrier_init(&t.barrier, producers + 1, rondo_kit_core_count());
  t.queues[0] = queue_create();
  t.queues[1] = queue_create();
  bool good = t.queues[0] && t.queues[1] && rondo_kit_thread_group_run(&group) == 0 && t.lost == 0;
  free(t.queues[0]);
  free(t.queues[1]);
  return good ? (double)t.elapsed_ns / ((double)producers * options->count) : -1;
}

// Times in tenths of a nanosecond, so that integers hold them well.
struct samples {
  uint64_t tenths[CQ_VARIANT_COUNT][QUANTITIES][MAX_ROUNDS];
};

static bool rounds_measure(const struct options *options, struct samples *samples) {
  for (uint32_t round = 0; round < options->rounds; round++)
    for (uint32_t i = 0; i < CQ_VARIANT_COUNT * QUANTITIES; i++) {
      uint32_t v = (i + round) % CQ_VARIANT_COUNT; // another one begins each round
      uint32_t q = i / CQ_VARIANT_COUNT;
      double time_ns = quantity_measure(options, &variants[v], (enum quantity)q);
      if (time_ns < 0) {
        fprintf(stderr, "bench_cq: %s lost a completion, or there is no memory\n",
                variants[v].name);
        return false;
      }
      samples->tenths[v][q][round] = (uint64_t)(time_ns * 10);
    }
  return true;
}

static void medians_print(const struct options *options, struct samples *samples) {
  double medians[CQ_VARIANT_COUNT][QUANTITIES];
  printf("%-14s  %10s  %10s  %10s  %28s\n", "queue", "write ns", "deliver ns", "stream ns",
         "times Rondo's, of each");
  for (uint32_t v = 0; v < CQ_VARIANT_COUNT; v++) {
    for (uint32_t q = 0; q < QUANTITIES; q++)
      medians[v][q] = rondo_kit_stats_of(samples->tenths[v][q], options->rounds).median_ns / 10;
    printf("%-14s  %10.1f  %10.1f  %10.1f", variants[v].name, medians[v][WRITE],
           medians[v][DELIVER], medians[v][STREAM]);
    for (uint32_t q = 0; q < QUANTITIES; q++)
      printf("  %8.2f", medians[v][q] / medians[0][q]);
    printf("\n");
  }
}

static bool count_read(const char *text, void *values) {
  struct options *o = values;
  bool understood = rondo_kit_read_u32(text, CQ_SLOTS, 100000000, &o->count);
  o->count -= o->count % CQ_SLOTS;
  return understood;
}

#define AT(field) .offset = offsetof(struct options, field)

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"rounds", 'r', "N", "Rounds in which the queues take turns (default 9)", RONDO_KIT_U32,
       AT(rounds), .low = 1, .high = MAX_ROUNDS},
      {"count", 'n', "N", "Completions of a producer in each (default 20000)", .read = count_read},
      {"producers", 'p', "N", "Producers of the stream (default 1)", RONDO_KIT_U32, AT(producers),
       .low = 1, .high = 64},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .doc = "Compares Rondo's completion queue with the three of the DFCCL paper."};
  struct options options = {.rounds = 9, .count = 20000, .producers = 1};
  rondo_kit_command_read(&command, argc, argv, &options);
  struct samples *samples = malloc(sizeof(*samples));
  if (!samples)
    return 1;
  rondo_kit_machine_print("# ");
  printf("# %" PRIu32 " rounds of %" PRIu32 " completions; %" PRIu32
         " producer(s) in the stream, one in the others; threads pinned\n",
         options.rounds, options.count, options.producers);
  bool good = rounds_measure(&options, samples);
  if (good)
    medians_print(&options, samples);
  free(samples);
  return good ? 0 : 1;
}
