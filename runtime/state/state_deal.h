// Who sends which blocks to whom. Pure. Each member makes its part from the same maps, so all
// agree.
//
//   rondo_state_deal_make -> walk through the parcels in order -> rondo_state_deal_fini
//
// A member that lacks a block gets it from one that has it: of the first RONDO_STATE_SENDERS
// members after it in the circle that do, the one that has to send the fewest bytes so far. So a
// member that lacks many blocks gets them from many others, and all others have about the same
// work.
//
// What one member sends to another goes in *parcels* of whole blocks, at most 1 MiB. Parcels have a
// total order: by their number within the pair, then by the pair. If every member has a window of
// some parcels outstanding, in this order, the first one that has not arrived is outstanding at
// both ends. So no window is too small.
#ifndef RONDO_RUNTIME_STATE_STATE_DEAL_H
#define RONDO_RUNTIME_STATE_STATE_DEAL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/state/state_layout.h"

#define RONDO_STATE_SENDERS 32u

struct rondo_state_parcel {
  uint32_t from, to; // members, by their position
  uint64_t number;   // within this pair
  size_t first;      // in `blocks` of the deal
  uint32_t count;    // of blocks
  uint64_t bytes;    // 1 to RONDO_STATE_BLOCK_BYTES
};

struct rondo_state_deal {
  struct rondo_state_parcel *parcels; // that this member sends or receives, in order
  uint64_t *blocks;
  size_t parcel_count;
  uint32_t senders; // members that send to this one
};

// The map of one member: a bit for each block, 1: its content is not the chosen one.
static inline size_t rondo_state_map_bytes(uint64_t block_count) {
  return (size_t)(block_count / 8 + (block_count % 8 != 0));
}
static inline int rondo_state_map_get(const uint8_t *map, uint64_t block) {
  return map[block / 8] >> (block % 8) & 1;
}
static inline void rondo_state_map_set(uint8_t *map, uint64_t block) {
  map[block / 8] = (uint8_t)(map[block / 8] | 1u << (block % 8));
}

// Makes the part of member `self` from the maps of `members`. Returns RONDO_SUCCESS;
// RONDO_ERR_NO_MEMORY; or RONDO_ERR_INTERNAL: no member has a block. `deal` is written on success.
int rondo_state_deal_make(const uint8_t *maps, uint32_t members,
                          const struct rondo_state_layout *layout, uint32_t self,
                          struct rondo_state_deal *deal);
void rondo_state_deal_fini(struct rondo_state_deal *deal);

#endif // RONDO_RUNTIME_STATE_STATE_DEAL_H
