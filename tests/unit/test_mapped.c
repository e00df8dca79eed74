// Memory of another process that has to be page-locked before a link is bound to it. The driver
// here counts the chunks that it has page-locked, and refuses on request.
#include "runtime/transport/mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/memory/pool.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define BYTES (UINT64_C(16) << 20)
#define OTHER (UINT64_C(8) << 20) // in another chunk than 0

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t pinned, refusals; // chunks; calls of `pin` that fail from now on

static int device_pin(struct rondo_device *device, void *memory, uint64_t bytes, char *why) {
  (void)device, (void)memory, (void)bytes;
  assert_int_equal(pthread_mutex_trylock(&lock), 0); // the caller has released it
  pthread_mutex_unlock(&lock);
  pinned += !refusals;
  if (!refusals)
    return RONDO_SUCCESS;
  refusals--;
  snprintf(why, RONDO_WHY_BYTES, "refused");
  return RONDO_ERR_SYSTEM;
}

static void device_unpin(struct rondo_device *device, void *memory) {
  (void)device, (void)memory;
  assert_int_equal(pthread_mutex_trylock(&lock), 0);
  pthread_mutex_unlock(&lock);
  pinned--;
}

static const struct rondo_sharing sharing = {.pin = device_pin, .unpin = device_unpin};
static const struct rondo_driver driver = {.sharing = &sharing};
static struct rondo_device device = {&driver};
static struct rondo_transport_peer peer;
static struct rondo_transports transports;

// Process 0 has sent its arena.
static int fresh(void **state) {
  (void)state;
  rondo_test_log_clear();
  pinned = refusals = 0;
  peer = (struct rondo_transport_peer){.theirs.bytes = BYTES};
  peer.map = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  peer.pins = malloc(sizeof *peer.pins);
  if (peer.map == MAP_FAILED || !peer.pins)
    return -1;
  rondo_pins_init(peer.pins, &device, peer.map, BYTES);
  transports = (struct rondo_transports){
      .config.lock = &lock, .device = &device, .peers = &peer, .peer_count = 1};
  pthread_mutex_lock(&lock);
  return 0;
}

static int end(void **state) {
  (void)state;
  pthread_mutex_unlock(&lock);
  rondo_mapped_unmap(&peer);
  return pinned != 0;
}

static void *find(uint64_t at, bool *waits) {
  *waits = false;
  return rondo_mapped_find(&transports, 0, RONDO_PLACE_EXPORTED, at, 4096, waits);
}

static void memory_is_found_once_it_is_page_locked(void **state) {
  bool waits = false;
  (void)state;
  assert_null(find(OTHER, &waits));
  assert_true(waits);
  assert_int_equal(pinned, 0);
  assert_true(rondo_mapped_work(&transports));
  assert_ptr_equal(find(OTHER, &waits), (char *)peer.map + OTHER);
  assert_false(waits);
  assert_int_equal(pinned, 1);
  assert_false(rondo_mapped_work(&transports));
}

static void a_refusal_is_told_to_the_link_that_waits(void **state) {
  bool waits = false;
  (void)state;
  (void)find(OTHER, &waits);
  refusals = 1;
  assert_true(rondo_mapped_work(&transports));
  assert_true(rondo_test_log_has("connectors of process 0 cannot be used: refused"));
  assert_null(find(OTHER, &waits));
  assert_false(waits);
  assert_false(rondo_mapped_work(&transports));
  assert_null(find(OTHER, &waits)); // another link
  assert_true(waits);
  assert_true(rondo_mapped_work(&transports));
  assert_non_null(find(OTHER, &waits));
}

// Links in the order in which they are bound: the first one comes while the second one is refused.
static void a_refusal_outlasts_what_other_links_ask_for(void **state) {
  bool waits = false;
  (void)state;
  (void)find(OTHER, &waits);
  refusals = 1;
  assert_true(rondo_mapped_work(&transports));
  assert_null(find(0, &waits));
  assert_true(waits);
  assert_null(find(OTHER, &waits));
  assert_true(waits); // is asked for again after the first
  assert_true(rondo_mapped_work(&transports));
  assert_non_null(find(0, &waits));
  refusals = 1;
  (void)find(OTHER, &waits);
  assert_true(rondo_mapped_work(&transports));
  assert_null(find(OTHER, &waits));
  assert_false(waits);
}

// The registration ended while the driver was asked.
static void a_refusal_that_no_link_takes_is_forgotten(void **state) {
  bool waits = false;
  (void)state;
  (void)find(OTHER, &waits);
  refusals = 1;
  assert_true(rondo_mapped_work(&transports));
  assert_false(rondo_mapped_work(&transports));
  assert_null(find(OTHER, &waits)); // of a later registration
  assert_true(waits);
  assert_true(rondo_mapped_work(&transports));
  assert_non_null(find(OTHER, &waits));
}

static void a_lost_process_is_unmapped_and_no_more_page_locked(void **state) {
  bool waits = false;
  (void)state;
  (void)find(0, &waits);
  assert_true(rondo_mapped_work(&transports));
  (void)find(OTHER, &waits);
  rondo_transports_lose(&transports, 0);
  assert_true(rondo_mapped_work(&transports));
  assert_null(peer.map);
  assert_int_equal(pinned, 0);
  assert_false(rondo_mapped_work(&transports));
}

static void a_lost_process_stays_mapped_while_a_link_uses_it(void **state) {
  (void)state;
  peer.links = 1;
  rondo_transports_lose(&transports, 0);
  assert_false(rondo_mapped_work(&transports));
  assert_non_null(peer.map);
  rondo_transports_unuse(&transports, 0);
  assert_true(rondo_mapped_work(&transports));
  assert_null(peer.map);
}

#define TEST(function) RONDO_NAMED_TEST_FIXTURE("mapped", function, fresh, end)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(memory_is_found_once_it_is_page_locked),
      TEST(a_refusal_is_told_to_the_link_that_waits),
      TEST(a_refusal_outlasts_what_other_links_ask_for),
      TEST(a_refusal_that_no_link_takes_is_forgotten),
      TEST(a_lost_process_is_unmapped_and_no_more_page_locked),
      TEST(a_lost_process_stays_mapped_while_a_link_uses_it),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("mapped", tests, NULL, NULL);
}
