// UCX as a carrier (carrier.h): active messages between two processes, over RDMA, TCP or another
// network that UCX finds. The variables of UCX (UCX_TLS, UCX_NET_DEVICES) choose among them.
//
// The library is loaded when it is first needed, not linked. A program that does not use UCX does
// not load it, and a build with the headers of UCX runs where UCX is not installed.
#ifndef RONDO_RUNTIME_TRANSPORT_UCX_UCX_H
#define RONDO_RUNTIME_TRANSPORT_UCX_UCX_H

#include "runtime/transport/carrier.h"

extern const struct rondo_carrier_calls rondo_ucx_carrier;

#endif // RONDO_RUNTIME_TRANSPORT_UCX_UCX_H
