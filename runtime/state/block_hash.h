// The hash of a block: XXH3 of xxHash, 64 bits, without seed and secret. All variants return the
// same value; each is compiled for another instruction set.
#ifndef RONDO_RUNTIME_STATE_BLOCK_HASH_H
#define RONDO_RUNTIME_STATE_BLOCK_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t rondo_block_hash(const void *bytes, size_t size);

// The fastest variant that this processor can run; null: the library was built without xxHash.
rondo_block_hash *rondo_block_hash_select(void);

// The variants, for tests and benchmarks. They exist only in a build with xxHash, and for AVX2 only
// on x86-64.
rondo_block_hash rondo_block_hash_base;
rondo_block_hash rondo_block_hash_avx2;

#endif // RONDO_RUNTIME_STATE_BLOCK_HASH_H
