// Placement of worker threads on NUMA nodes.
#include "daemon/host/device.h"

#if defined(RONDO_HAVE_NUMA)
#include <numa.h>
#endif

void rondo_host_place_worker(pthread_t thread, uint32_t index) {
#if defined(RONDO_HAVE_NUMA)
  if (numa_available() < 0 || numa_num_configured_nodes() < 2)
    return;
  // Neighbouring workers share a node, so that the blocks of neighbouring ranks do.
  uint32_t nodes = (uint32_t)numa_num_configured_nodes();
  uint32_t per_node = (rondo_host_device.cores + nodes - 1) / nodes;
  struct bitmask *cpus = numa_allocate_cpumask();
  if (!cpus)
    return;
  if (numa_node_to_cpus((int)(index / per_node % nodes), cpus) == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (unsigned cpu = 0; cpu < cpus->size && cpu < CPU_SETSIZE; cpu++)
      if (numa_bitmask_isbitset(cpus, cpu))
        CPU_SET(cpu, &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
  }
  numa_free_cpumask(cpus);
#else
  (void)thread;
  (void)index;
#endif
}
