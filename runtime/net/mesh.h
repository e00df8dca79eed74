// The mesh: authenticated message connections from this process to the other processes of a job.
//
//   rondo_mesh_start (the first rank here) -> add_rank (each further one)
//     -> `roster`: who is where -> send / `receive` ... `lost` -> remove_rank -> rondo_mesh_stop
//
// One mesh per job and process, whatever the number of ranks here; one control thread per process
// for all of them. Nothing here waits for a peer but rondo_mesh_await and rondo_mesh_stop, which
// are bounded: connecting, proving the job's secret and finding each other happen on the control
// thread, beside the application's calls.
//
// Messages are for set-up (descriptors, addresses, file descriptors of shared memory), not for data.
// Those from one process to another arrive in order, each once, whole, and from whom they say, or not
// at all, and then `lost` tells. A message is at most RONDO_MESH_MESSAGE_BYTES long; what it holds is
// the caller's business and must be checked by it: its sender knew the secret, no more.
//
// A process is a number below rondo_mesh_process_count, the same on all processes of the job.
#ifndef RONDO_RUNTIME_NET_MESH_H
#define RONDO_RUNTIME_NET_MESH_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_mesh;
struct sockaddr_storage;

#define RONDO_MESH_MESSAGE_BYTES 262144u            // the longest message
#define RONDO_MESH_MESSAGE_FDS 8u                   // the most file descriptors of one message
#define RONDO_MESH_QUEUE_BYTES (UINT64_C(64) << 20) // what may wait to be sent, all peers together
#define RONDO_MESH_NOBODY UINT32_MAX                // no process, or not known

// Where a process is. Two processes with equal `machine` can hand file descriptors to each other, so
// they can share memory: same boot of the same kernel, and same network namespace.
struct rondo_mesh_process {
  uint64_t machine[2];
  uint64_t pid_namespace, user_namespace; // inodes; equal ones may read each other's memory
  uint32_t pid;                           // in its own namespace
  uint32_t uid;
  uint32_t asks_window;  // 1: its devices are to share memory by a window of NCCL
  uint32_t rank_count;   // that live there, in ascending order below
  const uint32_t *ranks; // good for as long as the mesh
  const char *host;      // its name for itself; the same
};

struct rondo_mesh_message {
  uint32_t from; // process
  uint32_t type; // the sender's; the mesh does not look at it
  const void *bytes;
  size_t size;
  // Descriptors that came with it. The receiver keeps one by writing -1 over it; the mesh closes
  // the rest when `receive` returns.
  int *fds;
  uint32_t fd_count;
};

// Why ranks are gone. They do not come back under this mesh.
enum rondo_mesh_reason {
  RONDO_MESH_LEFT = 1,    // said so: rondo_mesh_remove_rank or rondo_mesh_stop
  RONDO_MESH_DIED = 2,    // its process ended without a word, or cut the connection
  RONDO_MESH_SILENT = 3,  // its machine cannot be reached any more
  RONDO_MESH_MISSING = 4, // did not come before the time for it was over
  RONDO_MESH_BROKE = 5    // sent what no member sends
};

// All are called on the control thread, one at a time, and must be brief. They may call everything
// below but await and stop. Any may be null.
struct rondo_mesh_events {
  // Once: every rank is known that will ever be, or is reported as lost right after. Nothing can be
  // sent before, and nothing is received.
  void (*roster)(void *arg);
  void (*receive)(void *arg, struct rondo_mesh_message *message);
  // Once for each rank that is gone, of other processes only; ranks of one process that go together
  // come together. `text` says why and names host, process and address as far as known. If the job
  // could not be joined at all, `roster` is not called and every other rank is lost.
  void (*lost)(void *arg, const uint32_t *ranks, uint32_t rank_count, int reason, const char *text);
};

// Why this library has no mesh; null: it has.
const char *rondo_mesh_missing(void);

// 1 if the job of this configuration reaches beyond this process, so that it needs a mesh: its id is
// from rondo_unique_id_listen or from the environment of a launcher.
int rondo_mesh_is_needed(const struct rondo_config *cfg);

// Begins to join the job of `cfg` (completed; copied) with rank cfg->rank. Does not wait.
// Returns RONDO_SUCCESS; RONDO_ERR_UNSUPPORTED (built without the libraries for it, or no network
// interface fits); RONDO_ERR_INVALID (the id or the environment makes no sense);
// RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM. Whatever goes wrong later is told by `lost`.
int rondo_mesh_start(const struct rondo_config *cfg, const struct rondo_mesh_events *events,
                     void *arg, struct rondo_mesh **out);

// One more rank that lives here. It must come before the time for joining is over, like any.
// Returns RONDO_SUCCESS, RONDO_ERR_EXISTS, RONDO_ERR_TIMEOUT (too late) or RONDO_ERR_NO_MEMORY.
int rondo_mesh_add_rank(struct rondo_mesh *mesh, uint32_t rank);

// A rank leaves; the others are told. No more is sent for it; the process and its mesh go on.
void rondo_mesh_remove_rank(struct rondo_mesh *mesh, uint32_t rank);

// Waits until `roster` has been called or joining has failed, at most `timeout_ns`.
// Returns RONDO_SUCCESS; RONDO_ERR_TIMEOUT (not yet: the log names who is missing as far as it is
// known here); RONDO_ERR_PEER (the job could not be joined, or some ranks never came).
int rondo_mesh_await(struct rondo_mesh *mesh, int64_t timeout_ns);

// Who is where. RONDO_MESH_NOBODY before `roster`, and for ranks that never came. Any thread.
uint32_t rondo_mesh_self(struct rondo_mesh *mesh);
uint32_t rondo_mesh_process_count(struct rondo_mesh *mesh); // 0 before `roster`
uint32_t rondo_mesh_process_of(struct rondo_mesh *mesh, uint32_t rank);
// Returns RONDO_SUCCESS or RONDO_ERR_UNKNOWN.
int rondo_mesh_process_get(struct rondo_mesh *mesh, uint32_t process,
                           struct rondo_mesh_process *out);
// 1 if file descriptors can be sent to that process.
int rondo_mesh_is_near(struct rondo_mesh *mesh, uint32_t process);
// An address of that process's machine that leads there from here, port 0. From `receive` of something
// that it has sent, only. Returns its length, or 0.
uint32_t rondo_mesh_address_of(struct rondo_mesh *mesh, uint32_t process,
                               struct sockaddr_storage *out);

struct rondo_mesh_send {
  uint32_t to; // process, not this one
  uint32_t type;
  const void *bytes; // copied
  size_t size;
  const int *fds; // duplicated: the caller's stay the caller's
  uint32_t fd_count;
};

// Queues a message. Never waits; connects first where there is no connection yet. Any thread.
// Returns RONDO_SUCCESS; RONDO_ERR_UNKNOWN (no such process, or no roster yet); RONDO_ERR_PEER (it is
// lost); RONDO_ERR_INVALID (too long, too many descriptors, to oneself); RONDO_ERR_UNSUPPORTED
// (descriptors to another machine); RONDO_ERR_FULL (RONDO_MESH_QUEUE_BYTES wait);
// RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM (no descriptor left to duplicate into).
int rondo_mesh_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *message);

// Runs `call(arg)` on the control thread after `delay_ns`, once: for bounds of the caller's own.
// What has not run when the mesh stops never does. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_mesh_after(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg),
                     void *arg);

// Takes leave of the peers, closes everything and frees the mesh. What is queued is sent as far as
// the network takes it within `timeout_ns`. Where the root of the job is in this process, and no other
// mesh here needs it, ranks that have not joined yet are waited for, at most `join_ns` and until the time for
// joining is over: without a root they never could. A process that has not joined itself stays to find the
// root and say that it leaves: it would be waited for otherwise. That takes no longer, and where the root is a
// launcher's and does not answer, ten seconds or peer_timeout_ns at most: it may never come. No callback runs
// when it has returned. Not from a callback.
void rondo_mesh_stop(struct rondo_mesh *mesh, int64_t timeout_ns, int64_t join_ns);

// What a mesh has done: for tests of what start-up costs.
struct rondo_mesh_counters {
  uint64_t connected, accepted; // connections made and taken, those that proved the secret
  uint64_t refused;             // those that did not
  uint64_t sent, received;      // frames, handshakes included
  uint64_t sent_bytes, received_bytes;
};
void rondo_mesh_counters(struct rondo_mesh *mesh, struct rondo_mesh_counters *out);

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

#endif // RONDO_RUNTIME_NET_MESH_H
