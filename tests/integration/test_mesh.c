// Processes of a job find each other, exchange messages, and learn which processes are lost. All
// meshes are in this one process; tests/integration/test_processes.c has several processes.
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "runtime/job/membership_message.h"
#include "runtime/job/membership_state.h"
#include "runtime/net/job_address.h"
#include "runtime/net/job_root.h"
#include "runtime/net/mesh_state.h"
#include "tests/support/crew.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static struct rondo_crew crew;

static void all_find_each_other(void **state) {
  (void)state;
  rondo_crew_init(&crew, 8, 60000);
  rondo_crew_gather(&crew);
  for (uint32_t r = 0; r < 8; r++) {
    struct rondo_members *mesh = crew.members[r].mesh;
    assert_int_equal(rondo_members_calls->process_count(mesh), 8);
    assert_int_equal(rondo_members_calls->self(mesh), r);
    for (uint32_t p = 0; p < 8; p++) {
      struct rondo_members_process process;
      assert_int_equal(rondo_members_calls->process_of(mesh, p), p);
      assert_int_equal(rondo_members_calls->process_get(mesh, p, &process), RONDO_SUCCESS);
      assert_int_equal(process.rank_count, 1);
      assert_int_equal(process.ranks[0], p);
      assert_int_equal(process.pid, getpid());
      assert_true(rondo_members_calls->is_same_machine(mesh, p));
    }
    assert_int_equal(crew.members[r].rosters, 1);
    assert_int_equal(rondo_members_calls->process_of(mesh, 8), RONDO_MESH_NOBODY);
  }
  rondo_crew_fini(&crew);
}

static void talk(uint32_t size, uint32_t count) {
  for (uint32_t n = 0; n < count; n++)
    for (uint32_t from = 0; from < size; from++)
      for (uint32_t to = 0; to < size; to++)
        if (from != to)
          assert_int_equal(
              rondo_crew_send(&crew, from, to, n, n % 16 == 15 ? RONDO_MESH_MESSAGE_BYTES : 4 + n),
              RONDO_SUCCESS);
  for (uint32_t r = 0; r < size; r++) {
    rondo_crew_await(&crew.members[r], rondo_crew_has_received, count * (size - 1));
    assert_int_equal(crew.members[r].received, count * (size - 1));
    assert_int_equal(crew.members[r].bad, 0);
  }
}

static void messages_arrive_whole_and_in_order(void **state) {
  (void)state;
  rondo_crew_init(&crew, 4, 60000);
  rondo_crew_gather(&crew);
  talk(4, 64);
  rondo_crew_fini(&crew);
}

// Processes connect over TCP as between machines, with either family of addresses.
static void gather_on_machines(uint32_t size, int family) {
  char name[32];
  rondo_crew_init(&crew, size, 60000);
  crew.cfg.address_family = family;
  for (uint32_t r = 0; r < size; r++) {
    (void)snprintf(name, sizeof name, "machine %u", r);
    assert_int_equal(setenv("RONDO_TEST_MACHINE", name, 1), 0);
    assert_int_equal(rondo_crew_start(&crew, r), RONDO_SUCCESS);
  }
  assert_int_equal(unsetenv("RONDO_TEST_MACHINE"), 0);
  for (uint32_t r = 0; r < size; r++)
    assert_int_equal(rondo_members_await(crew.members[r].mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
}

static void talk_over_tcp(int family) {
  gather_on_machines(3, family);
  assert_false(rondo_members_calls->is_same_machine(crew.members[0].mesh, 1));
  int fd = 0;
  struct rondo_mesh_send with_fd = {.to = 1, .fds = &fd, .fd_count = 1};
  assert_int_equal(rondo_members_calls->send(crew.members[0].mesh, &with_fd),
                   RONDO_ERR_UNSUPPORTED);
  talk(3, 40);
  rondo_crew_fini(&crew);
}

static void messages_reach_other_machines(void **state) {
  (void)state;
  talk_over_tcp(4);
  if (access("/proc/net/if_inet6", R_OK) == 0)
    talk_over_tcp(6);
}

static int has_fd(struct rondo_crew_member *m, uint32_t unused) {
  (void)unused;
  return m->fd >= 0;
}

static void descriptors_come_with_messages(void **state) {
  (void)state;
  static const char text[] = "what both can see";
  char seen[sizeof text] = "";
  rondo_crew_init(&crew, 2, 60000);
  rondo_crew_gather(&crew);
  int fd = memfd_create("test", MFD_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, sizeof text), (ssize_t)sizeof text);
  struct rondo_mesh_send message = {
      .to = 1, .bytes = "\0\0\0", .size = 4, .fds = &fd, .fd_count = 1};
  assert_int_equal(rondo_members_calls->send(crew.members[0].mesh, &message), RONDO_SUCCESS);
  close(fd);
  rondo_crew_await(&crew.members[1], has_fd, 0);
  assert_int_equal(pread(crew.members[1].fd, seen, sizeof seen, 0), (ssize_t)sizeof seen);
  assert_string_equal(seen, text);
  close(crew.members[1].fd);
  rondo_crew_fini(&crew);
}

static void nonsense_is_not_sent(void **state) {
  (void)state;
  struct rondo_mesh_send m = {.to = 1};
  rondo_crew_init(&crew, 2, 60000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  struct rondo_members *mesh = crew.members[0].mesh;
  assert_int_equal(rondo_members_calls->send(mesh, &m), RONDO_ERR_UNKNOWN); // nobody is known yet
  assert_int_equal(rondo_members_await(mesh, 0), RONDO_ERR_TIMEOUT);
  assert_int_equal(rondo_crew_start(&crew, 1), RONDO_SUCCESS);
  assert_int_equal(rondo_members_await(mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
  m.to = 2;
  assert_int_equal(rondo_members_calls->send(mesh, &m), RONDO_ERR_UNKNOWN);
  m.to = 0;
  assert_int_equal(rondo_members_calls->send(mesh, &m), RONDO_ERR_INVALID);
  m.to = 1;
  m.size = RONDO_MESH_MESSAGE_BYTES + 1;
  assert_int_equal(rondo_members_calls->send(mesh, &m), RONDO_ERR_INVALID);
  assert_int_equal(rondo_members_calls->add_rank(mesh, 1, NULL), RONDO_ERR_TIMEOUT);
  rondo_crew_fini(&crew);
}

#define FRAMES_TO_JOIN 3u // two for the handshake, and one that names the process

static int is_absent(uint32_t rank) { return rank == 3 || rank == 6; }

// Starts all but two ranks of eight. Returns whether all of them had joined before the root's time
// was over: it begins with the first of them, so not before this call.
static int gather_some(uint32_t timeout_ms) {
  struct rondo_mesh_counters c;
  struct rondo_job_address job;
  uint64_t begin_ns = rondo_now_ns();
  uint64_t tried_ns = 0;
  rondo_test_log_clear();
  rondo_crew_init(&crew, 8, timeout_ms);
  assert_int_equal(rondo_job_address_read(&crew.cfg, &job), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 8; r++)
    if (!is_absent(r))
      assert_int_equal(rondo_crew_start(&crew, r), RONDO_SUCCESS);
  do {
    (void)poll(NULL, 0, 1);
    rondo_root_counters(&job.key, &c);
    tried_ns = rondo_now_ns() - begin_ns;
  } while (c.received < 6 * FRAMES_TO_JOIN && tried_ns < timeout_ms * UINT64_C(1000000));
  return tried_ns < timeout_ms * UINT64_C(1000000);
}

static void a_rank_that_never_came_is_named(void **state) {
  (void)state;
  char expected[64];
  uint32_t timeout_ms = 1000;
  while (!gather_some(timeout_ms)) { // too busy a machine for so short a time: nothing is known
    rondo_crew_fini(&crew);
    timeout_ms *= 2;
    assert_true(timeout_ms < 60000);
  }
  for (uint32_t r = 0; r < 8; r++) {
    if (is_absent(r))
      continue;
    struct rondo_crew_member *m = &crew.members[r];
    rondo_crew_await(m, rondo_crew_has_lost, 2);
    assert_int_equal(rondo_members_await(m->mesh, 0), RONDO_ERR_PEER);
    assert_int_equal(m->lost_bits, 1 << 3 | 1 << 6);
    assert_int_equal(m->reason, RONDO_LOST_MISSING);
    assert_int_equal(rondo_members_calls->process_of(m->mesh, 6), RONDO_MESH_NOBODY);
    assert_int_equal(rondo_members_calls->process_count(m->mesh), 6);
  }
  (void)snprintf(expected, sizeof expected, "2 of 8 ranks did not join within %u ms: 3, 6",
                 timeout_ms);
  assert_true(rondo_test_log_has(expected));
  // The others go on.
  assert_int_equal(rondo_crew_send(&crew, 0, 7, 0, 100), RONDO_SUCCESS);
  rondo_crew_await(&crew.members[7], rondo_crew_has_received, 1);
  // A process that comes now gets the error.
  assert_int_equal(rondo_crew_start(&crew, 3), RONDO_SUCCESS);
  assert_int_equal(rondo_members_await(crew.members[3].mesh, RONDO_CREW_LONG_NS), RONDO_ERR_PEER);
  assert_true(rondo_test_log_has("rank 3 joins too late"));
  rondo_crew_fini(&crew);
}

struct absent_ranks {
  uint32_t lost; // ranks
  int reason;
};

static void on_absent(void *arg, const uint32_t *ranks, uint32_t count, int reason,
                      const char *text) {
  struct absent_ranks *absent = arg;
  (void)ranks, (void)text;
  absent->reason = reason;
  rondo_store_seq_cst_u32(&absent->lost, absent->lost + count);
}

// Their list is longer than a frame may be.
static void all_ranks_of_the_largest_job_are_named(void **state) {
  (void)state;
  static const struct rondo_members_events events = {.lost = on_absent};
  struct absent_ranks absent = {0};
  struct rondo_members *mesh;
  rondo_test_log_clear();
  rondo_crew_init(&crew, 1, 300);
  crew.cfg.rank_count = RONDO_MAX_RANKS;
  crew.cfg.rank = RONDO_MAX_RANKS - 1;
  assert_int_equal(rondo_members_calls->start(&crew.cfg, NULL, &events, &absent, &mesh),
                   RONDO_SUCCESS);
  assert_int_equal(rondo_members_await(mesh, RONDO_CREW_LONG_NS), RONDO_ERR_PEER);
  for (int i = 0; i < 40000 && rondo_load_seq_cst_u32(&absent.lost) < RONDO_MAX_RANKS - 1; i++)
    (void)poll(NULL, 0, 1);
  assert_int_equal(absent.lost, RONDO_MAX_RANKS - 1);
  assert_int_equal(absent.reason, RONDO_LOST_MISSING);
  assert_true(rondo_test_log_has("131071 of 131072 ranks did not join within 300 ms: 0-131070"));
  assert_true(rondo_test_log_has("still waiting for 131071 of 131072 ranks"));
  rondo_members_calls->stop(mesh, RONDO_CREW_LONG_NS, 0);
  rondo_crew_fini(&crew);
}

static void a_leave_is_reported_after_what_the_process_sent(void **state) {
  (void)state;
  rondo_crew_init(&crew, 3, 60000);
  rondo_crew_gather(&crew);
  for (uint32_t n = 0; n < 100; n++)
    assert_int_equal(rondo_crew_send(&crew, 1, 2, n, 5000), RONDO_SUCCESS);
  rondo_crew_stop(&crew, 1);
  for (uint32_t r = 0; r < 3; r += 2) {
    rondo_crew_await(&crew.members[r], rondo_crew_has_lost, 1);
    assert_int_equal(crew.members[r].reason, RONDO_LOST_LEFT);
    assert_int_equal(crew.members[r].lost_bits, 1 << 1);
  }
  assert_int_equal(crew.members[2].received, 100);
  assert_int_equal(crew.members[2].bad + crew.members[2].late, 0);
  assert_int_equal(rondo_crew_send(&crew, 0, 1, 0, 4), RONDO_ERR_PEER);
  rondo_crew_fini(&crew);
}

static void ranks_of_one_process_come_and_go_by_themselves(void **state) {
  (void)state;
  rondo_crew_init(&crew, 4, 60000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  struct rondo_members *mesh = crew.members[0].mesh;
  assert_int_equal(rondo_crew_start(&crew, 3), RONDO_SUCCESS);
  assert_int_equal(rondo_members_calls->add_rank(mesh, 2, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_members_calls->add_rank(mesh, 1, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_members_calls->add_rank(mesh, 1, NULL), RONDO_ERR_EXISTS);
  struct rondo_crew_member *m = &crew.members[3];
  assert_int_equal(rondo_members_await(m->mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
  struct rondo_members_process process;
  assert_int_equal(rondo_members_calls->process_count(m->mesh), 2);
  assert_int_equal(rondo_members_calls->process_get(m->mesh, 0, &process), RONDO_SUCCESS);
  assert_int_equal(process.rank_count, 3);
  assert_int_equal(process.ranks[1], 1);
  assert_int_equal(rondo_members_calls->process_of(m->mesh, 2), 0);
  rondo_members_calls->remove_rank(mesh, 1);
  rondo_crew_await(m, rondo_crew_has_lost, 1);
  assert_int_equal(m->lost_bits, 1 << 1);
  assert_int_equal(m->reason, RONDO_LOST_LEFT);
  rondo_crew_stop(&crew, 0);
  rondo_crew_await(m, rondo_crew_has_lost, 3);
  assert_int_equal(m->lost, 3);
  rondo_crew_fini(&crew);
}

static void a_rank_that_leaves_is_reported_after_its_messages(void **state) {
  (void)state;
  struct rondo_crew_member *m = &crew.members[2];
  rondo_crew_init(&crew, 4, 60000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_members_calls->add_rank(crew.members[0].mesh, 1, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_crew_start(&crew, 2), RONDO_SUCCESS);
  assert_int_equal(rondo_crew_start(&crew, 3), RONDO_SUCCESS);
  assert_int_equal(rondo_members_await(crew.members[0].mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
  // There is no connection yet: it is made for these.
  for (uint32_t n = 0; n < 20; n++)
    assert_int_equal(rondo_crew_send(&crew, 0, 2, n, RONDO_MESH_MESSAGE_BYTES), RONDO_SUCCESS);
  rondo_members_calls->remove_rank(crew.members[0].mesh, 1);
  rondo_crew_await(m, rondo_crew_has_lost, 1);
  assert_int_equal(m->lost_bits, 1 << 1);
  assert_int_equal(m->reason, RONDO_LOST_LEFT);
  assert_int_equal(m->received_before, 20);
  assert_int_equal(m->bad, 0);
  // A process without a connection gets it from the root.
  rondo_crew_await(&crew.members[3], rondo_crew_has_lost, 1);
  assert_int_equal(crew.members[3].lost_bits, 1 << 1);
  rondo_crew_fini(&crew);
}

static void a_rank_that_is_there_already_is_rejected(void **state) {
  (void)state;
  struct rondo_members *other;
  static const struct rondo_members_events deaf;
  rondo_test_log_clear();
  rondo_crew_init(&crew, 3, 60000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_crew_start(&crew, 1), RONDO_SUCCESS);
  struct rondo_config twin = crew.cfg;
  twin.rank = 1;
  assert_int_equal(rondo_members_calls->start(&twin, NULL, &deaf, NULL, &other), RONDO_SUCCESS);
  // One of the two is; the job goes on with the other.
  assert_int_equal(rondo_crew_start(&crew, 2), RONDO_SUCCESS);
  assert_int_equal(rondo_members_await(crew.members[0].mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
  int first = rondo_members_await(crew.members[1].mesh, RONDO_CREW_LONG_NS);
  int second = rondo_members_await(other, RONDO_CREW_LONG_NS);
  assert_int_equal(first + second, RONDO_ERR_PEER);
  assert_true(rondo_test_log_has("rank 1 has already joined"));
  rondo_members_calls->stop(other, RONDO_CREW_LONG_NS, 0);
  // So is one with another count.
  struct rondo_config wrong = crew.cfg;
  wrong.rank_count = 5;
  assert_int_equal(rondo_members_calls->start(&wrong, NULL, &deaf, NULL, &other), RONDO_SUCCESS);
  assert_int_equal(rondo_members_await(other, RONDO_CREW_LONG_NS), RONDO_ERR_PEER);
  assert_true(rondo_test_log_has("it expects a job of 5 ranks, the others one of 3"));
  rondo_members_calls->stop(other, RONDO_CREW_LONG_NS, 0);
  rondo_crew_fini(&crew);
}

// Returns 1 if the root waited for the other rank until the time for joining was over. It has left
// before then if the first rank itself did not come in time.
static int stay_in_vain(uint32_t timeout_ms) {
  char expected[64];
  rondo_test_log_clear();
  rondo_crew_init(&crew, 2, timeout_ms);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  rondo_crew_stop_last(&crew, 0);
  rondo_crew_fini(&crew);
  (void)snprintf(expected, sizeof expected, "1 of 2 ranks did not join within %u ms: 1",
                 timeout_ms);
  return rondo_test_log_has(expected);
}

// Nobody comes: not before its own time is over, and not before that of joining is.
static void staying_for_others_is_bounded(void **state) {
  (void)state;
  uint32_t timeout_ms = 50;
  rondo_crew_init(&crew, 2, 60000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  rondo_members_calls->stop(crew.members[0].mesh, RONDO_CREW_LONG_NS, 1000000);
  crew.members[0].mesh = NULL;
  rondo_crew_fini(&crew);
  while (!stay_in_vain(timeout_ms)) { // too busy a machine for so short a time
    timeout_ms *= 2;
    assert_true(timeout_ms < 60000);
  }
}

// Ranks 1 and 2 join and leave. With a fourth rank, which joins last, the root knows of that before
// it makes the roster.
static void two_leave_while_joining(uint32_t size) {
  struct rondo_crew_member *m = &crew.members[0];
  rondo_crew_init(&crew, size, 600000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  for (uint32_t r = 1; r < 3; r++) {
    assert_int_equal(rondo_crew_start(&crew, r), RONDO_SUCCESS);
    rondo_crew_stop_last(&crew, r);
  }
  if (size > 3)
    assert_int_equal(rondo_crew_start(&crew, 3), RONDO_SUCCESS);
  rondo_crew_await(m, rondo_crew_has_lost, 2);
  assert_int_equal(m->lost_bits, 1 << 1 | 1 << 2);
  assert_int_equal(m->rosters, 1);
}

static void a_process_that_leaves_while_it_joins_says_so(void **state) {
  (void)state;
  two_leave_while_joining(4);
  assert_int_equal(crew.members[0].reason, RONDO_LOST_LEFT);
  rondo_crew_fini(&crew);
}

// The root makes the roster before or after it knows of the last leave.
static void the_last_to_join_may_leave_at_once(void **state) {
  (void)state;
  two_leave_while_joining(3);
  assert_int_equal(crew.members[0].reason, RONDO_LOST_LEFT);
  rondo_crew_fini(&crew);
}

// The roster on its way from the root to rank 0.
static struct {
  struct rondo_mesh *mesh; // of rank 0
  void (*control)(void *arg, uint32_t from, const void *bytes, size_t size);
  uint8_t bytes[4096];
  size_t size;
  sem_t is_awaited, is_made;
} roster;

static void keep_roster(void *arg, uint32_t from, const void *bytes, size_t size) {
  if (from != RONDO_MESH_ROOT || *(const uint8_t *)bytes != RONDO_MEMBERSHIP_ROSTER) {
    roster.control(arg, from, bytes, size);
    return;
  }
  roster.size = size < sizeof roster.bytes ? size : 0;
  memcpy(roster.bytes, bytes, roster.size);
  (void)sem_post(&roster.is_made);
}

static void await_roster(void *arg) {
  (void)arg;
  roster.control = roster.mesh->events.control;
  roster.mesh->events.control = keep_roster;
  (void)sem_post(&roster.is_awaited);
}

static void pass_roster(void *arg) {
  (void)arg;
  roster.control(roster.mesh->arg, RONDO_MESH_ROOT, roster.bytes, roster.size);
}

static void *stop_rank(void *arg) {
  const uint32_t *rank = arg;
  rondo_crew_stop_last(&crew, *rank);
  return NULL;
}

// One of two ranks leaves after the roster was made, and before any process has it.
static void leave_before_the_roster_comes(uint32_t rank) {
  struct rondo_crew_member *other = &crew.members[1 - rank];
  struct rondo_mesh_counters c;
  struct rondo_job_address job;
  pthread_t stopper;
  assert_int_equal(sem_init(&roster.is_awaited, 0, 0) | sem_init(&roster.is_made, 0, 0), 0);
  rondo_crew_init(&crew, 2, 600000);
  assert_int_equal(rondo_job_address_read(&crew.cfg, &job), RONDO_SUCCESS);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  struct rondo_members *first = crew.members[0].mesh;
  roster.mesh = rondo_members_mesh(first);
  assert_int_equal(rondo_members_calls->after(first, 0, await_roster, NULL), RONDO_SUCCESS);
  while (sem_wait(&roster.is_awaited) != 0)
    continue;
  assert_int_equal(rondo_crew_start(&crew, 1), RONDO_SUCCESS);
  while (sem_wait(&roster.is_made) != 0)
    continue;
  assert_int_equal(pthread_create(&stopper, NULL, stop_rank, &rank), 0);
  do { // until the process leaves: it tells the root so
    (void)poll(NULL, 0, 1);
    rondo_root_counters(&job.key, &c);
  } while (c.received <= 2 * FRAMES_TO_JOIN);
  assert_int_equal(rondo_members_calls->after(first, 0, pass_roster, NULL), RONDO_SUCCESS);
  rondo_crew_await(other, rondo_crew_has_lost, 1);
  assert_int_equal(other->reason, RONDO_LOST_LEFT);
  assert_int_equal(other->rosters, 1);
  assert_int_equal(pthread_join(stopper, NULL), 0);
  rondo_crew_fini(&crew);
  assert_int_equal(sem_destroy(&roster.is_awaited) | sem_destroy(&roster.is_made), 0);
}

static void a_leave_before_the_roster_comes_is_no_death(void **state) {
  (void)state;
  leave_before_the_roster_comes(1);
  leave_before_the_roster_comes(0); // which passes it on first
}

// The root of an id is there before the id, so one that does not answer has gone.
static void a_leave_does_not_wait_for_a_root_that_has_left(void **state) {
  (void)state;
  rondo_crew_init(&crew, 2, 600000);
  assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
  rondo_crew_stop(&crew, 0); // and the root with it
  for (int i = 0; i < 2; i++) {
    assert_int_equal(rondo_crew_start(&crew, 1), RONDO_SUCCESS);
    if (i)
      (void)rondo_members_await(crew.members[1].mesh, 100000000);
    rondo_members_calls->stop(crew.members[1].mesh, RONDO_CREW_LONG_NS,
                              INT64_MAX); // the test's own time is the bound
  }
  crew.members[1].mesh = NULL;
  rondo_crew_fini(&crew);
}

// At whatever moment of joining; some of these stop before they have begun.
static void stopping_while_joining_is_bounded(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 20; i++) {
    rondo_crew_init(&crew, 4, 60000);
    for (uint32_t r = 0; r < 3; r++)
      assert_int_equal(rondo_crew_start(&crew, r), RONDO_SUCCESS);
    if (i % 2)
      (void)rondo_members_await(crew.members[i % 3].mesh, (int64_t)i * 100000);
    rondo_crew_fini(&crew);
  }
}

static void the_root_listens_where_it_is_told_to(void **state) {
  (void)state;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_unique_id id;
  rondo_test_log_clear();
  memcpy(cfg.interfaces, "=nosuch0", sizeof "=nosuch0");
  assert_int_equal(rondo_unique_id_listen(&id, &cfg), RONDO_ERR_UNSUPPORTED);
  assert_true(rondo_test_log_has("no network interface fits \"=nosuch0\""));
  assert_int_equal(rondo_unique_id_listen(NULL, &cfg), RONDO_ERR_INVALID);
  cfg.address_family = 5;
  assert_int_equal(rondo_unique_id_listen(&id, &cfg), RONDO_ERR_INVALID);
  for (int family = 4; family <= 6; family += 2) {
    struct rondo_job_address job;
    if (family == 6 && access("/proc/net/if_inet6", R_OK) != 0)
      continue;
    rondo_crew_init(&crew, 2, 60000); // listens by both; its root ends with its first mesh
    assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
    rondo_crew_stop(&crew, 0);
    cfg = crew.cfg;
    cfg.address_family = family;
    assert_int_equal(rondo_unique_id_listen(&cfg.id, &cfg), RONDO_SUCCESS);
    assert_int_equal(rondo_job_address_read(&cfg, &job), RONDO_SUCCESS);
    assert_int_equal(job.address_count, 1);
    assert_int_equal(job.addresses[0].family, family);
    crew.cfg = cfg;
    rondo_crew_gather(&crew);
    rondo_crew_fini(&crew);
  }
}

#define HELD_MESSAGES 320u // of RONDO_MESH_MESSAGE_BYTES: more than sockets and buffers take

static sem_t is_held, may_go_on;

static void on_hold(void *arg) {
  (void)arg;
  (void)sem_post(&is_held);
  while (sem_wait(&may_go_on) != 0)
    continue;
}

// Returns when the control thread does nothing more until `may_go_on`.
static void control_thread_hold(struct rondo_members *mesh) {
  assert_int_equal(sem_init(&is_held, 0, 0) | sem_init(&may_go_on, 0, 0), 0);
  assert_int_equal(rondo_members_calls->after(mesh, 0, on_hold, NULL), RONDO_SUCCESS);
  while (sem_wait(&is_held) != 0)
    continue;
}

// The control thread takes nothing meanwhile: all messages wait, and none is refused or lost. The
// mesh says when they are too many.
static void messages_for_a_slow_process_wait(void **state) {
  (void)state;
  rondo_crew_init(&crew, 2, 60000);
  rondo_crew_gather(&crew);
  struct rondo_members *mesh = crew.members[0].mesh;
  control_thread_hold(mesh);
  for (uint32_t n = 0; n < HELD_MESSAGES; n++)
    assert_int_equal(rondo_crew_send(&crew, 0, 1, n, RONDO_MESH_MESSAGE_BYTES), RONDO_SUCCESS);
  assert_false(rondo_members_calls->is_full(mesh));
  rondo_members_mesh(mesh)->queue_bytes = (uint64_t)HELD_MESSAGES * RONDO_MESH_MESSAGE_BYTES;
  assert_true(rondo_members_calls->is_full(mesh));
  assert_int_equal(rondo_crew_send(&crew, 0, 1, HELD_MESSAGES, 4), RONDO_SUCCESS);
  assert_int_equal(sem_post(&may_go_on), 0);
  rondo_crew_await(&crew.members[1], rondo_crew_has_received, HELD_MESSAGES + 1);
  assert_int_equal(crew.members[1].bad + crew.members[1].lost, 0);
  rondo_crew_fini(&crew);
}

// All send to all before any of them connects, so each pair makes two connections at the same time.
static void two_processes_have_one_connection(void **state) {
  (void)state;
  enum { SIZE = 8, PAIRS = SIZE * (SIZE - 1) / 2 };
  uint64_t connected = 0;
  uint64_t accepted = 0;
  uint64_t refused = 0;
  rondo_crew_init(&crew, SIZE, 60000);
  rondo_crew_gather(&crew);
  control_thread_hold(crew.members[0].mesh);
  for (uint32_t from = 0; from < SIZE; from++)
    for (uint32_t to = 0; to < SIZE; to++)
      if (from != to)
        assert_int_equal(rondo_crew_send(&crew, from, to, 0, 100), RONDO_SUCCESS);
  assert_int_equal(sem_post(&may_go_on), 0);
  for (uint32_t r = 0; r < SIZE; r++)
    rondo_crew_await(&crew.members[r], rondo_crew_has_received, SIZE - 1);
  for (uint32_t r = 0; r < SIZE; r++) {
    struct rondo_mesh_counters c;
    rondo_mesh_counters(rondo_members_mesh(crew.members[r].mesh), &c);
    connected += c.connected;
    accepted += c.accepted;
    refused += c.refused;
    assert_int_equal(crew.members[r].bad + crew.members[r].lost, 0);
  }
  assert_int_equal(connected, SIZE + PAIRS); // one of each to the root
  assert_int_equal(accepted, PAIRS);
  assert_int_equal(refused, 0);
  // It goes both ways, and the goodbye of a process comes after its messages.
  rondo_crew_stop(&crew, SIZE - 1);
  for (uint32_t r = 0; r < SIZE - 1; r++) {
    rondo_crew_await(&crew.members[r], rondo_crew_has_lost, 1);
    assert_int_equal(crew.members[r].reason, RONDO_LOST_LEFT);
    assert_int_equal(crew.members[r].received_before, SIZE - 1);
  }
  rondo_crew_fini(&crew);
}

// A process that has never sent to another one, which has sent to it, answers on its connection.
static void an_answer_needs_no_connection_of_its_own(void **state) {
  (void)state;
  struct rondo_mesh_counters c;
  rondo_crew_init(&crew, 2, 60000);
  rondo_crew_gather(&crew);
  assert_int_equal(rondo_crew_send(&crew, 0, 1, 0, 4), RONDO_SUCCESS);
  rondo_crew_await(&crew.members[1], rondo_crew_has_received, 1);
  for (uint32_t n = 0; n < 100; n++)
    assert_int_equal(rondo_crew_send(&crew, 1, 0, n, 5000), RONDO_SUCCESS);
  rondo_crew_stop(&crew, 1);
  rondo_crew_await(&crew.members[0], rondo_crew_has_lost, 1);
  assert_int_equal(crew.members[0].received_before, 100);
  assert_int_equal(crew.members[0].reason, RONDO_LOST_LEFT);
  rondo_mesh_counters(rondo_members_mesh(crew.members[0].mesh), &c);
  assert_int_equal(c.connected, 2); // to the root, and to the other
  assert_int_equal(c.accepted, 0);
  rondo_crew_fini(&crew);
}

// A rank leaves before there is a connection. The one that makes the connection hears of it,
// whether the root's word comes before the connection or after it.
static void ranks_that_left_before_a_connection_are_reported(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 10; i++) {
    struct rondo_crew_member *m = &crew.members[2];
    rondo_crew_init(&crew, 3, 60000);
    assert_int_equal(rondo_crew_start(&crew, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_members_calls->add_rank(crew.members[0].mesh, 1, NULL), RONDO_SUCCESS);
    assert_int_equal(rondo_crew_start(&crew, 2), RONDO_SUCCESS);
    assert_int_equal(rondo_members_await(m->mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
    rondo_members_calls->remove_rank(crew.members[0].mesh, 1);
    assert_int_equal(rondo_crew_send(&crew, i % 2 ? 2 : 0, i % 2 ? 0 : 2, 0, 4), RONDO_SUCCESS);
    rondo_crew_await(m, rondo_crew_has_lost, 1);
    assert_int_equal(m->lost_bits, 1 << 1);
    assert_int_equal(m->reason, RONDO_LOST_LEFT);
    rondo_crew_fini(&crew);
  }
}

// Connections of a mesh with other processes, and how many it has closed in order.
static uint64_t connections_count(uint32_t rank, uint64_t *closed) {
  struct rondo_mesh_counters c;
  rondo_mesh_counters(rondo_members_mesh(crew.members[rank].mesh), &c);
  *closed += c.closed;
  return c.connected + c.accepted - c.closed - 1; // and one to the root, which has ended
}

// Waits until no mesh has more than `most` connections with others, and all together `together`.
static void connections_await(uint32_t most, uint64_t together) {
  uint64_t sum = 0;
  uint64_t highest = 0;
  for (int i = 0; i < 40000; i++) {
    uint64_t closed = 0;
    sum = highest = 0;
    for (uint32_t r = 0; r < crew.size; r++) {
      uint64_t count = connections_count(r, &closed);
      sum += count;
      highest = count > highest ? count : highest;
    }
    if (sum <= together && highest <= most)
      break;
    (void)poll(NULL, 0, 1);
  }
  assert_in_range(highest, 0, most);
  assert_in_range(sum, 0, together);
}

// Sets how long each mesh keeps a connection that nobody uses.
static void idle_set(uint64_t idle_ns, uint64_t rest_ns, uint32_t most) {
  control_thread_hold(crew.members[0].mesh); // that of all
  for (uint32_t r = 0; r < crew.size; r++) {
    struct rondo_mesh *mesh = rondo_members_mesh(crew.members[r].mesh);
    mesh->idle_ns = idle_ns;
    mesh->rest_ns = rest_ns;
    mesh->idle_most = most;
    rondo_mesh_close_set_timer(mesh);
  }
  assert_int_equal(sem_post(&may_go_on), 0);
}

// Each sends message `number` to each other one, and all arrive.
static void all_send(uint32_t number) {
  for (uint32_t from = 0; from < crew.size; from++)
    for (uint32_t to = 0; to < crew.size; to++)
      if (from != to)
        assert_int_equal(rondo_crew_send(&crew, from, to, number, 4 + number), RONDO_SUCCESS);
  for (uint32_t r = 0; r < crew.size; r++) {
    rondo_crew_await(&crew.members[r], rondo_crew_has_received, (number + 1) * (crew.size - 1));
    assert_int_equal(crew.members[r].received, (number + 1) * (crew.size - 1));
    assert_int_equal(crew.members[r].bad + crew.members[r].lost, 0);
  }
}

// Only those of the tree stay, which has one connection fewer than processes. A later message makes
// a connection again. No process is taken for lost, and one that leaves then is not missed.
static void connections_that_nobody_uses_are_closed(void **state) {
  enum { SIZE = 16 };
  (void)state;
  rondo_crew_init(&crew, SIZE, 60000);
  rondo_crew_gather(&crew);
  all_send(0);
  idle_set(1, 1, SIZE);
  for (uint32_t n = 1; n < 3; n++) {
    connections_await(9, UINT64_C(2) * (SIZE - 1));
    all_send(n);
  }
  connections_await(9, UINT64_C(2) * (SIZE - 1));
  uint64_t closed = 0;
  uint64_t left = 0;
  for (uint32_t r = 0; r < SIZE; r++)
    left += connections_count(r, &closed);
  assert_true(left >= UINT64_C(2) * (SIZE - 1));
  assert_true(closed > 0);
  rondo_crew_stop(&crew, SIZE - 1);
  for (uint32_t r = 0; r < SIZE - 1; r++) {
    rondo_crew_await(&crew.members[r], rondo_crew_has_lost, 1);
    assert_int_equal(crew.members[r].reason, RONDO_LOST_LEFT);
  }
  rondo_crew_fini(&crew);
}

// The least recently used connections are closed while they are too many. The one that was used
// last stays.
static void a_process_keeps_few_connections_that_nobody_uses(void **state) {
  enum { SIZE = 24, MOST = 6, TREE = 9, LAST = 20 };
  struct rondo_mesh_counters before;
  struct rondo_mesh_counters after;
  (void)state;
  rondo_crew_init(&crew, SIZE, 60000);
  rondo_crew_gather(&crew);
  all_send(0);
  assert_int_equal(rondo_crew_send(&crew, 0, LAST, 1, 4), RONDO_SUCCESS);
  rondo_crew_await(&crew.members[LAST], rondo_crew_has_received, SIZE);
  idle_set(UINT64_MAX / 2, 1, MOST);
  connections_await(MOST + TREE, UINT64_MAX);
  rondo_mesh_counters(rondo_members_mesh(crew.members[0].mesh), &before);
  assert_int_equal(rondo_crew_send(&crew, 0, LAST, 2, 4), RONDO_SUCCESS);
  rondo_crew_await(&crew.members[LAST], rondo_crew_has_received, SIZE + 1);
  rondo_mesh_counters(rondo_members_mesh(crew.members[0].mesh), &after);
  assert_int_equal(after.connected, before.connected);
  for (uint32_t r = 0; r < SIZE; r++)
    assert_int_equal(crew.members[r].bad + crew.members[r].lost, 0);
  rondo_crew_fini(&crew);
}

// Connections are closed as soon as nothing is to be sent on them: so a message often comes while
// one is being closed, by one side or by both.
static void messages_keep_their_order_while_connections_close(void **state) {
  (void)state;
  uint32_t rounds = (uint32_t)rondo_test_load(200, 40);
  for (int is_apart = 0; is_apart < 2; is_apart++) {
    uint64_t closed = 0;
    if (is_apart) {
      gather_on_machines(5, 4);
    } else {
      rondo_crew_init(&crew, 5, 60000);
      rondo_crew_gather(&crew);
    }
    idle_set(1, 1, 0);
    for (uint32_t n = 0; n < rounds; n++)
      all_send(n);
    for (uint32_t r = 0; r < 5; r++)
      (void)connections_count(r, &closed);
    assert_true(closed > 0);
    rondo_crew_stop(&crew, 4);
    for (uint32_t r = 0; r < 4; r++) {
      rondo_crew_await(&crew.members[r], rondo_crew_has_lost, 1);
      assert_int_equal(crew.members[r].reason, RONDO_LOST_LEFT);
      assert_int_equal(crew.members[r].received_before, rounds * 4);
    }
    rondo_crew_fini(&crew);
  }
}

static void on_again(evutil_socket_t fd, short what, void *arg) { (void)fd, (void)what, (void)arg; }

// A root may be at one of several places. They are tried in turn at once, and a pause follows when
// all have failed.
static void places_are_tried_without_pauses_between_them(void **state) {
  enum { PLACES = 8 };
  (void)state;
  struct event_base *base = event_base_new();
  static struct rondo_mesh mesh;
  struct rondo_mesh_dial dial = {.pause_ns = 1000000};
  struct rondo_mesh_dial other = {.pause_ns = 1000000};
  assert_non_null(base);
  evtimer_assign(&mesh.dial_timer, base, on_again, NULL);
  rondo_mesh_dial_after(&mesh, &other, 0);
  for (uint32_t round = 0; round < 3; round++) {
    uint64_t pause_ns = dial.pause_ns;
    for (uint32_t i = 1; i < PLACES; i++) {
      rondo_mesh_dial_again(&mesh, &dial, PLACES);
      assert_true(dial.due_ns <= rondo_now_ns() + 1);
      assert_int_equal(dial.next % PLACES, i);
      assert_int_equal(dial.pause_ns, pause_ns);
    }
    rondo_mesh_dial_again(&mesh, &dial, PLACES);
    assert_true(dial.due_ns > other.due_ns + pause_ns);
    assert_true(evtimer_pending(&mesh.dial_timer, NULL));
    assert_true(dial.pause_ns > pause_ns);
  }
  rondo_mesh_dial_stop(&dial);
  assert_ptr_equal(LIST_FIRST(&mesh.dials), &other); // it is still to be made
  rondo_mesh_dial_stop(&other);
  assert_true(LIST_EMPTY(&mesh.dials));
  evtimer_del(&mesh.dial_timer);
  event_base_free(base);
}

static uint32_t alarms;

static void on_alarm(void *arg) {
  struct rondo_crew_member *m = arg;
  pthread_mutex_lock(&crew.lock);
  alarms++;
  m->received++;
  pthread_cond_broadcast(&crew.changed);
  pthread_mutex_unlock(&crew.lock);
}

static void alarms_fire_once_and_not_after_the_end(void **state) {
  (void)state;
  alarms = 0;
  rondo_crew_init(&crew, 1, 60000);
  rondo_crew_gather(&crew);
  struct rondo_crew_member *m = &crew.members[0];
  assert_int_equal(rondo_members_calls->after(m->mesh, 1000000, on_alarm, m), RONDO_SUCCESS);
  assert_int_equal(rondo_members_calls->after(m->mesh, 0, on_alarm, m), RONDO_SUCCESS);
  assert_int_equal(rondo_members_calls->after(m->mesh, UINT64_C(3600000000000), on_alarm, m),
                   RONDO_SUCCESS);
  rondo_crew_await(m, rondo_crew_has_received, 2);
  rondo_crew_fini(&crew);
  assert_int_equal(alarms, 2);
}

// How many connections a process may have: to the root, to its parent, children and keepers; and
// those by which the first processes keep in touch with the keepers.
static uint32_t most_connections(uint32_t rank) {
  return 13 + (rank < RONDO_EPOCH_KEEPERS         ? RONDO_MEMBERSHIP_TOUCHERS
               : rank < RONDO_MEMBERSHIP_TOUCHERS ? RONDO_EPOCH_KEEPERS
                                                  : 0);
}

// The messages that 512 processes cost the root: a time would depend on this machine.
static void joining_is_linear_in_the_number_of_processes(void **state) {
  (void)state;
  uint32_t sizes[2] = {32, (uint32_t)rondo_test_load(512, 128)};
  double frames[2];
  double bytes[2];
  for (int i = 0; i < 2; i++) {
    struct rondo_mesh_counters c;
    struct rondo_job_address job;
    rondo_crew_init(&crew, sizes[i], 120000);
    rondo_crew_gather(&crew);
    assert_int_equal(rondo_job_address_read(&crew.cfg, &job), RONDO_SUCCESS);
    rondo_root_counters(&job.key, &c);
    assert_int_equal(c.accepted, sizes[i]);
    frames[i] = (double)(c.sent + c.received) / sizes[i];
    bytes[i] = (double)c.received_bytes / sizes[i];
    uint64_t connected = 0;
    for (uint32_t r = 0; r < sizes[i]; r++) {
      struct rondo_mesh_counters own;
      rondo_mesh_counters(rondo_members_mesh(crew.members[r].mesh), &own);
      assert_in_range(own.connected + own.accepted, 0, most_connections(r));
      connected += own.connected;
    }
    // A tree, and those that keep in touch.
    assert_in_range(connected, 2 * sizes[i] - 1,
                    2 * sizes[i] + 3 + RONDO_MEMBERSHIP_TOUCHERS * RONDO_EPOCH_KEEPERS);
    rondo_crew_fini(&crew);
  }
  print_message("%u processes: %.1f frames each; %u processes: %.1f\n", sizes[0], frames[0],
                sizes[1], frames[1]);
  // Two each way for the proof, one to join, two back, one to say that the roster has come; and the
  // roster, in parts of 64 KiB: one of 32 processes.
  assert_true(frames[0] <= 8 + 1.0 / sizes[0]);
  assert_true(frames[1] <= 12);
  assert_true(bytes[1] < bytes[0] * 1.1);
}

// --------------------------------------------------------------------- cuts -

// Cuts the connection between two processes that live: the socket of `at` is shut down.
static uint32_t cut_at, cut_to;

static struct rondo_mesh_peer *cut_peer(void) {
  return &rondo_members_mesh(crew.members[cut_at].mesh)->peers[cut_to];
}

static void connection_cut(uint32_t at, uint32_t to) {
  cut_at = at;
  cut_to = to;
  control_thread_hold(crew.members[0].mesh); // that of all
  const struct rondo_channel *line = cut_peer()->line;
  assert_non_null(line);
  assert_int_equal(shutdown(line->fd, SHUT_RDWR), 0);
  assert_int_equal(sem_post(&may_go_on), 0);
}

static int has_connected(struct rondo_crew_member *m, uint32_t count) {
  struct rondo_mesh_counters c;
  (void)m;
  uint64_t sum = 0;
  for (uint32_t r = 0; r < crew.size; r++) {
    rondo_mesh_counters(rondo_members_mesh(crew.members[r].mesh), &c);
    sum += c.connected;
  }
  return sum >= count;
}

static void gather_here_or_apart(uint32_t size, bool is_apart) {
  if (is_apart) {
    gather_on_machines(size, 4);
    return;
  }
  rondo_crew_init(&crew, size, 60000);
  rondo_crew_gather(&crew);
}

// A connection that has carried no message is made again, whichever side was cut off, and nobody is
// missed. Processes 0 and 1 are neighbours in the tree, so they are connected.
static void a_cut_that_loses_nothing_is_mended(void **state) {
  (void)state;
  for (uint32_t variant = 0; variant < 4; variant++) {
    struct rondo_mesh_counters c;
    uint32_t before = 0;
    gather_here_or_apart(3, variant / 2);
    for (uint32_t r = 0; r < 3; r++) {
      rondo_mesh_counters(rondo_members_mesh(crew.members[r].mesh), &c);
      before += (uint32_t)c.connected;
    }
    connection_cut(variant % 2, 1 - variant % 2);
    while (!has_connected(NULL, before + 1)) // the test's own time is the bound
      (void)poll(NULL, 0, 1);
    talk(3, 4);
    for (uint32_t r = 0; r < 3; r++)
      assert_int_equal(crew.members[r].lost, 0);
    rondo_crew_fini(&crew);
  }
}

static int has_lost_two(struct rondo_crew_member *m, uint32_t unused) {
  (void)unused;
  return m->lost == 2;
}

// Messages may be lost with a connection: the process with the higher number is removed, and all
// are told so, itself too. The others go on.
static void a_cut_that_may_lose_messages_removes_one_process(void **state) {
  (void)state;
  for (uint32_t variant = 0; variant < 4; variant++) {
    gather_here_or_apart(3, variant / 2);
    talk(3, 4);
    connection_cut(1 + variant % 2, 2 - variant % 2);
    rondo_crew_await(&crew.members[2], has_lost_two, 0);
    assert_int_equal(crew.members[2].lost_bits, 1 << 0 | 1 << 1);
    for (uint32_t r = 0; r < 2; r++) {
      struct rondo_crew_member *m = &crew.members[r];
      rondo_crew_await(m, rondo_crew_has_lost, 1);
      assert_int_equal(m->lost_bits, 1 << 2);
      assert_int_equal(m->reason, RONDO_LOST_BROKE);
      assert_non_null(strstr(m->text, "a connection with it was cut"));
      assert_int_equal(m->late, 0);
    }
    assert_int_equal(rondo_crew_send(&crew, 0, 1, 4, 100), RONDO_SUCCESS);
    rondo_crew_await(&crew.members[1], rondo_crew_has_received, 2 * 4 + 1);
    assert_int_equal(crew.members[1].bad, 0);
    rondo_crew_fini(&crew);
  }
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("mesh", all_find_each_other),
      RONDO_NAMED_TEST("mesh", messages_arrive_whole_and_in_order),
      RONDO_NAMED_TEST("mesh", messages_reach_other_machines),
      RONDO_NAMED_TEST("mesh", descriptors_come_with_messages),
      RONDO_NAMED_TEST("mesh", nonsense_is_not_sent),
      RONDO_NAMED_TEST("mesh", messages_for_a_slow_process_wait),
      RONDO_NAMED_TEST("mesh", a_rank_that_never_came_is_named),
      RONDO_NAMED_TEST("mesh", two_processes_have_one_connection),
      RONDO_NAMED_TEST("mesh", connections_that_nobody_uses_are_closed),
      RONDO_NAMED_TEST("mesh", a_process_keeps_few_connections_that_nobody_uses),
      RONDO_NAMED_TEST("mesh", messages_keep_their_order_while_connections_close),
      RONDO_NAMED_TEST("mesh", an_answer_needs_no_connection_of_its_own),
      RONDO_NAMED_TEST("mesh", ranks_that_left_before_a_connection_are_reported),
      RONDO_NAMED_TEST("mesh", a_cut_that_loses_nothing_is_mended),
      RONDO_NAMED_TEST("mesh", a_cut_that_may_lose_messages_removes_one_process),
      RONDO_NAMED_TEST("mesh", places_are_tried_without_pauses_between_them),
      RONDO_NAMED_TEST("mesh", all_ranks_of_the_largest_job_are_named),
      RONDO_NAMED_TEST("mesh", a_leave_is_reported_after_what_the_process_sent),
      RONDO_NAMED_TEST("mesh", ranks_of_one_process_come_and_go_by_themselves),
      RONDO_NAMED_TEST("mesh", a_rank_that_leaves_is_reported_after_its_messages),
      RONDO_NAMED_TEST("mesh", a_rank_that_is_there_already_is_rejected),
      RONDO_NAMED_TEST("mesh", a_process_that_leaves_while_it_joins_says_so),
      RONDO_NAMED_TEST("mesh", the_last_to_join_may_leave_at_once),
      RONDO_NAMED_TEST("mesh", a_leave_before_the_roster_comes_is_no_death),
      RONDO_NAMED_TEST("mesh", a_leave_does_not_wait_for_a_root_that_has_left),
      RONDO_NAMED_TEST("mesh", stopping_while_joining_is_bounded),
      RONDO_NAMED_TEST("mesh", staying_for_others_is_bounded),
      RONDO_NAMED_TEST("mesh", the_root_listens_where_it_is_told_to),
      RONDO_NAMED_TEST("mesh", alarms_fire_once_and_not_after_the_end),
      RONDO_NAMED_TEST("mesh", joining_is_linear_in_the_number_of_processes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
