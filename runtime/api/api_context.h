// Creates contexts, for rondo_init and for tests that step the blocks themselves.
#ifndef RONDO_RUNTIME_API_API_CONTEXT_H
#define RONDO_RUNTIME_API_API_CONTEXT_H

#include "runtime/rank/rank.h"

// As rondo_init. `manual` (may be null): see struct rondo_rank_request.
int rondo_context_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                         const struct rondo_manual *manual);

#endif // RONDO_RUNTIME_API_API_CONTEXT_H
