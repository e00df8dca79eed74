// What tests of the CUDA backend on the stand-in for the driver share: the devices, as new for each
// test, and a job on them.
#ifndef RONDO_TESTS_INTEGRATION_CUDA_DEVICE_H
#define RONDO_TESTS_INTEGRATION_CUDA_DEVICE_H

#include <string.h>

#include "daemon/cuda/cuda_backend.h"
#include "tests/support/cuda_job.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/held_locks.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

// The job of the test that runs.
static struct rondo_test_cuda_job job;

static inline void reset(const struct rondo_fake_options *options) {
  (void)cuCtxSetCurrent(NULL);
  rondo_fake_reset(options);
  rondo_cuda_api_from(NULL); // it has been started anew
  rondo_test_log_clear();
  memset(&job, 0, sizeof job);
}

// So many devices; peer_access as struct rondo_fake_options has it.
static inline void reset_to(uint32_t devices, uint32_t peer_access) {
  struct rondo_fake_options options = rondo_fake_defaults();
  options.devices = devices;
  options.peer_access = peer_access;
  reset(&options);
}

static inline int fresh(void **state) {
  (void)state;
  reset(NULL);
  rondo_test_watch_locks();
  return 0;
}

static inline int nothing_is_left(void **state) {
  (void)state;
  return rondo_test_has_called_with_lock() || rondo_fake_live_count() != 0;
}

static inline void job_of(uint32_t ranks, uint32_t colls, uint32_t count) {
  job.ranks = ranks;
  job.colls = colls;
  job.count = count;
}

static inline void rounds(uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(rondo_test_cuda_round(&job, i), RONDO_SUCCESS);
}

// A test that begins with new devices, leaves nothing on them, and makes no call with a lock held
// that may wait.
#define RONDO_CUDA_TEST(subject, function)                                                         \
  { subject "." #function, function, fresh, nothing_is_left, NULL }

#endif // RONDO_TESTS_INTEGRATION_CUDA_DEVICE_H
