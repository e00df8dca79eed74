#include "runtime/order/signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "daemon/plan/build.h"

struct rondo_signature rondo_signature_of(const struct rondo_collective_desc *desc,
                                          int is_captured) {
  struct rondo_signature s = {.count = desc->count, .root = desc->root, .peer = desc->peer};
  s.kind = (uint16_t)desc->kind;
  s.dtype = (uint8_t)desc->dtype;
  s.redop = (uint8_t)desc->redop;
  s.is_captured = (uint8_t)is_captured;
  return s;
}

bool rondo_signature_equal(const struct rondo_signature *a, const struct rondo_signature *b) {
  return memcmp(a, b, sizeof *a) == 0;
}
_Static_assert(sizeof(struct rondo_signature) == 24, "compared as bytes: no padding");

bool rondo_signature_is_cached(const struct rondo_signature *s) {
  return s->redop != RONDO_PREMUL_SUM && !s->is_captured;
}

void rondo_signature_print(const struct rondo_signature *s, char *text) {
  char count[48] = "";
  char more[64] = "";
  if (s->kind == RONDO_ALL_TO_ALL_V)
    (void)snprintf(count, sizeof count, " of %s", rondo_dtype_name(s->dtype));
  else if (s->kind != RONDO_BARRIER)
    (void)snprintf(count, sizeof count, " of %llu × %s", (unsigned long long)s->count,
                   rondo_dtype_name(s->dtype));
  if (s->kind == RONDO_SEND_RECV)
    (void)snprintf(more, sizeof more, " from position %u to %u", s->root, s->peer);
  else if (s->kind == RONDO_REDUCE)
    (void)snprintf(more, sizeof more, ", %s, root %u", rondo_redop_name(s->redop), s->root);
  else if (rondo_plan_is_rooted(s->kind))
    (void)snprintf(more, sizeof more, ", root %u", s->root);
  else if (rondo_plan_reduces(s->kind))
    (void)snprintf(more, sizeof more, ", %s", rondo_redop_name(s->redop));
  (void)snprintf(text, RONDO_SIGNATURE_TEXT_BYTES, "%s%s%s%s", rondo_kind_name(s->kind), count,
                 more, s->is_captured ? ", in a graph" : "");
}

// --------------------------------------------------------------------- ids ---

// A bijection that spreads a difference in a few bits over all 64 (the last steps of SplitMix64).
static uint64_t id_mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

// The bits below number the collectives of a series, the other ones number the series: all pairs of
// RONDO_MAX_RANKS, and the series of collectives. A longer series goes on with another key.
#define SERIES_SHIFT 29
_Static_assert((UINT64_C(1) << (64 - SERIES_SHIFT)) > (uint64_t)RONDO_MAX_RANKS * RONDO_MAX_RANKS,
               "a number for each pair");

uint64_t rondo_series_id(uint64_t key, uint32_t from, uint32_t to, uint64_t n) {
  uint64_t series = 0;
  uint64_t round = (n >> SERIES_SHIFT) + 1;
  if (from != RONDO_SERIES_COLLECTIVE)
    series = 1 + (uint64_t)from * RONDO_MAX_RANKS + to;
  n &= (UINT64_C(1) << SERIES_SHIFT) - 1;
  return id_mix(id_mix(key + round * UINT64_C(0x9e3779b97f4a7c15)) ^ (series << SERIES_SHIFT) ^ n);
}

// ------------------------------------------------------------------- cache ---

int rondo_cache_init(struct rondo_cache *cache, uint32_t capacity) {
  memset(cache, 0, sizeof *cache);
  cache->entries = calloc(capacity, sizeof *cache->entries);
  if (!cache->entries)
    return RONDO_ERR_NO_MEMORY;
  cache->capacity = capacity;
  return RONDO_SUCCESS;
}

void rondo_cache_fini(struct rondo_cache *cache) {
  free(cache->entries);
  cache->entries = NULL;
}

struct rondo_cache_entry *rondo_cache_find(const struct rondo_cache *cache,
                                           const struct rondo_signature *s) {
  for (uint32_t i = 0; i < cache->count; i++) {
    struct rondo_signature wanted = *s;
    if (RONDO_FAULT(CACHE_LOOSE))
      wanted.root = cache->entries[i].signature.root;
    if (rondo_signature_equal(&cache->entries[i].signature, &wanted))
      return &cache->entries[i];
  }
  return NULL;
}

void rondo_cache_touch(struct rondo_cache *cache, struct rondo_cache_entry *entry) {
  entry->called = ++cache->clock;
}

bool rondo_cache_insert(struct rondo_cache *cache, const struct rondo_signature *s,
                        struct rondo_collective coll, struct rondo_collective *dropped) {
  struct rondo_cache_entry *entry = &cache->entries[cache->count];
  bool is_full = cache->count == cache->capacity;
  if (is_full) {
    entry = cache->entries;
    for (uint32_t i = 1; i < cache->count; i++)
      if (cache->entries[i].called < entry->called)
        entry = &cache->entries[i];
    *dropped = entry->coll;
  } else {
    cache->count++;
  }
  entry->signature = *s;
  entry->coll = coll;
  rondo_cache_touch(cache, entry);
  return is_full;
}
