// Shared by the parts of gpu_bench: figures, and how they are printed.
#ifndef RONDO_TESTS_GPU_BENCH_H
#define RONDO_TESTS_GPU_BENCH_H

#include "tests/gpu/gpu.h"

#define RANKS 8u

// Prints a figure as one line of JSON.
void print_figure(const char *name, double value, const char *unit);
// The same, and what it should be: at most, or at least, `target`.
void print_target(const char *name, double value, const char *unit, int is_most, double target);
// The same, and what gpu-model takes it for.
void print_modelled(const char *name, double value, const char *unit, double modelled);

// Sorts `count` values and returns the quantile `share`.
double quantile(double *values, int count, double share);

// All-reduces of 8 ranks on device 0, of `bytes` a rank.
struct team {
  struct rondo_context ctx[RANKS];
  struct rondo_collective colls[RANKS];
  uint64_t send[RANKS], recv[RANKS];
  uint64_t bytes;
  uint32_t blocks; // of a rank; 0: the default
};
void team_open(struct team *t, uint64_t bytes);
void team_submit(struct team *t, uint32_t first, uint32_t ranks);
void team_await(struct team *t);
double team_run_us(struct team *t);
void team_close(struct team *t);

// The parts, in the order of their worth.
void bench_constants(void); // bench_constants.c: what the device and its links are made of
void bench_breakdown(void); // bench_daemon.c: where the time of a block goes
void bench_latency(void);   // from a submission to its callback or its stream
void bench_memory(void);    // what a daemon takes
void bench_sizes(void);     // all-reduces by size, and against what memory allows
void bench_blocks(void);    // ... by the number of blocks, and how often these come and go
void bench_compute(void);   // bench_compute.c: what a daemon costs a matrix product
void bench_queues(void);    // bench_queues.c: completion queues

#endif // RONDO_TESTS_GPU_BENCH_H
