// The NUMA nodes on which memory is placed.
//
// A page is placed on the node of the thread that accesses it first. A thread that allocates memory
// for another thread does so between two calls:
//
//   preferred = rondo_node_prefer(node) -> allocate and write -> rondo_node_rest(preferred)
//
// The application's choice for the thread (set_mempolicy, numactl) is kept. The calls do nothing if
// the system refuses them (as in some containers), on a machine with one node, and without libnuma.
#ifndef RONDO_BASE_NUMA_NODE_H
#define RONDO_BASE_NUMA_NODE_H

#include <stddef.h>

#define RONDO_NODE_ANY (-1)

// Returns the node of the calling thread's core; RONDO_NODE_ANY if there is only one node.
int rondo_node_here(void);

// From now on, pages that the calling thread accesses first are placed on `node`, if it has free
// memory. rondo_node_rest ends this. Returns the argument for rondo_node_rest: 1 if there is a
// preference to end.
int rondo_node_prefer(int node);
void rondo_node_rest(int preferred);

// On a machine with several nodes: discards the whole pages of a piece of heap memory, and their
// contents. The next access places them again, because they may have been on another node.
void rondo_node_renew(void *memory, size_t bytes);

#endif // RONDO_BASE_NUMA_NODE_H
