// The mesh: authenticated message connections from this process to the other processes of a job,
// and to the root that it joins by. It knows no ranks: who is in the job is decided above it
// (runtime/job/members.h).
//
//   start -> control to RONDO_MESH_ROOT ... `control` -> meet: where each process is
//     -> control, send / `control`, `receive`, `cut` ... lose -> flush -> say_bye -> end -> free
//
// A process has one mesh per job, whatever the number of its ranks, and one control thread for all
// its meshes. The control thread connects and authenticates in the background. No call waits.
//
// A connection that nobody has used for a while is closed, and made again for the next message. Its
// end is not reported: nothing that was sent on it is lost.
//
// Messages are for set-up (descriptors, addresses, file descriptors of shared memory), not for
// data. Messages from one process to another arrive whole, once and in order; if that is
// impossible, `broke` or `cut` reports the process. The mesh proves that the sender knows the job's
// secret and, once the roster is known, that the sender is the process. The receiver must check
// what a message holds.
//
// A process is a number below the number of processes, the same on all processes of the job.
#ifndef RONDO_RUNTIME_NET_MESH_H
#define RONDO_RUNTIME_NET_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_job_key;
struct rondo_mesh;
struct rondo_root_gatherer;
struct rondo_shared_bytes;
struct rondo_topology;
struct rondo_wire_member;
struct sockaddr_storage;

#define RONDO_MESH_MESSAGE_BYTES 262144u           // longest message
#define RONDO_MESH_MESSAGE_FDS 8u                  // most file descriptors of one message
#define RONDO_MESH_QUEUE_BYTES (UINT64_C(1) << 30) // unsent messages at which a mesh is full
#define RONDO_MESH_HELD_BYTES (UINT64_C(64) << 20) // messages that may come before `open`
#define RONDO_MESH_NOBODY UINT32_MAX               // no process, or not known
#define RONDO_MESH_ROOT (UINT32_MAX - 1)           // the root

struct rondo_mesh_message {
  uint32_t from;     // process
  uint32_t type;     // chosen by the sender; the mesh does not read it
  const void *bytes; // aligned to 8 bytes
  size_t size;
  // Descriptors that came with the message. The receiver keeps one by writing -1 over it; the mesh
  // closes the rest when `receive` returns.
  int *fds;
  uint32_t fd_count;
};

struct rondo_mesh_send {
  uint32_t to; // process, not this one
  uint32_t type;
  const void *bytes; // copied
  size_t size;
  const int *fds; // duplicated; the caller keeps its own
  uint32_t fd_count;
};

// Callbacks. The control thread calls them from its event loop, one at a time, never within a call
// of the owner. They must be brief.
struct rondo_mesh_events {
  // A message of membership from a process or from the root. Before `meet` the number is what the
  // process says of itself.
  void (*control)(void *arg, uint32_t from, const void *bytes, size_t size);
  // A message of another process that is not lost. Messages that come before `open` wait.
  void (*receive)(void *arg, struct rondo_mesh_message *message);
  // The connection with a process, or the root, was cut or could not be made. `is_proven`: new ones
  // are refused, so the process has ended. Otherwise the mesh connects again; what was sent may be
  // lost. `text` says how.
  void (*cut)(void *arg, uint32_t process, bool is_proven, const char *text);
  // The process has violated the protocol, or lives and may have missed messages.
  void (*broke)(void *arg, uint32_t process, const char *text);
  // Why the root has not been reached yet.
  void (*waits)(void *arg, const char *text);
  // The root cannot be found.
  void (*failed)(void *arg, const char *text);
};

// ---- any thread ----

// Opens the listener, and the root if this process is to host it; starts the control thread.
// `gatherer` collects who joins (job_root.h). The first callback comes after rondo_mesh_begin.
// Returns RONDO_SUCCESS; RONDO_ERR_UNSUPPORTED (no network interface fits); RONDO_ERR_INVALID (the
// id or the environment is malformed); RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM.
int rondo_mesh_start(const struct rondo_config *cfg, const struct rondo_mesh_events *events,
                     void *arg, const struct rondo_root_gatherer *gatherer,
                     struct rondo_mesh **out);
void rondo_mesh_begin(struct rondo_mesh *mesh);
// Frees a mesh that was not begun, or that rondo_mesh_end has ended.
void rondo_mesh_free(struct rondo_mesh *mesh);

// How other processes reach this one; without ranks.
const struct rondo_wire_member *rondo_mesh_self(const struct rondo_mesh *mesh);
const struct rondo_job_key *rondo_mesh_key(const struct rondo_mesh *mesh);

// Queues a message and connects to the process if there is no connection yet. Takes messages also
// when the mesh is full: most of them answer other messages or end what others have begun, and
// whoever has to send one cannot wait, because the control thread would wait for itself. Whoever
// begins something new asks is_full first.
// Returns RONDO_SUCCESS; RONDO_ERR_UNKNOWN (no such process, or not met yet); RONDO_ERR_PEER (the
// process is lost); RONDO_ERR_INVALID (too long, too many descriptors, or `to` is this process);
// RONDO_ERR_UNSUPPORTED (descriptors to another machine); RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM (a
// descriptor could not be duplicated).
int rondo_mesh_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *message);

// True if at least RONDO_MESH_QUEUE_BYTES of messages wait to be sent, for all peers together. A
// caller that then begins nothing new bounds the queue: what follows from what it has begun is
// bounded too.
bool rondo_mesh_is_full(struct rondo_mesh *mesh);

// Runs `call(arg)` once on the control thread, as soon as there is memory for that.
void rondo_mesh_call(struct rondo_mesh *mesh, void (*call)(void *arg), void *arg);
// Runs `call(arg)` once on the control thread, after `delay_ns`. Calls that are still due when the
// mesh ends are dropped. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_mesh_after(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg),
                     void *arg);

// ---- the control thread ----

// Calls `tick(arg)` at a time of rondo_now_ns, instead of at the time of the last such call, and
// earlier if rondo_mesh_is_flushed or rondo_mesh_is_idle may have become true. UINT64_MAX: never.
void rondo_mesh_set_tick(struct rondo_mesh *mesh, uint64_t due_ns, void (*tick)(void *arg));

// Sends a message of membership. Keeps a reference until it is sent. A message is dropped if there
// is no way to the process; `cut` has told so or will.
void rondo_mesh_control(struct rondo_mesh *mesh, uint32_t to, struct rondo_shared_bytes *bytes);

// This process is `self`, and the others are where `topology` says, which outlives the mesh. False
// without memory.
bool rondo_mesh_meet(struct rondo_mesh *mesh, uint32_t self, const struct rondo_topology *topology);
// Delivers the messages that have come, and from now on all.
void rondo_mesh_open(struct rondo_mesh *mesh);
// Keeps the connections with these processes, and no longer those of the last call, although nobody
// uses them. So this process notices at once that one of them has ended.
void rondo_mesh_keep(struct rondo_mesh *mesh, const uint32_t *processes, uint32_t count);
// The process is no longer in the job: drops what is queued for it except messages of membership,
// and takes no messages for it or from it.
void rondo_mesh_lose(struct rondo_mesh *mesh, uint32_t process);

// Asks all processes that have a connection with this one to say that they have read all messages
// so far. Returns a number for rondo_mesh_is_flushed.
uint64_t rondo_mesh_flush(struct rondo_mesh *mesh);
bool rondo_mesh_is_flushed(const struct rondo_mesh *mesh, uint64_t number);

// Says goodbye on all connections. The other sides close them.
void rondo_mesh_say_bye(struct rondo_mesh *mesh);
// True if there is no connection with a process, and none is being made.
bool rondo_mesh_is_idle(const struct rondo_mesh *mesh);
// Opens the root of a launcher's job here, for a process that got rank 0 after it had started. If
// that fails, joining has `failed`.
void rondo_mesh_make_root(struct rondo_mesh *mesh);
// Tries the root again now, and no longer than makes sense for a process that leaves. From now on
// the event `cut` also tells that the root has made the roster.
void rondo_mesh_hurry(struct rondo_mesh *mesh);
// Closes all connections. No callback comes any more.
void rondo_mesh_end(struct rondo_mesh *mesh);

// Writes an address at which this process reaches that process's machine, with port 0; for this
// process the address that others try first. Call it only within `receive`, for the process that
// has sent the message, or within `roster`, for this one. Returns the address's length, or 0.
uint32_t rondo_mesh_address_of(struct rondo_mesh *mesh, uint32_t process,
                               struct sockaddr_storage *out);

// Traffic of a mesh. Tests use it to check the cost of start-up. All fields are uint64_t: they are
// read as an array.
struct rondo_mesh_counters {
  uint64_t connected, accepted; // authenticated connections made by and to this process
  uint64_t closed;              // of these, closed in order because nobody used them
  uint64_t refused;             // connections that were not authenticated
  uint64_t sent, received;      // frames, handshakes included
  uint64_t sent_bytes, received_bytes;
};
void rondo_mesh_counters(struct rondo_mesh *mesh, struct rondo_mesh_counters *out);

// Why this library was built without the mesh; null if it has one.
const char *rondo_mesh_missing(void);

#endif // RONDO_RUNTIME_NET_MESH_H
