// Where the registrations of one id meet: who is there, how often each rank came, who differs.
// The caller holds the lock of the job. Part of the world: see world.h.
#ifndef RONDO_RUNTIME_BOOT_MEETING_H
#define RONDO_RUNTIME_BOOT_MEETING_H

#include <stdint.h>

#include "runtime/boot/world.h"

// How often a rank has registered an id, and how the last of these registrations had failed when it went.
struct rondo_enrolment {
  uint32_t rank;
  int failed_status;
  uint32_t failed_by;
  uint64_t times, failed_time;
};

struct rondo_meeting {
  uint64_t id;
  uint32_t space;
  uint32_t nranks; // of the last party that came
  struct rondo_party *parties;
  struct rondo_communicator *comms;
  struct rondo_enrolment *enrolments;
  uint32_t enrolment_count, enrolment_capacity;
};

// The meeting of an id of a space (register.c): if there is one, and made if there is none. Null when memory is used up.
struct rondo_meeting *rondo_meeting_find(struct rondo_world *world, uint32_t space, uint64_t id);
struct rondo_meeting *rondo_meeting_get(struct rondo_world *world, uint32_t space, uint64_t id);
void rondo_meetings_free(struct rondo_world *world);
// Forgets the meeting when nobody is there and all members of the last group came equally often.
void rondo_meeting_drop_if_even(struct rondo_world *world, struct rondo_meeting *m,
                                const struct rondo_party *last);
// The same where an id is used once only, those of communicators: also when members are in other processes. Not
// while meetings are visited.
void rondo_meeting_drop_if_over(struct rondo_world *world, struct rondo_meeting *m);

struct rondo_enrolment *rondo_enrolment_find(const struct rondo_meeting *m, uint32_t rank);
struct rondo_enrolment *rondo_enrolment_get(struct rondo_meeting *m, uint32_t rank);

// The registration of a rank that is there, or null.
struct rondo_party *rondo_meeting_party(const struct rondo_meeting *m, uint32_t rank,
                                        uint64_t generation);
void rondo_meeting_enter(struct rondo_meeting *m, struct rondo_party *party);
void rondo_meeting_take(struct rondo_meeting *m, const struct rondo_party *party);

// 1 if the two registrations are of one id at the same time by ranks of which one names the other.
int rondo_party_meets(const struct rondo_party *a, const struct rondo_party *b);
// The first thing in which two parties differ, or null.
const char *rondo_party_difference(const struct rondo_party *a, const struct rondo_party *b);
// Logs it, and writes the reason to `text`, of RONDO_REASON_BYTES.
void rondo_party_report_mismatch(const struct rondo_party *a, const struct rondo_party *b,
                                 const char *what, char *text);

#endif // RONDO_RUNTIME_BOOT_MEETING_H
