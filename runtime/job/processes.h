// The other processes of a job: what is sent to them, what comes from them, and their end.
//
// The lock of the job is held unless a comment says otherwise.
#ifndef RONDO_RUNTIME_JOB_PROCESSES_H
#define RONDO_RUNTIME_JOB_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/job/job.h"
#include "runtime/job/message.h"
#include "runtime/job/registration.h"

// What the control plane knows of another process. transports.h has the rest.
struct rondo_process {
  uint8_t is_lost;
  uint8_t is_failed; // about to be given up
  uint8_t is_broken; // the proxy does not reach it any more
  uint64_t mark;     // of the last round of messages that went there
  uint64_t asked_ns; // when it was asked whether it is there; 0: it has answered
};

// Opens the transports and, where the job reaches beyond this process, begins to join it. Returns what
// rondo_transports_open and rondo_mesh_start return. Without the lock.
int rondo_processes_open(struct rondo_job *job, const struct rondo_config *cfg,
                         struct rondo_device *device);
// Leaves the other processes. No rank is left here. `join_ns`: see rondo_job_leave. Without the lock.
void rondo_processes_close(struct rondo_job *job, int64_t join_ns);

// The process of a rank: RONDO_HERE, RONDO_SOMEWHERE (not known yet), or its number.
uint32_t rondo_processes_where(const struct rondo_job *job, uint32_t rank);
// How this process reaches a rank: enum rondo_transport, or -1 if that is not known yet; and why.
int rondo_processes_transport(const struct rondo_job *job, const struct rondo_member *self,
                              uint32_t rank, char *why, size_t why_bytes);

// ---- sending ----

// Sends a message to one process. The first one is preceded by what the transports introduce.
void rondo_processes_send(struct rondo_job *job, uint32_t process, uint32_t type, const void *bytes,
                          size_t size);
// Sends it to the processes of all members, once to each.
void rondo_processes_send_all(struct rondo_job *job, const uint32_t *members, uint32_t nranks,
                              uint32_t type, const void *bytes, size_t size);

// Tells the processes of the other members of a registration: that it is there, with the connectors
// that it offers and how it has failed; that it has ended.
void rondo_processes_announce(struct rondo_job *job, struct rondo_registration *registration);
void rondo_processes_withdraw(struct rondo_job *job, struct rondo_registration *registration,
                              uint64_t completed);
// Tells of the registrations that had ended before it was known which process to tell.
void rondo_processes_tell_early(struct rondo_job *job);

// ---- giving up ----

// Goes on without a process, as if it were lost.
void rondo_processes_give_up(struct rondo_job *job, uint32_t process);
// Does so a moment later, for a caller in the middle of a change.
void rondo_processes_mark_failed(struct rondo_job *job, uint32_t process);

// ---- events.c ----

// The events of the mesh and of the transports; their argument is the job.
extern const struct rondo_mesh_events rondo_job_mesh_events;
extern const struct rondo_transports_events rondo_job_transport_events;
// Looks after the other processes every quarter of the time that they may be silent.
void rondo_processes_watch(struct rondo_job *job);
// Frees the registrations that have come from other processes.
void rondo_processes_free_arrivals(struct rondo_job *job);
// Tells the driver how many ranks of other processes compete for the cores of this one.
void rondo_processes_count_competing(struct rondo_job *job);

#endif // RONDO_RUNTIME_JOB_PROCESSES_H
