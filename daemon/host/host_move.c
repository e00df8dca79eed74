// Copy, scale and reduce on the host: choice of the instruction set, and the cases that have no
// kernel of their own.
//
// Stores go through the caches, except those of rondo_move_copy_cold. Measured on a Zen 4 server
// with calls of 256 KiB: non-temporal stores make a copy to memory that no thread reads soon 1.4
// times as fast as memcpy, and such a reduction 1.3 times; they cost a factor of 2.5 where the
// destination is read next (a slot of a connector, the next hop of a ring), and 1.3 to 2 where it
// was in the cache. Only the caller knows which case it is.
#include "daemon/core/move.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

#include "base/atomic.h"
#include "base/explore.h"
#include "daemon/host/move_host.h"
#include "daemon/plan/geometry_core.h"

// Cases without a kernel of their own run in pieces that stay in the L1 cache.
#define RONDO_PIECE_BYTES 4096u

#define MXCSR_CONTROL 0xffc0u // bits that control the arithmetic; the other bits are flags
#define MXCSR_DEFAULT 0x1f80u

static const uint8_t ELEMENT_BYTES[12] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

// Null until the first call. Every thread that finds null computes the same constant address, so
// relaxed order is enough.
static _Atomic(const struct rondo_move_table *) chosen;

#if defined(__x86_64__)
static int cpu_has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool rondo_move_level_is_supported(int level) {
  switch (level) {
  case RONDO_MOVE_BASE:
    return 1;
  case RONDO_MOVE_AVX2:
    return __builtin_cpu_supports("avx2") && cpu_has_f16c();
  case RONDO_MOVE_AVX512:
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           cpu_has_f16c();
  default:
    return 0;
  }
}

static const struct rondo_move_table *table_of(int level) {
  static const struct rondo_move_table *const tables[RONDO_MOVE_LEVEL_COUNT] = {
      &rondo_move_table_base, &rondo_move_table_avx2, &rondo_move_table_avx512};
  return tables[level];
}
#else
bool rondo_move_level_is_supported(int level) { return level == RONDO_MOVE_BASE; }

static const struct rondo_move_table *table_of(int level) {
  (void)level;
  return &rondo_move_table_base;
}
#endif

void rondo_move_level_select(int level) {
  atomic_store_explicit(&chosen, table_of(level), memory_order_relaxed);
}

const char *rondo_move_level_name(int level) {
  static const char *const names[RONDO_MOVE_LEVEL_COUNT] = {"base", "avx2", "avx512"};
  return level >= 0 && level < RONDO_MOVE_LEVEL_COUNT ? names[level] : "unknown";
}

static const struct rondo_move_table *table_get(void) {
  const struct rondo_move_table *t = atomic_load_explicit(&chosen, memory_order_relaxed);
  if (t)
    return t;
  int level = RONDO_MOVE_LEVEL_COUNT - 1;
  while (level > RONDO_MOVE_BASE && !rondo_move_level_is_supported(level))
    level--;
  rondo_move_level_select(level);
  return table_of(level);
}

// Copies one element of the widest types, or two of the usual ones, without memcpy.
static inline void bytes_copy(void *dst, const void *src, uint64_t bytes) {
  if (bytes == sizeof(uint64_t))
    memcpy(dst, src, sizeof(uint64_t));
  else if (bytes)
    memcpy(dst, src, bytes);
}

void rondo_move_copy(void *dst, void *second, const void *src, uint64_t bytes) {
  if (dst != src)
    bytes_copy(dst, src, bytes);
  if (second)
    bytes_copy(second, dst, bytes);
}

#if defined(__x86_64__)
#define LINE_BYTES 64u
// Two pages, because the hardware prefetcher stops at the end of a page. Broadcasts and gathers of
// 64 MiB between two processes took 4 to 15 % less with it. A prefetch past the end never faults.
#define AHEAD_BYTES 8192u

void rondo_move_copy_cold(void *dst, const void *src, uint64_t bytes) {
  uint64_t head = (0 - (uint64_t)(uintptr_t)dst) % LINE_BYTES;
  if (bytes < head + LINE_BYTES) {
    rondo_move_copy(dst, NULL, src, bytes);
    return;
  }
  char *to = dst;
  const char *from = src;
  memcpy(to, from, head);
  uint64_t end = head + (bytes - head) / LINE_BYTES * LINE_BYTES;
  for (uint64_t at = head; at < end; at += LINE_BYTES) {
    _mm_prefetch(from + at + AHEAD_BYTES, _MM_HINT_NTA);
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 48));
    _mm_stream_si128((__m128i *)(void *)(to + at), a);
    _mm_stream_si128((__m128i *)(void *)(to + at + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + at + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + at + 48), d);
  }
  _mm_sfence(); // a release does not order non-temporal stores
  memcpy(to + end, from + end, bytes - end);
}
#else
void rondo_move_copy_cold(void *dst, const void *src, uint64_t bytes) {
  rondo_move_copy(dst, NULL, src, bytes);
}
#endif

// Computes in the default floating-point environment: an application thread that helps may have
// another.
static uint32_t environment_enter(void) {
#if defined(__x86_64__)
  uint32_t saved = _mm_getcsr();
  if ((saved & MXCSR_CONTROL) != MXCSR_DEFAULT)
    _mm_setcsr(MXCSR_DEFAULT);
  return saved;
#else
  return 0;
#endif
}

static void environment_leave(uint32_t saved) {
#if defined(__x86_64__)
  if ((saved & MXCSR_CONTROL) != MXCSR_DEFAULT)
    _mm_setcsr(saved);
#else
  (void)saved;
#endif
}

// One piece: scales into a buffer, reduces and divides, as asked for.
static void reduce_piece(const struct rondo_reduction *r, void *dst, const void *local,
                         const void *incoming, uint64_t count, int divide) {
  const struct rondo_move_table *t = table_get();
  unsigned char scaled[RONDO_PIECE_BYTES];
  if (r->scale && r->base == RONDO_REDUCE_SUM) {
    t->scaled_sum[r->dtype](dst, local, incoming, count, r->factor);
  } else if (r->scale) {
    t->scale[r->dtype](scaled, local, local, count, r->factor);
    t->reduce[r->dtype][r->base](dst, scaled, incoming, count, 0);
  } else {
    t->reduce[r->dtype][r->base](dst, local, incoming, count, 0);
  }
  if (divide)
    t->divide[r->dtype](dst, dst, dst, count, r->divisor);
}

// The cases that need several kernels.
static void reduce_pieces(const struct rondo_reduction *r, void *dst, const void *local,
                          const void *incoming, uint64_t count, int divide) {
  const uint64_t element = ELEMENT_BYTES[r->dtype];
  const uint64_t step = RONDO_PIECE_BYTES / element;
  for (uint64_t i = 0; i < count; i += step) {
    const uint64_t at = i * element;
    const uint64_t n = count - i < step ? count - i : step;
    reduce_piece(r, (char *)dst + at, (const char *)local + at, (const char *)incoming + at, n,
                 divide);
  }
}

// One parameter more than the limit: each is an operand.
// NOLINTNEXTLINE(readability-function-size)
void rondo_move_reduce(const struct rondo_reduction *r, void *dst, void *second, const void *local,
                       const void *incoming, uint64_t count, int final) {
  const struct rondo_move_table *t = table_get();
  const int divide = final && r->divide;
  const uint32_t environment = environment_enter();
  if (!divide && !r->scale)
    t->reduce[r->dtype][r->base](dst, local, incoming, count, 0);
  else if (!divide && r->base == RONDO_REDUCE_SUM)
    t->scaled_sum[r->dtype](dst, local, incoming, count, r->factor);
  else
    reduce_pieces(r, dst, local, incoming, count, divide);
  environment_leave(environment);
  if (second)
    rondo_move_copy(second, NULL, dst, count * ELEMENT_BYTES[r->dtype]);
}

void rondo_move_scale(const struct rondo_reduction *r, void *dst, void *second, const void *local,
                      uint64_t count, int final) {
  const struct rondo_move_table *t = table_get();
  const int divide = final && r->divide;
  const void *const from = r->scale ? dst : local; // of the division
  const uint64_t bytes = count * ELEMENT_BYTES[r->dtype];
  const uint32_t environment = environment_enter();
  if (r->scale)
    t->scale[r->dtype](dst, local, local, count, r->factor);
  if (divide)
    t->divide[r->dtype](dst, from, from, count, r->divisor);
  environment_leave(environment);
  if (!r->scale && !divide)
    rondo_move_copy(dst, second, local, bytes);
  else if (second)
    rondo_move_copy(second, NULL, dst, bytes);
}

// In pieces whose sums stay in the L1 cache.
// NOLINTNEXTLINE(readability-function-size): as rondo_move_reduce
void rondo_move_quantise(const struct rondo_reduction *r, int quantisation, void *packed, void *dst,
                         const void *local, const void *incoming, uint64_t count) {
  const struct rondo_move_table *t = table_get();
  const uint64_t step = RONDO_PIECE_BYTES / sizeof(float);
  static_assert(RONDO_PIECE_BYTES / sizeof(float) % RONDO_QUANTISED_ELEMS == 0,
                "pieces share no scale");
  const uint32_t environment = environment_enter();
  for (uint64_t i = 0; i < count; i += step) {
    unsigned char sums[RONDO_PIECE_BYTES];
    const uint64_t at = rondo_quantised_bytes(i), n = rondo_geometry_min(count - i, step);
    const void *values = (const char *)local + i * sizeof(float);
    if (incoming) {
      t->dequantise[quantisation - 1](sums, (const char *)incoming + at, n);
      reduce_piece(r, sums, values, sums, n, 0);
      values = sums;
    } else if (r->scale) {
      t->scale[r->dtype](sums, values, values, n, r->factor);
      values = sums;
    }
    t->quantise[quantisation - 1]((char *)packed + at, values, n);
    if (dst)
      t->dequantise[quantisation - 1]((char *)dst + i * sizeof(float), (char *)packed + at, n);
  }
  environment_leave(environment);
}

void rondo_move_dequantise(int quantisation, void *dst, const void *packed, uint64_t count) {
  const uint32_t environment = environment_enter();
  table_get()->dequantise[quantisation - 1](dst, packed, count);
  environment_leave(environment);
}

// The 16 bytes of the payload from `at` on, as two packets.
static void packets_put(const struct rondo_packets *to, uint64_t at, const unsigned char *payload,
                        uint64_t bytes) {
  uint32_t words[4] = {0, 0, 0, 0};
  uint64_t *halves = (uint64_t *)(uintptr_t)(to->at + 2 * at);
  memcpy(words, payload, bytes < sizeof words ? bytes : sizeof words);
  for (uint32_t i = 0; i < 4; i++) {
    RONDO_POINT("move.packet");
    rondo_store_release_u64(&halves[i], rondo_packet_half(words[i], to->mark)); // C11
  }
}

void rondo_move_pack(const struct rondo_reduction *r, struct rondo_packets to, const void *local,
                     uint64_t count) {
  const uint64_t element = ELEMENT_BYTES[r->dtype], bytes = count * element;
  const uint32_t environment = environment_enter();
  uint64_t at = 0;
  do { // an empty message has packets, too
    unsigned char scaled[RONDO_PIECE_BYTES];
    const uint64_t n = rondo_geometry_min(bytes - at, RONDO_PIECE_BYTES);
    const unsigned char *from = (const unsigned char *)local + at;
    if (r->scale && n) {
      table_get()->scale[r->dtype](scaled, from, from, n / element, r->factor);
      from = scaled;
    }
    for (uint64_t i = 0; i < n || i + at == 0; i += RONDO_PACKETS_PAYLOAD_BYTES)
      packets_put(&to, at + i, from + i, n - i);
    at += n;
  } while (at < bytes);
  environment_leave(environment);
}

void rondo_move_finish(void) {} // nothing is left to be moved when a call returns

static bool packets_have_come(const struct rondo_packets *from, uint64_t bytes) {
  const uint64_t *halves = (const uint64_t *)(uintptr_t)from->at;
  const uint64_t count = rondo_packets_bytes(bytes) / sizeof *halves;
  const uint64_t step = RONDO_FAULT(PACKETS_HALF_READ) ? 2 : 1;
  for (uint64_t i = 0; i < count; i += step)
    if (rondo_load_acquire_u64(&halves[i]) >> 32 != from->mark) // C12
      return false;
  return true;
}

// `n` bytes of the payload, from `at` on.
static void packets_get(const struct rondo_packets *from, uint64_t at, unsigned char *payload,
                        uint64_t n) {
  const uint64_t *halves = (const uint64_t *)(uintptr_t)(from->at + 2 * at);
  for (uint64_t i = 0; i < n; i += sizeof(uint32_t)) {
    const uint32_t word = (uint32_t)rondo_load_relaxed_u64(&halves[i / sizeof word]);
    memcpy(payload + i, &word, n - i < sizeof word ? n - i : sizeof word);
  }
}

bool rondo_move_unpack(const struct rondo_reduction *r, void *dst, struct rondo_packets from,
                       const void *local, uint64_t count, int final) {
  const uint64_t element = ELEMENT_BYTES[r->dtype], bytes = count * element;
  const uint32_t environment = environment_enter();
  bool have_come = RONDO_FAULT(PACKETS_EARLY) || packets_have_come(&from, bytes);
  for (uint64_t at = 0; at < bytes && have_come; at += RONDO_PIECE_BYTES) {
    unsigned char payload[RONDO_PIECE_BYTES];
    const uint64_t n = rondo_geometry_min(bytes - at, RONDO_PIECE_BYTES);
    packets_get(&from, at, payload, n);
    if (local)
      reduce_piece(r, (char *)dst + at, (const char *)local + at, payload, n / element,
                   final && r->divide);
    else
      memcpy((char *)dst + at, payload, n);
  }
  environment_leave(environment);
  return have_come;
}
