// The analyser of rondo-sim: reads what a stuck job left behind and says whether it was a deadlock.
#ifndef RONDO_SIM_ANALYSE_ANALYSE_H
#define RONDO_SIM_ANALYSE_ANALYSE_H

// Runs `rondo-sim analyse`. argv[0] is the command's name, as for main(). Returns the exit code of
// the process, which tells the verdict. Call once, from the main thread.
int rondo_sim_analyse_main(int argc, char **argv);

#endif // RONDO_SIM_ANALYSE_ANALYSE_H
