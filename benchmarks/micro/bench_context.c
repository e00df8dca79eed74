// What a context switch costs: loading a context into an active slot and saving its dynamic part.
//
//   bench_context [--collectives=N] [--iters=N]
//
// "load" evicts a clean context and brings another in; "load and save" evicts one that has
// progressed; "hit" finds the context in its slot. "copy" is memcpy of a context between the same
// two places, the least that a load can cost. Ratios are against it. With many collectives
// the context buffer is larger than the caches. The paper has 450 ns for a load and 50 ns for a
// save on a GPU (section 6.2).
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/core/block_core.h"
#include "daemon/host/host.h"

struct bench {
  struct rondo_daemon_core daemon;
  struct rondo_device_table table;
  struct rondo_block block;
  struct rondo_task_context *contexts;
  uint32_t collectives;
  uint32_t iters;
};

// One measured operation on the collective with that index.
typedef void (*operation)(struct bench *b, uint32_t index);

static void copy_context(struct bench *b, uint32_t index) {
  struct rondo_active_slot *slot = &b->block.slots[index % RONDO_ACTIVE_SLOTS];
  memcpy(&slot->context, &b->contexts[index], sizeof slot->context);
  __asm__ volatile("" ::: "memory");
}

static void load_context(struct bench *b, uint32_t index) {
  (void)rondo_slot_of_task(&b->block, index);
}

static void load_dirty_context(struct bench *b, uint32_t index) {
  rondo_slot_of_task(&b->block, index)->dirty = 1;
}

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// Median over batches of the time of one operation, in nanoseconds. `step` is the distance
// between indices: RONDO_ACTIVE_SLOTS makes each evict the one before, 0 stays with one context.
static double measure_ns(struct bench *b, operation once, uint32_t step) {
  double times[31];
  const uint32_t batches = sizeof times / sizeof *times;
  uint32_t index = 0;
  for (uint32_t k = 0; k < batches; k++) {
    uint64_t begin_ns = rondo_now_ns();
    for (uint32_t i = 0; i < b->iters; i++) {
      once(b, index);
      index += step;
      if (index >= b->collectives)
        index -= b->collectives;
    }
    times[k] = (double)(rondo_now_ns() - begin_ns) / b->iters;
  }
  qsort(times, batches, sizeof *times, compare_times);
  return times[batches / 2];
}

static void make_table(struct bench *b) {
  uint32_t pages = (b->collectives + RONDO_TABLE_PAGE - 1) / RONDO_TABLE_PAGE;
  size_t entries = (size_t)pages * RONDO_TABLE_PAGE;
  struct rondo_device_collective *table = calloc(entries, sizeof *table);
  b->contexts = calloc(b->collectives, sizeof *b->contexts);
  if (!table || !b->contexts) {
    fprintf(stderr, "bench_context: no memory\n");
    exit(1);
  }
  for (uint32_t p = 0; p < pages; p++)
    b->table.pages[p] = (uint64_t)(uintptr_t)(table + (size_t)p * RONDO_TABLE_PAGE);
  for (uint32_t i = 0; i < b->collectives; i++) {
    b->contexts[i].fixed.index = i;
    table[i].contexts = (uint64_t)(uintptr_t)&b->contexts[i];
    table[i].block_count = 1;
  }
  struct rondo_sq_consumer nothing = {0};
  b->daemon.table = &b->table;
  const struct rondo_block_tasks no_tasks = {0};
  rondo_block_init(&b->block, &b->daemon, &nothing, 0, &no_tasks);
}

static void print_row(struct bench *b, const char *name, double ns, double copy_ns) {
  printf("%11u  %-14s %8.1f %8.2f\n", b->collectives, name, ns, ns / copy_ns);
}

static void run(uint32_t collectives, uint32_t iters) {
  struct bench b = {.collectives = collectives, .iters = iters};
  make_table(&b);
  double copy_ns = measure_ns(&b, copy_context, RONDO_ACTIVE_SLOTS);
  print_row(&b, "copy", copy_ns, copy_ns);
  b.block.slots[0].occupied = 0;
  print_row(&b, "load", measure_ns(&b, load_context, RONDO_ACTIVE_SLOTS), copy_ns);
  print_row(&b, "load and save", measure_ns(&b, load_dirty_context, RONDO_ACTIVE_SLOTS), copy_ns);
  print_row(&b, "hit", measure_ns(&b, load_context, 0), copy_ns);
  free((void *)(uintptr_t)b.table.pages[0]);
  free(b.contexts);
}

struct options {
  uint32_t collectives; // 0: a small and a large number
  uint32_t iters;
};

static error_t parse(int key, char *text, struct argp_state *state) {
  struct options *o = state->input;
  char *end = NULL;
  if (key != 'c' && key != 'i')
    return key == ARGP_KEY_ARG ? ARGP_ERR_UNKNOWN : 0;
  unsigned long value = strtoul(text, &end, 10);
  unsigned long least = key == 'c' ? 2 * RONDO_ACTIVE_SLOTS : 1;
  unsigned long most = key == 'c' ? RONDO_TABLE_CAPACITY : 100000000;
  if (*end || value < least || value > most || value % (key == 'c' ? RONDO_ACTIVE_SLOTS : 1))
    argp_error(state, "%s: a number from %lu to %lu, of collectives a multiple of %u", text, least,
               most, RONDO_ACTIVE_SLOTS);
  *(key == 'c' ? &o->collectives : &o->iters) = (uint32_t)value;
  return 0;
}

int main(int argc, char **argv) {
  static const struct argp_option list[] = {
      {"collectives", 'c', "N", 0, "Registered collectives (default: 16 and 16384)", 0},
      {"iters", 'i', "N", 0, "Operations in each of 31 batches (default 20000)", 0},
      {0}};
  static const struct argp argp = {
      list, parse, NULL, "Measures loading and saving of contexts on this machine.",
      NULL, NULL,  NULL};
  struct options o = {0, 20000};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  printf("# context: %zu bytes, of which %zu are saved; median of 31 batches\n",
         sizeof(struct rondo_task_context), sizeof(struct rondo_context_dynamic));
  printf("%11s  %-14s %8s %8s\n", "collectives", "operation", "ns", "ratio");
  if (o.collectives) {
    run(o.collectives, o.iters);
  } else {
    run(16, o.iters);
    run(RONDO_TABLE_CAPACITY, o.iters);
  }
  return 0;
}
