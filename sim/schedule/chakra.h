// A job from the Chakra execution traces of its ranks: what each rank computes and calls, and which
// of it depends on what. docs/simulator.md says how traces are understood.
//
//   rondo_schedule_chakra_read or _make -> the replay's fields -> rondo_schedule_replay_fini, also
//   if it was refused
#ifndef RONDO_SIM_SCHEDULE_CHAKRA_H
#define RONDO_SIM_SCHEDULE_CHAKRA_H

#include "sim/schedule/chakra_read.h"
#include "sim/schedule/replay.h"

// Reads prefix.0.et, prefix.1.et and so on: a trace of each rank.
bool rondo_schedule_chakra_read(struct rondo_schedule_replay *r, const char *prefix,
                                struct rondo_sim_error *error);

// The same with traces that have been read, one of each rank. They stay the caller's.
bool rondo_schedule_chakra_make(struct rondo_schedule_replay *r,
                                const struct rondo_schedule_trace *traces, uint32_t count,
                                const struct rondo_analyse_strings *strings,
                                struct rondo_sim_error *error);

#endif // RONDO_SIM_SCHEDULE_CHAKRA_H
