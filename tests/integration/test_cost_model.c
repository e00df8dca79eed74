// The cost model of a job is that of rank 0: ranks whose files differ choose the same algorithm.
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "daemon/plan/build.h"
#include "daemon/plan/cost_file.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tests/support/processes.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define MOST_RANKS 3u
#define NOT_USED "cost model of this process (RONDO_COST_MODEL) is not used: rank 0, whose model "

// By rank, the algorithm of all-reduces that its file prefers; RONDO_ALGORITHM_COUNT: no file.
struct files {
  int preferred[MOST_RANKS];
  int chosen; // what all ranks must use
  uint32_t warned;
};

// Writes a model in which all-reduces cost nearly nothing by one algorithm.
static void file_write(const char *path, int algorithm) {
  static struct rondo_cost_file model;
  static char text[RONDO_COST_FILE_BYTES];
  model.model = rondo_cost_defaults;
  model.model.row_count = 0;
  for (uint32_t link = RONDO_COST_THREAD; link <= RONDO_COST_SHARED_MEMORY; link++) {
    struct rondo_cost_row *row = &model.rows[model.model.row_count++];
    *row = (struct rondo_cost_row){
        .link = (uint8_t)link, .kind = RONDO_ALL_REDUCE, .algorithm = (uint8_t)algorithm};
    for (uint32_t i = 0; i < RONDO_COST_MAX_RANKS; i++)
      for (uint32_t k = 0; k < RONDO_COST_MAX_SIZES; k++)
        row->message_ns[i][k] = 0.5f;
  }
  size_t length = rondo_cost_file_print(&model, text);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

// Makes a rank, with a file of its own.
static int rank_open(const struct files *files, const struct rondo_config *cfg,
                     struct rondo_context *ctx) {
  int preferred = files->preferred[cfg->rank];
  char path[64];
  (void)snprintf(path, sizeof path, "cost-model-%ld-%u", (long)getpid(), cfg->rank);
  if (preferred < RONDO_ALGORITHM_COUNT) {
    file_write(path, preferred);
    (void)setenv("RONDO_COST_MODEL", path, 1);
  }
  int status = rondo_init(ctx, cfg);
  (void)unsetenv("RONDO_COST_MODEL");
  (void)unlink(path);
  return status;
}

// True if the flight record says that the all-reduce was run by that algorithm, the least of all.
static bool has_run_by(struct rondo_context ctx, int algorithm) {
  char wanted[96], *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  (void)snprintf(wanted, sizeof wanted, "\"algorithm\": \"%s\", \"rule\": \"least\"",
                 rondo_plan_algorithm_name(algorithm));
  bool found = out && rondo_flight_write(ctx, out) == RONDO_SUCCESS && fclose(out) == 0 &&
               strstr(text, wanted);
  free(text);
  return found;
}

static int all_reduce(struct rondo_context ctx, uint32_t ranks) {
  const struct rondo_collective_desc d = rondo_all_reduce(5, 16, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  int32_t send[16], recv[16] = {0};
  for (int i = 0; i < 16; i++)
    send[i] = i;
  int status = rondo_register(ctx, &d, &coll);
  if (status == RONDO_SUCCESS)
    status = rondo_run(ctx, coll, send, recv, NULL, NULL);
  if (status == RONDO_SUCCESS)
    status = rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS);
  return status == RONDO_SUCCESS && recv[15] != (int32_t)(15 * ranks) ? RONDO_ERR_INTERNAL : status;
}

// ------------------------------------------------------------------- processes ---

static void child_run(struct rondo_test_child *child) {
  const struct files *files = child->arg;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  rondo_test_log_open();
  cfg.id = rondo_test_child_id(child, &cfg);
  cfg.rank = child->rank;
  cfg.rank_count = child->count;
  RONDO_CHILD_CHECK(rank_open(files, &cfg, &ctx) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(all_reduce(ctx, child->count) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(has_run_by(ctx, files->chosen));
  uint32_t wanted = files->warned >> child->rank & 1;
  RONDO_CHILD_CHECK(rondo_test_log_count(NOT_USED) == wanted);
  RONDO_CHILD_CHECK(rondo_test_log_lines() == wanted);
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS);
}

static void processes_run(struct files files) {
  struct rondo_test_processes p;
  rondo_test_fork(&p, MOST_RANKS, child_run, &files);
  rondo_test_pass_id(&p);
  rondo_test_reap(&p, 0);
}

// Those with another file warn, and those without any do not.
static void processes_use_the_model_of_rank_0(void **state) {
  (void)state;
  processes_run((struct files){{RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_RING, RONDO_ALGORITHM_COUNT},
                               RONDO_ALGORITHM_TREE,
                               2});
  processes_run((struct files){
      {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE}, RONDO_ALGORITHM_RING, 4});
}

static void processes_use_the_compiled_in_model_if_rank_0_has_none(void **state) {
  (void)state;
  const struct rondo_cost_query q = {.kind = RONDO_ALL_REDUCE,
                                     .nranks = MOST_RANKS,
                                     .bytes = 64,
                                     .link = RONDO_COST_SHARED_MEMORY,
                                     .cores = rondo_cores_count()};
  int chosen = rondo_cost_choose(&rondo_cost_defaults, &q).algorithm;
  processes_run((struct files){
      {RONDO_ALGORITHM_COUNT, RONDO_ALGORITHM_RING, RONDO_ALGORITHM_COUNT}, chosen, 2});
}

// ----------------------------------------------------------------- one process ---

// All ranks use the model of the first one that joins.
static void ranks_of_a_process_use_one_model(void **state) {
  (void)state;
  static const struct files files = {
      {RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE}, RONDO_ALGORITHM_TREE, 2};
  static struct rondo_test_job job;
  struct rondo_collective coll[MOST_RANKS];
  int32_t data[MOST_RANKS] = {0};
  const struct rondo_collective_desc d = rondo_all_reduce(80, 1, RONDO_INT32, RONDO_SUM);
  job.ranks = MOST_RANKS;
  assert_int_equal(rondo_unique_id_create(&job.id), RONDO_SUCCESS);
  rondo_test_log_clear();
  for (uint32_t r = 0; r < MOST_RANKS; r++) {
    const struct rondo_config c = rondo_test_job_config(&job, r, NULL);
    assert_int_equal(rank_open(&files, &c, &job.ctx[r]), RONDO_SUCCESS);
  }
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_true(rondo_test_log_has("init: rank 1: its cost model (RONDO_COST_MODEL) is not used"));
  for (uint32_t r = 0; r < MOST_RANKS; r++) {
    assert_int_equal(rondo_register(job.ctx[r], &d, &coll[r]), RONDO_SUCCESS);
    assert_int_equal(rondo_run(job.ctx[r], coll[r], &data[r], &data[r], NULL, NULL), RONDO_SUCCESS);
  }
  for (uint32_t r = 0; r < MOST_RANKS; r++) {
    assert_int_equal(rondo_wait(job.ctx[r], coll[r], RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    assert_true(has_run_by(job.ctx[r], files.chosen));
  }
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("cost_model", processes_use_the_model_of_rank_0),
      RONDO_NAMED_TEST("cost_model", processes_use_the_compiled_in_model_if_rank_0_has_none),
      RONDO_NAMED_TEST("cost_model", ranks_of_a_process_use_one_model),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
