// The key-value store that a launcher offers its processes by PMIx, such as Open MPI and Slurm
// (`srun --mpi=pmix`). The process of rank 0 publishes the id of the job's root there; the others
// find it.
//
//   is_offered -> publish or find -> `done` -> forget
//
// PMIx's library is loaded when a job first uses it, so that a machine without it needs nothing.
// Each call of the library may wait for the launcher, so a separate thread makes them.
#ifndef RONDO_RUNTIME_NET_PMIX_H
#define RONDO_RUNTIME_NET_PMIX_H

#include <stdbool.h>

#include "runtime/net/event_loop.h"
#include <rondo/rondo.h>

struct rondo_pmix;

// True if the launcher has started this process with PMIx, and PMIx's library is here. `get` is
// getenv, or a test's.
bool rondo_pmix_is_offered(char *(*get)(const char *name));

// Called on the control thread once the id is found, or published. If `error` is not null, it says
// why that is impossible.
typedef void (*rondo_pmix_done)(void *arg, const struct rondo_unique_id *id, const char *error);

// Publishes the id, or, if `id` is null, waits for the id that rank 0 publishes. The caller holds a
// reference to `loop` until it has called rondo_pmix_forget. Null without memory or thread.
struct rondo_pmix *rondo_pmix_begin(struct rondo_event_loop *loop, const struct rondo_unique_id *id,
                                    rondo_pmix_done done, void *arg);
// Leaves PMIx; `done` is not called any more. Must be called once, also after `done`. What was
// published stays until the launcher's job ends.
void rondo_pmix_forget(struct rondo_pmix *pmix);

#endif // RONDO_RUNTIME_NET_PMIX_H
