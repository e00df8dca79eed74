// NCCL's variables, as the drop-in library reads them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rondo/types.h>

#include "adapters/nccl/algorithms.h"
#include "adapters/nccl/debug.h"
#include "adapters/nccl/environment.h"
#include "adapters/nccl/interface.h"
#include "tests/support/named.h"

static char log_path[64];

// What has been logged since the file was opened.
static const char *logged(void) {
  static char text[8192];
  FILE *file = fopen(log_path, "r");
  assert_non_null(file);
  size_t size = fread(text, 1, sizeof text - 1, file);
  text[size] = '\0';
  fclose(file);
  return text;
}

static void is_honoured_without_effect_missed_or_unknown(void **state) {
  (void)state;
  assert_int_equal(rondo_nccl_variable_kind("NCCL_DEBUG"), RONDO_NCCL_VARIABLE_HONOURED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_MAX_CTAS=4"), RONDO_NCCL_VARIABLE_HONOURED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_MIN_NCHANNELS=1"), RONDO_NCCL_VARIABLE_HONOURED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_PAT_ENABLE=0"), RONDO_NCCL_VARIABLE_NO_EFFECT);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_ALGO"), RONDO_NCCL_VARIABLE_HONOURED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_IB_HCA=mlx5"), RONDO_NCCL_VARIABLE_NO_EFFECT);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_NET_GDR_LEVEL"), RONDO_NCCL_VARIABLE_NO_EFFECT);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_PROTO=LL"), RONDO_NCCL_VARIABLE_MISSED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_NET"), RONDO_NCCL_VARIABLE_MISSED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_COMM_ID=h:1"), RONDO_NCCL_VARIABLE_MISSED);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_DEBUGG"), RONDO_NCCL_VARIABLE_UNKNOWN);
  assert_int_equal(rondo_nccl_variable_kind("NCCL_IB_"), RONDO_NCCL_VARIABLE_UNKNOWN);
}

static void values_that_make_no_sense_are_complained_of(void **state) {
  static const char *const good[][2] = {{"NCCL_DEBUG", "warn"},
                                        {"NCCL_DEBUG", "INFO"},
                                        {"NCCL_DEBUG_SUBSYS", "ALL"},
                                        {"NCCL_DEBUG_SUBSYS", "^INIT,coll"},
                                        {"NCCL_COMM_BLOCKING", "0"},
                                        {"NCCL_MAX_CTAS", "64"},
                                        {"NCCL_SOCKET_FAMILY", "AF_INET"},
                                        {"NCCL_SOCKET_IFNAME", "^docker,lo"},
                                        {"NCCL_ALGO", "^Tree;allreduce:Ring,NVLS"},
                                        {"NCCL_DEBUG_FILE", "anything"}};
  static const char *const bad[][2] = {
      {"NCCL_DEBUG", "loud"},       {"NCCL_DEBUG_SUBSYS", "INIT,COL"}, {"NCCL_COMM_BLOCKING", "2"},
      {"NCCL_MAX_CTAS", "0"},       {"NCCL_MAX_CTAS", "65"},           {"NCCL_MIN_CTAS", "4x"},
      {"NCCL_MAX_NCHANNELS", "-1"}, {"NCCL_SOCKET_FAMILY", "IPv4"},    {"NCCL_ALGO", "rings"},
      {"NCCL_ALGO", "ring,"},       {"NCCL_ALGO", "sum:ring"}};
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_null(rondo_nccl_variable_complaint(good[i][0], good[i][1]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_non_null(rondo_nccl_variable_complaint(bad[i][0], bad[i][1]));
}

// NCCL_ALGO, what it forces, and what of it means nothing here.
static void algorithms_of_nccl_force_those_of_rondo(void **state) {
  static const char *const cases[][3] = {
      {"Ring", "all_reduce=ring,all_gather=ring,reduce_scatter=ring,reduce=ring,broadcast=ring",
       ""},
      {"tree", "all_reduce=double-tree,reduce=double-tree,broadcast=double-tree", ""},
      {"ring,tree", "", ""},
      {"allreduce:TREE", "all_reduce=double-tree", ""},
      {"ring;allreduce:tree,NVLS;broadcast:^ring",
       "all_reduce=double-tree,all_gather=ring,reduce_scatter=ring,reduce=ring,broadcast=double-"
       "tree",
       "NVLS"},
      {"^tree", "all_reduce=ring,all_gather=ring,reduce_scatter=ring,reduce=ring,broadcast=ring",
       ""},
      {"NVLSTree,PAT", "", "NVLSTree, PAT"},
      {"^NVLS", "", ""}};
  struct rondo_nccl_algorithms algorithms;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_null(rondo_nccl_algorithms_read(cases[i][0], &algorithms));
    assert_string_equal(algorithms.forced, cases[i][1]);
    assert_string_equal(algorithms.foreign, cases[i][2]);
  }
}

static void the_file_name_takes_host_and_process(void **state) {
  char out[256], host[64] = "", expected[256];
  (void)state;
  assert_int_equal(gethostname(host, sizeof host - 1), 0);
  rondo_nccl_debug_expand_path("a.%h.%p.%q%", out, sizeof out);
  (void)snprintf(expected, sizeof expected, "a.%s.%ld.%%q%%", host, (long)getpid());
  assert_string_equal(out, expected);
  rondo_nccl_debug_expand_path("a.%p", out, 3);
  assert_string_equal(out, "a.");
}

// The values are read once a process, so one test looks at all of them.
static void values_are_read_and_the_rest_is_warned_of(void **state) {
  const struct rondo_nccl_environment *e;
  (void)state;
  assert_int_equal(setenv("NCCL_MAX_CTAS", "3", 1), 0);
  assert_int_equal(setenv("NCCL_MIN_CTAS", "many", 1), 0);
  assert_int_equal(setenv("NCCL_MIN_NCHANNELS", "2", 1), 0);
  assert_int_equal(setenv("NCCL_MAX_NCHANNELS", "9", 1), 0);
  assert_int_equal(setenv("NCCL_COMM_BLOCKING", "0", 1), 0);
  assert_int_equal(setenv("NCCL_SOCKET_FAMILY", "AF_INET6", 1), 0);
  assert_int_equal(setenv("NCCL_SOCKET_IFNAME", "=eth0", 1), 0);
  assert_int_equal(setenv("NCCL_DEBUGG", "INFO", 1), 0);
  assert_int_equal(setenv("NCCL_COMM_ID", "somewhere:1", 1), 0);
  assert_int_equal(setenv("NCCL_ALGO", "allreduce:Ring,NVLS", 1), 0);
  assert_int_equal(setenv("NCCL_PROTO", "LL128", 1), 0);
  assert_int_equal(unsetenv("RONDO_ALGO"), 0);
  assert_int_equal(setenv("RONDO_NCCL_BACKEND", "host", 1), 0);
  e = rondo_nccl_environment();
  assert_int_equal(e->max_ctas, 3);
  assert_int_equal(e->min_ctas, 2);
  assert_int_equal(e->blocking, 0);
  assert_int_equal(e->address_family, 6);
  assert_string_equal(e->interfaces, "=eth0");
  assert_int_equal(e->backend, RONDO_BACKEND_HOST);
  assert_non_null(strstr(logged(), "NCCL WARN environment: NCCL_MIN_CTAS is \"many\"; it takes"));
  assert_non_null(strstr(logged(), "NCCL WARN environment: NCCL_DEBUGG is not a variable of NCCL"));
  assert_non_null(strstr(logged(), "NCCL WARN environment: NCCL_COMM_ID has no effect"));
  assert_string_equal(getenv("RONDO_ALGO"), "all_reduce=ring");
  assert_non_null(strstr(logged(), "NCCL WARN environment: NCCL_ALGO: NVLS: Rondo has no such"));
  assert_non_null(strstr(logged(), "NCCL WARN environment: NCCL_PROTO has no effect: LL, LL128"));
}

static void lines_come_as_level_and_subsystem_ask(void **state) {
  (void)state;
  assert_int_equal(setenv("NCCL_DEBUG", "INFO", 1), 0);
  assert_int_equal(setenv("NCCL_DEBUG_SUBSYS", "COLL", 1), 0);
  rondo_nccl_debug_reset();
  assert_true(rondo_nccl_debug_enabled(RONDO_NCCL_SUBSYS_COLL));
  assert_false(rondo_nccl_debug_enabled(RONDO_NCCL_SUBSYS_INIT));
  rondo_nccl_info(RONDO_NCCL_SUBSYS_COLL, 5, "first %d", 1);
  assert_non_null(strstr(logged(), " [5] NCCL INFO first 1\n"));
  assert_int_equal(setenv("NCCL_DEBUG_SUBSYS", "^COLL", 1), 0);
  rondo_nccl_debug_reset();
  assert_false(rondo_nccl_debug_enabled(RONDO_NCCL_SUBSYS_COLL));
  assert_true(rondo_nccl_debug_enabled(RONDO_NCCL_SUBSYS_INIT));
  assert_int_equal(setenv("NCCL_DEBUG", "NONE", 1), 0);
  rondo_nccl_debug_reset();
  assert_int_equal(rondo_nccl_refuse(4, "not %s", "this"), 4);
  assert_null(strstr(logged(), "not this"));
  assert_string_equal(rondo_nccl_last_error(), "not this");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("nccl_environment", is_honoured_without_effect_missed_or_unknown),
      RONDO_NAMED_TEST("nccl_environment", values_that_make_no_sense_are_complained_of),
      RONDO_NAMED_TEST("nccl_environment", algorithms_of_nccl_force_those_of_rondo),
      RONDO_NAMED_TEST("nccl_environment", the_file_name_takes_host_and_process),
      RONDO_NAMED_TEST("nccl_environment", values_are_read_and_the_rest_is_warned_of),
      RONDO_NAMED_TEST("nccl_environment", lines_come_as_level_and_subsystem_ask),
  };
  (void)snprintf(log_path, sizeof log_path, "nccl-environment.XXXXXX");
  int file = mkstemp(log_path);
  if (file < 0 || close(file) || setenv("NCCL_DEBUG_FILE", log_path, 1))
    return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(log_path);
  return failed;
}
