// UCX as a carrier (carrier.h): active messages between the workers of two processes, over whatever
// UCX finds: RDMA, shared memory, TCP. Which it may use is said by its own variables (UCX_TLS,
// UCX_NET_DEVICES).
//
// The library is looked for when it is first needed, not linked: what does not use it does not load it,
// and a build with its headers runs where it is not installed.
#ifndef RONDO_RUNTIME_TRANSPORT_UCX_UCX_H
#define RONDO_RUNTIME_TRANSPORT_UCX_UCX_H

#include "runtime/transport/carrier.h"

extern const struct rondo_carrier_calls rondo_ucx_carrier;

#endif // RONDO_RUNTIME_TRANSPORT_UCX_UCX_H
