// Which ranks wait for each other when a program is stuck. Each rank reads what its runs are doing;
// from that the cycle is found and printed.
//
//   init -> (each rank: read) -> find_cycle -> print -> fini
#ifndef RONDO_TOOLS_DEMO_STUCK_H
#define RONDO_TOOLS_DEMO_STUCK_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

// The runs of one collective on one rank. At most one is outstanding.
struct demo_runs {
  uint32_t submitted, ended;
  uint32_t executing; // 1: the daemon executes the outstanding one
};

struct demo_stuck {
  uint32_t rank_count, collective_count;
  struct rondo_stuck *executing; // by rank: the oldest run that its daemon executes; id 0: none
  struct demo_runs *runs;        // those of rank r begin at [r × collective_count]
  uint32_t *cycle;               // ranks, each of which waits for the next one
  uint32_t cycle_ranks;          // 0: no cycle
};

// Returns false if there is no memory; fini frees what there is.
bool demo_stuck_init(struct demo_stuck *stuck, uint32_t rank_count, uint32_t collective_count);
void demo_stuck_fini(struct demo_stuck *stuck);

// Reads what the runs of `rank` are doing. The caller has written how many were submitted; the ids
// of the collectives are 1, 2, … Threads may call it for different ranks at once. Returns an enum
// rondo_status.
int demo_stuck_read(struct demo_stuck *stuck, uint32_t rank, struct rondo_context context);

// The runs of `rank`.
struct demo_runs *demo_stuck_runs(const struct demo_stuck *stuck, uint32_t rank);

// Finds ranks that wait for each other in a cycle: each executes a run that the next one does not.
void demo_stuck_find_cycle(struct demo_stuck *stuck);

// Prints the cycle, the runs that stand in it, and how many other runs there are.
void demo_stuck_print(const struct demo_stuck *stuck);

#endif // RONDO_TOOLS_DEMO_STUCK_H
