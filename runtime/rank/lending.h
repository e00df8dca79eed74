// Payload memory that a rank lends to its collectives.
//
// Between processes, and where a slot holds a sum, a connector needs memory for the payload of each
// slot. The first connectors of a job have such memory; those after them have none, so that many
// collectives take little. A rank then lends it: a collective gets the payload memory of its send
// connectors when it has a run outstanding, and gives it back when its last run has ended. The
// producer writes the payload there and the slot refers to it, so that a run ends only when its
// peers have read it. Collectives that run in turn use the same memory, which stays in the caches.
//
// Scratch of more than 1 KiB is lent in the same way, in front of the payload memory.
//
// Nothing waits for memory that is lent: if the rank has no free piece, it allocates one. If there
// is no memory, or RONDO_CONFIG.connector_bytes is used up, the run is refused.
//
// The rank's lock is held.
#ifndef RONDO_RUNTIME_RANK_LENDING_H
#define RONDO_RUNTIME_RANK_LENDING_H

struct rondo_coll;
struct rondo_rank;

// Lends a collective that borrows its memory, unless it has it. A run is about to be submitted.
// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_coll_borrow(struct rondo_rank *rank, struct rondo_coll *coll);

// Lends a collective its memory: one with outstanding runs, whose plan is made only now. It has
// none yet. Returns as rondo_coll_borrow.
int rondo_coll_lend(struct rondo_rank *rank, struct rondo_coll *coll);

// Takes back what is lent to a collective without outstanding runs; nothing if nothing is.
void rondo_coll_return(struct rondo_rank *rank, struct rondo_coll *coll);

// Frees all pieces. Nothing is lent.
void rondo_lending_fini(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_LENDING_H
