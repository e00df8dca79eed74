#include "sim/deadlock/deadlock.h"

#include <argp.h>

static const struct argp parser = {
    .doc = "How likely is a deadlock? Simulates disordered collectives and GPU synchronisation.",
};

int rondo_sim_deadlock_main(int argc, char **argv) {
  return argp_parse(&parser, argc, argv, 0, NULL, NULL) ? 64 : 0;
}
