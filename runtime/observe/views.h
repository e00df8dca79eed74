// What ranks of other processes are doing: asked for when somebody looks for what is stuck.
//
//   rondo_views_init (with the job) -> rondo_views_merge ... rondo_views_fini
//
// A question names collectives; the answer says of each rank of that process how far it is with those, and
// with all others of which runs are outstanding there. Control threads answer, so it makes no difference
// how stuck the application is; and nothing is kept, counted or sent while nobody asks.
#ifndef RONDO_RUNTIME_OBSERVE_VIEWS_H
#define RONDO_RUNTIME_OBSERVE_VIEWS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct rondo_job;
struct rondo_job_extension;
struct rondo_snapshot;

#define RONDO_VIEWS_WAIT_NS UINT64_C(200000000) // for answers, all together
#define RONDO_VIEWS_WANTED 128u                 // collectives that one question names
#define RONDO_VIEWS_ENTRIES 512u                // that one answer holds

// Guarded by the lock of the job.
struct rondo_views {
  pthread_cond_t changed;
  uint64_t round;
  uint32_t awaited; // processes that have been asked and have not answered
  struct rondo_views_answer {
    uint64_t round; // in which it was asked last
    void *bytes;    // what it said; null: nothing yet
    size_t size;
  } * answers; // by process; null: nobody was asked ever
};

// On a snapshot of this process: asks the processes of the members of whatever is outstanding in the snapshot, and waits for them,
// RONDO_VIEWS_WAIT_NS at most; whoever asks at the same time shares a round. Then enters what they say. The lock of
// the job is held, and let go while waiting. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_views_merge(struct rondo_job *job, struct rondo_snapshot *s);

extern const struct rondo_job_extension rondo_views_extension;

#endif // RONDO_RUNTIME_OBSERVE_VIEWS_H
