// The profiling pass (the paper, 4.3): measures a hand-over between two threads and derives budgets
// from it.
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "queues/connector_core.h"
#include "runtime/api/api_tuning.h"

#define DEFAULT_DURATION_NS 50000000u
#define SAMPLES 101
#define PROBES_PER_YIELD 1000

// One side of a ping-pong through two connectors.
struct player {
  struct rondo_endpoint send, recv;
  uint32_t stop; // set by the other side's owner
  uint32_t started;
};

static bool player_try_take(struct player *p) {
  if (!rondo_connector_try_peek(&p->recv))
    return false;
  rondo_connector_consume(&p->recv);
  return true;
}

static void player_give(struct player *p) {
  if (rondo_connector_try_reserve(&p->send))
    rondo_connector_publish(&p->send, NULL, 8);
}

static void *echo_main(void *arg) {
  struct player *p = arg;
  uint32_t probes = 0;
  rondo_store_release_u32(&p->started, 1);
  while (!rondo_load_acquire_u32(&p->stop)) {
    if (player_try_take(p)) {
      player_give(p);
      probes = 0;
    } else if (++probes > PROBES_PER_YIELD) {
      sched_yield();
    } else {
      rondo_relax();
    }
  }
  return NULL;
}

// Measures one round trip. Returns 0 if it did not end before `deadline_ns`.
static uint64_t round_trip_ns(struct player *p, uint64_t deadline_ns) {
  uint64_t begin_ns = rondo_now_ns();
  uint32_t probes = 0;
  player_give(p);
  while (!player_try_take(p)) {
    if (++probes > PROBES_PER_YIELD)
      sched_yield();
    else
      rondo_relax();
    if (probes > PROBES_PER_YIELD && rondo_now_ns() > deadline_ns)
      return 0;
  }
  return rondo_now_ns() - begin_ns;
}

static int compare_times(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a;
  uint64_t y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

// Returns the lower quartile of the last round trips, 0 without any. It is better than the median,
// because other load only makes round trips longer.
static uint64_t player_measure_ns(struct player *p, uint64_t deadline_ns) {
  uint64_t times[SAMPLES];
  uint32_t count = 0;
  uint64_t seen = 0;
  while (rondo_now_ns() < deadline_ns) {
    uint64_t t = round_trip_ns(p, deadline_ns);
    if (!t)
      break;
    // The window drops the first rounds, during which the other thread starts.
    times[seen++ % SAMPLES] = t;
    count = seen < SAMPLES ? (uint32_t)seen : SAMPLES;
  }
  if (!count)
    return 0;
  qsort(times, count, sizeof *times, compare_times);
  return times[count / 4];
}

static void tuning_derive(struct rondo_tuning *t, uint64_t hand_over_ns) {
  struct rondo_tuning none = {0};
  *t = none;
  (void)rondo_tuning_resolve(t, NULL);
  // A peer needs about four hand-overs and its own work to answer: allow ten times four.
  uint64_t front_ns = 40 * hand_over_ns;
  t->front_budget_ns = front_ns < 5000 ? 5000 : front_ns > 200000 ? 200000 : front_ns;
  t->min_budget_ns = t->front_budget_ns / 20;
  t->max_budget_ns = t->front_budget_ns * t->success_factor;
  t->quit_period_ns = 10 * t->front_budget_ns;
  if (t->quit_period_ns < 100000)
    t->quit_period_ns = 100000;
}

static int tuning_measure(struct rondo_tuning *out, uint64_t duration_ns, char *memory,
                          size_t bytes) {
  struct player here = {0};
  struct player there = {0};
  struct rondo_connector *forth = (struct rondo_connector *)memory;
  struct rondo_connector *back = (struct rondo_connector *)(memory + bytes);
  pthread_t echo;
  forth->slot_count = back->slot_count = 4;
  rondo_connector_init(forth, 0);
  rondo_connector_init(back, 0);
  rondo_endpoint_init(&here.send, forth, 0);
  rondo_endpoint_init(&there.recv, forth, 0);
  rondo_endpoint_init(&there.send, back, 0);
  rondo_endpoint_init(&here.recv, back, 0);
  rondo_endpoint_open_send(&here.send);
  rondo_endpoint_open_recv(&here.recv);
  rondo_endpoint_open_send(&there.send);
  rondo_endpoint_open_recv(&there.recv);
  if (pthread_create(&echo, NULL, echo_main, &there))
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "profile: a thread cannot be created");
  uint64_t trip_ns = player_measure_ns(&here, rondo_now_ns() + duration_ns);
  rondo_store_release_u32(&there.stop, 1);
  pthread_join(echo, NULL);
  if (!trip_ns)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "profile: no round trip ended in time");
  tuning_derive(out, trip_ns / 2);
  return RONDO_SUCCESS;
}

int rondo_profile(struct rondo_tuning *out, uint64_t duration_ns) {
  if (!out)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "profile: `out` is null");
  size_t bytes = rondo_connector_bytes(4);
  char *memory = rondo_memory_alloc(2 * bytes);
  if (!memory)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "profile: no memory");
  int status = tuning_measure(out, duration_ns ? duration_ns : DEFAULT_DURATION_NS, memory, bytes);
  rondo_memory_free(memory);
  return status;
}
