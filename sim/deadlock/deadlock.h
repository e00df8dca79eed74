// The deadlock simulator of rondo-sim: how likely is a deadlock, by the model of DFCCL section 2.4.
#ifndef RONDO_SIM_DEADLOCK_DEADLOCK_H
#define RONDO_SIM_DEADLOCK_DEADLOCK_H

// Runs `rondo-sim deadlock`. argv[0] is the command's name, as for main(). Returns the exit code of
// the process. Call once, from the main thread.
int rondo_sim_deadlock_main(int argc, char **argv);

#endif // RONDO_SIM_DEADLOCK_DEADLOCK_H
