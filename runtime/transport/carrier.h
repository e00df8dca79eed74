// The carrier: what brings messages from the proxy of one process to that of another (proxy.h). UCX
// is one; tests have one that delays, reorders and cuts.
//
//   open -> connect (each process that anything is sent to) -> send / turn ... cut -> close
//
// Messages between two processes arrive whole and each once, in any order, or never, and then
// `broken` tells. All calls but `sleep` and `wake` are made by one thread at a time, which also calls the
// events, from within `turn`, `send` or `cut`. Nothing waits but `sleep`.
#ifndef RONDO_RUNTIME_TRANSPORT_CARRIER_H
#define RONDO_RUNTIME_TRANSPORT_CARRIER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rondo/rondo.h>

struct rondo_carrier;

struct rondo_carrier_events {
  // A message is here, or begins to come; `head` is good for the call. Returns where its payload of
  // `bytes` is to go, and then `landed` follows with what is written to `ticket`; or null, and the payload
  // is dropped.
  void *(*arrive)(void *arg, const void *head, size_t head_bytes, uint64_t bytes, void **ticket);
  void (*landed)(void *arg, void *ticket, int status);
  // Head and payload of a message are the sender's again. `status`: RONDO_SUCCESS, or it may be lost.
  void (*sent)(void *arg, void *ticket, int status);
  // Nothing gets to that process any more. It may be told more than once.
  void (*broken)(void *arg, uint32_t process, const char *text);
};

struct rondo_carrier_message {
  uint32_t to;       // process, connected
  uint32_t way;      // below rondo_carrier_config.ways
  const void *head;  // this and the payload stay as they are until `sent`
  size_t head_bytes; // at most RONDO_CARRIER_HEAD_BYTES
  const void *payload;
  uint64_t bytes;
  void *ticket;
};

#define RONDO_CARRIER_HEAD_BYTES 64u

struct rondo_carrier_config {
  uint32_t process; // this one
  uint32_t ways; // to each other one: what goes by one may use more of a network, or of its cores
  const struct rondo_carrier_events *events;
  void *arg; // of the events
};

struct rondo_carrier_calls {
  const char *name;
  // Writes to `out`, a line each, what it finds on this machine. Returns as open. Null: nothing can be said.
  int (*describe)(FILE *out, char *why, size_t why_bytes);
  // Returns RONDO_SUCCESS, or another status and in `why` for which reason.
  int (*open)(const struct rondo_carrier_config *config, struct rondo_carrier **out, char *why,
              size_t why_bytes);
  // What others connect to: good until close.
  const void *(*address)(struct rondo_carrier *c, size_t *bytes);
  // `address`: what the other's carrier says, and behind it, if that is known, the socket address of its
  // machine, without a port.
  int (*connect)(struct rondo_carrier *c, uint32_t process, const void *address, size_t bytes);
  // Returns RONDO_SUCCESS, and then `sent` follows, perhaps at once; or a status, and it does not.
  int (*send)(struct rondo_carrier *c, const struct rondo_carrier_message *message);
  // Moves what can be moved. Returns 1 if anything did.
  int (*turn)(struct rondo_carrier *c);
  // Returns 1 if what comes from now on ends a sleep, until the next turn; 0 if something has come.
  int (*arm)(struct rondo_carrier *c);
  // Sleeps until the time is over, `wake` is called, or, if it is armed, something may have come. One
  // thread sleeps, beside the one that makes the other calls; and any wakes it.
  void (*sleep)(struct rondo_carrier *c, uint64_t timeout_ns, int is_armed);
  void (*wake)(struct rondo_carrier *c);
  // Goes on without a process: what is under way to or from it ends, by later turns.
  void (*cut)(struct rondo_carrier *c, uint32_t process);
  void (*close)(struct rondo_carrier *c); // no event after that
};

#endif // RONDO_RUNTIME_TRANSPORT_CARRIER_H
