// Compares the calls of communicators, and fails a communicator whose calls differ.
#include <stdio.h>

#include "base/log.h"
#include "runtime/job/job.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comm_detach.h"
#include "runtime/order/comm_failure.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/rank.h"

// Writes what the two ranks have called, in one line.
static void difference_print(const struct rondo_comm_end *end, const struct rondo_series *s,
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

// Fails the communicator, and releases the lock of the job that rondo_journal_lock took.
static void end_fail_and_unlock(struct rondo_comm_end *end, int status, const char *why,
                                int lock_mode) {
  struct rondo_rank *rank = end->rank;
  if (rondo_comm_mark_failed(rank->job, end, status, why))
    rondo_log(RONDO_LOG_ERROR, "%s", why);
  rondo_comms_broadcast_failures(rank->job);
  rondo_journal_unlock(rank->job, lock_mode);
  rondo_submission_notify(rank, 1);
}

// Returns false if the lock of the job was not free: the caller tries again later.
static bool end_try_fail_mismatch(struct rondo_comm_end *end, const struct rondo_series *s,
                                  const struct rondo_difference *d, int lock_mode) {
  char why[RONDO_REASON_BYTES];
  if (!rondo_journal_lock(end->rank->job, lock_mode))
    return false;
  difference_print(end, s, d, why);
  end_fail_and_unlock(end, RONDO_ERR_MISMATCH, why, lock_mode);
  return true;
}

// Fails the communicator if a member detached before it made a call that this rank has made.
// Returns false if the lock of the job was not free.
static bool end_try_check_detached(struct rondo_comm_end *end, const struct rondo_series *s,
                                   int lock_mode) {
  char why[RONDO_REASON_BYTES];
  uint64_t made = 0;
  if (!rondo_load_acquire_u32(&end->detached_count))
    return true;
  if (!rondo_journal_lock(end->rank->job, lock_mode))
    return false;
  const struct rondo_detachment *d = rondo_comm_find_detached(end, s, &made);
  if (!d) {
    rondo_journal_unlock(end->rank->job, lock_mode);
    return true;
  }
  (void)snprintf(
      why, sizeof why,
      "rank %u has destroyed its end of communicator %llu after %llu %s; rank %u has made %llu",
      d->rank, (unsigned long long)end->key, (unsigned long long)made,
      s->from == RONDO_SERIES_COLLECTIVE ? "calls" : "calls of the pair", end->rank->cfg.rank,
      (unsigned long long)s->writer.called);
  end_fail_and_unlock(end, RONDO_ERR_PEER, why, lock_mode);
  return true;
}

// Fails the communicator if a run has refused a part. Returns false if the lock of the job was not
// free.
static bool end_try_check_refusal(struct rondo_comm_end *end, int lock_mode) {
  char why[RONDO_REASON_BYTES];
  const struct rondo_refusal *r = &end->owner.refusal;
  uint32_t rank = end->rank->cfg.rank;
  if (!rondo_load_acquire_u32(&end->owner.has_refused) || // R2
      rondo_load_relaxed_u32(&end->owner.failed))
    return true;
  if (!rondo_journal_lock(end->rank->job, lock_mode))
    return false;
  (void)snprintf(why, sizeof why,
                 "mismatch of an all_to_all_v of %s of communicator %llu: rank %u sends %llu to "
                 "rank %u; rank %u expects %llu from rank %u",
                 rondo_dtype_name(r->dtype), (unsigned long long)end->key, r->rank,
                 (unsigned long long)r->told_elems, rank, rank,
                 (unsigned long long)r->expected_elems, r->rank);
  end_fail_and_unlock(end, RONDO_ERR_MISMATCH, why, lock_mode);
  return true;
}

void rondo_comm_check_refusal(struct rondo_comm_end *end) {
  (void)end_try_check_refusal(end, RONDO_JOB_LOCK_WAIT);
}

// Returns true if nothing is left to compare.
static bool series_compare(struct rondo_comm_end *end, struct rondo_series *s, int lock_mode) {
  struct rondo_difference d;
  if (rondo_journal_writer_compare(&s->writer, lock_mode, &d))
    return end_try_fail_mismatch(end, s, &d, lock_mode);
  return end_try_check_detached(end, s, lock_mode) && !rondo_journal_writer_has_pending(&s->writer);
}

// Unless the comparison is complete, has the next thread that serves the rank repeat it.
static void end_note_comparison(const struct rondo_comm_end *end, bool is_complete) {
  if (!is_complete)
    rondo_store_relaxed_u32(&end->rank->extension_pending, 1);
}

void rondo_comm_compare_series(struct rondo_comm_end *end, struct rondo_series *series) {
  if (!rondo_load_relaxed_u32(&end->owner.failed))
    end_note_comparison(end, series_compare(end, series, RONDO_JOB_LOCK_WAIT));
}

static void end_compare(struct rondo_comm_end *end, int lock_mode) {
  if (rondo_load_relaxed_u32(&end->owner.failed))
    return;
  bool is_complete = end_try_check_refusal(end, lock_mode);
  for (uint32_t i = 0; i < rondo_comm_series_count(end); i++)
    if (end->series[i])
      is_complete &= series_compare(end, end->series[i], lock_mode);
  end_note_comparison(end, is_complete);
}

void rondo_comm_compare_pending(struct rondo_comm_end *end) {
  if (!rondo_load_relaxed_u32(&end->rank->extension_pending) || pthread_mutex_trylock(&end->lock))
    return;
  end_compare(end, RONDO_JOB_LOCK_WAIT);
  pthread_mutex_unlock(&end->lock);
}

// Pins the end with the largest handle below `last` that is not being destroyed. Returns null if
// there is none, or comms_lock is not free. The list has the newest end first.
static struct rondo_comm_end *rank_pin_end_below(struct rondo_rank *rank, uint64_t last,
                                                 int lock_mode) {
  if (lock_mode == RONDO_JOB_LOCK_HELD) {
    pthread_mutex_lock(&rank->comms_lock);
  } else if (pthread_mutex_trylock(&rank->comms_lock)) {
    rondo_store_relaxed_u32(&rank->extension_pending, 1);
    return NULL;
  }
  struct rondo_comm_end *end = rank->comms;
  while (end && (end->handle >= last || end->closing))
    end = end->next;
  if (end)
    end->users++;
  pthread_mutex_unlock(&rank->comms_lock);
  return end;
}

bool rondo_comms_compare(struct rondo_rank *rank, const uint64_t *key, int lock_mode) {
  bool done = true;
  uint64_t last = UINT64_MAX;
  struct rondo_comm_end *end;
  while ((end = rank_pin_end_below(rank, last, lock_mode))) {
    last = end->handle;
    bool is_wanted = !key || end->key == *key;
    if (is_wanted && pthread_mutex_trylock(&end->lock)) {
      done = false;
    } else if (is_wanted) {
      end_compare(end, lock_mode);
      pthread_mutex_unlock(&end->lock);
    }
    rondo_comm_unpin(end);
  }
  return done;
}

void rondo_comms_serve(struct rondo_rank *rank) {
  rondo_store_relaxed_u32(&rank->extension_pending, 0);
  if (!rondo_comms_compare(rank, NULL, RONDO_JOB_LOCK_TRY))
    rondo_store_relaxed_u32(&rank->extension_pending, 1);
}
