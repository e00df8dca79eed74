// The job that is simulated: what the options say, with all defaults filled in.
//
//   rondo_schedule_job_init -> _set (options) ... -> _make -> the machine -> _fini
#ifndef RONDO_SIM_SCHEDULE_JOB_H
#define RONDO_SIM_SCHEDULE_JOB_H

#include "daemon/plan/cost.h"
#include "daemon/plan/cost_file.h"
#include "sim/schedule/goal.h"
#include "sim/schedule/machine.h"
#include "sim/schedule/program.h"
#include "sim/schedule/replay.h"

// A rank that begins late, or computes slowly.
struct rondo_schedule_exception {
  uint32_t rank;
  bool is_late;
  double value; // nanoseconds, or a factor
};

struct rondo_schedule_job {
  struct rondo_schedule_settings settings;
  struct rondo_schedule_statement basic; // what options say of collectives
  double sync_part;                      // of all calls, which synchronise the device first
  char program[256];                     // as it was given; "": the basic statement alone
  struct rondo_schedule_statements statements;
  char **replay_paths; // flight records in place of a program
  uint32_t replay_count, replay_capacity;
  char chakra[256];                    // prefix of Chakra traces in place of a program; "": none
  struct rondo_schedule_replay replay; // of either; its statements are those of the job
  uint32_t machines, slot_bytes, slot_count;
  int inner_link;        // enum rondo_cost_link
  bool takes_turns;      // a message occupies its links for all that it costs by a measured row
  uint32_t preset_ranks; // of a machine; 0: no preset
  bool has_ranks, has_machines, has_links;                  // the options say so
  struct rondo_schedule_link links[RONDO_SCHEDULE_CLASSES]; // by link class
  struct rondo_schedule_goal_costs goal; // of a GOAL program, which has no other settings
  bool has_goal;                         // the options say O or S
  struct rondo_schedule_exception *exceptions;
  uint32_t exception_count, exception_capacity;
  char algorithm[32];            // as it was given
  struct rondo_cost_file *model; // by which algorithms are chosen; null: the options say none
  // What is made of it.
  struct rondo_cost_model links_model; // without a file: of links that the options say
  struct rondo_schedule_layout **layouts;
  uint32_t layout_count, layout_capacity;
  // What a message of the layout costs where ranks share cores; null: of none yet.
  const struct rondo_schedule_layout *fitted;
  struct rondo_schedule_link fit;
  struct rondo_plan_topology **topologies; // of groups, one for each digest
  uint32_t topology_count, topology_capacity;
  uint32_t **members; // by group, of those that are not all ranks
  uint32_t member_count, member_capacity;
  double bus_bytes; // of an iteration and a rank, as nccl-tests counts them for the bus bandwidth
};

void rondo_schedule_job_init(struct rondo_schedule_job *job);
void rondo_schedule_job_fini(struct rondo_schedule_job *job);

// Sets what an option says, by its long name. Returns false if the value is refused.
bool rondo_schedule_job_set(struct rondo_schedule_job *job, const char *name, const char *value,
                            struct rondo_sim_error *error);

// Checks the options against each other, chooses what they leave open, builds the plans, and makes
// the machine. Returns null if the job is refused.
struct rondo_schedule_machine *rondo_schedule_job_make(struct rondo_schedule_job *job,
                                                       struct rondo_sim_error *error);

// The cores of a machine of the job, which is made: fewer than it has ranks if these share them.
uint32_t rondo_schedule_job_cores(const struct rondo_schedule_job *job);

// True if the cost model considers the algorithm for the first collective of the job, which is
// made.
bool rondo_schedule_job_considers(const struct rondo_schedule_job *job, int algorithm);

// The lines of a report: one for each copy of a statement. `copy`: set to the line's, from 0.
uint32_t rondo_schedule_job_lines(const struct rondo_schedule_job *job);
const struct rondo_schedule_statement *rondo_schedule_job_line(const struct rondo_schedule_job *job,
                                                               uint32_t line, uint32_t *copy);

#endif // RONDO_SIM_SCHEDULE_JOB_H
