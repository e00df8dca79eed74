// The ranks of a program that a launcher (torchrun, mpirun, srun …) started, one a process: what they
// have to say to each other beside the collectives that the program is about.
//
//   open (null: no launcher, or one process) -> gather, share ... -> close
//
// It is a Rondo job of its own, so it reaches as far as Rondo does. All ranks make the same calls in
// the same order. What is said is short and not for timing.
#ifndef RONDO_EXAMPLES_KIT_FLEET_H
#define RONDO_EXAMPLES_KIT_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_kit_fleet;

// Joins the fleet of which this process is one, as its environment says. On all ranks but 0 standard
// output is discarded from here on. Returns an enum rondo_status; what is wrong has been said on
// stderr. `fleet` is null if this process is alone. Waits for the others, at most as long as rondo_init
// gives them.
int rondo_kit_fleet_open(struct rondo_kit_fleet **fleet);
void rondo_kit_fleet_close(struct rondo_kit_fleet *fleet); // null is nothing

uint32_t rondo_kit_fleet_rank(const struct rondo_kit_fleet *fleet);
uint32_t rondo_kit_fleet_count(const struct rondo_kit_fleet *fleet);
// Cores that its processes may use between them, if they are on one machine: a launcher may have bound
// each to its own.
uint32_t rondo_kit_fleet_cores(const struct rondo_kit_fleet *fleet);

// Gives every rank what all have said, in their order: `bytes` each. Waits for all, and says on stderr
// what is wrong if one is lost. `stop` (may be null) is asked now and then; once it is true, the others
// have a few seconds left. Returns an enum rondo_status.
int rondo_kit_fleet_gather(struct rondo_kit_fleet *fleet, const void *mine, void *all, size_t bytes,
                           bool (*stop)(void));

// Gives every rank the identity of a new job of the whole fleet.
int rondo_kit_fleet_new_id(struct rondo_kit_fleet *fleet, struct rondo_unique_id *id,
                           bool (*stop)(void));

// Memory that all see, zeroed; where ranks are on several machines null, on all. It has no name and
// goes with the last process.
void *rondo_kit_fleet_share(struct rondo_kit_fleet *fleet, size_t bytes);

// Whether a rank of this process's fleet, if it has one, is lost or has left. For those who wait for it
// by other means than a call of above. Any thread.
bool rondo_kit_fleet_is_broken(void);

#endif // RONDO_EXAMPLES_KIT_FLEET_H
