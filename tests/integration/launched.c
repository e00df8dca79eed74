// One rank, started by a launcher: takes part in an all-reduce and prints the result. It links the
// library as an application does. tests/integration/launched.sh runs it.
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#define COUNT 5000u
#define LONG_NS INT64_C(60000000000)

static int refuse(const char *call, int status) {
  fprintf(stderr, "launched: %s: %s\n", call, rondo_status_name(status));
  return 1;
}

static int run(struct rondo_context ctx, const struct rondo_config *cfg) {
  static int32_t send[COUNT];
  static int32_t recv[COUNT];
  struct rondo_collective_desc d = rondo_all_reduce(7, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  for (uint32_t i = 0; i < COUNT; i++)
    send[i] = (int32_t)(i * (cfg->rank + 1));
  int status = rondo_register(ctx, &d, &coll);
  if (status != RONDO_SUCCESS)
    return refuse("rondo_register", status);
  status = rondo_run(ctx, coll, send, recv, NULL, NULL);
  if (status == RONDO_SUCCESS)
    status = rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS);
  if (status != RONDO_SUCCESS)
    return refuse("rondo_run", status);
  uint32_t n = cfg->rank_count;
  for (uint32_t i = 0; i < COUNT; i++)
    if (recv[i] != (int32_t)(i * (n * (n + 1) / 2)))
      return refuse("a wrong sum", RONDO_ERR_INTERNAL);
  return 0;
}

int main(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  int status = rondo_config_complete(&cfg);
  if (status == RONDO_SUCCESS)
    status = rondo_init(&ctx, &cfg);
  if (status != RONDO_SUCCESS)
    return refuse("rondo_init", status);
  int failed = run(ctx, &cfg);
  status = rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS);
  if (status != RONDO_SUCCESS)
    return refuse("rondo_destroy", status);
  if (!failed)
    printf("rank %u of %u: right\n", cfg.rank, cfg.rank_count);
  return failed;
}
