// One rank's registration of one id.
#ifndef RONDO_RUNTIME_JOB_REGISTRATION_H
#define RONDO_RUNTIME_JOB_REGISTRATION_H

#include <stdint.h>

#include "runtime/transport/shape.h"
#include <rondo/rondo.h>

struct rondo_communicator;
struct rondo_connector_offer;
struct rondo_plan;

// The ids of the application's own registrations and those of the calls of communicators are apart: a
// collective is named by its id and the space of that id.
enum rondo_id_space { RONDO_SPACE_USER = 0, RONDO_SPACE_COMM = 1 };

struct rondo_id {
  uint64_t number;
  uint32_t space; // enum rondo_id_space
};

// Who has made registrations besides the application: one rank's end of a communicator whose calls match
// by their order. Its registrations fail together.
struct rondo_owner {
  struct rondo_registration *registrations; // guarded by the lock of the job
  char why[RONDO_REASON_BYTES];             // in place before `failed` is
  uint32_t failed;                          // release: status; RONDO_SUCCESS: it has not
};

struct rondo_registration {
  struct rondo_registration *next; // of the match entry
  uint64_t generation;             // the n-th registration of the id on that rank
  struct rondo_id id;
  uint32_t rank, position, nranks;
  uint32_t process;        // RONDO_HERE, or the process that sent it
  const uint32_t *members; // of the group; lasts longer than the registration
  const struct rondo_collective_desc *desc;
  struct rondo_shape shape;
  struct rondo_communicator *comm; // of a rank elsewhere: null until a member is here
  // Of a rank here.
  const struct rondo_plan *plan;
  uint64_t endpoints; // device memory for the endpoints, written before the gate opens
  const uint64_t *submitted, *completed; // runs; atomic
  uint8_t is_announced;                  // the processes of the other members know of it
  struct rondo_owner *owner;             // null: the application
  struct rondo_registration *next_owned;
  // Of a rank elsewhere: its failure before any member was here, and the connectors that it offers.
  int failed_status;
  uint32_t failed_by;
  uint32_t offer_count;
  const struct rondo_connector_offer *offers;
};

// 1 if both are of one id at the same time, by ranks of which one names the other in its group.
int rondo_registration_meets(const struct rondo_registration *a,
                             const struct rondo_registration *b);
// The first thing in which two registrations differ, or null.
const char *rondo_registration_difference(const struct rondo_registration *a,
                                          const struct rondo_registration *b);
// Logs the mismatch and writes it to `text` (RONDO_REASON_BYTES).
void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text);

#endif // RONDO_RUNTIME_JOB_REGISTRATION_H
