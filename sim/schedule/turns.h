// The turns that blocks took in a run of the explorer (tests/explore), taken again by the blocks of
// the simulator: the same runs, at the same times, in the same order. All that a turn changes must
// be equal.
//
//   rondo_schedule_turns_read or _parse -> rondo_schedule_turns_play -> rondo_schedule_turns_fini,
//   also if it was refused
//
// Messages take no time here: what a block publishes is visible at once, as in the explorer. So
// blocks, queues, policies, plans and the search for what is ready are compared, and costs are not.
#ifndef RONDO_SIM_SCHEDULE_TURNS_H
#define RONDO_SIM_SCHEDULE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/common/text.h"
#include "sim/schedule/layout.h"
#include "sim/schedule/machine.h"

#define RONDO_SCHEDULE_TURN_RANKS 64u
#define RONDO_SCHEDULE_TURN_COLLECTIVES 8u // whose ready flags are one word
#define RONDO_SCHEDULE_TURN_WORDS 128u     // most collectives in a list of a turn

// What a turn has changed. `place`: of the scheduled collective, if the queue is not empty: where
// it is in the queue, its run, phase, op and repeat.
enum rondo_schedule_turn_count {
  RONDO_SCHEDULE_TURN_FETCHED = 0,
  RONDO_SCHEDULE_TURN_PRIMITIVES = 1,
  RONDO_SCHEDULE_TURN_PREEMPTIONS = 2,
  RONDO_SCHEDULE_TURN_LOADS = 3,
  RONDO_SCHEDULE_TURN_SAVES = 4,
  RONDO_SCHEDULE_TURN_QUITS = 5,
  RONDO_SCHEDULE_TURN_ENDED = 6,
  RONDO_SCHEDULE_TURN_COUNTS = 7
};
#define RONDO_SCHEDULE_TURN_PLACES 5u

struct rondo_schedule_turn {
  struct rondo_schedule_turn_taken taken;
  uint32_t rank, resident; // `resident`: as in struct rondo_block, afterwards
  uint64_t counts[RONDO_SCHEDULE_TURN_COUNTS];
  uint64_t place[RONDO_SCHEDULE_TURN_PLACES];
  uint32_t given, given_count; // collectives whose runs it was given before: in `words`
  uint32_t queue, queue_count; // the task queue afterwards: in `words`
};

struct rondo_schedule_turns {
  struct rondo_schedule_settings settings;
  uint32_t active_slots; // of a block there
  struct rondo_schedule_layout *layouts[RONDO_SCHEDULE_TURN_COLLECTIVES];
  uint32_t *ranks[RONDO_SCHEDULE_TURN_COLLECTIVES]; // by position
  uint32_t collective_count;
  struct rondo_schedule_turn *items;
  uint32_t count, word_count, word_capacity;
  uint32_t *words;
};

bool rondo_schedule_turns_read(struct rondo_schedule_turns *t, const char *path,
                               struct rondo_sim_error *error);
// The same of the text of a file. `name`: the file's, for errors.
bool rondo_schedule_turns_parse(struct rondo_schedule_turns *t, const char *text, size_t bytes,
                                const char *name, struct rondo_sim_error *error);
void rondo_schedule_turns_fini(struct rondo_schedule_turns *t);

// Takes all turns. Returns true if they are equal; else appends a line that names the first
// difference to `difference`.
bool rondo_schedule_turns_play(const struct rondo_schedule_turns *t,
                               struct rondo_sim_text *difference);

// Appends what was compared.
void rondo_schedule_turns_report(struct rondo_sim_text *text, const struct rondo_schedule_turns *t);

#endif // RONDO_SIM_SCHEDULE_TURNS_H
