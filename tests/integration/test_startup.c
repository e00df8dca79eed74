// Processes start, find each other by an id or by a launcher's variables, and learn which processes
// died.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/atomic.h"
#include "runtime/net/address.h"
#include "runtime/net/job_address.h"
#include "runtime/net/launcher.h"
#include "runtime/job/members.h"
#include "runtime/net/job_root.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tests/support/processes.h"

#define LONG_NS INT64_C(40000000000)

// What a child's mesh received.
struct received {
  uint64_t lost_bits;
  uint32_t reasons; // a bit each
  uint32_t received, rosters;
};

static void on_lost(void *arg, const uint32_t *ranks, uint32_t count, int reason,
                    const char *text) {
  struct received *t = arg;
  (void)text;
  rondo_store_seq_cst_u32(&t->reasons, rondo_load_relaxed_u32(&t->reasons) | 1u << reason);
  uint64_t bits = rondo_load_relaxed_u64(&t->lost_bits);
  for (uint32_t i = 0; i < count; i++)
    bits |= UINT64_C(1) << ranks[i];
  rondo_store_seq_cst_u64(&t->lost_bits, bits);
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  struct received *t = arg;
  (void)message;
  rondo_store_seq_cst_u32(&t->received, rondo_load_relaxed_u32(&t->received) + 1);
}

static const struct rondo_members_events events = {.receive = on_receive, .lost = on_lost};

// Bounded only by the test's own limit.
static void await_bits(const struct received *t, uint64_t bits) {
  while ((rondo_load_seq_cst_u64(&t->lost_bits) & bits) != bits)
    (void)poll(NULL, 0, 1);
}

static void await_received(const struct received *t, uint32_t count) {
  while (rondo_load_seq_cst_u32(&t->received) < count)
    (void)poll(NULL, 0, 1);
}

static struct rondo_config config_of(struct rondo_test_child *child) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank = child->rank;
  cfg.rank_count = child->count;
  return cfg;
}

static struct rondo_members *start(struct rondo_test_child *child, struct rondo_config *cfg,
                                   struct received *t) {
  struct rondo_members *mesh;
  RONDO_CHILD_CHECK(rondo_config_complete(cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_members_calls->is_needed(cfg));
  RONDO_CHILD_CHECK(rondo_members_calls->start(cfg, NULL, &events, t, &mesh) == RONDO_SUCCESS);
  return mesh;
}

static struct rondo_members *start_with_id(struct rondo_test_child *child, struct received *t) {
  struct rondo_config cfg = config_of(child);
  cfg.id = rondo_test_child_id(child, &cfg);
  return start(child, &cfg, t);
}

static void send_to_all(struct rondo_test_child *child, struct rondo_members *mesh) {
  for (uint32_t r = 0; r < child->count; r++) {
    struct rondo_mesh_send message = {
        .to = rondo_members_calls->process_of(mesh, r), .bytes = "hello", .size = 5};
    if (r != child->rank)
      RONDO_CHILD_CHECK(rondo_members_calls->send(mesh, &message) == RONDO_SUCCESS);
  }
}

// Joins, hears from everybody, and leaves.
static void meet(struct rondo_test_child *child, struct rondo_members *mesh,
                 const struct received *t) {
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_members_calls->process_count(mesh) == child->count);
  RONDO_CHILD_CHECK(rondo_members_calls->self(mesh) == child->rank);
  send_to_all(child, mesh);
  await_received(t, child->count - 1);
  rondo_members_calls->stop(mesh, LONG_NS, 0);
}

// A child leaves when all have come here, but for one that does not. Goes with `let_go`.
static void leave_together(struct rondo_test_child *child, struct rondo_members *mesh) {
  rondo_test_child_say(child);
  rondo_test_child_receive(child);
  rondo_members_calls->stop(mesh, LONG_NS, 0);
}

static void let_go(struct rondo_test_processes *p, uint32_t absent) {
  for (uint32_t r = 0; r < p->count; r++)
    if (r != absent)
      rondo_test_receive(p, r);
  for (uint32_t r = 0; r < p->count; r++)
    if (r != absent)
      rondo_test_say(p, r);
}

// ---------------------------------------------------------------- with an id ---

static void meet_by_id(struct rondo_test_child *child) {
  struct received t = {0};
  meet(child, start_with_id(child, &t), &t);
}

static void processes_meet_by_an_id(void **state) {
  struct rondo_test_processes p;
  (void)state;
  for (uint32_t count = 2; count <= 8; count *= 4) {
    rondo_test_fork(&p, count, meet_by_id, NULL);
    rondo_test_pass_id(&p);
    rondo_test_reap(&p, 0);
  }
}

// --------------------------------------------------------------- by a launcher ---

// Name, value and so on; "%r" is the rank, "%n" how many there are, "%j" a number of this job
// alone: others on the machine may be running the same test.
struct launch {
  const char *const *variables;
};

static uint32_t job_number;

static void set_environment(struct rondo_test_child *child, const char *const *variables) {
  for (; *variables; variables += 2) {
    char number[16];
    const char *value = variables[1];
    (void)snprintf(number, sizeof number, "%u",
                   strcmp(value, "%r") == 0   ? child->rank
                   : strcmp(value, "%n") == 0 ? child->count
                                              : job_number);
    if (*value == '%')
      value = number;
    RONDO_CHILD_CHECK(setenv(variables[0], value, 1) == 0);
  }
}

static void meet_by_launcher(struct rondo_test_child *child) {
  const struct launch *l = child->arg;
  struct received t = {0};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  set_environment(child, l->variables);
  struct rondo_members *mesh = start(child, &cfg, &t);
  RONDO_CHILD_CHECK(cfg.rank == child->rank && cfg.rank_count == child->count);
  meet(child, mesh, &t);
}

static const char *const torchrun[] = {
    "RANK", "%r", "WORLD_SIZE", "%n", "MASTER_ADDR", "localhost", "MASTER_PORT", "%j", NULL};
static const char *const open_mpi[] = {"OMPI_COMM_WORLD_RANK",
                                       "%r",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "%n",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE",
                                       "%n",
                                       "PMIX_NAMESPACE",
                                       "%j",
                                       NULL};
static const char *const pmi[] = {"PMI_RANK", "%r",        "PMI_SIZE", "%n", "MPI_LOCALNRANKS",
                                  "%n",       "PMI_JOBID", "%j",       NULL};
static const char *const slurm[] = {"SLURM_PROCID",
                                    "%r",
                                    "SLURM_STEP_NUM_TASKS",
                                    "%n",
                                    "SLURM_STEP_NUM_NODES",
                                    "1",
                                    "SLURM_STEP_ID",
                                    "0",
                                    "SLURM_JOB_ID",
                                    "%j",
                                    "SLURM_STEP_NODELIST",
                                    "n[1-9]",
                                    NULL};
static const char *const by_hand[] = {
    "RONDO_RANK", "%r",           "RONDO_RANK_COUNT", "%n",        "RONDO_ROOT",
    "::1",        "RONDO_SECRET", "sixteen letters.", "RONDO_JOB", "%j",
    NULL};

static void processes_meet_by_what_a_launcher_says(void **state) {
  (void)state;
  const char *const *all[] = {torchrun, open_mpi, pmi, slurm, by_hand};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    struct rondo_test_processes p;
    struct launch l = {all[i]};
    if (all[i] == by_hand && access("/proc/net/if_inet6", R_OK) != 0)
      continue;
    rondo_test_fork(&p, 3, meet_by_launcher, &l);
    rondo_test_reap(&p, 0);
  }
}

static const char *const two_ranks[] = {"RONDO_RANK_COUNT", "4",  "RONDO_ROOT", "localhost",
                                        "RONDO_JOB",        "%j", NULL};

// The children begin with ranks 1 and 3, and then add ranks 0 and 2.
static void meet_with_two_ranks(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  set_environment(child, two_ranks);
  RONDO_CHILD_CHECK(setenv("RONDO_RANK", child->rank ? "3" : "1", 1) == 0);
  struct rondo_members *mesh = start(child, &cfg, &t);
  RONDO_CHILD_CHECK(rondo_members_calls->add_rank(mesh, cfg.rank - 1, NULL) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_members_calls->process_count(mesh) == 2);
  leave_together(child, mesh);
}

static void rank_0_may_be_the_second_of_its_process(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 2, meet_with_two_ranks, NULL);
  let_go(&p, p.count);
  rondo_test_reap(&p, 0);
}

static char *variable_of_torchrun(const char *name) {
  static char text[64];
  for (const char *const *v = torchrun; *v; v += 2) {
    if (strcmp(*v, name) != 0)
      continue;
    uint32_t number = strcmp(v[1], "%r") == 0 ? 0 : strcmp(v[1], "%n") == 0 ? 3 : job_number;
    (void)snprintf(text, sizeof text, "%u", number);
    if (*v[1] != '%')
      (void)snprintf(text, sizeof text, "%s", v[1]);
    return text;
  }
  return NULL;
}

// The ports are made of what the launcher says; somebody else has the first of them.
static void a_port_that_is_taken_is_passed_over(void **state) {
  (void)state;
  struct rondo_test_processes p;
  struct launch l = {torchrun};
  struct rondo_launcher launch;
  struct sockaddr_storage s;
  struct rondo_wire_address at = {.family = 4, .bytes = {127, 0, 0, 1}};
  assert_int_equal(rondo_launcher_find(variable_of_torchrun, &launch), RONDO_SUCCESS);
  at.port = launch.ports[0];
  socklen_t size = rondo_address_to_socket(&at, &s);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int one = 1;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&s, size), 0);
  rondo_test_fork(&p, 3, meet_by_launcher, &l);
  rondo_test_reap(&p, 0);
  close(fd);
}

static void wait_in_vain(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  cfg.join_timeout_ns = 400000000;
  set_environment(child, torchrun);
  if (child->rank == 1)
    return; // never comes
  struct rondo_members *mesh = start(child, &cfg, &t);
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_ERR_PEER);
  await_bits(&t, 1 << 1);
  // On a busy machine others may be late too; tests/integration/test_mesh.c is exact about it.
  // No process leaves until all have received it: a late one would connect to a leaving root.
  RONDO_CHILD_CHECK(rondo_load_seq_cst_u32(&t.reasons) == 1u << RONDO_LOST_MISSING);
  leave_together(child, mesh);
}

static void a_rank_that_never_comes_is_lost_to_the_others(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 4, wait_in_vain, NULL);
  let_go(&p, 1);
  rondo_test_reap(&p, 0);
}

// --------------------------------------------------------------- early leavers ---

#define FRAMES_UNTIL_BYE 4u // two for the handshake, one that names the process, and the farewell

struct leaver {
  struct rondo_test_child *child;
  struct rondo_job_address job;
};

// Lets the others start when the root has heard that rank 0 is leaving.
static void *tell_of_leaving(void *arg) {
  struct leaver *l = arg;
  struct rondo_mesh_counters c;
  do {
    (void)poll(NULL, 0, 1);
    rondo_root_counters(&l->job.key, &c);
  } while (c.received < FRAMES_UNTIL_BYE);
  rondo_test_child_say(l->child);
  return arg;
}

static void leave_first(struct rondo_test_child *child) {
  struct received t = {0};
  struct leaver l = {.child = child};
  struct rondo_config cfg = config_of(child);
  pthread_t thread;
  cfg.id = rondo_test_child_id(child, &cfg);
  if (child->rank) {
    rondo_test_child_receive(child);
    struct rondo_members *mesh = start(child, &cfg, &t);
    RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_ERR_PEER); // one has gone
    await_bits(&t, 1);
    RONDO_CHILD_CHECK(rondo_load_seq_cst_u32(&t.reasons) == 1u << RONDO_LOST_LEFT);
    RONDO_CHILD_CHECK(rondo_members_calls->process_count(mesh) == child->count - 1);
    leave_together(child, mesh);
    return;
  }
  struct rondo_members *mesh = start(child, &cfg, &t);
  RONDO_CHILD_CHECK(rondo_job_address_read(&cfg, &l.job) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(pthread_create(&thread, NULL, tell_of_leaving, &l) == 0);
  rondo_members_calls->stop(mesh, LONG_NS, LONG_NS);
  pthread_join(thread, NULL);
}

static void a_root_that_leaves_at_once_stays_for_the_others(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 4, leave_first, NULL);
  rondo_test_pass_id(&p);
  rondo_test_receive(&p, 0);
  for (uint32_t r = 1; r < p.count; r++)
    rondo_test_say(&p, r);
  let_go(&p, 0);
  rondo_test_reap(&p, 0);
}

// Rank 0 sees that the other has left, not that it did not come: its time would last longer than
// the test.
static void hear_of_leaving(struct rondo_test_child *child, struct rondo_members *mesh,
                            const struct received *t) {
  await_bits(t, 1 << 1);
  RONDO_CHILD_CHECK(rondo_load_seq_cst_u32(&t->reasons) == 1u << RONDO_LOST_LEFT);
  rondo_members_calls->stop(mesh, LONG_NS, LONG_NS);
}

static void leave_before_the_root_is_there(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  cfg.join_timeout_ns = UINT64_C(10) * LONG_NS;
  set_environment(child, torchrun);
  if (child->rank == 0)
    rondo_test_child_receive(child);
  struct rondo_members *mesh = start(child, &cfg, &t);
  if (child->rank == 0) {
    hear_of_leaving(child, mesh, &t);
    return;
  }
  rondo_test_child_say(child);
  rondo_members_calls->stop(mesh, LONG_NS, LONG_NS);
}

static void a_process_that_leaves_before_it_has_joined_says_so(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 2, leave_before_the_root_is_there, NULL);
  rondo_test_receive(&p, 1);
  rondo_test_say(&p, 0);
  rondo_test_reap(&p, 0);
}

// Rank 0 never comes. Neither the time of joining nor that of destroying is over before the test's
// own.
static void leave_without_a_root(struct rondo_test_child *child) {
  struct rondo_context ctx;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (child->rank == 0)
    return;
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  cfg.join_timeout_ns = UINT64_C(10) * LONG_NS;
  cfg.peer_timeout_ns = 100000000;
  set_environment(child, torchrun);
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, INT64_MAX) == RONDO_SUCCESS);
}

static void a_leave_does_not_wait_for_a_root_that_never_comes(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 2, leave_without_a_root, NULL);
  rondo_test_reap(&p, 0);
}

// Like a program that has nothing to do. Neither process may end by its timeout.
static void come_and_go(struct rondo_test_child *child) {
  struct rondo_context ctx;
  struct rondo_config cfg = config_of(child);
  cfg.join_timeout_ns = UINT64_C(10) * LONG_NS;
  rondo_test_log_open(); // before anything is logged
  RONDO_CHILD_CHECK(setenv("RONDO_LOG", "info", 1) == 0);
  cfg.id = rondo_test_child_id(child, &cfg);
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(child->rank || rondo_test_log_has("root: 3 of 3 ranks have joined"));
}

static void a_job_whose_ranks_have_nothing_to_do_ends_when_all_have_come(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 3, come_and_go, NULL);
  rondo_test_pass_id(&p);
  rondo_test_reap(&p, 0);
}

// ------------------------------------------------------------------ and deaths ---

#define VICTIM 2u

static void outlive(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_members *mesh = start_with_id(child, &t);
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
  if (child->rank == 0) { // has a connection to the victim; the others are told by the root
    struct rondo_mesh_send message = {.to = VICTIM};
    RONDO_CHILD_CHECK(rondo_members_calls->send(mesh, &message) == RONDO_SUCCESS);
  }
  if (child->rank == VICTIM) {
    await_received(&t, 1);
    // A child of its own keeps what it inherits open, as those of data loaders do.
    if (fork() == 0) {
      char byte;
      (void)!read(child->from, &byte, 1); // until the test is over
      _exit(0);
    }
    rondo_test_child_say(child);
    for (;;)
      pause();
  }
  await_bits(&t, 1u << VICTIM);
  RONDO_CHILD_CHECK(rondo_load_seq_cst_u32(&t.reasons) == 1u << RONDO_LOST_DIED);
  struct rondo_mesh_send message = {.to = VICTIM};
  RONDO_CHILD_CHECK(rondo_members_calls->send(mesh, &message) == RONDO_ERR_PEER);
  // The root among them may not leave before it has told the others.
  leave_together(child, mesh);
}

static void a_killed_process_is_lost_to_all(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 5, outlive, NULL);
  rondo_test_pass_id(&p);
  rondo_test_receive(&p, VICTIM);
  assert_int_equal(kill(p.pids[VICTIM], SIGKILL), 0);
  let_go(&p, VICTIM);
  rondo_test_reap(&p, 1u << VICTIM);
}

// Rank 0, with the root, dies: before all have come (arg), or after.
static void outlive_root(struct rondo_test_child *child) {
  struct received t = {0};
  int is_early = child->arg != NULL;
  struct rondo_config cfg = config_of(child);
  cfg.id = rondo_test_child_id(child, &cfg);
  if (is_early && child->rank == child->count - 1)
    return;
  struct rondo_members *mesh = start(child, &cfg, &t);
  if (child->rank == 0) {
    if (!is_early)
      RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
    for (;;)
      pause();
  }
  if (is_early) {
    // It had joined already, or it had not: then it gets no answer until its timeout.
    rondo_members_calls->stop(mesh, LONG_NS, 0);
    return;
  }
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
  rondo_test_child_say(child);
  await_bits(&t, 1);
  RONDO_CHILD_CHECK(t.lost_bits == 1 && t.reasons == 1u << RONDO_LOST_DIED);
  // The others still reach each other.
  for (uint32_t r = 1; r < child->count; r++) {
    struct rondo_mesh_send message = {.to = r};
    if (r != child->rank)
      RONDO_CHILD_CHECK(rondo_members_calls->send(mesh, &message) == RONDO_SUCCESS);
  }
  await_received(&t, child->count - 2);
  rondo_test_child_say(child);
  rondo_test_child_receive(child);
  rondo_members_calls->stop(mesh, LONG_NS, 0);
}

static void the_job_outlives_its_root(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 4, outlive_root, NULL);
  rondo_test_pass_id(&p);
  for (uint32_t r = 1; r < 4; r++)
    rondo_test_receive(&p, r);
  assert_int_equal(kill(p.pids[0], SIGKILL), 0);
  for (uint32_t r = 1; r < 4; r++)
    rondo_test_receive(&p, r);
  for (uint32_t r = 1; r < 4; r++)
    rondo_test_say(&p, r);
  rondo_test_reap(&p, 1);
}

static void stopping_without_a_root_is_bounded(void **state) {
  struct rondo_test_processes p;
  static int early;
  (void)state;
  rondo_test_fork(&p, 4, outlive_root, &early);
  rondo_test_pass_id(&p);
  assert_int_equal(kill(p.pids[0], SIGKILL), 0);
  rondo_test_reap(&p, 1);
}

// On the control thread: the process does nothing more.
static void stand_still(void *arg) {
  rondo_test_child_say(arg);
  for (;;)
    pause();
}

static void await_sent(struct rondo_members *mesh, uint64_t frames) {
  struct rondo_mesh_counters c;
  do {
    (void)poll(NULL, 0, 1);
    rondo_mesh_counters(rondo_members_mesh(mesh), &c);
  } while (c.sent < frames);
}

// The last child has rank 0. It joins, and reads nothing after that: the roster goes to it and no
// further. The root is in the first child.
static void outlive_first(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_config cfg = config_of(child);
  cfg.rank = (child->rank + 1) % child->count;
  cfg.id = rondo_test_child_id(child, &cfg);
  if (cfg.rank) // until rank 0 stands still
    rondo_test_child_receive(child);
  struct rondo_members *mesh = start(child, &cfg, &t);
  await_sent(mesh, 3);
  if (!cfg.rank) {
    RONDO_CHILD_CHECK(rondo_members_calls->after(mesh, 0, stand_still, child) == RONDO_SUCCESS);
    for (;;)
      pause();
  }
  if (child->rank == 0) {
    struct rondo_mesh_counters c;
    do { // until all have joined: the root makes the roster before it sees that rank 0 has gone
      (void)poll(NULL, 0, 1);
      rondo_root_counters(rondo_mesh_key(rondo_members_mesh(mesh)), &c);
    } while (c.received < 3 * child->count);
    rondo_test_child_say(child);
  }
  // Well before it asks the root again (JOIN_PAUSE_NS).
  RONDO_CHILD_CHECK(rondo_members_await(mesh, INT64_C(7000000000)) == RONDO_SUCCESS);
  await_bits(&t, 1);
  RONDO_CHILD_CHECK(t.lost_bits == 1 && t.reasons == 1u << RONDO_LOST_DIED);
  leave_together(child, mesh);
}

static void the_roster_outlives_its_first_receiver(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 4, outlive_first, NULL);
  rondo_test_pass_id(&p);
  rondo_test_receive(&p, 3);
  for (uint32_t r = 0; r < 3; r++)
    rondo_test_say(&p, r);
  rondo_test_receive(&p, 0);
  assert_int_equal(kill(p.pids[3], SIGKILL), 0);
  let_go(&p, 3);
  rondo_test_reap(&p, 1u << 3);
}

static void fail_with_root(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_members *mesh = start_with_id(child, &t);
  await_sent(mesh, 3); // until it has joined, but for the last rank, which nobody starts
  rondo_test_child_say(child);
  if (child->rank == 0)
    for (;;)
      pause();
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_ERR_PEER);
  RONDO_CHILD_CHECK(t.reasons == 1u << RONDO_LOST_DIED);
  rondo_members_calls->stop(mesh, LONG_NS, 0);
}

static void wait_for_one_more(struct rondo_test_child *child) {
  struct rondo_test_child more = *child;
  more.count = child->count + 1;
  fail_with_root(&more);
}

static void joining_fails_at_once_when_the_root_dies(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 3, wait_for_one_more, NULL);
  rondo_test_pass_id(&p);
  for (uint32_t r = 0; r < 3; r++)
    rondo_test_receive(&p, r);
  assert_int_equal(kill(p.pids[0], SIGKILL), 0);
  rondo_test_reap(&p, 1);
}

// Stopped for a while, with messages on their way: late, and nobody takes it for dead.
static void be_patient(struct rondo_test_child *child) {
  struct received t = {0};
  struct rondo_members *mesh = start_with_id(child, &t);
  RONDO_CHILD_CHECK(rondo_members_await(mesh, LONG_NS) == RONDO_SUCCESS);
  rondo_test_child_say(child);
  if (child->rank == VICTIM) {
    await_received(&t, child->count - 1);
  } else {
    rondo_test_child_receive(child); // it is stopped now
    struct rondo_mesh_send message = {.to = VICTIM};
    RONDO_CHILD_CHECK(rondo_members_calls->send(mesh, &message) == RONDO_SUCCESS);
    rondo_test_child_say(child);
  }
  RONDO_CHILD_CHECK(rondo_load_seq_cst_u64(&t.lost_bits) == 0);
  rondo_test_child_say(child);
  rondo_test_child_receive(child);
  rondo_members_calls->stop(mesh, LONG_NS, 0);
}

static void a_stopped_process_is_not_taken_for_dead(void **state) {
  struct rondo_test_processes p;
  int status;
  (void)state;
  rondo_test_fork(&p, 4, be_patient, NULL);
  rondo_test_pass_id(&p);
  for (uint32_t r = 0; r < 4; r++)
    rondo_test_receive(&p, r);
  assert_int_equal(kill(p.pids[VICTIM], SIGSTOP), 0);
  assert_int_equal(waitpid(p.pids[VICTIM], &status, WUNTRACED), p.pids[VICTIM]);
  for (uint32_t r = 0; r < 4; r++)
    if (r != VICTIM)
      rondo_test_say(&p, r);
  for (uint32_t r = 0; r < 4; r++)
    if (r != VICTIM)
      rondo_test_receive(&p, r);
  assert_int_equal(kill(p.pids[VICTIM], SIGCONT), 0);
  for (uint32_t r = 0; r < 4; r++)
    rondo_test_receive(&p, r);
  for (uint32_t r = 0; r < 4; r++)
    rondo_test_say(&p, r);
  rondo_test_reap(&p, 0);
}

// What was created is freed, once.
static void is_refused(struct rondo_test_child *child) {
  struct rondo_context ctx;
  struct rondo_config cfg = config_of(child);
  cfg.id = rondo_test_child_id(child, &cfg);
  cfg.rank = 1;
  cfg.rank_count = 2;
  memcpy(cfg.interfaces, "=no-such", sizeof "=no-such");
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_ERR_UNSUPPORTED);
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0) == RONDO_SUCCESS);
}

static void a_rank_without_an_interface_is_refused_and_may_try_again(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 1, is_refused, NULL);
  rondo_test_pass_id(&p);
  rondo_test_reap(&p, 0);
}

static void ask_for_huge_pages(struct rondo_test_child *child) {
  struct rondo_context ctx;
  struct rondo_config cfg = config_of(child);
  rondo_test_log_open(); // before anything is logged
  RONDO_CHILD_CHECK(setenv("RONDO_LOG", "info", 1) == 0 && unsetenv("RONDO_HUGE_PAGES") == 0);
  cfg.id = rondo_test_child_id(child, &cfg);
  for (cfg.huge_pages = 0; cfg.huge_pages < 2; cfg.huge_pages++) {
    RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
    RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0) == RONDO_SUCCESS);
    // The system decides whether it has any.
    RONDO_CHILD_CHECK(rondo_test_log_count("huge pages") == cfg.huge_pages);
  }
}

static void huge_pages_are_asked_for_by_a_field(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 1, ask_for_huge_pages, NULL);
  rondo_test_pass_id(&p);
  rondo_test_reap(&p, 0);
}

int main(void) {
  job_number = (uint32_t)getpid();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("startup", processes_meet_by_an_id),
      RONDO_NAMED_TEST("startup", processes_meet_by_what_a_launcher_says),
      RONDO_NAMED_TEST("startup", rank_0_may_be_the_second_of_its_process),
      RONDO_NAMED_TEST("startup", a_port_that_is_taken_is_passed_over),
      RONDO_NAMED_TEST("startup", huge_pages_are_asked_for_by_a_field),
      RONDO_NAMED_TEST("startup", a_rank_without_an_interface_is_refused_and_may_try_again),
      RONDO_NAMED_TEST("startup", a_rank_that_never_comes_is_lost_to_the_others),
      RONDO_NAMED_TEST("startup", a_root_that_leaves_at_once_stays_for_the_others),
      RONDO_NAMED_TEST("startup", a_process_that_leaves_before_it_has_joined_says_so),
      RONDO_NAMED_TEST("startup", a_leave_does_not_wait_for_a_root_that_never_comes),
      RONDO_NAMED_TEST("startup", a_job_whose_ranks_have_nothing_to_do_ends_when_all_have_come),
      RONDO_NAMED_TEST("startup", a_killed_process_is_lost_to_all),
      RONDO_NAMED_TEST("startup", the_roster_outlives_its_first_receiver),
      RONDO_NAMED_TEST("startup", the_job_outlives_its_root),
      RONDO_NAMED_TEST("startup", stopping_without_a_root_is_bounded),
      RONDO_NAMED_TEST("startup", joining_fails_at_once_when_the_root_dies),
      RONDO_NAMED_TEST("startup", a_stopped_process_is_not_taken_for_dead),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
