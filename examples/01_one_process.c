// Four ranks of one process, a thread each, add up their arrays: an all-reduce.
//
//   cc 01_one_process.c $(pkg-config --cflags --libs rondo) -o one_process && ./one_process
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#define RANKS 4
#define COUNT 1000
#define CHECK(call) status_check(call, #call) // each call returns a status, 0 is success

static struct rondo_unique_id id; // names the job: the same on all ranks

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s\n", call, rondo_status_string(status));
    exit(1);
  }
}

static void *rank_main(void *arg) {
  uint32_t rank = (uint32_t)(uintptr_t)arg;
  float send[COUNT], recv[COUNT];
  for (int i = 0; i < COUNT; i++)
    send[i] = (float)i + (float)rank;

  // A context is one rank of the job. rondo_init waits for no other rank.
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.id = id;
  cfg.rank = rank;
  cfg.rank_count = RANKS;
  struct rondo_context ctx;
  CHECK(rondo_init(&ctx, &cfg));

  // Register once, under an id that all ranks use for this collective; run as often as needed.
  struct rondo_collective_desc desc = rondo_all_reduce(1, COUNT, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_collective sum;
  CHECK(rondo_register(ctx, &desc, &sum));
  CHECK(rondo_run(ctx, sum, send, recv, NULL, NULL));
  CHECK(rondo_wait(ctx, sum, RONDO_LAST_RUN, RONDO_FOREVER));
  printf("rank %u: the last sum is %g\n", rank, (double)recv[COUNT - 1]);

  CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  CHECK(rondo_unique_id_create(&id));
  for (uintptr_t r = 0; r < RANKS; r++)
    if (pthread_create(&threads[r], NULL, rank_main, (void *)r) != 0)
      return 1;
  for (uint32_t r = 0; r < RANKS; r++)
    pthread_join(threads[r], NULL);
  return 0;
}
