// A job that grows and shrinks while it lives. One process begins it; two others join, one after
// the other, each by a vote of those that are members then. At the end two members put out the
// third.
//
//   cc 07_elastic.c $(pkg-config --cflags --libs rondo) -o elastic && ./elastic
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rondo/elastic.h>

#define RANKS 3u
#define MINUTE_NS INT64_C(60000000000)
#define CHECK(call) status_check(call, #call)

static char why[RONDO_REASON_BYTES];

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s %s\n", call, rondo_status_string(status), why);
    exit(1);
  }
}

// Each rank of the job gives 1.
static void sum_print(struct rondo_context ctx, uint32_t rank, uint32_t ranks) {
  int32_t sum = 1;
  struct rondo_collective_desc desc = rondo_all_reduce(1, 1, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  CHECK(rondo_register(ctx, &desc, &coll));
  CHECK(rondo_run(ctx, coll, &sum, &sum, NULL, NULL));
  CHECK(rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_FOREVER));
  printf("rank %u of %u: the sum is %d\n", rank, ranks, sum);
}

// Votes until all are there. Only the process that made the id of the newcomers passes it.
static void member_live(struct rondo_context ctx, const struct rondo_unique_id *id) {
  const uint32_t last = RANKS - 1;
  struct rondo_context next;
  uint32_t rank, ranks;
  for (;;) {
    CHECK(rondo_describe_rank(ctx, &rank, &ranks));
    if (ranks > 1)
      sum_print(ctx, rank, ranks);
    if (ranks == RANKS)
      break;
    CHECK(rondo_grow(ctx, id, 1, MINUTE_NS, &next, why));
    CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER)); // the old epoch
    ctx = next;
  }
  if (rank != last) {
    CHECK(rondo_shrink(ctx, &last, 1, MINUTE_NS, &next, why));
    sum_print(next, rank, ranks - 1);
    CHECK(rondo_destroy(next, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  }
  CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
}

int main(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_unique_id id;
  int ends[2], failed = 0, result;
  if (pipe(ends) != 0)
    return 1;
  for (uint32_t i = 1; i < RANKS; i++) {
    if (fork() != 0) // before the first call: a context does not survive fork()
      continue;
    close(ends[1]); // so that the end of the parent ends the wait for the id
    if (read(ends[0], &cfg.id, sizeof id) != (ssize_t)sizeof id)
      return 1;
    CHECK(rondo_join(&ctx, &cfg, MINUTE_NS, why));
    member_live(ctx, NULL);
    return 0;
  }
  cfg.rank_count = 1;
  CHECK(rondo_init(&ctx, &cfg));
  CHECK(rondo_grow_listen(&id, NULL)); // newcomers ask here; the id says where
  for (uint32_t i = 1; i < RANKS; i++)
    if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id)
      return 1;
  member_live(ctx, &id);
  while (wait(&result) > 0)
    failed |= result;
  return failed != 0;
}
