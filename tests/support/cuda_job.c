#include "tests/support/cuda_job.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/api/api_context.h"

#define WAIT_NS INT64_C(30000000000) // only a hang outlasts it
#define TRY(call)                                                                                  \
  do {                                                                                             \
    int try_status = (call);                                                                       \
    if (try_status != RONDO_SUCCESS)                                                               \
      return try_status;                                                                           \
  } while (0)

enum kind { ALL_REDUCE, BROADCAST, ALL_TO_ALL_V };

static enum kind kind_of(const struct rondo_test_cuda_job *job, uint32_t coll) {
  return job->is_mixed ? (enum kind)(coll % 3) : ALL_REDUCE;
}

static struct rondo_collective_desc collective(const struct rondo_test_cuda_job *job,
                                               uint32_t coll) {
  switch (kind_of(job, coll)) {
  case BROADCAST:
    return rondo_broadcast(coll, job->count, RONDO_INT32, coll % job->ranks);
  case ALL_TO_ALL_V:
    return rondo_all_to_all_v(coll, RONDO_INT32, job->counts, NULL, job->counts, NULL);
  default:
    return rondo_all_reduce(coll, job->count, RONDO_INT32, RONDO_SUM);
  }
}

static int open_rank(struct rondo_test_cuda_job *job, const struct rondo_config *like,
                     uint32_t devices) {
  struct rondo_config defaults = RONDO_CONFIG_INIT;
  struct rondo_config c = like ? *like : defaults;
  uint32_t rank = job->opened;
  c.backend = RONDO_BACKEND_CUDA;
  c.device = (int)(rank % devices);
  c.id = job->id;
  c.rank = rank;
  c.rank_count = job->ranks;
  TRY(rondo_context_create(&job->ctx[rank], &c, job->sizes));
  job->opened++;
  for (uint32_t i = 0; i < job->colls; i++) {
    struct rondo_collective_desc d = collective(job, i);
    TRY(rondo_register(job->ctx[rank], &d, &job->coll[rank][i]));
    TRY(rondo_mem_alloc(job->ctx[rank], job->count * sizeof(int32_t), &job->send[rank][i]));
    TRY(rondo_mem_alloc(job->ctx[rank], job->count * sizeof(int32_t), &job->recv[rank][i]));
  }
  return RONDO_SUCCESS;
}

int rondo_test_cuda_open(struct rondo_test_cuda_job *job, const struct rondo_config *like,
                         uint32_t devices) {
  job->opened = 0;
  for (uint32_t r = 0; r < job->ranks; r++)
    job->counts[r] = job->count / job->ranks;
  TRY(rondo_unique_id_create(&job->id));
  while (job->opened < job->ranks)
    TRY(open_rank(job, like, devices));
  return RONDO_SUCCESS;
}

static int32_t input(uint32_t rank, uint32_t coll, uint32_t round, uint32_t i) {
  return (int32_t)((rank + 1) * 10007u + coll * 1009u + round * 101u + i);
}

static int32_t *scratch(const struct rondo_test_cuda_job *job) {
  int32_t *values = malloc((job->count + 1) * sizeof *values);
  if (!values)
    abort();
  return values;
}

void rondo_test_cuda_input(const struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                           uint32_t round, int32_t *values) {
  for (uint32_t i = 0; i < job->count; i++)
    values[i] = input(rank, coll, round, i);
}

static int32_t output(const struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                      uint32_t round, uint32_t i) {
  const uint32_t part = job->count / job->ranks;
  int32_t sum = 0;
  switch (kind_of(job, coll)) {
  case BROADCAST:
    return input(coll % job->ranks, coll, round, i);
  case ALL_TO_ALL_V:
    return part ? input(i / part, coll, round, rank * part + i % part) : 0;
  default:
    for (uint32_t r = 0; r < job->ranks; r++)
      sum += input(r, coll, round, i);
    return sum;
  }
}

int rondo_test_cuda_compare(const struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                            uint32_t round, const int32_t *values) {
  const bool is_in_parts = kind_of(job, coll) == ALL_TO_ALL_V;
  const uint32_t count = is_in_parts ? job->count / job->ranks * job->ranks : job->count;
  for (uint32_t i = 0; i < count; i++)
    if (values[i] != output(job, rank, coll, round, i))
      return RONDO_ERR_INTERNAL;
  return RONDO_SUCCESS;
}

int rondo_test_cuda_fill(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                         uint32_t round) {
  int32_t *values = scratch(job);
  rondo_test_cuda_input(job, rank, coll, round, values);
  int status =
      rondo_mem_copy(job->ctx[rank], job->send[rank][coll], values, job->count * sizeof *values);
  free(values);
  return status;
}

int rondo_test_cuda_check(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll,
                          uint32_t round) {
  int32_t *values = scratch(job);
  int status =
      rondo_mem_copy(job->ctx[rank], values, job->recv[rank][coll], job->count * sizeof *values);
  if (status == RONDO_SUCCESS)
    status = rondo_test_cuda_compare(job, rank, coll, round, values);
  free(values);
  return status;
}

int rondo_test_cuda_run(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll) {
  return rondo_run(job->ctx[rank], job->coll[rank][coll], job->send[rank][coll],
                   job->recv[rank][coll], NULL, NULL);
}

int rondo_test_cuda_wait(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t coll) {
  return rondo_wait(job->ctx[rank], job->coll[rank][coll], RONDO_LAST_RUN, WAIT_NS);
}

// The collectives of one rank, in an order of its own.
static int submit(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t round) {
  for (uint32_t c = 0; c < job->colls; c++)
    TRY(rondo_test_cuda_fill(job, rank, c, round));
  for (uint32_t c = 0; c < job->colls; c++)
    TRY(rondo_test_cuda_run(job, rank, (c + rank) % job->colls));
  return RONDO_SUCCESS;
}

static int finish(struct rondo_test_cuda_job *job, uint32_t rank, uint32_t round) {
  for (uint32_t c = 0; c < job->colls; c++) {
    TRY(rondo_test_cuda_wait(job, rank, c));
    TRY(rondo_test_cuda_check(job, rank, c, round));
  }
  return RONDO_SUCCESS;
}

int rondo_test_cuda_round(struct rondo_test_cuda_job *job, uint32_t round) {
  for (uint32_t r = 0; r < job->ranks; r++)
    TRY(submit(job, r, round));
  for (uint32_t r = 0; r < job->ranks; r++)
    TRY(finish(job, r, round));
  return RONDO_SUCCESS;
}

int rondo_test_cuda_close(struct rondo_test_cuda_job *job, int mode) {
  int first = RONDO_SUCCESS;
  for (uint32_t r = 0; r < job->opened; r++) {
    int status = rondo_destroy(job->ctx[r], mode, WAIT_NS);
    if (first == RONDO_SUCCESS)
      first = status;
  }
  job->opened = 0;
  for (uint32_t r = 0; r < job->ranks; r++)
    job->counts[r] = job->count / job->ranks;
  return first;
}
