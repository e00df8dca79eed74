// The accessors of atomic.h for CUDA devices: system scope, because the other thread may be on the
// host or a peer device, except where the name says otherwise. Included by atomic.h only. Needs
// CUDA 12.8 for the __nv_atomic functions.
#ifndef RONDO_BASE_ATOMIC_CUDA_H
#define RONDO_BASE_ATOMIC_CUDA_H

#include <stdint.h>

#define RONDO_ATOMIC_LOAD(type, suffix, name, order)                                               \
  RONDO_FN type rondo_load_##name##_##suffix(const type *p) {                                      \
    return __nv_atomic_load_n((type *)p, order, __NV_THREAD_SCOPE_SYSTEM);                         \
  }
#define RONDO_ATOMIC_STORE(type, suffix, name, order)                                              \
  RONDO_FN void rondo_store_##name##_##suffix(type *p, type v) {                                   \
    __nv_atomic_store_n(p, v, order, __NV_THREAD_SCOPE_SYSTEM);                                    \
  }
#define RONDO_ATOMIC_ADD(type, suffix, name, order)                                                \
  RONDO_FN type rondo_fetch_add_##name##_##suffix(type *p, type v) {                               \
    return __nv_atomic_fetch_add(p, v, order, __NV_THREAD_SCOPE_SYSTEM);                           \
  }
#define RONDO_ATOMIC_SWAP(type, suffix, name, order, failed)                                       \
  RONDO_FN int rondo_try_swap_##name##_##suffix(type *p, type expected, type desired) {            \
    return __nv_atomic_compare_exchange_n(p, &expected, desired, false, order, failed,             \
                                          __NV_THREAD_SCOPE_SYSTEM);                               \
  }
#define RONDO_ATOMIC_EXCHANGE(type, suffix, name, order)                                           \
  RONDO_FN type rondo_exchange_##name##_##suffix(type *p, type v) {                                \
    return __nv_atomic_exchange_n(p, v, order, __NV_THREAD_SCOPE_SYSTEM);                          \
  }
#define RONDO_ATOMIC_ACCESSORS(type, suffix)                                                       \
  RONDO_ATOMIC_LOAD(type, suffix, relaxed, __NV_ATOMIC_RELAXED)                                    \
  RONDO_ATOMIC_LOAD(type, suffix, acquire, __NV_ATOMIC_ACQUIRE)                                    \
  RONDO_ATOMIC_LOAD(type, suffix, seq_cst, __NV_ATOMIC_SEQ_CST)                                    \
  RONDO_ATOMIC_STORE(type, suffix, relaxed, __NV_ATOMIC_RELAXED)                                   \
  RONDO_ATOMIC_STORE(type, suffix, release, __NV_ATOMIC_RELEASE)                                   \
  RONDO_ATOMIC_STORE(type, suffix, seq_cst, __NV_ATOMIC_SEQ_CST)                                   \
  RONDO_ATOMIC_ADD(type, suffix, relaxed, __NV_ATOMIC_RELAXED)                                     \
  RONDO_ATOMIC_ADD(type, suffix, acq_rel, __NV_ATOMIC_ACQ_REL)                                     \
  RONDO_ATOMIC_ADD(type, suffix, seq_cst, __NV_ATOMIC_SEQ_CST)                                     \
  RONDO_ATOMIC_EXCHANGE(type, suffix, acq_rel, __NV_ATOMIC_ACQ_REL)                                \
  RONDO_ATOMIC_SWAP(type, suffix, acq_rel, __NV_ATOMIC_ACQ_REL, __NV_ATOMIC_RELAXED)               \
  RONDO_ATOMIC_SWAP(type, suffix, seq_cst, __NV_ATOMIC_SEQ_CST, __NV_ATOMIC_SEQ_CST)

RONDO_ATOMIC_ACCESSORS(uint32_t, u32)
RONDO_ATOMIC_ACCESSORS(uint64_t, u64)
RONDO_ATOMIC_LOAD(uint8_t, u8, relaxed, __NV_ATOMIC_RELAXED)
RONDO_ATOMIC_STORE(uint8_t, u8, relaxed, __NV_ATOMIC_RELAXED)
RONDO_ATOMIC_STORE(uint8_t, u8, release, __NV_ATOMIC_RELEASE)

#undef RONDO_ATOMIC_ACCESSORS

RONDO_FN uint32_t rondo_load_acquire_device_u32(const uint32_t *p) {
  return __nv_atomic_load_n((uint32_t *)p, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
}
RONDO_FN uint64_t rondo_load_acquire_device_u64(const uint64_t *p) {
  return __nv_atomic_load_n((uint64_t *)p, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
}
RONDO_FN void rondo_store_release_device_u32(uint32_t *p, uint32_t v) {
  __nv_atomic_store_n(p, v, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
}
RONDO_FN void rondo_store_release_device_u64(uint64_t *p, uint64_t v) {
  __nv_atomic_store_n(p, v, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
}
RONDO_FN int rondo_try_swap_acq_rel_device_u32(uint32_t *p, uint32_t expected, uint32_t desired) {
  return __nv_atomic_compare_exchange_n(p, &expected, desired, false, __NV_ATOMIC_ACQ_REL,
                                        __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
}
RONDO_FN int rondo_try_swap_acq_rel_device_u64(uint64_t *p, uint64_t expected, uint64_t desired) {
  return __nv_atomic_compare_exchange_n(p, &expected, desired, false, __NV_ATOMIC_ACQ_REL,
                                        __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
}

RONDO_FN void rondo_fence_stores(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
RONDO_FN void rondo_fence_stores_device(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
RONDO_FN void rondo_store_fenced_u32(uint32_t *p, uint32_t v) { rondo_store_relaxed_u32(p, v); }

#undef RONDO_ATOMIC_SWAP
#undef RONDO_ATOMIC_EXCHANGE
#undef RONDO_ATOMIC_ADD
#undef RONDO_ATOMIC_STORE
#undef RONDO_ATOMIC_LOAD

// One 16-byte store; `pair` is 16-byte aligned. PTX defines it as two stores of 8 bytes in any
// order. The fence before it gives both of them release order.
RONDO_FN void rondo_store_release_pair(uint64_t *pair, uint64_t first, uint64_t second) {
  asm volatile("fence.acq_rel.sys;\n\tst.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(pair),
               "l"(first), "l"(second)
               : "memory");
}

// Lets the other warps of the multiprocessor run while this one probes.
RONDO_FN void rondo_relax(void) { __nanosleep(20); }

#endif // RONDO_BASE_ATOMIC_CUDA_H
