// The functions that fill in a descriptor.
#include <rondo/rondo.h>

static struct rondo_collective_desc desc_make(int kind, uint64_t id, uint64_t count, int dtype,
                                              int redop, uint32_t root) {
  struct rondo_collective_desc d = {.size = sizeof d,
                                    .version = RONDO_COLLECTIVE_DESC_VERSION,
                                    .kind = kind,
                                    .id = id,
                                    .count = count,
                                    .dtype = dtype,
                                    .redop = redop,
                                    .root = root,
                                    .scalar = 1.0};
  return d;
}

struct rondo_collective_desc rondo_all_reduce(uint64_t id, uint64_t count, int dtype, int redop) {
  return desc_make(RONDO_ALL_REDUCE, id, count, dtype, redop, 0);
}

struct rondo_collective_desc rondo_all_gather(uint64_t id, uint64_t count, int dtype) {
  return desc_make(RONDO_ALL_GATHER, id, count, dtype, RONDO_SUM, 0);
}

struct rondo_collective_desc rondo_reduce_scatter(uint64_t id, uint64_t count, int dtype,
                                                  int redop) {
  return desc_make(RONDO_REDUCE_SCATTER, id, count, dtype, redop, 0);
}

struct rondo_collective_desc rondo_reduce(uint64_t id, uint64_t count, int dtype, int redop,
                                          uint32_t root) {
  return desc_make(RONDO_REDUCE, id, count, dtype, redop, root);
}

struct rondo_collective_desc rondo_broadcast(uint64_t id, uint64_t count, int dtype,
                                             uint32_t root) {
  return desc_make(RONDO_BROADCAST, id, count, dtype, RONDO_SUM, root);
}

struct rondo_collective_desc rondo_send_recv(uint64_t id, uint64_t count, int dtype, uint32_t root,
                                             uint32_t peer) {
  struct rondo_collective_desc d = desc_make(RONDO_SEND_RECV, id, count, dtype, RONDO_SUM, root);
  d.peer = peer;
  return d;
}

struct rondo_collective_desc rondo_all_to_all(uint64_t id, uint64_t count, int dtype) {
  return desc_make(RONDO_ALL_TO_ALL, id, count, dtype, RONDO_SUM, 0);
}

struct rondo_collective_desc rondo_all_to_all_v(uint64_t id, int dtype, const uint64_t *send_counts,
                                                const uint64_t *send_displacements,
                                                const uint64_t *recv_counts,
                                                const uint64_t *recv_displacements) {
  struct rondo_collective_desc d = desc_make(RONDO_ALL_TO_ALL_V, id, 0, dtype, RONDO_SUM, 0);
  d.send_counts = send_counts;
  d.send_displacements = send_displacements;
  d.recv_counts = recv_counts;
  d.recv_displacements = recv_displacements;
  return d;
}

struct rondo_collective_desc rondo_gather(uint64_t id, uint64_t count, int dtype, uint32_t root) {
  return desc_make(RONDO_GATHER, id, count, dtype, RONDO_SUM, root);
}

struct rondo_collective_desc rondo_scatter(uint64_t id, uint64_t count, int dtype, uint32_t root) {
  return desc_make(RONDO_SCATTER, id, count, dtype, RONDO_SUM, root);
}

struct rondo_collective_desc rondo_barrier(uint64_t id) {
  return desc_make(RONDO_BARRIER, id, 0, RONDO_UINT8, RONDO_SUM, 0);
}
