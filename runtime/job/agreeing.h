// Runs the agreement on registrations (agreement.h) of a job of several processes: gives the core
// its events, sends its messages, and tells match.h what it has decided.
//
//   create -> locate (the roster is known) -> register -> run -> ... deregister ... -> destroy
//
// `job->agreeing` is null if the job is in this process alone. Then all calls below return at once,
// and register returns RONDO_SUCCESS.
//
// The lock of the job is held.
#ifndef RONDO_RUNTIME_JOB_AGREEING_H
#define RONDO_RUNTIME_JOB_AGREEING_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/agreement.h"
#include "runtime/job/job.h"

struct rondo_agreeing {
  struct rondo_agreement core;
  struct rondo_agreement_actions actions;
  uint32_t *process_of; // by rank; null: not known yet
  bool is_running;      // a caller further up the stack carries out the actions
  bool is_behind;       // the core does not know of all ranks that have gone
  bool has_timer;       // what could not be done for lack of memory is tried again
};

// The lock need not be held for these two. `lists` are borrowed. Null: no memory.
struct rondo_agreeing *rondo_agreeing_create(struct rondo_member_lists *lists);
void rondo_agreeing_destroy(struct rondo_agreeing *a);

// The roster is known. Returns false without memory; then nothing can be agreed any more.
bool rondo_agreeing_locate(struct rondo_job *job);

// How often a rank here has registered an id.
uint64_t rondo_agreeing_times(const struct rondo_job *job, const struct rondo_registration *r);
// Sets the generation and the group of a registration. The caller adds the registration to its
// match entry and calls run. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_agreeing_register(struct rondo_job *job, struct rondo_registration *r);
void rondo_agreeing_run(struct rondo_job *job);
// The plan of a registration is known, which it was not when it was made. Before locate.
void rondo_agreeing_plan(struct rondo_job *job, const struct rondo_registration *r);
// The registration ends in all processes: with an error, or after `completed` runs.
void rondo_agreeing_fail(struct rondo_job *job, const struct rondo_registration *r,
                         const struct rondo_agreement_failure *failure);
void rondo_agreeing_deregister(struct rondo_job *job, const struct rondo_registration *r,
                               uint64_t completed);

// The communicator `key` with these members has failed: tells their processes, unless a member is
// lost. Without memory it tells nobody, and logs that: then its registrations fail, and those that
// have made no call learn of it when they make one.
void rondo_agreeing_fail_key(struct rondo_job *job, uint64_t key, const uint32_t *members,
                             uint32_t nranks, const struct rondo_agreement_failure *failure);

// A rank here leaves the job.
void rondo_agreeing_leave(struct rondo_job *job, uint32_t rank);
// A rank of another process has gone. A loss fails the registrations of its groups.
void rondo_agreeing_lose(struct rondo_job *job, uint32_t rank);
// Takes a message of type ENTRY or MEMBERS. Returns false if the message is invalid, or could not
// be taken for lack of memory.
bool rondo_agreeing_receive(struct rondo_job *job, const struct rondo_mesh_message *message);

#endif // RONDO_RUNTIME_JOB_AGREEING_H
