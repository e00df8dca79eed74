// NUMA nodes: where memory lies.
//
// A page lies on the node of the thread that touches it first. A thread that allocates memory for
// another thread does so between two calls:
//
//   preferred = rondo_node_prefer(node) -> allocate and touch -> rondo_node_rest(preferred)
//
// The application's choice for the thread (set_mempolicy, numactl) is kept. Where the system
// refuses (containers), memory lies where it would without these calls. They do nothing on a
// machine with one node, and without libnuma.
#ifndef RONDO_BASE_NUMA_NODE_H
#define RONDO_BASE_NUMA_NODE_H

#include <stddef.h>

#define RONDO_NODE_ANY (-1)

// The node of the calling thread's core; RONDO_NODE_ANY if there is only one node.
int rondo_node_here(void);

// Pages that the calling thread touches first lie on `node` from now on, while it has room. Returns
// what rondo_node_rest takes: 1 if there is a preference to end.
int rondo_node_prefer(int node);
void rondo_node_rest(int preferred);

// With several nodes: releases whole pages of heap memory, with their contents, so that they are
// touched anew. They may have lain on another node.
void rondo_node_renew(void *memory, size_t bytes);

#endif // RONDO_BASE_NUMA_NODE_H
