// The plan verifier: proves, or refutes by naming a fault, that the plans of a group
// compute a collective.
//
// It executes the plans of all ranks on symbols instead of data. A symbol is one chunk of
// one loop and the set of ranks whose contributions it holds; connectors are bounded
// queues; an op takes its slot, its room and its effect at once, as the interpreter does.
// What is shown, for the given number of slots and loops:
//
//   - every op and every peer list is well formed, and the peers of two ranks agree;
//   - a loop sends through every connector as often as it receives, and all are empty at the end;
//   - nobody waits for ever;
//   - every result chunk of every rank is written, once, and holds each contribution exactly
//     once, with the last step of the reduction (FINAL) applied once, to the whole sum; nothing
//     else is written, and buffers that a rank may leave null are not touched;
//   - of a barrier, instead: nobody ends a loop before it has heard, directly or through others,
//     that everybody has begun it;
//   - no chunk of the input is read after the result was written over it (in place);
//   - *reference sends* are safe: a send of what lies in a user's buffer may pass its address,
//     which the peer reads when it takes the slot. So the place may be written again
//     in the run only if the peer's reading happened before. That is decided by vector clocks
//     carried along the messages, so it holds for every interleaving and any number of
//     slots, not only for the order that was executed.
//
// A plan is a network of sequential processes with one reader and one writer per queue, so
// neither the values nor a deadlock depend on the order of execution; orders can be varied
// all the same, which checks this verifier.
//
// Pure, apart from the memory that a call allocates and frees; any thread. Not part of the
// library: tests and tools link it.
#ifndef RONDO_DAEMON_PLAN_VERIFY_H
#define RONDO_DAEMON_PLAN_VERIFY_H

#include <stdint.h>

#include "daemon/plan/plan.h"

#define RONDO_PLAN_VERIFY_MAX_RANKS 256u
#define RONDO_PLAN_NOWHERE UINT32_MAX

struct rondo_plan_verify_case {
  int kind;        // enum rondo_kind; those with a part for each rank need chunk_count == nranks
  uint32_t nranks; // 1 to RONDO_PLAN_VERIFY_MAX_RANKS
  uint32_t root;   // as in rondo_plan_request
  uint32_t slots;  // of each connector, at least 1
  uint32_t loops;  // that a run makes, at least 1
  int in_place;    // 1: send == recv; all-gather send == recv + rank × count;
                   // reduce-scatter recv == send + rank × count; a root of gather as
                   // all-gather, of scatter as reduce-scatter; not for all-to-all
  uint64_t seed;   // 0: the ranks in turn; else the seed of a random order
  const struct rondo_plan *plans; // `nranks` of them, by position
  // All-to-all-v: [from × nranks + to], at most `loops`, is how many loops have a chunk for that
  // pair; null: all.
  const uint32_t *pair_loops;
};

// Where the first fault is and what it is; fields that do not apply are RONDO_PLAN_NOWHERE.
struct rondo_plan_verify_report {
  uint32_t rank, op, chunk;
  char message[176]; // one line: "rank 2, op 1, chunk 3: ..."; empty without a fault
};

// Returns RONDO_SUCCESS; RONDO_ERR_INTERNAL (a plan is faulty: see `report`);
// RONDO_ERR_INVALID (a field of the case is out of range); RONDO_ERR_NO_MEMORY.
// `report` is always written.
int rondo_plan_verify(const struct rondo_plan_verify_case *what,
                      struct rondo_plan_verify_report *report);

#endif // RONDO_DAEMON_PLAN_VERIFY_H
