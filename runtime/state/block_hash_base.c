// For the architecture that the compiler was told to build for.
#define RONDO_BLOCK_HASH rondo_block_hash_base
#include "runtime/state/block_hash_variant.h"
