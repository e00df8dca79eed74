// The shape of a collective: how many elements each rank sends and receives, where the buffers lie
// in place, what they hold before and after. The size is that of the larger buffer, as in
// nccl-tests.
#ifndef RONDO_TOOLS_KIT_SHAPE_H
#define RONDO_TOOLS_KIT_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_kit_shape {
  int kind; // enum rondo_kind
  int dtype;
  int redop;
  uint32_t rank_count;
  uint32_t root;
  int quantisation;
  uint64_t count; // as rondo_collective_desc.count
};

// Whether the kind is one collective whose parts are all of one size. The others:
//   send-recv:      a ring in which each rank sends to the next one: one collective a pair;
//   all-to-all-v:   uneven parts, from nothing to twice `count`; see rondo_kit_shape_part;
//   barrier:        no elements.
bool rondo_kit_shape_is_kind(int kind);
bool rondo_kit_shape_reduces(int kind);
bool rondo_kit_shape_is_rooted(int kind);

// Whether `rank` uses its send buffer, and whether both buffers may be one.
bool rondo_kit_shape_sends(const struct rondo_kit_shape *shape, uint32_t rank);
bool rondo_kit_shape_may_be_in_place(const struct rondo_kit_shape *shape);

// Sets `count` so that the larger buffer has `bytes`, rounded down to whole elements for every rank
// but at least one each. The other fields are set.
void rondo_kit_shape_size(struct rondo_kit_shape *shape, uint64_t bytes);

uint64_t rondo_kit_shape_send_bytes(const struct rondo_kit_shape *shape);
uint64_t rondo_kit_shape_recv_bytes(const struct rondo_kit_shape *shape);
uint64_t rondo_kit_shape_bytes(const struct rondo_kit_shape *shape); // the larger one

// Elements of an all-to-all-v from one rank to another. They grow with the distance round the ring,
// so that every rank receives as many.
uint64_t rondo_kit_shape_part(const struct rondo_kit_shape *shape, uint32_t from, uint32_t to);

// Bus bandwidth divided by algorithm bandwidth (nccl-tests, PERFORMANCE.md).
double rondo_kit_shape_bus_factor(const struct rondo_kit_shape *shape);

// The descriptor of the collective under `id` on `rank`. For a ring of send-recvs it is that of the
// send; the receive is the descriptor of the previous rank. An all-to-all-v still lacks its arrays.
struct rondo_collective_desc rondo_kit_shape_desc(const struct rondo_kit_shape *shape, uint64_t id,
                                                  uint32_t rank);

// The buffers of one run. In place both point into `recv_base`, which then holds
// rondo_kit_shape_bytes.
struct rondo_kit_place {
  void *send;
  void *recv;
};
struct rondo_kit_place rondo_kit_shape_place(const struct rondo_kit_shape *shape, uint32_t rank,
                                             bool in_place, void *send_base, void *recv_base);

// Writes what `rank` sends in round `round`.
void rondo_kit_shape_fill(const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                          void *send);

// Elements of `recv` that differ from the result of round `round`; 0 if `rank` receives nothing.
uint64_t rondo_kit_shape_wrong(const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                               const void *recv);

// Elements that rondo_kit_shape_wrong compares on `rank`.
uint64_t rondo_kit_shape_checked(const struct rondo_kit_shape *shape, uint32_t rank);

#endif // RONDO_TOOLS_KIT_SHAPE_H
