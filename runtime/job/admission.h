// The newcomers of a running job: processes that ask to join it, until the members admit them.
// Pure, as gather.h.
//
//   rondo_admission_create -> rondo_admission_receive (each ENTER; send the reply)
//     -> reserve -> admit (send the news) -> settle ... -> rondo_admission_destroy
//
// The members vote on how many newcomers they admit (runtime/rank/vote.h). Before the vote the
// oldest ones are reserved. After it they are admitted: they get the id of the job that they and
// the members join. If that fails, they wait again.
#ifndef RONDO_RUNTIME_JOB_ADMISSION_H
#define RONDO_RUNTIME_JOB_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/membership_message.h"

struct rondo_admission;

// Returns null without memory.
struct rondo_admission *rondo_admission_create(void);
void rondo_admission_destroy(struct rondo_admission *a);

// Takes a message of a process and writes its number to `who`; 0: it is no newcomer. Returns the
// reply: JOINED with the number of newcomers that wait, ADMITTED, or REJECTED for a JOIN and for a
// newcomer that is refused. Null if the message is malformed, or without memory.
struct rondo_shared_bytes *rondo_admission_receive(struct rondo_admission *a, const void *bytes,
                                                   size_t size, uint64_t *who);
// The connection to a newcomer was cut, and it has no other one.
void rondo_admission_lose(struct rondo_admission *a, uint64_t who);

// How many newcomers wait and are not reserved.
uint32_t rondo_admission_pending(const struct rondo_admission *a);
// Reserves the oldest newcomers that wait, at most `most`; nobody if fewer than `fewest` wait.
// Returns how many it has reserved.
uint32_t rondo_admission_reserve(struct rondo_admission *a, uint32_t fewest, uint32_t most);
// Refuses all that wait and are not reserved, with RONDO_ERR_FULL and `text`, until they are gone.
void rondo_admission_refuse(struct rondo_admission *a, const char *text);
// Admits those that are reserved: the first one gets the rank `first->rank`.
void rondo_admission_admit(struct rondo_admission *a, const struct rondo_admitted *first);
// How a vote has ended for those reserved or admitted: they have joined the new job with the
// members; or they wait again, before all others; or after all others, as one of them did not join
// in time and would hinder the next vote, too.
enum rondo_admission_end { RONDO_ADMISSION_JOINED, RONDO_ADMISSION_AGAIN, RONDO_ADMISSION_LATE };
void rondo_admission_settle(struct rondo_admission *a, enum rondo_admission_end end);
// True if a newcomer that is reserved or admitted is gone. Writes who it was to `text`, of
// RONDO_MEMBERSHIP_TEXT_BYTES.
bool rondo_admission_has_lost(const struct rondo_admission *a, char *text);

// The ADMITTED or REJECTED that a newcomer has not got yet; null: there is none, or without memory.
struct rondo_shared_bytes *rondo_admission_news(struct rondo_admission *a, uint64_t who);

#endif // RONDO_RUNTIME_JOB_ADMISSION_H
