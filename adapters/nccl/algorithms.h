// NCCL_ALGO as RONDO_ALGO.
#ifndef RONDO_ADAPTERS_NCCL_ALGORITHMS_H
#define RONDO_ADAPTERS_NCCL_ALGORITHMS_H

#include <stddef.h>

// Names that NCCL_ALGO may hold and Rondo has nothing for, in the order in which they were given.
#define RONDO_NCCL_ALGORITHMS_BYTES 256u

struct rondo_nccl_algorithms {
  char forced[RONDO_NCCL_ALGORITHMS_BYTES];  // a value of RONDO_ALGO; empty: nothing is forced
  char foreign[RONDO_NCCL_ALGORITHMS_BYTES]; // names that mean nothing here, with ", " between
};

// Translates a value such as "ring" or "^tree;allreduce:tree,ring". A function of NCCL that may use
// only its ring, or only its tree, is forced to that; one that may use both is left to Rondo's own
// choice. Returns null, or what is wrong with the value.
const char *rondo_nccl_algorithms_read(const char *value, struct rondo_nccl_algorithms *out);

#endif // RONDO_ADAPTERS_NCCL_ALGORITHMS_H
