// The program of one seed: ranks, their configuration, and the collectives that each of them
// registers, runs and deregisters. The order of a rank's calls is drawn while the program runs.
#ifndef RONDO_TESTS_EXPLORE_PROGRAM_H
#define RONDO_TESTS_EXPLORE_PROGRAM_H

#include <stdint.h>

#include "runtime/rank/rank.h"
#include "tests/explore/random.h"
#include <rondo/rondo.h>

#define EXPLORE_RANKS 5u
#define EXPLORE_BLOCKS 3u
#define EXPLORE_COLLS 6u
#define EXPLORE_PERIODS 3u // registrations of one id, one after the other
#define EXPLORE_RUNS 30u
#define EXPLORE_NOBODY UINT32_MAX

enum explore_flavour {
  EXPLORE_PLAIN = 0,
  EXPLORE_ABORT = 1,    // ranks abort in the middle
  EXPLORE_MISMATCH = 2, // a member registers something else
  EXPLORE_LEAVE = 3,    // members deregister before the others are through
  EXPLORE_FLAVOURS = 4
};

// One registration of one collective, as all its members see it.
struct explore_period {
  int kind, dtype, redop;
  uint32_t quantisation; // of the messages
  uint32_t count, root;
  uint32_t nranks;
  uint32_t members[EXPLORE_RANKS];
  uint32_t runs[EXPLORE_RANKS]; // that the member at a position submits
  uint32_t odd;                 // position that registers something else, or EXPLORE_NOBODY
  uint32_t oddness;
};

struct explore_coll {
  uint64_t id;
  int priority[EXPLORE_RANKS];
  uint32_t period_count;
  struct explore_period periods[EXPLORE_PERIODS];
};

struct explore_program {
  uint64_t seed;
  int flavour;
  struct rondo_config cfg; // of every rank, the rank aside
  struct rondo_manual manual;
  uint32_t coll_count;
  struct explore_coll colls[EXPLORE_COLLS];
  uint32_t tick_ns;       // of virtual time, at most, per step
  uint32_t point_percent; // of points at which others run
  uint32_t burst;         // submissions to one collective in a row, at most
  uint32_t sync_percent;  // of submissions before which the rank waits for its device
  uint32_t tied_percent;  // of runs that are tied to a stream
  uint32_t process_count; // of the job; 1: there is no network
  uint32_t process_of[EXPLORE_RANKS];
  uint32_t machine_of[EXPLORE_RANKS]; // the processes; those of different ones share no memory
  uint32_t ports;                     // of each machine; 0: unknown
  uint32_t cuts;                      // links between processes that are cut, at most
  uint32_t last_deregister;           // 1: deregister at the end; 0: leave that to the destruction
};

// Draws the program of a seed.
void explore_program_make(struct explore_program *p, uint64_t seed);

// Makes it one in which what is rare happens often: what comes between a block's posting of a run's
// end and whatever it does next, links that are cut as producers take leave, or plans over two
// levels of machines that have several ports.
void explore_program_hasten_ends(struct explore_program *p);
void explore_program_hasten_packets(struct explore_program *p);
void explore_program_hasten_cuts(struct explore_program *p);
void explore_program_hasten_ports(struct explore_program *p);
// All-reduces with quantised messages.
void explore_program_hasten_quantised(struct explore_program *p);
// To measure time: runs that all end well, in one process, with default budgets.
void explore_program_calm(struct explore_program *p);

// The member's position, or EXPLORE_NOBODY.
uint32_t explore_position(const struct explore_period *d, uint32_t rank);

// Runs that every member submits: those that can succeed.
uint32_t explore_common_runs(const struct explore_period *d);

#endif // RONDO_TESTS_EXPLORE_PROGRAM_H
