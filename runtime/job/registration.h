// A registration of one id by a rank of this process.
#ifndef RONDO_RUNTIME_JOB_REGISTRATION_H
#define RONDO_RUNTIME_JOB_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/descriptor.h"
#include "runtime/transport/collective_shape.h"
#include <rondo/rondo.h>

struct rondo_communicator;
struct rondo_plan;

// The application's ids, the ids of communicators' calls, those of votes (runtime/rank/vote.h) and
// those of collectives that continue another one after a loss (runtime/rank/retry.h) are separate
// spaces. A collective is named by its id and the space of that id. RONDO_SPACE_KEY has the keys of
// communicators, which name no collective.
enum rondo_id_space {
  RONDO_SPACE_USER = 0,
  RONDO_SPACE_COMM = 1,
  RONDO_SPACE_VOTE = 2,
  RONDO_SPACE_KEY = 3,
  RONDO_SPACE_RETRY = 4,
  RONDO_SPACE_STATE = 5,
  RONDO_SPACE_COUNT = 6
};

struct rondo_id {
  uint64_t number;
  uint32_t space;    // enum rondo_id_space
  uint32_t reserved; // 0; ids are sent to other processes
};

static inline int rondo_id_compare(struct rondo_id a, struct rondo_id b) {
  if (a.space != b.space)
    return a.space < b.space ? -1 : 1;
  return a.number < b.number ? -1 : a.number > b.number;
}

// What a run has refused: the part that a rank sends in an all-to-all-v, because this rank expects
// another number of elements.
struct rondo_refusal {
  uint32_t rank; // the sender
  int dtype;
  uint64_t told_elems, expected_elems;
};

// The owner of registrations that the application has not made itself: one rank's end of a
// communicator whose calls match by their order. Its registrations fail together.
struct rondo_owner {
  struct rondo_registration *registrations; // guarded by the job's lock
  char why[RONDO_REASON_BYTES];             // written before `failed`
  uint32_t failed;                          // release: status of the failure, or RONDO_SUCCESS
  struct rondo_refusal refusal;             // the first one, guarded by the rank's lock
  uint32_t has_refused;                     // release: 1: `refusal` is written and stays
};

struct rondo_registration;

// Calls of the room above. `home` of the registration is theirs.
struct rondo_registration_calls {
  // Decides the shape, and builds the plan, from the topology of the shape. Returns RONDO_SUCCESS,
  // RONDO_ERR_UNSUPPORTED or RONDO_ERR_INTERNAL. The lock of the job is held.
  int (*plan)(struct rondo_registration *r);
  // Gets device memory for `endpoints`, and writes the plan to the device. Called for registrations
  // whose plan was not known when they were made. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or
  // RONDO_ERR_SYSTEM. No lock is held.
  int (*load)(struct rondo_registration *r);
};

struct rondo_registration {
  struct rondo_registration *next, **link; // of the match entry; what points to this one
  uint64_t generation;                     // the n-th registration of the id on that rank
  uint64_t group;                          // digest of the member list; 0: the job has one process
  struct rondo_id id;
  uint32_t rank, position, nranks;
  uint32_t index;          // in the table of the rank's daemon
  const uint32_t *members; // of the group; outlives the registration
  const struct rondo_collective_desc *desc;
  struct rondo_shape shape;
  struct rondo_communicator *comm;
  const struct rondo_plan *plan;
  uint64_t endpoints; // device memory for the endpoints
  // Shared memory for rondo_binding_gate_writes(plan) of each block; null: the CPU accesses device
  // memory. Filled before the gate opens.
  struct rondo_gate_write *gate_writes;
  const uint64_t *submitted, *completed; // runs; atomic
  uint8_t has_offered;                   // its connectors, to the processes of the plan's peers
  uint8_t is_planned;                    // shape and plan are made
  uint8_t is_written;                    // the device has the collective
  uint8_t is_loaded;                     // the device has memory for the endpoints, and the plan
  int plan_status;                       // why there is no plan: the runs end with it
  const struct rondo_registration_calls *calls;
  void *home;
  struct rondo_owner *owner; // null: the application
  struct rondo_registration *next_owned;
};

// What all members must agree on.
struct rondo_descriptor rondo_registration_descriptor(const struct rondo_registration *r);
// True if two registrations of one id have the same generation, and the group of one contains the
// rank of the other.
bool rondo_registration_is_match(const struct rondo_registration *a,
                                 const struct rondo_registration *b);
// The name of the first property in which two registrations differ, or null.
const char *rondo_registration_difference(const struct rondo_registration *a,
                                          const struct rondo_registration *b);
bool rondo_registration_has_member(const struct rondo_registration *r, uint32_t rank);
// Logs the mismatch and writes it to `text` (RONDO_REASON_BYTES).
void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text);
// The same for an all-to-all-v if `other`, a rank of another process, expects other counts than
// `r`. `theirs`: what `other` sends to the rank of `r`, and what it expects from there.
void rondo_registration_report_counts(const struct rondo_registration *r, uint32_t other,
                                      const uint64_t *theirs, char *text);

#endif // RONDO_RUNTIME_JOB_REGISTRATION_H
