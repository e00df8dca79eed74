// Hooks of the explorer (tests/explore), a test that runs interleavings of threads chosen by a
// seed. Empty in a build without RONDO_EXPLORE.
//
// RONDO_POINT(name): the explorer may run another thread here. It is between two accesses whose
// order matters, and no lock is held that a block step takes. RONDO_POINT_IN_PAIR: such a place
// before a pair of words is stored; the explorer may store one of the two first.
// RONDO_FAULT(name): true if a test has switched that fault on, to show that it finds the fault. A
// kernel compiled with RONDO_FAULT_IN_TEXT has all faults, and its PTX says which one is on.
//
// RONDO_DELAYED(publish or consume, endpoint): true if the schedule simulator (sim/schedule, built
// with RONDO_SIMULATE) makes the slot or the credit visible itself, when it arrives in virtual
// time. RONDO_ONE_THREAD: 1 there, because one thread runs all blocks: it sets the ready flag of
// each collective whose wait has ended, so none gets lost, and nothing needs to be atomic.
// RONDO_STORE_READY(block, index, bits) and RONDO_TAKE_FLAGS(block) do there what their callers do
// elsewhere. RONDO_LOOK_ROUND(block): the place that a look round would find, or RONDO_NOWHERE,
// after doing what the round would do; or RONDO_NOT_LOOKED, and the block looks.
#ifndef RONDO_BASE_EXPLORE_H
#define RONDO_BASE_EXPLORE_H

enum rondo_fault {
  RONDO_FAULT_NONE = 0,
  RONDO_FAULT_CONTEXT_NOT_SAVED,    // an evicted context loses its dynamic part
  RONDO_FAULT_CREDIT_TWICE,         // a consumed slot is credited twice
  RONDO_FAULT_LAP_MARK_OFF,         // the receiver accepts the mark of the previous lap
  RONDO_FAULT_BUDGET_NEVER_ENDS,    // a stuck collective is never preempted
  RONDO_FAULT_QUIT_DROPS_WORK,      // a quitting block forgets its task queue
  RONDO_FAULT_QUIT_HOLDS_HALF_DONE, // a block with half-done work never quits (DFCCL, defect 1)
  RONDO_FAULT_QUIT_DOES_NOT_SAVE,   // a quitting block does not save its loaded context
  RONDO_FAULT_SQE_BEFORE_CALLBACK,  // the SQE is visible before the callback record is in place
  RONDO_FAULT_PUBLISH_BEFORE_DATA,  // a slot's mark is visible before its data (a missing release)
  RONDO_FAULT_CREDIT_BEFORE_READ,   // a slot is credited before its data are read
  RONDO_FAULT_NO_DRAIN,             // a run ends while a peer may still read its buffers
  RONDO_FAULT_STALE_SLOT,           // an active slot is used after its collective was replaced
  RONDO_FAULT_CQE_EARLY,            // the first block to finish posts the completion for all
  RONDO_FAULT_SQ_OVERRUN,           // the producer ignores that the SQ is full
  RONDO_FAULT_LOST_WAKEUP,          // unfinished work does not start the daemon again
  RONDO_FAULT_START_AT_FRONT,       // a start forgets how far a launch too short for a pass came
  RONDO_FAULT_OVERFLOW_PASSED,      // a run is pushed before those that wait for room in the SQ
  RONDO_FAULT_SAVE_AFTER_POST,      // a context is written once its completion is visible
  RONDO_FAULT_SHUT_UNSEEN,          // a reference is read though its producer's run has failed
  RONDO_FAULT_READ_NOT_VALIDATED,   // data read by a revoked reference are trusted
  RONDO_FAULT_DOORBELL_IGNORED,     // a run begins before the stream that it is tied to has rung
  RONDO_FAULT_STREAM_EARLY,         // the first block to end a run lets its stream go on
  RONDO_FAULT_OWED_IGNORED,         // connectors are reused while a peer may still write to them
  RONDO_FAULT_FAILURE_UNTOLD, // a member that closes its gate does not tell the others of the group
  RONDO_FAULT_EVEN_FORGOTTEN, // one process forgets how often an id was used, and others do not
  RONDO_FAULT_LAST_PEER_ALONE,    // a run ends when one of the peers that read its buffers is done
  RONDO_FAULT_JOURNAL_UNREAD,     // calls of communicators are recorded, and not compared
  RONDO_FAULT_JOURNAL_SKIPS,      // a rank that is ahead overwrites calls that were not compared
  RONDO_FAULT_COMM_FAILS_ALONE,   // a failed communicator does not tell its collectives
  RONDO_FAULT_EVICTS_IDLE,        // a cache evicts by what has ended
  RONDO_FAULT_EMPTY_UNTOLD,       // an empty part of an all-to-all-v sends no slot
  RONDO_FAULT_COUNTS_UNCHECKED,   // a part of another size than expected is taken
  RONDO_FAULT_PARTS_KEPT,         // a run of an all-to-all-v has the parts of the run before
  RONDO_FAULT_CLOSE_UNCOUNTED,    // a link is closed before all that was sent has arrived
  RONDO_FAULT_MIRROR_EARLY,       // a slot is reused while the proxy sends from it
  RONDO_FAULT_PIECES_EARLY,       // a slot that comes in pieces is visible before the last one
  RONDO_FAULT_LOSS_UNTOLD,        // a lost process is taken for one that has left
  RONDO_FAULT_LINK_SET_ASLEEP,    // sleeping links are not woken by a run
  RONDO_FAULT_CACHE_LOOSE,        // a call takes a registration with another root
  RONDO_FAULT_JOURNAL_UNSENT,     // calls are not sent to processes without shared memory
  RONDO_FAULT_WAIT_STALE,         // a collective seems to wait for what its last run waited for
  RONDO_FAULT_LOOK_FROM_FRONT,    // a look round begins at the front of the task queue
  RONDO_FAULT_SPINS_IN_VAIN,      // a stuck collective spends its budget while another is ready
  RONDO_FAULT_FLAG_LOST,          // a peer that has moved does not set the ready flag
  RONDO_FAULT_FLAG_BEFORE_DATA,   // the ready flag is set before the data is visible
  RONDO_FAULT_FLAG_OF_OTHER,      // a connector has the ready flag of another collective
  RONDO_FAULT_CQE_HALF_READ,      // a completion is taken when only its first half is visible
  RONDO_FAULT_PACKETS_UNNUMBERED, // the packets of a slot have the same mark in each lap
  RONDO_FAULT_PACKETS_HALF_READ,  // a packet is taken when only its first half is visible
  RONDO_FAULT_PACKETS_EARLY,      // packets are added up before all of their message have come
  RONDO_FAULT_MOVES_UNFINISHED,   // a run ends while a device's movers still move its data
  RONDO_FAULT_OFFERS_UNCHECKED,   // connectors are bound though their rank has registered otherwise
  RONDO_FAULT_LENT_EARLY,         // memory for payload is taken back while a run is outstanding
  // Of a device's mirror (daemon/core/mirror_core.h).
  RONDO_FAULT_EXIT_NOT_MIRRORED, // the exit word is not copied
  RONDO_FAULT_GATE_NOT_MIRRORED, // gates are not copied
  RONDO_FAULT_MARK_BEFORE_ENTRY, // the mark of an inbox is visible before its entry
  // Of the agreement on registrations (tests/explore/agree.c).
  RONDO_FAULT_AGREED_EARLY,      // the root takes a subtree that has begun to register for complete
  RONDO_FAULT_OVER_EARLY,        // a process does not wait until its children have deregistered
  RONDO_FAULT_LIMIT_UNTOLD,      // nobody tells after how many runs a rank has deregistered
  RONDO_FAULT_MISMATCH_UNSEEN,   // descriptors are not compared
  RONDO_FAULT_GROUPS_UNCOMPARED, // the groups of one id are not compared
  RONDO_FAULT_GONE_UNNOTICED,    // a rank registers although a member of its group has gone
  RONDO_FAULT_LEAVES_SILENTLY,   // a rank leaves and does not tell that it will not register
  RONDO_FAULT_LEFT_UNNOTICED,    // nobody minds that a process leaves before the group has agreed
  RONDO_FAULT_ORPHANS_FORGOTTEN, // the children of a process that left get no new parent
  RONDO_FAULT_FORGOTTEN_EARLY,   // a failed entry is dropped while a neighbour may send more of it
  RONDO_FAULT_PROPOSAL_KEPT,     // a process that has proposed itself does not tell its children
  // Of the control plane (tests/explore/members.c).
  RONDO_FAULT_MINORITY_OPENS,       // who leads a vote counts nobody's vote but its own
  RONDO_FAULT_OLD_EPOCH_TAKEN,      // messages of older epochs are read
  RONDO_FAULT_BALLOT_IGNORED,       // a keeper accepts a lower ballot than it has promised
  RONDO_FAULT_ACCEPTED_FORGOTTEN,   // who takes over does not ask what was accepted
  RONDO_FAULT_RECORD_AFTER_REPLY,   // a keeper replies before its record is kept
  RONDO_FAULT_REMOVALS_UNORDERED,   // a process applies removals in another order
  RONDO_FAULT_LATE_OBSERVER_COUNTS, // an observer that was stopped takes others for silent
  RONDO_FAULT_ONE_OBSERVER,         // one observer decides that a process is silent
  RONDO_FAULT_REPORT_ONCE,          // a report is not sent again when its way changes
  // Of jobs whose members change (tests/explore/test_grow.c).
  RONDO_FAULT_CANCELLED_LATE,      // a gathering is cancelled though its roster is made
  RONDO_FAULT_CANCEL_FORGOTTEN,    // a cancelled gathering takes those that come late
  RONDO_FAULT_NEWCOMERS_FORGOTTEN, // newcomers that were admitted in vain do not wait again
  RONDO_FAULT_VOTES_UNCOMPARED,    // ballots are not compared
  // Of runs that are taken up again after a loss (tests/explore/test_retry.c).
  RONDO_FAULT_RETRY_COMMITS_EARLY,  // a member commits before all have staged the run
  RONDO_FAULT_RETRY_FORGETS_STAGED, // a loss makes a member forget what it has staged
  RONDO_FAULT_RETRY_IGNORES_FLUSH,  // a member does again what another one has committed
  RONDO_FAULT_COUNT
};

#if defined(RONDO_EXPLORE)

#include <stdint.h>

extern int rondo_fault_planted;
void rondo_explore_point(const char *name);
void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first, uint64_t second);

#define RONDO_POINT(name) rondo_explore_point(name)
#define RONDO_POINT_IN_PAIR(name, pair, first, second)                                             \
  rondo_explore_point_in_pair(name, pair, first, second)
#define RONDO_FAULT(name) (rondo_fault_planted == RONDO_FAULT_##name)

#else

#define RONDO_POINT(name) ((void)0)
#define RONDO_POINT_IN_PAIR(name, pair, first, second) ((void)0)
#if defined(RONDO_FAULT_IN_TEXT)
// Tests replace the number in the PTX.
static __device__ __forceinline__ int rondo_fault_in_text(void) {
  int fault;
  asm("mov.u32 %0, 424242;" : "=r"(fault));
  return fault;
}
#define RONDO_FAULT(name) (rondo_fault_in_text() == RONDO_FAULT_##name)
#else
#define RONDO_FAULT(name) 0
#endif

#endif
#if defined(RONDO_SIMULATE)

#include <stdbool.h>
#include <stdint.h>

struct rondo_block;
struct rondo_endpoint;
bool rondo_simulate_publish(const struct rondo_endpoint *e);
bool rondo_simulate_consume(const struct rondo_endpoint *e);
uint32_t rondo_simulate_look_round(struct rondo_block *b);
void rondo_simulate_store_ready(struct rondo_block *b, uint32_t index, uint8_t bits);
bool rondo_simulate_take_flags(struct rondo_block *b);

#define RONDO_DELAYED(act, endpoint) rondo_simulate_##act(endpoint)
#define RONDO_ONE_THREAD 1
#define RONDO_LOOK_ROUND(block) rondo_simulate_look_round(block)
#define RONDO_STORE_READY(block, index, bits) rondo_simulate_store_ready(block, index, bits)
#define RONDO_TAKE_FLAGS(block) rondo_simulate_take_flags(block)

#else
#define RONDO_DELAYED(act, endpoint) 0
#define RONDO_ONE_THREAD 0
#define RONDO_LOOK_ROUND(block) RONDO_NOT_LOOKED
#define RONDO_STORE_READY(block, index, bits) (*rondo_block_ready(block, index) = (bits))
#define RONDO_TAKE_FLAGS(block) false
#endif

#endif // RONDO_BASE_EXPLORE_H
