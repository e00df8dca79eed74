// What RONDO_ON_LOSS_RETRY costs, and how soon a job goes on after a death.
//
//   bench_retry [--ranks=N] [--count=N] [--iters=N] [--rounds=N]
//
// Each round is a fresh job, each rank a process. All ranks do --iters all-reduces of --count
// float32 without retry, then as many with it, in blocks that alternate. Then the last rank kills
// itself while the others do runs with retry, one after the other: `recovery` is the time from just
// before the kill until rank 0 has the first result of the ranks that are left. The table has the
// medians and the range over the rounds.
//
// Exit status: 1 if a process failed or a result was wrong.
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"
#include <rondo/rondo.h>

#define MAX_RANKS 16u
#define MAX_ROUNDS 200u
#define BLOCKS 10u
#define LONG_NS INT64_C(60000000000)

enum { PLAIN, RETRY, SETTINGS };

// Memory that the processes of a round share.
struct shared {
  struct rondo_unique_id id;
  uint32_t has_id, ready;
  uint64_t killed_ns;
  uint64_t block_ns[SETTINGS][BLOCKS]; // of rank 0
  uint64_t recovery_ns;
};

struct rank {
  struct rondo_context ctx;
  struct rondo_collective colls[SETTINGS];
  uint32_t rank, ranks, count;
  float *send, *recv;
};

static void require(bool is_so, const char *what) {
  if (is_so)
    return;
  fprintf(stderr, "bench_retry: %s\n", what);
  exit(1);
}

static void rank_open(struct rank *r, struct shared *s) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank = r->rank;
  cfg.rank_count = r->ranks;
  if (r->rank == 0) {
    require(rondo_unique_id_listen(&s->id, NULL) == RONDO_SUCCESS, "cannot listen");
    rondo_store_release_u32(&s->has_id, 1);
  }
  while (!rondo_load_acquire_u32(&s->has_id))
    usleep(100);
  cfg.id = s->id;
  require(rondo_init(&r->ctx, &cfg) == RONDO_SUCCESS, "cannot join");
  r->send = malloc(r->count * sizeof *r->send);
  r->recv = malloc(r->count * sizeof *r->recv);
  require(r->send && r->recv, "no memory");
  for (uint32_t i = 0; i < r->count; i++)
    r->send[i] = 1;
  for (uint32_t k = 0; k < SETTINGS; k++) {
    struct rondo_collective_desc d = rondo_all_reduce(k, r->count, RONDO_FLOAT32, RONDO_SUM);
    d.on_loss = k == RETRY ? RONDO_ON_LOSS_RETRY : RONDO_ON_LOSS_FAIL;
    require(rondo_register(r->ctx, &d, &r->colls[k]) == RONDO_SUCCESS, "cannot register");
  }
}

static void rank_reduce(struct rank *r, uint32_t setting) {
  require(rondo_run(r->ctx, r->colls[setting], r->send, r->recv, NULL, NULL) == RONDO_SUCCESS &&
              rondo_wait(r->ctx, r->colls[setting], RONDO_LAST_RUN, LONG_NS) == RONDO_SUCCESS,
          "a run failed");
}

static void rank_time_blocks(struct rank *r, struct shared *s, uint32_t iters) {
  for (uint32_t b = 0; b < BLOCKS; b++)
    for (uint32_t k = 0; k < SETTINGS; k++) {
      for (uint32_t i = 0; i < 20; i++)
        rank_reduce(r, k);
      uint64_t begin_ns = rondo_now_ns();
      for (uint32_t i = 0; i < iters; i++)
        rank_reduce(r, k);
      if (r->rank == 0)
        s->block_ns[k][b] = (rondo_now_ns() - begin_ns) / iters;
    }
}

// The last rank dies in the middle of the others' runs.
static void rank_meet_death(struct rank *r, struct shared *s) {
  const struct timespec while_others_run = {0, 5000000};
  if (r->rank == r->ranks - 1) {
    uint64_t end_ns = rondo_now_ns() + 5000000;
    while (rondo_now_ns() < end_ns)
      rank_reduce(r, RETRY);
    s->killed_ns = rondo_now_ns();
    kill(getpid(), SIGKILL);
  }
  for (uint32_t members = r->ranks; members == r->ranks;) {
    rank_reduce(r, RETRY);
    require(rondo_run_members(r->ctx, r->colls[RETRY], RONDO_LAST_RUN, NULL, 0, &members) ==
                RONDO_SUCCESS,
            "the members are not known");
    for (uint32_t i = 0; i < r->count; i++)
      require(r->recv[i] == (float)members, "a result is wrong");
  }
  if (r->rank == 0)
    s->recovery_ns = rondo_now_ns() - s->killed_ns;
  nanosleep(&while_others_run, NULL); // they take the run up too
}

static void rank_main(struct rank *r, struct shared *s, uint32_t iters) {
  rank_open(r, s);
  rank_time_blocks(r, s, iters);
  rank_meet_death(r, s);
  require(rondo_destroy(r->ctx, RONDO_DESTROY_ABORT, LONG_NS) == RONDO_SUCCESS, "cannot leave");
  exit(0);
}

static bool round_run(struct shared *s, const struct rank *like, uint32_t iters) {
  pid_t pids[MAX_RANKS];
  bool is_good = true;
  memset(s, 0, sizeof *s);
  for (uint32_t i = 0; i < like->ranks; i++) {
    struct rank r = *like;
    r.rank = i;
    pids[i] = fork();
    if (pids[i] == 0)
      rank_main(&r, s, iters);
  }
  for (uint32_t i = 0; i < like->ranks; i++) {
    int end = 0;
    is_good &= waitpid(pids[i], &end, 0) == pids[i] && (end == 0 || i == like->ranks - 1);
  }
  return is_good;
}

struct options {
  uint32_t ranks, count, iters, rounds;
};
#define AT(field) .offset = offsetof(struct options, field)

// Prints the median and the range of samples, in microseconds, and returns the median.
static double line_print(const char *name, uint64_t *samples_ns, uint32_t count) {
  struct rondo_kit_stats stats = rondo_kit_stats_of(samples_ns, count);
  printf("%-10s  %10.2f  %10.2f  %10.2f\n", name, stats.median_ns / 1000, stats.min_ns / 1000,
         (double)samples_ns[count - 1] / 1000);
  return stats.median_ns;
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"ranks", 'r', "N", "Ranks, a process each (default 4)", RONDO_KIT_U32, AT(ranks), .low = 2,
       .high = MAX_RANKS},
      {"count", 'c', "N", "float32 elements (default 2)", RONDO_KIT_U32, AT(count), .low = 1,
       .high = 100000000},
      {"iters", 'n', "N", "Runs of each block (default 500)", RONDO_KIT_U32, AT(iters), .low = 1,
       .high = 1000000},
      {"rounds", 'k', "N", "Fresh jobs (default 10)", RONDO_KIT_U32, AT(rounds), .low = 1,
       .high = MAX_ROUNDS},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures runs that survive a death, and how soon they go on."};
  static uint64_t block_ns[SETTINGS][MAX_ROUNDS * BLOCKS];
  static uint64_t recovery_ns[MAX_ROUNDS];
  struct options options = {.ranks = 4, .count = 2, .iters = 500, .rounds = 10};
  rondo_kit_command_read(&command, argc, argv, &options);
  const struct rank like = {.ranks = options.ranks, .count = options.count};
  struct shared *s =
      mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s == MAP_FAILED)
    return 1;
  for (uint32_t round = 0; round < options.rounds; round++) {
    if (!round_run(s, &like, options.iters))
      return 1;
    for (uint32_t k = 0; k < SETTINGS; k++)
      memcpy(block_ns[k] + (size_t)round * BLOCKS, s->block_ns[k], sizeof s->block_ns[k]);
    recovery_ns[round] = s->recovery_ns;
  }
  rondo_kit_machine_print("# ");
  printf("# all-reduce of %u float32, %u processes, %u rounds\n", options.count, options.ranks,
         options.rounds);
  printf("%-10s  %10s  %10s  %10s\n", "", "median us", "min us", "max us");
  double plain_ns = line_print("plain", block_ns[PLAIN], options.rounds * BLOCKS);
  double retry_ns = line_print("retry", block_ns[RETRY], options.rounds * BLOCKS);
  (void)line_print("recovery", recovery_ns, options.rounds);
  printf("retry / plain: %.2f\n", retry_ns / plain_ns);
  return 0;
}
