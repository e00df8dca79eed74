#include "base/cores.h"

#include <unistd.h>

void rondo_cores_get(cpu_set_t *set) {
  cpu_set_t mine;
  CPU_ZERO(set);
  CPU_ZERO(&mine);
  (void)sched_getaffinity(getpid(), sizeof *set, set);
  (void)sched_getaffinity(0, sizeof mine, &mine);
  CPU_OR(set, set, &mine);
}

uint32_t rondo_cores_count(void) {
  cpu_set_t set;
  rondo_cores_get(&set);
  if (CPU_COUNT(&set) > 0)
    return (uint32_t)CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}
