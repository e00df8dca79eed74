// What only a real GPU can show, through the public interface and the CUDA driver's: gpu_tests CASE
// ...
//
// Several ranks of this process share device 0. A watchdog on wall time ends the process with 3
// whatever a kernel does, so that no GPU is ever left hung. 77: there is no GPU.
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/job.h"

// In the order of their worth: scripts/gpu-check may not come to the last ones.
static const struct test_case {
  const char *name;
  void (*run)(void);
  unsigned seconds; // wall time after which it is ended
} cases[] = {{"bits", case_bits, 40},
             {"matrix", case_matrix, 60},
             {"half_done", case_half_done, 15},
             {"disordered", case_disordered, 30},
             {"synchronised", case_synchronised, 40},
             {"kinds", case_kinds, 30},
             {"calls", case_calls, 20},
             {"streams", case_streams, 20},
             {"abort", case_abort, 15},
             {"mapping", case_mapping, 15},
             {"processes", case_processes, 30},
             {"first_use", case_first_use, 20},
             {"late_rank", case_late_rank, 40},
             {"window", case_window, 60},
             {"graphs", case_graphs, 40},
             {"devices", case_devices, 30},
             {"restarts", case_restarts, 300},
             {"soak", case_soak, 600}};
#define CASES (sizeof cases / sizeof *cases)

// `seconds` are those of the case, or what the environment says.
static void run(const struct test_case *c) {
  const char *text = getenv("RONDO_TEST_SECONDS");
  unsigned seconds = text ? (unsigned)strtoul(text, NULL, 10) : c->seconds;
  // The soak ends with its time; everything else must end before.
  gpu_watch(seconds, c->run == case_soak ? 0 : 3);
  c->run();
  printf("%s: ok\n", c->name);
}

static int run_named(const char *name) {
  for (size_t i = 0; i < CASES; i++)
    if (strcmp(name, cases[i].name) == 0) {
      run(&cases[i]);
      return 0;
    }
  fprintf(stderr, "gpu_tests: there is no case \"%s\"\n", name);
  return 2;
}

int main(int argc, char **argv) {
  int status = 0;
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (size_t i = 0; i < CASES; i++)
      printf("%s %u\n", cases[i].name, cases[i].seconds);
    return 0;
  }
  if (argc < 2) {
    fprintf(stderr, "usage: gpu_tests --list | CASE ...\n");
    return 2;
  }
  gpu_open("gpu_tests");
  if (argc == 3 && strcmp(argv[1], "--child") == 0)
    return gpu_child_main((int)strtol(argv[2], NULL, 10));
  for (int i = 1; i < argc && status == 0; i++)
    status = run_named(argv[i]);
  return status;
}
