// Writes to device memory that are collected under a lock, and carried out without it, because the
// driver may wait for the device.
//
//   rondo_writes_add ... (lock held) -> rondo_writes_take (lock held) -> rondo_writes_carry_out
//
// A list keeps the order of its writes. Writes that the CPU makes itself are carried out at once.
#ifndef RONDO_RUNTIME_MEMORY_WRITES_H
#define RONDO_RUNTIME_MEMORY_WRITES_H

#include <stdint.h>

#include "runtime/memory/pool.h"

struct rondo_write {
  struct rondo_write *next;
  struct rondo_place at;
  uint32_t rank; // whose device it is, for reports
  void *to;
  uint64_t bytes;
  uint64_t data[];
};

// Zeroed memory is an empty list.
struct rondo_writes {
  struct rondo_write *first, *last;
};

// Adds a write of `bytes` from `from` (copied) to `to`, which lies at the place `at`. Returns
// RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, or RONDO_ERR_SYSTEM.
int rondo_writes_add(struct rondo_writes *list, struct rondo_place at, uint32_t rank, void *to,
                     const void *from, uint64_t bytes);

// Empties the list and returns its writes, which the caller carries out.
struct rondo_write *rondo_writes_take(struct rondo_writes *list);

// Drops the writes to the `bytes` at `memory`.
void rondo_writes_drop(struct rondo_writes *list, const void *memory, uint64_t bytes);

// Carries out the writes and frees them. No lock is held. After a failure the other writes are
// only freed. Returns RONDO_SUCCESS, or RONDO_ERR_SYSTEM with the rank of the failed write in
// `rank`.
int rondo_writes_carry_out(struct rondo_write *writes, uint32_t *rank);

// Frees writes that were not carried out.
void rondo_writes_free(struct rondo_write *writes);

#endif // RONDO_RUNTIME_MEMORY_WRITES_H
