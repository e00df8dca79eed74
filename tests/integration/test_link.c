// Two machines, made of network namespaces, and the cable between them: a job uses it until it is
// pulled out. Skipped where making a namespace is not allowed, or there is no "ip".
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/atomic.h"
#include "runtime/job/members.h"
#include "tests/support/named.h"
#include "tests/support/processes.h"

#define LONG_NS INT64_C(60000000000)
#define SILENCE_NS INT64_C(2000000000)

static uint32_t lost, reason, received;

static void on_lost(void *arg, const uint32_t *ranks, uint32_t count, int why, const char *text) {
  (void)arg, (void)ranks;
  fprintf(stderr, "lost: %s\n", text);
  rondo_store_seq_cst_u32(&reason, (uint32_t)why);
  rondo_store_seq_cst_u32(&lost, rondo_load_relaxed_u32(&lost) + count);
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  (void)arg, (void)message;
  rondo_store_seq_cst_u32(&received, 1);
}

static void await_word(const uint32_t *word) {
  while (!rondo_load_seq_cst_u32(word))
    (void)poll(NULL, 0, 1);
}

static int run_ip(const char *arguments) {
  char command[256];
  (void)snprintf(command, sizeof command, "ip %s", arguments);
  return system(command); // NOLINT(cert-env33-c): a test's own words
}

// The end of the cable in a namespace of this process's own; the test has pushed it in.
static void plug_in(struct rondo_test_child *child) {
  char arguments[128];
  RONDO_CHILD_CHECK(unshare(CLONE_NEWNET) == 0);
  rondo_test_child_say(child);
  rondo_test_child_receive(child);
  (void)snprintf(arguments, sizeof arguments, "address add 10.77.0.%u/24 dev rondo-t%u",
                 child->rank + 1, child->rank);
  RONDO_CHILD_CHECK(run_ip("link set lo up") == 0);
  RONDO_CHILD_CHECK(run_ip(arguments) == 0);
  (void)snprintf(arguments, sizeof arguments, "link set rondo-t%u up", child->rank);
  RONDO_CHILD_CHECK(run_ip(arguments) == 0);
}

static void live_on_a_machine(struct rondo_test_child *child) {
  static const struct rondo_members_events events = {.receive = on_receive, .lost = on_lost};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_members *mesh;
  char number[16];
  (void)snprintf(number, sizeof number, "%u", child->rank);
  plug_in(child);
  RONDO_CHILD_CHECK(!setenv("RONDO_ROOT", "10.77.0.1", 1) && !setenv("RONDO_RANK", number, 1) &&
                    !setenv("RONDO_RANK_COUNT", "2", 1));
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  cfg.peer_timeout_ns = SILENCE_NS;
  RONDO_CHILD_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_members_calls->start(&cfg, NULL, &events, NULL, &mesh) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(!rondo_members_calls->is_same_machine(mesh, 1 - child->rank));
  struct rondo_mesh_send message = {.to = 1 - child->rank, .bytes = "far", .size = 3};
  RONDO_CHILD_CHECK(rondo_members_calls->send(mesh, &message) == RONDO_SUCCESS);
  await_word(&received);
  rondo_test_child_say(child);
  rondo_test_child_receive(child); // both have heard from the other
  if (child->rank == 1)
    RONDO_CHILD_CHECK(run_ip("link set rondo-t1 down") == 0);
  await_word(&lost);
  RONDO_CHILD_CHECK(rondo_load_seq_cst_u32(&reason) == RONDO_LOST_SELF); // no majority of one
  rondo_members_calls->stop(mesh, SILENCE_NS, 0);                        // nobody answers
}

static void a_cable_that_is_pulled_is_noticed_on_both_sides(void **state) {
  struct rondo_test_processes p;
  char arguments[160];
  (void)state;
  rondo_test_fork(&p, 2, live_on_a_machine, NULL);
  rondo_test_receive(&p, 0);
  rondo_test_receive(&p, 1);
  // Both ends are made where they belong, and go with the namespaces.
  (void)snprintf(arguments, sizeof arguments,
                 "link add rondo-t0 netns %d type veth peer name rondo-t1 netns %d", (int)p.pids[0],
                 (int)p.pids[1]);
  assert_int_equal(run_ip(arguments), 0);
  for (int step = 0; step < 2; step++) {
    for (uint32_t r = 0; r < 2; r++)
      rondo_test_say(&p, r);
    for (uint32_t r = 0; r < 2 && step == 0; r++)
      rondo_test_receive(&p, r);
  }
  rondo_test_reap(&p, 0);
}

static int is_allowed(void) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(unshare(CLONE_NEWNET) != 0 || run_ip("link add rondo-t0 type veth >&2 2>/dev/null") != 0);
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void) {
  if (!is_allowed()) {
    printf("skipped: no network namespace, or no \"ip\", for this user\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("link", a_cable_that_is_pulled_is_noticed_on_both_sides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
