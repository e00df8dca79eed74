// The journals of a job, for the files that implement them:
//
//   journal.c           places, writers, comparing
//   journal_replica.c   copies of journals where no memory is shared
//
// The caller holds the lock of the job unless a comment says otherwise.
#ifndef RONDO_RUNTIME_ORDER_JOURNAL_PLACE_H
#define RONDO_RUNTIME_ORDER_JOURNAL_PLACE_H

#include "runtime/order/journal.h"

// Takes and releases the lock of the job, as `lock_mode` says. Returns false if the lock is not
// free.
bool rondo_journal_lock(struct rondo_job *job, int lock_mode);
void rondo_journal_unlock(struct rondo_job *job, int lock_mode);

struct rondo_journal_place *rondo_journal_find(struct rondo_job *job,
                                               const struct rondo_journal_name *name);
// Adds a copy of `like`, with the caller as its first reader. Null: no memory.
struct rondo_journal_place *rondo_journal_add(struct rondo_job *job,
                                              const struct rondo_journal_place *like);
// Removes a place from the job. Its readers keep it until they end.
void rondo_journal_remove(struct rondo_job *job, struct rondo_journal_place *place);

// Gets an empty journal, from the idle ones or as new memory; makes a journal idle.
struct rondo_journal *rondo_journal_alloc(struct rondo_job *job);
void rondo_journal_release(struct rondo_job *job, struct rondo_journal *journal);

// Writes an entry. Called by the one writer of the journal or replica, without a lock.
void rondo_journal_write(struct rondo_journal_entry *e, uint64_t call,
                         const struct rondo_signature *s);
// Reads an entry. Returns false if it holds another call by now. Any thread, without a lock.
bool rondo_journal_read(const struct rondo_journal_entry *e, uint64_t call,
                        struct rondo_signature *s);

// ---- journal_replica.c ----

// Sends what is new in `place`, a journal of this process, to neighbours that share no memory.
void rondo_replica_send(struct rondo_job *job, struct rondo_journal_place *place);
// Schedules a round of such messages: soon, or at once. Any thread, with or without a lock.
void rondo_replica_schedule(struct rondo_job *job, int is_urgent);

#endif // RONDO_RUNTIME_ORDER_JOURNAL_PLACE_H
