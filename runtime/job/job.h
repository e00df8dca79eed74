// The job as this process sees it: its ranks, and where their registrations of one id meet.
//
//   job_join (rondo_init) -> job_match (rondo_register) -> job_unmatch -> job_leave
//
// In one process members meet directly: no message, and nobody waits. Every rank that
// registers an id is compared with those that it names or that name it; where
// descriptors differ, both communicators are closed for good and the log names both sides.
//
// Ranks in other processes meet in each process that has a member: a registration that arrives as a
// message stands beside those made here, as a registration whose rank is elsewhere (peers.h). So whatever
// is decided, each process decides by itself, from the same registrations.
#ifndef RONDO_RUNTIME_JOB_JOB_H
#define RONDO_RUNTIME_JOB_JOB_H

#include <pthread.h>
#include <stdint.h>

#include "daemon/driver/driver.h"
#include "runtime/memory/pins.h"
#include "runtime/memory/pool.h"
#include "runtime/memory/range.h"
#include "runtime/net/mesh.h"
#include "runtime/observe/views.h"
#include "runtime/order/detach.h"
#include "runtime/order/failure.h"
#include "runtime/order/journal.h"
#include "runtime/transport/communicator.h"
#include <rondo/rondo.h>

struct rondo_rank;
struct rondo_peer;
struct rondo_early;
struct rondo_offer;
struct rondo_comm_end;
struct rondo_window_group;

enum rondo_roster { RONDO_ROSTER_AWAITED = 0, RONDO_ROSTER_KNOWN, RONDO_ROSTER_FAILED };

struct rondo_job {
  struct rondo_job *next;
  struct rondo_unique_id id;
  uint32_t process; // tests: several processes of a job in one; else 0
  uint32_t rank_count;
  uint32_t member_count;
  uint64_t peer_timeout_ns;     // how long a process on which somebody is blocked may be silent
  pthread_mutex_t lock;         // guards all below; taken before a rank's own lock
  struct rondo_rank **members;  // by rank; null while absent
  uint8_t *was_here;            // by rank: 1 if it is, or was, in this process
  pthread_cond_t attendance;    // who is there has changed, or who waits for it shall look
  struct rondo_device *device;  // opened by the job, as its first rank's
  struct rondo_device **others; // likewise: those of later ranks
  uint32_t other_count;
  struct rondo_pool pool;
  struct rondo_journals journals;       // of communicators
  struct rondo_latest_list detachments; // likewise
  struct rondo_latest_list failures;    // likewise
  struct rondo_comm_end *failing;       // communicators whose collectives have to fail yet
  int is_failing;
  void *match_entries; // tree (search.h) of struct rondo_match_entry, by id
  // Of a job that reaches beyond this process: peers.h.
  struct rondo_mesh *mesh;   // null: it does not
  struct rondo_arena *arena; // where the pool is, if devices can use it; journals in any case
  // Where devices cannot use the arena as it is: near.c.
  struct rondo_pins pins;          // of the arena
  struct rondo_range *range;       // null: there is none
  int is_range_ours;               // others do not get it: a device came that cannot use it
  char no_range[RONDO_WHY_BYTES];  // for which reason there is none
  struct rondo_window_group *team; // of windows of NCCL (window.c); null: nobody asks for them
  struct rondo_range *window;      // our memory in one; null: there is none
  uint32_t is_window_refused;      // 1: nobody else can use that
  int transport;                   // enum rondo_transport, of the configuration; 0: what there is
  uint32_t endpoints;              // of the configuration
  int is_manual;                   // tests: no threads
  struct rondo_proxy *proxy;       // null: nobody is reached so
  uint64_t rung;                   // its address, for blocks that have moved
  struct rondo_bells bells;        // of the processes on this machine
  int is_leaving; // the mesh is about to end: the proxy does not turn to it any more
  char no_proxy[RONDO_WHY_BYTES]; // for which reason
  int roster;                     // enum rondo_roster
  uint8_t *gone;                  // by rank: 1 if it is lost, or has left, elsewhere
  uint32_t self;                  // the number of this process
  uint32_t peer_count;            // processes of the job, this one included
  uint32_t competitors;           // ranks of other processes that want the same cores
  struct rondo_peer *peers;       // by process
  struct rondo_early *early, **early_end;
  uint64_t mark;    // of the last round of messages
  uint64_t tick_ns; // when the watch over peers looks again
  struct rondo_views views;
};

// One rank's registration of one id.
struct rondo_registration {
  struct rondo_registration *next;
  uint64_t generation; // the n-th registration of the id on that rank
  uint32_t rank, position;
  uint32_t nranks;
  uint32_t process;        // RONDO_HERE; else the registration has come from there
  const uint32_t *members; // the registering rank's; outlives the registration
  const struct rondo_collective_desc *desc;
  struct rondo_shape shape;
  struct rondo_communicator *comm; // elsewhere: null until a member is here
  // Here: the plan, and the device memory to which its endpoints are written before the gate opens: for
  // each block those of the plan's send peers, then those of its recv peers.
  const struct rondo_plan *plan;
  uint64_t endpoints;
  uint8_t is_announced; // the processes of the other members know of it
  // Elsewhere: how it has failed there before anybody was here, and the connectors that it offers.
  int failed_status;
  uint32_t failed_by;
  uint32_t offer_count;
  const struct rondo_offer *offers;
  // Here: the communicator that has registered it, and its next one.
  struct rondo_comm_end *owner;
  struct rondo_registration *next_owned;
};

// Joins the job that the rank's configuration names, making it if this is its first rank here. Returns
// RONDO_SUCCESS, RONDO_ERR_EXISTS (rank taken), RONDO_ERR_INVALID (another rank count),
// RONDO_ERR_UNSUPPORTED (another backend), RONDO_ERR_NO_MEMORY, or what rondo_mesh_start returns.
int rondo_job_join(struct rondo_rank *rank, struct rondo_job **job);
// Ends the job here with its last rank. Bounded. Who has not joined yet, and would find the root of the job
// gone, is waited for, at most `join_ns`.
void rondo_job_leave(struct rondo_job *job, uint32_t rank, int64_t join_ns);

// Wakes those who wait for ranks to come or to go. The lock is held.
void rondo_job_notify(struct rondo_job *job);

// In a child process: the jobs are its parent's. Called by fork.
void rondo_jobs_forked(void);

// Calls `visit` for every job of this process. Jobs cannot end meanwhile.
void rondo_job_visit(void (*visit)(struct rondo_job *job, void *arg), void *arg);

// Enters `registration` (rank, position, nranks, members, desc, shape, plan, endpoints set by the caller,
// who keeps it) and gives it its communicator. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY. A
// mismatch is no failure of this call.
int rondo_job_match(struct rondo_job *job, struct rondo_registration *registration);

// Ends all runs of the registration's communicator with `status`, in all processes. The lock is held.
void rondo_job_fail(struct rondo_job *job, struct rondo_registration *registration, int status);

// Takes the registration out. Members that are still there cannot run past `completed`.
void rondo_job_unmatch(struct rondo_job *job, struct rondo_registration *registration,
                       uint64_t completed);

// The calls of the mesh; tests put others in their place, before any rank is made.
struct rondo_mesh_calls {
  int (*is_needed)(const struct rondo_config *cfg);
  int (*start)(const struct rondo_config *cfg, const struct rondo_mesh_events *events, void *arg,
               struct rondo_mesh **mesh);
  int (*add_rank)(struct rondo_mesh *mesh, uint32_t rank);
  void (*remove_rank)(struct rondo_mesh *mesh, uint32_t rank);
  uint32_t (*self)(struct rondo_mesh *mesh);
  uint32_t (*process_count)(struct rondo_mesh *mesh);
  uint32_t (*process_of)(struct rondo_mesh *mesh, uint32_t rank);
  int (*is_near)(struct rondo_mesh *mesh, uint32_t process);
  int (*process_get)(struct rondo_mesh *mesh, uint32_t process, struct rondo_mesh_process *out);
  uint32_t (*address_of)(struct rondo_mesh *mesh, uint32_t process, struct sockaddr_storage *out);
  int (*send)(struct rondo_mesh *mesh, const struct rondo_mesh_send *message);
  int (*after)(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg), void *arg);
  void (*stop)(struct rondo_mesh *mesh, int64_t timeout_ns, int64_t join_ns);
};
extern const struct rondo_mesh_calls *rondo_mesh_calls;

#endif // RONDO_RUNTIME_JOB_JOB_H
