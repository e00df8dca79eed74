// A door: listening sockets, and the strangers who have connected and proved nothing yet.
//
//   open -> start -> `guest` for each who has proved the secret -> close
//
// Strangers cannot stop the members: there are at most RONDO_LISTENER_UNAUTHENTICATED of them, each with little
// memory and a deadline; while all places are taken, who has been there for RONDO_LISTENER_PATIENCE_NS
// without a proof gives way to the next. Who is refused is logged with address and reason, some lines
// a while; the rest is counted.
#ifndef RONDO_RUNTIME_NET_LISTENER_H
#define RONDO_RUNTIME_NET_LISTENER_H

#include <stdint.h>

#include "runtime/net/channel.h"

#define RONDO_LISTENER_SOCKETS (RONDO_WIRE_ADDRESSES + 1u)
#define RONDO_LISTENER_UNAUTHENTICATED 128u
#define RONDO_LISTENER_PATIENCE_NS UINT64_C(500000000)
#define RONDO_LISTENER_HANDSHAKE_NS UINT64_C(5000000000)
#define RONDO_LISTENER_LINES 8u                       // of refusals that are logged
#define RONDO_LISTENER_LINES_NS UINT64_C(10000000000) // in this time

struct rondo_listener_socket {
  struct rondo_listener *door;
  int fd;
  struct event acceptable;
};

struct rondo_listener {
  struct rondo_channel_config channels; // of those who come; their owner is the door until `guest`
  const char *name;                     // "root" or "member", for the log
  uint8_t purpose;                      // what who comes must have come for
  uint32_t to;                          // number that they must ask for; RONDO_MESH_NOBODY: any
  // Who comes in. The channel's owner and events are to be changed, or it is to be closed.
  void (*guest)(void *arg, struct rondo_channel *c);
  void *arg;
  // Of the door.
  struct rondo_listener_socket sockets[RONDO_LISTENER_SOCKETS];
  uint32_t socket_count;
  struct rondo_channel *strangers; // newest first
  uint32_t stranger_count;
  int is_resting; // no accepting: all places are taken, or the process has no descriptor left
  struct event again;
  uint32_t lines, unsaid;
  uint64_t lines_ns;
};

// Listens on `addresses`; where a port is 0, the same free one on all of them, written back. Returns
// RONDO_SUCCESS or RONDO_ERR_SYSTEM with errno set. Any thread, before start.
int rondo_listener_open(struct rondo_listener *door, struct rondo_wire_address *addresses,
                        uint32_t count);
// Listens for members on this machine, under a name that is made up and written to `name`.
int rondo_listener_open_local(struct rondo_listener *door, char *name, size_t bytes);

// On the control thread. `channels`, `name`, `purpose`, `guest` and `arg` are set.
void rondo_listener_start(struct rondo_listener *door);
// Sends the strangers away and stops listening. Also for a door that was not started.
void rondo_listener_close(struct rondo_listener *door);

#endif // RONDO_RUNTIME_NET_LISTENER_H
