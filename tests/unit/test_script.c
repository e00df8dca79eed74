// Threads in an order that a seed chooses: the same seed gives the same order; deadlocks and
// endless loops are found; sleeps take virtual time.
#include "tests/support/script/script.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "tests/support/named.h"

#define SEEDS 100u
#define THREADS 4u

static void begin(uint64_t seed) {
  const struct script_options options = {.seed = seed, .max_points = 100000, .stay = 2};
  script_begin(&options);
}

// Runs `main` on THREADS threads, with their index.
static void run_threads(void *(*start)(void *)) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, start, (void *)i), 0);
  for (uint32_t i = 0; i < THREADS; i++) {
    void *result = NULL;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_ptr_equal(result, (void *)(uintptr_t)i);
  }
}

// Runs `program` with that seed in another process. Returns true if it aborts; writes to `said`
// what it has printed.
static bool aborts(void (*program)(void), uint64_t seed, char *said, size_t bytes) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)dup2(ends[1], STDERR_FILENO);
    begin(seed);
    program();
    (void)script_end();
    _exit(0);
  }
  close(ends[1]);
  size_t size = 0;
  ssize_t more;
  while (size + 1 < bytes && (more = read(ends[0], said + size, bytes - 1 - size)) > 0)
    size += (size_t)more;
  said[size] = '\0';
  close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status);
}

// --------------------------------------------------------------------- order --

static char trace[1000];
static uint32_t traced;

static void *trace_main(void *arg) {
  for (uint32_t i = 0; i < 20; i++) {
    trace[traced++] = (char)('0' + (uintptr_t)arg);
    script_point();
  }
  return arg;
}

static void trace_seed(uint64_t seed, char *out) {
  memset(trace, 0, sizeof trace);
  traced = 0;
  begin(seed);
  run_threads(trace_main);
  assert_true(script_end() > 20u * THREADS);
  memcpy(out, trace, sizeof trace);
}

static void the_seed_gives_the_order(void **state) {
  (void)state;
  char first[sizeof trace];
  char again[sizeof trace];
  char last[sizeof trace] = "";
  uint32_t others = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    trace_seed(seed, first);
    trace_seed(seed, again);
    assert_string_equal(first, again);
    others += strcmp(first, last) != 0;
    memcpy(last, first, sizeof last);
  }
  assert_int_equal(others, SEEDS);
}

// ---------------------------------------------------------------------- locks --

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static uint32_t counter;

static void *count_main(void *arg) {
  uint32_t before = counter;
  script_point();
  counter = before + 1;
  return arg;
}

static void *count_locked_main(void *arg) {
  pthread_mutex_lock(&locks[0]);
  count_main(NULL);
  pthread_mutex_unlock(&locks[0]);
  return arg;
}

static uint32_t count_lost(void *(*start)(void *)) {
  uint32_t lost = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    counter = 0;
    begin(seed);
    run_threads(start);
    (void)script_end();
    lost += counter != THREADS;
  }
  return lost;
}

static void updates_are_lost_without_a_lock(void **state) {
  (void)state;
  assert_in_range(count_lost(count_main), 10, SEEDS);
  assert_int_equal(count_lost(count_locked_main), 0);
}

static void take_both(uint32_t first) {
  pthread_mutex_lock(&locks[first]);
  pthread_mutex_lock(&locks[1 - first]);
  pthread_mutex_unlock(&locks[1 - first]);
  pthread_mutex_unlock(&locks[first]);
}

static void *crossed_main(void *arg) {
  take_both((uint32_t)(uintptr_t)arg % 2);
  return arg;
}

static void *ordered_main(void *arg) {
  take_both(0);
  return arg;
}

static void run_crossed(void) { run_threads(crossed_main); }
static void run_ordered(void) { run_threads(ordered_main); }

static void finds_a_deadlock(void **state) {
  (void)state;
  char said[2000];
  uint32_t found = 0;
  for (uint64_t seed = 0; seed < 20; seed++) {
    if (!aborts(run_crossed, seed, said, sizeof said))
      continue;
    found++;
    assert_non_null(strstr(said, "no thread can go on"));
    assert_non_null(strstr(said, "waits in pthread_mutex_lock"));
    assert_non_null(strstr(said, "waits in pthread_join"));
  }
  assert_in_range(found, 1, 20);
  for (uint64_t seed = 0; seed < 20; seed++)
    assert_false(aborts(run_ordered, seed, said, sizeof said));
}

static void run_endless(void) {
  for (;;)
    script_point();
}

static void finds_an_endless_loop(void **state) {
  (void)state;
  char said[2000];
  assert_true(aborts(run_endless, 1, said, sizeof said));
  assert_non_null(strstr(said, "too many points"));
  assert_non_null(strstr(said, "can go on"));
}

// ------------------------------------------------------------ waits and clocks --

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t turn, word;

// Each thread waits until it is its turn.
static void *turns_main(void *arg) {
  pthread_mutex_lock(&locks[0]);
  while (turn != (uint32_t)(uintptr_t)arg)
    pthread_cond_wait(&changed, &locks[0]);
  turn++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&locks[0]);
  return arg;
}

static void *futex_main(void *arg) {
  while (__atomic_load_n(&word, __ATOMIC_RELAXED) == 0)
    rondo_futex_wait(&word, 0, UINT64_C(3600000000000));
  return arg;
}

static void *waker_main(void *arg) {
  if (arg)
    return futex_main(arg);
  usleep(1000);
  __atomic_store_n(&word, 1, __ATOMIC_RELAXED);
  rondo_futex_wake_all(&word);
  return arg;
}

static void waiting_threads_are_woken(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    turn = word = 0;
    begin(seed);
    run_threads(turns_main);
    run_threads(waker_main);
    assert_in_range(script_now_ns(), 1001000000, 1100000000);
    (void)script_end();
    assert_int_equal(turn, THREADS);
  }
}

static void sleeps_take_virtual_time(void **state) {
  (void)state;
  const struct timespec hour = {3600, 0};
  struct timespec now;
  begin(1);
  uint64_t begun_ns = script_now_ns();
  assert_int_equal(nanosleep(&hour, NULL), 0);
  assert_in_range(script_now_ns() - begun_ns, UINT64_C(3600000000000), UINT64_C(3600000001000));
  assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
  now.tv_sec += 60;
  pthread_mutex_lock(&locks[0]);
  assert_int_equal(pthread_cond_timedwait(&changed, &locks[0], &now), ETIMEDOUT);
  pthread_mutex_unlock(&locks[0]);
  assert_in_range(script_now_ns() - begun_ns, UINT64_C(3660000000000), UINT64_C(3660000001000));
  (void)script_end();
}

static pthread_once_t once;
static uint32_t inits;

static void init_slowly(void) {
  usleep(100);
  inits++;
}

static void *once_main(void *arg) {
  assert_int_equal(pthread_once(&once, init_slowly), 0);
  assert_int_equal(inits, 1);
  return arg;
}

static void *detached_main(void *arg) {
  assert_int_equal(pthread_detach(pthread_self()), 0);
  usleep(10);
  __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
  return arg;
}

static void other_calls_of_threads(void **state) {
  (void)state;
  const pthread_once_t fresh = PTHREAD_ONCE_INIT;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    pthread_t thread;
    once = fresh;
    inits = counter = 0;
    begin(seed);
    run_threads(once_main);
    assert_int_equal(pthread_create(&thread, NULL, detached_main, NULL), 0);
    while (!__atomic_load_n(&counter, __ATOMIC_RELAXED))
      sched_yield();
    (void)script_end();
  }
}

static uint32_t events[6];
// A thread that is held does not even end; one with a lock of static memory is not held.
static pthread_mutex_t static_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t held_phase;

static void *held_main(void *arg) {
  const struct timespec brief = {0, 1000};
  pthread_mutex_lock(&static_lock);
  held_phase = 1;
  while (held_phase == 1)
    nanosleep(&brief, NULL);
  pthread_mutex_unlock(&static_lock);
  held_phase = 3;
  nanosleep(&brief, NULL);
  held_phase = 4;
  return arg;
}

static void await_phase(uint32_t phase) {
  const struct timespec brief = {0, 1000};
  for (uint32_t i = 0; i < 1000 && held_phase != phase; i++)
    nanosleep(&brief, NULL);
}

static void held_threads_do_nothing(void **state) {
  pthread_t thread;
  (void)state;
  held_phase = 0;
  begin(1);
  assert_int_equal(pthread_create(&thread, NULL, held_main, NULL), 0);
  await_phase(1);
  assert_false(script_try_hold(1));
  held_phase = 2;
  await_phase(3);
  assert_int_equal(held_phase, 3);
  assert_true(script_try_hold(1));
  await_phase(4);
  assert_int_equal(held_phase, 3);
  script_let_go(1);
  await_phase(4);
  assert_int_equal(held_phase, 4);
  assert_int_equal(pthread_join(thread, NULL), 0);
  (void)script_end();
}

static void note_began(uint32_t thread, uint32_t by) { events[0] += thread > 0 && by == 0; }
static void note_joined(uint32_t thread, uint32_t by) { events[1] += thread > 0 && by == 0; }
static void note_entered(uint32_t thread) { events[4] += thread > 0; }
static void note_ended(uint32_t thread) { events[5] += thread > 0; }
static void note_released(uint32_t thread, const void *object) {
  events[2] += thread > 0 && object == &locks[0];
}
static void note_acquired(uint32_t thread, const void *object) {
  events[3] += thread > 0 && object == &locks[0];
}

static void tells_what_orders_threads(void **state) {
  (void)state;
  const struct script_options options = {
      .seed = 1,
      .events = {note_began, note_entered, note_ended, note_joined, note_released, note_acquired}};
  script_begin(&options);
  run_threads(count_locked_main);
  (void)script_end();
  for (uint32_t i = 0; i < sizeof events / sizeof *events; i++)
    assert_int_equal(events[i], THREADS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("script", the_seed_gives_the_order),
      RONDO_NAMED_TEST("script", updates_are_lost_without_a_lock),
      RONDO_NAMED_TEST("script", finds_a_deadlock),
      RONDO_NAMED_TEST("script", finds_an_endless_loop),
      RONDO_NAMED_TEST("script", waiting_threads_are_woken),
      RONDO_NAMED_TEST("script", sleeps_take_virtual_time),
      RONDO_NAMED_TEST("script", other_calls_of_threads),
      RONDO_NAMED_TEST("script", held_threads_do_nothing),
      RONDO_NAMED_TEST("script", tells_what_orders_threads),
  };
  return cmocka_run_group_tests_name("script", tests, NULL, NULL);
}
