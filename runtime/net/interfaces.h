// The network interfaces of this machine: names, speeds, NUMA nodes.
#ifndef RONDO_RUNTIME_NET_INTERFACES_H
#define RONDO_RUNTIME_NET_INTERFACES_H

#include <stdint.h>

#include "runtime/net/topology.h"

// Lists the network interfaces that are up and that `pattern` chooses (address.h), then the active
// ports of all InfiniBand and RoCE adapters, each part in order of names. `sys` is where sysfs is
// mounted. Returns how many were written, at most RONDO_TOPOLOGY_INTERFACES.
uint32_t rondo_interfaces_list(const char *sys, const char *pattern,
                               struct rondo_topology_interface *out);

#endif // RONDO_RUNTIME_NET_INTERFACES_H
