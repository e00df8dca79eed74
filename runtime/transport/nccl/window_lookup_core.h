// The argument and the results of the kernel in window_lookup.cu.
#ifndef RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_LOOKUP_CORE_H
#define RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_LOOKUP_CORE_H

#include <stdint.h>

#define RONDO_NCCL_LOOKUP "rondo_nccl_lookup"

// One member's memory, as mapped on this member's device.
struct rondo_nccl_found {
  uint64_t address;
  uint64_t mark; // the first word there
};

struct rondo_nccl_lookup {
  uint64_t window; // an ncclWindow_t
  uint64_t found;  // the address of `count` times struct rondo_nccl_found
  uint32_t count;
  uint32_t zero;
};

#endif // RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_LOOKUP_CORE_H
