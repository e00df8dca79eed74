#include "adapters/nccl/interface.h"

#include "adapters/nccl/abi.h"

#define NAME_OF(result, name, parameters) "nccl" #name, "pnccl" #name,
static const char *const calls[] = {RONDO_NCCL_CALLS(NAME_OF)};

int rondo_nccl_interface_version(void) { return RONDO_NCCL_VERSION; }

const char *const *rondo_nccl_interface_calls(size_t *count) {
  *count = sizeof calls / sizeof *calls;
  return calls;
}
