// Contexts when their process forks: calls of the child on them are refused at once, nothing that
// the child does affects the parent's job, and the child can create contexts of its own.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/log.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tools/kit/thread_group.h"
#include <rondo/comm.h>

#define RANKS 2u
#define COUNT 1000u       // elements
#define GUARD_SECONDS 40u // after which a child that hangs is killed
#define LONG_NS RONDO_TEST_LONG_NS

static const int32_t ones[COUNT] = {1, 1, 1};

// ----------------------------------------------------------------- children ---

// The thread sanitizer lets no child start threads, if its parent had some.
#if defined(__SANITIZE_THREAD__)
#define SKIP_WITHOUT_THREADS() skip()
#else
#define SKIP_WITHOUT_THREADS() (void)0
#endif

// How a child ends.
enum end { BY_EXIT, BY_UNDERSCORE_EXIT, BY_DESTROYING, ENDS };

static int is_child;

// Asked by the address sanitizer when a process ends. In a child memory is unreachable that only
// threads of its parent know of, here and in cmocka.
int __lsan_is_turned_off(void);                     // NOLINT: the name is not ours
int __lsan_is_turned_off(void) { return is_child; } // NOLINT

// A child inherits the locks of GCC 12's address sanitizer as they are (glibc releases those of
// malloc). A thread that runs, such as one that has just begun, may hold one, and the child would
// then hang at its first malloc. So a fork waits, up to a second, until all other threads sleep.
#if defined(__SANITIZE_ADDRESS__)
static int thread_sleeps(const char *tid) {
  char path[64];
  char state = 'S';
  snprintf(path, sizeof path, "/proc/self/task/%.16s/stat", tid);
  FILE *f = fopen(path, "re");
  if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) // null: it has ended
    state = 'S';
  if (f)
    fclose(f);
  return state == 'S' || atoi(tid) == (int)gettid();
}

static void await_sleep_of_others(void) {
  for (int i = 0; i < 1000; i++) {
    int asleep = 1;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e = d ? readdir(d) : NULL; e && asleep; e = readdir(d))
      asleep = e->d_name[0] == '.' || thread_sleeps(e->d_name);
    if (d)
      closedir(d);
    if (asleep)
      return;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}
#else
static void await_sleep_of_others(void) {}
#endif

static pid_t fork_guarded(void) {
  fflush(NULL); // or a child that calls exit would print what its parent has not yet
  await_sleep_of_others();
  pid_t pid = fork();
  RONDO_MEMBER_TRUE(pid >= 0);
  if (pid == 0) {
    is_child = 1;
    alarm(GUARD_SECONDS);
  }
  return pid;
}

static void await_child(pid_t pid) {
  int status = 0;
  RONDO_MEMBER_TRUE(waitpid(pid, &status, 0) == pid);
  RONDO_MEMBER_TRUE(WIFEXITED(status));
  RONDO_MEMBER_TRUE(WEXITSTATUS(status) == 0);
}

_Noreturn static void end_child(struct rondo_context inherited, enum end how) {
  if (how == BY_DESTROYING)
    RONDO_MEMBER_STATUS(rondo_destroy(inherited, RONDO_DESTROY_DRAIN, RONDO_FOREVER),
                        RONDO_ERR_CLOSED);
  if (how == BY_UNDERSCORE_EXIT)
    _exit(0);
  exit(0);
}

// --------------------------------------------------------------------- jobs ---

// A job of this process with one collective, which rank 0 has submitted and rank 1 has not.
struct half_run {
  struct rondo_test_job job;
  struct rondo_collective colls[RANKS];
  struct rondo_comm comm; // of rank 0
  int32_t out[RANKS][COUNT];
};

static void half_run_open(struct half_run *h) {
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  rondo_test_job_open(&h->job, RANKS, NULL);
  rondo_test_job_register(&h->job, &d, h->colls);
  assert_int_equal(rondo_comm_create(h->job.ctx[0], &cfg, &h->comm), RONDO_SUCCESS);
  assert_int_equal(rondo_run(h->job.ctx[0], h->colls[0], ones, h->out[0], NULL, NULL),
                   RONDO_SUCCESS);
}

// The run ends well for both, and so does the job.
static void half_run_close(struct half_run *h) {
  assert_int_equal(rondo_run(h->job.ctx[1], h->colls[1], ones, h->out[1], NULL, NULL),
                   RONDO_SUCCESS);
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(rondo_wait(h->job.ctx[r], h->colls[r], RONDO_LAST_RUN, LONG_NS),
                     RONDO_SUCCESS);
    assert_int_equal(h->out[r][1], RANKS);
  }
  assert_int_equal(rondo_comm_destroy(h->job.ctx[0], h->comm, RONDO_DESTROY_DRAIN, LONG_NS),
                   RONDO_SUCCESS);
  rondo_test_job_close(&h->job);
}

// All reduces `runs` times, with exact results. `between` (may be null) is called while one is
// outstanding.
static void run_often(struct rondo_context ctx, uint32_t ranks, uint64_t runs,
                      void (*between)(struct rondo_context ctx, uint64_t run)) {
  int32_t in[COUNT] = {0};
  int32_t out[COUNT] = {0};
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  for (uint64_t run = 0; run < runs; run++) {
    in[0] = in[COUNT - 1] = (int32_t)run;
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, in, out, NULL, NULL), RONDO_SUCCESS);
    if (between)
      between(ctx, run);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    RONDO_MEMBER_TRUE(out[0] == in[0] * (int32_t)ranks && out[COUNT - 1] == out[0]);
  }
  RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
}

static void note_end(void *arg, int status) {
  rondo_store_release_u32(arg, status == RONDO_SUCCESS ? 1 : 2);
}

// Nobody waits in the library for this run, so workers have to step it, and a poller tells of its
// end.
static void run_without_help(struct rondo_context ctx) {
  const struct timespec brief = {0, 1000000};
  struct rondo_collective_desc d = rondo_barrier(2);
  struct rondo_collective coll;
  uint32_t ended = 0;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, NULL, NULL, note_end, &ended), RONDO_SUCCESS);
  while (!rondo_load_acquire_u32(&ended))
    nanosleep(&brief, NULL);
  RONDO_MEMBER_TRUE(ended == 1);
}

static void member_of_own_job(void *arg, uint32_t rank) {
  const struct rondo_test_job *job = arg;
  run_often(job->ctx[rank], RANKS, 20, NULL);
  run_without_help(job->ctx[rank]);
}

// In a child: a job of two ranks from its beginning to its end.
static void have_own_job(void) {
  struct rondo_test_job job = {.ranks = RANKS};
  RONDO_MEMBER_STATUS(rondo_unique_id_create(&job.id), RONDO_SUCCESS);
  for (uint32_t r = 0; r < RANKS; r++) {
    struct rondo_config cfg = RONDO_CONFIG_INIT;
    cfg.id = job.id;
    cfg.rank = r;
    cfg.rank_count = RANKS;
    RONDO_MEMBER_STATUS(rondo_init(&job.ctx[r], &cfg), RONDO_SUCCESS);
  }
  struct rondo_kit_thread_group group = {.count = RANKS, .main = member_of_own_job, .arg = &job};
  RONDO_MEMBER_TRUE(rondo_kit_thread_group_run(&group) == 0);
  for (uint32_t r = 0; r < RANKS; r++)
    RONDO_MEMBER_STATUS(rondo_destroy(job.ctx[r], RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
}

// ------------------------------------------------------------------ refusals ---

static void never_called(void *arg, int status) {
  (void)arg, (void)status;
  _exit(1);
}

#define REFUSED(call) RONDO_MEMBER_STATUS(call, RONDO_ERR_CLOSED)

static void try_runs(struct rondo_context ctx, struct rondo_collective coll) {
  int32_t out[COUNT];
  struct rondo_run_args args = {ones, out, NULL, NULL};
  struct rondo_collective_desc d = rondo_barrier(7);
  struct rondo_collective made;
  uint64_t number = 0;
  int fd = -1;
  REFUSED(rondo_run(ctx, coll, ones, out, NULL, NULL));
  REFUSED(rondo_run_numbered(ctx, coll, &args, &number));
  REFUSED(rondo_run_on_stream(ctx, coll, ones, out, NULL));
  REFUSED(rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_FOREVER));
  REFUSED(rondo_test(ctx, coll, 1));
  REFUSED(rondo_notify(ctx, coll, 1, never_called, NULL));
  REFUSED(rondo_event_fd(ctx, &fd));
  REFUSED(rondo_device_synchronize(ctx, RONDO_FOREVER));
  REFUSED(rondo_register(ctx, &d, &made));
  REFUSED(rondo_lookup(ctx, 1, &made));
  REFUSED(rondo_describe(ctx, coll, &d, NULL, 0, NULL));
  REFUSED(rondo_deregister(ctx, coll));
}

static void try_communicators(struct rondo_context ctx, struct rondo_comm comm) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_collective_desc d = rondo_barrier(0);
  struct rondo_run_args args = {NULL, NULL, NULL, NULL};
  struct rondo_comm_counters counters;
  struct rondo_comm made;
  struct rondo_ticket ticket;
  int state = 0;
  REFUSED(rondo_comm_create(ctx, &cfg, &made));
  REFUSED(rondo_comm_call(ctx, comm, &d, &args, &ticket));
  REFUSED(rondo_comm_wait(ctx, comm, NULL, RONDO_FOREVER));
  REFUSED(rondo_comm_test(ctx, comm, NULL));
  REFUSED(rondo_comm_probe(ctx, comm, 1, &d));
  REFUSED(rondo_comm_status(ctx, comm, &state, NULL, 0));
  REFUSED(rondo_comm_counters(ctx, comm, &counters));
  REFUSED(rondo_comm_abort(ctx, comm));
  REFUSED(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_ABORT, RONDO_FOREVER));
}

static void try_the_rest(struct rondo_context ctx, struct rondo_collective coll) {
  char text[RONDO_REASON_BYTES];
  struct rondo_group group = {0};
  struct rondo_counters counters;
  struct rondo_collective_counters of_one = RONDO_COLLECTIVE_COUNTERS_INIT;
  struct rondo_stuck stuck;
  void *memory = NULL;
  uint32_t rank = 0;
  size_t count = 0;
  int number = 0;
  REFUSED(rondo_group_create(ctx, &rank, 1, &group));
  REFUSED(rondo_group_destroy(ctx, group));
  REFUSED(rondo_mem_alloc(ctx, 8, &memory));
  REFUSED(rondo_mem_free(ctx, text));
  REFUSED(rondo_mem_copy(ctx, text, &rank, sizeof rank));
  REFUSED(rondo_mem_is_direct(ctx, &number));
  REFUSED(rondo_transport(ctx, 1, &number, text, sizeof text));
  REFUSED(rondo_counters(ctx, &counters));
  REFUSED(rondo_collective_counters(ctx, coll, &of_one));
  REFUSED(rondo_stuck(ctx, &stuck, 1, &count));
  REFUSED(rondo_missing(ctx, coll, 1, NULL, 0, &rank));
  REFUSED(rondo_reason(ctx, coll, text, sizeof text));
  REFUSED(rondo_report(ctx, stderr, NULL));
  REFUSED(rondo_flight_write(ctx, stderr));
  REFUSED(rondo_wait_ready(ctx, RONDO_FOREVER, NULL, 0, NULL));
  REFUSED(rondo_wait_gone(ctx, RONDO_FOREVER, NULL, 0, NULL));
  REFUSED(rondo_abort(ctx));
  REFUSED(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  REFUSED(rondo_destroy(ctx, RONDO_DESTROY_ABORT, RONDO_FOREVER));
}

static void every_call_is_refused_at_once_and_one_line_says_why(void **state) {
  struct half_run h;
  char line[128];
  (void)state;
  half_run_open(&h);
  rondo_test_log_clear();
  pid_t pid = fork_guarded();
  if (pid == 0) {
    try_runs(h.job.ctx[0], h.colls[0]);
    try_communicators(h.job.ctx[0], h.comm);
    try_the_rest(h.job.ctx[1], h.colls[1]);
    _exit(0);
  }
  await_child(pid);
  (void)snprintf(line, sizeof line, "run: this context belongs to process %d, from which",
                 getpid());
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_int_equal(rondo_test_log_count(line), 1);
  half_run_close(&h);
}

static void a_handle_that_nobody_made_is_unknown_to_the_child_too(void **state) {
  struct half_run h;
  (void)state;
  half_run_open(&h);
  pid_t pid = fork_guarded();
  if (pid == 0) {
    struct rondo_context none = {0};
    struct rondo_context later = {h.job.ctx[0].handle + (UINT64_C(1) << 40)};
    REFUSED(rondo_abort(h.job.ctx[0]));
    RONDO_MEMBER_STATUS(rondo_abort(none), RONDO_ERR_UNKNOWN);
    RONDO_MEMBER_STATUS(rondo_abort(later), RONDO_ERR_UNKNOWN);
    _exit(0);
  }
  await_child(pid);
  half_run_close(&h);
}

// ------------------------------------------------------------------- harmless ---

// Forks a child now and then, which ends in one of all ways, before the parent's run is waited for.
static void fork_between(struct rondo_context ctx, uint64_t run) {
  if (run % 5)
    return;
  pid_t pid = fork_guarded();
  if (pid == 0)
    end_child(ctx, (enum end)(run / 5 % ENDS));
  await_child(pid);
}

static void member_that_forks(void *arg, uint32_t rank) {
  const struct rondo_test_job *job = arg;
  run_often(job->ctx[rank], RANKS, rondo_test_load(300, 60), rank ? NULL : fork_between);
}

static void threads_go_on_while_children_come_and_go(void **state) {
  struct rondo_test_job job;
  struct rondo_kit_thread_group group = {.count = RANKS, .main = member_that_forks, .arg = &job};
  (void)state;
  rondo_test_job_open(&job, RANKS, NULL);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  rondo_test_job_close(&job);
}

static void member_of_processes(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  run_often(ctx, f->ranks, rondo_test_load(100, 40), rank % 2 ? NULL : fork_between);
  rondo_family_close(ctx);
}

static void run_family(int transport, void (*member)(struct rondo_family *f, uint32_t rank)) {
  struct rondo_family *f = rondo_family_create(2, 4);
  f->cfg.transport = transport;
  rondo_family_run(f, member, NULL);
  rondo_family_destroy(f);
}

static void processes_go_on_while_children_come_and_go(void **state) {
  (void)state;
  run_family(RONDO_TRANSPORT_NONE, member_of_processes);
}

// Asked in each process for itself: one that has used UCX must not fork those that are to use it.
static int has_ucx(void) {
  FILE *nowhere = fopen("/dev/null", "we");
  int status = nowhere ? rondo_transport_describe(RONDO_TRANSPORT_UCX, nowhere) : RONDO_ERR_SYSTEM;
  if (nowhere)
    fclose(nowhere);
  return status == RONDO_SUCCESS;
}

static void member_with_ucx(struct rondo_family *f, uint32_t rank) {
  if (has_ucx())
    member_of_processes(f, rank);
}

static void processes_that_use_ucx_go_on_too(void **state) {
  (void)state;
  run_family(RONDO_TRANSPORT_UCX, member_with_ucx);
}

static void what_a_parent_has_half_written_to_the_log_is_written_once(void **state) {
  struct half_run h;
  (void)state;
  half_run_open(&h);
  rondo_test_log_clear();
  fputs("half a line", rondo_log_stream());
  pid_t pid = fork();
  if (pid == 0) {
    is_child = 1;
    alarm(GUARD_SECONDS);
    end_child(h.job.ctx[0], BY_DESTROYING);
  }
  await_child(pid);
  fputs("\n", rondo_log_stream());
  fflush(rondo_log_stream());
  assert_int_equal(rondo_test_log_count("half a line"), 1);
  half_run_close(&h);
}

static void await_reports(uint32_t count) {
  const struct timespec brief = {0, 1000000};
  while (rondo_test_log_count("stuck report of") < count)
    nanosleep(&brief, NULL);
}

// Its signal is no word to the parent's thread that reports; the thread of its own tells of its own
// job.
static void a_child_reports_on_its_own_contexts_alone(void **state) {
  struct half_run h;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context own;
  (void)state;
  SKIP_WITHOUT_THREADS();
  half_run_open(&h);
  rondo_test_log_clear();
  pid_t pid = fork_guarded();
  if (pid == 0) {
    raise(SIGUSR1);
    RONDO_MEMBER_STATUS(rondo_init(&own, &cfg), RONDO_SUCCESS);
    raise(SIGUSR1);
    await_reports(1);
    _exit(0);
  }
  await_child(pid);
  assert_int_equal(rondo_test_log_count("stuck report of a job of 1 ranks"), 1);
  assert_int_equal(rondo_test_log_count("stuck report of a job of 2 ranks"), 0);
  raise(SIGUSR1); // had the child's signal come here too, there would be two reports before long
  await_reports(2);
  half_run_close(&h);
  assert_int_equal(rondo_test_log_count("stuck report of"), 2);
}

// ------------------------------------------------------------------ jobs of a child ---

static void a_child_has_a_job_of_its_own(void **state) {
  struct half_run h;
  (void)state;
  SKIP_WITHOUT_THREADS();
  half_run_open(&h);
  for (int how = 0; how < ENDS; how++) {
    pid_t pid = fork_guarded();
    if (pid == 0) {
      have_own_job();
      have_own_job();
      end_child(h.job.ctx[0], (enum end)how);
    }
    await_child(pid);
  }
  half_run_close(&h);
}

static void a_child_of_a_child_has_no_part_in_either(void **state) {
  struct half_run h;
  (void)state;
  SKIP_WITHOUT_THREADS();
  half_run_open(&h);
  rondo_test_log_clear();
  pid_t pid = fork_guarded();
  if (pid == 0) {
    struct rondo_config cfg = RONDO_CONFIG_INIT;
    struct rondo_context own;
    RONDO_MEMBER_STATUS(rondo_init(&own, &cfg), RONDO_SUCCESS);
    RONDO_MEMBER_TRUE(own.handle != h.job.ctx[0].handle);
    pid_t grandchild = fork_guarded();
    if (grandchild == 0) {
      REFUSED(rondo_abort(own));
      REFUSED(rondo_abort(h.job.ctx[1]));
      have_own_job();
      end_child(own, BY_DESTROYING);
    }
    await_child(grandchild);
    REFUSED(rondo_abort(h.job.ctx[1]));
    RONDO_MEMBER_STATUS(rondo_destroy(own, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
    exit(0);
  }
  await_child(pid);
  assert_int_equal(rondo_test_log_lines(), 2);
  assert_int_equal(rondo_test_log_count("belongs to process"), 2);
  half_run_close(&h);
}

// The first rank of each process forks a child in the middle of runs, and the two children make
// another job with each other, in which `use` is called.
static void member_with_child(struct rondo_family *f, uint32_t rank,
                              void (*use)(struct rondo_context own)) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  run_often(ctx, f->ranks, 10, NULL);
  pid_t pid = rank % 2 ? -1 : fork_guarded();
  if (pid == 0) {
    struct rondo_context own = rondo_family_open(f, 1, rank / 2, 2);
    use(own);
    rondo_family_close(own);
    end_child(ctx, BY_DESTROYING);
  }
  run_often(ctx, f->ranks, 10, NULL);
  if (pid > 0)
    await_child(pid);
  rondo_family_close(ctx);
}

static void run_and_fork(struct rondo_context own) { run_often(own, 2, 20, fork_between); }

static void member_whose_child_has_a_job(struct rondo_family *f, uint32_t rank) {
  member_with_child(f, rank, run_and_fork);
}

static void children_of_processes_have_a_job_of_their_own(void **state) {
  (void)state;
  SKIP_WITHOUT_THREADS();
  run_family(RONDO_TRANSPORT_NONE, member_whose_child_has_a_job);
}

// A process that has contexts makes an id, and the ranks of that job are its children. They begin
// when the last has been forked: see await_sleep_of_others.
static void children_join_a_job_whose_id_their_parent_made(void **state) {
  struct half_run h;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  pid_t pids[RANKS];
  int begin[2];
  char byte;
  (void)state;
  SKIP_WITHOUT_THREADS();
  half_run_open(&h);
  assert_int_equal(pipe(begin), 0);
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  assert_int_equal(rondo_unique_id_listen(&cfg.id, &cfg), RONDO_SUCCESS);
  cfg.rank_count = RANKS;
  for (cfg.rank = 0; cfg.rank < RANKS; cfg.rank++) {
    pids[cfg.rank] = fork_guarded();
    if (pids[cfg.rank])
      continue;
    struct rondo_context own;
    close(begin[1]);
    RONDO_MEMBER_TRUE(read(begin[0], &byte, 1) == 0);
    RONDO_MEMBER_STATUS(rondo_init(&own, &cfg), RONDO_SUCCESS);
    run_often(own, RANKS, 20, NULL);
    RONDO_MEMBER_STATUS(rondo_destroy(own, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
    end_child(h.job.ctx[0], BY_DESTROYING);
  }
  close(begin[1]);
  for (uint32_t r = 0; r < RANKS; r++)
    await_child(pids[r]);
  close(begin[0]);
  half_run_close(&h);
}

// If the parent has used UCX, it does not work in a child: the child gets an error and does not
// hang.
static void find_no_ucx(struct rondo_context own) {
  struct rondo_collective_desc d = rondo_barrier(1);
  struct rondo_collective coll;
  RONDO_MEMBER_TRUE(!has_ucx());
  RONDO_MEMBER_STATUS(rondo_register(own, &d, &coll), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(own, coll, NULL, NULL, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_wait(own, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_UNSUPPORTED);
}

static void member_whose_child_would_use_ucx(struct rondo_family *f, uint32_t rank) {
  if (has_ucx())
    member_with_child(f, rank, find_no_ucx);
}

static void children_of_processes_that_use_ucx_cannot(void **state) {
  (void)state;
  SKIP_WITHOUT_THREADS();
  run_family(RONDO_TRANSPORT_UCX, member_whose_child_would_use_ucx);
}

static void a_child_of_a_process_that_uses_cuda_cannot(void **state) {
  struct half_run h;
  const char *backend = getenv("RONDO_TEST_BACKEND");
  (void)state;
  if (!backend || strcmp(backend, "cuda") != 0)
    skip();
  half_run_open(&h);
  rondo_test_log_clear();
  pid_t pid = fork_guarded();
  if (pid == 0) {
    struct rondo_config cfg = RONDO_CONFIG_INIT;
    struct rondo_context own;
    cfg.backend = RONDO_BACKEND_CUDA;
    RONDO_MEMBER_STATUS(rondo_init(&own, &cfg), RONDO_ERR_UNSUPPORTED);
    RONDO_MEMBER_STATUS(rondo_backend_describe(RONDO_BACKEND_CUDA, stderr), RONDO_ERR_UNSUPPORTED);
    _exit(0);
  }
  await_child(pid);
  assert_int_equal(rondo_test_log_count("has started the CUDA driver and forked this one"), 1);
  half_run_close(&h);
}

// ------------------------------------------------------------------ callbacks ---

static void fork_in_callback(void *arg, int status) {
  pid_t *pid = arg;
  (void)status;
  *pid = fork_guarded();
  if (*pid == 0)
    have_own_job(); // and returns, by which the child ends
}

static void a_child_that_a_callback_forks_ends_with_it(void **state) {
  static pid_t pid;
  struct half_run h;
  (void)state;
  SKIP_WITHOUT_THREADS();
  half_run_open(&h);
  assert_int_equal(rondo_notify(h.job.ctx[0], h.colls[0], 1, fork_in_callback, &pid),
                   RONDO_SUCCESS);
  half_run_close(&h); // all callbacks have returned
  assert_true(pid > 0);
  await_child(pid);
}

// --------------------------------------------------------------------- memory ---

static void member_whose_child_reads(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  void *memory = NULL;
  int direct = 0;
  run_often(ctx, f->ranks, 1, NULL);
  RONDO_MEMBER_STATUS(rondo_mem_is_direct(ctx, &direct), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_mem_alloc(ctx, sizeof ones, &memory), RONDO_SUCCESS);
  if (direct) {
    memcpy(memory, ones, sizeof ones);
    pid_t pid = fork_guarded();
    if (pid == 0) {
      RONDO_MEMBER_TRUE(memcmp(memory, ones, sizeof ones) == 0);
      REFUSED(rondo_mem_free(ctx, memory));
      RONDO_MEMBER_TRUE(memcmp(memory, ones, sizeof ones) == 0);
      exit(0);
    }
    await_child(pid);
    RONDO_MEMBER_TRUE(memcmp(memory, ones, sizeof ones) == 0);
  }
  rondo_family_close(ctx);
}

static void a_child_reads_memory_of_its_parent(void **state) {
  (void)state;
  run_family(RONDO_TRANSPORT_NONE, member_whose_child_reads);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("fork", processes_go_on_while_children_come_and_go),
      RONDO_NAMED_TEST("fork", children_of_processes_have_a_job_of_their_own),
      RONDO_NAMED_TEST("fork", processes_that_use_ucx_go_on_too),
      RONDO_NAMED_TEST("fork", children_of_processes_that_use_ucx_cannot),
      RONDO_NAMED_TEST("fork", a_child_reads_memory_of_its_parent),
      RONDO_NAMED_TEST("fork", every_call_is_refused_at_once_and_one_line_says_why),
      RONDO_NAMED_TEST("fork", a_handle_that_nobody_made_is_unknown_to_the_child_too),
      RONDO_NAMED_TEST("fork", threads_go_on_while_children_come_and_go),
      RONDO_NAMED_TEST("fork", what_a_parent_has_half_written_to_the_log_is_written_once),
      RONDO_NAMED_TEST("fork", a_child_reports_on_its_own_contexts_alone),
      RONDO_NAMED_TEST("fork", a_child_has_a_job_of_its_own),
      RONDO_NAMED_TEST("fork", a_child_of_a_child_has_no_part_in_either),
      RONDO_NAMED_TEST("fork", children_join_a_job_whose_id_their_parent_made),
      RONDO_NAMED_TEST("fork", a_child_of_a_process_that_uses_cuda_cannot),
      RONDO_NAMED_TEST("fork", a_child_that_a_callback_forks_ends_with_it),
  };
  rondo_test_log_open();
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
