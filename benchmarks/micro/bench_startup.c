// How long processes take to find each other, and to finish a first collective.
//
//   bench_startup [--rounds=N] [--together] [RANKS ...]
//
// Each rank is a process of this machine; all begin at the same time, rank 0 with making the id,
// which the others find in shared memory. "met" is until the last one knows where all are; "first
// run" is until the last one has come back from rondo_init, rondo_register and an all-reduce of one
// element. Medians over rounds, without the time for forking. On fewer cores than ranks the
// processes wait for their turn most of the time.
//
// With --together the ranks are of one process, each with a mesh of its own as if it were a process
// by itself, and there is no first run: what the root and the members do, all on one control
// thread, without what processes cost.
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "runtime/net/mesh.h"
#include <rondo/rondo.h>

#define MAX_RANKS 256u
#define MAX_TOGETHER 1024u
#define MAX_SIZES 8
#define LONG_NS INT64_C(60000000000)

// What the processes of a round share.
struct round {
  uint32_t ready; // processes that wait for the start
  uint32_t go, has_id;
  uint32_t failed;
  uint64_t begin_ns;
  struct rondo_unique_id id;
  uint64_t met_ns[MAX_RANKS], run_ns[MAX_RANKS];
};

struct options {
  uint32_t rounds;
  int is_together;
  uint32_t sizes[MAX_SIZES];
  int size_count;
};

static void await_word(const uint32_t *word, uint32_t value) {
  while (rondo_load_acquire_u32(word) < value)
    (void)poll(NULL, 0, 1);
}

static struct rondo_config config_of(struct round *r, uint32_t rank, uint32_t ranks) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  cfg.rank = rank;
  cfg.rank_count = ranks;
  if (rank == 0) {
    if (rondo_unique_id_listen(&r->id, &cfg) != RONDO_SUCCESS)
      rondo_store_release_u32(&r->failed, 1);
    rondo_store_release_u32(&r->has_id, 1);
  }
  await_word(&r->has_id, 1);
  cfg.id = r->id;
  return cfg;
}

static int meet(const struct rondo_config *given, uint64_t *end_ns) {
  static const struct rondo_mesh_events deaf;
  struct rondo_config cfg = *given;
  struct rondo_mesh *mesh;
  if (rondo_config_complete(&cfg) != RONDO_SUCCESS ||
      rondo_mesh_start(&cfg, &deaf, NULL, &mesh) != RONDO_SUCCESS)
    return 0;
  int status = rondo_mesh_await(mesh, LONG_NS);
  *end_ns = rondo_now_ns();
  rondo_mesh_stop(mesh, LONG_NS, 0);
  return status == RONDO_SUCCESS;
}

static int run_first(const struct rondo_config *cfg, uint64_t *end_ns) {
  struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_context ctx;
  struct rondo_collective coll;
  float one = 1;
  float sum = 0;
  if (rondo_init(&ctx, cfg) != RONDO_SUCCESS)
    return 0;
  int status = rondo_register(ctx, &d, &coll);
  if (status == RONDO_SUCCESS)
    status = rondo_run(ctx, coll, &one, &sum, NULL, NULL);
  if (status == RONDO_SUCCESS)
    status = rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS);
  *end_ns = rondo_now_ns();
  (void)rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS);
  return status == RONDO_SUCCESS && sum == (float)cfg->rank_count;
}

static void run_rank(struct round *r, uint32_t rank, uint32_t ranks, int is_run) {
  (void)rondo_fetch_add_acq_rel_u32(&r->ready, 1);
  await_word(&r->go, 1);
  struct rondo_config cfg = config_of(r, rank, ranks);
  int good = is_run ? run_first(&cfg, &r->run_ns[rank]) : meet(&cfg, &r->met_ns[rank]);
  if (!good)
    rondo_store_release_u32(&r->failed, 1);
  _exit(0);
}

static double run_round(struct round *r, uint32_t ranks, int is_run) {
  uint64_t *end_ns = is_run ? r->run_ns : r->met_ns;
  uint64_t last_ns = 0;
  memset(r, 0, sizeof *r);
  for (uint32_t i = 0; i < ranks; i++) {
    pid_t pid = fork();
    if (pid == 0)
      run_rank(r, i, ranks, is_run);
    if (pid < 0)
      r->failed = 1;
  }
  if (!r->failed)
    await_word(&r->ready, ranks);
  r->begin_ns = rondo_now_ns();
  rondo_store_release_u32(&r->go, 1);
  while (wait(NULL) > 0 || errno == EINTR)
    continue;
  for (uint32_t i = 0; i < ranks; i++)
    last_ns = end_ns[i] > last_ns ? end_ns[i] : last_ns;
  return (double)(last_ns - r->begin_ns) / 1e6;
}

// The same for meshes of this process. Returns -1 if one failed, and then this program is about to
// end.
static double meet_together(uint32_t ranks) {
  static const struct rondo_mesh_events deaf;
  static struct rondo_mesh *meshes[MAX_TOGETHER];
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  uint32_t count = 0;
  int status = RONDO_SUCCESS;
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  cfg.rank_count = ranks;
  uint64_t begin_ns = rondo_now_ns();
  if (rondo_unique_id_listen(&cfg.id, &cfg) != RONDO_SUCCESS ||
      rondo_config_complete(&cfg) != RONDO_SUCCESS)
    return -1;
  for (; count < ranks && status == RONDO_SUCCESS; count++) {
    cfg.rank = count;
    status = rondo_mesh_start(&cfg, &deaf, NULL, &meshes[count]);
  }
  for (uint32_t i = 0; i < count && status == RONDO_SUCCESS; i++)
    status = rondo_mesh_await(meshes[i], LONG_NS);
  uint64_t end_ns = rondo_now_ns();
  for (uint32_t i = 0; i < count && status == RONDO_SUCCESS; i++)
    rondo_mesh_stop(meshes[i], LONG_NS, 0);
  return status == RONDO_SUCCESS ? (double)(end_ns - begin_ns) / 1e6 : -1;
}

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// `r`: null for meshes of this process.
static double median_ms(struct round *r, uint32_t ranks, uint32_t rounds, int is_run) {
  double *times = malloc(rounds * sizeof *times);
  double median = 0;
  for (uint32_t i = 0; times && i < rounds; i++) {
    times[i] = r ? run_round(r, ranks, is_run) : meet_together(ranks);
    if (times[i] < 0 || (r && r->failed)) {
      fprintf(stderr, "bench_startup: a process of %u failed\n", ranks);
      exit(1);
    }
  }
  if (times) {
    qsort(times, rounds, sizeof *times, compare_times);
    median = times[rounds / 2];
  }
  free(times);
  return median;
}

static int number_of(const char *text, uint32_t max, uint32_t *value) {
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  if (*end || number == 0 || number > max)
    return 0;
  *value = (uint32_t)number;
  return 1;
}

static error_t parse(int key, char *text, struct argp_state *state) {
  struct options *o = state->input;
  if (key == 'r') {
    if (!number_of(text, 10000, &o->rounds))
      argp_error(state, "--rounds takes a number up to 10000");
  } else if (key == 't') {
    o->is_together = 1;
  } else if (key == ARGP_KEY_ARG) {
    uint32_t most = o->is_together ? MAX_TOGETHER : MAX_RANKS;
    if (o->size_count == MAX_SIZES || !number_of(text, most, &o->sizes[o->size_count++]))
      argp_error(state, "at most %d numbers of ranks, of up to %u", MAX_SIZES, most);
  } else {
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static void print_together(const struct options *o) {
  printf("ranks   met ms   per rank\n");
  for (int i = 0; i < o->size_count; i++) {
    double met = median_ms(NULL, o->sizes[i], o->rounds, 0);
    printf("%5u %8.2f %10.4f\n", o->sizes[i], met, met / o->sizes[i]);
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"rounds", 'r', "N", 0, "How often each is done (default 11)", 0},
      {"together", 't', NULL, 0, "All ranks in this process, without a run", 0},
      {0}};
  static const struct argp argp = {
      table, parse, "[RANKS ...]", "Measures how long processes take to find each other.",
      NULL,  NULL,  NULL};
  struct options o = {.rounds = 11};
  if (argp_parse(&argp, argc, argv, 0, NULL, &o))
    return 2;
  if (!o.size_count) {
    static const uint32_t sizes[2][3] = {{2, 8, 64}, {64, 256, MAX_TOGETHER}};
    memcpy(o.sizes, sizes[o.is_together], sizeof sizes[0]);
    o.size_count = 3;
  }
  if (o.is_together) {
    print_together(&o);
    return 0;
  }
  struct round *r =
      mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r == MAP_FAILED)
    return 1;
  printf("ranks   met ms  first run ms\n");
  for (int i = 0; i < o.size_count; i++) {
    double met = median_ms(r, o.sizes[i], o.rounds, 0);
    double run = median_ms(r, o.sizes[i], o.rounds, 1);
    printf("%5u %8.2f %13.2f\n", o.sizes[i], met, run);
    fflush(stdout);
  }
  (void)munmap(r, sizeof *r);
  return 0;
}
