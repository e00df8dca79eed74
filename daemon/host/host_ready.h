// Ready bytes: they mark the blocks of this process that may have something to do. Each block has
// one byte. A peer in this process sets it when it has published data for the block or consumed
// data from it (queues/connector_core.h). A thread clears it before it steps the block. With many
// ranks on few cores, a thread that looks for work reads these adjacent bytes instead of visiting
// every block.
//
// Bytes are reused and never freed: a peer may set the byte of a block that has ended.
#ifndef RONDO_DAEMON_HOST_READY_H
#define RONDO_DAEMON_HOST_READY_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/status.h>
#include "base/atomic.h"

struct rondo_host_block;

#define RONDO_HOST_GROUP_BLOCKS 64u

struct rondo_host_group {
  _Alignas(RONDO_HOST_GROUP_BLOCKS) uint8_t ready[RONDO_HOST_GROUP_BLOCKS];
  uint32_t end;                                             // after the last byte in use
  struct rondo_host_block *blocks[RONDO_HOST_GROUP_BLOCKS]; // null: the byte is free
};

// Gives the block byte number `hint` if that is free, else any other. If hints are in the order of
// ranks, neighbours of a ring are next to each other, so that one visit brings data through many of
// them. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_FULL.
int rondo_host_ready_add(struct rondo_host_block *block, uint32_t hint);
// Removes a block, which need not have been added. Afterwards no visit accesses the block. The
// block keeps the address of its byte, which peers may still set.
void rondo_host_ready_remove(struct rondo_host_block *block);
// Empties the list in the child of a fork, even if a thread of the parent held the lock.
void rondo_host_ready_forget(void);

// Calls `visit` for each block whose byte is set, or for each block if `all` is true; for none
// while blocks are being added or removed. Returns true if a call returned true.
bool rondo_host_ready_visit(bool (*visit)(struct rondo_host_block *block, void *arg), void *arg,
                            bool all);

// Marks a block that may have something to do.
static inline void rondo_host_ready_set(uint8_t *ready) {
  if (ready)
    rondo_store_release_u8(ready, 1); // C7
}

// Clears the mark before the block is stepped, so that a later mark is kept.
static inline void rondo_host_ready_clear(uint8_t *ready) {
  if (ready && rondo_load_relaxed_u8(ready))
    (void)rondo_try_swap_seq_cst_u8(ready, 1, 0); // C8
}

#endif // RONDO_DAEMON_HOST_READY_H
