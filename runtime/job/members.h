// The members of a job: which processes there are, where they are, which of them are lost, and
// messages between them. The shell of the membership core (membership.h) and of the root's
// gathering (gather.h), on the control thread of the mesh (runtime/net/mesh.h).
//
//   start (the first rank here) -> add_rank (each further one)
//     -> `roster`: where each rank is -> send / `receive` ... `lost` -> remove_rank -> stop
//
// A process has one of these per job, whatever the number of its ranks. It joins in the background.
// Only `stop` and rondo_members_await wait for other processes, both for a bounded time. All
// processes of a job are told of the same lost processes, in the same order.
//
// Messages from one process to another arrive whole, once and in order; if that is impossible,
// `lost` reports the sender. A process is a number below `process_count`, the same on all processes
// of the job.
#ifndef RONDO_RUNTIME_JOB_MEMBERS_H
#define RONDO_RUNTIME_JOB_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/net/mesh.h"

struct rondo_cost_model;
struct rondo_members;
struct rondo_topology;
struct rondo_topology_place;

// Where a process is. Processes with equal `machine` have the same boot of the same kernel and the
// same network namespace: they can pass file descriptors to each other and so share memory.
struct rondo_members_process {
  uint64_t machine[2];
  // Inodes. Processes whose inodes are equal may read each other's memory.
  uint64_t pid_namespace, user_namespace;
  uint32_t pid; // in its own namespace
  uint32_t uid;
  uint32_t asks_window;  // 1: its devices are to share memory through an NCCL window
  uint32_t cores;        // that processes of the job may use on its machine; 0: unknown
  uint32_t ports;        // InfiniBand or RoCE ports of its machine; 1 if it has none
  uint32_t rank_count;   // ranks that live there
  const uint32_t *ranks; // ascending; valid until `stop`
  const char *host;      // its own name for its host; valid until `stop`
};

// Why ranks are lost. A lost rank does not come back.
enum rondo_lost_reason {
  RONDO_LOST_LEFT = 1,    // called `remove_rank` or `stop`
  RONDO_LOST_DIED = 2,    // its process has ended without leaving the job
  RONDO_LOST_SILENT = 3,  // it does not answer, or its machine cannot be reached any more
  RONDO_LOST_MISSING = 4, // did not join before the join timeout
  RONDO_LOST_BROKE = 5,   // violated the protocol, or may have missed messages
  RONDO_LOST_SELF = 6     // they live: this process was put out, or cannot reach a majority
};

// Callbacks. The control thread calls them, one at a time; they must be brief. They may call
// everything below except `stop` and rondo_members_await. Any may be null.
struct rondo_members_events {
  // Called once, when the first epoch is open. Ranks that never joined are reported as lost right
  // after. Nothing can be sent and nothing is received before.
  void (*roster)(void *arg);
  void (*receive)(void *arg, struct rondo_mesh_message *message);
  // Each lost rank of another process is reported once. One call reports all ranks that are lost
  // together. `text` gives the reason, and host, process and address as far as they are known. If
  // this process could not join, `roster` is not called and every other rank is lost; the same if
  // the others have given up this process, or it cannot reach a majority of the keepers.
  void (*lost)(void *arg, const uint32_t *ranks, uint32_t rank_count, int reason, const char *text);
  // Asks for the cost model of this process; null: it has none. Called, also before `start`
  // returns, if rank 0 is here: its model is that of the job. The model does not change until
  // `stop`.
  const struct rondo_cost_model *(*model)(void *arg);
};

// Tests replace these calls before they make any rank.
struct rondo_members_calls {
  // True if the job of this configuration may reach beyond this process, so that it needs a mesh:
  // its id comes from rondo_unique_id_listen or from a launcher's environment.
  bool (*is_needed)(const struct rondo_config *cfg);

  // Starts to join the job of `cfg` (completed; copied) with rank cfg->rank, which is at `place`
  // (null: unknown). Does not wait.
  // Returns RONDO_SUCCESS; RONDO_ERR_UNSUPPORTED (no network interface fits); RONDO_ERR_INVALID
  // (the id or the environment is malformed); RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM. `lost` reports
  // later failures.
  int (*start)(const struct rondo_config *cfg, const struct rondo_topology_place *place,
               const struct rondo_members_events *events, void *arg,
               struct rondo_members **members);

  // Adds one more rank of this process. The join timeout holds for it too.
  // Returns RONDO_SUCCESS, RONDO_ERR_EXISTS, RONDO_ERR_TIMEOUT (too late) or RONDO_ERR_NO_MEMORY.
  int (*add_rank)(struct rondo_members *members, uint32_t rank,
                  const struct rondo_topology_place *place);
  // Tells the other processes that a rank leaves. This process goes on.
  void (*remove_rank)(struct rondo_members *members, uint32_t rank);

  // The roster. Any thread may read it. A process number is RONDO_MESH_NOBODY before `roster` and
  // for ranks that never joined.
  uint32_t (*self)(struct rondo_members *members);
  uint32_t (*process_count)(struct rondo_members *members); // 0 before `roster`
  uint32_t (*process_of)(struct rondo_members *members, uint32_t rank);
  // True if file descriptors can be sent to that process.
  bool (*is_same_machine)(struct rondo_members *members, uint32_t process);
  // Where each rank is; null before `roster`. Valid until `stop`. May be null.
  const struct rondo_topology *(*topology)(struct rondo_members *members);
  // The cost model of the job; null: it has none, or before `roster`. Valid until `stop`. May be
  // null.
  const struct rondo_cost_model *(*model)(struct rondo_members *members);
  // Returns RONDO_SUCCESS or RONDO_ERR_UNKNOWN.
  int (*process_get)(struct rondo_members *members, uint32_t process,
                     struct rondo_members_process *out);
  // rondo_mesh_address_of, rondo_mesh_send, rondo_mesh_is_full (may be null: never full) and
  // rondo_mesh_after.
  uint32_t (*address_of)(struct rondo_members *members, uint32_t process,
                         struct sockaddr_storage *out);
  int (*send)(struct rondo_members *members, const struct rondo_mesh_send *message);
  bool (*is_full)(struct rondo_members *members);
  int (*after)(struct rondo_members *members, uint64_t delay_ns, void (*call)(void *arg),
               void *arg);

  // Runs here have waited for exactly these processes for some time: one that does not answer is
  // removed from the job. To be repeated while they wait, and with none when none waits any more.
  // May be null.
  void (*blocked)(struct rondo_members *members, const uint32_t *processes, uint32_t count);
  // The process has sent an invalid message, or cannot be reached by other means: it is removed
  // from the job. May be null.
  void (*give_up)(struct rondo_members *members, uint32_t process, const char *text);

  // Tells the others that this process leaves, closes all connections and frees the members. No
  // callback runs after the return. Must not be called from a callback.
  //
  // - Queued messages are sent as far as the network takes them. The call gives up when nothing has
  //   gone on for `timeout_ns`.
  // - If this process hosts the root and no other job here needs the root, the call waits for ranks
  //   that have not joined yet, because they could not join without the root. The wait ends after
  //   `join_ns`, or at the join timeout if that comes first.
  // - If this process has not joined yet, the call first tells the root that the process leaves, so
  //   that the root does not wait for it. That takes at most `join_ns`. A launcher's root may never
  //   start; if it does not answer, the call gives up after the smaller of ten seconds and
  //   peer_timeout_ns.
  void (*stop)(struct rondo_members *members, int64_t timeout_ns, int64_t join_ns);
};
// A library that was built without the mesh has `is_needed` alone, which is always false.
extern const struct rondo_members_calls *rondo_members_calls;

// Waits at most `timeout_ns` until `roster` has been called or joining has failed.
// Returns RONDO_SUCCESS; RONDO_ERR_TIMEOUT (not yet: the log names the missing ranks as far as this
// process knows them); RONDO_ERR_PEER (the job could not be joined, or some ranks never joined).
int rondo_members_await(struct rondo_members *members, int64_t timeout_ns);

// The mesh below. For tests.
struct rondo_mesh *rondo_members_mesh(struct rondo_members *members);

// Collects who joins, for a root in this process (job_root.h).
struct rondo_root_gatherer;
extern const struct rondo_root_gatherer rondo_members_gatherer;

// Ends the gathering of a job whose root is in this process, unless the roster is made already:
// then returns false, and all who are in the roster go on. Else all who have joined, or come later,
// are rejected because of `text`. Not on the control thread.
bool rondo_members_cancel(const struct rondo_job_key *job, const char *text);

#endif // RONDO_RUNTIME_JOB_MEMBERS_H
