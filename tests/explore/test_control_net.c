// The virtual network keeps its own promises: the cores are judged by what it does to them.
#include <string.h>

#include "tests/explore/control_net.h"
#include "tests/support/named.h"

#define NODES 8u
#define MS UINT64_C(1000000)
#define MESSAGES 400u

// Messages are numbers: no memory.
static uint64_t seen[NODES][NODES]; // the last number that each node had from each other
static uint32_t count[NODES], ticks[NODES], cuts[NODES], proven[NODES];
static uint32_t overtaken, out_of_order, released;
static uint64_t latest, trace, next_number;
static struct control_net *net;

static void deliver(void *arg, uint32_t node, uint32_t from, void *message) {
  uint64_t number = (uintptr_t)message;
  (void)arg;
  out_of_order += number <= seen[node][from];
  overtaken += number < latest;
  seen[node][from] = number;
  latest = number > latest ? number : latest;
  count[node]++;
  trace = trace * 31 + number + control_net_now(net);
}

static void tick(void *arg, uint32_t node) {
  (void)arg;
  ticks[node]++;
}

static void cut(void *arg, uint32_t node, uint32_t other, bool is_proven) {
  (void)arg, (void)other;
  cuts[node]++;
  proven[node] += is_proven;
}

static void release(void *arg, void *message) {
  (void)arg, (void)message;
  released++;
}

static const struct control_net_calls calls = {deliver, tick, cut, release};

static void net_begin(uint64_t seed) {
  struct control_net_config cfg = {NODES, seed, MS / 10, 10 * MS, &calls, NULL};
  memset(seen, 0, sizeof seen);
  memset(count, 0, sizeof count);
  memset(ticks, 0, sizeof ticks);
  memset(cuts, 0, sizeof cuts);
  memset(proven, 0, sizeof proven);
  overtaken = out_of_order = released = 0;
  latest = trace = 0;
  next_number = 1;
  net = control_net_create(&cfg);
}

// Sends `many` messages from each of the first `senders` nodes to node 7, a tenth of a millisecond
// apart.
static void net_send_many(uint32_t senders, uint32_t many) {
  for (uint32_t i = 0; i < many; i++) {
    for (uint32_t from = 0; from < senders; from++)
      control_net_send(net, from, 7, (void *)(uintptr_t)next_number++);
    (void)control_net_run(net, control_net_now(net) + MS / 10);
  }
}

static uint32_t net_finish(void) {
  (void)control_net_run(net, control_net_now(net) + 1000 * MS);
  return count[7];
}

static void a_connection_keeps_the_order_and_two_do_not(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 20; seed++) {
    net_begin(seed);
    net_send_many(3, MESSAGES);
    assert_int_equal(net_finish(), 3 * MESSAGES);
    assert_int_equal(out_of_order, 0);
    assert_true(overtaken > 0);
    assert_int_equal(released, 0);
    control_net_destroy(net);
  }
}

static void a_seed_repeats_and_another_does_not(void **state) {
  (void)state;
  uint64_t traces[3];
  for (int i = 0; i < 3; i++) {
    net_begin(i == 2 ? 6 : 5);
    net_send_many(3, MESSAGES);
    net_finish();
    traces[i] = trace;
    control_net_destroy(net);
  }
  assert_true(traces[0] == traces[1]);
  assert_true(traces[0] != traces[2]);
}

static void a_cut_loses_the_end_and_tells(void **state) {
  (void)state;
  for (int both = 0; both < 2; both++) {
    net_begin(3);
    net_send_many(1, 200);
    control_net_cut(net, 7, 0, both);
    net_send_many(1, 200);
    net_finish();
    assert_true(count[7] < 400 && count[7] > 100);
    assert_int_equal(count[7] + released, 400);
    assert_int_equal(out_of_order, 0);
    assert_int_equal(cuts[7], 1);
    assert_int_equal(cuts[0], 1); // at the cut, or when it sends
    assert_int_equal(proven[0] + proven[7], 0);
    control_net_destroy(net);
  }
}

static void an_end_is_proven_and_a_lost_machine_is_silent(void **state) {
  (void)state;
  for (int gone = 0; gone < 2; gone++) {
    net_begin(4);
    net_send_many(2, 200);
    control_net_crash(net, 7, gone ? CONTROL_NET_GONE : CONTROL_NET_ENDS);
    uint32_t before = count[7];
    (void)control_net_run(net, control_net_now(net) + 20 * MS);
    assert_int_equal(proven[0], gone ? 0 : 1);
    control_net_send(net, 3, 7, (void *)(uintptr_t)1); // never connected before
    net_finish();
    assert_int_equal(count[7], before);
    assert_int_equal(proven[3], gone ? 0 : 1);
    assert_int_equal(cuts[0] + cuts[1] + cuts[3], gone ? 0 : 3);
    control_net_restart(net, 7);
    (void)control_net_run(net, control_net_now(net) + 20 * MS);
    control_net_send(net, 3, 7, (void *)(uintptr_t)999999);
    net_finish();
    assert_int_equal(count[7], before + 1);
    control_net_destroy(net);
  }
}

static void who_stops_loses_nothing(void **state) {
  (void)state;
  net_begin(7);
  control_net_wake(net, 7, 5 * MS);
  control_net_stop(net, 7);
  net_send_many(2, 100);
  assert_int_equal(count[7] + ticks[7], 0);
  control_net_continue(net, 7);
  assert_int_equal(net_finish(), 200);
  assert_int_equal(ticks[7], 1);
  assert_int_equal(out_of_order, 0);
  control_net_destroy(net);
}

static void who_is_slow_loses_nothing(void **state) {
  (void)state;
  net_begin(8);
  control_net_slow(net, 7, 80 * MS);
  net_send_many(2, 100);
  uint32_t before = count[7];
  assert_true(before < 190); // not all within two delays of the last
  assert_int_equal(net_finish(), 200);
  assert_int_equal(out_of_order, 0);
  control_net_destroy(net);
}

static void sides_wait_for_each_other(void **state) {
  (void)state;
  for (int lost = 0; lost < 2; lost++) {
    net_begin(9);
    net_send_many(2, 50);
    net_finish();
    for (uint32_t i = 0; i < 4; i++)
      control_net_partition(net, i, 1);
    net_send_many(1, 100); // 0 is on the other side
    control_net_silence(net, 5, 7);
    control_net_send(net, 5, 7, (void *)(uintptr_t)1);
    control_net_send(net, 6, 7, (void *)(uintptr_t)1);
    assert_int_equal(net_finish(), 101);
    control_net_heal(net, lost ? 100 : 0);
    assert_int_equal(net_finish(), lost ? 101 : 202);
    assert_int_equal(cuts[7], lost ? 2 : 0);
    control_net_destroy(net);
  }
}

static void a_later_wish_replaces_an_earlier(void **state) {
  (void)state;
  net_begin(1);
  control_net_wake(net, 2, 5 * MS);
  control_net_wake(net, 2, 9 * MS);
  (void)control_net_run(net, 6 * MS);
  assert_int_equal(ticks[2], 0);
  (void)control_net_run(net, 10 * MS);
  assert_int_equal(ticks[2], 1);
  control_net_wake(net, 2, 20 * MS);
  control_net_wake(net, 2, 12 * MS);
  (void)control_net_run(net, 30 * MS);
  assert_int_equal(ticks[2], 2);
  control_net_destroy(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("control_net", a_connection_keeps_the_order_and_two_do_not),
      RONDO_NAMED_TEST("control_net", a_seed_repeats_and_another_does_not),
      RONDO_NAMED_TEST("control_net", a_cut_loses_the_end_and_tells),
      RONDO_NAMED_TEST("control_net", an_end_is_proven_and_a_lost_machine_is_silent),
      RONDO_NAMED_TEST("control_net", who_stops_loses_nothing),
      RONDO_NAMED_TEST("control_net", who_is_slow_loses_nothing),
      RONDO_NAMED_TEST("control_net", sides_wait_for_each_other),
      RONDO_NAMED_TEST("control_net", a_later_wish_replaces_an_earlier),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
