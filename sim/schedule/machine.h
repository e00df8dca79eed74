// The machine of the schedule simulator: the ranks of a job, with the real daemon blocks
// (daemon/core), in virtual time and without data.
//
// A block steps with rondo_block_step, as in a daemon. What it publishes becomes visible to its
// peer when the message arrives; what it consumes, when the credit arrives. A step that made
// progress takes time; a block that is stuck steps again when something arrives for it or its
// budget ends, so polls in between cost nothing.
//
//   rondo_schedule_machine_create -> _add (collectives), _call (programs) ... -> _run -> read ->
//   _destroy
//
// Equal arguments give equal results, to the nanosecond. One machine at a time belongs to a thread.
#ifndef RONDO_SIM_SCHEDULE_MACHINE_H
#define RONDO_SIM_SCHEDULE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/policy_core.h"
#include "sim/schedule/graph.h"
#include "sim/schedule/layout.h"

// What a message of s bytes costs (LogGP): the sender is busy for overhead_ns + s ×
// overhead_byte_ns, the link of the rank for gap_ns + s × byte_ns, then the message is on its way
// for latency_ns, and the receiver is busy for as long as the sender was. The link of the receiver
// is occupied for as long as that of the sender. A credit takes latency_ns.
struct rondo_schedule_link {
  double latency_ns, overhead_ns, gap_ns, byte_ns, overhead_byte_ns;
  bool counts_gaps; // s - 1 gaps between bytes, in whole nanoseconds, as LogGOPSim counts them
};

enum rondo_schedule_link_class {
  RONDO_SCHEDULE_INSIDE = 0,  // between ranks of a machine
  RONDO_SCHEDULE_OUTSIDE = 1, // between machines
  RONDO_SCHEDULE_CLASSES = 2
};

// Costs of a block besides messages, in nanoseconds.
struct rondo_schedule_costs {
  uint64_t step_ns;  // of a step that made progress
  uint64_t load_ns;  // of loading a context: a switch between collectives
  uint64_t poll_ns;  // from an arrival until a waiting block sees it
  uint64_t start_ns; // until a block that has quit runs again
  double copy_byte_ns, reduce_byte_ns;
};

// When a run that was submitted goes to the daemon.
enum rondo_schedule_order {
  RONDO_SCHEDULE_FREE = 0, // at once
  RONDO_SCHEDULE_STATIC =
      1, // when all before it in the program have gone; shuffling counts for nothing
  // When rank 0 has announced it. In each cycle it gathers what is ready, and all ranks follow the
  // order that it announces (Horovod). A round is a small message along a binomial tree and back.
  RONDO_SCHEDULE_COORDINATOR = 2
};

struct rondo_schedule_settings {
  uint32_t rank_count, machine_ranks; // ranks of a machine; they follow each other
  uint32_t interfaces; // of a machine: its ranks share their links to other machines in turn
  // Of a machine. Where it has more ranks, these take the cores that are free, for steps that take
  // time and for computing. 0: each rank has one.
  uint32_t cores;
  struct rondo_policy policy;
  uint64_t quit_period_ns, residency_ns;
  struct rondo_schedule_costs costs;
  uint32_t iterations; // of the programs; each begins when the rank has ended the one before
  uint8_t order;       // enum rondo_schedule_order
  uint64_t cycle_ns;   // of a coordinator
  bool shuffles;       // each rank submits in an order of its own, another one in each iteration
  bool is_at_once;     // messages and credits take no time: only for rondo_schedule_machine_turn
  double jitter;       // latencies and compute times are up to this part longer
  uint64_t seed;
};

// A collective of the ranks `ranks`, by position; null: of all. `layout` and `ranks` must outlive
// the machine. `line`: of the report, which collectives that are alike share.
struct rondo_schedule_collective {
  const struct rondo_schedule_layout *layout;
  const uint32_t *ranks;
  struct rondo_schedule_link links[RONDO_SCHEDULE_CLASSES]; // by link class
  uint32_t line;
};

// A call of a rank's program: after computing for compute_ns it submits a run of the collective
// and, if `waits`, goes on when the run of the call `behind` calls before this one has ended: 0:
// its own run. It waits for nothing if there are not so many calls before it. If it `syncs`, it
// waits for its device before it submits: until the block has quit, whatever that has done by then.
struct rondo_schedule_call {
  uint64_t compute_ns;
  uint32_t collective; // number, in the order of rondo_schedule_machine_add
  bool waits, syncs;
  uint16_t behind;
};

// The time that leads to the end of the run, as its last message says: what each part of it was.
struct rondo_schedule_path {
  uint64_t latency_ns;  // messages on their way
  uint64_t transfer_ns; // bytes of messages on a link
  uint64_t link_ns;     // messages waiting for a link
  uint64_t block_ns;    // steps of blocks
  uint64_t other_ns;    // programs: compute, late ranks
  uint32_t messages;
};

// Why blocks did not move.
enum rondo_schedule_reason {
  RONDO_SCHEDULE_NO_DATA = 0,
  RONDO_SCHEDULE_NO_CREDIT = 1,
  RONDO_SCHEDULE_NO_WORK = 2, // nothing was submitted
  RONDO_SCHEDULE_NO_CORE = 3, // other ranks had all cores of the machine
  RONDO_SCHEDULE_REASONS = 4
};

struct rondo_schedule_traffic {
  uint64_t messages, bytes;
};

// What one link has sent. `number`: of the rank inside a machine, of the interface outside.
struct rondo_schedule_usage {
  uint64_t busy_ns, bytes;
  uint32_t class, number; // enum rondo_schedule_link_class
};

// Lengths of task queues when blocks step, over time.
#define RONDO_SCHEDULE_BINS 256u
struct rondo_schedule_lengths {
  uint32_t bin_shift; // a bin has 2^bin_shift ns, and becomes longer when the job does
  uint64_t sum[RONDO_SCHEDULE_BINS], samples[RONDO_SCHEDULE_BINS];
  uint32_t most[RONDO_SCHEDULE_BINS];
};

// One run of one collective on one rank that has ended.
struct rondo_schedule_ended {
  uint64_t submitted_ns, ended_ns;
  uint32_t rank, collective;
};

enum rondo_schedule_outcome {
  RONDO_SCHEDULE_RUNNING = 0,
  RONDO_SCHEDULE_DONE = 1,
  RONDO_SCHEDULE_DEADLOCK = 2 // runs are outstanding, and nothing will happen any more
};

struct rondo_schedule_totals {
  int outcome;          // enum rondo_schedule_outcome
  uint32_t queue_most;  // see queue_sum
  uint64_t makespan_ns; // of the last completion
  uint64_t events;
  uint64_t runs, runs_submitted, runs_ended;                    // of all ranks and iterations
  uint64_t steps, primitives, preemptions, loads, saves, quits; // of all blocks
  uint64_t blocked_ns[RONDO_SCHEDULE_REASONS];                  // of all blocks
  uint64_t queue_sum, queue_samples; // length of the task queue when a run is fetched
  uint64_t rounds;                   // of the coordinator that announced runs
  uint64_t syncs, sync_ns;           // device synchronisations, and how long they took
  struct rondo_schedule_traffic traffic[RONDO_SCHEDULE_CLASSES];
  uint64_t most_rank_bytes; // that one rank sent
  struct rondo_schedule_path path;
};

struct rondo_schedule_machine;

struct rondo_schedule_machine *
rondo_schedule_machine_create(const struct rondo_schedule_settings *settings);
void rondo_schedule_machine_destroy(struct rondo_schedule_machine *m); // null is allowed

// Adds a collective.
void rondo_schedule_machine_add(struct rondo_schedule_machine *m,
                                const struct rondo_schedule_collective *collective);

// Adds a call to the rank's program. All calls of a rank are added before those of the next rank.
void rondo_schedule_machine_call(struct rondo_schedule_machine *m, uint32_t rank,
                                 const struct rondo_schedule_call *call);

// The rank's calls, which have been added, follow a graph in place of each other: what they say of
// computing and waiting counts for nothing, and no call synchronises. `graph` must outlive the
// machine; all ranks have one, or none, which neither share cores nor shuffle.
void rondo_schedule_machine_graph(struct rondo_schedule_machine *m, uint32_t rank,
                                  const struct rondo_schedule_graph *graph);

// A rank begins its program late, or takes `factor` times as long to compute.
void rondo_schedule_machine_delay(struct rondo_schedule_machine *m, uint32_t rank, uint64_t ns);
void rondo_schedule_machine_slow(struct rondo_schedule_machine *m, uint32_t rank, double factor);

// Runs up to `events` events. Returns enum rondo_schedule_outcome.
int rondo_schedule_machine_run(struct rondo_schedule_machine *m, uint64_t events);

// A turn of a rank's block: some steps at one time.
struct rondo_schedule_turn_taken {
  uint64_t now_ns;
  uint32_t runs;  // that the rank's program submits before
  uint32_t steps; // the first one starts a block that has quit
  bool looks;     // the block has quit, and looks whether anything is ready
};

// Takes one turn of a machine that is driven by its caller, in place of rondo_schedule_machine_run,
// which has been called once for 0 events.
void rondo_schedule_machine_turn(struct rondo_schedule_machine *m, uint32_t rank,
                                 const struct rondo_schedule_turn_taken *turn);

// What is known so far. Pointers are valid until the machine runs again.
struct rondo_schedule_totals rondo_schedule_machine_totals(const struct rondo_schedule_machine *m);
const struct rondo_schedule_ended *
rondo_schedule_machine_ended(const struct rondo_schedule_machine *m, uint64_t *count);
const struct rondo_schedule_lengths *
rondo_schedule_machine_lengths(const struct rondo_schedule_machine *m);
// The links that have sent anything: `count` of them, which the caller frees.
struct rondo_schedule_usage *rondo_schedule_machine_usage(const struct rondo_schedule_machine *m,
                                                          uint32_t *count);
uint64_t rondo_schedule_machine_now_ns(const struct rondo_schedule_machine *m);
const struct rondo_schedule_collective *
rondo_schedule_machine_collective(const struct rondo_schedule_machine *m, uint32_t collective);

// Where a rank stands with a call of its program in this iteration.
enum rondo_schedule_standing {
  RONDO_SCHEDULE_NOT_SUBMITTED = 0,
  RONDO_SCHEDULE_QUEUED = 1,  // submitted, not in the task queue
  RONDO_SCHEDULE_STARTED = 2, // in the task queue
  RONDO_SCHEDULE_ENDED = 3
};
// For how long the rank's program has waited for its device; UINT64_MAX: it does not.
uint64_t rondo_schedule_machine_syncs_ns(const struct rondo_schedule_machine *m, uint32_t rank);

uint32_t rondo_schedule_machine_call_count(const struct rondo_schedule_machine *m, uint32_t rank);

// `collective`: set to that of the call.
int rondo_schedule_machine_standing(const struct rondo_schedule_machine *m, uint32_t rank,
                                    uint32_t call, uint32_t *collective);

#endif // RONDO_SIM_SCHEDULE_MACHINE_H
