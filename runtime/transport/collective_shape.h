// The shape of a collective: how it is cut into blocks, chunks and slots. Equal on all members.
#ifndef RONDO_RUNTIME_TRANSPORT_COLLECTIVE_SHAPE_H
#define RONDO_RUNTIME_TRANSPORT_COLLECTIVE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/cost.h"
#include "daemon/plan/geometry_core.h"
#include <rondo/rondo.h>

struct rondo_shape {
  int kind, dtype, algorithm;
  int rule; // why this algorithm: enum rondo_plan_rule
  uint32_t nranks, root;
  uint32_t blocks; // that take part
  uint32_t chunk_elems;
  uint32_t slot_count;
  uint32_t first_sequence; // of every connector
  uint32_t is_mapped;      // of every connector
  uint64_t count;
  uint32_t reference_bytes;
  uint32_t scaled;                            // 1: this reduction multiplies inputs before sending
  bool keeps_sums;                            // see struct rondo_plan_request
  int quantisation;                           // enum rondo_quantisation: of the messages
  const struct rondo_plan_topology *topology; // of the members, or null; the job owns it
  // A connector gets payload memory if those of the job then take at most this in its process. Else
  // ranks lend it (rondo_shape_lent). 0: ranks lend none.
  uint64_t payload_limit;
};

// Forced algorithms (RONDO_ALGO): of a kind, for collectives that count at most `most_bytes`. Of
// several the first one that fits rules.
#define RONDO_MAX_FORCED 64u
struct rondo_forced_rule {
  uint64_t most_bytes;
  uint8_t kind;      // enum rondo_kind
  uint8_t algorithm; // 1 + enum rondo_algorithm; 0: the choice
};
struct rondo_forced {
  uint32_t count;
  struct rondo_forced_rule rules[RONDO_MAX_FORCED];
};

// The algorithm for a collective that counts `bytes`, as in struct rondo_forced_rule.
static inline uint8_t rondo_forced_find(const struct rondo_forced *forced, int kind,
                                        uint64_t bytes) {
  for (uint32_t i = 0; i < forced->count; i++)
    if (forced->rules[i].kind == kind && bytes <= forced->rules[i].most_bytes)
      return forced->rules[i].algorithm;
  return 0;
}

// What decides a shape besides the descriptor. Zero: the default.
struct rondo_shape_limits {
  uint32_t blocks;     // of each member's daemon
  uint32_t slot_bytes; // cap on one slot
  uint32_t slot_count;
  uint32_t block_bytes;     // a collective takes one block for each of these
  uint32_t reference_bytes; // payloads of at least this are passed by reference
  uint32_t first_sequence;
  const struct rondo_plan_topology *topology; // of the members, or null
  uint64_t payload_limit;
  bool shares_memory; // all members are threads of this process, and can read each other's buffers
  uint32_t is_mapped; // tests only: connectors behave as between processes
  const struct rondo_cost_model *model; // decides the algorithm; null: rondo_cost_defaults
  struct rondo_cost_query place;        // link, machines and cores of the members
  // By kind: 1 + the algorithm that is used (enum rondo_algorithm). 0: the choice.
  uint8_t algorithms[RONDO_KIND_COUNT];
};

// Decides how a collective is cut. Pure.
struct rondo_shape rondo_shape_make(const struct rondo_collective_desc *desc, uint32_t nranks,
                                    const struct rondo_shape_limits *limits);

struct rondo_plan;

// Payload memory that a member needs while it has runs outstanding, for slots without memory of
// their own that cannot refer to a user's buffer: for each block, send peer and slot `slot_bytes`.
// `reads_buffers`: all peers can read the user's buffers of this member.
struct rondo_shape_lent {
  uint64_t bytes; // 0: none
  uint32_t slot_bytes;
};
struct rondo_shape_lent rondo_shape_lent(const struct rondo_shape *shape,
                                         const struct rondo_plan *plan, bool reads_buffers);

// Scratch of each block, a multiple of RONDO_SCRATCH_ALIGN_BYTES; 0: the plan has none.
#define RONDO_SCRATCH_ALIGN_BYTES UINT64_C(128)
uint64_t rondo_shape_scratch_bytes(const struct rondo_shape *shape, const struct rondo_plan *plan);

// The part of block `block`. Of an all-to-all-v the caller sets `listed`.
struct rondo_geometry rondo_shape_geometry(const struct rondo_shape *shape, uint32_t block);

#endif // RONDO_RUNTIME_TRANSPORT_COLLECTIVE_SHAPE_H
