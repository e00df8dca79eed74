// The state of a mesh, for the files that implement it:
//
//   mesh.c        calls of other threads, start and stop
//   mesh_join.c   the connection to the root and the messages that come from it
//   mesh_peer.c   connections to and from the other processes
//
// `lock` guards what other threads read or write; the control thread owns the rest. A connection
// carries messages only from the process that made it, so two processes that send to each other
// have two connections.
#ifndef RONDO_RUNTIME_NET_MESH_STATE_H
#define RONDO_RUNTIME_NET_MESH_STATE_H

#include <pthread.h>

#include "runtime/net/job_address.h"
#include "runtime/net/listener.h"
#include "runtime/net/mesh.h"
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
  struct rondo_channel_out *out; // RONDO_WIRE_MESSAGE
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
  struct rondo_wire_member where;
  struct rondo_channel *out, *in; // authenticated connections, or null
  int has_received;               // a frame has come by `in`
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
  char waiting[RONDO_MESH_TEXT_BYTES]; // what joining waits for, for messages
  uint32_t process_count;              // 0 until the roster is complete

  // The control thread writes these once, before it sets process_count; any thread reads them
  // after.
  uint32_t self;
  struct rondo_mesh_peer *peers;
  uint32_t *process_of; // by rank

  // The control thread writes this under the lock; others read it under the lock.
  uint8_t *lost; // by rank

  // The control thread's own.
  struct rondo_listener listener;
  struct rondo_channel_list waiting_in; // authenticated connections that came before the roster
  struct rondo_wire_member me;
  struct rondo_channel *root; // authenticated connection, or null
  struct rondo_mesh_dial root_dial;
  struct rondo_resolve *resolve;
  uint32_t root_process;                 // the process that hosts the root
  uint32_t expected_count, member_count; // processes of the roster, and how many have come so far
  struct event deadline, leave, stop_poll;
  uint64_t stop_span_ns, stop_ns; // time for peers to take queued messages, and its end
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
bool rondo_mesh_join_is_trying(const struct rondo_mesh *mesh);
// Handles a RONDO_WIRE_ADD or RONDO_WIRE_GONE command for a rank of this process.
void rondo_mesh_join_rank(struct rondo_mesh *mesh, int type, uint32_t rank);

// mesh_peer.c
// Takes an authenticated connection from the listener.
void rondo_mesh_peer_accept(void *arg, struct rondo_channel *c);
// Assigns the connections that came before the roster to their peers.
void rondo_mesh_peer_accept_waiting(struct rondo_mesh *mesh);
void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out);
// Closes all connections with a peer that is lost, or because the mesh ends.
void rondo_mesh_peer_drop(struct rondo_mesh_peer *peer);
// Tells the peer that a rank leaves, after the messages queued for the peer. Sends nothing if this
// process has never sent to the peer.
void rondo_mesh_peer_leave(struct rondo_mesh_peer *peer, uint32_t rank);
bool rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer);
// Tells the peer that this process leaves.
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer);
// Takes `bytes` off the count of queued bytes.
void rondo_mesh_peer_sent(struct rondo_mesh *mesh, size_t bytes);

struct rondo_channel_config rondo_mesh_channels(struct rondo_mesh *mesh,
                                                const struct rondo_channel_events *events,
                                                void *owner);
// Sets the timer of the next attempt and lengthens the pause.
void rondo_mesh_dial_again(struct rondo_mesh_dial *dial);

#endif // RONDO_RUNTIME_NET_MESH_STATE_H
