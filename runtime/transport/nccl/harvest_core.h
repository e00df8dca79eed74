// What harvest.cu is told, and where it leaves what it has found.
#ifndef RONDO_RUNTIME_TRANSPORT_NCCL_HARVEST_CORE_H
#define RONDO_RUNTIME_TRANSPORT_NCCL_HARVEST_CORE_H

#include <stdint.h>

#define RONDO_NCCL_HARVEST "rondo_nccl_harvest"

// One member's memory, as this member's device has it.
struct rondo_nccl_found {
  uint64_t address;
  uint64_t mark; // what lies there
};

struct rondo_nccl_harvest {
  uint64_t window; // an ncclWindow_t
  uint64_t found;  // the address of `count` times struct rondo_nccl_found
  uint32_t count;
  uint32_t zero;
};

#endif // RONDO_RUNTIME_TRANSPORT_NCCL_HARVEST_CORE_H
