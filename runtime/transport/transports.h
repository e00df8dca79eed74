// The transports of a job in this process. They own the memory of the connectors, and decide how a
// connector in another process is reached.
//
//   rondo_transports_open -> rondo_transports_meet (the processes are known)
//     -> introduce / receive ... -> bind the links of communicators (link_binding.h)
//   -> rondo_transports_lose (a lost process) ... -> drain -> disconnect -> rondo_transports_close
//
// A process on this machine maps our memory (mapped.h), directly or through a window of NCCL
// (window_group.h). The proxy forwards slots to every other process (proxy.h).
//
// The *arena* is host memory that processes of a machine share (arena.h). The *range* is device
// memory that they share (range.h); it grows in *parts*. A *window* is device memory that NCCL
// shares (nccl/window.h).
//
// The job owns this object and gets its events. The caller holds the job's lock unless a comment
// says otherwise.
#ifndef RONDO_RUNTIME_TRANSPORT_TRANSPORTS_H
#define RONDO_RUNTIME_TRANSPORT_TRANSPORTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/event_count.h"
#include "daemon/driver/driver.h"
#include "runtime/memory/pins.h"
#include "runtime/memory/pool.h"
#include <rondo/rondo.h>

struct rondo_arena;
struct rondo_carrier_calls;
struct rondo_proxy;
struct rondo_proxy_link;
struct rondo_range;
struct rondo_window_group;

// Special values of a process number.
#define RONDO_HERE (UINT32_MAX - 1) // this process
#define RONDO_SOMEWHERE UINT32_MAX  // not known yet

// Control messages between the transports of two processes. The message types of the job are in
// job/message.h.
enum rondo_transport_message {
  RONDO_MESSAGE_ARENA = 16,  // first message: the sender's arena and range; the arena's descriptor
  RONDO_MESSAGE_PROXY = 26,  // first message where no memory is shared: the address of the proxy
  RONDO_MESSAGE_PART = 27,   // one more part of the sender's range; its descriptor
  RONDO_MESSAGE_MAPPED = 28, // how much of the receiver's range the sender has mapped
  RONDO_MESSAGE_WINDOW = 33  // a step of the agreement on a window of NCCL (window_group.c)
};

struct rondo_message_arena {
  uint64_t base, bytes;
  uint64_t range_base, range_bytes; // 0: there is none
  uint64_t parts_bytes;             // where the last part of the range ends
};

// A control message that has arrived. The receiver may keep a descriptor by writing -1 over it.
struct rondo_transport_arrival {
  uint32_t from, type; // process; enum rondo_transport_message
  const void *bytes;
  size_t size;
  int *fds;
  uint32_t fd_count;
  struct sockaddr_storage address; // of the sender's machine, port 0
  uint32_t address_bytes;          // 0: not known
};

// Calls from a transport to its owner: requests (`send`, `after`, `unlock`), and events. `send`,
// `after`, `resume` and `unlock` are called under the owner's lock.
struct rondo_transports_events {
  // Sends a control message; `fd` is -1 or a descriptor to send along. If this fails, the owner
  // treats the process as lost.
  void (*send)(void *owner, uint32_t process, uint32_t type, const void *bytes, size_t size,
               int fd);
  // Runs `call(arg)` after `delay_ns`, once, without the lock.
  void (*after)(void *owner, uint64_t delay_ns, void (*call)(void *arg), void *arg);
  // An answer of a process has arrived. The owner binds the links that it allows, and continues the
  // registrations that have waited for it.
  void (*resume)(void *owner);
  // Releases the owner's lock after `resume`, and first does what that has left to be done on
  // devices.
  void (*unlock)(void *owner);
  // Events of the proxy (struct rondo_proxy_config), without the lock.
  void (*link_over)(void *owner, struct rondo_proxy_link *link, int is_whole);
  void (*broken)(void *owner, uint32_t process, const char *text);
  void (*notify)(void *owner, const struct rondo_proxy_link *link);
  int (*is_link_used)(void *owner, const struct rondo_proxy_link *link);
  int (*is_busy)(void *owner);
};

// Another process: how it is reached, and its memory as it is mapped here. The mapping ends when
// the process is lost and no link uses it any more.
struct rondo_transport_peer {
  uint8_t reach;       // enum rondo_transport: shared memory, UCX, or none
  uint8_t asks_window; // it asks for windows of NCCL
  uint8_t is_same_machine;
  uint8_t is_introduced; // it has our arena or the address of our proxy
  uint8_t is_lost;
  uint8_t is_settled;    // it has said whether it maps our range
  uint8_t refuses_range; // it will map no more of our range
  uint8_t must_unmap;    // no one uses it any more (rondo_mapped_work)
  uint32_t parts_told;   // parts of our range that were sent to it
  uint32_t links;        // links, journals and threads that use the mapping
  uint32_t event_count;  // its index in `event_counts`, plus 1; 0: none
  uint64_t told;         // end of the last part that was sent to it
  uint64_t mapped;       // end of what it has mapped of our range
  struct rondo_message_arena theirs;
  void *map;                // its arena, here; null: not mapped
  struct rondo_range *view; // its range, here; null: not mapped
  uint64_t view_bytes;      // how much of its range is mapped
  struct rondo_pins *pins;  // of `map`; null: not mapped
  const char *no_view;      // why its range is not mapped whole here; null: it is
};

struct rondo_transports_config {
  int transport;      // enum rondo_transport of the configuration; 0: any
  uint32_t endpoints; // of the network, for each process
  int is_manual;      // tests: no threads
  int huge_pages;
  uint64_t connector_bytes; // the budget of the pool
  pthread_mutex_t *lock;    // the owner's
  const struct rondo_transports_events *events;
  void *owner;
};

// Memory of a process that has to be page-locked before a link is bound to it.
struct rondo_transport_pin {
  uint32_t process;
  void *memory;
  uint64_t bytes; // 0: none
  int is_refused; // the driver has refused it: the next rondo_mapped_find of it fails
};

struct rondo_transports {
  struct rondo_transports_config config;
  struct rondo_device *device;  // of the job's first rank
  struct rondo_device **others; // devices of later ranks
  uint32_t other_count;
  struct rondo_pool pool;
  struct rondo_arena *arena; // null: the job is in this process alone
  // `pins` to `is_window_refused` are used only if the CPU cannot access device memory (mapped.c).
  struct rondo_pins pins;           // of the arena
  struct rondo_range *range;        // null: there is none
  int is_range_private;             // a device here cannot use it, so peers do not get it
  char no_range[RONDO_WHY_BYTES];   // why there is none
  struct rondo_transport_pin pin;   // that a link waits for
  bool is_pinning;                  // a thread page-locks it
  uint32_t unmap_count;             // peers that must be unmapped
  struct rondo_window_group *group; // of windows of NCCL; null: no process here asks for one
  struct rondo_range *window;       // our memory in a window; null: there is none
  uint32_t is_window_refused;       // atomic; 1: no peer can use the window
  struct rondo_proxy *proxy;        // null: no process is reached through it
  uint64_t proxy_address;           // `proxy` again; atomic, for threads without the lock (P2)
  char no_proxy[RONDO_WHY_BYTES];   // why there is none
  struct rondo_event_counts event_counts; // of the processes on this machine
  struct rondo_transport_flags *flags;    // guarded by `lock`; those outside the arena
  uint32_t self, peer_count;              // 0 until the processes are known
  struct sockaddr_storage address;    // of this machine, as others try it first; no family: unknown
  struct rondo_transport_peer *peers; // by process
};

// The carrier of the messages between proxies. Tests replace it before they make a rank.
extern const struct rondo_carrier_calls *rondo_transports_carrier;

// Opens the pool, and takes over the open `device`. If `is_shared` is 1, the job may have other
// processes; then the call also makes the arena and, where devices need them, the range and the
// window. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM. The caller calls
// rondo_transports_close in every case.
int rondo_transports_open(struct rondo_transports *t, const struct rondo_transports_config *config,
                          struct rondo_device *device, int is_shared);
void rondo_transports_close(struct rondo_transports *t);

// Opens another device, in whose memory connectors may be. The lock is not held. The device stays
// open until rondo_transports_close. Returns what the driver's `open` returns, with the reason in
// `why`.
int rondo_transports_add_device(struct rondo_transports *t, const struct rondo_config *cfg,
                                struct rondo_device *device, char *why);

// Allocates zeroed memory for the ready flags of a daemon here: in the arena if there is one. It
// lasts until rondo_transports_close. Null: no memory. The lock is not held.
uint8_t *rondo_transports_alloc_flags(struct rondo_transports *t, uint64_t bytes);

// Starts to connect once the processes are known. Takes ownership of `peers`, in which
// `is_same_machine` and `asks_window` are set. `address`: of this machine, the one that
// other processes try first; without a family: unknown.
void rondo_transports_meet(struct rondo_transports *t, uint32_t self,
                           const struct sockaddr_storage *address, uint32_t peer_count,
                           struct rondo_transport_peer *peers);

// Sends our arena, or the address of our proxy, to a process. Later calls send only new parts of
// our range.
void rondo_transports_introduce(struct rondo_transports *t, uint32_t process);

// Receives a message of enum rondo_transport_message. Returns 0 if the message is invalid, else 1.
// Called by one thread. Releases the lock while it maps memory for devices.
int rondo_transports_receive(struct rondo_transports *t, struct rondo_transport_arrival *arrival);

// Ends the links of a lost process. Its memory is unmapped when no link uses it any more.
void rondo_transports_lose(struct rondo_transports *t, uint32_t process);
// Decrements the count of links and journals that use the process's memory.
void rondo_transports_unuse(struct rondo_transports *t, uint32_t process);

// Waits, for a bounded time, until everything published here has arrived. Without the lock.
void rondo_transports_drain(struct rondo_transports *t);
// Ends the proxy and unmaps the memory of all peers. Without the lock.
void rondo_transports_disconnect(struct rondo_transports *t);

// Returns how connectors reach a process: enum rondo_transport, or -1 if that is not known yet.
// Writes the reason to `why`.
int rondo_transports_explain(const struct rondo_transports *t, const struct rondo_device *from,
                             uint32_t process, char *why, size_t why_bytes);

// ---- for the daemons; any thread, without the lock ----

// Tells the proxy that a block has published or consumed a slot.
void rondo_transports_ring(const struct rondo_transports *t);
// Forwards slots on a thread of a daemon. `then`: enum rondo_forward. `is_busy`: runs are
// outstanding on the daemon. Returns 1 if anything moved.
int rondo_transports_forward(const struct rondo_transports *t, int then, int is_busy);

#endif // RONDO_RUNTIME_TRANSPORT_TRANSPORTS_H
