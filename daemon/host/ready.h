// Which blocks of this process may have something to do. Each block has a byte. Its peers here set
// the byte when they have moved something for the block (queues/connector_core.h); whoever steps
// the block clears it first. With many ranks on few cores a thread that looks for work looks at
// these bytes, which lie beside each other, and not at every block.
//
// Bytes are used again and never freed: a peer may set one when its block has ended.
#ifndef RONDO_DAEMON_HOST_READY_H
#define RONDO_DAEMON_HOST_READY_H

#include <stdint.h>

#include <rondo/status.h>
#include "base/atomic.h"

struct rondo_host_block;

#define RONDO_HOST_GROUP_BLOCKS 64u

struct rondo_host_group {
  _Alignas(RONDO_HOST_GROUP_BLOCKS) uint8_t ready[RONDO_HOST_GROUP_BLOCKS];
  uint32_t end;                                             // behind the last that a block has
  struct rondo_host_block *blocks[RONDO_HOST_GROUP_BLOCKS]; // null: nobody has the byte
};

// Gives the block byte number `hint` if that is free, else another one. With hints in the order of
// ranks the neighbours in a ring lie beside each other, so that one visit carries data through many
// of them. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_FULL.
int rondo_host_ready_add(struct rondo_host_block *block, uint32_t hint);
// When it returns no visitor is at the block. The block keeps the address of its byte, which may
// still be set. The block may never have been added.
void rondo_host_ready_remove(struct rondo_host_block *block);
// In the child of a fork, which has no blocks, whoever held the lock.
void rondo_host_ready_forget(void);

// Calls `visit` for each block whose byte is set, or, `all`, for each block; for none while blocks
// are added or removed. Returns 1 if one of the calls did.
int rondo_host_ready_visit(int (*visit)(struct rondo_host_block *block, void *arg), void *arg,
                           int all);

// The block has something to do, or may have.
static inline void rondo_host_ready_set(uint8_t *ready) {
  if (ready)
    rondo_store_release_u8(ready, 1); // C7
}

// Before the block is stepped, so that what is told from then on is not lost.
static inline void rondo_host_ready_clear(uint8_t *ready) {
  if (ready && rondo_load_relaxed_u8(ready))
    (void)rondo_try_swap_seq_cst_u8(ready, 1, 0); // C8
}

#endif // RONDO_DAEMON_HOST_READY_H
