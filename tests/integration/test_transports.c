// What transports say that they find on a machine.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "runtime/boot/peers.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static char text[4096];

// Leaves in `text` what the transport says. Returns the status.
static int describe(int transport) {
  FILE *out = fmemopen(text, sizeof text, "w");
  assert_non_null(out);
  memset(text, 0, sizeof text);
  int status = rondo_transport_describe(transport, out);
  (void)fclose(out);
  return status;
}

static void shared_memory_says_how_much_there_is(void **state) {
  (void)state;
  static const char before[] = "\nhuge pages of 2 MiB: ", between[] = " of the system's ";
  assert_int_equal(describe(RONDO_TRANSPORT_SHARED_MEMORY), RONDO_SUCCESS);
  assert_non_null(strstr(text, "of a process's memory, handed over as a descriptor\n"));
  const char *line = strstr(text, before);
  assert_non_null(line);
  char *end = NULL;
  unsigned long free_pages = strtoul(line + strlen(before), &end, 10);
  assert_int_equal(strncmp(end, between, strlen(between)), 0);
  assert_true(free_pages <= strtoul(end + strlen(between), NULL, 10));
}

static void ucx_says_over_what_it_may_send(void **state) {
  (void)state;
  assert_int_equal(setenv("UCX_NET_DEVICES", "lo", 1), 0);
  assert_int_equal(describe(RONDO_TRANSPORT_UCX), RONDO_SUCCESS);
  unsetenv("UCX_NET_DEVICES");
  assert_int_equal(strncmp(text, "UCX 1.", 6), 0);
  assert_non_null(strstr(text, "\ntcp/lo\n"));
  assert_null(strstr(text, "self/"));
}

static int describe_badly(FILE *out, char *why, size_t why_bytes) {
  fprintf(out, "a cable\n");
  (void)snprintf(why, why_bytes, "nobody holds its end");
  return RONDO_ERR_SYSTEM;
}

static void what_cannot_be_used_says_why_last(void **state) {
  static const struct rondo_carrier_calls broken = {.name = "cable", .describe = describe_badly};
  static const struct rondo_carrier_calls silent = {.name = "silent"};
  const struct rondo_carrier_calls *before = rondo_far_carrier;
  (void)state;
  rondo_far_carrier = &broken;
  int status = describe(RONDO_TRANSPORT_UCX);
  rondo_far_carrier = &silent;
  char said[sizeof text];
  memcpy(said, text, sizeof said);
  int of_silent = describe(RONDO_TRANSPORT_UCX);
  rondo_far_carrier = before;
  assert_int_equal(status, RONDO_ERR_SYSTEM);
  assert_string_equal(said, "a cable\ncannot be used: nobody holds its end\n");
  assert_int_equal(of_silent, RONDO_SUCCESS);
  assert_string_equal(text, "");
}

static void what_is_no_transport_is_refused(void **state) {
  (void)state;
  assert_int_equal(describe(RONDO_TRANSPORT_NONE), RONDO_ERR_INVALID);
  assert_int_equal(describe(RONDO_TRANSPORT_NCCL + 1), RONDO_ERR_INVALID);
  assert_int_equal(describe(-1), RONDO_ERR_INVALID);
  assert_string_equal(text, "");
  assert_int_equal(rondo_transport_describe(RONDO_TRANSPORT_LOCAL, NULL), RONDO_ERR_INVALID);
  assert_int_equal(describe(RONDO_TRANSPORT_LOCAL), RONDO_SUCCESS);
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("transports", shared_memory_says_how_much_there_is),
      RONDO_NAMED_TEST("transports", ucx_says_over_what_it_may_send),
      RONDO_NAMED_TEST("transports", what_cannot_be_used_says_why_last),
      RONDO_NAMED_TEST("transports", what_is_no_transport_is_refused),
  };
  return cmocka_run_group_tests_name("transports", tests, NULL, NULL);
}
