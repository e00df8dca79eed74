// Forced algorithms: the environment variable RONDO_ALGO.
#ifndef RONDO_RUNTIME_API_API_ALGORITHMS_H
#define RONDO_RUNTIME_API_API_ALGORITHMS_H

#include "runtime/transport/collective_shape.h"

// Reads RONDO_ALGO, or the file that it names (docs/configuration.md has the syntax), into
// `forced`, which is empty. Returns RONDO_SUCCESS, RONDO_ERR_INVALID (a kind or an algorithm that
// does not exist, a size that is none, or a file that cannot be read: one line is logged) or
// RONDO_ERR_NO_MEMORY.
int rondo_algorithms_read(struct rondo_forced *forced);

#endif // RONDO_RUNTIME_API_API_ALGORITHMS_H
