// A job that a launcher starts, one process a rank: the environment says which rank this is, of how
// many, and where rank 0 is. docs/launching.md has the variables.
//
//   cc 04_launched_job.c $(pkg-config --cflags --libs rondo) -o launched_job
//   torchrun --no-python --nproc-per-node 4 ./launched_job
//   mpirun -n 4 ./launched_job
//   RONDO_ROOT=localhost RONDO_RANK_COUNT=2 RONDO_RANK=0 ./launched_job   # and RONDO_RANK=1
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#define CHECK(call) status_check(call, #call)

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s\n", call, rondo_status_string(status));
    exit(1);
  }
}

int main(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  CHECK(rondo_config_complete(&cfg)); // fills in rank, rank_count
  struct rondo_context ctx;
  CHECK(rondo_init(&ctx, &cfg));

  struct rondo_collective average, barrier;
  struct rondo_collective_desc desc = rondo_all_reduce(1, 1, RONDO_FLOAT64, RONDO_AVG);
  CHECK(rondo_register(ctx, &desc, &average));
  desc = rondo_barrier(2);
  CHECK(rondo_register(ctx, &desc, &barrier));

  // The order of calls is free: odd ranks submit the barrier first. Other libraries hang here.
  double mine = cfg.rank, mean = 0;
  if (cfg.rank % 2)
    CHECK(rondo_run(ctx, barrier, NULL, NULL, NULL, NULL));
  CHECK(rondo_run(ctx, average, &mine, &mean, NULL, NULL));
  if (cfg.rank % 2 == 0)
    CHECK(rondo_run(ctx, barrier, NULL, NULL, NULL, NULL));
  CHECK(rondo_wait(ctx, average, RONDO_LAST_RUN, RONDO_FOREVER));
  CHECK(rondo_wait(ctx, barrier, RONDO_LAST_RUN, RONDO_FOREVER));
  if (cfg.rank == 0)
    printf("%u ranks: the mean of their numbers is %g\n", cfg.rank_count, mean);
  CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  return 0;
}
