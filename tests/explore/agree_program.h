// Random programs for the agreement on registrations: processes, their ranks, groups, and what each
// rank registers. A seed gives the same program again.
#ifndef RONDO_TESTS_EXPLORE_AGREE_PROGRAM_H
#define RONDO_TESTS_EXPLORE_AGREE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/descriptor.h"
#include "tests/explore/random.h"

#define AGREE_COLLS 6u
#define AGREE_RUNS 5u // of a collective, before its ranks deregister

// What is special about a collective. `special` is the rank that makes it so.
enum agree_kind {
  AGREE_CLEAN = 0,
  AGREE_MISMATCH, // it registers something else
  AGREE_ABORTED,  // it fails the registration
  AGREE_LIMITED,  // it deregisters after fewer runs
  AGREE_EARLY,    // it deregisters at once
  AGREE_NEVER,    // it leaves and does not register
  AGREE_CROSSED,  // another group has the same id; `partner` is its index
  AGREE_KINDS
};

struct agree_coll {
  uint64_t id;
  uint32_t space; // enum rondo_id_space
  int kind;       // enum agree_kind
  uint32_t special, partner;
  uint32_t generations; // how often it is registered
  uint32_t *members, nranks;
  uint32_t registrants; // of AGREE_CROSSED
  struct rondo_descriptor descriptor;
  uint32_t process_count; // of its members
  bool has_victim;        // a process of its members dies
};

struct agree_program {
  uint32_t process_count, rank_count, coll_count;
  uint32_t *process_of; // by rank
  struct agree_coll colls[AGREE_COLLS];
  uint8_t *takes[AGREE_COLLS]; // by rank: it registers the collective
  uint8_t *stays;              // by process: it does not leave
  uint8_t *dies;               // by process
  uint32_t deaths;
};

// Makes a program of `process_count` processes. If it is `calm`, nothing goes wrong in it, and
// nobody leaves.
void agree_program_make(struct agree_program *p, struct random *random, uint32_t process_count,
                        bool is_calm);
void agree_program_free(struct agree_program *p);

// What a rank registers.
struct rondo_descriptor agree_program_descriptor(const struct agree_program *p, uint32_t coll,
                                                 uint32_t rank);

#endif // RONDO_TESTS_EXPLORE_AGREE_PROGRAM_H
