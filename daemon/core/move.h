// Functions that copy and reduce elements. Each driver implements them.
//
// The host driver uses vector instructions (daemon/host), the CUDA driver all warps of a block
// except the first (daemon/cuda). Both give the same bits: integers wrap; float16, bfloat16 and
// float8 are widened to float, computed, and rounded once to nearest even;
// daemon/core/convert_core.h has the rules for NaN, zeros and saturation; there is no fused
// multiply-add.
//
// No function waits for another rank, allocates or fails. Buffers have any alignment. `dst` may be
// equal to `local` or to `incoming`, and otherwise overlaps neither.
#ifndef RONDO_DAEMON_CORE_MOVE_H
#define RONDO_DAEMON_CORE_MOVE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "queues/connector_core.h"

// A public reduction as the kernels compute it for one collective. An average is a sum with a
// factor before it (floating types) or a division after it (integers).
enum rondo_reduce_base {
  RONDO_REDUCE_SUM = 0,
  RONDO_REDUCE_PROD = 1,
  RONDO_REDUCE_MAX = 2,
  RONDO_REDUCE_MIN = 3
};

struct rondo_reduction {
  uint8_t dtype;    // enum rondo_dtype
  uint8_t base;     // enum rondo_reduce_base
  uint8_t scale;    // 1: multiply local elements by `factor` first, rounded to dtype
  uint8_t divide;   // 1: integers: divide the result by `divisor` towards zero
  uint32_t divisor; // ranks
  uint64_t factor;  // bits in the compute type: float in the low half, double, or the integer
};
static_assert(sizeof(struct rondo_reduction) == 16, "shared layout");

// Translates a public reduction. Only RONDO_PREMUL_SUM uses `scalar`, which is converted to the
// dtype first.
struct rondo_reduction rondo_reduction_lower(int dtype, int redop, double scalar, uint32_t nranks);

// In all calls `second`, if not null, gets the same result as `dst`; it overlaps nothing else.

// Copies `bytes`; `dst` == `src` is allowed and free, other overlaps are not.
RONDO_DRIVER_FN void rondo_move_copy(void *dst, void *second, const void *src, uint64_t bytes);

// Copies `bytes` to memory that is not read soon, so the copy need not stay in the caches.
RONDO_DRIVER_FN void rondo_move_copy_cold(void *dst, const void *src, uint64_t bytes);

// dst[i] = incoming[i] base scaled(local[i]), for `count` elements. If `final` and r->divide are
// set, the result is divided.
RONDO_DRIVER_FN void rondo_move_reduce(const struct rondo_reduction *r, void *dst, void *second,
                                       const void *local, const void *incoming, uint64_t count,
                                       int final);

// dst[i] = scaled(local[i]). If `final` and r->divide are set, the result is divided. It is used
// for the first send of a scaled reduction, and for groups of one rank.
RONDO_DRIVER_FN void rondo_move_scale(const struct rondo_reduction *r, void *dst, void *second,
                                      const void *local, uint64_t count, int final);

// For messages of float32 elements that are quantised (daemon/core/quantise_core.h); r->base is a
// sum. `quantisation`: enum rondo_quantisation, not NONE. No operand overlaps `packed`, the
// message.

// Computes scaled(local[i]) or, if `incoming` is not null, its value i + scaled(local[i]), and
// quantises that into `packed`. `dst`, if not null, gets what `packed` then stands for; it may be
// equal to `local`. `incoming`: a message.
RONDO_DRIVER_FN void rondo_move_quantise(const struct rondo_reduction *r, int quantisation,
                                         void *packed, void *dst, const void *local,
                                         const void *incoming, uint64_t count);

// dst[i] = value i of `packed`.
RONDO_DRIVER_FN void rondo_move_dequantise(int quantisation, void *dst, const void *packed,
                                           uint64_t count);

// Messages of packets (queues/connector_core.h), whose elements are r->dtype. On a device these two
// may return before the data have been moved. Later moves come after them, in the order of calls.

// Returns when what was called before has been moved: to be called before anyone is told so.
RONDO_DRIVER_FN void rondo_move_finish(void);

// Writes scaled(local[i]) as packets.
RONDO_DRIVER_FN void rondo_move_pack(const struct rondo_reduction *r, struct rondo_packets to,
                                     const void *local, uint64_t count);

// Looks whether the packets have come, a bounded number of times. If all have, dst[i] = their
// element i or, if `local` is not null, that base scaled(local[i]), divided if `final` and
// r->divide are set. Returns false if some have not come; then nothing has changed.
RONDO_DRIVER_FN bool rondo_move_unpack(const struct rondo_reduction *r, void *dst,
                                       struct rondo_packets from, const void *local, uint64_t count,
                                       int final);

#endif // RONDO_DAEMON_CORE_MOVE_H
