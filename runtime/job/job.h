// The job as this process sees it: its members here, the other processes, and the registrations.
//
//   rondo_job_join (rondo_init) -> rondo_job_register (rondo_register) -> rondo_job_fail ...
//     -> rondo_job_deregister -> rondo_job_leave (rondo_destroy)
//
// A match entry (match_entry.h) holds all registrations of one id by ranks of this process, which
// compares them. The processes of a group agree on the registrations of all members (agreeing.h).
// Within one process, matching sends no message and never waits.
//
// The job calls code of runtime/order/ and runtime/observe/ only through struct
// rondo_job_extension.
#ifndef RONDO_RUNTIME_JOB_JOB_H
#define RONDO_RUNTIME_JOB_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/driver/driver.h"
#include "daemon/plan/cost_file.h"
#include "runtime/job/member_list.h"
#include "runtime/job/members.h"
#include "runtime/transport/transports.h"
#include <rondo/rondo.h>

struct rondo_agreeing;
struct rondo_agreement_failure;
struct rondo_communicator;
struct rondo_job;
struct rondo_match_entry;
struct rondo_owner;
struct rondo_process;
struct rondo_registration;

// A rank of this process, as its job sees it. Its memory stays until rondo_job_leave.
struct rondo_member {
  uint32_t rank;
  uint32_t is_manual; // tests: no threads; the caller steps the blocks
  struct rondo_device *device;
  struct rondo_daemon *daemon;
};

#define RONDO_JOB_EXTENSION_TYPES 4u

// Callbacks of a higher folder. The job's lock is held in all but `open` and `close`. All but those
// two may be null.
struct rondo_job_extension {
  // `open` is called when the first rank joins the job, `close` after the last rank has left, also
  // if `open` failed. `open` returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
  int (*open)(struct rondo_job *job);
  void (*close)(struct rondo_job *job);
  // The process of every rank is known now.
  void (*located)(struct rondo_job *job);
  // A rank of another process has left or is lost.
  void (*lost)(struct rondo_job *job, uint32_t rank);
  // The communicator of a registration made by `owner` may have failed.
  void (*failed)(struct rondo_job *job, struct rondo_owner *owner,
                 const struct rondo_communicator *comm);
  // Another process says that the communicator `key` has failed. The rank `failure->culprit` is one
  // of its members.
  void (*key_failed)(struct rondo_job *job, uint64_t key,
                     const struct rondo_agreement_failure *failure);
  // Called after these two, when no registration is being changed. Does the work that `failed` has
  // put off.
  void (*settle)(struct rondo_job *job);
  // Takes a message of one of `types` (enum rondo_message_type). Returns 0 if the message is
  // invalid, else 1.
  int (*receive)(struct rondo_job *job, const struct rondo_mesh_message *message);
  uint32_t types[RONDO_JOB_EXTENSION_TYPES]; // 0: unused
};

// Whether the roster, which tells the process of each rank, has arrived.
enum rondo_roster_state { RONDO_ROSTER_AWAITED = 0, RONDO_ROSTER_KNOWN, RONDO_ROSTER_FAILED };

// How a rank of another process has gone.
enum rondo_rank_end { RONDO_RANK_LEFT = 1, RONDO_RANK_LOST = 2 };

struct rondo_job {
  struct rondo_job *next;
  bool is_opening; // in the list of jobs, but of no use yet
  bool is_joining; // a rank is being added; the next one waits
  struct rondo_unique_id id;
  uint32_t simulated_process; // tests: number of the process that is simulated; else 0
  uint32_t rank_count;
  uint32_t member_count;
  uint32_t cores;                    // that this process could use when its first rank joined
  uint32_t is_manual;                // tests: no threads
  struct rondo_cost_file *own_model; // of the first rank in this process, or null
  const struct rondo_job_extension *const *extensions; // ends with null
  void *comms, *views;                       // state of runtime/order/ and of runtime/observe/
  pthread_mutex_t lock;                      // guards all below; taken before a rank's own lock
  pthread_cond_t attendance;                 // broadcast when a rank joins or leaves
  struct rondo_member **members;             // by rank; null: not in this process now
  uint8_t *was_here;                         // by rank: 1 if it is, or was, in this process
  void *entries;                             // tree (search.h) of struct rondo_match_entry, by id
  LIST_HEAD(, rondo_match_entry) entry_list; // all entries of the tree
  struct rondo_member_lists lists;           // the groups that ranks here have made or used
  const struct rondo_member_list *world;     // all ranks of the job
  struct rondo_transports transports;
  // Decides algorithms; null: the one that is compiled in. That of rank 0 once the roster is known;
  // own_model before, and in a job of one process.
  const struct rondo_cost_model *model;
  // Device work (device_work.h).
  struct rondo_communicator *unwritten; // list of communicators with writes to devices
  pthread_cond_t written;               // broadcast when a thread has written for a communicator
  uint64_t written_bound_ns;            // how long rondo_device_work_await waits
  struct rondo_pool_want want;          // memory that registrations wait for
  bool is_supplying;                    // a thread asks the driver for it
  // For jobs of several processes (processes.h).
  struct rondo_members *membership; // null: the job is in this process alone
  int roster;                       // enum rondo_roster_state
  int is_leaving;                   // the membership is about to end
  bool is_cut_off;                  // the others go on without this process
  uint8_t *gone;            // by rank of another process: enum rondo_rank_end, 0: it has not gone
  uint32_t self;            // the number of this process
  uint32_t process_count;   // this one included; 0 until the roster is known
  uint32_t competing_ranks; // ranks of other processes that compete for the same cores
  struct rondo_process *processes;
  struct rondo_agreeing *agreeing; // null like `membership`
  uint64_t peer_timeout_ns;        // how long a process that blocks a run may be silent
  uint64_t lending_bytes;          // memory of the ranks here for lending (lending.h); atomic
  uint64_t mark;                   // number of the last round of messages to several processes
  bool was_blocked;                // processes were reported as awaited at the last tick
};

struct rondo_job_request {
  const struct rondo_config *cfg; // completed
  struct rondo_member *member;
  uint32_t simulated_process;
  const struct rondo_job_extension *const *extensions; // ends with null; lasts for ever
  // The file of RONDO_COST_MODEL, or null. The job takes it and writes null, if this is the first
  // rank in this process.
  struct rondo_cost_file **model;
};

// Joins the job that the configuration names. The first rank in this process creates it. Returns
// RONDO_SUCCESS, RONDO_ERR_EXISTS (the rank is taken), RONDO_ERR_INVALID (another rank count),
// RONDO_ERR_UNSUPPORTED (another backend), RONDO_ERR_NO_MEMORY, or what starting the mesh returns.
int rondo_job_join(const struct rondo_job_request *request, struct rondo_job **job);

// Removes the rank. The last rank ends the job in this process. If the root of the job is in this
// process, the last rank waits at most `join_ns` for ranks that have not joined yet.
void rondo_job_leave(struct rondo_job *job, uint32_t rank, int64_t join_ns);

// The list of a group's ranks, which lives as long as the job. `ranks` are distinct ranks of the
// job. Null: no memory, or another list has the same digest. The lock is not held.
const struct rondo_member_list *rondo_job_list(struct rondo_job *job, const uint32_t *ranks,
                                               uint32_t count);

// Calls `visit` for every job of this process. No job ends meanwhile.
void rondo_job_visit(void (*visit)(struct rondo_job *job, void *arg), void *arg);

// Wakes the blocks of the members here after a change of their communicator's gate. The lock is
// held.
void rondo_job_wake_members(struct rondo_job *job, const struct rondo_communicator *comm);

// NOLINTBEGIN(bugprone-macro-parentheses): `call` names a member
// Makes the call `call` (located, lost, ...) of each extension that has it.
#define RONDO_JOB_CALL(job, call, ...)                                                             \
  do {                                                                                             \
    for (const struct rondo_job_extension *const *e_ = (job)->extensions; *e_; e_++)               \
      if ((*e_)->call)                                                                             \
        (*e_)->call(__VA_ARGS__);                                                                  \
  } while (0)
// NOLINTEND(bugprone-macro-parentheses)

// True if the rank has left or is lost. The lock is held.
static inline bool rondo_job_is_gone(const struct rondo_job *job, uint32_t rank) {
  return (job->gone && job->gone[rank]) || (job->was_here[rank] && !job->members[rank]);
}

// How many ranks are not gone. The lock is held.
static inline uint32_t rondo_job_count_left(const struct rondo_job *job) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < job->rank_count; r++)
    count += !rondo_job_is_gone(job, r);
  return count;
}

#endif // RONDO_RUNTIME_JOB_JOB_H
