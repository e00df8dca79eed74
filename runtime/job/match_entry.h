// Where the registrations of one id meet: who is there, how often each rank came, who differs.
// The caller holds the lock of the job. Part of the job: see job.h.
#ifndef RONDO_RUNTIME_JOB_MATCH_ENTRY_H
#define RONDO_RUNTIME_JOB_MATCH_ENTRY_H

#include <stdint.h>

#include "runtime/job/job.h"

// How often a rank has registered an id, and how the last of these registrations had failed when it went.
struct rondo_match_history {
  uint32_t rank;
  int failed_status;
  uint32_t failed_by;
  uint64_t times, failed_time;
};

struct rondo_match_entry {
  uint64_t id;
  uint32_t space;
  uint32_t nranks; // of the last registration that came
  struct rondo_registration *registrations;
  struct rondo_communicator *comms;
  struct rondo_match_history *histories;
  uint32_t history_count, history_capacity;
};

// The match entry of an id of a space (register.c): if there is one, and made if there is none. Null when memory is used up.
struct rondo_match_entry *rondo_match_entry_find(struct rondo_job *job, uint32_t space,
                                                 uint64_t id);
struct rondo_match_entry *rondo_match_entry_get(struct rondo_job *job, uint32_t space, uint64_t id);
void rondo_match_entries_free(struct rondo_job *job);
// Forgets the match entry when nobody is there and all members of the last group came equally often.
void rondo_match_entry_drop_if_even(struct rondo_job *job, struct rondo_match_entry *m,
                                    const struct rondo_registration *last);
// The same where an id is used once only, those of communicators: also when members are in other processes. Not
// while match_entries are visited.
void rondo_match_entry_drop_if_over(struct rondo_job *job, struct rondo_match_entry *m);

struct rondo_match_history *rondo_match_history_find(const struct rondo_match_entry *m,
                                                     uint32_t rank);
struct rondo_match_history *rondo_match_history_get(struct rondo_match_entry *m, uint32_t rank);

// The registration of a rank that is there, or null.
struct rondo_registration *rondo_match_entry_party(const struct rondo_match_entry *m, uint32_t rank,
                                                   uint64_t generation);
void rondo_match_entry_enter(struct rondo_match_entry *m, struct rondo_registration *registration);
void rondo_match_entry_take(struct rondo_match_entry *m,
                            const struct rondo_registration *registration);

// 1 if the two registrations are of one id at the same time by ranks of which one names the other.
int rondo_registration_meets(const struct rondo_registration *a,
                             const struct rondo_registration *b);
// The first thing in which two registrations differ, or null.
const char *rondo_registration_difference(const struct rondo_registration *a,
                                          const struct rondo_registration *b);
// Logs it, and writes the reason to `text`, of RONDO_REASON_BYTES.
void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text);

#endif // RONDO_RUNTIME_JOB_MATCH_ENTRY_H
