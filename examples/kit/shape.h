// What a collective of some size means in buffers: how many elements each rank
// sends and receives, where they lie in place, what they must hold before and after.
// Sizes are counted as nccl-tests counts them: the larger of the two buffers.
#ifndef RONDO_EXAMPLES_KIT_SHAPE_H
#define RONDO_EXAMPLES_KIT_SHAPE_H

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
  uint64_t count; // as rondo_collective_desc.count
};

// 1 for the kinds whose parts are all of one size, and which are one collective. The others:
//   send-recv:      a ring, in which each rank sends to the next one: a collective a pair;
//   all-to-all-v:   uneven parts, from nothing to twice `count`; see rondo_kit_shape_part;
//   barrier:        no elements at all.
bool rondo_kit_shape_is_kind(int kind);
bool rondo_kit_shape_reduces(int kind);
bool rondo_kit_shape_is_rooted(int kind);

// Whether `rank` uses its send buffer, and whether both buffers may be one.
bool rondo_kit_shape_sends(const struct rondo_kit_shape *shape, uint32_t rank);
bool rondo_kit_shape_may_be_in_place(const struct rondo_kit_shape *shape);

// The shape whose larger buffer is `bytes`, rounded down to whole elements for every rank but at
// least one each. `shape` has all fields but count, and gets it.
void rondo_kit_shape_size(struct rondo_kit_shape *shape, uint64_t bytes);

uint64_t rondo_kit_shape_send_bytes(const struct rondo_kit_shape *shape);
uint64_t rondo_kit_shape_recv_bytes(const struct rondo_kit_shape *shape);
uint64_t rondo_kit_shape_bytes(const struct rondo_kit_shape *shape); // the larger one

// Elements of an all-to-all-v that go from one rank to another: the more, the further it is behind; all
// ranks together send each as much.
uint64_t rondo_kit_shape_part(const struct rondo_kit_shape *shape, uint32_t from, uint32_t to);

// What algorithm bandwidth is multiplied with to get bus bandwidth (nccl-tests, PERFORMANCE.md).
double rondo_kit_shape_bus_factor(const struct rondo_kit_shape *shape);

// The descriptor of the collective under `id` on `rank`. Of the ring: of the send; of the receive it is that
// of the rank before. An all-to-all-v still lacks its arrays.
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

// Elements of `recv` that are not the result of round `round`; 0 where `rank` receives nothing.
uint64_t rondo_kit_shape_wrong(const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                               const void *recv);

// Elements that rondo_kit_shape_wrong looks at on `rank`.
uint64_t rondo_kit_shape_checked(const struct rondo_kit_shape *shape, uint32_t rank);

#endif // RONDO_EXAMPLES_KIT_SHAPE_H
