// The wake conditions of queued collectives: when each kind holds, and which one a context has in
// each phase.
#include "daemon/core/wait_core.h"

#include <string.h>

#include "tests/support/named.h"

#define SLOTS 4u

// A context with its gate, its stream and one connector for each direction.
struct scene {
  struct rondo_communicator_gate gate;
  struct rondo_stream_words stream;
  struct {
    struct rondo_connector connector;
    struct rondo_slot slots[SLOTS];
  } to, from;
  struct rondo_endpoint send, recv;
  struct rondo_plan_op op;
  struct rondo_task_context context;
};

static void connect(struct rondo_connector *c, struct rondo_endpoint *e, uint32_t first_sequence) {
  c->slot_count = SLOTS;
  rondo_connector_init(c, first_sequence);
  rondo_endpoint_init(e, c, first_sequence);
}

static void scene_init(struct scene *s, int phase, uint32_t first_sequence) {
  memset(s, 0, sizeof *s);
  s->gate.state = RONDO_GATE_OPEN;
  s->context.fixed.gate = (uint64_t)(uintptr_t)&s->gate;
  s->context.state.phase = (uint8_t)phase;
  connect(&s->to.connector, &s->send, first_sequence);
  connect(&s->from.connector, &s->recv, first_sequence);
  rondo_endpoint_open_send(&s->send);
  rondo_endpoint_open_recv(&s->recv);
  s->context.fixed.ops = (uint64_t)(uintptr_t)&s->op;
  s->context.state.send = (uint64_t)(uintptr_t)&s->send;
  s->context.state.recv = (uint64_t)(uintptr_t)&s->recv;
}

static int is_over(const struct scene *s, int attempt) {
  struct rondo_wait w = rondo_wait_of(&s->context, attempt);
  return rondo_wait_is_over(&w);
}

// ----------------------------------------------------------------- each kind --

static void none_is_over_at_once(void **state) {
  (void)state;
  struct rondo_wait made = rondo_wait_make(RONDO_WAIT_NONE, NULL, 0);
  struct rondo_wait zeroed = {0, 0};
  assert_true(rondo_wait_is_over(&made));
  assert_true(rondo_wait_is_over(&zeroed));
}

static void equals_is_over_at_its_value_alone(void **state) {
  (void)state;
  uint32_t word = 6;
  struct rondo_wait w = rondo_wait_make(RONDO_WAIT_EQUALS, &word, 7);
  assert_false(rondo_wait_is_over(&w));
  word = 7;
  assert_true(rondo_wait_is_over(&w));
  word = 8;
  assert_false(rondo_wait_is_over(&w));
}

static void changes_is_over_at_any_other_value(void **state) {
  (void)state;
  uint32_t word = 7;
  struct rondo_wait w = rondo_wait_make(RONDO_WAIT_CHANGES, &word, 7);
  assert_false(rondo_wait_is_over(&w));
  word = 6;
  assert_true(rondo_wait_is_over(&w));
  word = UINT32_MAX;
  assert_true(rondo_wait_is_over(&w));
}

static void reaches_is_over_from_its_value_on(void **state) {
  (void)state;
  uint64_t word = UINT64_C(1) << 32;
  struct rondo_wait w = rondo_wait_make(RONDO_WAIT_REACHES, &word, word + 1);
  assert_false(rondo_wait_is_over(&w));
  word++;
  assert_true(rondo_wait_is_over(&w));
  word = UINT64_MAX;
  assert_true(rondo_wait_is_over(&w));
}

// ---------------------------------------------------------------- each phase --

static void a_closed_gate_is_waited_for_before_the_stream(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_GATE, 0);
  s.context.state.run.stream = (uint64_t)(uintptr_t)&s.stream;
  s.context.state.run.ticket = 5;
  s.stream.doorbell = 5;
  s.gate.state = RONDO_GATE_CLOSED;
  struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_DONE);
  assert_false(rondo_wait_is_over(&w));
  s.gate.state = RONDO_GATE_OPEN;
  assert_true(rondo_wait_is_over(&w));
  s.gate.state = RONDO_GATE_FAILED + (uint32_t)RONDO_ERR_PEER;
  assert_true(rondo_wait_is_over(&w));
}

static void an_open_gate_leaves_the_stream_to_wait_for(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_GATE, 0);
  assert_true(is_over(&s, RONDO_ATTEMPT_DONE)); // tied to no stream
  s.context.state.run.stream = (uint64_t)(uintptr_t)&s.stream;
  s.context.state.run.ticket = 5;
  s.stream.doorbell = 4;
  struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_DONE);
  assert_false(rondo_wait_is_over(&w));
  s.stream.doorbell = 6;
  assert_true(rondo_wait_is_over(&w));
}

static void without_credit_it_waits_until_the_peer_consumes(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_OPS, UINT32_MAX - 1);
  while (rondo_connector_try_reserve(&s.send))
    rondo_connector_publish(&s.send, NULL, 0);
  struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_NO_CREDIT);
  assert_false(rondo_wait_is_over(&w));
  struct rondo_endpoint peer;
  rondo_endpoint_init(&peer, &s.to.connector, UINT32_MAX - 1);
  rondo_endpoint_open_recv(&peer);
  rondo_connector_consume(&peer);
  assert_true(rondo_wait_is_over(&w));
  assert_true(rondo_connector_try_reserve(&s.send));
}

static void without_data_it_waits_for_the_next_mark(void **state) {
  (void)state;
  struct scene s;
  struct rondo_endpoint peer;
  scene_init(&s, RONDO_PHASE_OPS, UINT32_MAX - 2);
  rondo_endpoint_init(&peer, &s.from.connector, UINT32_MAX - 2);
  rondo_endpoint_open_send(&peer);
  // Sequences UINT32_MAX - 2 to 5: the mark of sequence UINT32_MAX is 0, and the slots have a
  // second lap.
  for (int i = 0; i < 9; i++) {
    struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_NO_DATA);
    assert_false(rondo_wait_is_over(&w));
    rondo_connector_publish(&peer, NULL, 0);
    assert_true(rondo_wait_is_over(&w));
    assert_non_null(rondo_connector_try_peek(&s.recv));
    rondo_connector_consume(&s.recv);
  }
  assert_int_equal(s.recv.sequence, 6);
}

// Of a message of packets, it waits for the first half packet.
static void without_packets_it_waits_for_the_first(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_OPS, 5);
  s.op.primitive = RONDO_PRIM_RECV | RONDO_PRIM_COPY | RONDO_PRIM_PACKETS;
  s.recv.has_packets = 1;
  s.recv.payload = sizeof s.from.connector; // in place of slots
  s.recv.slot_bytes = RONDO_PACKETS_BYTES;
  for (int i = 0; i < 9; i++) {
    const struct rondo_packets packets = rondo_connector_packets(&s.recv);
    uint64_t *half = (uint64_t *)(uintptr_t)packets.at;
    struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_NO_DATA);
    *half = rondo_packet_half(UINT32_MAX, packets.mark - SLOTS);
    assert_false(rondo_wait_is_over(&w));
    *half = rondo_packet_half(0, packets.mark);
    assert_true(rondo_wait_is_over(&w));
    rondo_connector_consume_packets(&s.recv);
  }
}

static void a_shut_connector_waits_for_the_gate_to_fail(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_OPS, 0);
  struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_SHUT);
  assert_false(rondo_wait_is_over(&w));
  s.gate.state = RONDO_GATE_FAILED + (uint32_t)RONDO_ERR_ABORTED;
  assert_true(rondo_wait_is_over(&w));
}

static void what_was_done_waits_for_nothing(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_OPS, 0);
  assert_true(is_over(&s, RONDO_ATTEMPT_DONE));
  scene_init(&s, RONDO_PHASE_IDLE, 0);
  assert_true(is_over(&s, RONDO_ATTEMPT_NO_DATA));
  scene_init(&s, RONDO_PHASE_ENDED, 0);
  assert_true(is_over(&s, RONDO_ATTEMPT_NO_DATA));
}

static void a_drain_waits_until_the_peer_consumes_more(void **state) {
  (void)state;
  struct scene s;
  struct rondo_endpoint peer;
  scene_init(&s, RONDO_PHASE_DRAIN, UINT32_MAX);
  rondo_endpoint_init(&peer, &s.to.connector, UINT32_MAX);
  rondo_endpoint_open_recv(&peer);
  for (int i = 0; i < 2; i++)
    rondo_connector_publish(&s.send, NULL, 0);
  uint32_t end = s.send.sequence;
  for (int i = 0; i < 2; i++) {
    assert_false(rondo_connector_is_drained(&s.send, end)); // reads `consumed` again
    struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_DONE);
    assert_false(rondo_wait_is_over(&w));
    rondo_connector_consume(&peer);
    assert_true(rondo_wait_is_over(&w));
  }
  assert_true(rondo_connector_is_drained(&s.send, end));
}

static void a_failing_run_waits_until_nobody_reads(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_FAILING, 0);
  s.to.connector.reading = 1;
  struct rondo_wait w = rondo_wait_of(&s.context, RONDO_ATTEMPT_DONE);
  assert_false(rondo_wait_is_over(&w));
  s.to.connector.reading = 0;
  assert_true(rondo_wait_is_over(&w));
}

// Data, credits and a drain are flagged by a peer that knows the flag, and a closed gate by whoever
// opens it. Nobody flags the rest.
static void is_flagged_by_a_peer_that_has_the_flag(void **state) {
  (void)state;
  struct scene s;
  scene_init(&s, RONDO_PHASE_OPS, 0);
  assert_false(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_NO_DATA));
  assert_false(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_NO_CREDIT));
  s.from.connector.consumer_flag = 64;
  assert_true(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_NO_DATA));
  assert_false(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_NO_CREDIT));
  s.to.connector.producer_flag = 64;
  assert_true(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_NO_CREDIT));
  assert_false(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_SHUT));
  s.context.state.phase = RONDO_PHASE_DRAIN;
  assert_true(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_DONE));
  s.context.state.phase = RONDO_PHASE_FAILING;
  assert_false(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_DONE));
  s.context.state.phase = RONDO_PHASE_GATE; // it is open: the run waits for its stream
  assert_false(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_DONE));
  s.gate.state = RONDO_GATE_CLOSED;
  assert_true(rondo_wait_is_flagged(&s.context, RONDO_ATTEMPT_DONE));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("wait", none_is_over_at_once),
      RONDO_NAMED_TEST("wait", equals_is_over_at_its_value_alone),
      RONDO_NAMED_TEST("wait", changes_is_over_at_any_other_value),
      RONDO_NAMED_TEST("wait", reaches_is_over_from_its_value_on),
      RONDO_NAMED_TEST("wait", a_closed_gate_is_waited_for_before_the_stream),
      RONDO_NAMED_TEST("wait", an_open_gate_leaves_the_stream_to_wait_for),
      RONDO_NAMED_TEST("wait", without_credit_it_waits_until_the_peer_consumes),
      RONDO_NAMED_TEST("wait", without_data_it_waits_for_the_next_mark),
      RONDO_NAMED_TEST("wait", without_packets_it_waits_for_the_first),
      RONDO_NAMED_TEST("wait", a_shut_connector_waits_for_the_gate_to_fail),
      RONDO_NAMED_TEST("wait", what_was_done_waits_for_nothing),
      RONDO_NAMED_TEST("wait", a_drain_waits_until_the_peer_consumes_more),
      RONDO_NAMED_TEST("wait", a_failing_run_waits_until_nobody_reads),
      RONDO_NAMED_TEST("wait", is_flagged_by_a_peer_that_has_the_flag),
  };
  return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
