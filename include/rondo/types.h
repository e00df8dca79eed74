// Rondo: element types, reductions, kinds of collective, policies and limits.
//
// Types and reductions have the numbers that NCCL gives them. A number in an NCCL log therefore
// means the same here.
#ifndef RONDO_TYPES_H
#define RONDO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// Element types. Floating types of 16 and 8 bits are reduced in float. Each rank that adds its
// input rounds the result to the type, to nearest, ties to even. docs/numerics.md has the details.
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

// Reductions. Integer arithmetic wraps. A floating minimum or maximum ignores a NaN if the other
// operand is a number.
//
// RONDO_AVG of floating types: each rank's input is multiplied by 1/n before the sum, as in NCCL.
// Sums of 16 bits therefore do not overflow. RONDO_AVG of integers: the wrapped sum is divided by n
// once, at the end, and rounded towards zero.
//
// RONDO_PREMUL_SUM: each rank's input is multiplied by that rank's own factor before the sum. The
// factor is the field `scalar` of struct rondo_collective_desc.
enum rondo_redop {
  RONDO_SUM = 0,
  RONDO_PROD = 1,
  RONDO_MAX = 2,
  RONDO_MIN = 3,
  RONDO_AVG = 4,
  RONDO_PREMUL_SUM = 5,
  RONDO_REDOP_COUNT = 6
};

// Kinds of collective. `count` has the same meaning as in NCCL; n is the number of ranks:
//   all-reduce, reduce, broadcast: elements of the send buffer and of the receive buffer
//   all-gather:      elements that each rank sends; the receive buffer holds n × count
//   reduce-scatter:  elements that each rank receives; the send buffer holds n × count
//   send-recv:       elements that the sender sends to the receiver
//   all-to-all:      elements that each rank sends to each rank; both buffers hold n × count
//   gather:          elements that each rank sends; the root's receive buffer holds n × count
//   scatter:         elements that each rank receives; the root's send buffer holds n × count
//   all-to-all-v:    0; each pair of ranks has a count of its own
//   barrier:         0; it moves no data
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

// What becomes of a run that meets the death of a member.
enum rondo_on_loss {
  RONDO_ON_LOSS_FAIL = 0,  // it ends with RONDO_ERR_PEER; its send buffer is intact
  RONDO_ON_LOSS_RETRY = 1, // the members that are left do it again (rondo_run_members)
  RONDO_ON_LOSS_COUNT = 2
};

// What stands for a float32 element while an all-reduce sends it. 256 elements, or what is left of
// a chunk, share a scale, so 260 bytes travel where 1,024 would. docs/numerics.md has the error.
enum rondo_quantisation {
  RONDO_QUANTISE_NONE = 0, // the element itself
  RONDO_QUANTISE_INT8 = 1,
  RONDO_QUANTISE_FLOAT8_E4M3 = 2,
  RONDO_QUANTISATION_COUNT = 3
};

enum rondo_backend {
  RONDO_BACKEND_HOST = 0, // the CPU: worker threads of this process
  RONDO_BACKEND_CUDA = 1  // a CUDA device; several ranks may share one
};

// Order of the collectives in a block's task queue (the paper, 4.3).
enum rondo_order_policy {
  RONDO_ORDER_FIFO = 0,    // order of arrival; the block looks for new runs when it is stuck
  RONDO_ORDER_PRIORITY = 1 // higher priority first; the block looks for new runs at every step
};

// How long a block retries a stuck collective before it works on another one.
enum rondo_budget_policy {
  RONDO_BUDGET_ADAPTIVE = 0, // longest for the first in the queue, shorter for each later one; each
                             // progress makes it longer (the paper, 4.3)
  RONDO_BUDGET_FIXED = 1,    // front_budget_ns for all
  RONDO_BUDGET_NEVER = 2     // for ever, as other libraries do. Deadlocks if ranks submit runs in
                             // different orders. For comparison only.
};

#define RONDO_MAX_RANKS 131072u   // ranks of one job
#define RONDO_MAX_BLOCKS 64u      // blocks of one daemon
#define RONDO_FOREVER INT64_MAX   // as a timeout: no limit (292 years)
#define RONDO_PRIORITY_MIN (-128) // the least urgent
#define RONDO_PRIORITY_MAX 127    // the most urgent

// Returns the bytes of one element; 0 if `dtype` is no element type.
size_t rondo_dtype_bytes(int dtype);

// Return lower-case names, such as "float32", "premul_sum", "all_reduce" and "none"; "unknown" for
// any other number. Never null.
const char *rondo_dtype_name(int dtype);
const char *rondo_redop_name(int redop);
const char *rondo_kind_name(int kind);
const char *rondo_quantisation_name(int quantisation);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_TYPES_H
