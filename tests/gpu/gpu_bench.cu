// How fast the CUDA backend is, through the public interface: gpu_bench prints one line of JSON a
// figure, {"name": ..., "value": ..., "unit": ...}. Several ranks share device 0. A watchdog on wall time
// ends it with 3. 77: there is no GPU.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime.h>
#include <rondo/rondo.h>

#define RANKS 8
#define LONG_NS INT64_C(20000000000)
#define BYTES (size_t(64) << 20)
#define ROUNDS 200

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == RONDO_SUCCESS)
#define CUDA(call) CHECK((call) == cudaSuccess)

struct pointers {
  float *p[RANKS];
};

static struct rondo_context ctx[RANKS];
static struct pointers send, recv;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void print_figure(const char *name, double value, const char *unit) {
  printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"}\n", name, value, unit);
  fflush(stdout);
}

static int compare(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[count / 2];
}

// ------------------------------------------------------------------ memory alone ---

// Reads eight buffers and writes eight: what an all-reduce on one GPU must do at least.
__global__ void fused(struct pointers in, struct pointers out, size_t count) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count / 4; i += step) {
    float4 sum = {0, 0, 0, 0};
    for (int r = 0; r < RANKS; r++) {
      float4 v = reinterpret_cast<const float4 *>(in.p[r])[i];
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    for (int r = 0; r < RANKS; r++)
      reinterpret_cast<float4 *>(out.p[r])[i] = sum;
  }
}

static double copy_us(void) {
  double best = 1e30;
  for (int i = 0; i < 10; i++) {
    double begin = now_us();
    CUDA(cudaMemcpyAsync(recv.p[0], send.p[0], BYTES, cudaMemcpyDeviceToDevice));
    CUDA(cudaStreamSynchronize(0));
    double took = now_us() - begin;
    best = took < best ? took : best;
  }
  return best;
}

static double fused_us(void) {
  double best = 1e30;
  for (int i = 0; i < 10; i++) {
    double begin = now_us();
    fused<<<1024, 256>>>(send, recv, BYTES / 4);
    CUDA(cudaStreamSynchronize(0));
    double took = now_us() - begin;
    best = took < best ? took : best;
  }
  return best;
}

// ----------------------------------------------------------------------- rondo ---

static void open_ranks(void) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.backend = RONDO_BACKEND_CUDA;
  c.rank_count = RANKS;
  OK(rondo_unique_id_create(&c.id));
  for (c.rank = 0; c.rank < RANKS; c.rank++) {
    OK(rondo_init(&ctx[c.rank], &c));
    CUDA(cudaMalloc(&send.p[c.rank], BYTES));
    CUDA(cudaMalloc(&recv.p[c.rank], BYTES));
    CUDA(cudaMemset(send.p[c.rank], 0, BYTES));
  }
}

static void enter(uint64_t id, uint64_t count, struct rondo_collective *colls) {
  struct rondo_collective_desc d = rondo_all_reduce(id, count, RONDO_FLOAT32, RONDO_SUM);
  for (int r = 0; r < RANKS; r++)
    OK(rondo_register(ctx[r], &d, &colls[r]));
}

static double run_us(const struct rondo_collective *colls) {
  double begin = now_us();
  for (int r = 0; r < RANKS; r++)
    OK(rondo_run(ctx[r], colls[r], send.p[r], recv.p[r], NULL, NULL));
  for (int r = 0; r < RANKS; r++)
    OK(rondo_wait(ctx[r], colls[r], RONDO_LAST_RUN, LONG_NS));
  return now_us() - begin;
}

// The smallest collective: a group of one rank, from the submission to its callback or to the end of
// a stream that waits for it.
static volatile double called_at_us;
static void called(void *, int) { called_at_us = now_us(); }

static void smallest(void) {
  static double callbacks[ROUNDS], streams[ROUNDS];
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_context one;
  struct rondo_collective coll;
  cudaStream_t stream;
  c.backend = RONDO_BACKEND_CUDA;
  OK(rondo_init(&one, &c));
  struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_FLOAT32, RONDO_SUM);
  OK(rondo_register(one, &d, &coll));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < ROUNDS; i++) {
    called_at_us = 0;
    double begin = now_us();
    OK(rondo_run(one, coll, send.p[0], recv.p[0], called, NULL));
    OK(rondo_wait(one, coll, RONDO_LAST_RUN, LONG_NS));
    while (called_at_us == 0.0 && now_us() - begin < 1e6) {
    }
    callbacks[i] = called_at_us - begin;
    begin = now_us();
    OK(rondo_run_on_stream(one, coll, send.p[0], recv.p[0], stream));
    CUDA(cudaStreamSynchronize(stream));
    streams[i] = now_us() - begin;
  }
  print_figure("submit to callback, 1 element, median", median(callbacks, ROUNDS), "us");
  print_figure("submit to stream, 1 element, median", median(streams, ROUNDS), "us");
  OK(rondo_destroy(one, RONDO_DESTROY_DRAIN, LONG_NS));
}

static void sizes(void) {
  struct rondo_collective colls[RANKS];
  uint64_t id = 0;
  double took = 0;
  for (size_t bytes = 256; bytes <= BYTES; bytes *= 8) {
    char name[64];
    enter(id++, bytes / 4, colls);
    took = 1e30;
    for (int i = 0; i < 20; i++) {
      double us = run_us(colls);
      took = us < took ? us : took;
    }
    snprintf(name, sizeof name, "all-reduce, 8 ranks, %zu bytes, best", bytes);
    print_figure(name, took, "us");
  }
  enter(id, BYTES / 4, colls);
  for (int i = 0; i < 10; i++) {
    double us = run_us(colls);
    took = i == 0 || us < took ? us : took;
  }
  double copy = copy_us(), alone = fused_us();
  print_figure("all-reduce, 8 ranks, 64 MiB, best", took, "us");
  print_figure("copy bandwidth, read and written", 2.0 * BYTES / copy / 1e3, "GB/s");
  // Eight buffers read and eight written, at the bandwidth of the copy.
  print_figure("of the time bound by device memory", RANKS * copy / took, "1");
  print_figure("against a fused reduction kernel", alone / took, "1");
}

static void out_of_time(int) { _exit(3); }

int main(void) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fprintf(stderr, "gpu_bench: there is no GPU\n");
    return 77;
  }
  signal(SIGALRM, out_of_time);
  alarm(90);
  open_ranks();
  smallest();
  sizes();
  for (int r = 0; r < RANKS; r++)
    OK(rondo_destroy(ctx[r], RONDO_DESTROY_DRAIN, LONG_NS));
  return 0;
}
