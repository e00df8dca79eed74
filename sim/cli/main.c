// rondo-sim: one program, two questions. `deadlock` says how likely a deadlock is, `analyse`
// whether a hang was one.
#include <stdio.h>
#include <string.h>

#include "sim/analyse/analyse.h"
#include "sim/deadlock/deadlock.h"

static const char usage[] =
    "Usage: rondo-sim COMMAND [OPTION...]\n"
    "\n"
    "Commands:\n"
    "  deadlock   How likely is a deadlock? Simulates disordered collectives and GPU\n"
    "             synchronisation (the model of the DFCCL paper, section 2.4).\n"
    "  analyse    Was this hang a deadlock? Reads the files a stuck job left behind.\n"
    "\n"
    "  rondo-sim COMMAND --help   the options of a command\n"
    "  rondo-sim --version        the version\n";

struct command {
  const char *name;
  char *called; // what usage and error lines call it
  int (*run)(int argc, char **argv);
};

static char deadlock_name[] = "rondo-sim deadlock", analyse_name[] = "rondo-sim analyse";

static const struct command commands[] = {
    {"deadlock", deadlock_name, rondo_sim_deadlock_main},
    {"analyse", analyse_name, rondo_sim_analyse_main},
};

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
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
  return 64; // EX_USAGE
}
