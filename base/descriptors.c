// The functions that fill in a descriptor.
#include <rondo/rondo.h>

static struct rondo_collective_desc desc_init(int kind, uint64_t id, uint64_t count, int dtype) {
  struct rondo_collective_desc d = {.size = sizeof d, .version = RONDO_COLLECTIVE_DESC_VERSION};
  d.kind = kind;
  d.id = id;
  d.count = count;
  d.dtype = dtype;
  d.redop = RONDO_SUM;
  d.scalar = 1.0;
  return d;
}

struct rondo_collective_desc rondo_all_reduce(uint64_t id, uint64_t count, int dtype, int redop) {
  struct rondo_collective_desc d = desc_init(RONDO_ALL_REDUCE, id, count, dtype);
  d.redop = redop;
  return d;
}

struct rondo_collective_desc rondo_all_gather(uint64_t id, uint64_t count, int dtype) {
  return desc_init(RONDO_ALL_GATHER, id, count, dtype);
}

struct rondo_collective_desc rondo_reduce_scatter(uint64_t id, uint64_t count, int dtype,
                                                  int redop) {
  struct rondo_collective_desc d = desc_init(RONDO_REDUCE_SCATTER, id, count, dtype);
  d.redop = redop;
  return d;
}

struct rondo_collective_desc rondo_reduce(uint64_t id, uint64_t count, int dtype, int redop,
                                          uint32_t root) {
  struct rondo_collective_desc d = desc_init(RONDO_REDUCE, id, count, dtype);
  d.redop = redop;
  d.root = root;
  return d;
}

struct rondo_collective_desc rondo_broadcast(uint64_t id, uint64_t count, int dtype,
                                             uint32_t root) {
  struct rondo_collective_desc d = desc_init(RONDO_BROADCAST, id, count, dtype);
  d.root = root;
  return d;
}

struct rondo_collective_desc rondo_send_recv(uint64_t id, uint64_t count, int dtype, uint32_t root,
                                             uint32_t peer) {
  struct rondo_collective_desc d = desc_init(RONDO_SEND_RECV, id, count, dtype);
  d.root = root;
  d.peer = peer;
  return d;
}

struct rondo_collective_desc rondo_all_to_all(uint64_t id, uint64_t count, int dtype) {
  return desc_init(RONDO_ALL_TO_ALL, id, count, dtype);
}

struct rondo_collective_desc rondo_all_to_all_v(uint64_t id, int dtype, const uint64_t *send_counts,
                                                const uint64_t *send_displacements,
                                                const uint64_t *recv_counts,
                                                const uint64_t *recv_displacements) {
  struct rondo_collective_desc d = desc_init(RONDO_ALL_TO_ALL_V, id, 0, dtype);
  d.send_counts = send_counts;
  d.send_displacements = send_displacements;
  d.recv_counts = recv_counts;
  d.recv_displacements = recv_displacements;
  return d;
}

struct rondo_collective_desc rondo_gather(uint64_t id, uint64_t count, int dtype, uint32_t root) {
  struct rondo_collective_desc d = desc_init(RONDO_GATHER, id, count, dtype);
  d.root = root;
  return d;
}

struct rondo_collective_desc rondo_scatter(uint64_t id, uint64_t count, int dtype, uint32_t root) {
  struct rondo_collective_desc d = desc_init(RONDO_SCATTER, id, count, dtype);
  d.root = root;
  return d;
}

struct rondo_collective_desc rondo_barrier(uint64_t id) {
  return desc_init(RONDO_BARRIER, id, 0, RONDO_UINT8);
}
