// Context handles: an index and a generation, so that a handle kept too long is refused.
#ifndef RONDO_RUNTIME_RANK_HANDLES_H
#define RONDO_RUNTIME_RANK_HANDLES_H

#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_rank;

#define RONDO_MAX_CONTEXTS 4096u

// Makes a handle for a rank. Returns 0 when all are in use.
uint64_t rondo_handle_create(struct rondo_rank *rank);
void rondo_handle_destroy(uint64_t handle);

// Finds the rank of a handle and keeps the rank from being freed until rondo_rank_unpin. `call`
// names the caller in the log. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED (the
// context is being destroyed).
int rondo_rank_pin(struct rondo_context ctx, const char *call, struct rondo_rank **rank);
void rondo_rank_unpin(struct rondo_context ctx);

// NOLINTBEGIN(bugprone-macro-parentheses): `rank` is declared
// Body of a public call: pins `rank`, evaluates `call`, unpins, and returns the status. `name` is
// that of the call in the log.
#define RONDO_RETURN_PINNED(ctx, name, rank, call)                                                 \
  do {                                                                                             \
    struct rondo_rank *rank;                                                                       \
    int pin_status = rondo_rank_pin(ctx, name, &rank);                                             \
    if (pin_status != RONDO_SUCCESS)                                                               \
      return pin_status;                                                                           \
    pin_status = (call);                                                                           \
    rondo_rank_unpin(ctx);                                                                         \
    return pin_status;                                                                             \
  } while (0)
// NOLINTEND(bugprone-macro-parentheses)

// Pins the rank and marks the context as closing. Of concurrent callers one succeeds; the others
// get RONDO_ERR_CLOSED.
int rondo_rank_close(struct rondo_context ctx, struct rondo_rank **rank);
// Counts the calls inside the context, the caller's own included.
uint32_t rondo_rank_users(struct rondo_context ctx);

#endif // RONDO_RUNTIME_RANK_HANDLES_H
