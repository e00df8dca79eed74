#include "runtime/state/block_hash.h"

rondo_block_hash *rondo_block_hash_select(void) {
#if defined(RONDO_HAVE_XXHASH) && defined(__x86_64__)
  return __builtin_cpu_supports("avx2") ? rondo_block_hash_avx2 : rondo_block_hash_base;
#elif defined(RONDO_HAVE_XXHASH)
  return rondo_block_hash_base;
#else
  return NULL;
#endif
}
