// A job whose ranks are all in this process, for tests.
#ifndef RONDO_TESTS_SUPPORT_JOB_H
#define RONDO_TESTS_SUPPORT_JOB_H

#include <stdint.h>

#include <rondo/rondo.h>

#define RONDO_TEST_MAX_RANKS 72u
#define RONDO_TEST_LONG_NS INT64_C(50000000000) // a wait that only a hang outlasts

struct rondo_test_job {
  uint32_t ranks;
  struct rondo_unique_id id;
  struct rondo_context ctx[RONDO_TEST_MAX_RANKS];
};

// The configuration of one rank; `like` (may be null) has what is not about ranks. The backend is
// that of the host, or what RONDO_TEST_BACKEND says.
struct rondo_config rondo_test_job_config(const struct rondo_test_job *job, uint32_t rank,
                                          const struct rondo_config *like);

// Opens all ranks; fails the test if it cannot.
void rondo_test_job_open(struct rondo_test_job *job, uint32_t ranks,
                         const struct rondo_config *like);

// Drains and destroys all ranks that are there (handle not 0).
void rondo_test_job_close(struct rondo_test_job *job);

// Registers `desc` on all ranks.
void rondo_test_job_register(struct rondo_test_job *job, const struct rondo_collective_desc *desc,
                             struct rondo_collective *colls);

// The next of a series of random numbers.
uint64_t rondo_test_random(uint64_t *state);

// The numbers below `n` in random order.
void rondo_test_shuffle(uint32_t *order, uint32_t n, uint64_t *state);

#endif // RONDO_TESTS_SUPPORT_JOB_H
