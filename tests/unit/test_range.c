// Device memory that processes share, on the stand-in for the CUDA driver: the owner's range and
// another process's view of it. Here both are ranges of one process.
#include "runtime/memory/range.h"

#include <string.h>
#include <unistd.h>

#include "daemon/cuda/cuda_api.h"
#include "daemon/cuda/cuda_driver.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/held_locks.h"
#include "tests/support/named.h"
#include <rondo/status.h>

static struct rondo_device *device;
static struct rondo_range *own, *view;
static char why[RONDO_WHY_BYTES];

static int open_with(const struct rondo_fake_options *options) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  rondo_fake_reset(options);
  rondo_test_watch_locks();
  rondo_cuda_api_from(NULL); // it has to be started again
  cfg.backend = RONDO_BACKEND_CUDA;
  own = view = NULL;
  return rondo_cuda_driver.open(&cfg, &device, why);
}

static int open_device(void **state) {
  (void)state;
  return open_with(NULL);
}

static int close_all(void **state) {
  (void)state;
  rondo_range_destroy(view);
  rondo_range_destroy(own);
  rondo_cuda_driver.close(device);
  return rondo_test_has_called_with_lock() || rondo_fake_live_count() != 0;
}

static void make_own(void) {
  assert_int_equal(rondo_range_create(device, 0, &own, why), RONDO_SUCCESS);
}

static char *take(uint64_t bytes) {
  char *memory = rondo_range_alloc_zeroed(own, device, bytes, why);
  assert_non_null(memory);
  return memory;
}

// Maps all parts of the owner's.
static void make_view(void) {
  struct rondo_range_part part;
  assert_int_equal(rondo_range_create(device, rondo_range_bytes(own), &view, why), RONDO_SUCCESS);
  for (uint32_t i = 0; rondo_range_part(own, i, &part); i++)
    assert_int_equal(rondo_range_map(view, &part, 1, why), RONDO_SUCCESS);
}

static char *seen(const char *memory) {
  return (char *)(uintptr_t)((uint64_t)(uintptr_t)memory - rondo_range_base(own) +
                             rondo_range_base(view));
}

static void what_is_written_here_is_seen_there(void **state) {
  (void)state;
  make_own();
  char *first = take(1000);
  char *large = take(UINT64_C(20) << 20); // a part of its own
  for (uint32_t i = 0; i < 1000; i++)
    assert_int_equal(first[i], 0);
  make_view();
  memcpy(first, "here", 5);
  memcpy(large + (20 << 20) - 6, "there", 6);
  assert_string_equal(seen(first), "here");
  assert_string_equal(seen(large) + (20 << 20) - 6, "there");
}

static void what_is_mapped_stays_when_its_owner_is_gone(void **state) {
  (void)state;
  make_own();
  char *memory = take(100);
  make_view();
  memcpy(memory, "still here", 11);
  char *there = seen(memory);
  rondo_range_destroy(own);
  own = NULL;
  assert_string_equal(there, "still here");
}

static void what_is_freed_is_used_again_and_zeroed(void **state) {
  (void)state;
  struct rondo_range_part part;
  make_own();
  char *first = take(4000000);
  memset(first, 7, 4000000);
  char *second = take(4000000);
  assert_int_equal(rondo_range_free(own, first), 1);
  char *again = take(4000000);
  assert_ptr_equal(again, first);
  assert_int_equal(again[3999999], 0);
  assert_int_equal(rondo_range_free(own, second), 1);
  assert_int_equal(rondo_range_free(own, second), 0);
  assert_int_equal(rondo_range_free(own, second + 128), 0);
  assert_int_equal(rondo_range_free(own, &part), 0);
  assert_int_equal(rondo_range_part(own, 1, &part), 0); // one was enough
}

static void what_is_no_part_is_refused(void **state) {
  (void)state;
  struct rondo_range_part part;
  int ends[2];
  make_own();
  (void)take(1);
  assert_int_equal(rondo_range_part(own, 0, &part), 1);
  assert_int_equal(rondo_range_create(device, rondo_range_bytes(own), &view, why), RONDO_SUCCESS);
  struct rondo_range_part bad = part;
  bad.at += RONDO_RANGE_UNIT_BYTES;
  assert_int_equal(rondo_range_map(view, &bad, 1, why), RONDO_ERR_INVALID);
  bad = part;
  bad.bytes = rondo_range_bytes(own) + RONDO_RANGE_UNIT_BYTES;
  assert_int_equal(rondo_range_map(view, &bad, 1, why), RONDO_ERR_INVALID);
  bad.bytes = 4096;
  assert_int_equal(rondo_range_map(view, &bad, 1, why), RONDO_ERR_INVALID);
  bad.bytes = part.bytes + RONDO_RANGE_UNIT_BYTES; // more than the descriptor is good for
  assert_int_equal(rondo_range_map(view, &bad, 1, why), RONDO_ERR_SYSTEM);
  assert_int_equal(pipe(ends), 0);
  bad = part;
  bad.fd = ends[0];
  assert_int_equal(rondo_range_map(view, &bad, 1, why), RONDO_ERR_SYSTEM);
  close(ends[0]);
  close(ends[1]);
  assert_int_equal(rondo_range_map(view, &part, 1, why), RONDO_SUCCESS);
  assert_int_equal(rondo_range_map(view, &part, 1, why), RONDO_ERR_INVALID); // it is there
}

// Makes and maps a range once. Returns 1 if all went well.
static int try_once(void) {
  struct rondo_range_part part;
  int is_well = rondo_range_create(device, 0, &own, why) == RONDO_SUCCESS &&
                rondo_range_alloc(own, device, 1000, why) && rondo_range_part(own, 0, &part) &&
                rondo_range_create(device, rondo_range_bytes(own), &view, why) == RONDO_SUCCESS &&
                rondo_range_map(view, &part, 1, why) == RONDO_SUCCESS;
  rondo_range_destroy(view);
  rondo_range_destroy(own);
  own = view = NULL;
  return is_well;
}

static void no_call_that_fails_leaves_anything_behind(void **state) {
  static const char *const entries[] = {"cuMemGetAllocationGranularity",
                                        "cuDeviceTotalMem",
                                        "cuMemAddressReserve",
                                        "cuMemCreate",
                                        "cuMemExportToShareableHandle",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemsetD8Async",
                                        "cuMemImportFromShareableHandle",
                                        "cuCtxPushCurrent"};
  (void)state;
  assert_true(try_once()); // the device keeps some memory from now on
  for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
    uint64_t before = rondo_fake_live_count();
    uint64_t failed = 1;
    for (uint64_t n = 1; failed; n++) {
      rondo_fake_fail(entries[e], n, 1, CUDA_ERROR_OUT_OF_MEMORY);
      why[0] = '\0';
      int is_well = try_once();
      failed = rondo_fake_failed();
      rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
      assert_true(is_well || (failed && why[0]));
      assert_int_equal(rondo_fake_live_count(), before);
    }
  }
}

static void a_device_that_shares_nothing_says_so(void **state) {
  struct rondo_fake_options options = rondo_fake_defaults();
  (void)state;
  options.sharing = 0;
  assert_int_equal(open_with(&options), RONDO_SUCCESS);
  assert_int_equal(rondo_range_create(device, 0, &own, why), RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(why, "virtual memory management"));
  assert_null(own);
  assert_int_equal(close_all(state), 0);
}

static void a_device_without_access_is_not_admitted(void **state) {
  struct rondo_fake_options options = rondo_fake_defaults();
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_device *other;
  (void)state;
  options.devices = 2;
  options.peer_access = 0;
  assert_int_equal(open_with(&options), RONDO_SUCCESS);
  cfg.device = 1;
  assert_int_equal(rondo_cuda_driver.open(&cfg, &other, why), RONDO_SUCCESS);
  make_own();
  (void)take(1);
  assert_int_equal(rondo_range_admit(own, other, why), RONDO_ERR_SYSTEM);
  assert_non_null(strstr(why, "device 1 may not use the memory"));
  rondo_cuda_driver.close(other);
  assert_int_equal(close_all(state), 0);
}

// The driver maps memory of another device, and bytes arrive changed without an error.
static void memory_that_changes_what_is_written_is_not_mapped(void **state) {
  struct rondo_fake_options options = rondo_fake_defaults();
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_device *other;
  struct rondo_range_part part;
  (void)state;
  options.devices = 2;
  options.peers_corrupt = 1;
  assert_int_equal(open_with(&options), RONDO_SUCCESS);
  cfg.device = 1;
  assert_int_equal(rondo_cuda_driver.open(&cfg, &other, why), RONDO_SUCCESS);
  make_own();
  (void)take(1);
  assert_int_equal(rondo_range_part(own, 0, &part), 1);
  assert_int_equal(rondo_range_create(other, rondo_range_bytes(own), &view, why), RONDO_SUCCESS);
  uint64_t before = rondo_fake_live().allocations;
  assert_int_equal(rondo_range_map(view, &part, 1, why), RONDO_ERR_INTERNAL);
  assert_non_null(strstr(why, "bytes that are written there have changed"));
  assert_int_equal(rondo_fake_live().allocations, before);
  rondo_range_destroy(view);
  view = NULL;
  rondo_cuda_driver.close(other);
  assert_int_equal(close_all(state), 0);
}

int main(void) {
#define ON_DEVICE(test) RONDO_NAMED_TEST_FIXTURE("range", test, open_device, close_all)
  const struct CMUnitTest tests[] = {
      ON_DEVICE(what_is_written_here_is_seen_there),
      ON_DEVICE(what_is_mapped_stays_when_its_owner_is_gone),
      ON_DEVICE(what_is_freed_is_used_again_and_zeroed),
      ON_DEVICE(what_is_no_part_is_refused),
      ON_DEVICE(no_call_that_fails_leaves_anything_behind),
      RONDO_NAMED_TEST("range", a_device_that_shares_nothing_says_so),
      RONDO_NAMED_TEST("range", a_device_without_access_is_not_admitted),
      RONDO_NAMED_TEST("range", memory_that_changes_what_is_written_is_not_mapped),
  };
  return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
