// Tells whether the first two processors that this process may use are two whole cores at the
// moment. A virtual machine's are not at times, for some tens of milliseconds each: both are
// threads of one core, or a neighbour computes on the other thread of one. Its kernel does not
// know; what is computed takes longer. What was measured meanwhile says nothing of the machine.
//
//   rondo_kit_cores_watch -> rondo_kit_cores_are_whole, before and after what is measured
#ifndef RONDO_TOOLS_KIT_WHOLE_CORES_H
#define RONDO_TOOLS_KIT_WHOLE_CORES_H

#include <stdbool.h>
#include <stdint.h>

// The time of the same additions on each processor while the other one is idle, and on the first
// while the second adds, too.
struct rondo_kit_core_times {
  double first_ns, second_ns, both_ns;
};

// Measures them with two threads, which have ended when it returns. Returns false if there is one
// processor, or if threads cannot be created.
bool rondo_kit_core_times_measure(struct rondo_kit_core_times *times);

#define RONDO_KIT_CORE_SAMPLES 4096u

// The times of additions on a processor alone, from the shortest on.
struct rondo_kit_cores_watch {
  uint32_t count;
  double ns[RONDO_KIT_CORE_SAMPLES];
};

// Measures for a second what additions usually take. Returns false as rondo_kit_core_times_measure
// does.
bool rondo_kit_cores_watch(struct rondo_kit_cores_watch *w);

// Measures, and judges the times.
bool rondo_kit_cores_are_whole(struct rondo_kit_cores_watch *w);

// Whether processors with these times are whole cores. They become part of what is usual, as long
// as there is room.
bool rondo_kit_cores_judge(struct rondo_kit_cores_watch *w,
                           const struct rondo_kit_core_times *times);

#endif // RONDO_TOOLS_KIT_WHOLE_CORES_H
