// What a context switch costs: loading a context into an active slot and saving its dynamic part.
//
//   bench_context [--collectives=N] [--iters=N]
//
// "load" evicts a clean context and brings another in; "load and save" evicts one that has
// progressed; "hit" finds the context in its slot. "copy" is memcpy of a context between the same
// two places, the least that a load can cost. Ratios are against it. With many collectives
// the context buffer is larger than the caches. The paper has 450 ns for a load and 50 ns for a
// save on a GPU (section 6.2).
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/block_core.h"
#include "daemon/host/host.h"
#include "tools/kit/clock.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"

#define BATCHES 31u

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

static void context_copy(struct bench *b, uint32_t index) {
  struct rondo_active_slot *slot = &b->block.slots[index % RONDO_ACTIVE_SLOTS];
  memcpy(&slot->context, &b->contexts[index], sizeof slot->context);
  __asm__ volatile("" ::: "memory");
}

static void context_load(struct bench *b, uint32_t index) {
  (void)rondo_slot_of_task(&b->block, index);
}

static void context_load_dirty(struct bench *b, uint32_t index) {
  rondo_slot_of_task(&b->block, index)->dirty = 1;
}

// Median over batches of the time of one operation, in nanoseconds. `step` is the distance
// between indices: RONDO_ACTIVE_SLOTS makes each evict the one before, 0 stays with one context.
static double operation_measure(struct bench *b, operation once, uint32_t step) {
  uint64_t times_ns[BATCHES];
  uint32_t index = 0;
  for (uint32_t k = 0; k < BATCHES; k++) {
    uint64_t begin_ns = rondo_kit_now_ns();
    for (uint32_t i = 0; i < b->iters; i++) {
      once(b, index);
      index += step;
      if (index >= b->collectives)
        index -= b->collectives;
    }
    times_ns[k] = rondo_kit_now_ns() - begin_ns;
  }
  return rondo_kit_stats_of(times_ns, BATCHES).median_ns / b->iters;
}

static void table_make(struct bench *b) {
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

static void row_print(struct bench *b, const char *name, double ns, double copy_ns) {
  printf("%11u  %-14s %8.1f %8.2f\n", b->collectives, name, ns, ns / copy_ns);
}

static void collectives_measure(uint32_t collectives, uint32_t iters) {
  struct bench b = {.collectives = collectives, .iters = iters};
  table_make(&b);
  double copy_ns = operation_measure(&b, context_copy, RONDO_ACTIVE_SLOTS);
  row_print(&b, "copy", copy_ns, copy_ns);
  b.block.slots[0].occupied = 0;
  row_print(&b, "load", operation_measure(&b, context_load, RONDO_ACTIVE_SLOTS), copy_ns);
  row_print(&b, "load and save", operation_measure(&b, context_load_dirty, RONDO_ACTIVE_SLOTS),
            copy_ns);
  row_print(&b, "hit", operation_measure(&b, context_load, 0), copy_ns);
  free((void *)(uintptr_t)b.table.pages[0]);
  free(b.contexts);
}

struct options {
  uint32_t collectives; // 0: a small and a large number
  uint32_t iters;
};

static bool collectives_read(const char *text, void *values) {
  uint32_t *collectives = &((struct options *)values)->collectives;
  return rondo_kit_read_u32(text, 2 * RONDO_ACTIVE_SLOTS, RONDO_TABLE_CAPACITY, collectives) &&
         *collectives % RONDO_ACTIVE_SLOTS == 0;
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"collectives", 'c', "N",
       "Registered collectives, a multiple of the active slots (default: 16 and 16384)",
       .read = collectives_read},
      {"iters", 'i', "N", "Operations in each of 31 batches (default 20000)", RONDO_KIT_U32,
       offsetof(struct options, iters), .low = 1, .high = 100000000},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures loading and saving of contexts on this machine."};
  struct options o = {0, 20000};
  rondo_kit_command_read(&command, argc, argv, &o);
  printf("# context: %zu bytes, of which %zu are saved; median of 31 batches\n",
         sizeof(struct rondo_task_context), sizeof(struct rondo_context_dynamic));
  printf("%11s  %-14s %8s %8s\n", "collectives", "operation", "ns", "ratio");
  if (o.collectives) {
    collectives_measure(o.collectives, o.iters);
  } else {
    collectives_measure(16, o.iters);
    collectives_measure(RONDO_TABLE_CAPACITY, o.iters);
  }
  return 0;
}
