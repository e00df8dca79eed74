// The state of a mesh, for the files that implement it:
//
//   mesh.c        calls of other threads, start and end
//   mesh_join.c   the way to the root
//   mesh_peer.c   connections to and from the other processes
//   mesh_close.c  which of them are closed, and when
//   mesh_dial.c   when attempts to connect are made
//
// `lock` guards what other threads read or write; the control thread owns the rest.
//
// Two processes have one connection with each other, made by the one that first has a message. If
// both make one at the same time, the process with the higher number gives way: the other one
// refuses its connection with RONDO_WIRE_REFUSE_TWICE before any message is sent, and it sends on
// the connection that comes. Either side may send on an authenticated connection at once, because
// it ends only as below while both processes are in the job. In rare cases, such as after a failed
// attempt, both connections are made. Then each process goes on sending where it has begun to, so
// that its messages stay in order, and receives on both.
//
// A connection that nobody uses is closed in order. One side sends CLOSE and then nothing more on
// it; the other side answers with CLOSED, after all that it has sent before. The side that receives
// CLOSED has read all and knows that all it has sent was read. It closes the socket, which tells
// the other side the same. If both sides send CLOSE, both answer. Messages that come meanwhile wait
// for the end of the connection and go on a new one, so they stay in order. A process refuses a new
// connection with RONDO_WIRE_REFUSE_TWICE until the old one has ended here too.
//
// Each process has a pair of keys, and the roster has the public ones. A process cannot say that it
// is another one, also if it knows the secret of the job, as one that was removed does. Who
// connects takes the key of the other process from the roster. Who accepts a connection compares
// its key with the roster, or, before that is known, when it comes.
//
// If a connection is cut, both processes connect again, to see whether the other one lives. If it
// does, and messages may be lost, the one with the lower number reports the other one: one of them
// has to leave the job.
#ifndef RONDO_RUNTIME_NET_MESH_STATE_H
#define RONDO_RUNTIME_NET_MESH_STATE_H

#include <pthread.h>

#include "runtime/net/job_address.h"
#include "runtime/net/listener.h"
#include "runtime/net/mesh.h"

struct rondo_pmix;
struct rondo_resolve;

#define RONDO_MESH_TEXT_BYTES 256u

// A request to the control thread. One that is to be called later is in `timers` until then.
struct rondo_mesh_command {
  STAILQ_ENTRY(rondo_mesh_command) queued;
  uint32_t to;
  struct rondo_channel_out *out; // a message; null: a call
  LIST_ENTRY(rondo_mesh_command) listed;
  struct event timer;
  uint64_t delay_ns;
  void (*call)(void *arg);
  void *arg;
};

// How far a connection is closed: bits of struct rondo_channel's `closing`.
enum rondo_mesh_closing {
  RONDO_MESH_CLOSE_ASKED = 1,    // this side has sent CLOSE
  RONDO_MESH_CLOSE_ANSWERED = 2, // this side has received CLOSE and sent CLOSED
  RONDO_MESH_CLOSE_CONFIRMED = 4 // this side has received CLOSED
};

// Attempts to connect, one after another until one succeeds (mesh_dial.c).
struct rondo_mesh_dial {
  struct rondo_channel *channel; // of the current attempt, or null
  void (*on_due)(struct rondo_mesh_dial *dial);
  LIST_ENTRY(rondo_mesh_dial) waiting; // in `dials` while `due_ns` is set
  uint64_t due_ns;                     // when the next attempt is to be made; 0: there is none
  uint32_t next;                       // index of the address of the next attempt
  uint16_t error;                      // errno of an attempt that has failed at once; 0: none
  uint8_t has_answer;                  // a refusal has been logged
  uint64_t pause_ns;                   // before the next attempt
  uint64_t begin_ns; // of the first attempt, or of the last one that was not refused
};

struct rondo_mesh_peer {
  struct rondo_mesh *mesh;
  struct rondo_channel *out, *in; // authenticated connections made here and there, or null
  struct rondo_channel *line;     // that of the two by which this process sends
  uint8_t has_received, has_sent; // a frame has come, or was sent
  uint8_t has_carried;            // a message has come, or was sent, since the connection was made
  uint8_t has_gap;                // a connection that had carried messages was cut
  uint8_t reports_gap;            // the other process may take that cut for a close
  uint8_t is_lost;                // written under the lock
  uint8_t is_over;                // it has ended or left: no more connections
  uint8_t is_kept;                // its connection is not closed when nobody uses it
  uint8_t is_listed;
  // In `unkept` while a connection with it may be closed.
  TAILQ_ENTRY(rondo_mesh_peer) listed;
  uint64_t flush_sent, flush_done;
  uint64_t used_ns; // when the connection was last used
  struct rondo_mesh_dial dial;
  struct rondo_channel_queue queue; // frames to send once connected
};

// A message that has come before rondo_mesh_open.
struct rondo_mesh_held {
  STAILQ_ENTRY(rondo_mesh_held) queued;
  struct rondo_mesh_message message;
  uint8_t key[RONDO_TOPOLOGY_KEY_BYTES]; // public key of the process that has sent it
  int fds[RONDO_WIRE_FDS];
  uint8_t bytes[];
};

struct rondo_mesh {
  struct rondo_event_loop *loop;
  struct rondo_config cfg;
  struct rondo_mesh_events events;
  void *arg;
  const struct rondo_root_gatherer *gatherer;
  struct rondo_job_address job;
  struct rondo_mesh_counters counters;
  struct rondo_event_loop_task task;
  struct rondo_wire_member me;
  struct rondo_key_pair keys;

  // Under the lock.
  pthread_mutex_t lock;
  STAILQ_HEAD(, rondo_mesh_command) commands;
  uint64_t queued_bytes;
  uint64_t queue_bytes;   // queued_bytes at which the mesh is full
  uint32_t process_count; // 0 until rondo_mesh_meet

  // rondo_mesh_meet writes these before it sets process_count; any thread reads them after.
  uint32_t self;
  struct rondo_mesh_peer *peers;
  const struct rondo_topology *topology;

  // The control thread's own.
  struct rondo_listener listener;
  struct rondo_channel_list early; // authenticated connections that came before rondo_mesh_meet
  STAILQ_HEAD(, rondo_mesh_held) held;
  uint64_t held_bytes;
  int is_open, says_bye, is_ended;
  uint64_t flush_number;
  // Peers with connections that may be closed, the least recently used first. One is closed after
  // `idle_ns` without use. If they are more than `idle_most`, it is closed after `rest_ns`.
  TAILQ_HEAD(, rondo_mesh_peer) unkept;
  uint32_t unkept_count, idle_most;
  uint64_t idle_ns, rest_ns;
  struct event idle;
  struct event tick;
  void (*on_tick)(void *arg);
  LIST_HEAD(, rondo_mesh_command) timers;

  // The root.
  struct rondo_channel *root; // authenticated connection, or null
  struct rondo_mesh_dial root_dial;
  LIST_HEAD(, rondo_mesh_dial) dials;    // whose next attempt is to be made
  struct event dial_timer;               // one timer for all: most peers are never dialled
  struct rondo_channel_queue root_queue; // frames to send once connected
  int can_dial_root;                     // its addresses are known
  int had_root;                          // it has answered once
  int is_root_done;                      // it has said goodbye, or has ended
  struct rondo_resolve *resolve;
  struct rondo_pmix *pmix; // null: the job does not use it
  int is_hurried;          // this process leaves
  uint64_t hurried_ns;     // since then
  uint32_t attempts;       // that have failed since then
};

// mesh_join.c
// Opens the root if this process is to host it and the root's address is known without a look-up.
// Any thread.
int rondo_mesh_join_prepare(struct rondo_mesh *mesh);
void rondo_mesh_join_begin(struct rondo_mesh *mesh);
void rondo_mesh_join_end(struct rondo_mesh *mesh);
void rondo_mesh_join_send(struct rondo_mesh *mesh, struct rondo_channel_out *out);
// Tells the root that the roster has come.
void rondo_mesh_join_confirm(struct rondo_mesh *mesh);

// mesh_peer.c
// Refuses a connection of a process with which this process makes or closes one itself.
int rondo_mesh_peer_admit(void *arg, const struct rondo_channel *c);
// True if this is another process of the job, and `key` is its public key.
bool rondo_mesh_peer_has_key(const struct rondo_mesh *mesh, uint32_t process, const uint8_t *key);
// Takes an authenticated connection from the listener.
void rondo_mesh_peer_accept(void *arg, struct rondo_channel *c);
// Assigns the connections that came before rondo_mesh_meet to their peers.
void rondo_mesh_peer_accept_early(struct rondo_mesh *mesh);
// Sends a frame; messages of membership also to a peer that is lost.
void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out);
void rondo_mesh_peer_send_early(struct rondo_mesh *mesh, uint32_t to,
                                struct rondo_channel_out *out);
// Closes all connections with a peer, for ever.
void rondo_mesh_peer_end(struct rondo_mesh_peer *peer);
void rondo_mesh_peer_lose(struct rondo_mesh_peer *peer);
bool rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer);
void rondo_mesh_peer_flush(struct rondo_mesh_peer *peer, uint64_t number);
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer);
// Calls the tick soon if one is set: a flush was answered, or a connection has ended.
void rondo_mesh_tick_soon(struct rondo_mesh *mesh);
void rondo_mesh_drop_frame(struct rondo_mesh *mesh, struct rondo_channel_out *out);

// mesh_close.c
void rondo_mesh_close_init(struct rondo_mesh *mesh);
void rondo_mesh_close_begin(struct rondo_mesh *mesh);
// Looks after `idle_ns`, or `rest_ns`, for connections to close.
void rondo_mesh_close_set_timer(struct rondo_mesh *mesh);
// The connection with the peer is new, was used, is being closed or has ended.
void rondo_mesh_close_note(struct rondo_mesh_peer *peer);
// Answers CLOSE, which has come on this connection.
void rondo_mesh_close_answer(struct rondo_mesh *mesh, struct rondo_channel *c);
// True if the connection, which has ended so, was closed in order.
bool rondo_mesh_close_is_done(const struct rondo_channel *c, int how);

struct rondo_channel_config rondo_mesh_channels(struct rondo_mesh *mesh,
                                                const struct rondo_channel_events *events,
                                                void *owner);

// ---- mesh_dial.c ----

void rondo_mesh_dials_begin(struct rondo_mesh *mesh);
void rondo_mesh_dials_end(struct rondo_mesh *mesh);
// Calls `on_due` of the dial after the delay, and not at a time that was set before.
void rondo_mesh_dial_after(struct rondo_mesh *mesh, struct rondo_mesh_dial *dial,
                           uint64_t delay_ns);
// The same for the next attempt. There are `places` to try in turn: a pause, which becomes longer,
// follows when all of them have failed.
void rondo_mesh_dial_again(struct rondo_mesh *mesh, struct rondo_mesh_dial *dial, uint32_t places);
void rondo_mesh_dial_cancel(struct rondo_mesh_dial *dial);
// Also closes the channel of the current attempt.
void rondo_mesh_dial_stop(struct rondo_mesh_dial *dial);

#endif // RONDO_RUNTIME_NET_MESH_STATE_H
