// The schedule simulator of rondo-sim: what a job would do, with the real scheduler and plans, in
// virtual time.
#ifndef RONDO_SIM_SCHEDULE_SCHEDULE_H
#define RONDO_SIM_SCHEDULE_SCHEDULE_H

// Runs `rondo-sim schedule`. argv[0] is the command's name, as for main(). Returns the exit code of
// the process. Call once, from the main thread.
int rondo_sim_schedule_main(int argc, char **argv);

#endif // RONDO_SIM_SCHEDULE_SCHEDULE_H
