// The memory that the buffers of rondo-perf need. It is compared with what is available before it
// is allocated, because Linux grants more than there is and later kills a process for it.
#ifndef RONDO_TOOLS_PERF_MEMORY_H
#define RONDO_TOOLS_PERF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/perf/job.h"

#define PERF_MEMORY_TEXT_BYTES 256

// Whether all ranks of the job, in however many processes of the machine, find room for the buffers
// of `point` in `available` bytes (0: not known, which is room enough). If not, writes one line
// with the figures to `text`, of PERF_MEMORY_TEXT_BYTES.
bool perf_memory_suffices(const struct perf_setup *setup, const struct perf_point *point,
                          uint64_t available, char *text);

// Bytes of the buffers of all ranks, and of the times that they take down.
double perf_memory_bytes(const struct perf_setup *setup, const struct perf_point *point);

#endif // RONDO_TOOLS_PERF_MEMORY_H
