// The arena: memory of this process that other processes of its machine may map.
//
//   rondo_arena_create -> alloc / free ... -> rondo_arena_destroy
//   in the other process, with the descriptor: rondo_arena_map -> rondo_arena_unmap
//
// An arena is one anonymous file, sealed against shrinking and mapped as one range of addresses.
// The range is reserved at once and gets pages as pieces are allocated. A peer thus maps it once,
// and all later pieces lie at the same offset on both sides. No name is left in a file system. A
// peer that reads a freed piece sees zeros or newer data; it never faults.
#ifndef RONDO_RUNTIME_MEMORY_ARENA_H
#define RONDO_RUNTIME_MEMORY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct rondo_arena;

// Reserves `range_bytes` of addresses (0: as much as the machine has memory). `huge` asks for huge
// pages of the system's pool if it has any. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or
// RONDO_ERR_SYSTEM.
int rondo_arena_create(uint64_t range_bytes, int huge, struct rondo_arena **arena);
void rondo_arena_destroy(struct rondo_arena *arena);

// Keeps the pages of freed pieces instead of returning them to the system, because devices have
// page-locked them. Called before the first allocation.
void rondo_arena_keep_pages(struct rondo_arena *arena);

// Allocates zeroed memory on the NUMA node of the calling thread, or on the one that it prefers
// (base/numa_node.h). Pieces of a page or more are aligned to 4 KiB, smaller ones to
// RONDO_LINE_BYTES. Null when memory is used up. Any thread.
void *rondo_arena_alloc(struct rondo_arena *arena, uint64_t bytes);
// Frees a piece; does nothing with null. False if `memory` is not a piece of the arena. Any thread.
bool rondo_arena_free(struct rondo_arena *arena, void *memory);

int rondo_arena_fd(const struct rondo_arena *arena);
uint64_t rondo_arena_bytes(const struct rondo_arena *arena); // size of the range
void *rondo_arena_base(const struct rondo_arena *arena);

// Describes the memory that arenas of this machine use, in lines to `out`. Returns RONDO_SUCCESS,
// or RONDO_ERR_UNSUPPORTED with the reason in `why` if no arena can be created.
int rondo_arena_describe(FILE *out, char *why, size_t why_bytes);

// Maps another process's arena of `bytes`. The descriptor may be closed afterwards. Returns
// RONDO_SUCCESS, RONDO_ERR_INVALID (the descriptor is not of such an arena) or RONDO_ERR_SYSTEM.
int rondo_arena_map(int fd, uint64_t bytes, void **base);
void rondo_arena_unmap(void *base, uint64_t bytes);

// Maps the first RONDO_ARENA_HEAD_BYTES of another process's arena, which its owner allocates
// before anything else. The mapping is independent of that of the whole arena. Returns as
// rondo_arena_map.
#define RONDO_ARENA_HEAD_BYTES 4096u
int rondo_arena_map_head(int fd, uint64_t bytes, void **head);

#endif // RONDO_RUNTIME_MEMORY_ARENA_H
