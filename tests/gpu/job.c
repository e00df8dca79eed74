#include "tests/gpu/job.h"

#define BENCH_BYTES (1u << 20)

void job_open(struct job *j, uint32_t ranks, int devices, const struct rondo_config *like) {
  struct rondo_config defaults = RONDO_CONFIG_INIT;
  struct rondo_config c = like ? *like : defaults;
  if (!like)
    c.backend = RONDO_BACKEND_CUDA;
  j->ranks = c.rank_count = ranks;
  OK(rondo_unique_id_create(&c.id));
  for (c.rank = 0; c.rank < ranks; c.rank++) {
    c.device = j->device[c.rank] = (int)c.rank % devices;
    OK(rondo_init(&j->ctx[c.rank], &c));
  }
}

void job_close(struct job *j) {
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_destroy(j->ctx[r], RONDO_DESTROY_DRAIN, LONG_NS));
}

void job_register(struct job *j, const struct rondo_collective_desc *d,
                  struct rondo_collective *colls) {
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_register(j->ctx[r], d, &colls[r]));
}

void job_await(struct job *j, const struct rondo_collective *colls) {
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_wait(j->ctx[r], colls[r], RONDO_LAST_RUN, LONG_NS));
}

void bench_open(struct bench *b, uint32_t ranks) {
  job_open(&b->j, ranks, 1, NULL);
  b->send = gpu_memory(BENCH_BYTES);
  for (int c = 0; c < COLLECTIVES; c++) {
    uint64_t count = UINT64_C(64) << (c < 6 ? 2 * c : 12);
    struct rondo_collective_desc d = rondo_all_reduce((uint64_t)c, count, RONDO_INT32, RONDO_SUM);
    job_register(&b->j, &d, b->colls[c]);
    for (uint32_t r = 0; r < ranks; r++)
      b->recv[c][r] = gpu_memory(BENCH_BYTES);
  }
}

void bench_run(struct bench *b, uint32_t rank, int c) {
  OK(rondo_run(b->j.ctx[rank], b->colls[c][rank], gpu_pointer(b->send),
               gpu_pointer(b->recv[c][rank]), NULL, NULL));
}

void bench_await(struct bench *b) {
  for (int c = 0; c < COLLECTIVES; c++)
    job_await(&b->j, b->colls[c]);
}

void bench_close(struct bench *b) {
  job_close(&b->j);
  gpu_release(b->send);
  for (int c = 0; c < COLLECTIVES; c++)
    for (uint32_t r = 0; r < b->j.ranks; r++)
      gpu_release(b->recv[c][r]);
}
