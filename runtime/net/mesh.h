// The mesh: authenticated message connections from this process to the other processes of a job.
//
//   start (the first rank here) -> add_rank (each further one)
//     -> `roster`: where each rank is -> send / `receive` ... `lost` -> remove_rank -> stop
//
// A process has one mesh per job, whatever the number of its ranks, and one control thread for all
// its meshes. The control thread connects, authenticates and joins in the background. Only `stop`
// and rondo_mesh_await wait for peers, both for a bounded time.
//
// Messages are for set-up (descriptors, addresses, file descriptors of shared memory), not for
// data. Messages from one process to another arrive whole, once and in order; if that is
// impossible, `lost` reports the sender. A message is at most RONDO_MESH_MESSAGE_BYTES long. The
// mesh proves that the sender knows the job's secret; the receiver must check what the message
// holds.
//
// A process is a number below `process_count`, the same on all processes of the job.
#ifndef RONDO_RUNTIME_NET_MESH_H
#define RONDO_RUNTIME_NET_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/net/topology.h"
#include <rondo/rondo.h>

struct rondo_mesh;
struct sockaddr_storage;

#define RONDO_MESH_MESSAGE_BYTES 262144u           // longest message
#define RONDO_MESH_MESSAGE_FDS 8u                  // most file descriptors of one message
#define RONDO_MESH_QUEUE_BYTES (UINT64_C(1) << 30) // unsent messages at which a mesh is full
#define RONDO_MESH_NOBODY RONDO_TOPOLOGY_NOBODY    // no process, or not known

// Where a process is. Processes with equal `machine` have the same boot of the same kernel and the
// same network namespace: they can pass file descriptors to each other and so share memory.
struct rondo_mesh_process {
  uint64_t machine[2];
  // Inodes. Processes whose inodes are equal may read each other's memory.
  uint64_t pid_namespace, user_namespace;
  uint32_t pid; // in its own namespace
  uint32_t uid;
  uint32_t asks_window;  // 1: its devices are to share memory through an NCCL window
  uint32_t rank_count;   // ranks that live there
  const uint32_t *ranks; // ascending; valid until `stop`
  const char *host;      // its own name for its host; valid until `stop`
};

struct rondo_mesh_message {
  uint32_t from; // process
  uint32_t type; // chosen by the sender; the mesh does not read it
  const void *bytes;
  size_t size;
  // Descriptors that came with the message. The receiver keeps one by writing -1 over it; the mesh
  // closes the rest when `receive` returns.
  int *fds;
  uint32_t fd_count;
};

// Why ranks are lost. A lost rank does not come back in this mesh.
enum rondo_mesh_reason {
  RONDO_MESH_LEFT = 1,    // called `remove_rank` or `stop`
  RONDO_MESH_DIED = 2,    // its process ended or cut the connection without saying goodbye
  RONDO_MESH_SILENT = 3,  // its machine cannot be reached any more
  RONDO_MESH_MISSING = 4, // did not join before the join timeout
  RONDO_MESH_BROKE = 5    // violated the protocol
};

// Callbacks. The control thread calls them, one at a time; they must be brief. They may call
// everything below except `stop` and rondo_mesh_await. Any may be null.
struct rondo_mesh_events {
  // Called once, when the roster is complete. Ranks that never joined are reported as lost right
  // after. Nothing can be sent and nothing is received before.
  void (*roster)(void *arg);
  void (*receive)(void *arg, struct rondo_mesh_message *message);
  // Each lost rank of another process is reported once. One call reports all ranks that are lost
  // together. `text` gives the reason, and host, process and address as far as they are known. If
  // this process could not join, `roster` is not called and every other rank is lost.
  void (*lost)(void *arg, const uint32_t *ranks, uint32_t rank_count, int reason, const char *text);
};

struct rondo_mesh_send {
  uint32_t to; // process, not this one
  uint32_t type;
  const void *bytes; // copied
  size_t size;
  const int *fds; // duplicated; the caller keeps its own
  uint32_t fd_count;
};

// The calls of a mesh. Tests replace them before they make any rank.
struct rondo_mesh_calls {
  // True if the job of this configuration may reach beyond this process, so that it needs a mesh:
  // its id comes from rondo_unique_id_listen or from a launcher's environment.
  bool (*is_needed)(const struct rondo_config *cfg);

  // Starts to join the job of `cfg` (completed; copied) with rank cfg->rank, which is at `place`
  // (null: unknown). Does not wait.
  // Returns RONDO_SUCCESS; RONDO_ERR_UNSUPPORTED (no network interface fits); RONDO_ERR_INVALID
  // (the id or the environment is malformed); RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM. `lost` reports
  // later failures.
  int (*start)(const struct rondo_config *cfg, const struct rondo_topology_place *place,
               const struct rondo_mesh_events *events, void *arg, struct rondo_mesh **mesh);

  // Adds one more rank of this process. The join timeout holds for it too.
  // Returns RONDO_SUCCESS, RONDO_ERR_EXISTS, RONDO_ERR_TIMEOUT (too late) or RONDO_ERR_NO_MEMORY.
  int (*add_rank)(struct rondo_mesh *mesh, uint32_t rank, const struct rondo_topology_place *place);
  // Tells the other processes that a rank leaves. The process and its mesh go on.
  void (*remove_rank)(struct rondo_mesh *mesh, uint32_t rank);

  // The roster. Any thread may read it. A process number is RONDO_MESH_NOBODY before `roster` and
  // for ranks that never joined.
  uint32_t (*self)(struct rondo_mesh *mesh);
  uint32_t (*process_count)(struct rondo_mesh *mesh); // 0 before `roster`
  uint32_t (*process_of)(struct rondo_mesh *mesh, uint32_t rank);
  // True if file descriptors can be sent to that process.
  bool (*is_same_machine)(struct rondo_mesh *mesh, uint32_t process);
  // Where each rank is; null before `roster`. Valid until `stop`. May be null.
  const struct rondo_topology *(*topology)(struct rondo_mesh *mesh);
  // Returns RONDO_SUCCESS or RONDO_ERR_UNKNOWN.
  int (*process_get)(struct rondo_mesh *mesh, uint32_t process, struct rondo_mesh_process *out);
  // Writes an address at which this process reaches that process's machine, with port 0. Call it
  // only within `receive`, for the process that has sent the message. Returns the address's length,
  // or 0.
  uint32_t (*address_of)(struct rondo_mesh *mesh, uint32_t process, struct sockaddr_storage *out);

  // Queues a message and connects to the process if there is no connection yet. Never waits. Any
  // thread. Takes messages also when the mesh is full: most of them answer other messages or end
  // what others have begun, and whoever has to send one cannot wait, because the control thread
  // would wait for itself. Whoever begins something new asks is_full first.
  // Returns RONDO_SUCCESS; RONDO_ERR_UNKNOWN (no such process, or no roster yet); RONDO_ERR_PEER
  // (the process is lost); RONDO_ERR_INVALID (too long, too many descriptors, or `to` is this
  // process); RONDO_ERR_UNSUPPORTED (descriptors to another machine); RONDO_ERR_NO_MEMORY;
  // RONDO_ERR_SYSTEM (a descriptor could not be duplicated).
  int (*send)(struct rondo_mesh *mesh, const struct rondo_mesh_send *message);

  // True if at least RONDO_MESH_QUEUE_BYTES of messages wait to be sent, for all peers together. A
  // caller that then begins nothing new bounds the queue: what follows from what it has begun is
  // bounded too. Any thread. May be null: never full.
  bool (*is_full)(struct rondo_mesh *mesh);

  // Runs `call(arg)` once on the control thread, after `delay_ns`. Calls that are still due when
  // the mesh stops are dropped. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
  int (*after)(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg), void *arg);

  // Tells the peers that this process leaves, closes all connections and frees the mesh. No
  // callback runs after the return. Must not be called from a callback.
  //
  // - Queued messages are sent as far as the network takes them. The call gives up when no peer has
  //   taken anything, or closed its connection in answer, for `timeout_ns`.
  // - If this process hosts the root and no other mesh here needs the root, the call waits for
  //   ranks that have not joined yet, because they could not join without the root. The wait ends
  //   after `join_ns`, or at the join timeout if that comes first.
  // - If this process has not joined yet, the call first tells the root that the process leaves, so
  //   that the root does not wait for it. That takes at most `join_ns`. A launcher's root may never
  //   start; if it does not answer, the call gives up after the smaller of ten seconds and
  //   peer_timeout_ns.
  void (*stop)(struct rondo_mesh *mesh, int64_t timeout_ns, int64_t join_ns);
};
// A library that was built without the mesh has `is_needed` alone, which is always false.
extern const struct rondo_mesh_calls *rondo_mesh_calls;

// Why this library was built without the mesh; null if it has one.
const char *rondo_mesh_missing(void);

// Waits at most `timeout_ns` until `roster` has been called or joining has failed.
// Returns RONDO_SUCCESS; RONDO_ERR_TIMEOUT (not yet: the log names the missing ranks as far as this
// process knows them); RONDO_ERR_PEER (the job could not be joined, or some ranks never joined).
int rondo_mesh_await(struct rondo_mesh *mesh, int64_t timeout_ns);

// Traffic of a mesh. Tests use it to check the cost of start-up. All fields are uint64_t: they are
// read as an array.
struct rondo_mesh_counters {
  uint64_t connected, accepted; // authenticated connections made by and to this process
  uint64_t refused;             // connections that were not authenticated
  uint64_t sent, received;      // frames, handshakes included
  uint64_t sent_bytes, received_bytes;
};
void rondo_mesh_counters(struct rondo_mesh *mesh, struct rondo_mesh_counters *out);

#endif // RONDO_RUNTIME_NET_MESH_H
