// Rondo: the status of a call and of a run.
//
// Functions return these numbers, and runs end with them. The numbers never change and are never
// reused. 0 is success. Any thread may call the functions.
#ifndef RONDO_STATUS_H
#define RONDO_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

enum rondo_status {
  RONDO_SUCCESS = 0,
  RONDO_ERR_INVALID = 1,      // an argument is null, out of its range, or overlaps another
  RONDO_ERR_NO_MEMORY = 2,    // memory, or the configured connector memory, is used up
  RONDO_ERR_FULL = 3,         // a configured limit is reached: runs, collectives or contexts
  RONDO_ERR_UNKNOWN = 4,      // the handle or id does not exist, or no longer exists
  RONDO_ERR_EXISTS = 5,       // the id, rank, key or callback already exists
  RONDO_ERR_BUSY = 6,         // the object still has outstanding work
  RONDO_ERR_TIMEOUT = 7,      // the time given with the call has passed; the run goes on
  RONDO_ERR_MISMATCH = 8,     // ranks registered different descriptors under one id
  RONDO_ERR_ABORTED = 9,      // this rank or a peer aborted
  RONDO_ERR_PEER = 10,        // a peer left before the run could end
  RONDO_ERR_CLOSED = 11,      // the context is being destroyed, or belongs to the parent process
  RONDO_ERR_UNSUPPORTED = 12, // this build, backend or machine cannot do it
  RONDO_ERR_SYSTEM = 13,      // the operating system or the device refused; the log says why
  RONDO_ERR_INTERNAL = 14,    // a defect of Rondo; the log line says where
  RONDO_IN_PROGRESS = 15      // not an error: the answer is not known yet, or the run has not ended
};

// Returns the name of a status, such as "RONDO_ERR_TIMEOUT". Takes any number. Never null.
const char *rondo_status_name(int status);

// Returns one short sentence about a status. Takes any number. Never null.
const char *rondo_status_string(int status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_STATUS_H
