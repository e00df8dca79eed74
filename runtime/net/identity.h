// Who this process is: for others to find it, and to know what it can share with them.
#ifndef RONDO_RUNTIME_NET_IDENTITY_H
#define RONDO_RUNTIME_NET_IDENTITY_H

#include "runtime/net/wire.h"

// Fills in machine, namespaces, pid, uid and host; leaves the rest alone. The machine is this boot of
// this kernel as seen from this network namespace: where it is equal, sockets of the machine, and so
// file descriptors, reach. RONDO_TEST_MACHINE, for tests, is one more part of it.
void rondo_identity_get(struct rondo_wire_member *m);

// 1 if `m` is this process.
int rondo_identity_is_mine(const struct rondo_wire_member *m);

#endif // RONDO_RUNTIME_NET_IDENTITY_H
