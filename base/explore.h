// Hooks of the explorer (tests/explore), a test that runs interleavings of threads chosen by a
// seed. Empty in a build without RONDO_EXPLORE.
//
// RONDO_POINT(name): the explorer may run another thread here. It is between two accesses whose
// order matters, and no lock is held that a block step takes. RONDO_FAULT(name): true if the
// explorer has switched that fault on, to show that its tests find the fault.
#ifndef RONDO_BASE_EXPLORE_H
#define RONDO_BASE_EXPLORE_H

#if defined(RONDO_EXPLORE)

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
  RONDO_FAULT_OVERFLOW_KEPT,        // a deregistered collective stays on the overflow list
  RONDO_FAULT_SAVE_AFTER_POST,      // a context is written once its completion is visible
  RONDO_FAULT_SHUT_UNSEEN,          // a reference is read though its producer's run has failed
  RONDO_FAULT_READ_NOT_VALIDATED,   // data read by a revoked reference are trusted
  RONDO_FAULT_DOORBELL_IGNORED,     // a run begins before the stream that it is tied to has rung
  RONDO_FAULT_STREAM_EARLY,         // the first block to end a run lets its stream go on
  RONDO_FAULT_OWED_IGNORED,         // connectors are reused while a peer may still write to them
  RONDO_FAULT_FAILURE_UNTOLD, // a member that closes its gate does not tell the others of the group
  RONDO_FAULT_EVEN_FORGOTTEN, // one process forgets how often an id was used, and others do not
  RONDO_FAULT_LAST_PEER_ALONE,  // a run ends when one of the peers that read its buffers is done
  RONDO_FAULT_JOURNAL_UNREAD,   // calls of communicators are recorded, and not compared
  RONDO_FAULT_JOURNAL_SKIPS,    // a rank that is ahead overwrites calls that were not compared
  RONDO_FAULT_COMM_FAILS_ALONE, // a failed communicator does not tell its collectives
  RONDO_FAULT_EVICTS_IDLE,      // a cache evicts by what has ended
  RONDO_FAULT_EXCHANGE_CACHED,  // an uneven all-to-all is found by its signature
  RONDO_FAULT_CLOSE_UNCOUNTED,  // a link is closed before all that was sent has arrived
  RONDO_FAULT_MIRROR_EARLY,     // a slot is reused while the proxy sends from it
  RONDO_FAULT_LOSS_UNTOLD,      // what a broken link has lost is taken for received
  RONDO_FAULT_LINK_SET_ASLEEP,  // sleeping links are not woken by a run
  RONDO_FAULT_CACHE_LOOSE,      // a call takes a registration with another root
  RONDO_FAULT_JOURNAL_UNSENT,   // calls are not sent to processes without shared memory
  RONDO_FAULT_WAIT_STALE,       // a collective seems to wait for what its last run waited for
  RONDO_FAULT_LOOK_FROM_FRONT,  // a look round begins at the front of the task queue
  RONDO_FAULT_SPINS_IN_VAIN,    // a stuck collective spends its budget while another is ready
  RONDO_FAULT_COUNT
};

extern int rondo_fault_planted;
void rondo_explore_point(const char *name);

#define RONDO_POINT(name) rondo_explore_point(name)
#define RONDO_FAULT(name) (rondo_fault_planted == RONDO_FAULT_##name)

#else

#define RONDO_POINT(name) ((void)0)
#define RONDO_FAULT(name) 0

#endif
#endif // RONDO_BASE_EXPLORE_H
