// The flight record as text.
#ifndef RONDO_RUNTIME_OBSERVE_FLIGHT_WRITE_H
#define RONDO_RUNTIME_OBSERVE_FLIGHT_WRITE_H

#include <stdio.h>

struct rondo_rank;
struct rondo_job;

// Writes the record of one rank in the format of docs/analyse.md. Returns RONDO_SUCCESS,
// RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM (the stream failed).
int rondo_flight_print(struct rondo_rank *rank, FILE *out);

// Writes the records of the job's ranks in this process to the files that RONDO_FLIGHT_FILE names.
// Does nothing if that is not set. Logs errors.
void rondo_flight_dump(struct rondo_job *job);

#endif // RONDO_RUNTIME_OBSERVE_FLIGHT_WRITE_H
