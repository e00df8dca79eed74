// Binding of worker threads to NUMA nodes.
#include "base/cores.h"
#include "daemon/host/host_device.h"

#if defined(RONDO_HAVE_NUMA)
#include <numa.h>

// Writes the cores of a node that this process may use to `set`. Threads inherit them from the
// launcher (mpirun binds). Returns true if there are any.
static bool node_has_cores(int node, struct bitmask *cores, cpu_set_t *set) {
  cpu_set_t own;
  CPU_ZERO(set);
  if (!numa_bitmask_isbitset(numa_nodes_ptr, (unsigned)node) || numa_node_to_cpus(node, cores))
    return false;
  rondo_cores_get(&own);
  for (unsigned core = 0; core < cores->size && core < CPU_SETSIZE; core++)
    if (numa_bitmask_isbitset(cores, core) && CPU_ISSET(core, &own))
      CPU_SET(core, set);
  return CPU_COUNT(set) > 0;
}

// Writes the cores of the `index`-th usable node to `set`. Returns the number of usable nodes.
static uint32_t nodes_find(uint32_t index, struct bitmask *cores, cpu_set_t *set) {
  cpu_set_t there;
  uint32_t count = 0;
  CPU_ZERO(set);
  for (int node = 0; node <= numa_max_node(); node++)
    if (node_has_cores(node, cores, &there) && count++ == index)
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
  uint32_t nodes = nodes_find(0, cores, &set);
  if (nodes > 1) {
    // Neighbouring workers share a node, as the blocks of neighbouring ranks should.
    uint32_t per_node = (rondo_cores_count() + nodes - 1) / nodes;
    (void)nodes_find(index / per_node % nodes, cores, &set);
    (void)pthread_setaffinity_np(thread, sizeof set, &set);
  }
  numa_free_cpumask(cores);
#else
  (void)thread;
  (void)index;
#endif
}
