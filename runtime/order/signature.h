// Signatures, which tell whether two calls of a communicator are equal, and the cache of
// collectives that stay registered for equal calls.
//
//   rondo_signature_of -> rondo_cache_find -> found: rondo_cache_touch
//                                          -> else: register; rondo_cache_insert drops another
//
// What the cache holds depends on the calls of a series only, not on time, memory or completions.
// So ranks that make the same calls register, keep and drop the same collectives under the same
// ids, and send no messages for it. The caller guards the cache.
#ifndef RONDO_RUNTIME_ORDER_SIGNATURE_H
#define RONDO_RUNTIME_ORDER_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_signature {
  uint64_t count;
  uint32_t root, peer;
  uint16_t kind;
  uint8_t dtype, redop;
  uint8_t is_captured; // into a graph
  uint8_t reserved[3];
};

struct rondo_signature rondo_signature_of(const struct rondo_collective_desc *desc,
                                          int is_captured);

bool rondo_signature_equal(const struct rondo_signature *a, const struct rondo_signature *b);

// True if the next equal call can be a run of the same collective. False for a scalar, which each
// rank has for itself, and in a graph, whose runs start when the graph is launched.
bool rondo_signature_is_cached(const struct rondo_signature *s);

// Prints a signature, such as "all_reduce of 1024 × float32, sum". Ranks are positions in the
// group.
#define RONDO_SIGNATURE_TEXT_BYTES 128
void rondo_signature_print(const struct rondo_signature *s, char *text);

// The id of the n-th collective that a series registers, from 0. `from` and `to` are the positions
// of a send_recv; both are RONDO_SERIES_COLLECTIVE for other kinds. The ids of a communicator
// differ, up to 2^29 of each series; all others are spread over 64 bits.
#define RONDO_SERIES_COLLECTIVE UINT32_MAX
uint64_t rondo_series_id(uint64_t key, uint32_t from, uint32_t to, uint64_t n);

struct rondo_cache_entry {
  struct rondo_signature signature;
  struct rondo_collective coll;
  uint64_t called; // the clock at the last call
};

struct rondo_cache {
  uint32_t capacity, count;
  uint64_t clock;
  struct rondo_cache_entry *entries;
};

// Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_cache_init(struct rondo_cache *cache, uint32_t capacity);
void rondo_cache_fini(struct rondo_cache *cache);

// The entry of a signature, or null.
struct rondo_cache_entry *rondo_cache_find(const struct rondo_cache *cache,
                                           const struct rondo_signature *s);
// Records a call of the entry.
void rondo_cache_touch(struct rondo_cache *cache, struct rondo_cache_entry *entry);
// Adds a new signature that was called. If the cache is full, drops the entry whose last call is
// the oldest, writes its collective to `dropped`, and returns true.
bool rondo_cache_insert(struct rondo_cache *cache, const struct rondo_signature *s,
                        struct rondo_collective coll, struct rondo_collective *dropped);

#endif // RONDO_RUNTIME_ORDER_SIGNATURE_H
