// A parameter sweep: one option takes several values in turn, such as disorder=1e-9..1e-5:log:9.
#ifndef RONDO_SIM_DEADLOCK_SWEEP_H
#define RONDO_SIM_DEADLOCK_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/common/text.h"

#define RONDO_SIM_MAX_SWEEPS 2

struct rondo_sim_sweep {
  char key[32];
  double from, to;
  bool logarithmic;
  uint32_t count;
};

// Reads KEY=FROM..TO[:lin|log[:COUNT]]; defaults are log and 9 values. Keys are disorder,
// synchronisation, resources and rounds. False for any other text.
bool rondo_sim_sweep_parse(struct rondo_sim_sweep *s, const char *text,
                           struct rondo_sim_error *error);

// The n-th value.
double rondo_sim_sweep_value(const struct rondo_sim_sweep *s, uint32_t n);

#endif // RONDO_SIM_DEADLOCK_SWEEP_H
