// The identity of this process: its machine, namespaces and numbers. Other processes compare it
// with their own to know whether they can share memory with this process.
#ifndef RONDO_RUNTIME_NET_IDENTITY_H
#define RONDO_RUNTIME_NET_IDENTITY_H

#include "runtime/net/wire.h"

// Fills in machine, namespaces, pid, uid and host; leaves the rest unchanged. `machine` is a digest
// of the kernel's boot id and the network namespace: processes with equal ones reach each other by
// Unix sockets and so can pass file descriptors. Tests set RONDO_TEST_MACHINE to make them differ.
void rondo_identity_get(struct rondo_wire_member *m);

#endif // RONDO_RUNTIME_NET_IDENTITY_H
