// For AVX2. A variant for AVX-512 was slower on memory that is larger than the caches.
#define RONDO_BLOCK_HASH rondo_block_hash_avx2
#include "runtime/state/block_hash_variant.h"
