// Helpers for arrays: orders for qsort and bsearch, and tables of "none".
#ifndef RONDO_SIM_ANALYSE_ARRAYS_H
#define RONDO_SIM_ANALYSE_ARRAYS_H

#include <stdint.h>
#include <string.h>

#include "sim/common/text.h"

// Compare two items by the number that each begins with.
static inline int rondo_analyse_compare_u32(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static inline int rondo_analyse_compare_u64(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

// A new array of `count` numbers UINT32_MAX, which the caller frees.
static inline uint32_t *rondo_analyse_nones(size_t count) {
  return memset(rondo_sim_alloc(count * sizeof(uint32_t)), 0xff, count * sizeof(uint32_t));
}

#endif // RONDO_SIM_ANALYSE_ARRAYS_H
