// What makes two calls of a communicator equal, and which collectives stay registered for them.
//
//   rondo_signature_of -> rondo_cache_find -> found: rondo_cache_touch
//                                          -> else: register; rondo_cache_insert drops another
//
// All of it follows from the series of calls alone: no time, no memory, no completion. So ranks that
// make the same calls register, keep and drop the same collectives under the same ids, without a
// word. Pure; the caller guards it.
#ifndef RONDO_RUNTIME_ORDER_SIGNATURE_H
#define RONDO_RUNTIME_ORDER_SIGNATURE_H

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

int rondo_signature_equal(const struct rondo_signature *a, const struct rondo_signature *b);

// 1 if the next equal call can be a run of the same collective. Not where ranks have numbers of their
// own, which may change on one of them only; and not in a graph, whose runs come when it is
// launched and not when it is made.
int rondo_signature_is_cached(const struct rondo_signature *s);

// In words, such as "all_reduce of 1024 × float32, sum". Positions of the group.
#define RONDO_SIGNATURE_TEXT_BYTES 128
void rondo_signature_print(const struct rondo_signature *s, char *text);

// The id of the n-th collective that a series registers, from 0. `from` and `to` are the positions of
// a send-recv; both RONDO_SERIES_COLLECTIVE for all other kinds. Within a communicator no two are equal;
// those of different keys are spread over 64 bits.
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
// A call of it has been made.
void rondo_cache_touch(struct rondo_cache *cache, struct rondo_cache_entry *entry);
// Takes in a new signature, which has been called. If the cache is full, the one that has not been called for
// longest makes room: it is written to `dropped`, and 1 returned.
int rondo_cache_insert(struct rondo_cache *cache, const struct rondo_signature *s,
                       struct rondo_collective coll, struct rondo_collective *dropped);

#endif // RONDO_RUNTIME_ORDER_SIGNATURE_H
