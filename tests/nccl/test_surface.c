// The drop-in library's versions, texts and refusals.
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/abi.h"
#include "tests/support/named.h"

static void says_whose_interface_it_has(void **state) {
  int version = 0;
  (void)state;
  assert_int_equal(ncclGetVersion(&version), RONDO_NCCL_SUCCESS);
  assert_int_equal(version, 22809);
  assert_int_equal(pncclGetVersion(&version), RONDO_NCCL_SUCCESS);
  assert_int_equal(ncclGetVersion(NULL), RONDO_NCCL_INVALID_ARGUMENT);
}

static void every_result_has_a_text(void **state) {
  (void)state;
  for (int result = RONDO_NCCL_SUCCESS; result <= RONDO_NCCL_IN_PROGRESS; result++) {
    const char *text = ncclGetErrorString(result);
    assert_non_null(text);
    assert_true(*text != '\0');
    for (int other = 0; other < result; other++)
      assert_string_not_equal(text, ncclGetErrorString(other));
  }
  assert_non_null(ncclGetErrorString(-1));
  assert_non_null(ncclGetErrorString(1000));
}

static void what_is_not_supported_is_refused_with_a_reason(void **state) {
  char anything[256] = "";
  struct rondo_nccl_team team = {1, 0, 1};
  (void)state;
  assert_int_equal(ncclDevCommCreate(NULL, NULL, anything), RONDO_NCCL_INVALID_USAGE);
  assert_non_null(strstr(ncclGetLastError(NULL), "ncclDevCommCreate: not supported: "));
  assert_int_equal(ncclDevCommDestroy(NULL, anything), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclLsaBarrierCreateRequirement(team, 1, anything, anything),
                   RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclGinBarrierCreateRequirement(NULL, team, 1, anything, anything),
                   RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclLLA2ACalcSlots(1, 1), 0);
  assert_int_equal(ncclLLA2ACreateRequirement(1, 1, anything, anything), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclGroupSimulateEnd(anything), RONDO_NCCL_INVALID_USAGE);
  assert_non_null(strstr(ncclGetLastError(NULL), "ncclGroupSimulateEnd: "));
  for (size_t i = 0; i < sizeof anything; i++)
    assert_int_equal(anything[i], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("nccl_surface", says_whose_interface_it_has),
      RONDO_NAMED_TEST("nccl_surface", every_result_has_a_text),
      RONDO_NAMED_TEST("nccl_surface", what_is_not_supported_is_refused_with_a_reason),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
