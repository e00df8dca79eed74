// What a proxy does with each message that can reach it: messages of its protocol in any order, and
// any other bytes.
#include <string.h>

#include "runtime/transport/link_binding.h"
#include "tests/support/hand_carrier.h"
#include "tests/support/named.h"

#define SMALL 100u
#define LARGE 192u // comes in a piece for each of RONDO_HAND_ENDPOINTS

static struct rondo_hand *const hand = &rondo_hand;

static struct rondo_proxy_counters counters(void) {
  struct rondo_proxy_counters c;
  rondo_proxy_counters(hand->proxy, &c);
  return c;
}

static struct rondo_proxy_head data(const struct rondo_hand_link *l, uint32_t sequence,
                                    uint32_t bytes) {
  struct rondo_proxy_head head = rondo_hand_head(l, RONDO_PROXY_DATA);
  head.sequence = sequence;
  head.bytes = bytes;
  return head;
}

static struct rondo_proxy_head piece(const struct rondo_hand_link *l, uint32_t sequence,
                                     uint8_t number, uint8_t last) {
  struct rondo_proxy_head head = data(l, sequence, LARGE);
  head.piece = number;
  head.last_piece = last;
  return head;
}

static int arrive(const struct rondo_proxy_head *head) {
  return rondo_hand_arrive(head, sizeof *head, rondo_proxy_payload_bytes(head));
}

static void progress(void) { (void)rondo_proxy_progress(hand->proxy); }

static const struct rondo_slot *peek(const struct rondo_hand_link *l) {
  return rondo_connector_try_peek(&l->ends[0]);
}

// A block here publishes `bytes` of `value`.
static void publish(struct rondo_hand_link *l, uint32_t bytes, uint8_t value) {
  assert_true(rondo_connector_try_reserve(&l->ends[0]));
  memset(rondo_connector_payload(&l->ends[0], bytes), value, bytes);
  rondo_connector_publish(&l->ends[0], NULL, bytes);
}

static int open_hand(void **state) {
  (void)state;
  rondo_hand_open();
  return 0;
}

static int close_hand(void **state) {
  (void)state;
  rondo_hand_close();
  return 0;
}

// ---------------------------------------------------------------- the protocol ---

static void slots_may_arrive_in_any_order(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, UINT32_MAX - 1);
  struct rondo_proxy_head second = data(l, UINT32_MAX, SMALL);
  struct rondo_proxy_head first = data(l, UINT32_MAX - 1, SMALL);
  struct rondo_proxy_head third = data(l, 0, 0);
  first.count = 100;
  second.count = 101;
  third.count = 102;
  assert_true(arrive(&second) && arrive(&first));
  assert_false(arrive(&third)); // nothing is to land
  rondo_hand_land(0, 2, RONDO_SUCCESS);
  assert_null(peek(l));
  rondo_hand_land(0, 1, RONDO_SUCCESS);
  for (uint32_t i = 0; i < 3; i++) {
    const struct rondo_slot *slot = peek(l);
    assert_non_null(slot);
    assert_int_equal(slot->bytes, i < 2 ? SMALL : 0);
    assert_true(rondo_slot_word(slot) == 100 + i);
    if (i < 2)
      assert_int_equal(*(const uint8_t *)rondo_slot_payload(&l->ends[0], slot), i + 1);
    rondo_connector_consume(&l->ends[0]);
  }
  progress();
  assert_int_equal(hand->said.type, RONDO_PROXY_CREDIT);
  assert_int_equal(hand->said.sequence, 1);
  assert_int_equal(hand->said.link, 77);
  assert_int_equal(counters().refused, 0);
}

static void a_slot_is_free_when_it_has_been_sent_and_consumed(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  publish(l, SMALL, 1);
  publish(l, 8, 2);
  progress();
  assert_int_equal(hand->sending_count, 2);
  struct rondo_proxy_head credit = rondo_hand_head(l, RONDO_PROXY_CREDIT);
  credit.sequence = 2;
  assert_false(arrive(&credit));
  assert_int_equal(l->first->consumed, 0); // both are still being sent
  rondo_hand_sent(1, RONDO_SUCCESS);
  assert_int_equal(l->first->consumed, 0); // the first of them is
  rondo_hand_sent(0, RONDO_SUCCESS);
  assert_int_equal(l->first->consumed, 2);
  credit.sequence = 1; // it has been overtaken
  assert_false(arrive(&credit));
  credit.sequence = 3; // nobody has sent that
  assert_false(arrive(&credit));
  assert_int_equal(l->first->consumed, 2);
  assert_int_equal(hand->broken, 0);
}

static void slots_use_all_endpoints_and_other_messages_one(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  for (uint32_t i = 0; i < RONDO_HAND_SLOTS; i++) {
    publish(out, SMALL, 1);
    progress();
    assert_int_equal(hand->said.sequence, i);
    assert_int_equal(hand->said_endpoint, i % RONDO_HAND_ENDPOINTS);
  }
  for (uint32_t i = 0; i < RONDO_HAND_SLOTS; i++) {
    struct rondo_proxy_head slot = data(in, i, 0);
    assert_false(arrive(&slot)); // nothing is to land
    rondo_connector_consume(&in->ends[0]);
  }
  progress();
  assert_int_equal(hand->said.type, RONDO_PROXY_CREDIT);
  assert_int_equal(hand->said_endpoint, 0);
}

static void the_number_of_endpoints_may_change_at_any_time(void **state) {
  (void)state;
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  const uint32_t spreads[RONDO_HAND_SLOTS] = {1, 2, 1, 3};
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  assert_int_equal(rondo_proxy_spread(hand->proxy, 1, 0), RONDO_HAND_ENDPOINTS);
  for (uint32_t i = 0; i < RONDO_HAND_SLOTS; i++) {
    assert_int_equal(rondo_proxy_spread(hand->proxy, 1, spreads[i]), spreads[i]);
    publish(out, SMALL, 1);
    progress();
    assert_int_equal(hand->said.sequence, i);
    assert_int_equal(hand->said_endpoint, i % spreads[i]);
    assert_int_equal(hand->connected, i == 3 ? 3 : i ? 2 : 1); // none is closed
  }
  assert_int_equal(rondo_proxy_spread(hand->proxy, 2, 0), RONDO_HAND_ENDPOINTS); // another process
}

// A rank whose run has ended waits for its outgoing messages, and a message takes as long as a
// small slot.
static void credits_of_small_slots_share_a_message(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  for (uint32_t i = 0; i < RONDO_HAND_SLOTS; i++) {
    struct rondo_proxy_head slot = data(l, i, 0);
    assert_false(arrive(&slot)); // nothing is to land
    assert_non_null(peek(l));
    rondo_connector_consume(&l->ends[0]);
    progress();
    assert_int_equal(hand->said_count, (i + 1) / (RONDO_HAND_SLOTS / 2));
  }
  assert_int_equal(hand->said.type, RONDO_PROXY_CREDIT);
  assert_int_equal(hand->said.sequence, RONDO_HAND_SLOTS);
}

// ... and what goes there anyway takes one along.
static void a_credit_goes_with_the_next_slot(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *elsewhere = rondo_hand_link(2, 1, 0);
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, elsewhere->link, 98);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  struct rondo_proxy_head slot = data(in, 0, 0);
  assert_false(arrive(&slot)); // nothing is to land
  rondo_connector_consume(&in->ends[0]);
  publish(elsewhere, SMALL, 1);
  progress();
  assert_int_equal(hand->said.credit_link, 0); // it is another process's
  for (uint64_t i = 0; i < 2; i++) {
    publish(out, SMALL, 1);
    progress();
    assert_int_equal(hand->said_count, 2 + i);
    assert_int_equal(hand->said.type, RONDO_PROXY_DATA);
    assert_int_equal(hand->said.credit_link, i ? 0 : 77); // once
  }
  assert_int_equal(counters().credits_sent, 1);
}

static void a_credit_that_comes_with_a_slot_counts(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  publish(out, SMALL, 1);
  progress();
  rondo_hand_sent(0, RONDO_SUCCESS);
  struct rondo_proxy_head slot = data(in, 0, SMALL);
  slot.credit_link = out->number;
  slot.credit_sequence = 1;
  assert_true(arrive(&slot));
  assert_int_equal(out->first->consumed, 1);
}

// -------------------------------------------------------------------- pieces ---

// One slot at a time is on its way where a collective has one block.
static void a_large_slot_is_sent_in_a_piece_over_each_endpoint(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  struct rondo_proxy_head slot = data(in, 0, 0);
  uint32_t endpoints = 0;
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  (void)arrive(&slot);
  rondo_connector_consume(&in->ends[0]);
  publish(out, LARGE, 1);
  const uint8_t *payload = (const uint8_t *)out->first + out->first->payload;
  progress();
  assert_int_equal(hand->sending_count, RONDO_HAND_ENDPOINTS);
  for (uint8_t i = 0; i < RONDO_HAND_ENDPOINTS; i++) {
    const struct rondo_hand_pending *m = &hand->sending[i];
    assert_ptr_equal(m->to, payload);
    payload += m->bytes;
    assert_in_range(m->bytes, RONDO_HAND_PIECE_BYTES - 1, RONDO_HAND_PIECE_BYTES);
    assert_int_equal(m->head.piece, i);
    assert_int_equal(m->head.last_piece, RONDO_HAND_ENDPOINTS - 1);
    assert_int_equal(m->head.bytes, LARGE);
    assert_int_equal(m->head.sequence, 0);
    assert_int_equal(m->head.credit_link, i ? 0 : 77); // once
    endpoints |= 1u << m->endpoint;
  }
  assert_ptr_equal(payload, (const uint8_t *)out->first + out->first->payload + LARGE);
  assert_int_equal(endpoints, (1u << RONDO_HAND_ENDPOINTS) - 1);
  assert_int_equal(counters().slots_sent, 1);
}

static void a_slot_is_sent_whole_if_pieces_would_be_small_or_there_is_one_endpoint(void **state) {
  (void)state;
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  publish(out, 2 * RONDO_HAND_PIECE_BYTES - 1, 1);
  progress();
  assert_int_equal(hand->said_count, 1);
  assert_int_equal(hand->said.last_piece, 0);
  publish(out, 2 * RONDO_HAND_PIECE_BYTES, 1);
  progress();
  assert_int_equal(hand->said_count, 3);
  (void)rondo_proxy_spread(hand->proxy, 1, 1);
  publish(out, LARGE, 1);
  progress();
  assert_int_equal(hand->said_count, 4);
  assert_int_equal(hand->said.last_piece, 0);
}

static void a_slot_is_free_when_all_its_pieces_have_been_sent(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  publish(l, LARGE, 1);
  progress();
  struct rondo_proxy_head credit = rondo_hand_head(l, RONDO_PROXY_CREDIT);
  credit.sequence = 1;
  assert_false(arrive(&credit));
  for (uint32_t left = RONDO_HAND_ENDPOINTS; left > 0; left--) {
    assert_int_equal(l->first->consumed, 0);
    rondo_hand_sent(left / 2, RONDO_SUCCESS);
  }
  assert_int_equal(l->first->consumed, 1);
}

static void a_slot_is_shown_when_all_its_pieces_have_landed(void **state) {
  (void)state;
  static const uint8_t order[] = {2, 0, 1};
  static const uint8_t landing[] = {1, 1, 0}; // of what is to land: each takes the last one's place
  struct rondo_hand_link *l = rondo_hand_link(1, 0, UINT32_MAX);
  for (uint32_t i = 0; i < 3; i++) {
    struct rondo_proxy_head head = piece(l, UINT32_MAX, order[i], 2);
    head.count = 5;
    assert_true(arrive(&head));
    struct rondo_proxy_head next = piece(l, 0, order[i], 2);
    if (i < 2)
      assert_true(arrive(&next)); // of another slot, which stays incomplete
  }
  while (hand->landing_count) {
    assert_null(peek(l));
    uint32_t at =
        hand->landing_count > 3 ? hand->landing_count - 2 : landing[3 - hand->landing_count];
    const uint8_t *to = hand->landing[at].to;
    uint8_t *first = (uint8_t *)l->first + l->first->payload;
    uint8_t value = (uint8_t)(to < first + RONDO_HAND_SLOT_BYTES ? 100 : 1);
    rondo_hand_land(at, value, RONDO_SUCCESS);
  }
  const struct rondo_slot *slot = peek(l);
  assert_non_null(slot);
  assert_int_equal(slot->bytes, LARGE);
  assert_true(rondo_slot_word(slot) == 5);
  for (uint32_t i = 0; i < LARGE; i++)
    assert_int_equal(((const uint8_t *)rondo_slot_payload(&l->ends[0], slot))[i], 1);
  rondo_connector_consume(&l->ends[0]);
  assert_null(peek(l));
  assert_int_equal(counters().slots_received, 1);
  assert_int_equal(hand->broken, 0);
}

static void a_link_ends_with_the_last_piece_of_its_last_slot(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head close = rondo_hand_head(l, RONDO_PROXY_CLOSE);
  close.count = 1;
  for (uint8_t i = 0; i < 2; i++) {
    struct rondo_proxy_head head = piece(l, 0, i, 1);
    assert_true(arrive(&head));
    rondo_hand_land(0, 1, RONDO_SUCCESS);
    assert_true(i || !arrive(&close));
    progress();
    assert_true(i ? !l->link : l->link != NULL);
  }
  assert_true(l->is_whole);
}

static void a_consumer_that_closes_waits_for_no_missing_piece(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head head = piece(l, 0, 0, 2);
  struct rondo_proxy_head second = piece(l, 0, 1, 2);
  assert_true(arrive(&head));
  assert_true(arrive(&second));
  rondo_hand_land(0, 1, RONDO_SUCCESS);
  rondo_proxy_link_close(hand->proxy, l->link);
  progress();
  assert_non_null(l->link); // a piece of it is being written
  rondo_hand_land(0, 1, RONDO_SUCCESS);
  progress();
  assert_null(l->link);
  head = piece(l, 0, 2, 2);
  assert_false(arrive(&head));
  assert_int_equal(hand->broken, 0);
}

static void a_slot_of_which_a_piece_is_lost_is_not_shown(void **state) {
  (void)state;
  for (uint32_t lost = 0; lost < 3; lost++) {
    struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
    for (uint8_t i = 0; i < 3; i++) {
      struct rondo_proxy_head head = piece(l, 0, i, 2);
      assert_true(arrive(&head));
    }
    for (uint32_t i = 0; i < 3; i++)
      rondo_hand_land(0, 1, i == lost ? RONDO_ERR_PEER : RONDO_SUCCESS);
    progress();
    assert_null(peek(l));
    assert_int_equal(hand->broken, 1u << 1);
    rondo_proxy_lose(hand->proxy, 1);
    progress();
    assert_null(l->link);
    assert_false(l->is_whole);
    rondo_hand_close();
    rondo_hand_open();
  }
}

// The memory of a slot is not touched after the link is over, and is free once no piece is sent.
static void a_piece_that_cannot_be_sent_is_reported(void **state) {
  (void)state;
  for (uint32_t accepts = 0; accepts < RONDO_HAND_ENDPOINTS; accepts++) {
    struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
    rondo_proxy_link_bind(hand->proxy, l->link, 99);
    publish(l, LARGE, 1);
    hand->refuses = 1;
    hand->accepts = accepts;
    progress();
    assert_int_equal(hand->broken, 1u << 1);
    assert_int_equal(hand->sending_count, accepts);
    rondo_proxy_lose(hand->proxy, 1);
    progress();
    assert_true(accepts ? l->link != NULL : !l->link);
    while (hand->sending_count)
      rondo_hand_sent(0, RONDO_ERR_PEER);
    progress();
    assert_null(l->link);
    rondo_hand_close();
    rondo_hand_open();
  }
}

// ---------------------------------------------------------------- link sets ---

// Runs rounds until an idle link set is asleep. Returns how many links the last round looked at.
static uint64_t progress_until_asleep(void) {
  for (uint32_t i = 0; i < 1000; i++)
    progress();
  uint64_t before = counters().looks;
  progress();
  return counters().looks - before;
}

static void links_without_runs_are_not_looked_at_until_one_is_submitted(void **state) {
  (void)state;
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  (void)rondo_hand_link(1, 0, 0);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  assert_int_equal(progress_until_asleep(), 2);
  assert_false(hand->link_set.is_asleep);
  hand->is_unused = 1;
  assert_int_equal(progress_until_asleep(), 0);
  assert_true(hand->link_set.is_asleep);
  hand->is_unused = 0;
  rondo_proxy_wake(hand->proxy, &hand->link_set);
  publish(out, SMALL, 1);
  progress();
  assert_int_equal(hand->said_count, 1);
  assert_false(hand->link_set.is_asleep);
}

static void links_do_not_sleep_while_anything_is_to_be_done(void **state) {
  (void)state;
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  hand->is_unused = 1;
  publish(out, SMALL, 1);
  progress();
  assert_int_equal(progress_until_asleep(), 1); // its slot is on its way
  rondo_hand_sent(0, RONDO_SUCCESS);
  assert_int_equal(progress_until_asleep(), 0);
  rondo_proxy_link_close(hand->proxy, out->link);
  progress();
  assert_int_equal(hand->said.type, RONDO_PROXY_CLOSE);
  assert_int_equal(progress_until_asleep(), 1); // until the other side has said that it is over
}

static void a_message_wakes_the_link_that_it_is_for(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  hand->is_unused = 1;
  assert_int_equal(progress_until_asleep(), 0);
  struct rondo_proxy_head slot = data(in, 0, 0);
  (void)arrive(&slot);
  assert_false(hand->link_set.is_asleep);
  rondo_connector_consume(&in->ends[0]);
  slot = data(in, 1, 0);
  (void)arrive(&slot);
  rondo_connector_consume(&in->ends[0]);
  progress();
  assert_int_equal(hand->said.type, RONDO_PROXY_CREDIT);
  assert_int_equal(hand->said.sequence, 2);
}

static void links_that_sleep_end_with_their_process(void **state) {
  (void)state;
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  struct rondo_hand_link *in = rondo_hand_link(2, 0, 0);
  hand->is_unused = 1;
  assert_int_equal(progress_until_asleep(), 0);
  rondo_proxy_lose(hand->proxy, 1);
  progress();
  assert_null(out->link);
  assert_non_null(in->link);
}

// A set may be woken while its last link ends.
static void a_forgotten_link_set_is_not_woken(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  rondo_proxy_lose(hand->proxy, 1);
  progress();
  assert_null(l->link);
  rondo_proxy_wake(hand->proxy, &hand->link_set);
  rondo_proxy_wake(hand->proxy, &hand->link_set);
  rondo_proxy_forget(hand->proxy, &hand->link_set);
  memset(&hand->link_set, 0xff, sizeof hand->link_set); // it is somebody else's memory
  progress();
  memset(&hand->link_set, 0, sizeof hand->link_set);
}

// The credits of links that nobody uses go, one with each slot, as those of the busy ones do.
static void the_latest_link_gets_its_credit_first(void **state) {
  (void)state;
  struct rondo_hand_link *old = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  const struct rondo_hand_link *order[] = {old, in};
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  for (uint64_t i = 0; i < 2; i++) {
    struct rondo_proxy_head slot = data(order[i], 0, 0);
    slot.back = 70 + i;
    (void)arrive(&slot);
  }
  rondo_connector_consume(&old->ends[0]);
  rondo_connector_consume(&in->ends[0]);
  for (uint64_t i = 0; i < 3; i++) {
    publish(out, SMALL, 1);
    progress();
    assert_int_equal(hand->said.credit_link, i < 2 ? 71 - i : 0);
  }
}

// Only the flush makes progress: the proxy's own thread may have no core. A flush that loses its
// core for long returns early; one round a call would take three calls.
static void a_flush_returns_when_all_has_been_sent(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  publish(l, SMALL, 1);
  hand->sends_in = 3;
  assert_true(rondo_proxy_flush(hand->proxy, 0));
  if (hand->sending_count)
    (void)rondo_proxy_flush(hand->proxy, 0);
  assert_int_equal(hand->said_count, 1);
  assert_int_equal(hand->sending_count, 0);
}

// A call of the carrier's `progress` takes longer than the rest of such a round.
static void a_flush_after_a_round_that_received_does_not_receive_again(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  (void)rondo_proxy_help(hand->proxy);
  uint32_t receives = hand->receives;
  (void)rondo_proxy_flush(hand->proxy, 0);
  assert_int_equal(hand->receives, receives);
  (void)rondo_proxy_flush(hand->proxy, 0); // no round has received since
  assert_int_equal(hand->receives, receives + 1);
  (void)rondo_proxy_help(hand->proxy);
  receives = hand->receives;
  publish(l, SMALL, 1);
  hand->sends_in = 1;
  (void)rondo_proxy_flush(hand->proxy, 0); // a slot is in flight
  assert_int_equal(hand->receives, receives + 1);
  assert_int_equal(hand->sending_count, 0);
}

// The carrier sends over the connection of a process that it knows. The token shows who it is.
static void only_a_message_with_the_token_identifies_its_sender(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(l, 0, 0);
  slot.token ^= 1;
  assert_false(arrive(&slot));
  assert_int_equal(hand->identified, 0);
  slot.token ^= 1;
  (void)arrive(&slot);
  assert_int_equal(hand->identified, 1u << 1);
}

// A message takes its caller longer than all the rest of a small run.
static void a_rank_that_leaves_sends_no_credit_that_can_wait(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  for (uint32_t i = 0; i < RONDO_HAND_SLOTS - 1; i++) {
    assert_int_equal(hand->said_count, 0);
    struct rondo_proxy_head head = data(l, i, 0);
    (void)arrive(&head);
    rondo_connector_consume(&l->ends[0]);
    (void)rondo_proxy_flush(hand->proxy, 0);
  }
  assert_int_equal(hand->said_count, 1);
  assert_int_equal(hand->said.sequence, RONDO_HAND_SLOTS - 1);
}

static void flush_gives_up_on_what_does_not_move(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  publish(l, SMALL, 1);
  assert_true(rondo_proxy_flush(hand->proxy, 0));
  assert_false(rondo_proxy_flush(hand->proxy, 0));
  assert_int_equal(hand->sending_count, 1);
}

static void a_link_ends_with_its_last_slot(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head close = rondo_hand_head(l, RONDO_PROXY_CLOSE);
  struct rondo_proxy_head slot = data(l, 0, SMALL);
  close.count = 1;
  assert_false(arrive(&close));
  progress();
  assert_non_null(l->link);
  assert_true(arrive(&slot));
  progress();
  assert_non_null(l->link);
  rondo_hand_land(0, 1, RONDO_SUCCESS);
  progress();
  assert_null(l->link);
  assert_true(l->is_whole);
  assert_int_equal(hand->said.type, RONDO_PROXY_CLOSED);
}

static void an_outgoing_link_ends_when_the_other_side_has_all(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 1, 0);
  struct rondo_proxy_head closed = rondo_hand_head(l, RONDO_PROXY_CLOSED);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  publish(l, SMALL, 1);
  assert_false(arrive(&closed)); // of something that nobody has closed
  rondo_proxy_link_close(hand->proxy, l->link);
  progress();
  assert_int_equal(hand->said.type, RONDO_PROXY_CLOSE);
  assert_int_equal(hand->said.count, 1);
  assert_non_null(l->link);
  assert_false(arrive(&closed));
  progress();
  assert_non_null(l->link); // messages of it are under way
  while (hand->sending_count)
    rondo_hand_sent(0, RONDO_SUCCESS);
  progress();
  assert_null(l->link);
}

// A registration of before has had that place in the table.
static void what_belongs_to_an_earlier_link_reaches_no_later_one(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(l, 0, SMALL);
  struct rondo_proxy_head close = rondo_hand_head(l, RONDO_PROXY_CLOSE);
  rondo_proxy_link_close(hand->proxy, l->link);
  progress();
  assert_null(l->link);
  struct rondo_hand_link *next = rondo_hand_link(1, 0, 0);
  assert_true(next->number != slot.link);
  assert_false(arrive(&slot));
  assert_null(peek(next));
  assert_false(arrive(&close)); // ... and gets an answer, so that its sender can let go
  assert_int_equal(hand->said.type, RONDO_PROXY_CLOSED);
  progress();
  assert_non_null(next->link);
  assert_int_equal(hand->broken, 0);
}

// ------------------------------------------------ wrong tokens ---

// Nobody answers, and nobody is blamed.
static void expect_refused_in_silence(const void *head, size_t head_bytes, uint64_t bytes) {
  uint64_t refused = counters().refused;
  assert_false(rondo_hand_arrive(head, head_bytes, bytes));
  progress();
  assert_int_equal(counters().refused, refused + 1);
  assert_int_equal(hand->broken, 0);
  assert_int_equal(hand->said_count, 0);
}

static void a_wrong_token_is_ignored(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  for (uint16_t type = 0; type < 6; type++) {
    struct rondo_proxy_head head = rondo_hand_head(l, type);
    head.token ^= UINT64_C(1) << (11 * type);
    expect_refused_in_silence(&head, sizeof head, 0);
  }
  assert_null(peek(l));
}

static void garbage_is_refused_in_silence(void **state) {
  (void)state;
  static const uint8_t noise[64] = {0xff, 0x16, 0x03, 0x01, 0x7f, 'G', 'E', 'T', ' ', '/'};
  (void)rondo_hand_link(1, 0, 0);
  for (size_t size = 0; size <= sizeof noise; size++)
    expect_refused_in_silence(noise, size, 0);
}

static void truncated_and_padded_heads_are_refused_in_silence(void **state) {
  (void)state;
  struct {
    struct rondo_proxy_head head;
    uint8_t more[16];
  } m = {.head = data(rondo_hand_link(1, 0, 0), 0, SMALL)};
  for (size_t size = 0; size <= sizeof m; size++)
    if (size != sizeof m.head)
      expect_refused_in_silence(&m, size, SMALL);
}

static void a_payload_of_another_length_than_its_head_says_is_refused(void **state) {
  (void)state;
  struct rondo_proxy_head head = data(rondo_hand_link(1, 0, 0), 0, SMALL);
  expect_refused_in_silence(&head, sizeof head, SMALL + 1);
  expect_refused_in_silence(&head, sizeof head, 0);
  expect_refused_in_silence(&head, sizeof head, UINT64_C(0x100000000) + SMALL);
}

static void a_message_from_no_process_of_the_job_is_refused(void **state) {
  (void)state;
  struct rondo_proxy_head head = data(rondo_hand_link(1, 0, 0), 0, SMALL);
  head.from = RONDO_HAND_PROCESSES;
  expect_refused_in_silence(&head, sizeof head, SMALL);
  head.from = UINT32_MAX;
  expect_refused_in_silence(&head, sizeof head, SMALL);
}

// ---------------------------------------------------------------- bad members ---

// It is of the job, and no proxy says such a thing: nothing more is taken from it.
static void expect_break(const struct rondo_proxy_head *head) {
  uint64_t refused = counters().refused;
  assert_false(arrive(head));
  progress();
  assert_int_equal(counters().refused, refused + 1);
  assert_int_equal(hand->broken, 1u << head->from);
}

static void a_slot_that_comes_twice_ends_the_connection(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(l, 0, SMALL);
  assert_true(arrive(&slot));
  rondo_hand_land(0, 1, RONDO_SUCCESS);
  expect_break(&slot);
  assert_int_equal(*(const uint8_t *)rondo_slot_payload(&l->ends[0], peek(l)), 1);
}

static void a_slot_that_comes_twice_before_it_has_landed_ends_it_too(void **state) {
  (void)state;
  struct rondo_proxy_head slot = data(rondo_hand_link(1, 0, 0), 0, SMALL);
  assert_true(arrive(&slot));
  expect_break(&slot);
}

static void a_piece_that_cannot_be_ends_the_connection(void **state) {
  (void)state;
  for (uint32_t how = 0; how < 9; how++) {
    struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
    struct rondo_proxy_head head = piece(l, 0, 1, 2);
    assert_true(arrive(&head));
    if (how == 0)
      rondo_hand_land(0, 1, RONDO_SUCCESS); // comes twice, after and before it has landed
    head.piece = how < 2 ? 1 : 0;
    head.bytes -= how == 2;      // of a slot of another size
    head.count += how == 3;      // ... with another word
    head.last_piece -= how == 4; // ... of fewer pieces
    if (how == 5)
      head.last_piece = 0; // ... that comes whole
    head.sequence += how > 5;
    if (how == 6)
      head.piece = 3; // after the last one
    else if (how == 7)
      head.bytes = 2; // fewer bytes than pieces
    else if (how == 8)
      head.last_piece = RONDO_PROXY_PIECES;
    expect_break(&head);
    assert_null(peek(l));
    rondo_hand_close();
    rondo_hand_open();
  }
}

static void a_slot_without_credit_ends_the_connection(void **state) {
  (void)state;
  struct rondo_proxy_head slot = data(rondo_hand_link(1, 0, 0), RONDO_HAND_SLOTS, SMALL);
  expect_break(&slot);
}

static void an_oversized_slot_ends_the_connection(void **state) {
  (void)state;
  struct rondo_proxy_head slot = data(rondo_hand_link(1, 0, 0), 0, RONDO_HAND_SLOT_BYTES + 1);
  expect_break(&slot);
}

static void a_slot_with_a_false_credit_ends_the_connection(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(in, 0, SMALL);
  slot.credit_link = in->number; // where slots come from, not where they go
  expect_break(&slot);
  assert_null(peek(in));
}

static void a_slot_of_no_block_ends_the_connection(void **state) {
  (void)state;
  struct rondo_proxy_head slot = data(rondo_hand_link(1, 0, 0), 0, SMALL);
  slot.block = RONDO_HAND_BLOCKS;
  expect_break(&slot);
}

static void a_credit_of_no_block_ends_the_connection(void **state) {
  (void)state;
  struct rondo_proxy_head credit = rondo_hand_head(rondo_hand_link(1, 1, 0), RONDO_PROXY_CREDIT);
  credit.block = RONDO_HAND_BLOCKS;
  expect_break(&credit);
}

static void a_message_for_the_other_end_of_a_link_ends_the_connection(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *out = rondo_hand_link(2, 1, 0);
  struct rondo_proxy_head credit = rondo_hand_head(in, RONDO_PROXY_CREDIT);
  expect_break(&credit);
  hand->broken = 0;
  struct rondo_proxy_head slot = data(out, 0, SMALL);
  expect_break(&slot);
}

static void a_close_that_cannot_be_ends_the_connection(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(l, 0, 0);
  struct rondo_proxy_head close = rondo_hand_head(l, RONDO_PROXY_CLOSE);
  assert_false(arrive(&slot));
  expect_break(&close); // of fewer slots than have come
  progress();
  assert_non_null(l->link);
}

static void a_second_close_ends_the_connection(void **state) {
  (void)state;
  struct rondo_proxy_head close = rondo_hand_head(rondo_hand_link(1, 0, 0), RONDO_PROXY_CLOSE);
  close.count = 5;
  assert_false(arrive(&close));
  expect_break(&close);
}

static void a_type_that_does_not_exist_ends_the_connection(void **state) {
  (void)state;
  struct rondo_proxy_head head = rondo_hand_head(rondo_hand_link(1, 0, 0), 9);
  expect_break(&head);
}

static void nobody_speaks_for_another_process(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(l, 0, SMALL);
  slot.from = 2;
  assert_false(arrive(&slot));
  progress();
  assert_int_equal(hand->broken, 0); // it may be late, for a link that is over
  slot.from = 1;
  assert_true(arrive(&slot));
}

// ------------------------------------------------------------------------- loss ---

static void links_with_a_lost_process_end_when_nothing_touches_their_memory(void **state) {
  (void)state;
  struct rondo_hand_link *in = rondo_hand_link(1, 0, 0);
  struct rondo_hand_link *out = rondo_hand_link(1, 1, 0);
  struct rondo_hand_link *other = rondo_hand_link(2, 0, 0);
  struct rondo_proxy_head slot = data(in, 0, SMALL);
  rondo_proxy_link_bind(hand->proxy, out->link, 99);
  publish(out, SMALL, 1);
  progress();
  assert_true(arrive(&slot));
  rondo_proxy_lose(hand->proxy, 1);
  progress();
  assert_non_null(in->link);
  assert_non_null(out->link);
  rondo_hand_land(0, 1, RONDO_ERR_PEER);
  rondo_hand_sent(0, RONDO_ERR_PEER);
  progress();
  assert_null(in->link);
  assert_null(out->link);
  assert_false(in->is_whole);
  assert_non_null(other->link);
  assert_null(peek(in));
  struct rondo_proxy_head late = data(other, 0, SMALL);
  assert_true(arrive(&late));
  late.from = 1;
  assert_false(arrive(&late));
  assert_int_equal(counters().refused, 1);
}

static void what_has_not_landed_is_not_shown(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(1, 0, 0);
  struct rondo_proxy_head slot = data(l, 0, SMALL);
  assert_true(arrive(&slot));
  rondo_hand_land(0, 1, RONDO_ERR_PEER);
  progress();
  assert_null(peek(l));
  assert_int_equal(hand->broken, 1u << 1);
}

static void a_message_that_cannot_be_sent_is_reported(void **state) {
  (void)state;
  struct rondo_hand_link *l = rondo_hand_link(2, 1, 0);
  rondo_proxy_link_bind(hand->proxy, l->link, 99);
  publish(l, SMALL, 1);
  hand->refuses = 1;
  progress();
  assert_int_equal(hand->broken, 1u << 2);
  assert_int_equal(l->first->consumed, 0);
}

static void addresses_are_taken_once_and_only_of_the_same_carrier(void **state) {
  (void)state;
  struct {
    struct rondo_proxy_address head;
    uint32_t process;
  } address = {.head = {.carrier = "hand"}};
  assert_int_equal(rondo_proxy_meet(hand->proxy, 1, &address, sizeof address), RONDO_ERR_INVALID);
  assert_int_equal(rondo_proxy_meet(hand->proxy, 0, &address, sizeof address.head),
                   RONDO_ERR_INVALID);
  assert_int_equal(rondo_proxy_meet(hand->proxy, RONDO_HAND_PROCESSES, &address, sizeof address),
                   RONDO_ERR_INVALID);
  memcpy(address.head.carrier, "handcarrierofall", sizeof address.head.carrier); // no end
  assert_int_equal(rondo_proxy_meet(hand->proxy, 0, &address, sizeof address), RONDO_ERR_INVALID);
}

// The other side may have offered before the connectors here are written. Were the link ready then,
// it would never be opened, nor offered.
static void a_link_is_not_ready_before_it_is_opened(void **state) {
  (void)state;
  struct rondo_transport_peer peer = {0};
  struct rondo_transports t = {.peer_count = 1, .peers = &peer};
  struct rondo_communicator comm = {.joined = 0};
  struct rondo_link link = {.process = 0, .is_proxied = 1};
  assert_int_equal(rondo_binding_bind(&t, &comm, &link, NULL, 0), RONDO_BINDING_WAITS);
  assert_false(link.is_ready);
  link.is_opened = 1; // and is over, perhaps: its slots overtake the offer
  assert_int_equal(rondo_binding_bind(&t, &comm, &link, NULL, 0), RONDO_BINDING_READY);
  assert_true(link.is_ready);
}

#define TEST(function)                                                                             \
  { "proxy." #function, function, open_hand, close_hand, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(slots_may_arrive_in_any_order),
      TEST(a_slot_is_free_when_it_has_been_sent_and_consumed),
      TEST(slots_use_all_endpoints_and_other_messages_one),
      TEST(the_number_of_endpoints_may_change_at_any_time),
      TEST(credits_of_small_slots_share_a_message),
      TEST(a_credit_goes_with_the_next_slot),
      TEST(a_credit_that_comes_with_a_slot_counts),
      TEST(a_large_slot_is_sent_in_a_piece_over_each_endpoint),
      TEST(a_slot_is_sent_whole_if_pieces_would_be_small_or_there_is_one_endpoint),
      TEST(a_slot_is_free_when_all_its_pieces_have_been_sent),
      TEST(a_slot_is_shown_when_all_its_pieces_have_landed),
      TEST(a_link_ends_with_the_last_piece_of_its_last_slot),
      TEST(a_consumer_that_closes_waits_for_no_missing_piece),
      TEST(a_slot_of_which_a_piece_is_lost_is_not_shown),
      TEST(a_piece_that_cannot_be_sent_is_reported),
      TEST(links_without_runs_are_not_looked_at_until_one_is_submitted),
      TEST(links_do_not_sleep_while_anything_is_to_be_done),
      TEST(a_message_wakes_the_link_that_it_is_for),
      TEST(links_that_sleep_end_with_their_process),
      TEST(a_forgotten_link_set_is_not_woken),
      TEST(the_latest_link_gets_its_credit_first),
      TEST(a_flush_returns_when_all_has_been_sent),
      TEST(a_flush_after_a_round_that_received_does_not_receive_again),
      TEST(only_a_message_with_the_token_identifies_its_sender),
      TEST(a_rank_that_leaves_sends_no_credit_that_can_wait),
      TEST(flush_gives_up_on_what_does_not_move),
      TEST(a_link_ends_with_its_last_slot),
      TEST(an_outgoing_link_ends_when_the_other_side_has_all),
      TEST(what_belongs_to_an_earlier_link_reaches_no_later_one),
      TEST(a_wrong_token_is_ignored),
      TEST(garbage_is_refused_in_silence),
      TEST(truncated_and_padded_heads_are_refused_in_silence),
      TEST(a_payload_of_another_length_than_its_head_says_is_refused),
      TEST(a_message_from_no_process_of_the_job_is_refused),
      TEST(a_slot_that_comes_twice_ends_the_connection),
      TEST(a_slot_that_comes_twice_before_it_has_landed_ends_it_too),
      TEST(a_piece_that_cannot_be_ends_the_connection),
      TEST(a_slot_without_credit_ends_the_connection),
      TEST(an_oversized_slot_ends_the_connection),
      TEST(a_slot_with_a_false_credit_ends_the_connection),
      TEST(a_slot_of_no_block_ends_the_connection),
      TEST(a_credit_of_no_block_ends_the_connection),
      TEST(a_message_for_the_other_end_of_a_link_ends_the_connection),
      TEST(a_close_that_cannot_be_ends_the_connection),
      TEST(a_second_close_ends_the_connection),
      TEST(a_type_that_does_not_exist_ends_the_connection),
      TEST(nobody_speaks_for_another_process),
      TEST(links_with_a_lost_process_end_when_nothing_touches_their_memory),
      TEST(what_has_not_landed_is_not_shown),
      TEST(a_message_that_cannot_be_sent_is_reported),
      TEST(a_link_is_not_ready_before_it_is_opened),
      TEST(addresses_are_taken_once_and_only_of_the_same_carrier),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
