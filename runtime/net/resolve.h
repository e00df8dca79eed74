// Names of hosts to addresses, on a thread of its own: a name server may take its time.
#ifndef RONDO_RUNTIME_NET_RESOLVE_H
#define RONDO_RUNTIME_NET_RESOLVE_H

#include "runtime/net/event_loop.h"
#include "runtime/net/wire.h"

struct rondo_resolve;

// Called on the control thread with what was found, IPv4 first; `error` says why it is nothing.
typedef void (*rondo_resolve_done)(void *arg, const struct rondo_wire_address *addresses,
                                   uint32_t count, const char *error);

// Begins to look up `host`; `family` 0, 4 or 6. `loop` has been got for it by the caller, who calls
// forget before it gives that back. Null without memory or thread.
struct rondo_resolve *rondo_resolve_begin(struct rondo_event_loop *loop, const char *host,
                                          int family, rondo_resolve_done done, void *arg);
// Nothing is called any more. Once for each begin, also when done has been called.
void rondo_resolve_forget(struct rondo_resolve *resolve);

// The same at once, for what is no name but an address. Returns 1 if it was one.
uint32_t rondo_resolve_now(const char *host, int family, struct rondo_wire_address *out);

#endif // RONDO_RUNTIME_NET_RESOLVE_H
