// The flight record as text.
#ifndef RONDO_RUNTIME_OBSERVE_FLIGHT_WRITE_H
#define RONDO_RUNTIME_OBSERVE_FLIGHT_WRITE_H

#include <stdio.h>

struct rondo_rank;
struct rondo_job;

// Writes the record of one rank as docs/analyse.md says. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY
// or RONDO_ERR_SYSTEM (the stream failed).
int rondo_flight_print(struct rondo_rank *rank, FILE *out);

// Writes those of all ranks of the job in this process to the files that RONDO_FLIGHT_FILE names;
// does nothing where that is not set. What goes wrong is logged.
void rondo_flight_dump(struct rondo_job *job);

#endif // RONDO_RUNTIME_OBSERVE_FLIGHT_WRITE_H
