// Processes that map none of our memory: the proxy forwards slots to them and from them.
//
// Part of transports.h: the lock of its owner is held unless a comment says otherwise.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXIED_H
#define RONDO_RUNTIME_TRANSPORT_PROXIED_H

#include "runtime/transport/transports.h"

// The carrier of the proxies' messages. Tests replace it before they make a rank.
extern const struct rondo_carrier_calls *rondo_proxied_carrier;

// Chooses how a process is reached: enum rondo_transport. Starts the proxy for the first process
// that needs it.
int rondo_proxied_choose(struct rondo_transports *t, uint32_t process);
// Send the address of our proxy, and receive a peer's. The latter returns 0 if no member sends such
// a message.
void rondo_proxied_introduce(struct rondo_transports *t, uint32_t process);
int rondo_proxied_receive(struct rondo_transports *t,
                          const struct rondo_transport_arrival *arrival);
// Ends the links of a lost process.
void rondo_proxied_lose(struct rondo_transports *t, uint32_t process);
// Waits, for a bounded time, until everything published here has arrived. Without the lock.
void rondo_proxied_drain(struct rondo_transports *t);
void rondo_proxied_close(struct rondo_transports *t);

// As rondo_transports_explain.
int rondo_proxied_explain(const struct rondo_transports *t, uint32_t process, char *why,
                          size_t why_bytes);

#endif // RONDO_RUNTIME_TRANSPORT_PROXIED_H
