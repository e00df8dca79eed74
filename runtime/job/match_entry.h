// A match entry: all registrations of one id by ranks here, and what other processes offer for it.
//
// The lock of the job is held.
#ifndef RONDO_RUNTIME_JOB_MATCH_ENTRY_H
#define RONDO_RUNTIME_JOB_MATCH_ENTRY_H

#include <stdint.h>

#include "runtime/job/job.h"
#include "runtime/job/registration.h"

struct rondo_offers;

// How often a rank has registered the id. The agreement counts in jobs of several processes.
struct rondo_match_history {
  uint32_t rank;
  uint64_t times;
};

struct rondo_match_entry {
  LIST_ENTRY(rondo_match_entry) listed; // in `entry_list` of the job
  struct rondo_id id;
  struct rondo_registration *registrations;
  struct rondo_offers *offers; // of ranks of other processes
  struct rondo_communicator *comms;
  struct rondo_match_history *histories;
  uint32_t history_count, history_capacity;
};

// The entry of an id, or null.
struct rondo_match_entry *rondo_match_entry_find(struct rondo_job *job, struct rondo_id id);
// Finds or makes the entry. Null: no memory.
struct rondo_match_entry *rondo_match_entry_get(struct rondo_job *job, struct rondo_id id);
// Calls `visit` for every entry in the order of their ids, which is the same in all processes: the
// first ones get connectors if not all can. `visit` may not add or drop entries.
void rondo_match_entries_visit(struct rondo_job *job,
                               void (*visit)(struct rondo_job *job, struct rondo_match_entry *m));
// Frees all entries, but not the registrations of ranks here.
void rondo_match_entries_free(struct rondo_job *job);

// Drops the entry if no registration is left and all members of the last group have registered
// equally often.
void rondo_match_entry_drop_if_even(struct rondo_job *job, struct rondo_match_entry *m,
                                    const struct rondo_registration *last);
// Drops the entry of a job of several processes if nothing is left in it. Does nothing in other
// jobs. Not in a loop over the entries.
void rondo_match_entry_drop_if_over(struct rondo_job *job, struct rondo_match_entry *m);

// Find returns null if the rank has never registered the id. Get adds a history; null: no memory.
struct rondo_match_history *rondo_match_history_find(const struct rondo_match_entry *m,
                                                     uint32_t rank);
struct rondo_match_history *rondo_match_history_get(struct rondo_match_entry *m, uint32_t rank);

// The registration of that generation of a rank, or null if it has ended.
struct rondo_registration *rondo_match_entry_registration(const struct rondo_match_entry *m,
                                                          uint32_t rank, uint64_t generation);
void rondo_match_entry_add(struct rondo_match_entry *m, struct rondo_registration *registration);
void rondo_match_entry_remove(const struct rondo_registration *registration);

#endif // RONDO_RUNTIME_JOB_MATCH_ENTRY_H
