// The listener: listening sockets, and the connections to them that are not authenticated yet.
//
//   open -> start -> `authenticated` for each connection that ends its handshake -> close
//
// Unauthenticated connections cannot lock out members. There are at most
// RONDO_LISTENER_UNAUTHENTICATED of them, and one more for each process that may connect, up to
// RONDO_LISTENER_MEMBERS. Each has little memory. A connection has
// RONDO_LISTENER_HANDSHAKE_NS to name the job, as the first frame of the handshake does, unless it
// is from a process of the same user and machine. After that its process may be slow, because
// processes of the job are slow when many start at once.
//
// At the limit the oldest connection is closed for the next one: one that has not named the job
// after RONDO_LISTENER_PATIENCE_NS, and one that has after RONDO_LISTENER_HANDSHAKE_NS. A process
// of the job whose connection is closed so connects again. Strangers do not know the name of a job
// with an id: it is random.
//
// Refusals are logged with address and reason, at most RONDO_LISTENER_LINES in
// RONDO_LISTENER_LINES_NS; the rest are counted.
#ifndef RONDO_RUNTIME_NET_LISTENER_H
#define RONDO_RUNTIME_NET_LISTENER_H

#include <stdint.h>

#include "runtime/net/channel.h"

#define RONDO_LISTENER_SOCKETS (RONDO_TOPOLOGY_ADDRESSES + 1u)
#define RONDO_LISTENER_UNAUTHENTICATED 128u
#define RONDO_LISTENER_MEMBERS 4096u
#define RONDO_LISTENER_PATIENCE_NS UINT64_C(500000000)
#define RONDO_LISTENER_HANDSHAKE_NS UINT64_C(5000000000)
#define RONDO_LISTENER_LINES 8u                       // refusals logged
#define RONDO_LISTENER_LINES_NS UINT64_C(10000000000) // within this time

struct rondo_listener_socket {
  struct rondo_listener *listener;
  int fd;
  struct event acceptable;
};

struct rondo_listener {
  // Set by the user before rondo_listener_start.
  struct rondo_channel_config channels; // for accepted connections; the listener sets their owner
  const char *name;                     // "root" or "member", for the log
  uint8_t purpose;                      // enum rondo_wire_purpose that a connection must have
  uint32_t to;                          // process that it must ask for; RONDO_MESH_NOBODY: any
  uint32_t members;                     // processes that may connect; may grow later
  // Returns 0, or an enum rondo_wire_refusal for a connection that has proved the secret. May be
  // null.
  int (*admit)(void *arg, const struct rondo_channel *c);
  // Takes over an authenticated connection: sets the channel's owner and events, or closes it.
  void (*authenticated)(void *arg, struct rondo_channel *c);
  void *arg;

  // The listener's own.
  struct rondo_listener_socket sockets[RONDO_LISTENER_SOCKETS];
  uint32_t socket_count;
  struct rondo_channel_list unauthenticated; // newest first
  uint32_t unauthenticated_count;
  int is_paused; // accepts nothing: at the limit, or the process is out of descriptors
  struct event again;
  uint32_t logged_count, unlogged_count; // refusals since logged_ns
  uint64_t logged_ns;
};

// Listens on `addresses`, all with the port of the first one. If that is 0, chooses a port that is
// free on all of them and writes it back. Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM with errno set.
// Any thread, before start.
int rondo_listener_open(struct rondo_listener *listener, struct rondo_wire_address *addresses,
                        uint32_t count);
// Listens for processes of this machine under a random name, which is written to `name`.
int rondo_listener_open_local(struct rondo_listener *listener, char *name, size_t bytes);

// Starts to accept. On the control thread.
void rondo_listener_start(struct rondo_listener *listener);
// Closes the unauthenticated connections and stops listening. Works without a start too.
void rondo_listener_close(struct rondo_listener *listener);

#endif // RONDO_RUNTIME_NET_LISTENER_H
