// The inside of the journals of a job, for the files that make them up:
//
//   journal.c   places, tracks, comparing
//   mirror.c    the same calls where no memory is shared
//
// All under the lock of the job, but for what is said to be of one thread.
#ifndef RONDO_RUNTIME_ORDER_JOURNAL_PLACE_H
#define RONDO_RUNTIME_ORDER_JOURNAL_PLACE_H

#include "runtime/order/journal.h"

// The lock of the job, as `hurry` says. Returns 0 if it was not free.
int rondo_journal_lock(struct rondo_job *job, int hurry);
void rondo_journal_unlock(struct rondo_job *job, int hurry);

struct rondo_journal_place *rondo_journal_find(struct rondo_job *job,
                                               const struct rondo_journal_name *name);
// One more place, of which the caller is the first reader. Null when there is no memory.
struct rondo_journal_place *rondo_journal_add(struct rondo_job *job,
                                              const struct rondo_journal_place *like);
// Takes it out of the job's places; who reads it goes on doing so.
void rondo_journal_end(struct rondo_job *job, struct rondo_journal_place *place);

struct rondo_journal *rondo_journal_take(struct rondo_job *job);
void rondo_journal_give(struct rondo_job *job, struct rondo_journal *journal);

// By whose journal it is, or for whom it is kept here.
void rondo_journal_write(struct rondo_journal_entry *e, uint64_t call,
                         const struct rondo_signature *s);
// Returns 0 if the place has another call by now.
int rondo_journal_read(const struct rondo_journal_entry *e, uint64_t call,
                       struct rondo_signature *s);

// ----------------------------------------------------------------- mirror.c ---

// Tells the far neighbours of `place`, a journal of this process, what they have not been told.
void rondo_replica_send(struct rondo_job *job, struct rondo_journal_place *place);
// There is something new to be told: soon, or at once. Any thread; the lock of the job need not be held.
void rondo_replica_schedule(struct rondo_job *job, int is_urgent);

#endif // RONDO_RUNTIME_ORDER_JOURNAL_PLACE_H
