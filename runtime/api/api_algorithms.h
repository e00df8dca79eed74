// Forced algorithms: the environment variable RONDO_ALGO.
#ifndef RONDO_RUNTIME_API_API_ALGORITHMS_H
#define RONDO_RUNTIME_API_API_ALGORITHMS_H

#include <stdint.h>

#include <rondo/types.h>

// Reads RONDO_ALGO, pairs KIND=NAME with a comma between, into `algorithms`, which is as in struct
// rondo_shape_limits. Returns RONDO_SUCCESS, RONDO_ERR_INVALID (a pair that names no kind, or no
// algorithm of that kind: one line is logged) or RONDO_ERR_NO_MEMORY.
int rondo_algorithms_read(uint8_t algorithms[RONDO_KIND_COUNT]);

#endif // RONDO_RUNTIME_API_API_ALGORITHMS_H
