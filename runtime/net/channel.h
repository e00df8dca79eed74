// A channel: one connection that carries frames over a stream socket, after a handshake.
//
//   connect or accept -> `opened` (both sides are authenticated) -> send / `frame`
//     -> `closed`, or close by the owner
//
// All calls are for the control thread, and none waits. Frames sent before the end of the handshake
// are queued. Before that a channel holds little memory. The first step of the handshake has a
// deadline. After it an accepted channel has none, and one that connects has a long one, because
// processes of the job may be slow.
#ifndef RONDO_RUNTIME_NET_CHANNEL_H
#define RONDO_RUNTIME_NET_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "runtime/net/address.h"
#include "runtime/net/event_loop.h"
#include "runtime/net/handshake.h"
#include "runtime/net/mesh.h"
#include "runtime/net/shared_bytes.h"

#define RONDO_CHANNEL_TEXT_BYTES 200u

struct rondo_channel;

// A received frame and its descriptors, which are kept as those of struct rondo_mesh_message.
struct rondo_channel_frame {
  struct rondo_wire_frame wire;
  int *fds;
  uint32_t fd_count;
};

// How a channel ended: an enum rondo_wire_refusal or one of these.
enum rondo_channel_end {
  RONDO_CHANNEL_CUT = 16,        // closed or reset by the other side
  RONDO_CHANNEL_UNREACHABLE = 17 // no route to the other side, or its machine does not answer
};

// `owner` is that of the configuration. `opened` and `frame` may close the channel. The channel
// must not be used after `closed`.
struct rondo_channel_events {
  // The other side has proved that it knows the secret and has its key, and has no answer yet.
  // Returns 0 to go on, or an enum rondo_wire_refusal. May be null.
  int (*admit)(void *owner, const struct rondo_channel *c);
  void (*opened)(void *owner, struct rondo_channel *c);
  void (*frame)(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame);
  void (*closed)(void *owner, struct rondo_channel *c, int end, const char *why);
  // A frame with this `counted` has been sent or dropped. May be null.
  void (*sent)(void *owner, size_t bytes);
};

// A frame to send.
struct rondo_channel_out {
  STAILQ_ENTRY(rondo_channel_out) queued;
  struct rondo_wire_head head;
  struct rondo_shared_bytes *payload; // null: no payload
  size_t counted;                     // reported to `sent`
  int fds[RONDO_WIRE_FDS];            // owned by the frame
  // The channel's own.
  size_t done; // bytes sent
  int is_sealed;
  uint8_t head_bytes[RONDO_WIRE_HEAD_BYTES];
  uint8_t mac[RONDO_WIRE_MAC_BYTES];
};
STAILQ_HEAD(rondo_channel_queue, rondo_channel_out);

struct rondo_channel_buffer {
  uint8_t *bytes;
  size_t size, capacity;
};

struct rondo_channel {
  LIST_ENTRY(rondo_channel) listed; // for a list of the owner
  struct rondo_event_loop *loop;
  const struct rondo_channel_events *events;
  void *owner;
  struct rondo_mesh_counters *counters;
  int fd;
  int is_local, is_connecting, is_paused, is_dead, is_starved;
  int is_cut;                            // the other side receives nothing any more
  int closing;                           // for the owner; 0 at first
  uint64_t created_ns;                   // when the channel was created
  uint64_t welcome_ns;                   // of the configuration
  char remote[RONDO_ADDRESS_TEXT_BYTES]; // the other side, for messages
  struct event readable, writable, deadline;
  struct event deferred; // runs when control is back in the event loop
  struct rondo_handshake handshake;
  struct rondo_handshake_reply reply; // of the handshake, to send
  size_t reply_done;
  struct rondo_channel_buffer in;
  int fds[2 * RONDO_WIRE_FDS]; // received with bytes that are not a whole frame yet
  uint32_t fd_count;
  struct rondo_channel_queue queue; // frames to send
};
LIST_HEAD(rondo_channel_list, rondo_channel);

struct rondo_channel_config {
  struct rondo_event_loop *loop;
  const struct rondo_job_key *job;   // outlives the channel
  const struct rondo_key_pair *self; // outlives the channel; null: this side is the root
  // Public key of the process to connect to; outlives the channel. Null: it is the root.
  const uint8_t *responder;
  const struct rondo_channel_events *events;
  void *owner;
  struct rondo_mesh_counters *counters;
  uint64_t handshake_ns;    // bound of the first step of the handshake
  uint64_t welcome_ns;      // bound of its second step, for a side that connects
  uint64_t peer_timeout_ns; // after this time without an answer a machine is lost
};

// Connects to an address, or to a named socket of this machine, and starts the handshake with
// `hello`. Null, with errno set, if that fails at once.
struct rondo_channel *rondo_channel_connect(const struct rondo_channel_config *cfg,
                                            const struct rondo_wire_address *to,
                                            const struct rondo_wire_hello *hello);
struct rondo_channel *rondo_channel_connect_local(const struct rondo_channel_config *cfg,
                                                  const char *name,
                                                  const struct rondo_wire_hello *hello);

// Makes a channel of the accepted connection `fd`; closes `fd` if that fails. `address` is null for
// a connection from this machine.
struct rondo_channel *rondo_channel_accept(const struct rondo_channel_config *cfg, int fd,
                                           const struct sockaddr *address);

// Makes a frame with the payload `payload` (may be null) and takes over the caller's reference,
// also on failure. Several channels may send one payload. Null without memory.
struct rondo_channel_out *rondo_channel_out_create(int type, struct rondo_shared_bytes *payload);
void rondo_channel_out_free(struct rondo_channel_out *out);

// Sends a frame and takes it over. Null stands for a frame that could not be allocated: the channel
// ends, so that the other side does not miss a frame unnoticed.
void rondo_channel_send(struct rondo_channel *c, struct rondo_channel_out *out);
// Sends a frame with a copy of `bytes`.
void rondo_channel_send_bytes(struct rondo_channel *c, int type, const void *bytes, size_t size);

// Delivers no frame while paused.
void rondo_channel_pause(struct rondo_channel *c, int is_paused);

// Closes without calling `closed`. The memory is freed when control returns to the event loop.
void rondo_channel_close(struct rondo_channel *c);
// Ends the channel with `closed`. Tells the other side why if the handshake is not done.
void rondo_channel_refuse(struct rondo_channel *c, int refusal);

// Adds to a counter that only this thread writes and any thread may read.
void rondo_channel_count(uint64_t *counter, uint64_t more);

// An end as text for messages.
const char *rondo_channel_end_text(int end);

// Writes the address of a named socket of this machine. The name is in the abstract namespace, so
// that no file is left. Returns the address's length.
socklen_t rondo_channel_local_address(const char *name, struct sockaddr_storage *s);

#endif // RONDO_RUNTIME_NET_CHANNEL_H
