// Looks up the addresses of a host on a separate thread, because a name server may be slow.
#ifndef RONDO_RUNTIME_NET_RESOLVE_H
#define RONDO_RUNTIME_NET_RESOLVE_H

#include "runtime/net/event_loop.h"
#include "runtime/net/wire.h"

struct rondo_resolve;

// Called on the control thread with the addresses, IPv4 first. If there are none, `error` says why.
typedef void (*rondo_resolve_done)(void *arg, const struct rondo_wire_address *addresses,
                                   uint32_t count, const char *error);

// Starts to look up `host`; `family` is 4, 6, or 0 for both. The caller holds a reference to `loop`
// until it has called rondo_resolve_forget. Null without memory or thread.
struct rondo_resolve *rondo_resolve_begin(struct rondo_event_loop *loop, const char *host,
                                          int family, rondo_resolve_done done, void *arg);
// Frees the look-up; `done` is not called any more. Must be called once, also after `done`.
void rondo_resolve_forget(struct rondo_resolve *resolve);

// Reads `host` at once if it is a numeric address of the family. Returns 1 then, else 0.
uint32_t rondo_resolve_now(const char *host, int family, struct rondo_wire_address *out);

#endif // RONDO_RUNTIME_NET_RESOLVE_H
