// The body of a variant of block_hash.h. xxHash is compiled in, not linked, so that the compiler
// uses the instruction set of the source file that includes this.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/state/block_hash.h"

uint64_t RONDO_BLOCK_HASH(const void *bytes, size_t size) { return XXH3_64bits(bytes, size); }
