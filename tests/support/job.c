#include "tests/support/job.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/named.h"

// In place of the kernels, where there is no nvcc: the stand-in for the CUDA driver has its own.
extern const unsigned char rondo_cuda_image[];
__attribute__((weak)) const unsigned char rondo_cuda_image[] = {1};

struct rondo_config rondo_test_job_config(const struct rondo_test_job *job, uint32_t rank,
                                          const struct rondo_config *like) {
  struct rondo_config defaults = RONDO_CONFIG_INIT;
  struct rondo_config c = like ? *like : defaults;
  const char *backend = getenv("RONDO_TEST_BACKEND");
  if (backend && strcmp(backend, "cuda") == 0) {
    c.backend = RONDO_BACKEND_CUDA;
    c.device = 0; // all ranks on one
  }
  c.id = job->id;
  c.rank = rank;
  c.rank_count = job->ranks;
  return c;
}

void rondo_test_job_open(struct rondo_test_job *job, uint32_t ranks,
                         const struct rondo_config *like) {
  assert_true(ranks <= RONDO_TEST_MAX_RANKS);
  memset(job, 0, sizeof *job);
  job->ranks = ranks;
  assert_int_equal(rondo_unique_id_create(&job->id), RONDO_SUCCESS);
  for (uint32_t r = 0; r < ranks; r++) {
    struct rondo_config c = rondo_test_job_config(job, r, like);
    assert_int_equal(rondo_init(&job->ctx[r], &c), RONDO_SUCCESS);
  }
}

void rondo_test_job_close(struct rondo_test_job *job) {
  for (uint32_t r = 0; r < job->ranks; r++) {
    if (!job->ctx[r].handle)
      continue;
    assert_int_equal(rondo_destroy(job->ctx[r], RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
    job->ctx[r].handle = 0;
  }
}

void rondo_test_job_register(struct rondo_test_job *job, const struct rondo_collective_desc *desc,
                             struct rondo_collective *colls) {
  for (uint32_t r = 0; r < job->ranks; r++)
    assert_int_equal(rondo_register(job->ctx[r], desc, &colls[r]), RONDO_SUCCESS);
}

uint64_t rondo_test_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void rondo_test_shuffle(uint32_t *order, uint32_t n, uint64_t *state) {
  for (uint32_t i = 0; i < n; i++)
    order[i] = i;
  for (uint32_t left = n; left > 1; left--) {
    uint32_t at = (uint32_t)(rondo_test_random(state) % left);
    uint32_t other = order[at];
    order[at] = order[left - 1];
    order[left - 1] = other;
  }
}
