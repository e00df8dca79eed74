// Processes that map none of our memory: the proxy forwards slots to them and from them.
//
// Part of transports.h: the lock of its owner is held unless a comment says otherwise.
#ifndef RONDO_RUNTIME_TRANSPORT_PROXIED_H
#define RONDO_RUNTIME_TRANSPORT_PROXIED_H

#include "runtime/transport/transports.h"

// What carries the messages of proxies. Tests put another carrier in its place, before any rank is
// made.
extern const struct rondo_carrier_calls *rondo_proxied_carrier;

// Chooses how that process is reached: enum rondo_transport. Starts the proxy where the first process
// needs it.
int rondo_proxied_choose(struct rondo_transports *t, uint32_t process);
// Sends the address of our proxy; takes a peer's. The latter returns 1, or 0 if no member sends such a
// thing.
void rondo_proxied_introduce(struct rondo_transports *t, uint32_t process);
int rondo_proxied_receive(struct rondo_transports *t,
                          const struct rondo_transport_arrival *arrival);
// The process is lost: its links end.
void rondo_proxied_lose(struct rondo_transports *t, uint32_t process);
// Waits a while until everything published here has arrived. Without the lock.
void rondo_proxied_drain(struct rondo_transports *t);
void rondo_proxied_close(struct rondo_transports *t);

// As rondo_transports_explain.
int rondo_proxied_explain(const struct rondo_transports *t, uint32_t process, char *why,
                          size_t why_bytes);

#endif // RONDO_RUNTIME_TRANSPORT_PROXIED_H
