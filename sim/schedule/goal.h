// GOAL programs: what LogGOPSim simulates. Each rank has sends, receives and calculations, and some
// wait for others; messages cost what LogGOPS says.
//
//   rondo_schedule_goal_parse or _read -> _begin -> _run ... -> read -> _destroy
//
// The model is that of LogGOPSim (Hoefler, Schneider, Lumsdaine: "LogGOPSim - Simulating
// Large-Scale Applications in the LogGOPS Model", 2010), to the nanosecond: docs/simulator.md.
#ifndef RONDO_SIM_SCHEDULE_GOAL_H
#define RONDO_SIM_SCHEDULE_GOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/common/text.h"

#define RONDO_SCHEDULE_GOAL_ANY UINT32_MAX // a receive's peer or tag that matches all
#define RONDO_SCHEDULE_GOAL_NONE UINT32_MAX

enum rondo_schedule_goal_kind {
  RONDO_SCHEDULE_GOAL_SEND = 0, // free ops of the same time start in the order of their kinds
  RONDO_SCHEDULE_GOAL_RECV = 1,
  RONDO_SCHEDULE_GOAL_CALC = 2,
  RONDO_SCHEDULE_GOAL_KINDS = 3
};

struct rondo_schedule_goal_op {
  uint64_t size; // bytes; of CALC: nanoseconds
  uint32_t peer; // of a message that is on its way: the sender
  uint32_t tag;
  uint32_t first_edge;  // of the ops that wait for this one; those of the next op follow
  uint32_t start_edges; // the first of them wait for its start only
  uint32_t waits;       // for so many ops; at 0 the place is `next`, the one behind it in a queue
  uint32_t order;       // among events of the same time
  uint32_t line;        // of the file
  uint8_t kind, cpu, nic;
  bool is_done;
};

// LogGOPS, in nanoseconds, and nanoseconds a byte. Defaults are those of LogGOPSim.
struct rondo_schedule_goal_costs {
  uint64_t latency_ns, overhead_ns, gap_ns;
  double gap_byte_ns, overhead_byte_ns;
  uint64_t eager_bytes;   // a larger message ends at its sender when it has been received
  bool messages_take_gap; // each message is on its way for the gap, too
};

struct rondo_schedule_goal_totals {
  int outcome; // enum rondo_schedule_outcome
  uint64_t makespan_ns;
  uint64_t events; // ops that started and messages that were sent
  uint64_t ops, ops_done, messages, bytes;
  uint64_t unexpected; // messages that came before their receive was posted
  uint64_t unreceived; // messages that nobody has received
};

struct rondo_schedule_goal;

struct rondo_schedule_goal_costs rondo_schedule_goal_costs_default(void);

// Reads a program in its text form. `bytes`: the length of `text`; `name`: of the file, for errors.
// Returns null if it is refused.
struct rondo_schedule_goal *rondo_schedule_goal_parse(const char *text, size_t bytes,
                                                      const char *name,
                                                      struct rondo_sim_error *error);
struct rondo_schedule_goal *rondo_schedule_goal_read(const char *path,
                                                     struct rondo_sim_error *error);
void rondo_schedule_goal_destroy(struct rondo_schedule_goal *g); // null is allowed

// Sets the costs and puts the first events into the queue. Call once.
void rondo_schedule_goal_begin(struct rondo_schedule_goal *g,
                               const struct rondo_schedule_goal_costs *costs);

// Runs up to `events` events. Returns enum rondo_schedule_outcome.
int rondo_schedule_goal_run(struct rondo_schedule_goal *g, uint64_t events);

struct rondo_schedule_goal_totals rondo_schedule_goal_totals(const struct rondo_schedule_goal *g);
uint32_t rondo_schedule_goal_ranks(const struct rondo_schedule_goal *g);
uint64_t rondo_schedule_goal_now_ns(const struct rondo_schedule_goal *g);

// When the rank has ended what it has done so far.
uint64_t rondo_schedule_goal_end_ns(const struct rondo_schedule_goal *g, uint32_t rank);

// The receives that the rank has posted in vain so far, one after the other: begins with null and
// returns null after the last one.
const struct rondo_schedule_goal_op *
rondo_schedule_goal_posted(const struct rondo_schedule_goal *g, uint32_t rank,
                           const struct rondo_schedule_goal_op *before);

#endif // RONDO_SIM_SCHEDULE_GOAL_H
