// Any messages, in any order, from those who know a proxy's token and those who do not, while
// blocks publish and consume, links end and processes are lost: what a block is shown has landed,
// once, in its own slot; what is sent stays as it is until it has been sent; each link ends once.
//
// An input is a row of happenings, a byte each with what follows it: see `happen`.
#include "tests/support/fuzz.h"
#include "tests/support/hand_carrier.h"

#define LAPS 64u // remembered slots of a block

// What a block has received and published, by the low bits of the sequence number.
struct block_log {
  uint8_t values[LAPS];
  uint32_t first, published;
};

static struct block_log block_logs[RONDO_HAND_LINKS][RONDO_HAND_BLOCKS];
static struct rondo_hand *const hand = &rondo_hand;

static struct rondo_hand_link *choose(struct rondo_fuzz_input *in, uint32_t *index) {
  *index = (uint32_t)rondo_fuzz_take(in, 1) % hand->link_count;
  return &hand->links[*index];
}

static struct rondo_connector *connector(const struct rondo_hand_link *l, uint32_t block) {
  return (struct rondo_connector *)((char *)l->first + block * l->stride_bytes);
}

static int is_outgoing(uint32_t index) { return index % 2 == 1; }

static int overlaps(const struct rondo_hand_pending *p, const uint8_t *at, uint64_t bytes) {
  return p->to < at + bytes && at < p->to + p->bytes;
}

// The slot that a payload has been given lies within its link, and holds it. Nothing else lands
// there.
static void check_target(const struct rondo_hand_link *l, const struct rondo_proxy_head *head) {
  const struct rondo_hand_pending *p = &hand->landing[hand->landing_count - 1];
  RONDO_FUZZ_CHECK(head->block < RONDO_HAND_BLOCKS && head->bytes <= RONDO_HAND_SLOT_BYTES);
  struct rondo_endpoint end = l->ends[head->block];
  end.sequence = head->sequence;
  const uint8_t *payload = rondo_connector_payload(&end, head->bytes);
  RONDO_FUZZ_CHECK(p->to == payload + rondo_proxy_piece_at(head, head->piece));
  RONDO_FUZZ_CHECK(p->bytes && p->to + p->bytes <= payload + head->bytes);
  for (uint32_t i = 0; i + 1 < hand->landing_count; i++)
    RONDO_FUZZ_CHECK(!overlaps(&hand->landing[i], p->to, p->bytes));
  // The block has been through with what was there before.
  RONDO_FUZZ_CHECK(head->sequence - l->ends[head->block].sequence < RONDO_HAND_SLOTS);
}

// A message nearly as a proxy would say it.
static void arrive(struct rondo_fuzz_input *in) {
  uint32_t index;
  const struct rondo_hand_link *l = choose(in, &index);
  uint8_t how = (uint8_t)rondo_fuzz_take(in, 1);
  struct rondo_proxy_head head = rondo_hand_head(l, RONDO_PROXY_DATA + how % 4);
  head.block = how >> 2 & 1;
  head.sequence = l->ends[head.block].sequence + (uint32_t)(int8_t)rondo_fuzz_take(in, 1) / 16;
  head.count = rondo_fuzz_take(in, 1) % 16;
  head.bytes = head.type == RONDO_PROXY_DATA ? (uint32_t)rondo_fuzz_take(in, 1) : 0;
  if (how & 0x40) {
    head.credit_link = choose(in, &index)->number;
    head.credit_sequence = (uint32_t)(int8_t)rondo_fuzz_take(in, 1) / 16;
    head.credit_block = how >> 5 & 1;
  }
  if (head.type == RONDO_PROXY_DATA && how & 0x10) { // a piece of one of two slots
    uint8_t which = (uint8_t)rondo_fuzz_take(in, 1);
    head.last_piece = which / 4 % 4;
    head.piece = which % 4;
    head.count = 7;
    head.bytes = how & 8 ? 150 : 30;
  }
  uint64_t bytes = rondo_proxy_payload_bytes(&head);
  size_t size = sizeof head;
  uint32_t spoilt = how & 0x80 ? (uint32_t)rondo_fuzz_take(in, 1) % 4 : 0;
  for (uint32_t i = 0; i < spoilt; i++) {
    uint32_t at = (uint32_t)rondo_fuzz_take(in, 1) % (sizeof head + 2);
    uint8_t value = (uint8_t)rondo_fuzz_take(in, 1);
    if (at < sizeof head)
      ((uint8_t *)&head)[at] = value;
    else if (at == sizeof head)
      size = value % sizeof head;
    else
      bytes += value;
  }
  int known =
      size == sizeof head && head.token == hand->token && bytes == rondo_proxy_payload_bytes(&head);
  if (!rondo_hand_arrive(&head, size, bytes))
    return;
  RONDO_FUZZ_CHECK(known && head.type == RONDO_PROXY_DATA);
  for (uint32_t i = 0; i < hand->link_count; i++)
    if (hand->links[i].number == head.link)
      check_target(&hand->links[i], &head);
}

static void stray(struct rondo_fuzz_input *in) {
  uint8_t bytes[RONDO_CARRIER_HEAD_BYTES] = {0};
  size_t size = rondo_fuzz_take(in, 1) % sizeof bytes;
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)rondo_fuzz_take(in, 1);
  RONDO_FUZZ_CHECK(!rondo_hand_arrive(bytes, size, rondo_fuzz_take(in, 4)));
}

static void land(struct rondo_fuzz_input *in) {
  uint8_t which = (uint8_t)rondo_fuzz_take(in, 1);
  if (hand->landing_count)
    rondo_hand_land(which % 16 % hand->landing_count, which | 1, which >= 240 ? RONDO_ERR_PEER : 0);
}

static void sent(struct rondo_fuzz_input *in) {
  uint8_t which = (uint8_t)rondo_fuzz_take(in, 1);
  if (hand->sending_count)
    rondo_hand_sent(which % 16 % hand->sending_count, which >= 240 ? RONDO_ERR_PEER : 0);
}

static void publish(struct rondo_hand_link *l, struct block_log *block_log, uint32_t block,
                    uint8_t what) {
  struct rondo_endpoint *end = &l->ends[block];
  uint32_t bytes = what % (RONDO_HAND_SLOT_BYTES + 1);
  if (!rondo_connector_try_reserve(end))
    return;
  memset(rondo_connector_payload(end, bytes), what, bytes);
  rondo_connector_publish(end, NULL, bytes);
  block_log->published++;
}

static void consume(struct rondo_hand_link *l, uint32_t block) {
  struct rondo_endpoint *end = &l->ends[block];
  const struct rondo_slot *slot = rondo_connector_try_peek(end);
  if (!slot)
    return;
  uint8_t *payload = rondo_connector_payload(end, slot->bytes);
  RONDO_FUZZ_CHECK(!rondo_slot_is_reference(slot) && slot->bytes <= RONDO_HAND_SLOT_BYTES);
  for (uint32_t i = 0; i < slot->bytes; i++)
    RONDO_FUZZ_CHECK(payload[i]); // it has landed, and whole
  for (uint32_t i = 0; i < hand->landing_count; i++)
    RONDO_FUZZ_CHECK(!overlaps(&hand->landing[i], payload, slot->bytes));
  memset(payload, 0, slot->bytes);
  rondo_connector_consume(end);
}

static void step_block(struct rondo_fuzz_input *in) {
  uint32_t index;
  struct rondo_hand_link *l = choose(in, &index);
  uint8_t what = (uint8_t)rondo_fuzz_take(in, 1);
  uint32_t block = what >> 7;
  if (is_outgoing(index))
    publish(l, &block_logs[index][block], block, what);
  else
    consume(l, block);
}

static void wish(struct rondo_fuzz_input *in) {
  uint32_t index;
  const struct rondo_hand_link *l = choose(in, &index);
  uint8_t what = (uint8_t)rondo_fuzz_take(in, 1);
  if (what % 16 == 0)
    rondo_proxy_lose(hand->proxy, 1 + what / 16 % (RONDO_HAND_PROCESSES - 1));
  else if (what % 16 == 1)
    hand->events->broken(hand->arg, what / 16, "fuzz");
  else if (l->link && what % 2)
    rondo_proxy_link_close(hand->proxy, l->link);
  else if (l->link && is_outgoing(index))
    rondo_proxy_link_bind(hand->proxy, l->link, 77);
}

// A mirror's producer is given no slot back that it has not published, and none that is on its way.
static void check_mirrors(void) {
  for (uint32_t i = 1; i < hand->link_count; i += 2)
    for (uint32_t b = 0; b < RONDO_HAND_BLOCKS; b++)
      RONDO_FUZZ_CHECK(connector(&hand->links[i], b)->consumed <= block_logs[i][b].published);
}

static void happen(struct rondo_fuzz_input *in) {
  switch (rondo_fuzz_take(in, 1) % 8) {
  case 0:
  case 1:
    arrive(in);
    break;
  case 2:
    stray(in);
    break;
  case 3:
    land(in);
    break;
  case 4:
    sent(in);
    break;
  case 5:
    step_block(in);
    break;
  case 6:
    wish(in);
    break;
  default:
    (void)rondo_proxy_progress(hand->proxy);
  }
  check_mirrors();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  memset(block_logs, 0, sizeof block_logs);
  rondo_hand_open();
  for (uint32_t i = 0; i < RONDO_HAND_LINKS; i++)
    (void)rondo_hand_link(1 + i / 2, is_outgoing(i), 0);
  for (uint32_t i = 0; i < 200 && in.size; i++)
    happen(&in);
  (void)rondo_proxy_progress(hand->proxy);
  rondo_hand_close();
  return 0;
}
