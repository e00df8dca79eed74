// A job on the stand-in for the CUDA driver, for tests: ranks with one collective each, or more,
// and buffers of the device.
#ifndef RONDO_TESTS_SUPPORT_CUDA_JOB_H
#define RONDO_TESTS_SUPPORT_CUDA_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#define RONDO_TEST_CUDA_RANKS 8u
#define RONDO_TEST_CUDA_COLLS 16u

struct rondo_manual;

struct rondo_test_cuda_job {
  uint32_t ranks, colls, count;
  // Collectives are all-reduces, broadcasts and all-to-all-vs in turn; else only all-reduces.
  bool is_mixed;
  const struct rondo_manual *sizes;       // of queues and connectors; null: as in the product
  uint32_t opened;                        // ranks that are there
  uint64_t counts[RONDO_TEST_CUDA_RANKS]; // of an all-to-all-v, in both directions
  struct rondo_unique_id id;
  struct rondo_context ctx[RONDO_TEST_CUDA_RANKS];
  struct rondo_collective coll[RONDO_TEST_CUDA_RANKS][RONDO_TEST_CUDA_COLLS];
  void *send[RONDO_TEST_CUDA_RANKS][RONDO_TEST_CUDA_COLLS];
  void *recv[RONDO_TEST_CUDA_RANKS][RONDO_TEST_CUDA_COLLS];
};

// The calls return the first status that is not success, and go no further. `devices`: rank r
// is on device r % devices. `like` (may be null): what is not about ranks.
int rondo_test_cuda_open(struct rondo_test_cuda_job *job, const struct rondo_config *like,
                         uint32_t devices);
// Writes the input of a rank, `count` values; compares its output.
void rondo_test_cuda_input(const struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                           uint32_t round, int32_t *values);
int rondo_test_cuda_compare(const struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                            uint32_t round, const int32_t *values); // RONDO_ERR_INTERNAL: differs
// Fills rank `rank`'s input of collective `coll` for round `round`; checks its output.
int rondo_test_cuda_fill(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                         uint32_t round);
int rondo_test_cuda_check(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                          uint32_t round); // RONDO_ERR_INTERNAL: wrong data
int rondo_test_cuda_run(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll);
int rondo_test_cuda_wait(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll);
// All ranks: every collective once, filled, run, awaited and checked.
int rondo_test_cuda_round(struct rondo_test_cuda_job *job, uint32_t round);
// Destroys the ranks that are there.
int rondo_test_cuda_close(struct rondo_test_cuda_job *job, int mode);

#endif // RONDO_TESTS_SUPPORT_CUDA_JOB_H
