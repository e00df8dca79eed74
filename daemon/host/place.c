// Placement of worker threads on NUMA nodes.
#include "daemon/host/device.h"

#if defined(RONDO_HAVE_NUMA)
#include <numa.h>

// The cores of a node that this process may use, as threads inherit them: who has bound it (mpirun does) has decided.
// Returns 1 if there are any.
static int usable_cores(int node, struct bitmask *cores, cpu_set_t *set) {
  cpu_set_t own;
  CPU_ZERO(set);
  if (!numa_bitmask_isbitset(numa_nodes_ptr, (unsigned)node) || numa_node_to_cpus(node, cores))
    return 0;
  rondo_host_own_cores(&own);
  for (unsigned core = 0; core < cores->size && core < CPU_SETSIZE; core++)
    if (numa_bitmask_isbitset(cores, core) && CPU_ISSET(core, &own))
      CPU_SET(core, set);
  return CPU_COUNT(set) > 0;
}

// The `index`-th node with such cores; returns how many there are.
static uint32_t find_node(uint32_t index, struct bitmask *cores, cpu_set_t *set) {
  cpu_set_t there;
  uint32_t count = 0;
  CPU_ZERO(set);
  for (int node = 0; node <= numa_max_node(); node++)
    if (usable_cores(node, cores, &there) && count++ == index)
      *set = there;
  return count;
}
#endif

void rondo_host_place_worker(pthread_t thread, uint32_t index) {
#if defined(RONDO_HAVE_NUMA)
  cpu_set_t set;
  if (numa_available() < 0 || numa_num_configured_nodes() < 2)
    return;
  struct bitmask *cores = numa_allocate_cpumask();
  if (!cores)
    return;
  uint32_t nodes = find_node(0, cores, &set);
  if (nodes > 1) {
    // Neighbouring workers share a node, so that the blocks of neighbouring ranks do.
    uint32_t per_node = (rondo_host_cores() + nodes - 1) / nodes;
    (void)find_node(index / per_node % nodes, cores, &set);
    (void)pthread_setaffinity_np(thread, sizeof set, &set);
  }
  numa_free_cpumask(cores);
#else
  (void)thread;
  (void)index;
#endif
}
