// Jobs of several ranks for the programs of tests/gpu. Every call must succeed.
#ifndef RONDO_TESTS_GPU_JOB_H
#define RONDO_TESTS_GPU_JOB_H

#include "tests/gpu/gpu.h"

#define MAX_RANKS 8u
#define COLLECTIVES 8

struct job {
  uint32_t ranks;
  int device[MAX_RANKS];
  struct rondo_context ctx[MAX_RANKS];
};

// Rank r is on device r % devices. `like` may be null: what is not about ranks.
void job_open(struct job *j, uint32_t ranks, int devices, const struct rondo_config *like);
void job_close(struct job *j);

void job_register(struct job *j, const struct rondo_collective_desc *d,
                  struct rondo_collective *colls);
// Waits for the last run of each rank.
void job_await(struct job *j, const struct rondo_collective *colls);

// The job of the paper's programs: eight all-reduces of growing size, on device 0.
struct bench {
  struct job j;
  struct rondo_collective colls[COLLECTIVES][MAX_RANKS];
  uint64_t send, recv[COLLECTIVES][MAX_RANKS];
};

void bench_open(struct bench *b, uint32_t ranks);
void bench_run(struct bench *b, uint32_t rank, int c);
void bench_await(struct bench *b);
void bench_close(struct bench *b);

// The cases.
void case_bits(void);
void case_matrix(void);
void case_kinds(void);
void case_devices(void);
void case_disordered(void);
void case_synchronised(void);
void case_half_done(void);
void case_calls(void);
void case_streams(void);
void case_graphs(void);
void case_abort(void);
void case_mapping(void);
void case_window(void);
void case_processes(void);
void case_first_use(void); // a run that is waited for before its links are there
void case_late_rank(void); // ... and before the other rank has joined the job
void case_restarts(void);
void case_soak(void);

// What another process of a case does; it reads its orders from the descriptor `end`. Returns its
// exit status.
int gpu_child_main(int end);

#endif // RONDO_TESTS_GPU_JOB_H
