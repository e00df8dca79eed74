// How much longer collectives take by the algorithms that the cost model chooses than by the best.
#ifndef RONDO_SIM_SCHEDULE_REGRET_H
#define RONDO_SIM_SCHEDULE_REGRET_H

#include <stdatomic.h>

#include "sim/schedule/job.h"

// A collective, simulated by each algorithm that the cost model considers.
struct rondo_schedule_regret_cell {
  uint64_t bytes, chosen_ns, best_ns;
  uint32_t ranks, machines;
  int kind, chosen, best;
};

struct rondo_schedule_regret {
  struct rondo_schedule_regret_cell *cells; // in order
  uint32_t count;                           // that have been simulated
  uint32_t all;                             // that there are
};

// Kinds × sizes × machines, of up to `rank_count` ranks.
void rondo_schedule_regret_init(struct rondo_schedule_regret *r, uint32_t rank_count);
void rondo_schedule_regret_fini(struct rondo_schedule_regret *r);

// Simulates the next cell with the links and the cost model of the job, which is not made and is
// not changed. When `stop` is set, gives up the cell and returns true. Returns false if the job is
// refused.
bool rondo_schedule_regret_next(struct rondo_schedule_regret *r,
                                const struct rondo_schedule_job *job, const atomic_int *stop,
                                struct rondo_sim_error *error);

// The ratios of chosen to best: their geometric mean, and the greatest.
double rondo_schedule_regret_mean(const struct rondo_schedule_regret *r, double *most);

// Append the report.
void rondo_schedule_regret_text(struct rondo_sim_text *t, const struct rondo_schedule_regret *r);
void rondo_schedule_regret_json(struct rondo_sim_text *t, const struct rondo_schedule_regret *r);

#endif // RONDO_SIM_SCHEDULE_REGRET_H
