// How long processes take to find each other.
//
//   bench_mesh [--rounds=N] [RANKS ...]
//
// All ranks are in this process, each with a mesh of its own as if it were a process by itself. The
// table shows medians over rounds of the time until every rank knows where all others are: what the
// root and the members do, on one control thread, without what starting processes costs.
// benchmarks/peers/compare --processes measures that.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/job/members.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"
#include <rondo/rondo.h>

#define MAX_RANKS 1024u
#define MAX_SIZES 8u
#define MAX_ROUNDS 10000u
#define LONG_NS INT64_C(60000000000)

struct options {
  uint32_t rounds;
  uint32_t sizes[MAX_SIZES];
  uint32_t size_count;
};

// Returns the time in nanoseconds, or -1 if a mesh failed; the program is about to end then.
static int64_t meshes_meet(uint32_t ranks) {
  static const struct rondo_members_events no_events;
  static struct rondo_members *meshes[MAX_RANKS];
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  uint32_t count = 0;
  int status = RONDO_SUCCESS;
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  cfg.rank_count = ranks;
  uint64_t begin_ns = rondo_now_ns();
  if (rondo_unique_id_listen(&cfg.id, &cfg) != RONDO_SUCCESS ||
      rondo_config_complete(&cfg) != RONDO_SUCCESS)
    return -1;
  for (; count < ranks && status == RONDO_SUCCESS; count++) {
    cfg.rank = count;
    status = rondo_members_calls->start(&cfg, NULL, &no_events, NULL, &meshes[count]);
  }
  for (uint32_t i = 0; i < count && status == RONDO_SUCCESS; i++)
    status = rondo_members_await(meshes[i], LONG_NS);
  uint64_t end_ns = rondo_now_ns();
  for (uint32_t i = 0; i < count && status == RONDO_SUCCESS; i++)
    rondo_members_calls->stop(meshes[i], LONG_NS, 0);
  return status == RONDO_SUCCESS ? (int64_t)(end_ns - begin_ns) : -1;
}

static bool ranks_read(const char *text, unsigned number, void *values) {
  struct options *o = values;
  o->size_count = number + 1;
  return number < MAX_SIZES && rondo_kit_read_u32(text, 1, MAX_RANKS, &o->sizes[number]);
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"rounds", 'r', "N", "How often each is done (default 11)", RONDO_KIT_U32,
       offsetof(struct options, rounds), .low = 1, .high = MAX_ROUNDS},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = ranks_read,
      .args_doc = "[RANKS ...]",
      .doc = "Measures how long processes take to find each other."};
  static uint64_t times_ns[MAX_ROUNDS];
  struct options o = {.rounds = 11, .sizes = {64, 256, MAX_RANKS}, .size_count = 3};
  rondo_kit_command_read(&command, argc, argv, &o);
  printf("ranks   met ms   per rank\n");
  for (uint32_t i = 0; i < o.size_count; i++) {
    for (uint32_t k = 0; k < o.rounds; k++) {
      int64_t time_ns = meshes_meet(o.sizes[i]);
      if (time_ns < 0) {
        fprintf(stderr, "bench_mesh: a mesh of %u ranks failed\n", o.sizes[i]);
        return 1;
      }
      times_ns[k] = (uint64_t)time_ns;
    }
    double met_ms = rondo_kit_stats_of(times_ns, o.rounds).median_ns / 1e6;
    printf("%5u %8.2f %10.4f\n", o.sizes[i], met_ms, met_ms / o.sizes[i]);
    fflush(stdout);
  }
  return 0;
}
