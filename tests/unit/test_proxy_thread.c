// When the proxy's thread sleeps, and what wakes it. The carrier here sends at once. It sleeps
// until it is woken, or for so long that a lost wake-up fails the test.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "runtime/transport/proxy.h"
#include "runtime/transport/proxy_wire.h"
#include "tests/support/job.h"
#include "tests/support/named.h"
#include "tests/support/null_carrier.h"

#define SLOTS 4u
#define ARMED 1u
#define UNARMED 2u

struct rondo_carrier {
  const struct rondo_carrier_events *events;
  void *arg;
  pthread_mutex_t lock;
  pthread_cond_t woken;
  int wakes;
  uint32_t asleep; // ARMED or UNARMED; 0: awake, or about to wake
  uint32_t sleeps;
};

static struct rondo_carrier carrier = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                       .woken = PTHREAD_COND_INITIALIZER};

// ------------------------------------------------------------------ the carrier ---

static int carrier_open(const struct rondo_carrier_config *config, struct rondo_carrier **out,
                        char *why, size_t why_bytes) {
  (void)why, (void)why_bytes;
  carrier.events = config->events;
  carrier.arg = config->arg;
  carrier.wakes = 0;
  *out = &carrier;
  return RONDO_SUCCESS;
}

static const void *carrier_address(struct rondo_carrier *c, size_t *bytes) {
  static const uint32_t address = 0;
  (void)c;
  *bytes = sizeof address;
  return &address;
}

static int carrier_send(struct rondo_carrier *c, const struct rondo_carrier_message *m) {
  c->events->sent(c->arg, m->ticket, RONDO_SUCCESS);
  return RONDO_SUCCESS;
}

static void carrier_sleep(struct rondo_carrier *c, uint64_t timeout_ns, int is_armed) {
  struct timespec until;
  int late = 0;
  (void)timeout_ns;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += RONDO_TEST_LONG_NS / 1000000000 + 60;
  pthread_mutex_lock(&c->lock);
  if (!c->wakes)
    rondo_store_release_u32(&c->asleep, is_armed ? ARMED : UNARMED);
  rondo_store_release_u32(&c->sleeps, c->sleeps + 1);
  while (!c->wakes && !late)
    late = pthread_cond_timedwait(&c->woken, &c->lock, &until);
  c->wakes = 0;
  rondo_store_release_u32(&c->asleep, 0);
  pthread_mutex_unlock(&c->lock);
}

static void carrier_wake(struct rondo_carrier *c) {
  pthread_mutex_lock(&c->lock);
  c->wakes = 1;
  // Otherwise a caller that asks before the thread runs takes it for asleep.
  rondo_store_release_u32(&c->asleep, 0);
  pthread_cond_signal(&c->woken);
  pthread_mutex_unlock(&c->lock);
}

static const struct rondo_carrier_calls calls = {.name = "sleeper",
                                                 .open = carrier_open,
                                                 .address = carrier_address,
                                                 .connect = rondo_null_connect,
                                                 .send = carrier_send,
                                                 .progress = rondo_null_progress,
                                                 .arm = rondo_null_arm,
                                                 .sleep = carrier_sleep,
                                                 .wake = carrier_wake,
                                                 .disconnect = rondo_null_disconnect,
                                                 .close = rondo_null_close};

// -------------------------------------------------------------------- the proxy ---

struct stage {
  struct rondo_proxy *proxy;
  struct rondo_connector *mirror;
  struct rondo_endpoint block;
  struct rondo_link_set link_set;
  uint32_t arrivals, overs;
};

static void on_over(void *owner, struct rondo_proxy_link *link, int is_whole) {
  struct stage *s = owner;
  (void)link, (void)is_whole;
  rondo_store_release_u32(&s->overs, s->overs + 1);
}

static void on_broken(void *owner, uint32_t process, const char *text) {
  (void)owner, (void)process, (void)text;
}

static void on_arrival(void *owner, const struct rondo_proxy_link *link) {
  struct stage *s = owner;
  (void)link;
  rondo_store_release_u32(&s->arrivals, s->arrivals + 1);
}

static void await(const uint32_t *word, uint32_t value) {
  const struct timespec brief = {0, 200000};
  uint64_t end_ns = rondo_now_ns() + (uint64_t)RONDO_TEST_LONG_NS;
  while (rondo_load_acquire_u32(word) != value) {
    assert_true(rondo_now_ns() < end_ns);
    nanosleep(&brief, NULL);
  }
}

static uint64_t sent(const struct stage *s) {
  struct rondo_proxy_counters c;
  rondo_proxy_counters(s->proxy, &c);
  return c.slots_sent;
}

static void await_sent(const struct stage *s, uint64_t count) {
  const struct timespec brief = {0, 200000};
  uint64_t end_ns = rondo_now_ns() + (uint64_t)RONDO_TEST_LONG_NS;
  while (sent(s) != count) {
    assert_true(rondo_now_ns() < end_ns);
    nanosleep(&brief, NULL);
  }
}

static int is_never_used(void *owner, const struct rondo_proxy_link *link) {
  (void)owner, (void)link;
  return 0;
}

// A proxy with a link to process 1, asleep. `is_used` as in its configuration.
static struct rondo_proxy_link *
stage_open_with(struct stage *s, int (*is_used)(void *, const struct rondo_proxy_link *)) {
  struct rondo_proxy_config config = {.calls = &calls,
                                      .process_count = 2,
                                      .owner = s,
                                      .over = on_over,
                                      .broken = on_broken,
                                      .on_arrival = on_arrival,
                                      .is_used = is_used};
  struct {
    struct rondo_proxy_address head;
    uint64_t more;
  } address = {.head = {.carrier = "sleeper"}};
  char why[64];
  memset(s, 0, sizeof *s);
  s->mirror = aligned_alloc(RONDO_LINE_BYTES, rondo_connector_bytes(SLOTS));
  assert_non_null(s->mirror);
  memset(s->mirror, 0, rondo_connector_bytes(SLOTS));
  s->mirror->slot_count = SLOTS;
  rondo_connector_init(s->mirror, 0);
  rondo_endpoint_init(&s->block, s->mirror, 0);
  rondo_endpoint_open_send(&s->block);
  assert_int_equal(rondo_proxy_create(&config, &s->proxy, why, sizeof why), RONDO_SUCCESS);
  assert_int_equal(rondo_proxy_meet(s->proxy, 1, &address, sizeof address), RONDO_SUCCESS);
  struct rondo_proxy_link_config link = {
      .process = 1, .is_outgoing = 1, .first = s->mirror, .blocks = 1, .link_set = &s->link_set};
  struct rondo_proxy_link *made = rondo_proxy_link_create(s->proxy, &link);
  assert_non_null(made);
  rondo_proxy_link_bind(s->proxy, made, 7);
  await(&carrier.asleep, ARMED);
  return made;
}

static struct rondo_proxy_link *stage_open(struct stage *s) { return stage_open_with(s, NULL); }

static void stage_close(struct stage *s) {
  rondo_proxy_destroy(s->proxy);
  free(s->mirror);
}

static void publish(struct stage *s) {
  assert_true(rondo_connector_try_reserve(&s->block));
  rondo_connector_publish(&s->block, NULL, 8);
}

// ------------------------------------------------------------------------ tests ---

static void a_block_that_rings_wakes_the_proxy(void **state) {
  struct stage s;
  (void)state;
  (void)stage_open(&s);
  for (uint64_t i = 1; i <= SLOTS; i++) {
    await(&carrier.asleep, ARMED);
    publish(&s);
    rondo_proxy_ring(s.proxy);
    await_sent(&s, i);
  }
  stage_close(&s);
}

// The block of a run that is not counted yet has moved, and rung: nobody looked at its links.
static void waking_a_link_set_wakes_the_proxy(void **state) {
  struct stage s;
  (void)state;
  (void)stage_open_with(&s, is_never_used);
  while (!rondo_load_seq_cst_u32(&s.link_set.is_asleep))
    (void)rondo_proxy_progress(s.proxy);
  uint32_t sleeps = rondo_load_acquire_u32(&carrier.sleeps);
  publish(&s);
  rondo_proxy_ring(s.proxy);
  await(&carrier.sleeps, sleeps + 1);
  assert_int_equal(sent(&s), 0);
  rondo_proxy_wake(s.proxy, &s.link_set);
  await_sent(&s, 1);
  stage_close(&s);
}

static void a_request_wakes_the_proxy(void **state) {
  struct stage s;
  (void)state;
  (void)stage_open(&s);
  rondo_proxy_lose(s.proxy, 1); // and with it its link
  await(&s.overs, 1);
  stage_close(&s);
}

static void a_thread_that_helps_forwards_while_the_proxy_sleeps(void **state) {
  struct stage s;
  (void)state;
  (void)stage_open(&s);
  publish(&s);
  assert_true(rondo_proxy_help(s.proxy));
  assert_int_equal(sent(&s), 1);
  stage_close(&s);
}

// Woken, the thread finds that it is helped, and stays away from what blocks ring for.
static void the_proxy_stays_away_while_it_is_helped(void **state) {
  struct stage s;
  (void)state;
  (void)stage_open(&s);
  (void)rondo_proxy_help(s.proxy);
  rondo_proxy_ring(s.proxy);
  await(&carrier.asleep, UNARMED);
  publish(&s);
  rondo_proxy_ring(s.proxy);
  assert_int_equal(sent(&s), 0);
  assert_true(rondo_proxy_help(s.proxy));
  assert_int_equal(sent(&s), 1);
  // A caller that leaves outstanding work behind hands it to the thread.
  (void)rondo_proxy_release(s.proxy, 1);
  await(&carrier.asleep, ARMED);
  publish(&s);
  rondo_proxy_ring(s.proxy);
  await_sent(&s, 2);
  stage_close(&s);
}

// The round of a helper disarms the carrier that would have woken the thread.
static void a_helper_that_goes_wakes_a_proxy_that_sleeps_until_something_comes(void **state) {
  struct stage s;
  (void)state;
  (void)stage_open(&s);
  uint32_t sleeps = rondo_load_acquire_u32(&carrier.sleeps);
  (void)rondo_proxy_release(s.proxy, 0);
  await(&carrier.sleeps, sleeps + 1); // armed anew
  stage_close(&s);
}

static void a_credit_wakes_the_block_that_may_wait_for_it(void **state) {
  struct stage s;
  (void)state;
  struct rondo_proxy_link *link = stage_open(&s);
  size_t bytes = 0;
  publish(&s);
  rondo_proxy_ring(s.proxy);
  await_sent(&s, 1);
  struct rondo_proxy_head credit = {
      .link = rondo_proxy_link_number(link), .from = 1, .sequence = 1, .type = RONDO_PROXY_CREDIT};
  memcpy(&credit.token, rondo_proxy_address(s.proxy, &bytes), sizeof credit.token);
  await(&carrier.asleep, ARMED); // so that nobody else is in the proxy
  void *ticket = NULL;
  assert_null(carrier.events->arrive(carrier.arg, &credit, sizeof credit, 0, &ticket));
  rondo_proxy_ring(s.proxy);
  await(&s.arrivals, 1);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("proxy_thread", a_block_that_rings_wakes_the_proxy),
      RONDO_NAMED_TEST("proxy_thread", waking_a_link_set_wakes_the_proxy),
      RONDO_NAMED_TEST("proxy_thread", a_request_wakes_the_proxy),
      RONDO_NAMED_TEST("proxy_thread", a_thread_that_helps_forwards_while_the_proxy_sleeps),
      RONDO_NAMED_TEST("proxy_thread", the_proxy_stays_away_while_it_is_helped),
      RONDO_NAMED_TEST("proxy_thread",
                       a_helper_that_goes_wakes_a_proxy_that_sleeps_until_something_comes),
      RONDO_NAMED_TEST("proxy_thread", a_credit_wakes_the_block_that_may_wait_for_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
