// The job as this process sees it: its members here, the other processes, and all registrations.
//
//   rondo_job_join (rondo_init) -> rondo_job_register (rondo_register) -> rondo_job_fail ...
//     -> rondo_job_deregister -> rondo_job_leave (rondo_destroy)
//
// Registrations of one id meet in a match entry (match_entry.h). Within one process that takes no
// message and no wait. Each process that has a member of the group keeps a copy of every registration:
// one that arrives as a message stands beside those made here. So each process decides by itself, from
// the same registrations.
//
// The job calls higher rooms through struct rondo_job_extension only.
#ifndef RONDO_RUNTIME_JOB_JOB_H
#define RONDO_RUNTIME_JOB_JOB_H

#include <pthread.h>
#include <stdint.h>

#include "daemon/driver/driver.h"
#include "runtime/net/mesh.h"
#include "runtime/transport/transports.h"
#include <rondo/rondo.h>

struct rondo_communicator;
struct rondo_early;
struct rondo_job;
struct rondo_match_entry;
struct rondo_owner;
struct rondo_process;
struct rondo_registration;

// A rank of this process, as its job sees it. The owner keeps it until rondo_job_leave.
struct rondo_member {
  uint32_t rank;
  uint32_t is_manual; // tests: no threads; the caller steps the blocks
  struct rondo_device *device;
  struct rondo_daemon *daemon;
};

#define RONDO_JOB_EXTENSION_TYPES 4u

// What a higher room does for every job. All but `open` and `close` are called under the job's lock. Any
// may be null.
struct rondo_job_extension {
  // With the first and after the last rank of the job. `open` returns RONDO_SUCCESS or
  // RONDO_ERR_NO_MEMORY; `close` follows in both cases.
  int (*open)(struct rondo_job *job);
  void (*close)(struct rondo_job *job);
  // It is known now where every rank is.
  void (*located)(struct rondo_job *job);
  // A rank of another process is gone.
  void (*lost)(struct rondo_job *job, uint32_t rank);
  // The communicator of a registration that `owner` has made may have failed.
  void (*failed)(struct rondo_job *job, struct rondo_owner *owner,
                 const struct rondo_communicator *comm);
  // What `failed` began may be carried on: no registration is in the middle of a change.
  void (*settle)(struct rondo_job *job);
  // Takes a message of one of `types` (enum rondo_message_type). Returns 1, or 0 if no member sends such a
  // thing.
  int (*receive)(struct rondo_job *job, const struct rondo_mesh_message *message);
  uint32_t types[RONDO_JOB_EXTENSION_TYPES]; // 0: no more
};

enum rondo_roster { RONDO_ROSTER_AWAITED = 0, RONDO_ROSTER_KNOWN, RONDO_ROSTER_FAILED };

struct rondo_job {
  struct rondo_job *next;
  struct rondo_unique_id id;
  uint32_t simulated_process; // tests: several processes of a job in one; else 0
  uint32_t rank_count;
  uint32_t member_count;
  uint32_t is_manual;                                  // tests: no threads
  const struct rondo_job_extension *const *extensions; // ends with null
  void *comms, *views;           // state of the extensions in order and in observe
  pthread_mutex_t lock;          // guards all below; taken before a rank's own lock
  pthread_cond_t attendance;     // told when a rank comes or goes (rondo_job_notify)
  struct rondo_member **members; // by rank; null: not in this process now
  uint8_t *was_here;             // by rank: 1 if it is, or was, in this process
  void *entries;                 // tree (search.h) of struct rondo_match_entry, by id
  struct rondo_transports transports;
  // Of a job of several processes (processes.h).
  struct rondo_mesh *mesh;  // null: the job is in this process alone
  int roster;               // enum rondo_roster
  int is_leaving;           // the mesh is about to end
  uint8_t *gone;            // by rank: 1 if it is lost, or has left, elsewhere
  uint32_t self;            // the number of this process
  uint32_t process_count;   // this one included; 0 until the roster is known
  uint32_t competing_ranks; // ranks of other processes that want the same cores
  struct rondo_process *processes;
  struct rondo_early *early, **early_end;
  uint64_t peer_timeout_ns; // how long a process may be silent on which a run is blocked
  uint64_t mark;            // of the last round of messages
  uint64_t tick_ns;         // when the watch over processes is due next
};

struct rondo_job_request {
  const struct rondo_config *cfg; // completed
  struct rondo_member *member;
  uint32_t simulated_process;
  const struct rondo_job_extension *const *extensions; // ends with null; lasts for ever
};

// Joins the job that the configuration names, and makes it if this is its first rank here. Returns
// RONDO_SUCCESS, RONDO_ERR_EXISTS (the rank is taken), RONDO_ERR_INVALID (another rank count),
// RONDO_ERR_UNSUPPORTED (another backend), RONDO_ERR_NO_MEMORY, or what rondo_mesh_start returns.
int rondo_job_join(const struct rondo_job_request *request, struct rondo_job **job);

// Takes the rank out, and ends the job here with its last rank. Bounded: where the root of the job is in
// this process, ranks that have not joined yet are waited for, at most `join_ns`.
void rondo_job_leave(struct rondo_job *job, uint32_t rank, int64_t join_ns);

// Wakes the threads that wait for ranks to come or to go. The lock is held.
void rondo_job_notify(struct rondo_job *job);

// Calls `visit` for every job of this process. Jobs cannot end meanwhile.
void rondo_job_visit(void (*visit)(struct rondo_job *job, void *arg), void *arg);

// Wakes the blocks of the members here: the gate of their communicator has changed. The lock is held.
void rondo_job_wake_members(struct rondo_job *job, const struct rondo_communicator *comm);

// What extensions are told; the lock is held.
void rondo_job_tell_located(struct rondo_job *job);
void rondo_job_tell_lost(struct rondo_job *job, uint32_t rank);
void rondo_job_tell_failed(struct rondo_job *job, struct rondo_owner *owner,
                           const struct rondo_communicator *comm);
void rondo_job_settle(struct rondo_job *job);
int rondo_job_receive(struct rondo_job *job, const struct rondo_mesh_message *message);

#endif // RONDO_RUNTIME_JOB_JOB_H
