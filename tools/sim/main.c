// rondo-sim: one program, three questions. `deadlock` says how likely a deadlock is, `analyse`
// whether a hang was one, `schedule` what a job would do.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "sim/analyse/analyse.h"
#include "sim/deadlock/deadlock.h"
#include "sim/schedule/schedule.h"

static const char usage[] =
    "Usage: rondo-sim COMMAND [OPTION...]\n"
    "\n"
    "Commands:\n"
    "  deadlock   How likely is a deadlock? Simulates disordered collectives and GPU\n"
    "             synchronisation (the model of the DFCCL paper, section 2.4).\n"
    "  analyse    Was this hang a deadlock? Reads the files a stuck job left behind.\n"
    "  schedule   What would this job do? Runs the real scheduler and plans in virtual time.\n"
    "\n"
    "  rondo-sim COMMAND --help   the options of a command\n"
    "  rondo-sim --version        the version\n";

struct command {
  const char *name;
  char *called; // what usage and error lines call it
  int (*run)(int argc, char **argv);
};

static char deadlock_name[] = "rondo-sim deadlock", analyse_name[] = "rondo-sim analyse",
            schedule_name[] = "rondo-sim schedule";

static const struct command commands[] = {
    {"deadlock", deadlock_name, rondo_sim_deadlock_main},
    {"analyse", analyse_name, rondo_sim_analyse_main},
    {"schedule", schedule_name, rondo_sim_schedule_main},
};

// At exit, however the command ends: standard output may be a full disk.
static void output_finish(void) {
  int failed = ferror(stdout);
  errno = 0;
  if (fflush(stdout) != 0 || failed) {
    fprintf(stderr, "rondo-sim: standard output: %s\n",
            errno ? strerror(errno) : "not all could be written");
    _exit(EX_CANTCREAT); // it is too late for exit
  }
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (atexit(output_finish) != 0) {
    fputs("rondo-sim: a full disk may go unnoticed\n", stderr);
  }
  for (size_t k = 0; k < sizeof(commands) / sizeof(commands[0]); k++) {
    if (strcmp(command, commands[k].name) == 0) {
      argv[1] = commands[k].called;
      return commands[k].run(argc - 1, argv + 1);
    }
  }
  if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
    printf("rondo-sim %s\n", RONDO_SIM_VERSION);
    return 0;
  }
  if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
    fputs(usage, stdout);
    return 0;
  }
  if (argc > 1) {
    fprintf(stderr, "rondo-sim: unknown command \"%s\"\n", command);
  }
  fputs(usage, stderr);
  return EX_USAGE;
}
