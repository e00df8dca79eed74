// The inside of a mesh, for the files that make it up:
//
//   mesh.c        calls of other threads, start and stop
//   mesh_join.c   the way to the root, and what it says
//   mesh_peer.c   connections to and from the other processes
//
// `lock` guards what other threads see; all else is the control thread's. A connection carries
// messages one way only, from who made it; two processes that talk to each other have two.
#ifndef RONDO_RUNTIME_NET_MESH_STATE_H
#define RONDO_RUNTIME_NET_MESH_STATE_H

#include <pthread.h>

#include "runtime/net/job_address.h"
#include "runtime/net/listener.h"
#include "runtime/net/mesh.h"
#include "runtime/net/resolve.h"

#define RONDO_MESH_TEXT_BYTES 256u
#define RONDO_MESH_IS_LEAVING 2u // and the root does not know it yet
#define RONDO_MESH_WAS_HERE 3u

enum rondo_mesh_phase {
  RONDO_MESH_JOINING,
  RONDO_MESH_READY,
  RONDO_MESH_FAILED,
  RONDO_MESH_STOPPING
};

// Something another thread asks for.
struct rondo_mesh_command {
  struct rondo_mesh_command *next;
  int type;        // RONDO_WIRE_ADD, RONDO_WIRE_GONE or RONDO_WIRE_MESSAGE
  uint32_t number; // rank, or process
  struct rondo_channel_out *out;
};

// A connection being made: one attempt after the other until it is there.
struct rondo_mesh_dial {
  struct rondo_channel *channel; // of the attempt that is under way
  struct event again;
  uint32_t next;     // which address is tried next
  uint64_t pause_ns; // before it
  uint64_t begin_ns; // of the first attempt
  int is_heard;      // somebody answered: it is there
};

struct rondo_mesh_peer {
  struct rondo_mesh *mesh;
  struct rondo_wire_member where;
  struct rondo_channel *out, *in; // proved, or null
  int has_spoken;                 // a frame came in by `in`
  int is_lost;                    // written under the lock
  struct rondo_mesh_dial dial;
  struct rondo_channel_out *first, *last; // to be sent once connected
};

struct rondo_mesh_alarm {
  struct rondo_mesh_alarm *next, *before;
  struct rondo_mesh *mesh;
  struct rondo_event_loop_task task;
  struct event timer;
  uint64_t delay_ns;
  void (*call)(void *arg);
  void *arg;
};

struct rondo_mesh {
  struct rondo_mesh *next; // of the process
  struct rondo_event_loop *loop;
  struct rondo_config cfg;
  struct rondo_mesh_events events;
  void *arg;
  struct rondo_job_address job;
  struct rondo_mesh_counters counters;
  struct rondo_event_loop_task task;
  // Under the lock.
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int phase;
  int is_settled;  // joined, and the owner knows; or not, and it knows that
  int is_complete; // no rank was missing
  int is_stopped;
  uint8_t *here; // by rank: lives in this process: 1, or one of the above
  struct rondo_mesh_command *first, *last;
  uint64_t queued_bytes;
  char waiting[RONDO_MESH_TEXT_BYTES]; // what joining waits for
  uint32_t process_count;              // 0 until the roster is there
  // Written once before that, by the control thread; read by all afterwards.
  uint32_t self;
  struct rondo_mesh_peer *peers;
  uint32_t *process_of; // by rank
  // Read under the lock, written under it by the control thread.
  uint8_t *lost; // by rank
  // The control thread's.
  struct rondo_listener door;
  struct rondo_channel *guests; // proved, before the roster: waiting
  struct rondo_wire_member me;
  struct rondo_channel *root; // proved, or null
  struct rondo_mesh_dial root_dial;
  struct rondo_resolve *resolve;
  uint32_t root_process;                 // in which the root is
  uint32_t expected_count, member_count; // of the roster: all, and so far
  struct event deadline, leave, stop_poll;
  uint64_t stop_span_ns, stop_ns; // until when peers may take what is queued
  uint64_t stop_join_ns; // until when others, or the root, are waited for where not all have joined
  uint64_t stop_root_ns; // until when a launcher's root, that may not be there yet, is tried
  uint32_t farewells;    // attempts to reach the root since, that have failed
  int stays, has_said_bye, has_left_root, ends_root;
  struct rondo_mesh_alarm *alarms;
};

// mesh.c
// Tells of ranks that are gone, those among them that were not told of yet.
void rondo_mesh_report(struct rondo_mesh *mesh, const uint32_t *ranks, uint32_t count, int reason,
                       const char *text);
// Joining is over, without success.
void rondo_mesh_fail(struct rondo_mesh *mesh, int reason, const char *text);
void rondo_mesh_set_phase(struct rondo_mesh *mesh, int phase);
// The owner has been told how joining ended: who waits for that goes on.
void rondo_mesh_settle(struct rondo_mesh *mesh);

// mesh_join.c
// Opens the root if that is for this process to do, and can be done at once. Any thread.
int rondo_mesh_join_prepare(struct rondo_mesh *mesh);
void rondo_mesh_join_begin(struct rondo_mesh *mesh);
void rondo_mesh_join_end(struct rondo_mesh *mesh); // closes what leads to the root
// Who leaves tries again at once, and not after a long pause.
void rondo_mesh_join_hurry(struct rondo_mesh *mesh);
// 1 if the root has not been reached yet, and may be.
int rondo_mesh_join_is_trying(const struct rondo_mesh *mesh);
// Adds a rank, or takes one away, once the process has joined.
void rondo_mesh_join_rank(struct rondo_mesh *mesh, int type, uint32_t rank);

// mesh_peer.c
void rondo_mesh_peer_guest(void *arg, struct rondo_channel *c);
void rondo_mesh_peer_admit(struct rondo_mesh *mesh); // the guests, once the roster is there
void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out);
void rondo_mesh_peer_drop(struct rondo_mesh_peer *peer); // it is lost, or the mesh ends
// Says that a rank leaves, behind what was said for it, where anything was.
void rondo_mesh_peer_leave(struct rondo_mesh_peer *peer, uint32_t rank);
int rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer);
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer);
void rondo_mesh_peer_sent(struct rondo_mesh *mesh, size_t bytes);

struct rondo_channel_config rondo_mesh_channels(struct rondo_mesh *mesh,
                                                const struct rondo_channel_events *events,
                                                void *owner);
// Waits a little longer after each attempt.
void rondo_mesh_dial_again(struct rondo_mesh_dial *dial);

#endif // RONDO_RUNTIME_NET_MESH_STATE_H
