// Rondo: element types, reductions, kinds of collective, and their limits.
//
// The numbers of types and reductions are those of NCCL, so that a number found
// in an NCCL log means the same here.
#ifndef RONDO_TYPES_H
#define RONDO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// Element types. Sums of the types of 16 and 8 bits are computed in float and
// rounded to the type (to nearest, ties to even) at every hop of the ring.
enum rondo_dtype {
  RONDO_INT8 = 0,
  RONDO_UINT8 = 1,
  RONDO_INT32 = 2,
  RONDO_UINT32 = 3,
  RONDO_INT64 = 4,
  RONDO_UINT64 = 5,
  RONDO_FLOAT16 = 6,
  RONDO_FLOAT32 = 7,
  RONDO_FLOAT64 = 8,
  RONDO_BFLOAT16 = 9,
  RONDO_FLOAT8_E4M3 = 10, // overflow saturates to the largest finite value, 448
  RONDO_FLOAT8_E5M2 = 11, // overflow, infinity included, saturates to 57344
  RONDO_DTYPE_COUNT = 12
};

// Reductions. Integer arithmetic wraps. Minimum and maximum of floating types
// return the other operand when one is NaN.
//
// RONDO_AVG: floating types multiply each rank's input by 1/n before the sum
// (as NCCL does, so that 16-bit sums do not overflow); integers divide the
// wrapped sum by n once at the end, rounding towards zero.
// RONDO_PREMUL_SUM: each rank's input is multiplied by that rank's own scalar
// (rondo_collective_desc.scalar) before the sum.
enum rondo_redop {
  RONDO_SUM = 0,
  RONDO_PROD = 1,
  RONDO_MAX = 2,
  RONDO_MIN = 3,
  RONDO_AVG = 4,
  RONDO_PREMUL_SUM = 5,
  RONDO_REDOP_COUNT = 6
};

// Kinds of collective. `count` means, as in NCCL, for
//   all-reduce, reduce, broadcast: elements of the send and of the receive buffer;
//   all-gather:     elements that each rank sends (the receive buffer holds n × count);
//   reduce-scatter: elements that each rank receives (the send buffer holds n × count);
//   send-recv:      elements that go from the root to the peer;
//   all-to-all:     elements that each rank sends to each rank (both buffers hold n × count);
//   gather:         elements that each rank sends (the root's receive buffer holds n × count);
//   scatter:        elements that each rank receives (the root's send buffer holds n × count).
// All-to-all-v has counts of its own for each pair, and a barrier moves nothing: theirs is 0.
enum rondo_kind {
  RONDO_ALL_REDUCE = 0,
  RONDO_ALL_GATHER = 1,
  RONDO_REDUCE_SCATTER = 2,
  RONDO_REDUCE = 3,
  RONDO_BROADCAST = 4,
  RONDO_SEND_RECV = 5,
  RONDO_ALL_TO_ALL = 6,
  RONDO_ALL_TO_ALL_V = 7,
  RONDO_GATHER = 8,
  RONDO_SCATTER = 9,
  RONDO_BARRIER = 10,
  RONDO_KIND_COUNT = 11
};

enum rondo_backend {
  RONDO_BACKEND_HOST = 0, // the CPU: worker threads of this process
  RONDO_BACKEND_CUDA = 1  // a CUDA device, which ranks may share
};

// How blocks order the collectives in their task queues (the paper, 4.3).
enum rondo_order_policy {
  RONDO_ORDER_FIFO = 0,    // in order of arrival; new entries are fetched when the queue stalls
  RONDO_ORDER_PRIORITY = 1 // higher priority first; new entries are fetched at every step
};

// How long a stuck primitive goes on probing before its collective is preempted.
enum rondo_budget_policy {
  RONDO_BUDGET_ADAPTIVE = 0, // most at the front, less behind, more after each success (4.3)
  RONDO_BUDGET_FIXED = 1,    // front_budget_ns for everybody
  RONDO_BUDGET_NEVER = 2     // never preempt and never leave half-done work. This is how other
                             // libraries behave; it deadlocks on disorder. For comparison only.
};

#define RONDO_MAX_RANKS 4096u     // ranks of one job
#define RONDO_MAX_BLOCKS 64u      // blocks of one daemon
#define RONDO_FOREVER INT64_MAX   // as a timeout: 292 years
#define RONDO_PRIORITY_MIN (-128) // the least urgent
#define RONDO_PRIORITY_MAX 127    // the most urgent

// Bytes of one element, or 0 if `dtype` is no element type. Any thread.
size_t rondo_dtype_bytes(int dtype);

// Lower-case names such as "float32", "premul_sum", "all_reduce"; "unknown" for
// anything else. Never null; any thread.
const char *rondo_dtype_name(int dtype);
const char *rondo_redop_name(int redop);
const char *rondo_kind_name(int kind);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_TYPES_H
