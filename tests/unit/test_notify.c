// A submission wakes a parked worker once: later ones, until the worker runs again, do not.
#include "daemon/host/host_device.h"
#include "tests/support/named.h"

static struct rondo_host_block block; // of the first worker, whose thread has not been started
static struct rondo_host_daemon daemon_of_one = {.core = {.block_count = 1}, .blocks = &block};
static struct rondo_host_worker *const worker = &rondo_host_device.workers[0];

static uint32_t notified(uint32_t state, int urgent) {
  uint32_t before = worker->signal;
  worker->state = state;
  rondo_host_notify_submission(&daemon_of_one.base, urgent);
  return worker->signal - before;
}

static void wakes_a_deeply_parked_worker_once(void **state) {
  (void)state;
  assert_int_equal(notified(WORKER_DEEP, 0), 1);
  assert_int_equal(worker->state, WORKER_RUNNING);
  assert_int_equal(notified(worker->state, 0), 0);
  assert_int_equal(notified(WORKER_DEEP, 1), 2); // it is kept from parking, and woken
  assert_int_equal(worker->state, WORKER_RUNNING);
}

static void leaves_a_lightly_parked_worker_to_its_tick_unless_urgent(void **state) {
  (void)state;
  assert_int_equal(notified(WORKER_TICK, 0), 0);
  assert_int_equal(worker->state, WORKER_TICK);
  assert_int_equal(notified(WORKER_TICK, 1), 2);
  assert_int_equal(worker->state, WORKER_RUNNING);
}

static void keeps_a_running_worker_from_parking_if_urgent(void **state) {
  (void)state;
  assert_int_equal(notified(WORKER_RUNNING, 0), 0);
  assert_int_equal(notified(WORKER_RUNNING, 1), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("notify", wakes_a_deeply_parked_worker_once),
      RONDO_NAMED_TEST("notify", leaves_a_lightly_parked_worker_to_its_tick_unless_urgent),
      RONDO_NAMED_TEST("notify", keeps_a_running_worker_from_parking_if_urgent),
  };
  return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
