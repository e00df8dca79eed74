// What launchers' environments, addresses and interface patterns mean.
#include <stdio.h>
#include <string.h>

#include "runtime/net/address.h"
#include "runtime/net/launcher.h"
#include "runtime/net/pmix.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include <rondo/rondo.h>

#define MAX_VARIABLES 16u

static char names[MAX_VARIABLES][64];
static char values[MAX_VARIABLES][256];
static uint32_t count;

static char *get(const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0)
      return values[i];
  return NULL;
}

static void set(const char *name, const char *value) {
  (void)snprintf(names[count], sizeof names[count], "%s", name);
  (void)snprintf(values[count++], sizeof values[count], "%s", value);
}

static void begin(void) {
  count = 0;
  rondo_test_log_clear();
}

static void torchrun(const char *rank) {
  set("RANK", rank);
  set("WORLD_SIZE", "8");
  set("MASTER_ADDR", "node7");
  set("MASTER_PORT", "29500");
}

static void torchrun_is_understood(void **state) {
  struct rondo_launcher l;
  (void)state;
  begin();
  torchrun("3");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_int_equal(l.rank, 3);
  assert_int_equal(l.rank_count, 8);
  assert_string_equal(l.root, "node7");
  assert_int_equal(l.port_count, RONDO_LAUNCHER_PORTS);
  for (uint32_t i = 0; i < l.port_count; i++)
    assert_in_range(l.ports[i], 20000, 31999); // not torchrun's own
  assert_false(l.is_secret);
}

static void ranks_of_a_job_agree_and_other_jobs_differ(void **state) {
  struct rondo_launcher a;
  struct rondo_launcher b;
  (void)state;
  begin();
  torchrun("3");
  assert_int_equal(rondo_launcher_find(get, &a), RONDO_SUCCESS);
  begin();
  torchrun("5");
  assert_int_equal(rondo_launcher_find(get, &b), RONDO_SUCCESS);
  assert_memory_equal(a.tag, b.tag, sizeof a.tag);
  assert_memory_equal(a.secret, b.secret, sizeof a.secret);
  assert_memory_equal(a.ports, b.ports, sizeof a.ports);
  // The next generation after a restart is another job.
  set("TORCHELASTIC_RESTART_COUNT", "1");
  assert_int_equal(rondo_launcher_find(get, &b), RONDO_SUCCESS);
  assert_memory_not_equal(a.tag, b.tag, sizeof a.tag);
  // A secret changes the proof, and not the address.
  begin();
  torchrun("3");
  set("RONDO_SECRET", "0123456789abcdef");
  assert_int_equal(rondo_launcher_find(get, &b), RONDO_SUCCESS);
  assert_true(b.is_secret);
  assert_memory_equal(a.tag, b.tag, sizeof a.tag);
  assert_memory_not_equal(a.secret, b.secret, sizeof a.secret);
}

static void the_launcher_started_last_counts(void **state) {
  struct rondo_launcher l;
  (void)state;
  begin();
  set("SLURM_PROCID", "1");
  set("SLURM_STEP_NUM_TASKS", "2");
  set("SLURM_STEP_ID", "0");
  set("SLURM_STEP_NODELIST", "n[03-07,9]-ib,gpu1");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_string_equal(l.name, "Slurm");
  assert_string_equal(l.root, "n03-ib");
  set("OMPI_COMM_WORLD_RANK", "2");
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_string_equal(l.name, "Open MPI");
  assert_string_equal(l.root, "127.0.0.1");
  torchrun("3");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_string_equal(l.name, "torchrun");
  set("RONDO_RANK", "7");
  set("RONDO_RANK_COUNT", "9");
  set("RONDO_ROOT", "[::1]:4711");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_int_equal(l.rank, 7);
  assert_string_equal(l.root, "::1");
  assert_int_equal(l.port_count, 1);
  assert_int_equal(l.ports[0], 4711);
}

static void what_is_missing_is_said(void **state) {
  struct rondo_launcher l;
  (void)state;
  begin();
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_UNKNOWN);
  assert_int_equal(rondo_test_log_lines(), 0);
  set("SLURM_PROCID", "0"); // a batch script: no step of srun
  set("SLURM_NTASKS", "2");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_UNKNOWN);
  set("OMPI_COMM_WORLD_RANK", "2");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has("OMPI_COMM_WORLD_SIZE is not set"));
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has("Open MPI does not say where rank 0 is: set RONDO_ROOT"));
  set("RONDO_ROOT", "node1");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_string_equal(l.root, "node1");
  assert_true(rondo_test_log_has("Open MPI does not say which job this is"));
  set("RONDO_SECRET", "short");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has("RONDO_SECRET has 5 characters"));
}

// Where nothing names the job, a port that only one job can have does; a process group is one
// machine's own.
static void a_port_names_a_job_that_has_no_other_name(void **state) {
  struct rondo_launcher l[2];
  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    begin();
    set("PMI_RANK", i ? "1" : "0");
    set("PMI_SIZE", "2");
    set("RONDO_ROOT", "node1:4711");
    assert_int_equal(rondo_launcher_find(get, &l[i]), RONDO_SUCCESS);
    assert_int_equal(rondo_test_log_lines(), 0);
  }
  assert_memory_equal(l[0].tag, l[1].tag, sizeof l[0].tag);
  begin();
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  set("RONDO_ROOT", "node1:4712");
  assert_int_equal(rondo_launcher_find(get, &l[1]), RONDO_SUCCESS);
  assert_memory_not_equal(l[0].tag, l[1].tag, sizeof l[0].tag);
}

static void refuses(const char *rank, const char *size, const char *said) {
  struct rondo_launcher l;
  begin();
  set("RANK", rank);
  set("WORLD_SIZE", size);
  set("MASTER_ADDR", "here");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has(said));
  assert_int_equal(rondo_test_log_lines(), 1);
}

static void numbers_that_make_no_sense_are_refused(void **state) {
  (void)state;
  refuses("1", "-2", "WORLD_SIZE is \"-2\"");
  refuses("1", "131073", "WORLD_SIZE is \"131073\"");
  refuses("x", "2", "RANK is \"x\"");
  refuses("1 ", "2", "RANK is \"1 \"");
  refuses("2", "2", "RANK is 2 of 2 ranks");
  refuses("0", "0", "RANK is 0 of 0 ranks");
}

// What Open MPI sets for a rank of four; on one machine if `local` is "4".
static void open_mpi(const char *local, const char *pmix) {
  begin();
  set("OMPI_COMM_WORLD_RANK", "2");
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", local);
  set("PMIX_NAMESPACE", "7");
  set("PMIX_RANK", "2");
  set("RONDO_PMIX", pmix);
}

static void pmix_is_used_where_nothing_else_says_where_rank_0_is(void **state) {
  struct rondo_launcher l;
  (void)state;
  open_mpi("2", "0");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_ERR_INVALID);
  if (!rondo_pmix_is_offered(get))
    skip(); // its library is not here
  open_mpi("2", "");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_true(l.uses_pmix);
  open_mpi("4", "");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_false(l.uses_pmix);
  open_mpi("4", "1");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_true(l.uses_pmix);
  set("RONDO_ROOT", "node1");
  assert_int_equal(rondo_launcher_find(get, &l), RONDO_SUCCESS);
  assert_false(l.uses_pmix);
}

static void first_host_is(const char *list, const char *host) {
  char found[32];
  assert_int_equal(rondo_launcher_first_host(list, found, sizeof found), host != NULL);
  if (host)
    assert_string_equal(found, host);
}

static void the_first_of_slurms_hosts_is_found(void **state) {
  (void)state;
  first_host_is("node1", "node1");
  first_host_is("node1,node2", "node1");
  first_host_is("node[1-4]", "node1");
  first_host_is("node[007,9]", "node007");
  first_host_is("r[1-2]n,x", "r1n");
  first_host_is("", NULL);
  first_host_is("node[", NULL);
  first_host_is("node[x]", NULL);
  first_host_is("node[12", NULL);
  first_host_is("r[1-2]n[3-4]", NULL); // not a form that Slurm writes for nodes of one dimension
  first_host_is("a-name-that-is-longer-than-its-place", NULL);
}

static void interfaces_are_chosen_as_with_nccl(void **state) {
  static const struct {
    const char *pattern, *interface;
    int is_chosen;
  } cases[] = {
      {"eth", "eth0", 1},     {"eth", "ib0", 0},     {"eth,ib", "ib0", 1},
      {"=eth0", "eth0", 1},   {"=eth0", "eth01", 0}, {"eth0", "eth01", 1},
      {"^eth", "eth0", 0},    {"^eth", "ib0", 1},    {"^lo,docker", "docker0", 0},
      {"^=eth0", "eth01", 1}, {"^=eth0", "eth0", 0}, {"", "lo", 0},
      {"", "docker0", 0},     {"", "virbr0", 0},     {"", "eth0", 1},
      {",", "eth0", 0},       {"=lo", "lo", 1},      {"eth,,ib", "lo", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(rondo_address_is_chosen(cases[i].pattern, cases[i].interface),
                     cases[i].is_chosen);
}

static void splits_into(const char *text, const char *host, uint16_t port) {
  char found[32];
  uint16_t found_port = 1;
  assert_int_equal(rondo_address_split(text, found, sizeof found, &found_port), host != NULL);
  if (!host)
    return;
  assert_string_equal(found, host);
  assert_int_equal(found_port, port);
}

static void hosts_and_ports_are_told_apart(void **state) {
  (void)state;
  splits_into("node1", "node1", 1);
  splits_into("node1:80", "node1", 80);
  splits_into("10.0.0.1:65535", "10.0.0.1", 65535);
  splits_into("::1", "::1", 1);
  splits_into("[::1]", "::1", 1);
  splits_into("[::1]:80", "::1", 80);
  splits_into("node1:", NULL, 0);
  splits_into("node1:0", NULL, 0);
  splits_into("node1:65536", NULL, 0);
  splits_into("node1:8x", NULL, 0);
  splits_into("[::1", NULL, 0);
  splits_into("[::1]80", NULL, 0);
  splits_into(":80", NULL, 0);
  splits_into("", NULL, 0);
}

static void addresses_read_as_they_are_written(void **state) {
  static const char *const texts[] = {"127.0.0.1", "::1", "2001:db8::7", "192.0.2.255"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct rondo_wire_address a;
    struct rondo_wire_address b;
    struct sockaddr_storage s;
    char text[RONDO_ADDRESS_TEXT_BYTES];
    char wanted[RONDO_ADDRESS_TEXT_BYTES];
    assert_true(rondo_address_parse(texts[i], &a));
    a.port = 4711;
    rondo_address_text(&a, text, sizeof text);
    (void)snprintf(wanted, sizeof wanted, a.family == 4 ? "%s:4711" : "[%s]:4711", texts[i]);
    assert_string_equal(text, wanted);
    (void)rondo_address_to_socket(&a, &s);
    assert_true(rondo_address_from_socket((const struct sockaddr *)&s, &b));
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(rondo_address_is_loopback(&a), i < 2);
  }
  struct rondo_wire_address a;
  assert_false(rondo_address_parse("node1", &a));
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("launch", torchrun_is_understood),
      RONDO_NAMED_TEST("launch", ranks_of_a_job_agree_and_other_jobs_differ),
      RONDO_NAMED_TEST("launch", the_launcher_started_last_counts),
      RONDO_NAMED_TEST("launch", what_is_missing_is_said),
      RONDO_NAMED_TEST("launch", a_port_names_a_job_that_has_no_other_name),
      RONDO_NAMED_TEST("launch", numbers_that_make_no_sense_are_refused),
      RONDO_NAMED_TEST("launch", pmix_is_used_where_nothing_else_says_where_rank_0_is),
      RONDO_NAMED_TEST("launch", the_first_of_slurms_hosts_is_found),
      RONDO_NAMED_TEST("launch", interfaces_are_chosen_as_with_nccl),
      RONDO_NAMED_TEST("launch", hosts_and_ports_are_told_apart),
      RONDO_NAMED_TEST("launch", addresses_read_as_they_are_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
