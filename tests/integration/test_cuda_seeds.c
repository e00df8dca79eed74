// Programs of the CUDA backend on the stand-in for the driver, with all threads in an order that a
// seed chooses: threads of the application, of Rondo and of the driver. Ranks run collectives in
// orders of their own. In half of the programs they wait for the device in between, allocate and
// free memory. In the others some collectives run in the order of a stream, which is the same on
// all ranks; ranks do not wait there before they have submitted everything. Every result must be
// exact, and nothing may hang.
//
//   test_cuda_seeds [--first=SEED] [--seeds=COUNT]
//
// Each seed is a process. One that fails is repeated with its seed as the first of one.
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/cuda/cuda_backend.h"
#include "tests/explore/random.h"
#include "tests/support/cuda_job.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/script/script.h"

#define ROUNDS 3u
#define MAX_POINTS 10000000u

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

struct rank_program {
  struct random random;
  uint32_t rank, device;
  CUstream stream;
  uint32_t on_stream; // bit c: collective c runs in the order of the stream
};

static struct rondo_test_cuda_job job;
static struct rank_program programs[RONDO_TEST_CUDA_RANKS];
static uint32_t devices;
static bool has_streams; // collectives run in the order of streams
static uint64_t seed_now;

#define EXPECT(call, expected) result_check(#call, (int)(call), (int)(expected))

static void result_check(const char *call, int got, int expected) {
  if (got == expected)
    return;
  fprintf(stderr, "seed %llu: %s gives %d\n", (unsigned long long)seed_now, call, got);
  abort();
}

// ------------------------------------------------------------------ a rank's part ---

// What applications do between collectives.
static void program_disturb(struct rank_program *p) {
  CUdeviceptr memory;
  switch (random_below(&p->random, has_streams ? 2 : 8)) {
  case 0:
    usleep(1u << random_below(&p->random, 12));
    break;
  case 1:
    break;
  case 2:
    EXPECT(cuCtxSynchronize(), CUDA_SUCCESS);
    break;
  case 3:
    EXPECT(cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
    EXPECT(cuMemFree(memory), CUDA_SUCCESS);
    break;
  default:
    break;
  }
}

// Puts the collectives into an order of this rank's own. Those in the stream keep theirs.
static void program_order(struct rank_program *p, uint32_t *order) {
  uint32_t next = 0; // in the stream
  for (uint32_t c = 0; c < job.colls; c++) {
    uint32_t other = random_below(&p->random, c + 1);
    order[c] = order[other];
    order[other] = c;
  }
  p->on_stream = has_streams ? (uint32_t)random_next(&p->random) : 0;
  for (uint32_t i = 0; i < job.colls; i++) {
    if (!(p->on_stream >> order[i] & 1))
      continue;
    while (!(p->on_stream >> next & 1))
      next++;
    order[i] = next++;
  }
}

static void program_submit(struct rank_program *p, uint32_t round) {
  uint32_t order[RONDO_TEST_CUDA_COLLS];
  program_order(p, order);
  for (uint32_t c = 0; c < job.colls; c++)
    EXPECT(rondo_test_cuda_fill(&job, p->rank, c, round), RONDO_SUCCESS);
  for (uint32_t i = 0; i < job.colls; i++) {
    uint32_t c = order[i];
    if (p->on_stream >> c & 1)
      EXPECT(rondo_run_on_stream(job.ctx[p->rank], job.coll[p->rank][c], job.send[p->rank][c],
                                 job.recv[p->rank][c], p->stream),
             RONDO_SUCCESS);
    else
      EXPECT(rondo_test_cuda_run(&job, p->rank, c), RONDO_SUCCESS);
    program_disturb(p);
  }
}

static void *program_main(void *arg) {
  struct rank_program *p = arg;
  CUcontext ctx;
  EXPECT(cuDevicePrimaryCtxRetain(&ctx, (int)p->device), CUDA_SUCCESS);
  EXPECT(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
  EXPECT(cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    program_submit(p, round);
    EXPECT(cuStreamSynchronize(p->stream), CUDA_SUCCESS);
    for (uint32_t c = 0; c < job.colls; c++) {
      EXPECT(rondo_test_cuda_wait(&job, p->rank, c), RONDO_SUCCESS);
      EXPECT(rondo_test_cuda_check(&job, p->rank, c, round), RONDO_SUCCESS);
    }
  }
  EXPECT(cuStreamDestroy(p->stream), CUDA_SUCCESS);
  EXPECT(cuDevicePrimaryCtxRelease((int)p->device), CUDA_SUCCESS);
  return NULL;
}

// ---------------------------------------------------------------------- a program ---

static void driver_choose(struct random *r) {
  struct rondo_fake_options options = rondo_fake_defaults();
  devices = 1 + random_below(r, 2);
  options.devices = devices;
  options.peer_access = random_below(r, 2);
  has_streams = random_below(r, 2);
  options.connections = has_streams ? 32 : 1u << random_below(r, 6);
  options.memory_waits = random_below(r, 2);
  options.resident_blocks = 8u << random_below(r, 4);
  rondo_fake_reset(&options);
}

static void seed_run(uint64_t seed) {
  const struct script_options options = {
      .seed = seed, .max_points = MAX_POINTS, .stay = 1u << (seed % 8)};
  struct random random = {~seed};
  pthread_t threads[RONDO_TEST_CUDA_RANKS];
  seed_now = seed;
  script_begin(&options);
  driver_choose(&random);
  job.ranks = 2 + random_below(&random, 3);
  job.colls = 1 + random_below(&random, RONDO_TEST_CUDA_COLLS);
  job.count = (uint32_t)random_log(&random, 1, 10000);
  EXPECT(rondo_test_cuda_open(&job, NULL, devices), RONDO_SUCCESS);
  for (uint32_t r = 0; r < job.ranks; r++) {
    struct rank_program p = {.random = {random_next(&random)}, .rank = r, .device = r % devices};
    programs[r] = p;
    EXPECT(pthread_create(&threads[r], NULL, program_main, &programs[r]), 0);
  }
  for (uint32_t r = 0; r < job.ranks; r++)
    EXPECT(pthread_join(threads[r], NULL), 0);
  EXPECT(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  EXPECT(rondo_fake_live_count(), 0);
  (void)script_end();
}

static bool seed_passes(uint64_t seed) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    seed_run(seed);
    _exit(EXIT_SUCCESS); // other threads may wait without end
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// ---------------------------------------------------------------------------- main ---

struct options {
  uint64_t first, seeds;
};

static error_t option_parse(int key, char *text, struct argp_state *state) {
  struct options *options = state->input;
  char *end = NULL;
  if (key != 'f' && key != 'n')
    return ARGP_ERR_UNKNOWN;
  uint64_t number = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end)
    argp_error(state, "%s is not a number", text);
  *(key == 'f' ? &options->first : &options->seeds) = number;
  return 0;
}

int main(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"first", 'f', "SEED", 0, "begin with this one", 0},
      {"seeds", 'n', "COUNT", 0, "run COUNT seeds", 0},
      {0},
  };
  static const struct argp parser = {
      .options = table,
      .parser = option_parse,
      .doc = "Runs programs of the CUDA backend on a stand-in for the driver, each in an order of "
             "threads that its seed chooses."};
  struct options options = {0, 100};
  argp_parse(&parser, argc, argv, 0, NULL, &options);
  uint64_t failed = 0;
  for (uint64_t seed = options.first; seed < options.first + options.seeds; seed++) {
    if (seed_passes(seed))
      continue;
    failed++;
    printf("seed %llu failed: %s --first=%llu --seeds=1\n", (unsigned long long)seed, argv[0],
           (unsigned long long)seed);
  }
  printf("%llu seeds, %llu failed\n", (unsigned long long)options.seeds,
         (unsigned long long)failed);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
