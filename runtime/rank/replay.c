// Runs of captured graphs: captured once, replayed without a call of the application.
//
// A graph can ring a doorbell and wait, but cannot submit. Threads that serve the rank poll the
// doorbells of captured runs and submit a run for each that has been rung. The run resets the
// doorbell before the graph continues, so that a rung doorbell always asks for one more run.
#include <stdlib.h>

#include "base/log.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/stream.h"

#define TICKET (RONDO_TICKET_REPLAYED | 1)

// A captured call.
struct rondo_replay {
  struct rondo_replay *next;
  struct rondo_rank *rank;
  struct rondo_coll *coll;
  struct rondo_submission submission;
  uint64_t run;     // submitted last
  uint32_t dropped; // release: the graph and everything made from it is gone
};

// Called by the driver. This thread may not call the CUDA driver.
static void replay_drop(void *arg) {
  struct rondo_replay *r = arg;
  rondo_store_release_u32(&r->dropped, 1); // D5
}

static void replay_free(struct rondo_replay *r) {
  struct rondo_device *device = r->rank->member.device;
  if (r->submission.tie.words)
    device->driver->free(device, RONDO_MEMORY_SHARED, r->submission.tie.words);
  free(r);
}

static bool has_ended(const struct rondo_replay *r) {
  return rondo_load_relaxed_u64(&r->coll->completed) >= r->run;
}

// Submits the run that the graph asks for. Returns false without memory. If the daemon is lost,
// lets the graph continue and returns false.
static bool replay_try_submit(struct rondo_replay *r) {
  if (r->rank->is_lost) {
    struct rondo_task_run run = {.stream = (uint64_t)(uintptr_t)r->submission.tie.words,
                                 .ticket = TICKET};
    rondo_run_release_stream(&run);
    return false;
  }
  struct rondo_run_record *record = rondo_run_record_take(r->rank);
  if (!record)
    return false;
  (void)rondo_submission_commit(r->rank, r->coll, &r->submission, record, false);
  r->run = r->coll->submitted;
  return true;
}

void rondo_replays_reap(struct rondo_rank *rank) {
  for (struct rondo_replay **at = &rank->replays; *at;) {
    struct rondo_replay *r = *at;
    if (!rondo_load_acquire_u32(&r->dropped) || !has_ended(r)) { // D5
      at = &r->next;
      continue;
    }
    *at = r->next;
    r->coll->replays--;
    rondo_fetch_add_seq_cst_u32(&rank->member.daemon->captured_runs, (uint32_t)-1);
    replay_free(r);
  }
}

bool rondo_replays_serve(struct rondo_rank *rank) {
  bool submitted = false;
  rondo_replays_reap(rank);
  for (struct rondo_replay *r = rank->replays; r; r = r->next)
    if (has_ended(r) && rondo_load_acquire_u64(&r->submission.tie.words->doorbell) == TICKET) // D2
      submitted |= replay_try_submit(r);
  return submitted;
}

void rondo_replays_free(struct rondo_rank *rank) {
  while (rank->replays) {
    struct rondo_replay *r = rank->replays;
    rank->replays = r->next;
    replay_free(r);
  }
}

// Makes a replay that no list holds yet. Null: no memory. No lock is held.
static struct rondo_replay *replay_make(struct rondo_rank *rank, const struct rondo_submission *s) {
  struct rondo_device *device = rank->member.device;
  struct rondo_replay *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  r->rank = rank;
  r->submission = *s;
  r->submission.tie.words =
      device->driver->alloc(device, RONDO_MEMORY_SHARED, sizeof *r->submission.tie.words);
  r->submission.tie.ticket = TICKET;
  if (r->submission.tie.words)
    return r;
  free(r);
  return NULL;
}

// Adds a replay to its rank and its collective. The rank's lock is held.
static int replay_add(struct rondo_replay *r, struct rondo_collective handle) {
  struct rondo_rank *rank = r->rank;
  r->coll = rondo_coll_find_logged(rank, handle, "run_on_stream");
  int status = r->coll ? rondo_submission_check(rank, r->coll, &r->submission) : RONDO_ERR_UNKNOWN;
  if (status != RONDO_SUCCESS)
    return status;
  r->next = rank->replays;
  rank->replays = r;
  r->coll->replays++;
  return RONDO_SUCCESS;
}

int rondo_run_capture(struct rondo_rank *rank, struct rondo_collective handle,
                      struct rondo_submission *s, void *stream) {
  char why[RONDO_WHY_BYTES] = "";
  unsigned parts;
  int status = rondo_run_check_reach(rank, handle, s, &s->is_private);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_ties_prepare(&parts);
  struct rondo_replay *r = status == RONDO_SUCCESS ? replay_make(rank, s) : NULL;
  if (!r)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "run_on_stream: no memory");
  rondo_lock_take(&rank->lock);
  status = replay_add(r, handle);
  rondo_lock_give(&rank->lock);
  if (status != RONDO_SUCCESS) {
    replay_free(r);
    return status;
  }
  struct rondo_capture c = {r->submission.tie.words, TICKET, replay_drop, r};
  rondo_fetch_add_seq_cst_u32(&rank->member.daemon->captured_runs, 1);
  struct rondo_held_tie tie = {rank->ctx, handle, stream, r->submission.tie, 1};
  if (parts & RONDO_STREAM_WAIT)
    rondo_coll_await_places(rank, handle);
  status = rank->member.daemon->driver->capture(rank->member.daemon, stream, &c, parts, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "run_on_stream: %s", why);
  rondo_ties_hold(&tie);
  return RONDO_SUCCESS;
}
