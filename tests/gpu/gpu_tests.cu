// What only a real GPU can show, through the public interface and cudart alone: gpu_tests CASE ...
//
// Several ranks of this process share device 0. A machine with a GPU may have no test library, so
// the harness is here: a check that fails ends the process with 1, and a watchdog on wall time ends it
// with 3 whatever a kernel does, so that no GPU is ever left hung. 77: there is no GPU.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime.h>
#include <rondo/rondo.h>

#define MAX_RANKS 8
#define LONG_NS INT64_C(20000000000)
#define COLLECTIVES 8

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == RONDO_SUCCESS)
#define CUDA(call) CHECK((call) == cudaSuccess)

static void out_of_time(int) {
  static const char text[] = "gpu_tests: out of time\n";
  (void)!write(2, text, sizeof text - 1);
  _exit(3);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t bound) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state % bound;
}

// --------------------------------------------------------------------- a job ---

struct job {
  uint32_t ranks;
  struct rondo_context ctx[MAX_RANKS];
};

static void job_open(struct job *j, uint32_t ranks, int backend) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  j->ranks = ranks;
  c.backend = backend;
  c.rank_count = ranks;
  OK(rondo_unique_id_create(&c.id));
  for (c.rank = 0; c.rank < ranks; c.rank++)
    OK(rondo_init(&j->ctx[c.rank], &c));
}

static void job_close(struct job *j) {
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_destroy(j->ctx[r], RONDO_DESTROY_DRAIN, LONG_NS));
}

static void enter(struct job *j, const struct rondo_collective_desc *d,
                  struct rondo_collective *colls) {
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_register(j->ctx[r], d, &colls[r]));
}

static void await(struct job *j, const struct rondo_collective *colls) {
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_wait(j->ctx[r], colls[r], RONDO_LAST_RUN, LONG_NS));
}

static void *device_memory(size_t bytes) {
  void *p;
  CUDA(cudaMalloc(&p, bytes ? bytes : 1));
  CUDA(cudaMemset(p, 0, bytes ? bytes : 1));
  return p;
}

// --------------------------------------------------------------------- bits ---

// Two ranks, every type and reduction, at odd counts and offsets: with two the order of arithmetic
// does not depend on how the elements are cut, so host and device must agree to the bit.
static void reduce_on(int backend, int dtype, int redop, uint64_t count, size_t offset,
                      const unsigned char *const values[2], unsigned char *result, size_t bytes) {
  struct job j;
  struct rondo_collective colls[2];
  unsigned char *buffers[4];
  job_open(&j, 2, backend);
  struct rondo_collective_desc d = rondo_all_reduce(1, count, dtype, redop);
  d.scalar = 0.3;
  enter(&j, &d, colls);
  for (int i = 0; i < 4; i++)
    buffers[i] = (unsigned char *)(backend == RONDO_BACKEND_CUDA ? device_memory(bytes + 64)
                                                                 : calloc(1, bytes + 64));
  for (int r = 0; r < 2; r++) {
    CUDA(cudaMemcpy(buffers[r] + offset, values[r], bytes, cudaMemcpyDefault));
    OK(rondo_run(j.ctx[r], colls[r], buffers[r] + offset, buffers[2 + r] + offset, NULL, NULL));
  }
  await(&j, colls);
  for (int r = 0; r < 2; r++)
    CUDA(cudaMemcpy(result + r * bytes, buffers[2 + r] + offset, bytes, cudaMemcpyDefault));
  job_close(&j);
  for (int i = 0; i < 4; i++)
    backend == RONDO_BACKEND_CUDA ? (void)cudaFree(buffers[i]) : free(buffers[i]);
}

static void case_bits(void) {
  static const size_t element[RONDO_DTYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++)
    for (int redop = 0; redop < RONDO_REDOP_COUNT; redop++) {
      uint64_t count = 1 + random_below(40000);
      size_t bytes = count * element[dtype];
      size_t offset = random_below(3) * element[dtype];
      unsigned char *memory = (unsigned char *)malloc(6 * bytes);
      const unsigned char *const values[2] = {memory, memory + bytes};
      for (size_t i = 0; i < 2 * bytes; i++)
        memory[i] = (unsigned char)random_below(256);
      reduce_on(RONDO_BACKEND_HOST, dtype, redop, count, offset, values, memory + 2 * bytes, bytes);
      reduce_on(RONDO_BACKEND_CUDA, dtype, redop, count, offset, values, memory + 4 * bytes, bytes);
      CHECK(memcmp(memory + 2 * bytes, memory + 4 * bytes, 2 * bytes) == 0);
      free(memory);
    }
}

// ------------------------------------------------------------------- matrix ---

struct shape {
  uint64_t send, recv; // elements
};

static struct rondo_collective_desc describe(int kind, uint64_t id, uint64_t count, uint32_t ranks,
                                             struct shape *s) {
  s->send = kind == RONDO_REDUCE_SCATTER ? count * ranks : count;
  s->recv = kind == RONDO_ALL_GATHER ? count * ranks : count;
  switch (kind) {
  case RONDO_ALL_REDUCE:
    return rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
  case RONDO_ALL_GATHER:
    return rondo_all_gather(id, count, RONDO_INT32);
  case RONDO_REDUCE_SCATTER:
    return rondo_reduce_scatter(id, count, RONDO_INT32, RONDO_SUM);
  case RONDO_REDUCE:
    return rondo_reduce(id, count, RONDO_INT32, RONDO_SUM, ranks - 1);
  default:
    return rondo_broadcast(id, count, RONDO_INT32, ranks - 1);
  }
}

static int32_t input_of(uint32_t rank, uint64_t i) { return (int32_t)(i * 7 + rank * 1000003); }

static int32_t expected(int kind, uint32_t ranks, uint32_t rank, uint64_t count, uint64_t i) {
  if (kind == RONDO_ALL_GATHER)
    return input_of((uint32_t)(i / count), i % count);
  if (kind == RONDO_BROADCAST)
    return input_of(ranks - 1, i);
  int32_t sum = 0;
  for (uint32_t r = 0; r < ranks; r++)
    sum += input_of(r, kind == RONDO_REDUCE_SCATTER ? rank * count + i : i);
  return sum;
}

static void run_one(struct job *j, int kind, uint64_t id, uint64_t count) {
  struct shape s;
  struct rondo_collective colls[MAX_RANKS];
  int32_t *send[MAX_RANKS], *recv[MAX_RANKS];
  struct rondo_collective_desc d = describe(kind, id, count, j->ranks, &s);
  uint64_t most = s.send > s.recv ? s.send : s.recv;
  int32_t *host = (int32_t *)malloc(most * 4 + 4);
  enter(j, &d, colls);
  for (uint32_t r = 0; r < j->ranks; r++) {
    for (uint64_t i = 0; i < s.send; i++)
      host[i] = input_of(r, i);
    send[r] = (int32_t *)device_memory(s.send * 4);
    recv[r] = (int32_t *)device_memory(s.recv * 4);
    CUDA(cudaMemcpy(send[r], host, s.send * 4, cudaMemcpyDefault));
  }
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_run(j->ctx[r], colls[r], send[r], recv[r], NULL, NULL));
  await(j, colls);
  for (uint32_t r = 0; r < j->ranks; r++) {
    CUDA(cudaMemcpy(host, recv[r], s.recv * 4, cudaMemcpyDefault));
    for (uint64_t i = 0; i < s.recv && (kind != RONDO_REDUCE || r == j->ranks - 1); i++)
      CHECK(host[i] == expected(kind, j->ranks, r, count, i));
    CUDA(cudaFree(send[r]));
    CUDA(cudaFree(recv[r]));
    OK(rondo_deregister(j->ctx[r], colls[r]));
  }
  free(host);
}

static void case_matrix(void) {
  static const uint64_t counts[] = {0, 1, 12, 13, 257, 4096, 65537, 1 << 20};
  for (uint32_t ranks = 1; ranks <= MAX_RANKS; ranks += ranks < 4 ? 1 : 2) {
    struct job j;
    job_open(&j, ranks, RONDO_BACKEND_CUDA);
    for (int kind = RONDO_ALL_REDUCE; kind <= RONDO_BROADCAST; kind++)
      for (int i = 0; i < 8; i++)
        run_one(&j, kind, (uint64_t)(kind * 8 + i), counts[i]);
    job_close(&j);
  }
}

// ------------------------------------------------------- the paper's programs ---

struct bench {
  struct job j;
  struct rondo_collective colls[COLLECTIVES][MAX_RANKS];
  int32_t *send, *recv[COLLECTIVES][MAX_RANKS];
};

static void bench_open(struct bench *b, uint32_t ranks) {
  job_open(&b->j, ranks, RONDO_BACKEND_CUDA);
  b->send = (int32_t *)device_memory(1 << 20);
  for (int c = 0; c < COLLECTIVES; c++) {
    struct rondo_collective_desc d =
        rondo_all_reduce((uint64_t)c, 64u << (c * 2 > 12 ? 12 : c * 2), RONDO_INT32, RONDO_SUM);
    enter(&b->j, &d, b->colls[c]);
    for (uint32_t r = 0; r < ranks; r++)
      b->recv[c][r] = (int32_t *)device_memory(1 << 20);
  }
}

static void bench_run(struct bench *b, uint32_t rank, int c) {
  OK(rondo_run(b->j.ctx[rank], b->colls[c][rank], b->send, b->recv[c][rank], NULL, NULL));
}

static void bench_await(struct bench *b) {
  for (int c = 0; c < COLLECTIVES; c++)
    await(&b->j, b->colls[c]);
}

static void bench_close(struct bench *b) {
  job_close(&b->j);
  CUDA(cudaFree(b->send));
  for (int c = 0; c < COLLECTIVES; c++)
    for (uint32_t r = 0; r < b->j.ranks; r++)
      CUDA(cudaFree(b->recv[c][r]));
}

// 8 ranks, 8 all-reduces, in an order of its own on each; `synchronise`: a device
// synchronisation between any two of a rank.
static void program(int iterations, int synchronise) {
  struct bench b;
  bench_open(&b, MAX_RANKS);
  for (int i = 0; i < iterations; i++) {
    int at[MAX_RANKS] = {0};
    for (int n = 0; n < COLLECTIVES * MAX_RANKS;) {
      uint32_t rank = (uint32_t)random_below(MAX_RANKS);
      if (at[rank] == COLLECTIVES)
        continue;
      int c =
          (int)((rank * 3 + (uint32_t)i + (uint32_t)at[rank] * (rank % 2 ? 7 : 5)) % COLLECTIVES);
      bench_run(&b, rank, c);
      at[rank]++;
      n++;
      if (synchronise && random_below(4) == 0)
        CUDA(cudaDeviceSynchronize());
    }
    bench_await(&b);
  }
  bench_close(&b);
}

static void case_disordered(void) { program(200, 0); }
static void case_synchronised(void) { program(200, 1); }

// "A, sync, B" and "B, sync, A": exactly one collective is half done at each synchronisation.
static void case_half_done(void) {
  struct bench b;
  bench_open(&b, 2);
  for (int i = 0; i < 100; i++) {
    bench_run(&b, 0, 0);
    bench_run(&b, 1, 1);
    CUDA(cudaDeviceSynchronize());
    bench_run(&b, 0, 1);
    bench_run(&b, 1, 0);
    bench_await(&b);
  }
  bench_close(&b);
}

// ---------------------------------------------------- calls that wait for all ---

__global__ void rarely_loaded(int32_t *word) { *word = 5; }
__global__ void fill(int32_t *p, int n, int32_t value) {
  for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += gridDim.x * blockDim.x)
    p[i] = value;
}
__global__ void add_one(int32_t *p, int n) {
  for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += gridDim.x * blockDim.x)
    p[i] += 1;
}

static void case_calls(void) {
  struct bench b;
  bench_open(&b, 2);
  for (int i = 0; i < 20; i++) {
    void *pinned;
    int32_t *word;
    bench_run(&b, 0, 0);
    bench_run(&b, 1, 1);
    CUDA(cudaMalloc(&word, 4));
    CUDA(cudaMallocHost(&pinned, 1 << 16));
    rarely_loaded<<<1, 1>>>(word);
    CUDA(cudaStreamSynchronize(0));
    CUDA(cudaMemset(word, 0, 4));
    CUDA(cudaFreeHost(pinned));
    CUDA(cudaFree(word));
    bench_run(&b, 0, 1);
    bench_run(&b, 1, 0);
    bench_await(&b);
  }
  bench_close(&b);
}

// --------------------------------------------------------------- streams, graphs ---

#define STREAM_COUNT 4096 // elements of collective 3

static void tie(struct bench *b, cudaStream_t *streams, int32_t *send[2]) {
  for (uint32_t r = 0; r < 2; r++) {
    fill<<<4, 256, 0, streams[r]>>>(send[r], STREAM_COUNT, (int32_t)r + 1);
    OK(rondo_run_on_stream(b->j.ctx[r], b->colls[3][r], send[r], b->recv[3][r], streams[r]));
    add_one<<<4, 256, 0, streams[r]>>>(b->recv[3][r], STREAM_COUNT);
  }
}

static void check_tied(struct bench *b) {
  static int32_t host[STREAM_COUNT];
  for (int r = 0; r < 2; r++) {
    CUDA(cudaMemcpy(host, b->recv[3][r], sizeof host, cudaMemcpyDefault));
    for (int i = 0; i < STREAM_COUNT; i++)
      CHECK(host[i] == 4);
  }
}

static void streams_open(struct bench *b, cudaStream_t *streams, int32_t *send[2]) {
  bench_open(b, 2);
  for (int r = 0; r < 2; r++) {
    CUDA(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
    send[r] = (int32_t *)device_memory(STREAM_COUNT * 4);
  }
}

static void case_streams(void) {
  struct bench b;
  cudaStream_t streams[2];
  int32_t *send[2];
  streams_open(&b, streams, send);
  for (int i = 0; i < 200; i++) {
    tie(&b, streams, send);
    CUDA(cudaStreamSynchronize(streams[0]));
    CUDA(cudaStreamSynchronize(streams[1]));
    check_tied(&b);
  }
  bench_close(&b);
}

static void case_graphs(void) {
  struct bench b;
  cudaStream_t streams[2];
  int32_t *send[2];
  cudaGraph_t graph[2];
  cudaGraphExec_t exec[2];
  streams_open(&b, streams, send);
  for (int r = 0; r < 2; r++)
    CUDA(cudaStreamBeginCapture(streams[r], cudaStreamCaptureModeThreadLocal));
  tie(&b, streams, send);
  for (int r = 0; r < 2; r++) {
    CUDA(cudaStreamEndCapture(streams[r], &graph[r]));
    CUDA(cudaGraphInstantiate(&exec[r], graph[r], 0));
  }
  for (int i = 0; i < 10000; i++) {
    CUDA(cudaGraphLaunch(exec[0], streams[0]));
    CUDA(cudaGraphLaunch(exec[1], streams[1]));
    if (i % 100 == 99) {
      CUDA(cudaStreamSynchronize(streams[0]));
      CUDA(cudaStreamSynchronize(streams[1]));
      check_tied(&b);
    }
  }
  for (int r = 0; r < 2; r++) {
    CUDA(cudaGraphExecDestroy(exec[r]));
    CUDA(cudaGraphDestroy(graph[r]));
  }
  bench_close(&b);
}

// ------------------------------------------------- quit and start, abort, soak ---

// Each device synchronisation makes the daemons quit; each run starts them again.
static void case_restarts(void) {
  struct bench b;
  uint64_t starts = 0;
  struct rondo_counters c;
  bench_open(&b, 2);
  for (int i = 0; starts < 100000; i++) {
    bench_run(&b, 0, 0);
    CUDA(cudaDeviceSynchronize());
    bench_run(&b, 1, 0);
    await(&b.j, b.colls[0]);
    CUDA(cudaDeviceSynchronize());
    OK(rondo_counters(b.j.ctx[0], &c));
    starts = c.starts;
  }
  bench_close(&b);
}

static void case_abort(void) {
  for (int i = 0; i < 10; i++) {
    struct bench b;
    bench_open(&b, 2);
    bench_run(&b, 0, 0);
    bench_run(&b, 0, 5);
    OK(rondo_abort(b.j.ctx[0]));
    CHECK(rondo_wait(b.j.ctx[0], b.colls[0][0], RONDO_LAST_RUN, LONG_NS) == RONDO_ERR_ABORTED);
    CHECK(rondo_wait(b.j.ctx[0], b.colls[5][0], RONDO_LAST_RUN, LONG_NS) == RONDO_ERR_ABORTED);
    CUDA(cudaDeviceSynchronize());
    bench_close(&b);
  }
}

static void case_soak(void) {
  for (;;) {
    struct job j;
    job_open(&j, 1 + (uint32_t)random_below(MAX_RANKS), RONDO_BACKEND_CUDA);
    for (uint64_t id = 0; id < 20; id++)
      run_one(&j, (int)random_below(RONDO_BROADCAST + 1), id, random_below(100000));
    job_close(&j);
    program(2, (int)random_below(2));
  }
}

// -------------------------------------------------------------------- harness ---

static const struct {
  const char *name;
  void (*run)(void);
  unsigned seconds; // wall time after which it is ended
} cases[] = {{"bits", case_bits, 60},
             {"matrix", case_matrix, 60},
             {"disordered", case_disordered, 60},
             {"synchronised", case_synchronised, 60},
             {"half_done", case_half_done, 30},
             {"calls", case_calls, 30},
             {"streams", case_streams, 30},
             {"graphs", case_graphs, 60},
             {"abort", case_abort, 30},
             {"restarts", case_restarts, 300},
             {"soak", case_soak, 600}};

// The soak ends with its time; everything else must end before.
static void soaked(int) { _exit(0); }

int main(int argc, char **argv) {
  int devices = 0;
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (const auto &c : cases)
      printf("%s %u\n", c.name, c.seconds);
    return 0;
  }
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fprintf(stderr, "gpu_tests: there is no GPU\n");
    return 77;
  }
  for (const auto &c : cases)
    if (argc == 2 && strcmp(argv[1], c.name) == 0) {
      int is_soak = c.run == case_soak;
      const char *seconds = getenv("RONDO_GPU_SOAK_SECONDS");
      signal(SIGALRM, is_soak ? soaked : out_of_time);
      alarm(is_soak && seconds ? (unsigned)atoi(seconds) : c.seconds);
      c.run();
      printf("%s: ok\n", c.name);
      return 0;
    }
  fprintf(stderr, "usage: gpu_tests --list | CASE\n");
  return 2;
}
