// The other processes of a job: sending to them, receiving from them, and losing them.
//
// The lock of the job is held unless a comment says otherwise.
#ifndef RONDO_RUNTIME_JOB_PROCESSES_H
#define RONDO_RUNTIME_JOB_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/plan/plan_topology.h"
#include "runtime/job/job.h"
#include "runtime/job/message.h"
#include "runtime/job/registration.h"

// What the control plane knows of another process. transports.h has the data plane's part.
struct rondo_process {
  uint8_t is_lost;
  uint8_t is_failed;  // about to be given up
  uint8_t is_broken;  // the proxy no longer reaches it
  uint8_t is_awaited; // runs here waited for it at the last tick
  uint32_t competing; // ranks there that compete for this process's cores
  uint32_t cores;     // that processes of the job may use on its machine; 0: unknown
  uint32_t ports;     // InfiniBand or RoCE ports of its machine; 0: unknown
  uint64_t machine;   // equal for processes of one machine
  uint64_t mark;      // of the last round of messages that included it
};

// Opens the transports. If the job has several processes, starts to join it. Returns what
// rondo_transports_open and the start of the members return. The lock is not held.
int rondo_processes_open(struct rondo_job *job, const struct rondo_config *cfg,
                         struct rondo_device *device);
// Where a rank with that device is, for the roster.
struct rondo_topology_place rondo_processes_place(const struct rondo_device *device);
// Leaves the other processes. No rank is left here. `join_ns`: see rondo_job_leave. The lock is not
// held.
void rondo_processes_close(struct rondo_job *job, int64_t join_ns);

// The process of a rank: RONDO_HERE, RONDO_SOMEWHERE (not known yet), or a number.
uint32_t rondo_processes_where(const struct rondo_job *job, uint32_t rank);
// True if a rank of the job is in that process: a message from there may speak for the rank.
bool rondo_processes_is_rank_at(const struct rondo_job *job, uint32_t rank, uint32_t process);
// True if a rank of that process has not gone.
bool rondo_processes_has_rank(const struct rondo_job *job, uint32_t process);
// Returns how this process reaches a rank (enum rondo_transport), or -1 if that is not known yet.
// Writes the reason to `why`.
int rondo_processes_transport(const struct rondo_job *job, const struct rondo_member *self,
                              uint32_t rank, char *why, size_t why_bytes);

// Sets over how many connections of the network this process sends to that of a rank; 0: keeps the
// number. Returns the number, or 0 if `self` does not reach the rank in that way.
uint32_t rondo_processes_spread(const struct rondo_job *job, const struct rondo_member *self,
                                uint32_t rank, uint32_t endpoints);

// The topology of a group, whose ranks are all at a known process or gone. It lives as long as the
// job. Null: no memory, or another list has the digest of this one.
const struct rondo_plan_topology *
rondo_processes_topology(struct rondo_job *job, const uint32_t *members, uint32_t nranks);

// ---- sending ----

// Sends a message to one process. Before the first one the transports introduce themselves.
void rondo_processes_send(struct rondo_job *job, uint32_t process, uint32_t type, const void *bytes,
                          size_t size);

// ---- process_events.c ----

// The events of the members and of the transports; their argument is the job.
extern const struct rondo_members_events rondo_job_members_events;
extern const struct rondo_transports_events rondo_job_transport_events;
// Starts a timer that checks the other processes four times in `peer_timeout_ns`.
void rondo_processes_watch(struct rondo_job *job);

#endif // RONDO_RUNTIME_JOB_PROCESSES_H
