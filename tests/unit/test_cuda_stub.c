// Every call of the table exists in the driver, with the signature of cuda.h: this program is
// linked with the stub of the driver that the toolkit has, and runs with the stand-in of
// tests/support/fake_cuda.
#include <stdio.h>

#include "daemon/cuda/cuda_api.h"

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name takes none
#define LINKED(member, symbol) .member = symbol,

static const struct rondo_cuda_api linked = {RONDO_CUDA_ENTRIES(LINKED)};

int main(void) {
  int version = 0;
  if (linked.driver_get_version(&version) != CUDA_SUCCESS || version < 12080)
    return 1;
  printf("%zu calls, driver %d\n", sizeof linked / sizeof(void *), version);
  return 0;
}
