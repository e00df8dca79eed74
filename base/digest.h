// A digest of bytes, to tell contents apart that honest processes have made: 64 bits, the same on
// every machine. Whoever may choose the contents can make two with one digest; a keyed hash tells
// who has sent them (runtime/net/handshake.h).
#ifndef RONDO_BASE_DIGEST_H
#define RONDO_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

// A bijection that spreads a difference in a few bits over all 64 (the last steps of SplitMix64).
static inline uint64_t rondo_digest_mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

// Continues a digest with `size` bytes; the first call continues a number that names the use. Equal
// bytes in pieces of other sizes give another digest.
static inline uint64_t rondo_digest_bytes(uint64_t digest, const void *bytes, size_t size) {
  const uint8_t *at = bytes;
  digest = rondo_digest_mix(digest + UINT64_C(0x9e3779b97f4a7c15) + size);
  while (size) {
    uint64_t word = 0;
    size_t part = size < 8 ? size : 8;
    for (size_t i = 0; i < part; i++)
      word |= (uint64_t)at[i] << (8 * i);
    digest = rondo_digest_mix((digest ^ word) + UINT64_C(0x9e3779b97f4a7c15));
    at += part;
    size -= part;
  }
  return digest;
}

#endif // RONDO_BASE_DIGEST_H
