// The connector: inline, payload memory and references, full, empty, the wrap at 2^32, two threads.
#include <pthread.h>
#include <sched.h>

#include "base/atomic.h"

#define DAWDLE_EVERY 64u

// A thread that dawdles yields before some of its stores of marks and of `consumed`. So the other
// side has time to look when it is told too early.
static _Thread_local uint32_t dawdles, stores;

static inline void store_mark(uint32_t *p, uint32_t v) {
  if (dawdles && stores++ % DAWDLE_EVERY == 0)
    sched_yield();
  rondo_store_release_u32(p, v);
}

// NOLINTNEXTLINE(readability-identifier-naming): it stands for the accessor
#define rondo_store_release_u32 store_mark
#include "queues/connector_core.h"
#undef rondo_store_release_u32

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/load.h"
#include "tests/support/named.h"

#define SLOTS 4u
#define SLOT_BYTES 256u
// A connector, its slots and their payload memory, in whole lines.
#define RIG_BYTES (2 * RONDO_LINE_BYTES + SLOTS * 64 + SLOTS * SLOT_BYTES)

struct rig {
  struct rondo_connector *connector; // followed by its slots and their payload memory
  unsigned char *payload;
  struct rondo_endpoint producer, consumer;
};

// Lets both sides take the connector's constants.
static void rig_open(struct rig *r) {
  rondo_endpoint_open_send(&r->producer);
  rondo_endpoint_open_recv(&r->consumer);
}

static void rig_init(struct rig *r, uint32_t first_sequence) {
  r->connector = aligned_alloc(RONDO_LINE_BYTES, RIG_BYTES);
  assert_non_null(r->connector);
  memset(r->connector, 0xa5, RIG_BYTES);
  r->payload = (unsigned char *)r->connector + rondo_connector_bytes(SLOTS);
  r->connector->payload = rondo_connector_bytes(SLOTS);
  r->connector->slot_count = SLOTS;
  r->connector->slot_bytes = SLOT_BYTES;
  r->connector->reference_bytes = UINT32_MAX;
  r->connector->reads_private = 0;
  rondo_connector_init(r->connector, first_sequence);
  rondo_endpoint_init(&r->producer, r->connector, r->connector->first_sequence);
  rondo_endpoint_init(&r->consumer, r->connector, r->connector->first_sequence);
  rig_open(r);
}

static void rig_fini(struct rig *r) { free(r->connector); }

static uint64_t address_of(const uint8_t *byte) { return (uint64_t)(uintptr_t)byte; }

static uint64_t distance_of(const struct rondo_connector *c, const uint8_t *flag) {
  return address_of(flag) - (uint64_t)(uintptr_t)c;
}

static unsigned char byte_of(uint32_t number, uint32_t at) {
  return (unsigned char)(number * 31u + at * 7u + 1u);
}

// Sizes on both sides of what is held inline, and the most.
static uint32_t bytes_of(uint32_t number) {
  static const uint32_t sizes[] = {0, 1, RONDO_CONNECTOR_INLINE_BYTES,
                                   RONDO_CONNECTOR_INLINE_BYTES + 1, SLOT_BYTES};
  return sizes[number % (sizeof sizes / sizeof *sizes)];
}

static void send_number(struct rondo_endpoint *e, uint32_t number) {
  uint32_t bytes = bytes_of(number);
  unsigned char *to = rondo_connector_payload(e, bytes);
  for (uint32_t i = 0; i < bytes; i++)
    to[i] = byte_of(number, i);
  rondo_connector_publish(e, NULL, bytes);
}

// 1 if the slot holds what send_number wrote.
static int holds_number(const struct rondo_endpoint *e, const struct rondo_slot *slot,
                        uint32_t number) {
  uint32_t bytes = bytes_of(number);
  const unsigned char *from = rondo_slot_payload(e, slot);
  if (slot->bytes != bytes || rondo_slot_is_reference(slot))
    return 0;
  for (uint32_t i = 0; i < bytes; i++)
    if (from[i] != byte_of(number, i))
      return 0;
  return 1;
}

static void expect_number(struct rondo_endpoint *e, uint32_t number) {
  const struct rondo_slot *slot = rondo_connector_try_peek(e);
  assert_non_null(slot);
  assert_true(holds_number(e, slot, number));
  rondo_connector_consume(e);
}

static void is_empty_at_first(void **state) {
  (void)state;
  const uint32_t firsts[] = {0, 1, SLOTS - 1, SLOTS, UINT32_MAX - SLOTS, UINT32_MAX};
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    struct rig r;
    rig_init(&r, firsts[i]);
    assert_null(rondo_connector_try_peek(&r.consumer));
    assert_true(rondo_connector_try_reserve(&r.producer));
    assert_true(rondo_connector_is_drained(&r.producer, r.producer.sequence));
    rig_fini(&r);
  }
}

// Packets of 16 bytes, written and taken by hand: four halves.
static void packets_put(struct rondo_endpoint *e, uint32_t number) {
  const struct rondo_packets p = rondo_connector_packets(e);
  uint64_t *halves = (uint64_t *)(uintptr_t)p.at;
  for (uint32_t i = 4; i-- > 0;) // the one that is looked at comes last
    rondo_store_release_u64(&halves[i], rondo_packet_half(number + i, p.mark));
  rondo_connector_publish_packets(e);
}

// Returns whether all have come, and then hold `number`.
static int packets_try_take(struct rondo_endpoint *e, uint32_t number) {
  const struct rondo_packets p = rondo_connector_packets(e);
  const uint64_t *halves = (const uint64_t *)(uintptr_t)p.at;
  if (!rondo_connector_try_peek_packets(e))
    return 0;
  for (uint32_t i = 0; i < 4; i++) {
    uint64_t half = rondo_load_acquire_u64(&halves[i]);
    if (half >> 32 != p.mark)
      return 0;
    assert_int_equal((uint32_t)half, number + i);
  }
  rondo_connector_consume_packets(e);
  return 1;
}

// What memory held before, and what a slot held a lap before, are no packets. Both sides go on
// through the end of the numbers.
static void packets_are_those_of_their_slot(void **state) {
  (void)state;
  // With the last one, the memory of the rig would hold packets if it kept its bytes.
  const uint32_t firsts[] = {0, 1, SLOTS, 0u - SLOTS, UINT32_MAX - 1, UINT32_MAX, 0xa5a5a5a4};
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    struct rig r;
    rig_init(&r, firsts[i]);
    assert_false(r.consumer.has_packets);
    rondo_connector_init_packets(r.connector);
    rig_open(&r);
    assert_true(r.producer.has_packets && r.consumer.has_packets);
    for (uint32_t number = 0; number < 5 * SLOTS; number++) {
      if (number % SLOTS != 2) // nothing is on its way
        assert_false(packets_try_take(&r.consumer, number));
      packets_put(&r.producer, number);
      if (number % SLOTS == 1)
        continue;
      if (number % SLOTS == 2)
        assert_true(packets_try_take(&r.consumer, number - 1));
      assert_true(packets_try_take(&r.consumer, number));
    }
    rig_fini(&r);
  }
}

static void small_payloads_lie_beside_the_mark(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r, 0);
  struct rondo_slot *slot = rondo_connector_slot(r.connector, 0);
  assert_ptr_equal(rondo_connector_payload(&r.producer, RONDO_CONNECTOR_INLINE_BYTES), slot->data);
  assert_ptr_equal(rondo_connector_payload(&r.producer, RONDO_CONNECTOR_INLINE_BYTES + 1),
                   r.payload);
  rig_fini(&r);
}

static void passes_every_size(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r, 0);
  for (uint32_t n = 0; n < 40; n++) {
    assert_true(rondo_connector_try_reserve(&r.producer));
    send_number(&r.producer, n);
    expect_number(&r.consumer, n);
    assert_null(rondo_connector_try_peek(&r.consumer));
  }
  rig_fini(&r);
}

static void passes_references_without_copying(void **state) {
  (void)state;
  static const unsigned char theirs[1000] = {42};
  struct rig r;
  rig_init(&r, 0);
  rondo_connector_publish(&r.producer, theirs, sizeof theirs);
  const struct rondo_slot *slot = rondo_connector_try_peek(&r.consumer);
  assert_non_null(slot);
  assert_true(rondo_slot_is_reference(slot));
  assert_ptr_equal(rondo_slot_payload(&r.consumer, slot), theirs);
  assert_int_equal(slot->bytes & ~RONDO_SLOT_REFERENCE, sizeof theirs);
  assert_true(rondo_connector_try_begin_reading(&r.consumer));
  assert_true(rondo_connector_try_end_reading(&r.consumer));
  rig_fini(&r);
}

// The word takes no place from a payload of any size, and none from a reference.
static void passes_a_word_beside_the_payload(void **state) {
  (void)state;
  static const unsigned char theirs[1000] = {42};
  struct rig r;
  rig_init(&r, 0);
  for (uint32_t n = 0; n < 20; n++) {
    uint64_t word = UINT64_C(0xfedcba9876543210) + n;
    const struct rondo_slot *slot;
    rondo_connector_put_word(&r.producer, true, word);
    rondo_connector_publish(&r.producer, theirs, sizeof theirs);
    slot = rondo_connector_try_peek(&r.consumer);
    assert_non_null(slot);
    assert_true(rondo_slot_word(slot) == word);
    assert_ptr_equal(rondo_slot_payload(&r.consumer, slot), theirs);
    rondo_connector_consume(&r.consumer);
    rondo_connector_put_word(&r.producer, false, ~word);
    send_number(&r.producer, n);
    slot = rondo_connector_try_peek(&r.consumer);
    assert_non_null(slot);
    assert_true(rondo_slot_word(slot) == ~word);
    expect_number(&r.consumer, n);
  }
  rig_fini(&r);
}

static void only_what_lies_in_the_range_is_referred_to(void **state) {
  (void)state;
  static const unsigned char theirs[100];
  struct rig r;
  rig_init(&r, 0);
  r.connector->reference_bytes = 10;
  rig_open(&r);
  assert_true(rondo_connector_can_refer(&r.producer, theirs, 10));
  assert_false(rondo_connector_can_refer(&r.producer, theirs, 9));
  r.connector->reference_begin = (uint64_t)(uintptr_t)theirs + 20;
  r.connector->reference_end = (uint64_t)(uintptr_t)theirs + 80;
  rig_open(&r);
  assert_true(rondo_connector_can_refer(&r.producer, theirs + 20, 60));
  assert_false(rondo_connector_can_refer(&r.producer, theirs + 19, 60));
  assert_false(rondo_connector_can_refer(&r.producer, theirs + 21, 60));
  assert_false(rondo_connector_can_refer(&r.producer, theirs + 81, 10));
  assert_false(rondo_connector_can_refer(&r.producer, theirs + 20, UINT64_MAX));
  rig_fini(&r);
}

// The connector's constants may be across a link.
static void an_open_side_reads_no_constants(void **state) {
  (void)state;
  static const unsigned char theirs[1000];
  struct rig r;
  uint8_t told[4] = {0};
  rig_init(&r, 0);
  r.connector->reference_bytes = sizeof theirs;
  r.connector->producer_ready = address_of(&told[0]);
  r.connector->consumer_ready = address_of(&told[1]);
  r.connector->producer_flag = distance_of(r.connector, &told[2]);
  r.connector->consumer_flag = distance_of(r.connector, &told[3]);
  rig_open(&r);
  const size_t first = offsetof(struct rondo_connector, slot_count);
  const size_t is_mapped = offsetof(struct rondo_connector, is_mapped);
  memset((char *)r.connector + first, 0xa5, is_mapped - first);
  for (uint32_t n = 0; n < 3 * SLOTS; n++) {
    assert_true(rondo_connector_try_reserve(&r.producer));
    send_number(&r.producer, n);
    expect_number(&r.consumer, n);
  }
  assert_false(rondo_connector_reads_private(&r.producer));
  assert_false(rondo_connector_has_no_references(&r.producer));
  assert_true(rondo_connector_can_refer(&r.producer, theirs, sizeof theirs));
  rondo_connector_publish(&r.producer, theirs, sizeof theirs);
  const struct rondo_slot *slot = rondo_connector_try_peek(&r.consumer);
  assert_ptr_equal(rondo_slot_payload(&r.consumer, slot), theirs);
  for (size_t i = 0; i < sizeof told; i++)
    assert_int_equal(told[i], 1);
  rig_fini(&r);
}

static void a_run_that_fails_waits_for_its_reader_in_one_process(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r, 0);
  assert_true(rondo_connector_try_begin_reading(&r.consumer));
  assert_false(rondo_connector_try_shut(&r.producer));
  assert_true(rondo_connector_try_end_reading(&r.consumer)); // the buffer was kept until here
  assert_true(rondo_connector_try_shut(&r.producer));
  assert_false(rondo_connector_try_begin_reading(&r.consumer));
  rig_fini(&r);
}

static void what_a_reader_with_its_own_mapping_has_read_does_not_count_then(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r, 0);
  r.connector->is_mapped = 1;
  assert_true(rondo_connector_try_begin_reading(&r.consumer));
  assert_true(rondo_connector_try_end_reading(&r.consumer));
  assert_true(rondo_connector_try_begin_reading(&r.consumer));
  assert_true(rondo_connector_try_shut(&r.producer)); // nobody waits for it
  assert_false(rondo_connector_try_end_reading(&r.consumer));
  assert_false(rondo_connector_try_begin_reading(&r.consumer));
  rig_fini(&r);
}

// One file mapped twice stands for two processes.
static void both_sides_may_map_the_connector_where_they_like(void **state) {
  (void)state;
  size_t bytes = 65536;
  int fd = memfd_create("connector", MFD_CLOEXEC);
  assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
  unsigned char *theirs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unsigned char *ours = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(theirs != MAP_FAILED && ours != MAP_FAILED && ours != theirs);
  struct rondo_connector *c = (struct rondo_connector *)ours;
  struct rondo_endpoint producer, consumer;
  c->payload = rondo_connector_bytes(SLOTS);
  c->slot_count = SLOTS;
  c->slot_bytes = SLOT_BYTES;
  rondo_connector_init(c, 7);
  c->reference_bias = (uint64_t)(uintptr_t)ours - (uint64_t)(uintptr_t)theirs;
  rondo_endpoint_init(&producer, (struct rondo_connector *)theirs, c->first_sequence);
  rondo_endpoint_init(&consumer, c, c->first_sequence);
  rondo_endpoint_open_send(&producer);
  rondo_endpoint_open_recv(&consumer);
  for (uint32_t n = 0; n < 20; n++) {
    assert_true(rondo_connector_try_reserve(&producer));
    send_number(&producer, n);
    expect_number(&consumer, n);
  }
  theirs[50000] = 42;
  rondo_connector_publish(&producer, theirs + 50000, 1000);
  const struct rondo_slot *slot = rondo_connector_try_peek(&consumer);
  assert_ptr_equal(rondo_slot_payload(&consumer, slot), ours + 50000);
  assert_int_equal(*(const unsigned char *)rondo_slot_payload(&consumer, slot), 42);
  munmap(theirs, bytes);
  munmap(ours, bytes);
  close(fd);
}

static void full_gives_no_slot_until_one_is_consumed(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r, 0);
  for (uint32_t n = 0; n < SLOTS; n++) {
    assert_true(rondo_connector_try_reserve(&r.producer));
    send_number(&r.producer, n);
  }
  assert_false(rondo_connector_try_reserve(&r.producer));
  assert_false(rondo_connector_is_drained(&r.producer, r.producer.sequence));
  expect_number(&r.consumer, 0);
  assert_true(rondo_connector_is_drained(&r.producer, 1));
  assert_false(rondo_connector_is_drained(&r.producer, 2));
  assert_true(rondo_connector_try_reserve(&r.producer));
  send_number(&r.producer, SLOTS);
  assert_false(rondo_connector_try_reserve(&r.producer));
  for (uint32_t n = 1; n <= SLOTS; n++)
    expect_number(&r.consumer, n);
  assert_true(rondo_connector_is_drained(&r.producer, r.producer.sequence));
  rig_fini(&r);
}

// Fills the connector with `fill` slots and empties it again.
static void fill_and_empty(struct rig *r, uint32_t first, uint32_t fill) {
  for (uint32_t i = 0; i < fill; i++) {
    assert_true(rondo_connector_try_reserve(&r->producer));
    send_number(&r->producer, first + i);
  }
  assert_int_equal(rondo_connector_try_reserve(&r->producer), fill < SLOTS);
  for (uint32_t i = 0; i < fill; i++)
    expect_number(&r->consumer, first + i);
  assert_null(rondo_connector_try_peek(&r->consumer));
  assert_true(rondo_connector_is_drained(&r->producer, r->producer.sequence));
}

static void wraps_at_uint32_max(void **state) {
  (void)state;
  for (uint32_t before = 0; before <= 2 * SLOTS; before++) {
    for (uint32_t fill = 1; fill <= SLOTS; fill++) {
      struct rig r;
      rig_init(&r, 0u - before);
      for (uint32_t n = 0; n < 4 * SLOTS; n += fill)
        fill_and_empty(&r, n, fill);
      rig_fini(&r);
    }
  }
}

struct consumer {
  struct rondo_endpoint endpoint;
  uint32_t count;
  uint64_t wrong;
};

static void *consume(void *arg) {
  struct consumer *c = arg;
  for (uint32_t n = 0; n < c->count; n++) {
    const struct rondo_slot *slot = rondo_connector_try_peek(&c->endpoint);
    while (!slot) {
      sched_yield();
      slot = rondo_connector_try_peek(&c->endpoint);
    }
    c->wrong += !holds_number(&c->endpoint, slot, n);
    rondo_connector_consume(&c->endpoint);
  }
  return NULL;
}

static void hands_over_between_threads(void **state) {
  (void)state;
  struct rig r;
  pthread_t thread;
  rig_init(&r, UINT32_MAX - 1000);
  struct consumer c = {r.consumer, (uint32_t)rondo_test_load(200000, 10000), 0};
  assert_int_equal(pthread_create(&thread, NULL, consume, &c), 0);
  for (uint32_t n = 0; n < c.count; n++) {
    while (!rondo_connector_try_reserve(&r.producer))
      sched_yield();
    send_number(&r.producer, n);
  }
  pthread_join(thread, NULL);
  assert_int_equal(c.wrong, 0);
  assert_true(rondo_connector_is_drained(&r.producer, r.producer.sequence));
  rig_fini(&r);
}

// ---- which side is notified ----

static void notifies_the_other_side_if_it_asks_for_that(void **state) {
  (void)state;
  uint8_t producer_ready = 0;
  uint8_t consumer_ready = 0;
  struct rig r;
  rig_init(&r, 0);
  r.connector->producer_ready = address_of(&producer_ready);
  r.connector->consumer_ready = address_of(&consumer_ready);
  rig_open(&r);
  assert_true(rondo_connector_try_reserve(&r.producer));
  send_number(&r.producer, 0);
  assert_int_equal(consumer_ready, 1);
  assert_int_equal(producer_ready, 0);
  consumer_ready = 0;
  expect_number(&r.consumer, 0);
  assert_int_equal(producer_ready, 1);
  assert_int_equal(consumer_ready, 0);
  rig_fini(&r);
}

static void flags_the_collective_of_the_other_side(void **state) {
  (void)state;
  uint8_t producer_flag = 0;
  uint8_t consumer_flag = 0;
  struct rig r;
  rig_init(&r, 0);
  r.connector->producer_flag = distance_of(r.connector, &producer_flag);
  r.connector->consumer_flag = distance_of(r.connector, &consumer_flag);
  rig_open(&r);
  assert_true(rondo_connector_try_reserve(&r.producer));
  send_number(&r.producer, 0);
  assert_int_equal(consumer_flag, 1);
  assert_int_equal(producer_flag, 0);
  consumer_flag = 0;
  expect_number(&r.consumer, 0);
  assert_int_equal(producer_flag, 1);
  assert_int_equal(consumer_flag, 0);
  rig_fini(&r);
}

static void tells_nobody_at_first(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r, 0);
  assert_int_equal(r.connector->producer_ready, 0);
  assert_int_equal(r.connector->consumer_ready, 0);
  assert_int_equal(r.connector->producer_flag, 0);
  assert_int_equal(r.connector->consumer_flag, 0);
  send_number(&r.producer, 0);
  expect_number(&r.consumer, 0);
  rig_fini(&r);
}

static void notifies_the_one_side_that_asks_for_that(void **state) {
  (void)state;
  uint8_t ready = 0;
  struct rig r;
  rig_init(&r, 0);
  r.connector->consumer_ready = address_of(&ready);
  rig_open(&r);
  send_number(&r.producer, 0);
  assert_int_equal(ready, 1);
  ready = 0;
  expect_number(&r.consumer, 0);
  assert_int_equal(ready, 0);
  r.connector->consumer_ready = 0;
  r.connector->producer_ready = address_of(&ready);
  rig_open(&r);
  send_number(&r.producer, 1);
  assert_int_equal(ready, 0);
  expect_number(&r.consumer, 1);
  assert_int_equal(ready, 1);
  rig_fini(&r);
}

#define TOLD_LIMIT_NS 5000000000 // for one message
#define LOOKS_A_YIELD 100u

// A side that looks at its connector only when it has been told.
struct notified_side {
  struct rondo_endpoint endpoint;
  uint8_t *ready;
  uint32_t count, done;
};

static int64_t now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Waits until the byte is set, and takes it back. Returns 0 if that takes too long.
static int await_told(uint8_t *ready) {
  const int64_t begun_ns = now_ns();
  for (uint32_t looks = 1; !rondo_load_relaxed_u8(ready); looks++) {
    rondo_relax();
    if (looks % LOOKS_A_YIELD)
      continue;
    if (now_ns() - begun_ns > TOLD_LIMIT_NS)
      return 0;
    sched_yield();
  }
  return rondo_try_swap_seq_cst_u8(ready, 1, 0);
}

static void *consume_when_notified(void *arg) {
  struct notified_side *side = arg;
  dawdles = 1;
  while (side->done < side->count && await_told(side->ready)) {
    while (rondo_connector_try_peek(&side->endpoint)) {
      rondo_connector_consume(&side->endpoint);
      side->done++;
    }
  }
  return NULL;
}

// Sends one message at a time. A second one would tell the consumer again, and so make up for a
// look that came too early.
static void produce_when_notified(struct notified_side *side) {
  int is_notified = 1;
  dawdles = 1;
  while (side->done < side->count && is_notified) {
    rondo_connector_publish(&side->endpoint, NULL, 0);
    do
      is_notified = await_told(side->ready);
    while (is_notified && !rondo_connector_is_drained(&side->endpoint, side->endpoint.sequence));
    side->done += (uint32_t)is_notified;
  }
  dawdles = 0;
}

static void a_side_that_looks_only_when_notified_misses_nothing(void **state) {
  (void)state;
  static _Alignas(RONDO_LINE_BYTES) uint8_t ready[2 * RONDO_LINE_BYTES];
  const uint32_t count = (uint32_t)rondo_test_load(100000, 10000);
  struct rig r;
  pthread_t thread;
  rig_init(&r, UINT32_MAX - 1000);
  r.connector->producer_ready = address_of(&ready[0]);
  r.connector->consumer_ready = address_of(&ready[RONDO_LINE_BYTES]);
  rig_open(&r);
  struct notified_side producer = {r.producer, &ready[0], count, 0};
  struct notified_side consumer = {r.consumer, &ready[RONDO_LINE_BYTES], count, 0};
  assert_int_equal(pthread_create(&thread, NULL, consume_when_notified, &consumer), 0);
  produce_when_notified(&producer);
  pthread_join(thread, NULL);
  assert_int_equal(consumer.done, count);
  assert_int_equal(producer.done, count);
  rig_fini(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("connector", is_empty_at_first),
      RONDO_NAMED_TEST("connector", packets_are_those_of_their_slot),
      RONDO_NAMED_TEST("connector", small_payloads_lie_beside_the_mark),
      RONDO_NAMED_TEST("connector", passes_every_size),
      RONDO_NAMED_TEST("connector", passes_references_without_copying),
      RONDO_NAMED_TEST("connector", passes_a_word_beside_the_payload),
      RONDO_NAMED_TEST("connector", only_what_lies_in_the_range_is_referred_to),
      RONDO_NAMED_TEST("connector", an_open_side_reads_no_constants),
      RONDO_NAMED_TEST("connector", a_run_that_fails_waits_for_its_reader_in_one_process),
      RONDO_NAMED_TEST("connector",
                       what_a_reader_with_its_own_mapping_has_read_does_not_count_then),
      RONDO_NAMED_TEST("connector", both_sides_may_map_the_connector_where_they_like),
      RONDO_NAMED_TEST("connector", full_gives_no_slot_until_one_is_consumed),
      RONDO_NAMED_TEST("connector", wraps_at_uint32_max),
      RONDO_NAMED_TEST("connector", hands_over_between_threads),
      RONDO_NAMED_TEST("connector", notifies_the_other_side_if_it_asks_for_that),
      RONDO_NAMED_TEST("connector", flags_the_collective_of_the_other_side),
      RONDO_NAMED_TEST("connector", notifies_the_one_side_that_asks_for_that),
      RONDO_NAMED_TEST("connector", tells_nobody_at_first),
      RONDO_NAMED_TEST("connector", a_side_that_looks_only_when_notified_misses_nothing),
  };
  return cmocka_run_group_tests_name("connector", tests, NULL, NULL);
}
