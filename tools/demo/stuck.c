#include "tools/demo/stuck.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "      | " // of each line

bool demo_stuck_init(struct demo_stuck *stuck, uint32_t rank_count, uint32_t collective_count) {
  memset(stuck, 0, sizeof *stuck);
  stuck->rank_count = rank_count;
  stuck->collective_count = collective_count;
  stuck->executing = calloc(rank_count, sizeof *stuck->executing);
  stuck->runs = calloc((size_t)rank_count * collective_count, sizeof *stuck->runs);
  stuck->cycle = calloc(rank_count, sizeof *stuck->cycle);
  return stuck->executing && stuck->runs && stuck->cycle;
}

void demo_stuck_fini(struct demo_stuck *stuck) {
  free(stuck->executing);
  free(stuck->runs);
  free(stuck->cycle);
  memset(stuck, 0, sizeof *stuck);
}

struct demo_runs *demo_stuck_runs(const struct demo_stuck *stuck, uint32_t rank) {
  return stuck->runs + (size_t)rank * stuck->collective_count;
}

int demo_stuck_read(struct demo_stuck *stuck, uint32_t rank, struct rondo_context context) {
  struct demo_runs *runs = demo_stuck_runs(stuck, rank);
  size_t capacity = stuck->collective_count;
  size_t count = 0;
  struct rondo_stuck *entries = calloc(capacity, sizeof *entries);
  int status = entries ? rondo_stuck(context, entries, capacity, &count) : RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < stuck->collective_count; i++)
    runs[i].ended = runs[i].submitted;
  for (size_t i = 0; status == RONDO_SUCCESS && i < count && i < capacity; i++) {
    struct demo_runs *r = &runs[entries[i].id - 1];
    r->ended = (uint32_t)entries[i].run - 1;
    r->executing = entries[i].state == RONDO_RUN_EXECUTING;
    if (r->executing && stuck->executing[rank].id == 0)
      stuck->executing[rank] = entries[i];
  }
  free(entries);
  return status;
}

// Whether `rank` executes a run that `other` has not begun.
static bool rank_waits_for(const struct demo_stuck *stuck, uint32_t rank, uint32_t other) {
  const struct rondo_stuck *run = &stuck->executing[rank];
  if (run->id == 0 || rank == other)
    return false;
  const struct demo_runs *r = &demo_stuck_runs(stuck, other)[run->id - 1];
  return r->ended + r->executing < run->run;
}

// Depth-first search. next[r] is the rank that the search tries next from rank r; a rank that is on
// the path already closes the cycle. Returns the length of the cycle, 0 without one.
static uint32_t cycle_search(struct demo_stuck *stuck, uint32_t start, uint32_t *next) {
  uint32_t *path = stuck->cycle;
  uint32_t depth = 1;
  path[0] = start;
  while (depth > 0) {
    uint32_t rank = path[depth - 1];
    uint32_t other = next[rank];
    if (other == stuck->rank_count) {
      depth--;
      continue;
    }
    next[rank]++;
    if (!rank_waits_for(stuck, rank, other))
      continue;
    for (uint32_t i = 0; i < depth; i++)
      if (path[i] == other) {
        memmove(path, path + i, (depth - i) * sizeof *path);
        return depth - i;
      }
    if (next[other] == 0)
      path[depth++] = other;
  }
  return 0;
}

void demo_stuck_find_cycle(struct demo_stuck *stuck) {
  uint32_t *next = calloc(stuck->rank_count, sizeof *next);
  stuck->cycle_ranks = 0;
  for (uint32_t r = 0; next && r < stuck->rank_count && stuck->cycle_ranks == 0; r++)
    if (next[r] == 0)
      stuck->cycle_ranks = cycle_search(stuck, r, next);
  free(next);
}

// -------------------------------------------------------------------- printing ---

static void cycle_print(const struct demo_stuck *stuck) {
  if (stuck->cycle_ranks == 0)
    printf(PREFIX "no ranks wait for each other in a cycle\n");
  for (uint32_t i = 0; i < stuck->cycle_ranks; i++) {
    uint32_t rank = stuck->cycle[i];
    printf(PREFIX "rank %" PRIu32 " executes id %" PRIu64 " and waits for rank %" PRIu32
                  ", which has not begun it\n",
           rank, stuck->executing[rank].id, stuck->cycle[(i + 1) % stuck->cycle_ranks]);
  }
}

static void cycle_runs_print(const struct demo_stuck *stuck) {
  for (uint32_t i = 0; i < stuck->cycle_ranks; i++) {
    uint32_t rank = stuck->cycle[i];
    const struct rondo_stuck *run = &stuck->executing[rank];
    printf(PREFIX "rank %" PRIu32 ", id %" PRIu64 ", run %" PRIu64 ": block %" PRIu32
                  " stands at op %" PRIu32,
           rank, run->id, run->run, run->block, run->op);
    if (run->peer >= 0)
      printf(", waiting for rank %" PRId32, run->peer);
    printf(", for %.1f s", (double)run->waiting_ns / 1e9);
    if (run->missing > 0)
      printf("; %" PRIu32 " of %" PRIu32 " ranks have not submitted it", run->missing,
             stuck->rank_count);
    printf("\n");
  }
}

// The most runs of a collective that a rank has submitted.
static uint32_t submitted_most(const struct demo_stuck *stuck, uint32_t collective) {
  uint32_t most = 0;
  for (uint32_t r = 0; r < stuck->rank_count; r++) {
    uint32_t submitted = demo_stuck_runs(stuck, r)[collective].submitted;
    most = submitted > most ? submitted : most;
  }
  return most;
}

// Counts the newest run of each collective on each rank, except those in the cycle.
static void others_print(const struct demo_stuck *stuck) {
  uint64_t executing = 0, waiting = 0, absent = 0;
  for (uint32_t c = 0; c < stuck->collective_count; c++) {
    uint32_t most = submitted_most(stuck, c);
    for (uint32_t r = 0; r < stuck->rank_count; r++) {
      const struct demo_runs *runs = &demo_stuck_runs(stuck, r)[c];
      executing += runs->executing;
      waiting += runs->submitted > runs->ended && !runs->executing;
      absent += runs->submitted < most;
    }
  }
  printf(PREFIX "other runs: %" PRIu64 " being executed, %" PRIu64 " waiting for a block, %" PRIu64
                " not submitted by their rank\n",
         executing - stuck->cycle_ranks, waiting, absent);
}

void demo_stuck_print(const struct demo_stuck *stuck) {
  cycle_print(stuck);
  cycle_runs_print(stuck);
  others_print(stuck);
}
