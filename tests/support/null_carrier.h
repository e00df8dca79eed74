// The calls of a carrier that a test does not use: there is no other process, and nothing arrives.
#ifndef RONDO_TESTS_SUPPORT_NULL_CARRIER_H
#define RONDO_TESTS_SUPPORT_NULL_CARRIER_H

#include "runtime/transport/carrier.h"

static inline int rondo_null_connect(struct rondo_carrier *c, uint32_t process, const void *address,
                                     size_t bytes, uint32_t endpoints) {
  (void)c, (void)process, (void)address, (void)bytes, (void)endpoints;
  return RONDO_SUCCESS;
}

static inline int rondo_null_progress(struct rondo_carrier *c) {
  (void)c;
  return 0;
}

static inline int rondo_null_arm(struct rondo_carrier *c) {
  (void)c;
  return 1;
}

static inline void rondo_null_sleep(struct rondo_carrier *c, uint64_t timeout_ns, int is_armed) {
  (void)c, (void)timeout_ns, (void)is_armed;
}

static inline void rondo_null_wake(struct rondo_carrier *c) { (void)c; }
static inline void rondo_null_disconnect(struct rondo_carrier *c, uint32_t process) {
  (void)c, (void)process;
}
static inline void rondo_null_close(struct rondo_carrier *c) { (void)c; }

#endif // RONDO_TESTS_SUPPORT_NULL_CARRIER_H
