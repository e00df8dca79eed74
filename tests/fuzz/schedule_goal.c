// Feeds any bytes to the reader of GOAL programs of rondo-sim schedule: it accepts or refuses with
// one line that names the file and the line, and what it accepts runs to its end.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/schedule/goal.h"
#include "sim/schedule/machine.h"

#define MOST_EVENTS 1000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void goal_play(struct rondo_schedule_goal *g) {
  const struct rondo_schedule_goal_costs costs = rondo_schedule_goal_costs_default();
  rondo_schedule_goal_begin(g, &costs);
  int outcome = rondo_schedule_goal_run(g, MOST_EVENTS);
  struct rondo_schedule_goal_totals t = rondo_schedule_goal_totals(g);
  if (outcome == RONDO_SCHEDULE_RUNNING || t.ops_done > t.ops ||
      (outcome == RONDO_SCHEDULE_DONE) != (t.ops_done == t.ops) || t.unreceived > t.messages) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_sim_error error = {""};
  if (size > 4096) {
    return 0;
  }
  struct rondo_schedule_goal *g = rondo_schedule_goal_parse((const char *)data, size, "f", &error);
  if ((g == NULL) != (strncmp(error.text, "f:", 2) == 0) || strchr(error.text, '\n')) {
    abort();
  }
  if (g && rondo_schedule_goal_ranks(g) <= 64) {
    goal_play(g);
  }
  rondo_schedule_goal_destroy(g);
  return 0;
}
