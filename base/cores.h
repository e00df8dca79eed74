// The cores on which threads of this process may run.
#ifndef RONDO_BASE_CORES_H
#define RONDO_BASE_CORES_H

#include <sched.h>
#include <stdint.h>

// Writes the cores of the process, and those of the calling thread.
void rondo_cores_get(cpu_set_t *set);

// Returns how many they are, at least 1.
uint32_t rondo_cores_count(void);

#endif // RONDO_BASE_CORES_H
