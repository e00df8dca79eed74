// UCX as a carrier (carrier.h): active messages between the workers of two processes, over RDMA,
// TCP or what else UCX finds. Its own variables (UCX_TLS, UCX_NET_DEVICES) restrict what it may
// use.
//
// The library is loaded when it is first needed, not linked. So a program that does not use it does
// not load it, and a build with the headers of UCX runs where UCX is not installed.
#ifndef RONDO_RUNTIME_TRANSPORT_UCX_UCX_H
#define RONDO_RUNTIME_TRANSPORT_UCX_UCX_H

#include "runtime/transport/carrier.h"

extern const struct rondo_carrier_calls rondo_ucx_carrier;

#endif // RONDO_RUNTIME_TRANSPORT_UCX_UCX_H
