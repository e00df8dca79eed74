#include "tools/perf/counts.h"

#include <stdatomic.h>
#include <stdio.h>

static void most_raise(_Atomic uint64_t *most, uint64_t value) {
  uint64_t before = atomic_load(most);
  while (before < value && !atomic_compare_exchange_weak(most, &before, value))
    continue;
}

void perf_counts_add(struct perf_counts *sum, const struct rondo_collective_counters *c) {
  atomic_fetch_add(&sum->switches, c->switches);
  atomic_fetch_add(&sum->preemptions, c->preemptions);
  atomic_fetch_add(&sum->loads, c->loads);
  atomic_fetch_add(&sum->saves, c->saves);
  atomic_fetch_add(&sum->fetches, c->fetches);
  atomic_fetch_add(&sum->queue_sum, c->queue_sum);
  most_raise(&sum->queue_most, c->queue_most);
  atomic_fetch_add(&sum->waits_data, c->waits_data);
  atomic_fetch_add(&sum->waits_room, c->waits_room);
  atomic_fetch_add(&sum->waits_start, c->waits_start);
  atomic_fetch_add(&sum->waits_readers, c->waits_readers);
  atomic_fetch_add(&sum->waits_completion, c->waits_completion);
}

void perf_counts_total(struct perf_counts *total, const struct perf_counts *counts,
                       uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const struct perf_counts *one = &counts[i];
    struct rondo_collective_counters c = {.switches = one->switches,
                                          .preemptions = one->preemptions,
                                          .loads = one->loads,
                                          .saves = one->saves,
                                          .fetches = one->fetches,
                                          .queue_sum = one->queue_sum,
                                          .queue_most = one->queue_most,
                                          .waits_data = one->waits_data,
                                          .waits_room = one->waits_room,
                                          .waits_start = one->waits_start,
                                          .waits_readers = one->waits_readers,
                                          .waits_completion = one->waits_completion};
    perf_counts_add(total, &c);
  }
}

void perf_counts_print(const char *what, const struct perf_counts *c) {
  double runs = c->fetches ? (double)c->fetches : 1;
  printf("# %s, a run and block: %.2f switches (%.2f preemptions), %.2f loads, %.2f saves; queue "
         "at fetch: mean %.2f, most %llu; waits: %.2f data, %.2f room, %.2f start, %.2f readers, "
         "%.2f completion\n",
         what, (double)c->switches / runs, (double)c->preemptions / runs, (double)c->loads / runs,
         (double)c->saves / runs, (double)c->queue_sum / runs, (unsigned long long)c->queue_most,
         (double)c->waits_data / runs, (double)c->waits_room / runs, (double)c->waits_start / runs,
         (double)c->waits_readers / runs, (double)c->waits_completion / runs);
}

json_t *perf_counts_json(const struct perf_counts *counts, uint32_t count) {
  json_t *all = json_array();
  for (uint32_t i = 0; i < count; i++) {
    const struct perf_counts *c = &counts[i];
    json_array_append_new(
        all, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "switches",
                       (json_int_t)c->switches, "preemptions", (json_int_t)c->preemptions, "loads",
                       (json_int_t)c->loads, "saves", (json_int_t)c->saves, "fetches",
                       (json_int_t)c->fetches, "queue_sum", (json_int_t)c->queue_sum, "queue_most",
                       (json_int_t)c->queue_most, "waits_data", (json_int_t)c->waits_data,
                       "waits_room", (json_int_t)c->waits_room, "waits_start",
                       (json_int_t)c->waits_start, "waits_readers", (json_int_t)c->waits_readers,
                       "waits_completion", (json_int_t)c->waits_completion));
  }
  return all;
}
