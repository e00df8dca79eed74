// Inputs whose reduction is known exactly: for every element type, every
// reduction and any number of ranks, what rank r contributes at index i is a
// small number, every partial result on the way is exact in the type, and the
// result has a closed form. A contribution that is lost, doubled, misplaced or
// left over from an earlier round changes it.
//
// One exception: the average of floating types over a number of ranks that is
// no power of two multiplies by an inexact 1/n; there a few units in the last place are allowed.
#ifndef RONDO_EXAMPLES_KIT_VALUES_H
#define RONDO_EXAMPLES_KIT_VALUES_H

#include <stdint.h>

struct rondo_kit_values {
  int dtype; // enum rondo_dtype
  int redop; // enum rondo_redop
  uint32_t rank_count;
  uint64_t round; // another round, other values
};

// As a rank: the reduction over all ranks.
#define RONDO_KIT_REDUCED UINT32_MAX

// The factor that `rank` must give as rondo_collective_desc.scalar.
double rondo_kit_values_scalar(const struct rondo_kit_values *values, uint32_t rank);

// Writes elements first … first+count-1 of what `rank` contributes, or of the reduction.
void rondo_kit_values_fill(const struct rondo_kit_values *values, uint32_t rank, void *out,
                           uint64_t first, uint64_t count);

// The number of elements in `got` that differ from what rondo_kit_values_fill would write.
uint64_t rondo_kit_values_wrong(const struct rondo_kit_values *values, uint32_t rank,
                                const void *got, uint64_t first, uint64_t count);

#endif // RONDO_EXAMPLES_KIT_VALUES_H
