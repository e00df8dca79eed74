// The root of a job: collects who joins, and makes the roster when all ranks are there or their
// time is over. Pure, as membership.h. It needs no connection to those that have joined.
//
//   rondo_gather_create -> rondo_gather_receive (each JOIN; send the reply) -> rondo_gather_finish
//     -> rondo_gather_destroy
#ifndef RONDO_RUNTIME_JOB_GATHER_H
#define RONDO_RUNTIME_JOB_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/job/membership_message.h"

struct rondo_gather;

// The time begins with the first JOIN. `is_restartable`: processes keep logs (membership.h).
// Returns null without memory.
struct rondo_gather *rondo_gather_create(uint64_t join_timeout_ns, bool is_restartable);
void rondo_gather_destroy(struct rondo_gather *g);

// Writes who a process is, such as "node3, pid 412", from the shell's bytes of its JOIN.
typedef void rondo_gather_describe(const uint8_t *bytes, uint32_t size, char *text,
                                   size_t capacity);
// For the reasons of rejections. Null, as at first: they name ranks alone.
void rondo_gather_set_describe(struct rondo_gather *g, rondo_gather_describe *describe);

// Takes a JOIN. Returns the reply, with one reference; null if the message is malformed or without
// memory: the sender tries again. A process whose further JOIN is rejected ends, so its ranks are
// missing again.
struct rondo_shared_bytes *rondo_gather_receive(struct rondo_gather *g, const void *bytes,
                                                size_t size, uint64_t now_ns);

// The connection to a process was cut, by the number of its JOIN (struct rondo_join). Its ranks are
// missing again until it joins again, unless it has said that it leaves.
void rondo_gather_lose(struct rondo_gather *g, uint64_t who);

// Rejects all who have joined (rondo_gather_remind) and all who come later, because of `text`;
// there will be no roster. False if the roster is made already: then nothing changes.
bool rondo_gather_cancel(struct rondo_gather *g, const char *text);

// Returns the roster once, with one reference, when all ranks are there or the time is over; else
// null. The roster goes to the process of the lowest rank: as BEGIN if it is this one, else as
// ROSTER messages. If that one is lost before others have the roster, to the next one.
struct rondo_shared_bytes *rondo_gather_finish(struct rondo_gather *g, uint64_t now_ns);
// When the time is over; UINT64_MAX: nobody has joined, or the roster was made.
uint64_t rondo_gather_due(const struct rondo_gather *g);

uint32_t rondo_gather_rank_count(const struct rondo_gather *g); // of the job; 0: nobody has joined
uint32_t rondo_gather_joined_count(const struct rondo_gather *g); // ranks
bool rondo_gather_is_finished(const struct rondo_gather *g);      // or cancelled

// The lowest rank of a process that the roster names; RONDO_ROSTER_NOBODY: it names no such
// process, or was not made.
uint32_t rondo_gather_place(const struct rondo_gather *g, uint64_t who);

// Makes a JOINED, which says what is missing, or a REJECTED once the gathering is cancelled. Null
// without memory.
struct rondo_shared_bytes *rondo_gather_remind(const struct rondo_gather *g);

// Writes the ranks that are missing, such as "3, 6-9". Returns how many there are; 0 once the
// gathering is cancelled.
uint32_t rondo_gather_missing(const struct rondo_gather *g, char *text, size_t bytes);

#endif // RONDO_RUNTIME_JOB_GATHER_H
