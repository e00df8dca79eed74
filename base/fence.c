#include "base/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

uint32_t rondo_fence_is_lopsided;

static int fence_membarrier(int command) { return (int)syscall(SYS_membarrier, command, 0, 0); }

void rondo_fence_open(void) {
  if (!rondo_load_relaxed_u32(&rondo_fence_is_lopsided) &&
      !fence_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
    rondo_store_relaxed_u32(&rondo_fence_is_lopsided, 1);
}

// A registration lasts for the process, and for its children.
void rondo_fence_heavy(void) {
  rondo_fence_full();
  if (rondo_load_relaxed_u32(&rondo_fence_is_lopsided))
    (void)fence_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
