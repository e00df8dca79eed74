// Inputs whose reduction is known exactly, for every element type, every reduction and any number
// of ranks. Rank r contributes a small number at index i, every partial result is exact in the
// type, and the result has a closed form. A contribution that is lost, doubled, misplaced or left
// over from an earlier round changes the result.
//
// One exception: an average of floating types over a number of ranks that is no power of two
// multiplies by an inexact 1/n, so a few units in the last place are allowed. Ranks number 1,024 at
// most: averages over more would not be normal numbers in all types. Another exception: if messages
// are quantised, the error may be that of docs/numerics.md. Contributions differ by more from each
// other as long as there are few ranks.
#ifndef RONDO_TOOLS_KIT_VALUES_H
#define RONDO_TOOLS_KIT_VALUES_H

#include <stdint.h>

struct rondo_kit_values {
  int dtype; // enum rondo_dtype
  int redop; // enum rondo_redop
  uint32_t rank_count;
  uint64_t round;   // each round has other values
  int quantisation; // enum rondo_quantisation
};

// Given as `rank`: the reduction over all ranks.
#define RONDO_KIT_REDUCED UINT32_MAX

// The factor that `rank` must give as rondo_collective_desc.scalar.
double rondo_kit_values_scalar(const struct rondo_kit_values *values, uint32_t rank);

// Writes the elements from `first` to `first + count - 1` that `rank` contributes, or of the
// reduction.
void rondo_kit_values_fill(const struct rondo_kit_values *values, uint32_t rank, void *out,
                           uint64_t first, uint64_t count);

// Elements of `got` that differ from those of rondo_kit_values_fill.
uint64_t rondo_kit_values_wrong(const struct rondo_kit_values *values, uint32_t rank,
                                const void *got, uint64_t first, uint64_t count);

#endif // RONDO_TOOLS_KIT_VALUES_H
