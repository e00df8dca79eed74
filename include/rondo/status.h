// Rondo: the status of a call and of a run.
//
// One set of numbers serves both as the result of every function and as the
// status of a completed run. The numbers are pinned: they never change and are
// never reused. 0 is success.
#ifndef RONDO_STATUS_H
#define RONDO_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

enum rondo_status {
  RONDO_SUCCESS = 0,
  RONDO_ERR_INVALID = 1,      // an argument is out of its range, null, or overlaps another
  RONDO_ERR_NO_MEMORY = 2,    // memory, or the configured connector budget, is used up
  RONDO_ERR_FULL = 3,         // a configured limit (runs, collectives, contexts) is reached
  RONDO_ERR_UNKNOWN = 4,      // the handle or id was never given out, or is no longer valid
  RONDO_ERR_EXISTS = 5,       // the id is already registered on this rank
  RONDO_ERR_BUSY = 6,         // the object still has work in flight
  RONDO_ERR_TIMEOUT = 7,      // the bound given with the call passed; the run goes on
  RONDO_ERR_MISMATCH = 8,     // ranks registered different descriptors under one id
  RONDO_ERR_ABORTED = 9,      // this rank, or a peer, aborted
  RONDO_ERR_PEER = 10,        // a peer left the group before the run could complete
  RONDO_ERR_CLOSED = 11,      // the context is closing, closed, or of the parent process
  RONDO_ERR_UNSUPPORTED = 12, // this build, backend or machine cannot do it
  RONDO_ERR_SYSTEM = 13,      // the operating system refused; the log line has its reason
  RONDO_ERR_INTERNAL = 14,    // a defect of Rondo; the log line says where
  RONDO_IN_PROGRESS = 15      // rondo_test only: the run has not completed yet
};

// The name of a status, such as "RONDO_ERR_TIMEOUT". Never null; any thread.
const char *rondo_status_name(int status);

// One short sentence about a status. Never null; any thread.
const char *rondo_status_string(int status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_STATUS_H
