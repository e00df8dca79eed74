// The root of a job: all processes of the job connect to it when they join. One of them hosts it,
// or another process. It has the connections; a gatherer of a higher room has the members.
//
//   open (addresses, job, gatherer) -> processes send what they join with, and get replies
//     -> the process of the lowest rank gets the roster and passes it on -> leave
//
// A process sends one frame to join and gets one back; the root's traffic is linear in the number
// of processes. At the join timeout the roster is made of those that have joined. Later ones are
// rejected. A process says BYE when it has the roster. When all have, the root says BYE. If one is
// lost before, the next one that has not said BYE gets the roster from the root, too: else nobody
// might have it.
#ifndef RONDO_RUNTIME_NET_JOB_ROOT_H
#define RONDO_RUNTIME_NET_JOB_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/net/channel.h"

struct rondo_root;

// Collects who joins. All calls are on the control thread, except `create`, which any thread may
// make. The messages have references of the caller.
struct rondo_root_gatherer {
  void *(*create)(uint64_t join_timeout_ns); // null without memory
  void (*destroy)(void *gather);
  // Takes a message of a process that joins and returns the reply; null if it is malformed. Writes
  // the number of the process, which it has chosen itself, to `who`. 0: it was rejected.
  struct rondo_shared_bytes *(*receive)(void *gather, const void *bytes, size_t size,
                                        uint64_t now_ns, uint64_t *who);
  // The connection to a process was cut while it joined.
  void (*lose)(void *gather, uint64_t who);
  // Makes the roster if all are there or their time is over. True if it has been made now, or if
  // there will be none since now.
  bool (*finish)(void *gather, uint64_t now_ns);
  uint64_t (*due)(const void *gather); // when the time is over; UINT64_MAX: nobody has joined
  // Once it is made: the lowest rank of a process in the roster (UINT32_MAX: it is not in it), and
  // the messages with the roster; null after the last one, or without memory.
  uint32_t (*place)(const void *gather, uint64_t who);
  struct rondo_shared_bytes *(*part)(void *gather, uint32_t index);
  // Writes the ranks that are missing, such as "3, 6-9". Returns how many there are.
  uint32_t (*missing)(const void *gather, char *text, size_t bytes);
  // The message that tells a process of them.
  struct rondo_shared_bytes *(*remind)(const void *gather);
  uint32_t (*rank_count)(const void *gather); // 0: nobody has joined
  // A message for a process that is connected, after a rondo_root_call; null: there is none.
  struct rondo_shared_bytes *(*news)(void *gather, uint64_t who);
};

struct rondo_root_config {
  struct rondo_job_key job;
  struct rondo_wire_address *addresses; // a port that is 0 is chosen and written back
  uint32_t address_count;
  const struct rondo_root_gatherer *gatherer; // outlives the root
  uint64_t join_timeout_ns;                   // counts from the first process that joins
  uint64_t peer_timeout_ns;
};

// Listens and starts. The root closes itself when no process joins in time. Returns RONDO_SUCCESS,
// RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM (errno is set).
int rondo_root_open(const struct rondo_root_config *cfg);

// Runs `call(gather, arg)` on the control thread, sends the news that follow, and waits for that.
// False if the root is not in this process, or has another gatherer. Not on the control thread.
bool rondo_root_call(const struct rondo_job_key *job, const struct rondo_root_gatherer *gatherer,
                     void (*call)(void *gather, void *arg), void *arg);
// Ends the root of the job if it is in this process. Not on the control thread.
void rondo_root_close(const struct rondo_job_key *job);

// True if the root of the job is in this process and open.
bool rondo_root_is_here(const struct rondo_job_key *job);

// True if the root is in this process and processes may still join, or the roster is not on its way
// yet. Control thread only.
bool rondo_root_is_gathering(const struct rondo_job_key *job);

// Ends the root of the job if it is in this process. Returns true if it has ended, or ends soon.
// One whose gathering a call has ended goes on for the join timeout, to reject those that come
// late. Control thread only.
bool rondo_root_leave(const struct rondo_job_key *job);

// Traffic of the root; zeros if it is not in this process. For tests, while the root is open.
void rondo_root_counters(const struct rondo_job_key *job, struct rondo_mesh_counters *out);

#endif // RONDO_RUNTIME_NET_JOB_ROOT_H
