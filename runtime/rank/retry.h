// Collectives whose runs are taken up again after a loss: RONDO_ON_LOSS_RETRY (retry_state.h has
// the rules).
//
// The application's collective is the *front*. It keeps the run records and the callbacks. In the
// first view of its members it also moves the data; in each later view a hidden collective does. A
// second hidden collective is the agreement. Both have ids of their own space, made of the front's
// id and of the ranks that are gone, so members of different views never mix.
//
//   rondo_retry_register -> (run_queues.c) rondo_retry_push, rondo_retry_accept ...
//     -> (a loss) a thread of the rank registers hidden collectives and begins the flush
//     -> rondo_retry_deregister
#ifndef RONDO_RUNTIME_RANK_RETRY_H
#define RONDO_RUNTIME_RANK_RETRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/rank/coll.h"
#include "runtime/rank/retry_state.h"

struct rondo_job_extension;
struct rondo_rank_list;

// Who takes part in the runs from `first_run` on.
struct rondo_retry_view {
  struct rondo_retry_view *before;
  uint64_t first_run;
  const uint32_t *members; // lives as long as the job
  uint32_t count;
};

struct rondo_retry {
  struct rondo_retry *next; // of the rank's
  // Guarded by the rank's lock, as all below.
  struct rondo_retry_state state;
  int failed_status; // of FAILING
  struct rondo_coll *front;
  struct rondo_coll *data, *agree; // of the current view; `data` is the front in the first view
  struct rondo_run_record hidden;  // the run of `agree`, or of a hidden `data`
  uint64_t numbers[2];             // what `agree` sends and receives
  uint64_t gone;                   // digest of the members that are gone in the current view
  uint64_t since_ns;               // of BROKEN and FLUSH: since when
  struct rondo_retry_view *view;   // the newest first
  struct rondo_retry_view *coming; // takes effect when the flush has ended
  void *staging;                   // where runs put their result; null: this rank gets none
};

// Of one rank.
struct rondo_retries {
  pthread_mutex_t lock; // taken before the job's lock: guards the list and who serves it
  struct rondo_retry *first;
  uint32_t *left;            // room for the ranks of the job
  bool has_told_short;       // guarded by `lock` too
  pthread_mutex_t wake_lock; // the innermost lock: guards the words below
  pthread_cond_t wake;
  uint64_t wakes;
  bool has_thread, stops;
  pthread_t thread;
};

// Null: no memory.
struct rondo_retries *rondo_retries_create(void);
// Ends the thread. The rank's collectives stay.
void rondo_retries_stop(struct rondo_rank *rank);
void rondo_retries_free(struct rondo_retries *all);
// The rank aborts: collectives that wait for a flush fail too. Its collectives have been aborted.
// The rank's lock is held.
void rondo_retries_abort(struct rondo_rank *rank);

// Tells the ranks here of a loss.
extern const struct rondo_job_extension rondo_retry_extension;

// As rondo_rank_register, for a descriptor with RONDO_ON_LOSS_RETRY. Also returns
// RONDO_ERR_UNSUPPORTED: the kind or the backend cannot retry.
int rondo_retry_register(struct rondo_rank *rank, const struct rondo_register_request *request,
                         struct rondo_collective *handle);
// As rondo_rank_deregister. If members are lost, waits for a bounded time until a flush has ended.
int rondo_retry_deregister(struct rondo_rank *rank, struct rondo_collective handle);
// Fails the collective for good on all members, because of `why`. `status` is not RONDO_ERR_PEER,
// with which runs are taken up again. The first failure stays.
void rondo_retry_fail(struct rondo_rank *rank, struct rondo_collective handle, int status,
                      const char *why);
// RONDO_SUCCESS, or the status with which the collective has failed for good.
int rondo_retry_state(struct rondo_rank *rank, struct rondo_collective handle);
// As rondo_run_members.
int rondo_retry_list_members(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                             struct rondo_rank_list *list);

// ---- run_queues.c and inline_run.c; the rank's lock is held ----

static inline bool rondo_retry_is_front(const struct rondo_coll *coll) {
  return coll->retries && coll->retry->front == coll;
}

// True if a new run may be pushed now to a collective without outstanding runs, which is its own
// `data`.
static inline bool rondo_retry_is_idle(const struct rondo_coll *coll) {
  const struct rondo_retry *r = coll->retry;
  return r->data == coll && r->agree && r->state.phase == RONDO_RETRY_IDLE && !coll->head;
}

// Starts the first waiting run of a front, if it may start now. Returns false if the caller must
// push it as that of any other collective, one run at a time.
bool rondo_retry_push(struct rondo_rank *rank, struct rondo_coll *front);
// The caller has pushed a run of the front.
void rondo_retry_note_push(struct rondo_coll *front);
// Where a run of the collective puts its result.
void *rondo_retry_recv(const struct rondo_coll *coll, const struct rondo_run_record *record);
// Takes the end of a run of the front or of a hidden collective. Returns how many runs of the
// application have ended.
uint64_t rondo_retry_accept(struct rondo_rank *rank, struct rondo_coll *coll, int status,
                            uint32_t duration_ns);

#endif // RONDO_RUNTIME_RANK_RETRY_H
