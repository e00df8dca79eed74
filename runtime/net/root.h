// The root: where the processes of a job meet, in one of them or beside them.
//
//   open (addresses, job) -> members come, say where they are -> all get the roster
//     -> the root watches: who goes is told to all the others -> leave
//
// Each member sends one frame and gets two and its share of the roster: linear in the number of
// processes. When the time for joining is over, those who are there get the roster, and those who are
// not are reported as lost. Whoever comes then is rejected.
#ifndef RONDO_RUNTIME_NET_ROOT_H
#define RONDO_RUNTIME_NET_ROOT_H

#include <stdint.h>

#include "runtime/net/channel.h"

struct rondo_root;

struct rondo_root_config {
  struct rondo_job_key job;
  struct rondo_wire_address *addresses; // ports that are 0 are written back
  uint32_t address_count;
  uint64_t join_timeout_ns; // from the first member's coming, or from now if none comes
  uint64_t peer_timeout_ns;
};

// Opens the door and starts. The root closes itself when nobody came in time, or when all who came
// have gone. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM (errno is set).
int rondo_root_open(const struct rondo_root_config *cfg);

// 1 if the root of the job is in this process and open.
int rondo_root_is_here(const struct rondo_job_key *job);

// 1 if it is, and not all have come who may yet come. Control thread only.
int rondo_root_is_gathering(const struct rondo_job_key *job);

// Ends the root of that job, if it is here: tells the members that it goes. Control thread only.
void rondo_root_leave(const struct rondo_job_key *job);

// What it has done; zeros if it is not here. For tests.
void rondo_root_counters(const struct rondo_job_key *job, struct rondo_mesh_counters *out);

// Writes "3, 5-7, 9" and, where that is too long, "…".
void rondo_root_ranks_text(const uint32_t *ranks, uint32_t count, char *text, size_t bytes);

#endif // RONDO_RUNTIME_NET_ROOT_H
