// NUMA nodes: on which of them memory comes to lie.
//
// A page lies on the node of the thread that touches it first. Who gets memory for somebody else says so between two
// calls:
//
//   preferred = rondo_node_prefer(node) -> allocate and touch -> rondo_node_rest(preferred)
//
// What the application has decided for the thread (set_mempolicy, numactl) is left as it is, and where the system refuses
// (containers) memory lies where it would without. All is nothing on a machine of one node, and without libnuma.
#ifndef RONDO_BASE_NODE_H
#define RONDO_BASE_NODE_H

#include <stddef.h>

#define RONDO_NODE_ANY (-1)

// The node of the core that the calling thread is on; RONDO_NODE_ANY where there are not several.
int rondo_node_here(void);

// Pages that the calling thread touches first from now on lie on `node` while that has room. Returns 1 if there is
// something to end, for rondo_node_rest.
int rondo_node_prefer(int node);
void rondo_node_rest(int preferred);

// Where there are several nodes: lets go of the whole pages of memory that has come from the heap, with what is in
// them, so that they are touched anew. They may have been somebody's on another node.
void rondo_node_renew(void *memory, size_t bytes);

#endif // RONDO_BASE_NODE_H
