// `rondo-info plan KIND RANKS BYTES`: the plan of a rank, what it costs, why its algorithm was
// chosen, and what the verifier says of the plans of all ranks.
#ifndef RONDO_TOOLS_INFO_PLAN_H
#define RONDO_TOOLS_INFO_PLAN_H

// The command, without the name of the program. Returns the exit status; ends the program with
// status 2 and one line on stderr if the arguments are wrong.
int info_plan_main(int argc, char **argv);

#endif // RONDO_TOOLS_INFO_PLAN_H
