// A machine of three NUMA nodes with four cores each, in place of the real one: it records the
// calls that place memory and threads, and puts pages where the kernel would put them.
//
//   rondo_fake_nodes_reset -> rondo_fake_nodes.here = ... -> the library's calls ->
//   rondo_fake_nodes_hold
//
// A test that uses it is linked with RONDO_FAKE_NODES_OPTIONS (tests/unit/CMakeLists.txt). It knows
// memory that the library maps, pages of files, and heap pages that have been released. All other
// pages are on no node.
#ifndef RONDO_TESTS_SUPPORT_FAKE_NODES_H
#define RONDO_TESTS_SUPPORT_FAKE_NODES_H

#include <stddef.h>
#include <stdint.h>

#define RONDO_FAKE_NODES 3u
#define RONDO_FAKE_NODE_CORES 4u
#define RONDO_FAKE_WORKERS 64u
#define RONDO_FAKE_NOWHERE (-1)

struct rondo_fake_nodes {
  uint32_t own_cores;  // that the process may use, a bit each
  uint32_t is_refused; // 1: the calls of policy are, as in a container
  int device_node;     // of every PCI device
  uint32_t placements; // of threads so far, and the cores of each, a bit each
  uint32_t placed[RONDO_FAKE_WORKERS];
};
extern struct rondo_fake_nodes rondo_fake_nodes;

// All cores are the process's, nothing is placed, nothing refused. This thread runs on node 0, all
// others on the last one.
void rondo_fake_nodes_reset(void);
// The calling thread runs on `node` from now on.
void rondo_fake_nodes_go(int node);
// The policy of the calling thread: MPOL_*; what the application has chosen, or the library has
// left behind.
void rondo_fake_nodes_set_policy(int policy);
int rondo_fake_nodes_policy(void);
// The node on which all whole pages there lie; RONDO_FAKE_NOWHERE: on several, or not known, or
// there are none.
int rondo_fake_nodes_hold(const void *memory, size_t bytes);

#endif // RONDO_TESTS_SUPPORT_FAKE_NODES_H
