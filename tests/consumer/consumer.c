// A user of the installed library: two ranks in one process, one all-reduce.
#include <rondo/rondo.h>
#include <stdio.h>

#define RANKS 2
#define COUNT 1000

static int check(int status, const char *what) {
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "%s: %s\n", what, rondo_status_string(status));
  return status != RONDO_SUCCESS;
}

struct rank {
  struct rondo_context ctx;
  struct rondo_collective coll;
  float send[COUNT], recv[COUNT];
};

static int rank_start(struct rank *rank, const struct rondo_unique_id *id, uint32_t position) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.id = *id;
  cfg.rank = position;
  cfg.rank_count = RANKS;
  for (int i = 0; i < COUNT; i++)
    rank->send[i] = (float)(i + (int)position);
  struct rondo_collective_desc desc = rondo_all_reduce(7, COUNT, RONDO_FLOAT32, RONDO_SUM);
  return check(rondo_init(&rank->ctx, &cfg), "rondo_init") ||
         check(rondo_register(rank->ctx, &desc, &rank->coll), "rondo_register") ||
         check(rondo_run(rank->ctx, rank->coll, rank->send, rank->recv, NULL, NULL), "rondo_run");
}

static int rank_finish(struct rank *rank) {
  const int64_t ten_seconds_ns = 10 * (int64_t)1000000000;
  int failed =
      check(rondo_wait(rank->ctx, rank->coll, RONDO_LAST_RUN, ten_seconds_ns), "rondo_wait");
  for (int i = 0; i < COUNT && !failed; i++) {
    if (rank->recv[i] != (float)(2 * i + 1)) {
      fprintf(stderr, "element %d is %g\n", i, (double)rank->recv[i]);
      failed = 1;
    }
  }
  return failed;
}

int main(void) {
  static struct rank ranks[RANKS];
  struct rondo_unique_id id;
  const int header = RONDO_VERSION_MAJOR * 10000 + RONDO_VERSION_MINOR * 100 + RONDO_VERSION_PATCH;
  if (rondo_version() != header || check(rondo_unique_id_create(&id), "rondo_unique_id_create"))
    return 1;
  int failed = 0;
  for (uint32_t r = 0; r < RANKS && !failed; r++)
    failed = rank_start(&ranks[r], &id, r);
  for (uint32_t r = 0; r < RANKS && !failed; r++)
    failed = rank_finish(&ranks[r]);
  for (uint32_t r = 0; r < RANKS; r++)
    failed |= check(rondo_destroy(ranks[r].ctx, RONDO_DESTROY_ABORT, 0), "rondo_destroy");
  return failed;
}
