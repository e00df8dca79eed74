// What an error looks like. Two ranks register different counts under one id: other libraries hang
// or give wrong sums; here both runs end with a status, and Rondo says why. Then the ranks go on.
//
//   cc 06_errors.c $(pkg-config --cflags --libs rondo) -o errors && ./errors
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#define RANKS 2u
#define CHECK(call) status_check(call, #call)

static struct rondo_context ctx[RANKS];

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s\n", call, rondo_status_string(status));
    exit(1);
  }
}

// Runs a sum of counts[r] elements on each rank r, and prints how each run ends.
static void sums_run(const uint64_t *counts) {
  static float send[RANKS][200], recv[RANKS][200];
  struct rondo_collective sum[RANKS];
  for (uint32_t r = 0; r < RANKS; r++) {
    struct rondo_collective_desc desc = rondo_all_reduce(1, counts[r], RONDO_FLOAT32, RONDO_SUM);
    CHECK(rondo_register(ctx[r], &desc, &sum[r]));
    CHECK(rondo_run(ctx[r], sum[r], send[r], recv[r], NULL, NULL));
  }
  for (uint32_t r = 0; r < RANKS; r++) {
    char reason[RONDO_REASON_BYTES];
    int status = rondo_wait(ctx[r], sum[r], RONDO_LAST_RUN, RONDO_FOREVER);
    CHECK(rondo_reason(ctx[r], sum[r], reason, sizeof reason));
    printf("rank %u: %s %s\n", r, rondo_status_name(status), reason);
  }
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(rondo_deregister(ctx[r], sum[r]));
}

int main(void) {
  const uint64_t different[RANKS] = {100, 200}, equal[RANKS] = {100, 100};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  CHECK(rondo_unique_id_create(&cfg.id));
  cfg.rank_count = RANKS;
  for (cfg.rank = 0; cfg.rank < RANKS; cfg.rank++)
    CHECK(rondo_init(&ctx[cfg.rank], &cfg));
  sums_run(different);
  sums_run(equal);
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(rondo_destroy(ctx[r], RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  return 0;
}
