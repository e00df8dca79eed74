// The arena: memory of this process that other processes of its machine may map.
//
//   rondo_arena_create -> alloc / free ... -> rondo_arena_destroy
//   in the other process, with the descriptor: rondo_arena_map -> rondo_arena_unmap
//
// One anonymous file, sealed against shrinking, behind one range of addresses that is reserved at once
// and gets memory as pieces are taken. So a peer maps it once, at one distance from here, whatever is
// allocated later, and nothing has a name that could be left behind. A piece that is freed may be
// read by a peer all the same: it reads zeros or what has come there since, and never faults.
#ifndef RONDO_RUNTIME_MEMORY_ARENA_H
#define RONDO_RUNTIME_MEMORY_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct rondo_arena;

// Reserves `range_bytes` (0: as much as the machine has memory). `huge`: take huge pages from
// the system's pool if it has any. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_arena_create(uint64_t range_bytes, int huge, struct rondo_arena **arena);
void rondo_arena_destroy(struct rondo_arena *arena);

// Before anything is taken: the pages of what is freed do not go back to the system, because devices have locked
// them and go on seeing them.
void rondo_arena_keep_pages(struct rondo_arena *arena);

// Zeroed memory on a boundary of 4 KiB (of RONDO_LINE_BYTES if it is smaller), on the NUMA node of
// the calling thread or the one that it prefers (base/node.h). Null when there is none. Any thread.
void *rondo_arena_alloc(struct rondo_arena *arena, uint64_t bytes);
// Gives it back. Null is nothing; what is no piece is left alone and 0 returned, else 1.
int rondo_arena_free(struct rondo_arena *arena, void *memory);

int rondo_arena_fd(const struct rondo_arena *arena);
uint64_t rondo_arena_bytes(const struct rondo_arena *arena); // of the range
void *rondo_arena_base(const struct rondo_arena *arena);

// Writes to `out`, a line each, what arenas are made of on this machine. Returns RONDO_SUCCESS, or
// RONDO_ERR_UNSUPPORTED if none can be made, and in `why` for which reason.
int rondo_arena_describe(FILE *out, char *why, size_t why_bytes);

// Maps another process's arena of `bytes`; the descriptor may be closed afterwards. What cannot be one
// is refused. Returns RONDO_SUCCESS, RONDO_ERR_INVALID or RONDO_ERR_SYSTEM.
int rondo_arena_map(int fd, uint64_t bytes, void **base);
void rondo_arena_unmap(void *base, uint64_t bytes);

// The first RONDO_ARENA_HEAD_BYTES of an arena, whose owner takes them first of all; a mapping of its own, which
// lasts however long that of the arena does. Returns as rondo_arena_map.
#define RONDO_ARENA_HEAD_BYTES 4096u
int rondo_arena_map_head(int fd, uint64_t bytes, void **head);

#endif // RONDO_RUNTIME_MEMORY_ARENA_H
