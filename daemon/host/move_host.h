// The kernels of daemon/core/move.h on the host: one table for each instruction set.
//
// All tables are compiled from one source (move_kernels.h) and give the same bits; the first call
// chooses the best table that the processor can run. Internal to daemon/host; the level functions
// are for tests and benchmarks.
#ifndef RONDO_DAEMON_HOST_MOVE_HOST_H
#define RONDO_DAEMON_HOST_MOVE_HOST_H

#include <stdbool.h>
#include <stdint.h>

enum rondo_move_level {
  RONDO_MOVE_BASE = 0,   // the compiler's target
  RONDO_MOVE_AVX2 = 1,   // AVX2 and F16C
  RONDO_MOVE_AVX512 = 2, // AVX-512 F, BW, DQ and VL
  RONDO_MOVE_LEVEL_COUNT = 3
};

// One kernel: `count` elements at any alignment. `argument` is the factor or the divisor of struct
// rondo_reduction; a kernel of one operand gets it as `incoming` too.
typedef void rondo_move_kernel(void *dst, const void *local, const void *incoming, uint64_t count,
                               uint64_t argument);

typedef void rondo_move_repack(void *dst, const void *src, uint64_t count);

struct rondo_move_table {
  rondo_move_kernel *reduce[12][4];  // [dtype][base]: incoming base local
  rondo_move_kernel *scaled_sum[12]; // [dtype]: incoming + local * factor
  rondo_move_kernel *scale[12];      // [dtype]: local * factor
  rondo_move_kernel *divide[6];      // [integer dtype]: local / divisor
  // [enum rondo_quantisation - 1]: floats to a message, and back
  rondo_move_repack *quantise[2], *dequantise[2];
};

extern const struct rondo_move_table rondo_move_table_base;
extern const struct rondo_move_table rondo_move_table_avx2;
extern const struct rondo_move_table rondo_move_table_avx512;

// True if this build has the level's table and this processor can run it.
bool rondo_move_level_is_supported(int level);

// Makes all later calls use `level`, which must be supported. For tests.
void rondo_move_level_select(int level);

const char *rondo_move_level_name(int level);

#endif // RONDO_DAEMON_HOST_MOVE_HOST_H
