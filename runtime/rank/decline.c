#include "runtime/rank/decline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quiet_thread.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/vote.h"

#define LONG_NS UINT64_C(3600000000000) // any long time

void rondo_decline_init(struct rondo_decline *d) { pthread_mutex_init(&d->lock, NULL); }

void rondo_decline_fini(struct rondo_decline *d) {
  free(d->excluded);
  pthread_mutex_destroy(&d->lock);
}

int rondo_voting_begin(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->decline.lock);
  bool was_voting = rank->decline.is_voting;
  rank->decline.is_voting = true;
  pthread_mutex_unlock(&rank->decline.lock);
  return was_voting ? RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "rank %u: another thread votes already",
                                       rank->cfg.rank)
                    : RONDO_SUCCESS;
}

void rondo_voting_end(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->decline.lock);
  rank->decline.is_voting = false;
  pthread_mutex_unlock(&rank->decline.lock);
}

// Declines in the view of the voters. `d->lock` is held, here and below.
static void decline_vote(struct rondo_rank *rank, const struct rondo_voters *voters) {
  struct rondo_vote vote;
  if (voters->count > 1) {
    if (rondo_vote_register(rank, voters, &vote) != RONDO_SUCCESS)
      rondo_log(RONDO_LOG_ERROR, "rank %u cannot tell others that its vote has ended",
                rank->cfg.rank);
    rondo_vote_fail(&vote, rank->decline.why);
    rondo_vote_end(&vote);
  }
  rank->decline.view = voters->view;
}

// Lists the voters as the call that has ended would. False if the rank cannot vote any more.
static bool decline_look(struct rondo_rank *rank, struct rondo_voters *voters) {
  struct rondo_decline *d = &rank->decline;
  if (!d->is_due || rondo_load_seq_cst_u32(&rank->closing) ||
      rondo_voters_list(rank, d->excluded, d->count, voters) != RONDO_SUCCESS)
    return false;
  if (voters->view != d->view)
    decline_vote(rank, voters);
  return true;
}

// The thread pins the context, so rondo_destroy waits for it. `arg` is the handle.
static void *decline_main(void *arg) {
  struct rondo_context ctx = {.handle = (uintptr_t)arg};
  struct rondo_rank *rank;
  struct rondo_voters voters;
  bool goes_on = rondo_rank_pin(ctx, "grow", &rank) == RONDO_SUCCESS;
  if (!goes_on)
    return NULL; // it is being destroyed already
  pthread_setname_np(pthread_self(), "rondo-decline");
  while (goes_on) {
    pthread_mutex_lock(&rank->decline.lock);
    goes_on = decline_look(rank, &voters);
    rank->decline.has_thread = goes_on;
    pthread_mutex_unlock(&rank->decline.lock);
    if (!goes_on)
      break;
    (void)rondo_voters_await_change(rank, &voters, rondo_now_ns() + LONG_NS);
    rondo_voters_free(&voters);
  }
  rondo_rank_unpin(ctx);
  return NULL;
}

static void decline_start(struct rondo_rank *rank) {
  pthread_attr_t attr;
  pthread_t thread;
  if (rank->decline.has_thread)
    return;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  void *handle = (void *)(uintptr_t)rank->ctx.handle;
  rank->decline.has_thread = rondo_quiet_thread_create(&thread, &attr, decline_main, handle) == 0;
  pthread_attr_destroy(&attr);
  if (rank->decline.has_thread)
    return;
  rondo_log(RONDO_LOG_ERROR,
            "rank %u: the system gives no thread to tell others that its vote has ended",
            rank->cfg.rank);
}

void rondo_decline_begin(struct rondo_rank *rank, const struct rondo_voters *voters, bool at_once,
                         const uint32_t *excluded, uint32_t count, const char *why) {
  struct rondo_decline *d = &rank->decline;
  uint32_t *copy = malloc((count + 1) * sizeof *copy);
  if (!copy) {
    rondo_log(RONDO_LOG_ERROR, "rank %u: no memory to tell others that its vote has ended",
              rank->cfg.rank);
    return;
  }
  if (count)
    memcpy(copy, excluded, count * sizeof *copy);
  pthread_mutex_lock(&d->lock);
  free(d->excluded);
  d->excluded = copy;
  d->count = count;
  d->view = at_once ? ~voters->view : voters->view;
  d->is_due = true;
  (void)snprintf(d->why, sizeof d->why, "the call of rank %u has ended: %.400s", rank->cfg.rank,
                 *why ? why : "with an error");
  decline_start(rank);
  pthread_mutex_unlock(&d->lock);
}

int rondo_decline_or_list(struct rondo_rank *rank, const uint32_t *excluded, uint32_t count,
                          struct rondo_voters *voters) {
  struct rondo_voters old;
  pthread_mutex_lock(&rank->decline.lock);
  int status = rondo_voters_list(rank, excluded, count, voters);
  while (status == RONDO_SUCCESS && decline_look(rank, &old)) {
    bool has_declined = old.lost == voters->lost;
    rondo_voters_free(&old);
    if (has_declined)
      break;
    rondo_voters_free(voters); // a rank was lost between the two lists
    status = rondo_voters_list(rank, excluded, count, voters);
  }
  pthread_mutex_unlock(&rank->decline.lock);
  return status;
}

void rondo_decline_end(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->decline.lock);
  rank->decline.is_due = false; // the thread sees that at the next loss, or at the end of the rank
  pthread_mutex_unlock(&rank->decline.lock);
}
