// Records of explored runs: the program, what its blocks were given, and what came of each of their
// turns, in their order. `rondo-sim schedule --turns` lets its own blocks take the same turns.
//
//   explore_machine_init with explore_record_prepare -> explore_record_begin ->
//   explore_machine_run -> explore_record_end
#ifndef RONDO_TESTS_EXPLORE_RECORD_H
#define RONDO_TESTS_EXPLORE_RECORD_H

#include <stdint.h>
#include <stdio.h>

#include "tests/explore/machine.h"

// What a record has of one rank's block before a turn.
struct explore_record {
  FILE *file;
  uint64_t turns;
  uint32_t given[EXPLORE_RANKS]; // SQ entries of the rank that the record has
  uint32_t looks;                // 1: the block has quit, and looks whether it should start
  struct rondo_block_counters before;
};

// Makes the program one that the simulator can run: one process, one block a rank, no references,
// runs that all end well, no turn inside another.
void explore_record_prepare(struct explore_program *p);

// Registers all collectives and writes what the program is. Returns 0, or -1 if the file cannot be
// written, with errno set.
int explore_record_begin(struct explore_machine *m, const char *path);

// Before and after a turn of the rank's block.
void explore_record_before(struct explore_machine *m, const struct rondo_host_block *block);
void explore_record_after(struct explore_machine *m, uint32_t rank,
                          const struct rondo_host_block *block);

// Returns 0, or -1 if the file could not be written.
int explore_record_end(struct explore_machine *m);

#endif // RONDO_TESTS_EXPLORE_RECORD_H
