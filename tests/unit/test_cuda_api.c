// The table of CUDA driver calls: the message if there is no driver, an old one or no device.
#include "daemon/cuda/cuda_api.h"
#include "daemon/cuda/cuda_backend.h"

#include <string.h>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/named.h"
#include <rondo/status.h>

static char why[RONDO_CUDA_WHY_BYTES];

static int fresh(void **state) {
  (void)state;
  rondo_fake_reset(NULL);
  rondo_cuda_api_from(NULL);
  memset(why, 0, sizeof why);
  return 0;
}

static void finds_the_driver_by_its_name(void **state) {
  (void)state;
  int version = 0;
  assert_null(rondo_cuda_api());
  assert_int_equal(rondo_cuda_api_load(why), RONDO_SUCCESS);
  assert_non_null(rondo_cuda_api());
  assert_int_equal(rondo_cuda_api()->driver_get_version(&version), CUDA_SUCCESS);
  assert_int_equal(version, CUDA_VERSION);
}

static void is_started_once(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    assert_int_equal(rondo_cuda_api_load(why), RONDO_SUCCESS);
  assert_int_equal(rondo_fake_calls("cuInit"), 1);
}

static void says_that_there_is_no_driver(void **state) {
  (void)state;
  rondo_cuda_api_from("librondo-no-such-driver.so.1");
  assert_int_equal(rondo_cuda_api_load(why), RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(why, "there is no CUDA driver"));
  assert_non_null(strstr(why, "librondo-no-such-driver.so.1"));
  assert_null(rondo_cuda_api());
}

static void names_the_calls_that_a_driver_lacks(void **state) {
  (void)state;
  rondo_cuda_api_from("libc.so.6");
  assert_int_equal(rondo_cuda_api_load(why), RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(why, "it lacks: cuInit, "));
  assert_int_equal(why[sizeof why - 1], '\0');
  assert_null(rondo_cuda_api());
}

static int load_with_driver(uint32_t version) {
  struct rondo_fake_options options = rondo_fake_defaults();
  options.driver_version = version;
  rondo_fake_reset(&options);
  rondo_cuda_api_from(NULL);
  memset(why, 0, sizeof why);
  return rondo_cuda_api_load(why);
}

static void says_which_driver_to_install(void **state) {
  (void)state;
  const int is_12 = CUDA_VERSION < 13000;
  assert_int_equal(load_with_driver(is_12 ? 12030 : 12090), RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(why, is_12 ? "is of CUDA 12.3" : "is of CUDA 12.9"));
  assert_non_null(strstr(why, is_12 ? "install driver 550 (CUDA 12.4) or later"
                                    : "install driver 580 (CUDA 13.0) or later"));
  assert_null(rondo_cuda_api());
  // The first that will do, and one of a major version to come.
  assert_int_equal(load_with_driver(is_12 ? 12040 : 13000), RONDO_SUCCESS);
  assert_int_equal(load_with_driver(99000), RONDO_SUCCESS);
}

static void an_unknown_version_is_no_obstacle(void **state) {
  (void)state;
  rondo_fake_fail("cuDriverGetVersion", 1, 1, CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(rondo_cuda_api_load(why), RONDO_SUCCESS);
}

// What a device needs for which the image has no machine code: a driver that can compile the PTX.
static void ptx_needs_a_driver_as_new_as_its_compiler(void **state) {
  (void)state;
#if !defined(HAS_MACHINE_CODE)
  skip(); // built without nvcc
#endif
  char clause[RONDO_CUDA_CLAUSE_BYTES] = "";
  assert_true(rondo_cuda_image_fits(13010, 13000, 80, clause));
  assert_true(rondo_cuda_image_fits(13010, 13000, 89, clause));
  assert_true(rondo_cuda_image_fits(13010, 13000, 90, clause));
  assert_true(rondo_cuda_image_fits(13010, 13000, 103, clause));
  assert_true(rondo_cuda_image_fits(13010, 13010, 110, clause));
  assert_string_equal(clause, "");
  assert_false(rondo_cuda_image_fits(13010, 13000, 110, clause));
  assert_non_null(strstr(clause, "no machine code for compute capability 11.0"));
  assert_non_null(strstr(clause, "install a driver of CUDA 13.1 or later"));
}

static void says_that_there_is_no_device(void **state) {
  (void)state;
  struct rondo_fake_options options = rondo_fake_defaults();
  options.devices = 0;
  rondo_fake_reset(&options);
  assert_int_equal(rondo_cuda_api_load(why), RONDO_ERR_UNSUPPORTED);
  assert_string_equal(why, "there is no CUDA device");
}

static void says_why_the_driver_does_not_start_and_tries_again(void **state) {
  (void)state;
  rondo_fake_fail("cuInit", 1, 1, CUDA_ERROR_UNKNOWN);
  assert_int_equal(rondo_cuda_api_load(why), RONDO_ERR_UNSUPPORTED);
  assert_string_equal(why, "the CUDA driver does not start: CUDA_ERROR_UNKNOWN");
  rondo_fake_fail("cuDeviceGetCount", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(rondo_cuda_api_load(why), RONDO_ERR_UNSUPPORTED);
  assert_string_equal(why, "the CUDA driver does not start: CUDA_ERROR_OUT_OF_MEMORY");
  assert_int_equal(rondo_cuda_api_load(why), RONDO_SUCCESS);
}

static void names_errors_also_those_it_does_not_know(void **state) {
  (void)state;
  assert_non_null(rondo_cuda_error_name(CUDA_ERROR_INVALID_VALUE));
  assert_int_equal(rondo_cuda_api_load(why), RONDO_SUCCESS);
  assert_string_equal(rondo_cuda_error_name(CUDA_ERROR_INVALID_VALUE), "CUDA_ERROR_INVALID_VALUE");
  assert_string_equal(rondo_cuda_error_name((CUresult)123456), "an error without a name");
}

#define TEST(function)                                                                             \
  { "cuda_api." #function, function, fresh, NULL, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(finds_the_driver_by_its_name),
      TEST(is_started_once),
      TEST(says_that_there_is_no_driver),
      TEST(names_the_calls_that_a_driver_lacks),
      TEST(says_which_driver_to_install),
      TEST(an_unknown_version_is_no_obstacle),
      TEST(ptx_needs_a_driver_as_new_as_its_compiler),
      TEST(says_that_there_is_no_device),
      TEST(says_why_the_driver_does_not_start_and_tries_again),
      TEST(names_errors_also_those_it_does_not_know),
  };
  return cmocka_run_group_tests_name("cuda_api", tests, NULL, NULL);
}
