// The plan verifier: proves that the plans of a group compute a collective, or names a fault.
//
// It executes the plans of all ranks on symbols instead of data. A symbol is one chunk of one loop
// and the set of ranks whose contributions it holds. Connectors are bounded queues of messages. An
// op receives, computes and sends at once, as the interpreter does. For the given number of slots
// and loops the verifier proves:
//
//   - Every op and every list of peers is well formed, and the peers of two ranks agree.
//   - A loop sends through every connector as often as it receives; all are empty at the end. A
//     message has as many chunks as its receiver takes from it.
//   - No rank waits for ever.
//   - Every result chunk of every rank is written once, and holds each contribution once. FINAL is
//     applied once, to the whole sum. Nothing else is written, and buffers that a rank may leave
//     null are not accessed.
//   - All ranks of an all-reduce get the same bits: every rank's result was reduced in the same
//     order, except that the two operands of a reduction may change places.
//     A chunk that is quantised, once more or in one place alone, has other bits.
//   - A message is taken with the quantisation that it was sent with.
//   - For a barrier instead: no rank ends a loop before it knows, directly or through others, that
//     all ranks have begun the loop.
//   - In place, no chunk of the input is read after the result has overwritten it.
//   - What is read from scratch was written there in the same loop, and read before it is written
//     over. Every chunk of scratch is used, and nothing beyond.
//   - Sends by reference are safe. A slot may hold the address of a place in a user's buffer, which
//     the peer reads when it takes the slot. The place may be written again only if the peer has
//     read it before. Vector clocks in the messages decide this, so it holds for every interleaving
//     and any number of slots, not only for the order that was executed.
//
// Plans are sequential processes with one reader and one writer per queue. So neither the values
// nor a deadlock depend on the order of execution. A seed varies the order all the same, to check
// the verifier itself.
//
// The verifier has no side effects. It is not part of the library: tests and tools link it.
#ifndef RONDO_DAEMON_PLAN_VERIFY_H
#define RONDO_DAEMON_PLAN_VERIFY_H

#include <stdint.h>

#include "daemon/plan/plan.h"
#include "daemon/plan/plan_topology.h"

#define RONDO_PLAN_VERIFY_MAX_RANKS 4096u
// The most ranks if all chunks of a loop are followed and a loop has more than FEW_PARTS.
#define RONDO_PLAN_VERIFY_MAX_PARTS 256u
#define RONDO_PLAN_VERIFY_FEW_PARTS 2u
#define RONDO_PLAN_NOWHERE UINT32_MAX

struct rondo_plan_verify_case {
  int kind;        // enum rondo_kind; those with a part for each rank need chunk_count == nranks
  uint32_t nranks; // 1 to RONDO_PLAN_VERIFY_MAX_RANKS, or RONDO_PLAN_VERIFY_MAX_PARTS
  uint32_t root;   // as in rondo_plan_request
  uint32_t slots;  // of each connector, at least 1
  uint32_t loops;  // that a run makes, at least 1
  int in_place;    // 1: the buffers are in place as rondo_run defines it; not for all-to-all
  uint64_t seed;   // 0: the ranks in turn; else the seed of a random order
  const struct rondo_plan *plans; // `nranks` of them, by position
  // All-to-all-v: entry [from × nranks + to] is the number of loops (at most `loops`) that the part
  // of the pair fills. The pair has a chunk in each of them, and always in the first loop, also
  // where the entry is 0. Null: all loops.
  const uint32_t *pair_loops;
  // If not 0, only chunk `one_chunk` - 1 of each loop is followed, in groups of any size; not of an
  // all-to-all. No chunk depends on another one, so this proves all that is said above of it.
  uint32_t one_chunk;
  const struct rondo_plan_topology *topology; // with which the plans were built, or null
};

// The first fault, and where it is. Fields that do not apply are RONDO_PLAN_NOWHERE.
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
