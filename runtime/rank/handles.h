// Context handles: an index and a generation, so that a handle kept too long is refused.
#ifndef RONDO_RUNTIME_RANK_HANDLES_H
#define RONDO_RUNTIME_RANK_HANDLES_H

#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_rank;

#define RONDO_MAX_CONTEXTS 4096u

// Gives a rank a handle, or takes it back. 0 when all are in use.
uint64_t rondo_handle_create(struct rondo_rank *rank);
void rondo_handle_destroy(uint64_t handle);

// Finds the rank of a handle and keeps it from being freed until rondo_rank_unpin. Refuses a context
// that is being destroyed. `call` names the caller in the log. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN
// or RONDO_ERR_CLOSED.
int rondo_rank_pin(struct rondo_context ctx, const char *call, struct rondo_rank **rank);
void rondo_rank_unpin(struct rondo_context ctx);

// For rondo_destroy: pins the rank and marks the context as closing. Only one caller succeeds.
int rondo_rank_close(struct rondo_context ctx, struct rondo_rank **rank);
// Calls inside the context, the caller's own included.
uint32_t rondo_rank_users(struct rondo_context ctx);

#endif // RONDO_RUNTIME_RANK_HANDLES_H
