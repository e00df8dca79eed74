// Admission of newcomers to a running job: the root in a member's process at which newcomers ask
// (admission.h), and a newcomer's way to it.
//
//   member: rondo_admission_listen -> pending, reserve -> admit -> settle ... -> close
//   newcomer: rondo_newcomer_start -> await ... -> rondo_newcomer_stop
//
// No call is for the control thread. Except `await`, they wait for the control thread alone.
#ifndef RONDO_RUNTIME_JOB_ADMISSION_ROOT_H
#define RONDO_RUNTIME_JOB_ADMISSION_ROOT_H

#include "runtime/job/admission.h"
#include "runtime/net/job_address.h"

// ---- in the process of a member ----

// Opens the root with a completed configuration and makes the id that newcomers need. Returns as
// rondo_unique_id_listen.
int rondo_admission_listen(const struct rondo_config *cfg, struct rondo_unique_id *id);
void rondo_admission_close(const struct rondo_job_key *key);

// As in admission.h. They return false also if the root is not in this process.
bool rondo_admission_root_pending(const struct rondo_job_key *key, uint32_t *count);
// Writes also how many still wait.
bool rondo_admission_root_reserve(const struct rondo_job_key *key, uint32_t fewest, uint32_t most,
                                  uint32_t *reserved, uint32_t *waiting);
bool rondo_admission_root_refuse(const struct rondo_job_key *key, char *text);
bool rondo_admission_root_admit(const struct rondo_job_key *key,
                                const struct rondo_admitted *first);
bool rondo_admission_root_settle(const struct rondo_job_key *key, enum rondo_admission_end end);
bool rondo_admission_root_has_lost(const struct rondo_job_key *key, char *text);

// ---- in the process of a newcomer ----

struct rondo_newcomer;

// Starts to ask at the root of cfg->id (completed configuration). Returns as rondo_mesh_start.
int rondo_newcomer_start(const struct rondo_config *cfg, struct rondo_newcomer **out);
// Waits until `end_ns` of rondo_now_ns for an admission that no earlier call has returned. Returns
// RONDO_SUCCESS; RONDO_ERR_TIMEOUT; RONDO_ERR_INVALID or RONDO_ERR_FULL (rejected), or
// RONDO_ERR_PEER (the root is gone); `why` (RONDO_MEMBERSHIP_TEXT_BYTES) says what is awaited, or
// why.
int rondo_newcomer_await(struct rondo_newcomer *n, uint64_t end_ns, struct rondo_admitted *admitted,
                         char *why);
// The key of the id, for rondo_unique_id_unseal.
const struct rondo_job_key *rondo_newcomer_key(const struct rondo_newcomer *n);
void rondo_newcomer_stop(struct rondo_newcomer *n);

#endif // RONDO_RUNTIME_JOB_ADMISSION_ROOT_H
