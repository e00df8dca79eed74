// `rondo-info plan KIND RANKS BYTES`: the plan of a rank, what it costs, why its algorithm was
// chosen, and what the verifier says of the plans of all ranks.
#ifndef RONDO_TOOLS_INFO_PLAN_H
#define RONDO_TOOLS_INFO_PLAN_H

#include <stdint.h>

#include "daemon/plan/build.h"
#include "daemon/plan/verify.h"
#include "tools/info/plan_cost.h"

struct info_plan {
  struct rondo_plan_request request; // whose plan
  uint64_t bytes;                    // that the descriptor counts
  struct rondo_plan_choice choice;
  struct rondo_plan *plans; // of all ranks
  struct info_plan_cost cost;
  int verified;                           // enum rondo_status of the verifier
  struct rondo_plan_verify_report report; // the first fault, if there is one
};

// The command, without the name of the program. Returns the exit status; ends the program with
// status 2 and one line on stderr if the arguments are wrong.
int info_plan_main(int argc, char **argv);

void info_plan_print(const struct info_plan *plan);
// Returns false if there is no memory.
bool info_plan_print_json(const struct info_plan *plan);

#endif // RONDO_TOOLS_INFO_PLAN_H
