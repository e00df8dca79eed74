// bench_ends: how long a run takes from end to end, and how much of it a block works on it (figure
// 9 of the paper): from before rondo_run until the callback begins, and from the run's first step
// to its last, as the flight record has it. Two ranks, each a thread.
//
// Prints a line of JSON for each size.
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "tools/kit/clock.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"
#include "tools/kit/thread_group.h"

#define RANKS 2u
#define MOST_ROUNDS 500u // so that the flight record, of 1,024 events, has all of them
#define WARMUP 20u
#define WAIT_NS INT64_C(20000000000)
#define OK(call) status_check((call), #call)

static const uint64_t sizes[] = {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20};

struct rank {
  struct rondo_context ctx;
  struct rondo_collective coll;
  char *send, *recv;
  sem_t ended;
  uint64_t ended_ns; // when the callback began
  uint64_t end_to_end_ns[MOST_ROUNDS];
};

static struct rank ranks[RANKS];
static struct options { uint32_t rounds; } options = {200};

static void status_check(int status, const char *call) {
  if (status == RONDO_SUCCESS)
    return;
  fprintf(stderr, "bench_ends: %s: %s\n", call, rondo_status_name(status));
  exit(1);
}

static void on_end(void *arg, int status) {
  struct rank *r = arg;
  r->ended_ns = rondo_kit_now_ns();
  status_check(status, "a run");
  (void)sem_post(&r->ended);
}

static void rank_main(void *arg, uint32_t number) {
  struct rank *r = &ranks[number];
  (void)arg;
  for (uint32_t i = 0; i < WARMUP + options.rounds; i++) {
    uint64_t begin_ns = rondo_kit_now_ns();
    OK(rondo_run(r->ctx, r->coll, r->send, r->recv, on_end, r));
    while (sem_wait(&r->ended)) {
    }
    if (i >= WARMUP)
      r->end_to_end_ns[i - WARMUP] = r->ended_ns - begin_ns;
  }
}

static uint64_t number_after(const char *line, const char *key) {
  const char *at = strstr(line, key);
  return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

// The times of the last runs of rank 0 in its block. Returns how many there are.
static uint32_t core_times_read(uint64_t *ns) {
  char *text = NULL, line[1024];
  size_t bytes = 0;
  uint32_t count = 0;
  FILE *file = open_memstream(&text, &bytes);
  OK(file ? rondo_flight_write(ranks[0].ctx, file) : RONDO_ERR_NO_MEMORY);
  (void)fclose(file);
  FILE *lines = fmemopen(text, bytes, "r");
  while (lines && fgets(line, sizeof line, lines))
    if (strstr(line, "\"completed\"") && number_after(line, "\"run\": ") >= WARMUP &&
        count < MOST_ROUNDS)
      ns[count++] =
          number_after(line, "\"completed_ns\": ") - number_after(line, "\"started_ns\": ");
  if (lines)
    (void)fclose(lines);
  free(text);
  return count;
}

static void ranks_open(uint64_t bytes) {
  struct rondo_unique_id id;
  struct rondo_config config = RONDO_CONFIG_INIT;
  const struct rondo_collective_desc d =
      rondo_all_reduce(1, bytes / sizeof(float), RONDO_FLOAT32, RONDO_SUM);
  OK(rondo_unique_id_create(&id));
  for (uint32_t r = 0; r < RANKS; r++) {
    config.rank = r;
    config.rank_count = RANKS;
    config.id = id;
    ranks[r].send = calloc(1, bytes);
    ranks[r].recv = calloc(1, bytes);
    (void)sem_init(&ranks[r].ended, 0, 0);
    OK(rondo_init(&ranks[r].ctx, &config));
    OK(rondo_register(ranks[r].ctx, &d, &ranks[r].coll));
  }
}

static void ranks_close(void) {
  for (uint32_t r = 0; r < RANKS; r++) {
    OK(rondo_destroy(ranks[r].ctx, RONDO_DESTROY_DRAIN, WAIT_NS));
    (void)sem_destroy(&ranks[r].ended);
    free(ranks[r].send);
    free(ranks[r].recv);
  }
}

static void size_measure(uint64_t bytes) {
  static uint64_t core_ns[MOST_ROUNDS];
  const struct rondo_kit_thread_group group = {RANKS, true, rank_main, NULL};
  ranks_open(bytes);
  if (rondo_kit_thread_group_run(&group)) {
    fprintf(stderr, "bench_ends: no threads\n");
    exit(1);
  }
  uint32_t count = core_times_read(core_ns);
  double core = rondo_kit_stats_of(core_ns, count).median_ns;
  double all = rondo_kit_stats_of(ranks[0].end_to_end_ns, options.rounds).median_ns;
  printf("{\"bytes\": %llu, \"rounds\": %u, \"end_to_end_us\": %.3f, \"core_us\": %.3f}\n",
         (unsigned long long)bytes, count, all / 1e3, core / 1e3);
  ranks_close();
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"rounds", 'n', "N", "Runs of each size (default 200)", .value = RONDO_KIT_U32,
       .offset = offsetof(struct options, rounds), .low = 1, .high = MOST_ROUNDS},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures runs from end to end, and the part that blocks work."};
  rondo_kit_command_read(&command, argc, argv, &options);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    size_measure(sizes[i]);
  return 0;
}
