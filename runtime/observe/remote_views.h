// Snapshots of ranks in other processes, taken on request.
//
// A process sends a question, which names collectives. The answer has the progress of each rank of
// the asked process in those collectives, and in all others with outstanding runs. The control
// thread answers, so a blocked application does not matter. Nothing is stored, counted or sent
// unless a process asks.
#ifndef RONDO_RUNTIME_OBSERVE_REMOTE_VIEWS_H
#define RONDO_RUNTIME_OBSERVE_REMOTE_VIEWS_H

#include <pthread.h>
#include <stdint.h>

struct rondo_job;
struct rondo_job_extension;
struct rondo_snapshot;

#define RONDO_VIEWS_WAIT_NS UINT64_C(200000000) // for all answers together
#define RONDO_VIEWS_WANTED 128u                 // collectives in a question
#define RONDO_VIEWS_ENTRIES 512u                // entries in an answer

// Guarded by the lock of the job.
struct rondo_views {
  pthread_cond_t changed;
  uint64_t round;
  uint32_t awaited; // processes that have not answered yet
  struct rondo_views_answer {
    uint64_t round; // in which the process was asked last
    void *bytes;    // its answer; null: none yet
  } * answers;      // by process; null: no process was ever asked
};

// Adds the views of other processes to a snapshot of this process. Asks the processes of members of
// collectives with outstanding runs, and waits for answers for at most RONDO_VIEWS_WAIT_NS.
// Concurrent callers share a round of questions. The lock of the job is held; it is released while
// waiting. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_views_merge(struct rondo_job *job, struct rondo_snapshot *s);

extern const struct rondo_job_extension rondo_views_extension;

#endif // RONDO_RUNTIME_OBSERVE_REMOTE_VIEWS_H
