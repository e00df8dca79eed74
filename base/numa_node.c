#include "base/numa_node.h"

#if defined(RONDO_HAVE_NUMA)

#include <limits.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define MASK_BITS 1024u // nodes that a kernel may have
#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

static bool node_has_several(void) {
  return numa_available() >= 0 && numa_num_configured_nodes() > 1;
}

int rondo_node_here(void) {
  unsigned node = 0;
  if (!node_has_several() || getcpu(NULL, &node))
    return RONDO_NODE_ANY;
  return (int)node;
}

// System calls, because libnuma's functions print where the system refuses.
int rondo_node_prefer(int node) {
  unsigned long mask[MASK_BITS / WORD_BITS] = {0};
  int policy = MPOL_DEFAULT;
  if (node < 0 || (unsigned)node >= MASK_BITS || !node_has_several())
    return 0;
  if (get_mempolicy(&policy, NULL, 0, NULL, 0) || policy != MPOL_DEFAULT)
    return 0;
  mask[(unsigned)node / WORD_BITS] = 1ul << (unsigned)node % WORD_BITS;
  // The kernel uses one bit less than it is told.
  return set_mempolicy(MPOL_PREFERRED, mask, MASK_BITS + 1) == 0;
}

void rondo_node_rest(int preferred) {
  if (preferred)
    (void)set_mempolicy(MPOL_DEFAULT, NULL, 0);
}

void rondo_node_renew(void *memory, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)memory + bytes) / page * page;
  if (begin < end && node_has_several())
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

#else

int rondo_node_here(void) { return RONDO_NODE_ANY; }

int rondo_node_prefer(int node) {
  (void)node;
  return 0;
}

void rondo_node_rest(int preferred) { (void)preferred; }

void rondo_node_renew(void *memory, size_t bytes) { (void)memory, (void)bytes; }

#endif
