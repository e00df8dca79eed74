// The kernels behind daemon/core/move.h on the host, one table for each instruction set.
//
// All tables are compiled from one source (move_kernels.h) and give the same bits; the
// best one that the processor has is chosen at the first call. Internal to daemon/host;
// the level functions are for tests and benchmarks, which compare the tables.
#ifndef RONDO_DAEMON_HOST_MOVE_HOST_H
#define RONDO_DAEMON_HOST_MOVE_HOST_H

#include <stdint.h>

enum rondo_move_level {
  RONDO_MOVE_BASE = 0,   // what the compiler was told to build for
  RONDO_MOVE_AVX2 = 1,   // AVX2 and F16C
  RONDO_MOVE_AVX512 = 2, // AVX-512 F, BW, DQ and VL
  RONDO_MOVE_LEVEL_COUNT = 3
};

// One kernel: `count` elements at any alignment. `argument` is the factor or the divisor
// of struct rondo_reduction; kernels of one operand are given it as `incoming` too.
typedef void rondo_move_kernel(void *dst, const void *local, const void *incoming, uint64_t count,
                               uint64_t argument);

struct rondo_move_table {
  rondo_move_kernel *reduce[12][4];  // [dtype][base]: incoming base local
  rondo_move_kernel *scaled_sum[12]; // [dtype]: incoming + local * factor
  rondo_move_kernel *scale[12];      // [dtype]: local * factor
  rondo_move_kernel *divide[6];      // [integer dtype]: local / divisor
};

extern const struct rondo_move_table rondo_move_table_base;
extern const struct rondo_move_table rondo_move_table_avx2;
extern const struct rondo_move_table rondo_move_table_avx512;

// Nonzero if this build has the level's table and this processor can run it.
int rondo_move_level_supported(int level);

// Makes all later calls use `level`, which must be supported. For tests.
void rondo_move_level_select(int level);

const char *rondo_move_level_name(int level);

#endif // RONDO_DAEMON_HOST_MOVE_HOST_H
