// Ordered access to words that two threads share. Shared fields are plain integers, accessed only
// through these functions, whose names give the order. There are no stand-alone fences of the host
// here: thread sanitizers cannot see them. One of the three headers that may test which compiler is
// in use.
//
// On the device the scope is the system: the other thread may be on the host or a peer device.
// docs/memory-order.md names every edge (each release and the acquire that pairs with it).
#ifndef RONDO_BASE_ATOMIC_H
#define RONDO_BASE_ATOMIC_H

#include <stdint.h>

#include "base/platform.h"

#if defined(__CUDACC__)
#include "base/atomic_cuda.h"
#else

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes none
#define RONDO_ATOMIC_ACCESSORS(type, suffix)                                                       \
  RONDO_FN type rondo_load_relaxed_##suffix(const type *p) {                                       \
    return __atomic_load_n(p, __ATOMIC_RELAXED);                                                   \
  }                                                                                                \
  RONDO_FN type rondo_load_acquire_##suffix(const type *p) {                                       \
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);                                                   \
  }                                                                                                \
  RONDO_FN type rondo_load_seq_cst_##suffix(const type *p) {                                       \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  RONDO_FN void rondo_store_relaxed_##suffix(type *p, type v) {                                    \
    __atomic_store_n(p, v, __ATOMIC_RELAXED);                                                      \
  }                                                                                                \
  RONDO_FN void rondo_store_release_##suffix(type *p, type v) {                                    \
    __atomic_store_n(p, v, __ATOMIC_RELEASE);                                                      \
  }                                                                                                \
  RONDO_FN void rondo_store_seq_cst_##suffix(type *p, type v) {                                    \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                \
  /* Returns the value before the addition. */                                                     \
  RONDO_FN type rondo_fetch_add_acq_rel_##suffix(type *p, type v) {                                \
    return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);                                             \
  }                                                                                                \
  RONDO_FN type rondo_fetch_add_relaxed_##suffix(type *p, type v) {                                \
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                             \
  }                                                                                                \
  RONDO_FN type rondo_fetch_add_seq_cst_##suffix(type *p, type v) {                                \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  /* Returns the value before. */                                                                  \
  RONDO_FN type rondo_exchange_acq_rel_##suffix(type *p, type v) {                                 \
    return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);                                            \
  }                                                                                                \
  /* One attempt; 1 if *p was `expected` and is now `desired`. Never retries. */                   \
  RONDO_FN int rondo_try_swap_acq_rel_##suffix(type *p, type expected, type desired) {             \
    return __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_ACQ_REL,                 \
                                       __ATOMIC_RELAXED);                                          \
  }                                                                                                \
  RONDO_FN int rondo_try_swap_seq_cst_##suffix(type *p, type expected, type desired) {             \
    return __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST,                 \
                                       __ATOMIC_SEQ_CST);                                          \
  }

RONDO_ATOMIC_ACCESSORS(uint32_t, u32)
RONDO_ATOMIC_ACCESSORS(uint64_t, u64)
RONDO_ATOMIC_ACCESSORS(uint8_t, u8)

#undef RONDO_ATOMIC_ACCESSORS
// NOLINTEND(bugprone-macro-parentheses)

// Words that only threads of one device share: a block and its siblings. On the device the scope is
// the device, which is cheaper than the system.
RONDO_FN uint32_t rondo_load_acquire_device_u32(const uint32_t *p) {
  return rondo_load_acquire_u32(p);
}
RONDO_FN uint64_t rondo_load_acquire_device_u64(const uint64_t *p) {
  return rondo_load_acquire_u64(p);
}
RONDO_FN void rondo_store_release_device_u32(uint32_t *p, uint32_t v) {
  rondo_store_release_u32(p, v);
}
RONDO_FN void rondo_store_release_device_u64(uint64_t *p, uint64_t v) {
  rondo_store_release_u64(p, v);
}
RONDO_FN int rondo_try_swap_acq_rel_device_u32(uint32_t *p, uint32_t expected, uint32_t desired) {
  return rondo_try_swap_acq_rel_u32(p, expected, desired);
}
RONDO_FN int rondo_try_swap_acq_rel_device_u64(uint64_t *p, uint64_t expected, uint64_t desired) {
  return rondo_try_swap_acq_rel_u64(p, expected, desired);
}

// Several release stores at once cost the device one fence: it comes first, and the stores that are
// behind it are plain there. On the host it does nothing, and each store has release order.
RONDO_FN void rondo_fence_stores(void) {}
RONDO_FN void rondo_fence_stores_device(void) {} // for words that only the device shares
RONDO_FN void rondo_store_fenced_u32(uint32_t *p, uint32_t v) { rondo_store_release_u32(p, v); }

// Stores two words, each with release order. They become visible in any order, so a reader needs a
// mark in each. On the host that is two stores; on the device one fence and one 16-byte store.
RONDO_FN void rondo_store_release_pair(uint64_t *pair, uint64_t first, uint64_t second) {
  rondo_store_release_u64(&pair[1], second);
  rondo_store_release_u64(&pair[0], first);
}

// Copies a struct of uint64_t, such as counters that another thread adds to. `bytes`: of the
// struct.
RONDO_FN void rondo_copy_relaxed_u64(void *to, const void *from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++)
    ((uint64_t *)to)[i] = rondo_load_relaxed_u64(&((const uint64_t *)from)[i]);
}

// Prefetches a cache line for reading.
RONDO_FN void rondo_prefetch(const void *p) { __builtin_prefetch(p); }

// Prefetches a cache line for writing, which invalidates other caches' copies. Inline assembly,
// because gcc emits the instruction only for newer processors; older ones ignore it.
RONDO_FN void rondo_prefetch_to_write(const void *p) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}

// Tells the processor that this thread spins.
RONDO_FN void rondo_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif // !__CUDACC__
#endif // RONDO_BASE_ATOMIC_H
