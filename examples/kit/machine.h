// What the machine offers, for the head of every result.
#ifndef RONDO_EXAMPLES_KIT_MACHINE_H
#define RONDO_EXAMPLES_KIT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rondo_kit_machine {
  char model[128];    // of the processor
  char system[128];   // kernel name, release and architecture
  char features[128]; // those processor features that moving and reducing data can use
  uint32_t cores_online;
  uint32_t cores_allowed; // to this process
  uint32_t numa_nodes;
  uint64_t memory_bytes;
  uint64_t available_bytes; // without swapping
};

// Reads the facts. What cannot be read says "unknown" or is 0.
void rondo_kit_machine_read(struct rondo_kit_machine *machine);

// Prints one line: model, cores, memory, features, system. `prefix` begins the line.
void rondo_kit_machine_print(const struct rondo_kit_machine *machine, const char *prefix,
                             FILE *stream);

// Bytes that this process can still take without being killed: what the system has available, or
// what the control group of the process has left, whichever is less. 0: it is not known.
uint64_t rondo_kit_machine_available(void);

// Whether so much memory is available; if not, says so on stderr in the name of the program. It is asked
// before it is taken, since Linux gives what it does not have and then kills for it. True where it is
// not known.
bool rondo_kit_machine_offers(double bytes);

#endif // RONDO_EXAMPLES_KIT_MACHINE_H
