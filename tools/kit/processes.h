// The processes of a program that a launcher (torchrun, mpirun, srun …) started, one rank each:
// what they tell each other beside the collectives that the program is about.
//
//   open (null: no launcher, or one process) -> gather, share ... -> close
//
// The processes form a Rondo job of their own, so they reach as far as Rondo does. All ranks make
// the same calls in the same order. The messages are short and not for timing.
#ifndef RONDO_TOOLS_KIT_PROCESSES_H
#define RONDO_TOOLS_KIT_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_kit_processes;

// Joins the processes that the launcher started with this one, as the environment says. `processes`
// is null if this process is alone. From here on all ranks but 0 discard their standard output.
// Waits for the others, at most as long as rondo_init does. Returns an enum rondo_status; a failure
// has been printed on stderr.
int rondo_kit_processes_open(struct rondo_kit_processes **processes);
void rondo_kit_processes_close(struct rondo_kit_processes *processes); // null is allowed

uint32_t rondo_kit_processes_rank(const struct rondo_kit_processes *processes); // of null: 0
uint32_t rondo_kit_processes_count(const struct rondo_kit_processes *processes);
// Cores that the processes may use together, if they are on one machine: a launcher may have bound
// each process to cores of its own. Of null: those of this process.
uint32_t rondo_kit_processes_cores(const struct rondo_kit_processes *processes);

// All-gather: each rank gives `bytes`, and `all` gets those of every rank in rank order. Waits for
// all ranks, and prints a failure on stderr. `mine` may be this rank's part of `all`. `stop` (may
// be null) is polled; once it is true, the others have a few seconds left. Returns an enum
// rondo_status.
int rondo_kit_processes_gather(struct rondo_kit_processes *processes, const void *mine, void *all,
                               size_t bytes, bool (*stop)(void));

// Gives every rank the id of a new job of all these processes.
int rondo_kit_processes_new_id(struct rondo_kit_processes *processes, struct rondo_unique_id *id,
                               bool (*stop)(void));

// Memory that all processes share, zeroed. Null on all ranks if they are on several machines. The
// system frees it after the last process.
void *rondo_kit_processes_share(struct rondo_kit_processes *processes, size_t bytes);

// Whether another process that was started with this one is lost or has left. For a thread that
// waits for that process by other means than the calls above. Any thread.
bool rondo_kit_processes_is_broken(void);

#endif // RONDO_TOOLS_KIT_PROCESSES_H
