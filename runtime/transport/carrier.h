// The carrier: brings messages from the proxy of one process to that of another (proxy.h). UCX is
// one carrier; tests have others that delay, reorder and lose messages.
//
//   open -> connect (each process that is sent to) -> send / progress ... disconnect -> close
//
// Each message between two processes arrives whole and once, in any order; or never, and then
// `broken` is called. One thread at a time makes all calls except `sleep` and `wake`. That thread
// also gets the events, from within `progress`, `send` or `disconnect`. No call waits except
// `sleep`.
#ifndef RONDO_RUNTIME_TRANSPORT_CARRIER_H
#define RONDO_RUNTIME_TRANSPORT_CARRIER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <rondo/rondo.h>

struct rondo_carrier;

struct rondo_carrier_events {
  // A message arrives, or begins to arrive. `head` is valid during the call. Returns where to write
  // its payload of `bytes`, or null to drop the payload. If it returns memory, `landed` follows
  // with the value that it has written to `ticket`.
  void *(*arrive)(void *arg, const void *head, size_t head_bytes, uint64_t bytes, void **ticket);
  void (*landed)(void *arg, void *ticket, int status);
  // The carrier does not use the head and payload of a message any more. A `status` other than
  // RONDO_SUCCESS: the message may be lost.
  void (*sent)(void *arg, void *ticket, int status);
  // Messages do not reach that process any more. May be called more than once.
  void (*broken)(void *arg, uint32_t process, const char *text);
};

struct rondo_carrier_message {
  uint32_t to;       // process, connected
  uint32_t endpoint; // below the number that `connect` has made
  const void *head;  // must not change before `sent`, nor may the payload
  size_t head_bytes; // at most RONDO_CARRIER_HEAD_BYTES
  const void *payload;
  uint64_t bytes;
  void *ticket;
};

#define RONDO_CARRIER_HEAD_BYTES 64u

struct rondo_carrier_config {
  uint32_t process; // this one
  // Of this machine, the one that other processes try first; null or without a family: unknown.
  // Valid during `open`.
  const struct sockaddr *address;
  const struct rondo_carrier_events *events;
  void *arg; // of the events
};

struct rondo_carrier_calls {
  const char *name;
  // Writes what it finds on this machine to `out`, one thing a line. Returns as open. Null: it has
  // nothing to describe.
  int (*describe)(FILE *out, char *why, size_t why_bytes);
  // Returns RONDO_SUCCESS; or another status, with the reason in `why`.
  int (*open)(const struct rondo_carrier_config *config, struct rondo_carrier **out, char *why,
              size_t why_bytes);
  // The address that other processes connect to, valid until close.
  const void *(*address)(struct rondo_carrier *c, size_t *bytes);
  // `address`: the address of the peer's carrier, followed by the socket address of its machine
  // without a port, if that is known. Makes connections until there are `endpoints`, at most
  // RONDO_MAX_ENDPOINTS: several may use more of a network, or of its cores. May be called again
  // for more.
  int (*connect)(struct rondo_carrier *c, uint32_t process, const void *address, size_t bytes,
                 uint32_t endpoints);
  // Returns RONDO_SUCCESS, and `sent` is called, perhaps before this returns; or another status,
  // and `sent` is not called.
  int (*send)(struct rondo_carrier *c, const struct rondo_carrier_message *message);
  // Sends and receives as far as the network allows now. Returns 1 if anything moved.
  int (*progress)(struct rondo_carrier *c);
  // Makes arrivals end a sleep until the next `progress`. Returns 0 if something has arrived
  // already.
  int (*arm)(struct rondo_carrier *c);
  // Sleeps until the time has passed, `wake` is called, or, if `is_armed`, something may have
  // arrived. One thread sleeps, beside the thread that makes the other calls. Any thread wakes it.
  void (*sleep)(struct rondo_carrier *c, uint64_t timeout_ns, int is_armed);
  void (*wake)(struct rondo_carrier *c);
  // Called by `arrive`: `process` has sent the message that is arriving. A carrier may then answer
  // over the connection on which the message has come. Null: the carrier has no use for this.
  void (*identify)(struct rondo_carrier *c, uint32_t process);
  // Closes the connections with a process. Its messages that are not over end in later calls of
  // `progress`.
  void (*disconnect)(struct rondo_carrier *c, uint32_t process);
  void (*close)(struct rondo_carrier *c); // no event follows
};

#endif // RONDO_RUNTIME_TRANSPORT_CARRIER_H
