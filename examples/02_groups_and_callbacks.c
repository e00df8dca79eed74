// The even ranks and the odd ranks are a group each, and a callback tells when a run has ended.
// No call waits for another rank, so one thread serves all four.
//
//   cc 02_groups_and_callbacks.c $(pkg-config --cflags --libs rondo) -o groups && ./groups
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#define RANKS 4u
#define CHECK(call) status_check(call, #call)

struct rank {
  struct rondo_context ctx;
  float value, sum;
};
static sem_t ended; // a run

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s\n", call, rondo_status_string(status));
    exit(1);
  }
}

// Called on a thread of Rondo; `status` says how the run ended.
static void run_ended(void *arg, int status) {
  struct rank *rank = arg;
  CHECK(status);
  printf("a rank of a group with the sum %g\n", (double)rank->sum);
  sem_post(&ended);
}

static void rank_start(struct rank *rank, uint32_t number) {
  uint32_t members[] = {number % 2, number % 2 + 2};
  struct rondo_collective_desc desc = rondo_all_reduce(1, 1, RONDO_FLOAT32, RONDO_SUM);
  CHECK(rondo_group_create(rank->ctx, members, 2, &desc.group));
  struct rondo_collective sum;
  CHECK(rondo_register(rank->ctx, &desc, &sum));
  rank->value = (float)number;
  CHECK(rondo_run(rank->ctx, sum, &rank->value, &rank->sum, run_ended, rank));
}

int main(void) {
  struct rank ranks[RANKS];
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  sem_init(&ended, 0, 0);
  CHECK(rondo_unique_id_create(&cfg.id));
  cfg.rank_count = RANKS;
  for (cfg.rank = 0; cfg.rank < RANKS; cfg.rank++)
    CHECK(rondo_init(&ranks[cfg.rank].ctx, &cfg));
  for (uint32_t r = 0; r < RANKS; r++)
    rank_start(&ranks[r], r);
  for (uint32_t r = 0; r < RANKS; r++)
    sem_wait(&ended);
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(rondo_destroy(ranks[r].ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  return 0;
}
