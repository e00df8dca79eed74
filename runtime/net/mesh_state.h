// The state of a mesh, for the files that implement it:
//
//   mesh.c        calls of other threads, start and stop
//   mesh_join.c   the connection to the root and the messages that come from it
//   mesh_peer.c   connections to and from the other processes
//
// `lock` guards what other threads read or write; the control thread owns the rest.
//
// Two processes have one connection with each other, made by the one that first has a message. If
// both make one at the same time, the process with the higher number gives way: the other one
// refuses its connection with RONDO_WIRE_REFUSE_TWICE before any message is sent, and it sends on
// the connection that comes. A connection that is authenticated is not given up while both
// processes are in the job, so either side may send on it at once. In rare cases, such as after a
// failed attempt, both connections are made. Then each process goes on sending where it has begun
// to, so that its messages stay in order, and receives on both.
#ifndef RONDO_RUNTIME_NET_MESH_STATE_H
#define RONDO_RUNTIME_NET_MESH_STATE_H

#include <pthread.h>

#include "runtime/net/job_address.h"
#include "runtime/net/listener.h"
#include "runtime/net/mesh.h"
#include "runtime/net/pmix.h"
#include "runtime/net/resolve.h"

#define RONDO_MESH_TEXT_BYTES 256u

// Whether a rank lives in this process.
enum rondo_mesh_presence {
  RONDO_MESH_NOT_HERE = 0,
  RONDO_MESH_IS_HERE = 1,
  RONDO_MESH_IS_LEAVING = 2, // the root does not know yet
  RONDO_MESH_WAS_HERE = 3    // left, and the root has been told
};

enum rondo_mesh_phase {
  RONDO_MESH_JOINING,
  RONDO_MESH_READY,
  RONDO_MESH_FAILED,
  RONDO_MESH_STOPPING
};

// A request to the control thread. One that is to be called later is in `timers` until then.
struct rondo_mesh_command {
  STAILQ_ENTRY(rondo_mesh_command) queued;
  int type;        // RONDO_WIRE_ADD, RONDO_WIRE_GONE, RONDO_WIRE_MESSAGE or RONDO_MESH_CALL_LATER
  uint32_t number; // rank, or process
  struct rondo_topology_place place; // RONDO_WIRE_ADD
  struct rondo_channel_out *out;     // RONDO_WIRE_MESSAGE
  // RONDO_MESH_CALL_LATER.
  LIST_ENTRY(rondo_mesh_command) listed;
  struct event timer;
  uint64_t delay_ns;
  void (*call)(void *arg);
  void *arg;
};
#define RONDO_MESH_CALL_LATER 0

// Attempts to connect, one after another until one succeeds.
struct rondo_mesh_dial {
  struct rondo_channel *channel; // of the current attempt, or null
  struct event again;
  uint32_t next;     // index of the address of the next attempt
  uint64_t pause_ns; // before the next attempt
  uint64_t begin_ns; // of the first attempt
  int has_answer;    // a refusal has been logged
};

struct rondo_mesh_peer {
  struct rondo_mesh *mesh;
  struct rondo_channel *out, *in; // authenticated connections made here and there, or null
  struct rondo_channel *line;     // that of the two by which this process sends
  int has_received, has_sent;     // a frame has come, or was sent
  int is_lost;                    // written under the lock
  struct rondo_mesh_dial dial;
  struct rondo_channel_queue queue; // frames to send once connected
};

struct rondo_mesh {
  LIST_ENTRY(rondo_mesh) listed; // in the list of this process's meshes
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
  int is_settled;  // joining has succeeded or failed, and the owner has been told
  int is_complete; // no rank is missing
  int is_stopped;
  uint8_t *here; // by rank: enum rondo_mesh_presence
  STAILQ_HEAD(, rondo_mesh_command) commands;
  uint64_t queued_bytes;
  uint64_t queue_bytes;                // queued_bytes at which the mesh is full
  char waiting[RONDO_MESH_TEXT_BYTES]; // what joining waits for, for messages
  uint32_t process_count;              // 0 until the roster is complete

  // The control thread writes these once, before it sets process_count; any thread reads them
  // after.
  uint32_t self;
  struct rondo_mesh_peer *peers;
  struct rondo_topology *topology;

  // The control thread writes this under the lock; others read it under the lock.
  uint8_t *lost; // by rank

  // The control thread's own.
  // By rank. Of this process: it has left, and the peers with a connection were told. Of others:
  // the root has said that it has left, and its process has yet to.
  uint8_t *left;
  struct rondo_listener listener;
  struct rondo_channel_list waiting_in; // authenticated connections that came before the roster
  struct rondo_wire_member me;
  struct rondo_wire_member last; // of the roster so far
  struct rondo_channel *root;    // authenticated connection, or null
  struct rondo_mesh_dial root_dial;
  struct rondo_resolve *resolve;
  struct rondo_pmix *pmix; // null: the job does not use it
  int is_published;        // the root's address has been published, or found, or cannot be
  uint32_t root_process;   // the process that hosts the root
  uint32_t expected_count, member_count; // processes of the roster, and how many have come so far
  struct event deadline, leave, stop_poll;
  uint64_t stop_span_ns, stop_ns; // time for peers to take queued messages, and its end
  uint64_t stop_sent_bytes;       // counters.sent_bytes at the last look
  uint64_t stop_pause_ns;         // before the next look
  uint64_t stop_due_ns;           // when the next look is due
  uint64_t stop_join_ns;   // end of the time to wait for other ranks to join, or for the root
  uint64_t stop_root_ns;   // end of the time to try a launcher's root that does not answer
  uint32_t leave_attempts; // failed attempts to reach the root since the stop began
  int keeps_joining, has_sent_bye, has_left_root, ends_root;
  LIST_HEAD(, rondo_mesh_command) timers;
};

// mesh.c
// Reports ranks as lost, except those of this process and those reported before.
void rondo_mesh_report(struct rondo_mesh *mesh, const uint32_t *ranks, uint32_t count, int reason,
                       const char *text);
// Ends joining with a failure: reports all ranks as lost.
void rondo_mesh_fail(struct rondo_mesh *mesh, int reason, const char *text);
void rondo_mesh_set_phase(struct rondo_mesh *mesh, int phase);
// Looks soon whether a stop has ended, and gives it more time: a connection has ended.
void rondo_mesh_stop_look(struct rondo_mesh *mesh);
// Wakes rondo_mesh_await: the owner has been told how joining ended.
void rondo_mesh_settle(struct rondo_mesh *mesh);

// mesh_join.c
// Opens the root if this process is to host it and the root's address is known without a look-up.
// Any thread.
int rondo_mesh_join_prepare(struct rondo_mesh *mesh);
void rondo_mesh_join_begin(struct rondo_mesh *mesh);
void rondo_mesh_join_end(struct rondo_mesh *mesh); // closes the connection to the root
// Tries the root again now. A process that leaves does not sit out a long pause between attempts.
void rondo_mesh_join_hurry(struct rondo_mesh *mesh);
// True while this process has not reached the root and still tries to.
// Ends what the connection to the root has needed besides: at the end of the mesh.
void rondo_mesh_join_free(struct rondo_mesh *mesh);
bool rondo_mesh_join_is_trying(const struct rondo_mesh *mesh);
// Handles a RONDO_WIRE_ADD or RONDO_WIRE_GONE command for a rank of this process.
void rondo_mesh_join_rank(struct rondo_mesh *mesh, const struct rondo_mesh_command *command);

// mesh_peer.c
// Refuses a connection of a process with which this process makes one itself.
int rondo_mesh_peer_admit(void *arg, const struct rondo_channel *c);
// Takes an authenticated connection from the listener.
void rondo_mesh_peer_accept(void *arg, struct rondo_channel *c);
// Assigns the connections that came before the roster to their peers.
void rondo_mesh_peer_accept_waiting(struct rondo_mesh *mesh);
void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out);
// Closes all connections with a peer that is lost, or because the mesh ends.
void rondo_mesh_peer_drop(struct rondo_mesh_peer *peer);
// Tells the peer that a rank leaves, after the messages queued for the peer. Sends nothing if there
// is no connection with the peer: when one is made, the peer is told of all ranks that have left.
void rondo_mesh_peer_leave(struct rondo_mesh_peer *peer, uint32_t rank);
// True if this process has a connection with the peer, or makes one.
bool rondo_mesh_peer_is_connected(const struct rondo_mesh_peer *peer);
bool rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer);
// Tells the peer that this process leaves.
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer);
// Takes `bytes` off the count of queued bytes.
void rondo_mesh_peer_sent(struct rondo_mesh *mesh, size_t bytes);

struct rondo_channel_config rondo_mesh_channels(struct rondo_mesh *mesh,
                                                const struct rondo_channel_events *events,
                                                void *owner);
// Sets the timer of the next attempt. There are `places` to try in turn: a pause, which becomes
// longer, follows when all of them have failed.
void rondo_mesh_dial_again(struct rondo_mesh_dial *dial, uint32_t places);

#endif // RONDO_RUNTIME_NET_MESH_STATE_H
