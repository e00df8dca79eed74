// The state of the members of a job, for the files that implement them:
//
//   members.c        the membership core and its events, requests of other threads, the roster
//   members_stop.c   the stages of a stop
//
// `lock` guards what other threads read or write; the control thread owns the rest.
#ifndef RONDO_RUNTIME_JOB_MEMBERS_STATE_H
#define RONDO_RUNTIME_JOB_MEMBERS_STATE_H

#include <pthread.h>
#include <sys/queue.h>

#include "daemon/plan/cost_file.h"
#include "runtime/job/members.h"
#include "runtime/job/membership.h"
#include "runtime/net/wire.h"

struct rondo_members_request;

#define RONDO_MEMBERS_TEXT_BYTES 512u

enum rondo_members_phase { RONDO_MEMBERS_JOINING, RONDO_MEMBERS_READY, RONDO_MEMBERS_FAILED };

enum rondo_members_stage {
  RONDO_MEMBERS_NOT_STOPPING,
  RONDO_MEMBERS_STOPS_JOINING, // while others need the root here, or the root does not know yet
  RONDO_MEMBERS_STOPS_SENDING, // until all messages have been read
  RONDO_MEMBERS_LEAVES,        // until the others know
  RONDO_MEMBERS_SAYS_BYE,      // until all connections are closed
  RONDO_MEMBERS_ENDS_ROOT
};

struct rondo_members {
  LIST_ENTRY(rondo_members) listed; // in the list of this process
  struct rondo_config cfg;
  struct rondo_members_events events;
  void *arg;
  struct rondo_mesh *mesh;

  // Under the lock.
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int phase;        // enum rondo_members_phase
  bool is_settled;  // joining has succeeded or failed, and the owner has been told
  bool is_complete; // no rank is missing
  bool is_stopped;
  uint8_t *here; // by rank: 1 if it is or was in this process
  STAILQ_HEAD(, rondo_members_request) requests;
  char waiting[RONDO_MEMBERS_TEXT_BYTES / 2]; // what joining waits for, for messages
  uint32_t process_count;                     // 0 until the first epoch is open

  // The control thread writes these once, before it sets process_count; any thread reads them
  // after.
  uint32_t self;
  struct rondo_topology *topology;
  struct rondo_cost_file *model; // of the job; null: it has none

  // The control thread's own.
  struct rondo_wire_member me;
  uint64_t who;
  struct rondo_membership *core; // null before the start, and after a failure
  struct rondo_membership_actions actions;
  uint8_t *lost;                // by rank
  uint8_t *leaving;             // by rank: 1 if it leaves, and the core does not know yet
  uint64_t flush, flush_end_ns; // what a rank that leaves waits for; 0: none leaves
  bool is_rejected, is_root_gone;
  uint32_t inspects[8], inspect_count;
  // Of a stop.
  int stage; // enum rondo_members_stage
  uint64_t stop_span_ns, stop_ns, stop_due_ns, stop_join_ns, farewell_ns;
  uint64_t stop_bytes; // sent and received at the last look
  bool ends_root;
};

// members.c; on the control thread.
// Gives the core an event and carries out its actions.
void rondo_members_step(struct rondo_members *m, struct rondo_membership_event event);
// Carries out what other threads have asked for.
void rondo_members_serve(struct rondo_members *m);
void rondo_members_set_tick(struct rondo_members *m);

// members_stop.c
// Adds the members to the list of this process. Any thread.
void rondo_members_enlist(struct rondo_members *m);
// When to look whether the stage, or the wait of a rank that leaves, is over. The mesh and the core
// tell of the end of most stages: in a job of many processes that stop at once, looks every
// millisecond would take all processors.
uint64_t rondo_members_next_look(const struct rondo_members *m);
// Goes on with a stop. True if it has ended: `m` may be freed then.
bool rondo_members_stop_look(struct rondo_members *m);
// The `stop` of struct rondo_members_calls, except that it does not free `m`.
void rondo_members_stop(struct rondo_members *m, int64_t timeout_ns, int64_t join_ns);

#endif // RONDO_RUNTIME_JOB_MEMBERS_STATE_H
