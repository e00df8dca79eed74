// One connection: frames over a stream socket, proved at its beginning.
//
//   connect or accept -> `opened` (both sides have proved the secret) -> send / `frame`
//     -> `closed`, or close by the owner
//
// All on the control thread, and nothing waits. What is sent before the proof is done is kept until
// then. A channel that nobody has proved holds little memory and has a deadline.
#ifndef RONDO_RUNTIME_NET_CHANNEL_H
#define RONDO_RUNTIME_NET_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/net/address.h"
#include "runtime/net/event_loop.h"
#include "runtime/net/handshake.h"
#include "runtime/net/mesh.h"

#define RONDO_CHANNEL_TEXT_BYTES 200u

struct rondo_channel;

// A frame, with the descriptors that came with it, as those of struct rondo_mesh_message.
struct rondo_channel_frame {
  struct rondo_wire_frame wire;
  int *fds;
  uint32_t fd_count;
};

// How a channel ended. The values before the last are those of enum rondo_wire_refusal.
enum rondo_channel_end {
  RONDO_CHANNEL_CUT = 16,        // by the other side, or reset
  RONDO_CHANNEL_UNREACHABLE = 17 // no way to the other side, or none any more
};

// `owner` is the pointer given at the making. Any of them but closed may close the channel; after
// `closed` it is gone.
struct rondo_channel_events {
  void (*opened)(void *owner, struct rondo_channel *c);
  void (*frame)(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame);
  void (*closed)(void *owner, struct rondo_channel *c, int end, const char *why);
  // `bytes` of what was counted are sent, or dropped. May be null.
  void (*sent)(void *owner, size_t bytes);
};

// A payload that several channels may send. Made with one reference.
struct rondo_channel_blob {
  uint32_t refs; // of the control thread only, once it is shared
  uint32_t size;
  uint8_t bytes[];
};

// A frame on its way out.
struct rondo_channel_out {
  struct rondo_channel_out *next;
  struct rondo_wire_head head;
  struct rondo_channel_blob *blob; // null: no payload
  size_t counted;                  // told to `sent` at the end
  int fds[RONDO_WIRE_FDS];         // the frame's own
  // Of the channel.
  size_t done;
  int is_sealed;
  uint8_t head_bytes[RONDO_WIRE_HEAD_BYTES];
  uint8_t mac[RONDO_WIRE_MAC_BYTES];
};

struct rondo_channel_buffer {
  uint8_t *bytes;
  size_t size, capacity;
};

struct rondo_channel {
  struct rondo_channel *next, *before; // for the owner's lists
  struct rondo_event_loop *loop;
  const struct rondo_channel_events *events;
  void *owner;
  struct rondo_mesh_counters *counters;
  int fd;
  int is_local, is_connecting, is_paused, is_dead, is_starved;
  uint32_t peer;      // for the owner: a process
  uint64_t opened_ns; // the making of the channel
  char who[RONDO_ADDRESS_TEXT_BYTES];
  struct event readable, writable, deadline, kick;
  struct rondo_handshake proof;
  struct rondo_handshake_reply reply; // of the proof, on its way out
  size_t reply_done;
  struct rondo_channel_buffer in;
  int fds[2 * RONDO_WIRE_FDS]; // came with bytes that are not a whole frame yet
  uint32_t fd_count;
  struct rondo_channel_out *out_first, *out_last;
};

struct rondo_channel_config {
  struct rondo_event_loop *loop;
  const struct rondo_job_key *job; // outlives the channel
  const struct rondo_channel_events *events;
  void *owner;
  struct rondo_mesh_counters *counters;
  uint64_t proof_ns;        // the proof must be done within it
  uint64_t peer_timeout_ns; // a machine that does not answer for so long is lost
};

// Connects to an address, or to the socket of a name on this machine, and begins the proof as `hello`
// says. Null, with errno set, if that fails at once.
struct rondo_channel *rondo_channel_connect(const struct rondo_channel_config *cfg,
                                            const struct rondo_wire_address *to,
                                            const struct rondo_wire_hello *hello);
struct rondo_channel *rondo_channel_connect_local(const struct rondo_channel_config *cfg,
                                                  const char *name,
                                                  const struct rondo_wire_hello *hello);

// Takes over the connection `fd`, also when it fails. `address` may be null: of this machine.
struct rondo_channel *rondo_channel_accept(const struct rondo_channel_config *cfg, int fd,
                                           const struct sockaddr *address);

// Makes a frame of which `blob` is the payload (the frame holds it from now on, also if this fails).
// Null without memory.
struct rondo_channel_out *rondo_channel_out_create(int type, struct rondo_channel_blob *blob);
void rondo_channel_out_free(struct rondo_channel_out *out);
struct rondo_channel_blob *rondo_channel_blob_create(const void *bytes, size_t size);
void rondo_channel_blob_put(struct rondo_channel_blob *blob);

// Sends a frame, which belongs to the channel from now on; null: reports that there was no memory
// for it by closing the channel.
void rondo_channel_send(struct rondo_channel *c, struct rondo_channel_out *out);
// The same for a payload that is copied.
void rondo_channel_send_bytes(struct rondo_channel *c, int type, const void *bytes, size_t size);

// No frame is delivered while paused.
void rondo_channel_pause(struct rondo_channel *c, int is_paused);

// Closes without calling `closed`. The memory stays until control returns to the loop.
void rondo_channel_close(struct rondo_channel *c);
// Refuses: tells the other side why, if it has not proved anything yet, and calls `closed`.
void rondo_channel_refuse(struct rondo_channel *c, int refusal);

// Adds to a counter that other threads may read and this one alone writes.
void rondo_channel_count(uint64_t *counter, uint64_t more);

// What an end means, in words.
const char *rondo_channel_end_text(int end);

// Makes "rondo-…" names of sockets of this machine: abstract, so that nothing is left in a file system.
socklen_t rondo_channel_local_address(const char *name, struct sockaddr_storage *s);

#endif // RONDO_RUNTIME_NET_CHANNEL_H
