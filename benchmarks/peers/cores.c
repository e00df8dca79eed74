// peer_cores: tells how long additions take on the first two processors, alone and both at once, by
// which compare judges whether they are two whole cores (tools/kit/whole_cores.h).
//
// Answers {"ready":"..."} first, and then each line of its input with
// {"first_ns":21000.0,"second_ns":21000.0,"both_ns":21200.0}.
#include <stdio.h>

#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"
#include "tools/kit/whole_cores.h"

#define LINE_BYTES 256u // of input

int main(void) {
  struct rondo_kit_core_times t;
  char line[LINE_BYTES];
  if (rondo_kit_core_count() < 2) {
    rondo_kit_serve_error("one processor");
    return 1;
  }
  rondo_kit_serve_ready("two threads that add");
  while (fgets(line, sizeof line, stdin)) {
    if (!rondo_kit_core_times_measure(&t))
      return 1;
    printf("{\"first_ns\":%.1f,\"second_ns\":%.1f,\"both_ns\":%.1f}\n", t.first_ns, t.second_ns,
           t.both_ns);
    fflush(stdout);
  }
  return 0;
}
