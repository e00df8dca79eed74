// The profiling pass (the paper, 4.3): how long a hand-over between two threads takes here, and
// what budgets follow from it.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "queues/connector_core.h"
#include "runtime/api/tuning.h"

#define DEFAULT_DURATION_NS 50000000u
#define SAMPLES 101
#define PROBES_PER_YIELD 1000

// One side of a ping-pong through two connectors.
struct player {
  struct rondo_endpoint send, recv;
  uint32_t stop; // set by the other side's owner
  uint32_t started;
};

static int take(struct player *p) {
  if (!rondo_connector_try_peek(&p->recv))
    return 0;
  rondo_connector_consume(&p->recv);
  return 1;
}

static void give(struct player *p) {
  if (rondo_connector_try_reserve(&p->send))
    rondo_connector_publish(&p->send, NULL, 8);
}

static void *echo_main(void *arg) {
  struct player *p = arg;
  uint32_t probes = 0;
  rondo_store_release_u32(&p->started, 1);
  while (!rondo_load_acquire_u32(&p->stop)) {
    if (take(p)) {
      give(p);
      probes = 0;
    } else if (++probes > PROBES_PER_YIELD) {
      sched_yield();
    } else {
      rondo_relax();
    }
  }
  return NULL;
}

// One round trip; 0 when it did not come back before `deadline_ns`.
static uint64_t round_trip_ns(struct player *p, uint64_t deadline_ns) {
  uint64_t begin_ns = rondo_now_ns();
  uint32_t probes = 0;
  give(p);
  while (!take(p)) {
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

// Lower quartile of the last round trips; 0 if there was none. Not the median: what else the machine
// does only ever makes a round trip longer.
static uint64_t measure(struct player *p, uint64_t deadline_ns) {
  uint64_t times[SAMPLES];
  uint32_t count = 0;
  uint64_t seen = 0;
  while (rondo_now_ns() < deadline_ns) {
    uint64_t t = round_trip_ns(p, deadline_ns);
    if (!t)
      break;
    // A sliding window: the first rounds, in which the other thread starts, fall out of it.
    times[seen++ % SAMPLES] = t;
    count = seen < SAMPLES ? (uint32_t)seen : SAMPLES;
  }
  if (!count)
    return 0;
  qsort(times, count, sizeof *times, compare_times);
  return times[count / 4];
}

static void derive(struct rondo_tuning *t, uint64_t hand_over_ns) {
  struct rondo_tuning none = {0};
  *t = none;
  (void)rondo_tuning_resolve(t);
  // A peer needs some hand-overs and its own work to answer; ten times four hand-overs leaves room.
  uint64_t front_ns = 40 * hand_over_ns;
  t->front_budget_ns = front_ns < 5000 ? 5000 : front_ns > 200000 ? 200000 : front_ns;
  t->min_budget_ns = t->front_budget_ns / 20;
  t->max_budget_ns = t->front_budget_ns * t->success_factor;
  t->quit_period_ns = 10 * t->front_budget_ns;
  if (t->quit_period_ns < 100000)
    t->quit_period_ns = 100000;
}

static int profile(struct rondo_tuning *out, uint64_t duration_ns, char *memory, size_t bytes) {
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
  if (pthread_create(&echo, NULL, echo_main, &there))
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "profile: the system gives no thread");
  uint64_t trip_ns = measure(&here, rondo_now_ns() + duration_ns);
  rondo_store_release_u32(&there.stop, 1);
  pthread_join(echo, NULL);
  if (!trip_ns)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "profile: no round trip within the time given");
  derive(out, trip_ns / 2);
  return RONDO_SUCCESS;
}

int rondo_profile(struct rondo_tuning *out, uint64_t duration_ns) {
  if (!out)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "profile: the place for the result is null");
  size_t bytes = rondo_connector_bytes(4);
  char *memory = rondo_memory_alloc(2 * bytes);
  if (!memory)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "profile: no memory");
  int status = profile(out, duration_ns ? duration_ns : DEFAULT_DURATION_NS, memory, bytes);
  rondo_memory_free(memory);
  return status;
}
