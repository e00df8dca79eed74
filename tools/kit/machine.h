// The machine: the facts that the head of every result states.
#ifndef RONDO_TOOLS_KIT_MACHINE_H
#define RONDO_TOOLS_KIT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct rondo_kit_machine {
  char model[128];    // of the processor
  char system[128];   // kernel name, release and architecture
  char features[128]; // processor features that moving and reducing data can use
  uint32_t cores_online;
  uint32_t cores_allowed; // to this process
  uint32_t numa_nodes;
  uint64_t memory_bytes;
  uint64_t available_bytes; // without swapping
};

// Reads the facts. A fact that cannot be read is "unknown" or 0.
void rondo_kit_machine_read(struct rondo_kit_machine *machine);

// Prints one line that begins with `prefix`: model, cores, NUMA nodes, memory, system.
void rondo_kit_machine_print(const char *prefix);

// Bytes that this process can still allocate without being killed: the less of what the system has
// available and of what the control group of the process has left. 0: not known.
uint64_t rondo_kit_machine_available(void);

// Whether so much memory is available, or it is not known; if not, prints that on stderr. A program
// asks before it allocates, because Linux grants more than there is and later kills for it.
bool rondo_kit_machine_offers(double bytes);

#endif // RONDO_TOOLS_KIT_MACHINE_H
