// What a measurement of links is worth: measures all links of a job, and times an all-reduce in the
// order of numbers before and after it, and in the order that it gives.
//
//   bench_links [--bytes=SIZE] [--rounds=N]     (started once for each rank by a launcher)
//
// Rank 0 prints one line. benchmarks/collective/ring-order starts it on links of unequal rates, and
// benchmarks/collective/connections where a connection does not fill a link.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/links.h>

#include "base/clock.h"
#include "tools/kit/options.h"

#define MOST 64u
#define WAIT_NS INT64_C(120000000000)
#define OK(call) status_check((call), #call)

static void status_check(int status, const char *call) {
  if (status == RONDO_SUCCESS)
    return;
  fprintf(stderr, "bench_links: %s: %s\n", call, rondo_status_name(status));
  exit(1);
}

struct options {
  uint64_t bytes;
  uint32_t rounds;
};

// The time of an all-reduce among ranks in an order, in seconds; the first one is not counted.
static double ring_time(struct rondo_context ctx, const uint32_t *ranks, uint32_t count,
                        uint64_t id, const struct options *o) {
  struct rondo_collective_desc desc = rondo_all_reduce(id, o->bytes / 4, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_collective coll;
  float *buffer = calloc(1, o->bytes);
  uint64_t began_ns = 0;
  if (!buffer)
    status_check(RONDO_ERR_NO_MEMORY, "calloc");
  OK(rondo_group_create(ctx, ranks, count, &desc.group));
  OK(rondo_register(ctx, &desc, &coll));
  for (uint32_t i = 0; i <= o->rounds; i++) {
    if (i == 1)
      began_ns = rondo_now_ns();
    OK(rondo_run(ctx, coll, buffer, buffer, NULL, NULL));
    OK(rondo_wait(ctx, coll, RONDO_LAST_RUN, WAIT_NS));
  }
  double seconds = (double)(rondo_now_ns() - began_ns) / 1e9 / o->rounds;
  free(buffer);
  return seconds;
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"bytes", 'b', "SIZE", "Bytes of an all-reduce (default 4M)", RONDO_KIT_SIZE,
       offsetof(struct options, bytes), .low = 4, .high = 1u << 30},
      {"rounds", 'r', "N", "All-reduces to time in each order (default 3)", RONDO_KIT_U32,
       offsetof(struct options, rounds), .low = 1, .high = 1u << 20},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures the links of a job, and rings in two orders."};
  struct options o = {4u << 20, 3};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  uint32_t ranks[MOST], plain[MOST], endpoints[MOST * MOST];
  struct rondo_links links = RONDO_LINKS_INIT;
  rondo_kit_command_read(&command, argc, argv, &o);
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  OK(rondo_config_complete(&cfg));
  OK(rondo_init(&ctx, &cfg));
  OK(rondo_wait_ready(ctx, WAIT_NS, NULL, 0, NULL));
  links.ranks = ranks;
  links.endpoints = endpoints;
  links.capacity = MOST;
  for (uint32_t i = 0; i < MOST; i++)
    plain[i] = i;
  double before = ring_time(ctx, plain, cfg.rank_count, 3, &o);
  uint64_t began_ns = rondo_now_ns();
  OK(rondo_links_measure(ctx, &links, WAIT_NS, NULL));
  double measuring = (double)(rondo_now_ns() - began_ns) / 1e9;
  double plain_time = ring_time(ctx, plain, links.count, 1, &o);
  double time = ring_time(ctx, ranks, links.count, 2, &o);
  if (cfg.rank == 0) {
    printf("measured in %.2f s; slowest link: order of numbers %.2f MB/s, order", measuring,
           (double)links.plain_ring_rate / 1e6);
    for (uint32_t i = 0; i < links.count; i++)
      printf(" %u", ranks[i]);
    printf(" %.2f MB/s, over", (double)links.ring_rate / 1e6);
    for (uint32_t i = 0; i < links.count; i++)
      printf(" %u", endpoints[i * links.count + (i + 1) % links.count]);
    printf(
        " connections; all-reduce of %llu bytes: before %.3f s, ratio %.2f, then %.3f s, %.3f s, "
        "ratio %.2f\n",
        (unsigned long long)o.bytes, before, before / time, plain_time, time, plain_time / time);
  }
  OK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, WAIT_NS));
  return 0;
}
