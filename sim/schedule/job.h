// The job that is simulated: what the options say, with all defaults filled in.
//
//   rondo_schedule_job_init -> _set (options) ... -> _make -> the machine -> _fini
#ifndef RONDO_SIM_SCHEDULE_JOB_H
#define RONDO_SIM_SCHEDULE_JOB_H

#include "daemon/plan/cost.h"
#include "sim/schedule/machine.h"

// A rank that begins late, or computes slowly.
struct rondo_schedule_exception {
  uint32_t rank;
  bool is_late;
  double value; // nanoseconds, or a factor
};

struct rondo_schedule_job {
  struct rondo_schedule_settings settings;
  struct rondo_schedule_shape shape; // of all its collectives
  int rule;                          // why this algorithm: enum rondo_plan_rule
  uint64_t collectives, machines;
  int inner_link;                                           // enum rondo_cost_link
  bool has_links;                                           // the options say what they cost
  struct rondo_schedule_link links[RONDO_SCHEDULE_CLASSES]; // by link class
  struct rondo_schedule_exception *exceptions;
  uint32_t exception_count, exception_capacity;
  bool has_algorithm;
  char algorithm[32]; // as it was given
  struct rondo_plan_topology *topology;
  struct rondo_schedule_layout *layout;
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

// The bytes that all collectives of an iteration move, as nccl-tests counts them for the bus
// bandwidth.
double rondo_schedule_job_bus_bytes(const struct rondo_schedule_job *job);

#endif // RONDO_SIM_SCHEDULE_JOB_H
