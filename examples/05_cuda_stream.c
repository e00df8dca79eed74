// Two ranks on one GPU: each copies its input, runs an all-reduce and copies the result back, all
// in the order of its CUDA stream. No CPU thread waits between them. Ends with 77 where there is no
// GPU.
//
//   cc 05_cuda_stream.c $(pkg-config --cflags --libs rondo) -lcudart -o cuda_stream &&
//   ./cuda_stream
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#define RANKS 2u
#define CHECK(call) status_check(call, #call)

static struct rondo_context ctx[RANKS];
static cudaStream_t stream[RANKS];
static void *buffer[RANKS]; // memory of the GPU
static float value[RANKS];

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) { // cudaSuccess is 0, too
    fprintf(stderr, "%s: %d\n", call, status);
    exit(1);
  }
}

// The run begins when the copy has ended, and what follows in the stream waits for the run.
static void rank_start(uint32_t r) {
  struct rondo_collective_desc desc = rondo_all_reduce(1, 1, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_collective sum;
  CHECK(rondo_register(ctx[r], &desc, &sum));
  CHECK(rondo_mem_alloc(ctx[r], sizeof(float), &buffer[r]));
  CHECK(cudaStreamCreate(&stream[r]));
  value[r] = (float)r + 1;
  CHECK(cudaMemcpyAsync(buffer[r], &value[r], 4, cudaMemcpyHostToDevice, stream[r]));
  CHECK(rondo_run_on_stream(ctx[r], sum, buffer[r], buffer[r], stream[r]));
}

int main(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("05_cuda_stream: there is no GPU\n");
    return 77;
  }
  CHECK(rondo_unique_id_create(&cfg.id));
  cfg.backend = RONDO_BACKEND_CUDA;
  cfg.rank_count = RANKS;
  for (cfg.rank = 0; cfg.rank < RANKS; cfg.rank++)
    CHECK(rondo_init(&ctx[cfg.rank], &cfg));
  for (uint32_t r = 0; r < RANKS; r++)
    rank_start(r);
  for (uint32_t r = 0; r < RANKS; r++) {
    CHECK(cudaMemcpyAsync(&value[r], buffer[r], 4, cudaMemcpyDeviceToHost, stream[r]));
    CHECK(cudaStreamSynchronize(stream[r]));
    printf("rank %u: the sum is %g\n", r, (double)value[r]);
    CHECK(rondo_destroy(ctx[r], RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  }
  return 0;
}
