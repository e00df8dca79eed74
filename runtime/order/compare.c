// Comparing the calls of communicators, and what follows where two differ.
#include <stdio.h>

#include "base/log.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/failure.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/rank.h"

// What the two ranks have called, in one line.
static void describe(const struct rondo_comm_end *end, const struct rondo_series *s,
                     const struct rondo_difference *d, char *text) {
  char ours[RONDO_SIGNATURE_TEXT_BYTES];
  char theirs[RONDO_SIGNATURE_TEXT_BYTES];
  char series[80] = "";
  rondo_signature_print(&d->ours, ours);
  rondo_signature_print(&d->theirs, theirs);
  if (s->from != RONDO_SERIES_COLLECTIVE)
    (void)snprintf(series, sizeof series, " from rank %u to rank %u", end->members[s->from],
                   end->members[s->to]);
  (void)snprintf(
      text, RONDO_REASON_BYTES,
      "mismatch of call %llu%s of communicator %llu: rank %u called %s; rank %u called %s",
      (unsigned long long)d->call, series, (unsigned long long)end->key, end->rank->cfg.rank, ours,
      d->rank, theirs);
}

// The lock of the job is held, and given back.
static void fail_and_unlock(struct rondo_comm_end *end, int status, const char *why, int hurry) {
  struct rondo_rank *rank = end->rank;
  if (rondo_comm_mark_failed(rank->job, end, status, why))
    rondo_log(RONDO_LOG_ERROR, "%s", why);
  rondo_comms_broadcast_failures(rank->job);
  rondo_journal_unlock(rank->job, hurry);
  if (!rank->is_manual)
    rank->daemon->driver->notify_submission(rank->daemon, 1);
}

// Returns 0 if it has to be tried again: the lock of the job was not free.
static int mismatch(struct rondo_comm_end *end, const struct rondo_series *s,
                    const struct rondo_difference *d, int hurry) {
  char why[RONDO_REASON_BYTES];
  if (!rondo_journal_lock(end->rank->job, hurry))
    return 0;
  describe(end, s, d, why);
  fail_and_unlock(end, RONDO_ERR_MISMATCH, why, hurry);
  return 1;
}

// Whether a member has left that will never make a call that was made here. Returns 0 as mismatch().
static int look_for_leavers(struct rondo_comm_end *end, const struct rondo_series *s, int hurry) {
  char why[RONDO_REASON_BYTES];
  uint64_t made = 0;
  if (!rondo_load_acquire_u32(&end->left_count))
    return 1;
  if (!rondo_journal_lock(end->rank->job, hurry))
    return 0;
  const struct rondo_detachment *d = rondo_comm_find_detached(end, s, &made);
  if (!d) {
    rondo_journal_unlock(end->rank->job, hurry);
    return 1;
  }
  (void)snprintf(
      why, sizeof why,
      "rank %u has destroyed its end of communicator %llu after %llu %s; rank %u has made %llu",
      d->rank, (unsigned long long)end->key, (unsigned long long)made,
      s->from == RONDO_SERIES_COLLECTIVE ? "calls" : "calls of the pair", end->rank->cfg.rank,
      (unsigned long long)s->track.called);
  fail_and_unlock(end, RONDO_ERR_PEER, why, hurry);
  return 1;
}

// Returns 1 if nothing is left to be done.
static int compare_series(struct rondo_comm_end *end, struct rondo_series *s, int hurry) {
  struct rondo_difference d;
  if (rondo_track_compare(&s->track, hurry, &d))
    return mismatch(end, s, &d, hurry);
  return look_for_leavers(end, s, hurry) && !rondo_track_is_owing(&s->track);
}

// What is left to be done is done by whoever comes by.
static void note(const struct rondo_comm_end *end, int done) {
  if (!done)
    rondo_store_relaxed_u32(&end->rank->extension_pending, 1);
}

void rondo_comm_compare_series(struct rondo_comm_end *end, struct rondo_series *series) {
  if (!rondo_load_relaxed_u32(&end->owner.failed))
    note(end, compare_series(end, series, RONDO_HURRY_NOT));
}

void rondo_comm_compare(struct rondo_comm_end *end, int hurry) {
  if (rondo_load_relaxed_u32(&end->owner.failed))
    return;
  int done = compare_series(end, &end->collective, hurry);
  for (uint32_t i = 0; i < 2 * end->nranks; i++)
    if (end->sends[i])
      done &= compare_series(end, end->sends[i], hurry);
  note(end, done);
}

// The rank's communicator behind `last`, with one more user; null if there is none.
static struct rondo_comm_end *enter_next(struct rondo_rank *rank, uint64_t last) {
  if (pthread_mutex_trylock(&rank->comms_lock)) {
    rondo_store_relaxed_u32(&rank->extension_pending, 1);
    return NULL;
  }
  struct rondo_comm_end *end = rank->comms; // the newest first
  while (end && (end->handle >= last || end->closing))
    end = end->next;
  if (end)
    end->users++;
  pthread_mutex_unlock(&rank->comms_lock);
  return end;
}

void rondo_comms_compare(struct rondo_rank *rank) {
  uint64_t last = UINT64_MAX;
  struct rondo_comm_end *end;
  rondo_store_relaxed_u32(&rank->extension_pending, 0);
  while ((end = enter_next(rank, last))) {
    last = end->handle;
    if (pthread_mutex_trylock(&end->lock)) {
      note(end, 0);
    } else {
      rondo_comm_compare(end, RONDO_HURRY);
      pthread_mutex_unlock(&end->lock);
    }
    rondo_comm_unpin(end);
  }
}

// The rank's communicator behind `last`; null if there is none. It does not go without the lock of the job.
static struct rondo_comm_end *next_held(struct rondo_rank *rank, uint64_t last) {
  pthread_mutex_lock(&rank->comms_lock);
  struct rondo_comm_end *end = rank->comms;
  while (end && (end->handle >= last || end->closing))
    end = end->next;
  pthread_mutex_unlock(&rank->comms_lock);
  return end;
}

int rondo_comms_compare_held(struct rondo_rank *rank, const uint64_t *key) {
  int done = 1;
  uint64_t last = UINT64_MAX;
  struct rondo_comm_end *end;
  while ((end = next_held(rank, last))) {
    last = end->handle;
    if (key && end->key != *key)
      continue;
    if (pthread_mutex_trylock(&end->lock)) {
      done = 0;
      continue;
    }
    rondo_comm_compare(end, RONDO_HURRY_HOLDS);
    pthread_mutex_unlock(&end->lock);
  }
  return done;
}
