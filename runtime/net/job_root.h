// The root of a job: all processes of the job connect to it when they join. One of them hosts it,
// or another process.
//
//   open (addresses, job) -> processes join with their address and ranks -> all get the roster
//     -> the root reports lost ranks to the other processes -> leave
//
// A process sends one frame to join and gets two frames and the roster; the root's traffic is
// linear in the number of processes. At the join timeout the processes that have joined get the
// roster and a report of the missing ranks. Later ones are rejected.
#ifndef RONDO_RUNTIME_NET_JOB_ROOT_H
#define RONDO_RUNTIME_NET_JOB_ROOT_H

#include <stdint.h>

#include "runtime/net/channel.h"

struct rondo_root;

struct rondo_root_config {
  struct rondo_job_key job;
  struct rondo_wire_address *addresses; // a port that is 0 is chosen and written back
  uint32_t address_count;
  uint64_t join_timeout_ns; // counts from the first process that joins
  uint64_t peer_timeout_ns;
};

// Listens and starts. The root closes itself when no process joins in time, or when all that joined
// have left. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM (errno is set).
int rondo_root_open(const struct rondo_root_config *cfg);

// True if the root of the job is in this process and open.
bool rondo_root_is_here(const struct rondo_job_key *job);

// True if the root is in this process and processes may still join. Control thread only.
bool rondo_root_is_gathering(const struct rondo_job_key *job);

// Ends the root of the job if it is in this process, and tells the members. Control thread only.
void rondo_root_leave(const struct rondo_job_key *job);

// Traffic of the root; zeros if it is not in this process. For tests, while the root is open.
void rondo_root_counters(const struct rondo_job_key *job, struct rondo_mesh_counters *out);

// Writes ranks as "3, 5-7, 9"; "…" stands for those that do not fit.
void rondo_root_ranks_text(const uint32_t *ranks, uint32_t count, char *text, size_t bytes);

#endif // RONDO_RUNTIME_NET_JOB_ROOT_H
