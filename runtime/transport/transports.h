// The transports of one job in this process: the memory that connectors lie in, and how the connectors
// of each other process are reached.
//
//   rondo_transports_open -> rondo_transports_meet (the processes are known)
//     -> introduce / receive ... -> bind the links of communicators (binding.h)
//   -> rondo_transports_lose (a process is gone) ... -> drain -> disconnect -> rondo_transports_close
//
// A process on this machine maps our memory (mapped.h), directly or through a window of NCCL
// (window_group.h). The proxy forwards slots to every other process (proxied.h).
//
// The owner is the job. It holds its lock in all calls here unless a comment says otherwise, and hears
// of events through struct rondo_transports_events.
#ifndef RONDO_RUNTIME_TRANSPORT_TRANSPORTS_H
#define RONDO_RUNTIME_TRANSPORT_TRANSPORTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/event_count.h"
#include "daemon/driver/driver.h"
#include "runtime/memory/pins.h"
#include "runtime/memory/pool.h"
#include <rondo/rondo.h>

struct rondo_arena;
struct rondo_proxy;
struct rondo_proxy_link;
struct rondo_range;
struct rondo_window_group;

// Where a member is, if not at the number of a process.
#define RONDO_HERE (UINT32_MAX - 1)
#define RONDO_SOMEWHERE UINT32_MAX // not known yet

// Control messages between the transports of two processes. The job's own types are others
// (job/message.h).
enum rondo_transport_message {
  RONDO_MESSAGE_ARENA = 16,  // first message: the sender's arena and range; the arena's descriptor
  RONDO_MESSAGE_PROXY = 26,  // first message where no memory is shared: the address of the proxy
  RONDO_MESSAGE_PART = 27,   // one more part of the sender's range; its descriptor
  RONDO_MESSAGE_MAPPED = 28, // how much of the receiver's range the sender has mapped
  RONDO_MESSAGE_WINDOW = 33  // a step of agreeing on a window of NCCL (window_group.c)
};

struct rondo_message_arena {
  uint64_t base, bytes;
  uint64_t range_base, range_bytes; // 0: there is none
  uint64_t parts_bytes;             // how far the parts of the range go
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

// What a transport tells its owner. `send`, `after` and `resume` are called under the owner's lock.
struct rondo_transports_events {
  // Sends a control message; `fd` is -1 or a descriptor that goes with it. Where this fails the owner
  // gives the process up; the caller need not know.
  void (*send)(void *owner, uint32_t process, uint32_t type, const void *bytes, size_t size,
               int fd);
  // Runs `call(arg)` after `delay_ns`, once, without the lock.
  void (*after)(void *owner, uint64_t delay_ns, void (*call)(void *arg), void *arg);
  // Links may be bound, and registrations may go on, that waited for another process's answer.
  void (*resume)(void *owner);
  // Of the proxy, without the lock: as struct rondo_proxy_config says.
  void (*link_over)(void *owner, struct rondo_proxy_link *link, int is_whole);
  void (*broken)(void *owner, uint32_t process, const char *text);
  void (*notify)(void *owner, const struct rondo_proxy_link *link);
  int (*is_link_used)(void *owner, const struct rondo_proxy_link *link);
  int (*is_busy)(void *owner);
};

// Another process: how it is reached, and its memory as it is mapped here. The mapping ends when the
// process is lost and no link uses it any more.
struct rondo_transport_peer {
  uint8_t reach;       // enum rondo_transport: shared memory, UCX, or none
  uint8_t asks_window; // it asks for windows of NCCL
  uint8_t is_same_machine;
  uint8_t is_introduced; // it has our arena, or the address of our proxy
  uint8_t is_lost;
  uint8_t is_settled;    // it is known whether it maps our range
  uint8_t refuses_range; // it maps no more of our range
  uint32_t parts_told;   // parts of our range that it has been told of,
  uint64_t told, mapped; // how far they go, and how much of that it has mapped
  struct rondo_message_arena theirs;
  void *map;                     // its arena, here; null: not mapped
  struct rondo_range *view;      // its range, here; null: not mapped
  uint64_t view_bytes;           // how much of its range is mapped
  struct rondo_pins pins;        // of `map`
  char no_view[RONDO_WHY_BYTES]; // why there is no view, or no more of it; empty: there is
  uint32_t links;                // links and journals that use the mapping
  uint32_t event_count;          // its number among `event_counts`, plus 1; 0: it has none
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

struct rondo_transports {
  struct rondo_transports_config config;
  struct rondo_device *device;  // of the job's first rank
  struct rondo_device **others; // devices of later ranks
  uint32_t other_count;
  struct rondo_pool pool;
  struct rondo_arena *arena; // null: the job is in this process alone
  // Where devices cannot use the arena as it is (mapped.c).
  struct rondo_pins pins;                 // of the arena
  struct rondo_range *range;              // null: there is none
  int is_range_private;                   // peers do not get it: a device here cannot use it
  char no_range[RONDO_WHY_BYTES];         // why there is none
  struct rondo_window_group *group;       // of the windows of NCCL; null: nobody asks for one
  struct rondo_range *window;             // our memory in a window; null: there is none
  uint32_t is_window_refused;             // atomic; 1: no peer can use the window
  struct rondo_proxy *proxy;              // null: nobody is reached through it
  uint64_t proxy_address;                 // atomic: `proxy` for the threads that step blocks (P2)
  char no_proxy[RONDO_WHY_BYTES];         // why there is none
  struct rondo_event_counts event_counts; // of the processes on this machine
  uint32_t self, peer_count;              // 0 until the processes are known
  struct rondo_transport_peer *peers;     // by process
};

// Opens the device and the pool. With `is_shared` the job reaches beyond this process: makes the arena
// and, where devices need them, the range and the window. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or
// RONDO_ERR_SYSTEM; rondo_transports_close follows in both cases.
int rondo_transports_open(struct rondo_transports *t, const struct rondo_transports_config *config,
                          struct rondo_device *device, int is_shared);
void rondo_transports_close(struct rondo_transports *t);

// Keeps one more device open for as long as the job; connectors may lie there. Returns what the driver's
// `open` does, and why in `why`.
int rondo_transports_add_device(struct rondo_transports *t, const struct rondo_config *cfg,
                                struct rondo_device *device, char *why);

// The processes are known: `peers` (allocated; it belongs to the transports now) has
// `is_same_machine` and `asks_window` of each.
void rondo_transports_meet(struct rondo_transports *t, uint32_t self, uint32_t peer_count,
                           struct rondo_transport_peer *peers);

// Tells a process where our memory or our proxy is, once; and of every new part of our range.
void rondo_transports_introduce(struct rondo_transports *t, uint32_t process);

// Takes a message of enum rondo_transport_message. Returns 1, or 0 if no member sends such a thing.
int rondo_transports_receive(struct rondo_transports *t, struct rondo_transport_arrival *arrival);

// A process is gone: its links end, and its memory goes when no link uses it any more.
void rondo_transports_lose(struct rondo_transports *t, uint32_t process);
// One use of the process's memory has ended.
void rondo_transports_unuse(struct rondo_transports *t, uint32_t process);

// Waits a while until everything published here has arrived. Without the lock.
void rondo_transports_drain(struct rondo_transports *t);
// Ends the proxy and unmaps the memory of all peers. Without the lock.
void rondo_transports_disconnect(struct rondo_transports *t);

// How connectors reach a process on which links may lie: enum rondo_transport, or -1 if that is not
// known yet. Writes the reason to `why`.
int rondo_transports_explain(const struct rondo_transports *t, const struct rondo_device *from,
                             uint32_t process, char *why, size_t why_bytes);

// ---- for the daemons; any thread, without the lock ----

// A block has moved something: the proxy may have slots to forward.
void rondo_transports_ring(const struct rondo_transports *t);
// Forwards for a thread of a daemon; `then` is enum rondo_forward, `is_busy`: runs are outstanding there.
// Returns 1 if anything moved.
int rondo_transports_forward(const struct rondo_transports *t, int then, int is_busy);

#endif // RONDO_RUNTIME_TRANSPORT_TRANSPORTS_H
