// Differences between compilers: function qualifiers. One of the three headers (with atomic.h and
// threads.h) that may test which compiler is in use.
#ifndef RONDO_BASE_PLATFORM_H
#define RONDO_BASE_PLATFORM_H

#include "base/threads.h"

// RONDO_FN: a function that both backends share. RONDO_DRIVER_FN: a function that each driver
// provides. RONDO_UNROLL: before a loop whose indices must be compile-time constants.
// RONDO_HAS_TALLIES: 0 on a GPU, whose blocks have no code for tallies
// (daemon/core/block_state_core.h).
#if defined(__CUDACC__)
#define RONDO_FN static __device__ __forceinline__
#define RONDO_DRIVER_FN __device__
#define RONDO_UNROLL _Pragma("unroll")
#define RONDO_HAS_TALLIES 0
#else
#define RONDO_FN static inline
#define RONDO_DRIVER_FN
#define RONDO_UNROLL
#define RONDO_HAS_TALLIES 1
#endif

// Producer and consumer fields live on separate lines of this size: two cache
// lines of the host, because processors prefetch them in pairs.
#define RONDO_LINE_BYTES 128ul

#endif // RONDO_BASE_PLATFORM_H
