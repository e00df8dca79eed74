// A job from what its ranks have recorded. From flight records: which runs each rank submitted, in
// which order, and how long after the one before. See also chakra.h.
//
//   rondo_schedule_replay_read or _make -> its fields -> _fini, also if it was refused
//
// A record holds the latest events of its rank. A run that has ended somewhere, but is not in the
// records of all its ranks, is left out: there the records begin later, or were written earlier.
#ifndef RONDO_SIM_SCHEDULE_REPLAY_H
#define RONDO_SIM_SCHEDULE_REPLAY_H

#include "sim/analyse/record.h"
#include "sim/schedule/machine.h"
#include "sim/schedule/program.h"

struct rondo_schedule_replay {
  struct rondo_schedule_statements statements; // one for each collective; `size`: its ranks
  uint32_t **members;                          // by statement; null: all ranks in order
  uint32_t *first_call;                        // by rank, and one more
  struct rondo_schedule_call *calls;           // of all ranks; `collective`: number of a statement
  struct rondo_schedule_graph *graphs;         // by rank; null: calls follow one another
  uint64_t begins_ns;                          // when the first call was, by the records' clock
  uint64_t left_out;                           // calls
};

// Reads a record of each rank, from 0 on, in any order.
bool rondo_schedule_replay_read(struct rondo_schedule_replay *r, char **paths, uint32_t count,
                                struct rondo_sim_error *error);

// The same with records that have been read. They stay the caller's.
bool rondo_schedule_replay_make(struct rondo_schedule_replay *r,
                                struct rondo_analyse_record *records, uint32_t count,
                                struct rondo_sim_error *error);

// Frees all but the statements' items, which become those of the job.
void rondo_schedule_replay_fini(struct rondo_schedule_replay *r);

#endif // RONDO_SIM_SCHEDULE_REPLAY_H
