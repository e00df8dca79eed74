// Programs of the CUDA backend on the stand-in for the driver, with all threads in an order that a
// seed chooses: threads of the application, of Rondo and of the driver. Ranks run collectives in
// orders of their own. In half of the programs they wait for the device in between, allocate and
// free memory. In the others some collectives run in the order of a stream, which is the same on
// all ranks; ranks do not wait there before they have submitted everything. If each rank has a
// device of its own, streams may share hardware queues there, and ranks may allocate and free
// memory while streams wait; the driver may hold the lock of the context meanwhile. In a quarter of
// the programs the last runs are aborted. Every result must be exact, and nothing may hang.
//
//   test_cuda_seeds [--first=SEED] [--seeds=COUNT] [--replay] [--late-readers]
//                   [--ptx=FILE [--mutation=NAME]]
//
// With --ptx the kernels are PTX, and all accesses of threads, streams and kernels go through a
// memory that follows PTX's memory model and accuses races (docs/ptx-machine.md). --mutation plants
// a fault into the PTX, which a seed must notice.
//
// With --late-readers there are three ranks, so that buffers have several readers, and each stream
// overwrites an input as soon as its run has ended.
//
// Each seed is a process. One that fails is repeated with its seed as the first of one.
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/cuda/cuda_backend.h"
#include "runtime/rank/rank.h"
#include "tests/explore/random.h"
#include "tests/integration/ptx_mutations.h"
#include "tests/support/cuda_job.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/script/script_memory.h"

#define ROUNDS 3u
#define MAX_POINTS 3000000u
#define MAX_POINTS_OF_FUNCTIONS 12000000u // a kernel that is a function pauses in steps of 100 ns

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

struct rank_program {
  struct random random;
  uint32_t rank, device;
  CUstream stream;
  uint32_t on_stream; // bit c: collective c runs in the order of the stream
  int32_t *inputs[RONDO_TEST_CUDA_COLLS], *outputs[RONDO_TEST_CUDA_COLLS]; // of those
};

static struct rondo_test_cuda_job job;
static struct rank_program programs[RONDO_TEST_CUDA_RANKS];
static uint32_t devices;
static bool has_streams; // collectives run in the order of streams
static uint64_t seed_now;
static bool ends_early; // the last runs are aborted
static bool calls_wait; // calls that wait for streams are made while streams wait for runs
static bool has_ptx;    // kernels are PTX, and accesses go through a memory
static bool overwrites; // streams overwrite inputs after their runs

#define EXPECT(call, expected) result_check(#call, (int)(call), (int)(expected))

static void result_check(const char *call, int got, int expected) {
  if (got == expected)
    return;
  fprintf(stderr, "seed %llu: %s gives %d\n", (unsigned long long)seed_now, call, got);
  abort();
}

// ------------------------------------------------------------------ a rank's part ---

// Returns when all ranks have called it for the `time`th time.
static void programs_meet(uint32_t time) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t all_came = PTHREAD_COND_INITIALIZER;
  static uint32_t came;
  pthread_mutex_lock(&lock);
  came++;
  pthread_cond_broadcast(&all_came);
  while (came < time * job.ranks)
    pthread_cond_wait(&all_came, &lock);
  pthread_mutex_unlock(&lock);
}

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

static bool program_is_on_stream(const struct rank_program *p, uint32_t c) {
  return p->on_stream >> c & 1;
}

// The stream writes the input, lets the collective run, and reads the output.
static void program_enqueue(struct rank_program *p, uint32_t c, uint32_t round) {
  const size_t bytes = job.count * sizeof(int32_t);
  void *send = job.send[p->rank][c], *recv = job.recv[p->rank][c];
  rondo_test_cuda_input(&job, p->rank, c, round, p->inputs[c]);
  EXPECT(cuMemcpyHtoDAsync((CUdeviceptr)send, p->inputs[c], bytes, p->stream), CUDA_SUCCESS);
  EXPECT(rondo_run_on_stream(job.ctx[p->rank], job.coll[p->rank][c], send, recv, p->stream),
         RONDO_SUCCESS);
  if (overwrites)
    EXPECT(cuMemsetD8Async((CUdeviceptr)send, 0, bytes, p->stream), CUDA_SUCCESS);
  EXPECT(cuMemcpyDtoHAsync(p->outputs[c], (CUdeviceptr)recv, bytes, p->stream), CUDA_SUCCESS);
}

static void program_submit(struct rank_program *p, uint32_t round) {
  uint32_t order[RONDO_TEST_CUDA_COLLS];
  program_order(p, order);
  for (uint32_t c = 0; c < job.colls; c++)
    if (!program_is_on_stream(p, c))
      EXPECT(rondo_test_cuda_fill(&job, p->rank, c, round), RONDO_SUCCESS);
  for (uint32_t i = 0; i < job.colls; i++) {
    uint32_t c = order[i];
    if (program_is_on_stream(p, c))
      program_enqueue(p, c, round);
    else
      EXPECT(rondo_test_cuda_run(&job, p->rank, c), RONDO_SUCCESS);
    program_disturb(p);
  }
}

// Waits for all streams of the device, perhaps with the lock of its context. All runs of this rank
// were submitted, and none is the first of its collective: docs/nccl.md says why.
static void program_wait(struct rank_program *p) {
  CUdeviceptr memory;
  if (random_below(&p->random, 2))
    return;
  EXPECT(cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
  EXPECT(cuMemFree(memory), CUDA_SUCCESS);
}

static void program_check(struct rank_program *p, uint32_t round) {
  if (calls_wait && round > 0)
    program_wait(p);
  EXPECT(cuStreamSynchronize(p->stream), CUDA_SUCCESS);
  for (uint32_t c = 0; c < job.colls; c++) {
    if (program_is_on_stream(p, c))
      EXPECT(rondo_test_cuda_compare(&job, p->rank, c, round, p->outputs[c]), RONDO_SUCCESS);
    EXPECT(rondo_test_cuda_wait(&job, p->rank, c), RONDO_SUCCESS);
    EXPECT(rondo_test_cuda_check(&job, p->rank, c, round), RONDO_SUCCESS);
  }
}

// The first rank ends all runs in the middle. Afterwards their buffers belong to the application.
static void program_end_early(struct rank_program *p) {
  programs_meet(2);
  p->on_stream = 0;
  for (uint32_t i = 0; i < job.colls; i++) {
    EXPECT(rondo_test_cuda_run(&job, p->rank, (i + p->rank) % job.colls), RONDO_SUCCESS);
    usleep(1u << random_below(&p->random, 8));
    if (p->rank == 0 && i == job.colls / 2)
      EXPECT(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  }
  for (uint32_t c = 0; c < job.colls; c++) {
    int status = rondo_test_cuda_wait(&job, p->rank, c);
    if (status != RONDO_SUCCESS)
      EXPECT(status, RONDO_ERR_ABORTED);
    EXPECT(rondo_test_cuda_fill(&job, p->rank, c, ROUNDS), RONDO_SUCCESS);
  }
}

static void program_open(struct rank_program *p) {
  CUcontext ctx;
  EXPECT(cuDevicePrimaryCtxRetain(&ctx, (int)p->device), CUDA_SUCCESS);
  EXPECT(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
  EXPECT(cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (uint32_t c = 0; c < job.colls; c++) {
    EXPECT(cuMemHostAlloc((void **)&p->inputs[c], job.count * sizeof(int32_t), 0), CUDA_SUCCESS);
    EXPECT(cuMemHostAlloc((void **)&p->outputs[c], job.count * sizeof(int32_t), 0), CUDA_SUCCESS);
  }
}

static void program_close(struct rank_program *p) {
  for (uint32_t c = 0; c < job.colls; c++) {
    EXPECT(cuMemFreeHost(p->inputs[c]), CUDA_SUCCESS);
    EXPECT(cuMemFreeHost(p->outputs[c]), CUDA_SUCCESS);
  }
  EXPECT(cuStreamDestroy(p->stream), CUDA_SUCCESS);
  EXPECT(cuDevicePrimaryCtxRelease((int)p->device), CUDA_SUCCESS);
}

static void *program_main(void *arg) {
  struct rank_program *p = arg;
  program_open(p);
  programs_meet(1); // memory is not allocated while streams wait for this rank
  for (uint32_t round = 0; round < ROUNDS; round++) {
    program_submit(p, round);
    program_check(p, round);
  }
  if (ends_early)
    program_end_early(p);
  program_close(p);
  return NULL;
}

// ---------------------------------------------------------------------- a program ---

static void driver_choose(struct random *r, uint32_t ranks,
                          const struct rondo_fake_script *script) {
  struct rondo_fake_options options = rondo_fake_defaults();
  devices = 1 + random_below(r, 4);
  options.devices = devices;
  options.peer_access = random_below(r, 2);
  has_streams = random_below(r, 2) || overwrites;
  options.connections = has_streams ? 2u << random_below(r, 5) : 1u << random_below(r, 6);
  if (has_streams && ranks > devices)
    options.connections = 32;
  options.memory_waits = random_below(r, 2);
  calls_wait = has_streams && ranks <= devices && options.memory_waits;
  options.holds_lock = calls_wait && random_below(r, 2);
  options.kernels_only = random_below(r, 2);
  options.resident_blocks = 8u << random_below(r, 4);
  if (has_ptx) {
    options.ptx = 1;
    options.ptx_timer_ns = random_below(r, 2) ? 1000 : 32;
    options.script = script;
  }
  rondo_fake_reset(&options);
}

// Programs on the PTX machine are small: a seed takes about a second.
static void job_choose(struct random *r, struct rondo_config *like) {
  static struct rondo_manual sizes = {.has_threads = true};
  job.ranks = 2 + random_below(r, has_ptx ? 2 : 3);
  job.is_mixed = random_below(r, 2);
  if (overwrites) {
    job.ranks = 3;
    job.is_mixed = true;
  }
  job.colls = 1 + random_below(r, has_ptx && !random_below(r, 2) ? 4 : RONDO_TEST_CUDA_COLLS);
  job.count = (uint32_t)random_log(r, job.ranks, has_ptx ? 6000 / job.colls : 10000);
  ends_early = random_below(r, has_ptx ? 2 : 4) == 0;
  if (!has_ptx)
    return;
  like->blocks = 1 + random_below(r, 3);
  like->threads = 96 + 32 * random_below(r, 2);
  like->slot_bytes = 64u << random_below(r, 8);
  sizes.sq_entries = 2u << random_below(r, 4);
  sizes.cq_entries = 2u << random_below(r, 4);
  sizes.shape.slot_count = 2u << random_below(r, 2);
  sizes.shape.block_bytes = 64u << random_below(r, 6);
  sizes.shape.reference_bytes = 64u << random_below(r, 6);
  sizes.shape.first_sequence = 0u - random_below(r, 12);
  // The choice, rings, or recursive doubling.
  const uint32_t algorithm = random_below(r, 3);
  for (int kind = 0; kind < RONDO_SEND_RECV; kind++)
    sizes.shape.algorithms[kind] = algorithm == 1 ? 1 + RONDO_ALGORITHM_RING : 0;
  if (algorithm == 2)
    sizes.shape.algorithms[RONDO_ALL_REDUCE] = 1 + RONDO_ALGORITHM_DOUBLING;
  job.sizes = &sizes;
}

// What the last seed did. Its process shares this memory.
struct record {
  uint64_t points, digest;
};
static struct record *record;

static void seed_run(uint64_t seed) {
  struct script_options options = {.seed = seed,
                                   .max_points = has_ptx ? MAX_POINTS : MAX_POINTS_OF_FUNCTIONS,
                                   .stay = 1u << (seed % 8)};
  struct rondo_config like = RONDO_CONFIG_INIT;
  struct rondo_fake_script driver = {0};
  struct random random = {~seed};
  pthread_t threads[RONDO_TEST_CUDA_RANKS];
  seed_now = seed;
  if (has_ptx) {
    struct ptx_memory_options memory = PTX_MEMORY_OPTIONS_INIT;
    memory.seed = seed;
    script_memory_open(&memory, &options, &driver);
  }
  script_begin(&options);
  job_choose(&random, &like);
  driver_choose(&random, job.ranks, &driver);
  EXPECT(rondo_test_cuda_open(&job, &like, devices), RONDO_SUCCESS);
  for (uint32_t r = 0; r < job.ranks; r++) {
    struct rank_program p = {.random = {random_next(&random)}, .rank = r, .device = r % devices};
    programs[r] = p;
    EXPECT(pthread_create(&threads[r], NULL, program_main, &programs[r]), 0);
  }
  for (uint32_t r = 0; r < job.ranks; r++)
    EXPECT(pthread_join(threads[r], NULL), 0);
  EXPECT(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  EXPECT(rondo_fake_live_count(), 0);
  record->points = script_end();
  record->digest = has_ptx ? ptx_memory_digest(driver.memory) : 0;
}

// What the seed that runs prints to stderr.
static FILE *output;

// Runs the seed in a process of its own, which may abort.
static bool seed_passes(uint64_t seed) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (output)
      (void)dup2(fileno(output), STDERR_FILENO);
    seed_run(seed);
    _exit(EXIT_SUCCESS); // other threads may wait without end
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// Runs the seed twice. True if both runs passed and made the same accesses in the same order.
static bool seed_replays(uint64_t seed) {
  if (!seed_passes(seed))
    return false;
  const struct record first = *record;
  return seed_passes(seed) && record->points == first.points && record->digest == first.digest;
}

// ----------------------------------------------------------------------- mutations ---

static const struct ptx_named_mutation *mutation_find(const char *name) {
  for (size_t i = 0; i < sizeof ptx_mutations / sizeof *ptx_mutations; i++)
    if (strcmp(ptx_mutations[i].name, name) == 0)
      return &ptx_mutations[i];
  return NULL;
}

// Makes the driver load the PTX of `path` with the mutation. `path` is PTX with source lines.
static void mutation_load(const struct ptx_named_mutation *m, const char *path) {
  char *text = NULL, name[64], number[16];
  size_t bytes = 0;
  uint32_t changed;
  FILE *in = fopen(path, "r");
  if (!in || getdelim(&text, &bytes, '\0', in) < 0) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(EXIT_FAILURE);
  }
  fclose(in);
  snprintf(number, sizeof number, "%d", (int)m->fault);
  const struct ptx_mutation fault = {NULL, "mov.u32", "424242", number, 0};
  char *broken = ptx_mutate(text, m->fault ? &fault : &m->mutation, &changed);
  int file = memfd_create("mutation", 0);
  if (!changed || file < 0 || dprintf(file, "%s", broken) < 0) {
    fprintf(stderr, "%s: %s\n", path, changed ? strerror(errno) : "no instruction is changed");
    exit(EXIT_FAILURE);
  }
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  setenv("RONDO_TEST_PTX_IMAGES", name, 1);
  free(broken);
  free(text);
}

// What the seed printed first.
static void output_print(uint64_t seed) {
  char line[1000] = "";
  rewind(output);
  if (!fgets(line, sizeof line, output))
    snprintf(line, sizeof line, "nothing was printed\n");
  printf("caught by seed %llu: %s", (unsigned long long)seed, line);
}

// Returns whether one of the seeds notices the mutation.
static bool mutation_is_noticed(uint64_t first, uint64_t seeds) {
  for (uint64_t seed = first; output && seed < first + seeds; seed++)
    if (!seed_passes(seed)) {
      output_print(seed);
      return true;
    }
  return false;
}

// ---------------------------------------------------------------------------- main ---

struct options {
  uint64_t first, seeds;
  const char *ptx;      // PTX of the kernels with source lines, or a fatbin
  const char *mutation; // or null
  bool replays;
};

enum option_key {
  KEY_FIRST = 'f',
  KEY_SEEDS = 'n',
  KEY_PTX = 'p',
  KEY_MUTATION = 'm',
  KEY_LATE_READERS = 'l',
  KEY_REPLAY = 'r'
};

static error_t option_parse(int key, char *text, struct argp_state *state) {
  struct options *options = state->input;
  char *end = NULL;
  switch (key) {
  case KEY_PTX:
    options->ptx = text;
    return 0;
  case KEY_MUTATION:
    options->mutation = text;
    if (!mutation_find(text))
      argp_error(state, "%s is no mutation", text);
    return 0;
  case KEY_LATE_READERS:
    overwrites = true;
    return 0;
  case KEY_REPLAY:
    options->replays = true;
    return 0;
  case KEY_FIRST:
  case KEY_SEEDS:
    *(key == KEY_FIRST ? &options->first : &options->seeds) = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
      argp_error(state, "%s is not a number", text);
    return 0;
  case ARGP_KEY_END:
    if (options->mutation && !options->ptx)
      argp_error(state, "--mutation needs --ptx");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static int seeds_run(const struct options *options, const char *program) {
  uint64_t failed = 0;
  for (uint64_t seed = options->first; seed < options->first + options->seeds; seed++) {
    const uint64_t digest = record->digest;
    if ((options->replays ? seed_replays(seed) : seed_passes(seed)) &&
        (!has_ptx || record->digest != digest)) // another seed makes other accesses
      continue;
    failed++;
    printf("seed %llu failed: %s %s%s --first=%llu --seeds=1\n", (unsigned long long)seed, program,
           options->ptx ? "--ptx=" : "", options->ptx ? options->ptx : "",
           (unsigned long long)seed);
  }
  printf("%llu seeds, %llu failed\n", (unsigned long long)options->seeds,
         (unsigned long long)failed);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int mutation_run(const struct options *options) {
  const struct ptx_named_mutation *m = mutation_find(options->mutation);
  overwrites |= m->fault == RONDO_FAULT_LAST_PEER_ALONE || m->fault == RONDO_FAULT_NO_DRAIN;
  mutation_load(m, options->ptx);
  uint64_t seeds = options->seeds ? options->seeds : m->seeds;
  output = tmpfile();
  bool is_noticed = (!options->first && mutation_is_noticed(m->likely, 1)) ||
                    mutation_is_noticed(options->first, seeds);
  if (!is_noticed)
    printf("%s: not caught by %llu seeds\n", m->name, (unsigned long long)seeds);
  return is_noticed ? EXIT_SUCCESS : EXIT_FAILURE;
}

// Begins again without random addresses: the order of some choices follows addresses, so a seed
// would not replay. Goes on with them where the system does not allow that.
static void addresses_fix(char **argv) {
  int now = personality(UINT32_MAX);
  if (now < 0 || now & ADDR_NO_RANDOMIZE || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
    return;
  execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"first", KEY_FIRST, "SEED", 0, "begin with this one", 0},
      {"seeds", KEY_SEEDS, "COUNT", 0, "run COUNT seeds (default 100, or what the mutation needs)",
       0},
      {"ptx", KEY_PTX, "FILE", 0,
       "execute the kernels of this PTX; what is read obeys PTX's memory model", 0},
      {"mutation", KEY_MUTATION, "NAME", 0,
       "break the PTX, which must have source lines; succeed when a seed fails", 0},
      {"late-readers", KEY_LATE_READERS, NULL, 0,
       "overwrite inputs as soon as runs have ended, as two of the mutations do", 0},
      {"replay", KEY_REPLAY, NULL, 0, "run each seed twice; fail where the two runs differ", 0},
      {0},
  };
  static const struct argp parser = {
      .options = table,
      .parser = option_parse,
      .doc = "Runs programs of the CUDA backend on a stand-in for the driver, each in an order of "
             "threads that its seed chooses."};
  struct options options = {0};
  addresses_fix(argv);
  argp_parse(&parser, argc, argv, 0, NULL, &options);
  has_ptx = options.ptx != NULL;
  record = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (record == MAP_FAILED)
    return EXIT_FAILURE;
  if (options.mutation)
    return mutation_run(&options);
  if (options.ptx)
    setenv("RONDO_TEST_PTX_IMAGES", options.ptx, 1);
  if (!options.seeds)
    options.seeds = 100;
  return seeds_run(&options, argv[0]);
}
