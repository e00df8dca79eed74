#include "tests/support/script/script_threads.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/explore/random.h"
#include "tests/support/script/script.h"

#define MOST_THREADS 1024u // at once
#define DEFAULT_MAX_POINTS 100000000u
#define DEFAULT_STAY 16u
#define DEFAULT_POINT_NS 10u

enum phase { PHASE_FREE, PHASE_READY, PHASE_WAITS, PHASE_ENDED };

struct thread {
  enum phase phase;
  uint32_t number;
  bool is_detached, is_held;
  uint32_t static_locks; // that it has
  sem_t may_go;          // posted by the thread that lets this one go on
  pthread_t id;
  void *(*start)(void *);
  void *arg;
  // While it waits.
  const void *objects[SCRIPT_MOST_OBJECTS];
  uint32_t count;
  uint64_t until_ns;
  int woken; // which object; -1: none yet
  const char *call;
};

// Accessed by the thread that runs.
static struct {
  bool is_active;
  struct script_options options;
  struct random random;
  uint64_t now_ns, points;
  uint32_t stay; // points until the next switch
  uint32_t numbers;
  pid_t ending;  // a thread that has let another one go on and is about to end; 0: none
  uint32_t most; // entries of `threads` in use so far
  struct thread threads[MOST_THREADS];
} script;

static _Thread_local struct thread *self;

// ------------------------------------------------------------------- failure --

static void threads_print(void) {
  for (uint32_t i = 0; i < script.most; i++) {
    const struct thread *t = &script.threads[i];
    char name[16] = "";
    if (t->phase == PHASE_FREE || t->phase == PHASE_ENDED)
      continue;
    (void)pthread_getname_np(t->id, name, sizeof name);
    fprintf(stderr, "script:   thread %u (%s) ", t->number, name);
    if (t->phase == PHASE_READY)
      fprintf(stderr, "can go on\n");
    else if (t->until_ns == SCRIPT_NEVER)
      fprintf(stderr, "waits in %s\n", t->call);
    else
      fprintf(stderr, "waits in %s until %llu ns\n", t->call, (unsigned long long)t->until_ns);
  }
}

static _Noreturn void script_fail(const char *what) {
  fprintf(stderr, "script: seed %llu: %s, at %llu ns after %llu points\n",
          (unsigned long long)script.options.seed, what, (unsigned long long)script.now_ns,
          (unsigned long long)script.points);
  threads_print();
  abort();
}

// ---------------------------------------------------------------- scheduling --

static bool thread_is_due(const struct thread *t) {
  if (t->is_held)
    return false;
  return t->phase == PHASE_READY || (t->phase == PHASE_WAITS && t->until_ns <= script.now_ns);
}

// The earliest time at which a waiting thread gives up.
static uint64_t threads_next_ns(void) {
  uint64_t next_ns = SCRIPT_NEVER;
  for (uint32_t i = 0; i < script.most; i++) {
    const struct thread *t = &script.threads[i];
    if (t->phase == PHASE_WAITS && !t->is_held && t->until_ns < next_ns)
      next_ns = t->until_ns;
  }
  return next_ns;
}

// Chooses one of the threads that can go on. If there is none, time passes.
static struct thread *threads_choose(void) {
  struct thread *due[MOST_THREADS];
  uint32_t count = 0;
  for (;;) {
    for (uint32_t i = 0; i < script.most; i++)
      if (thread_is_due(&script.threads[i]))
        due[count++] = &script.threads[i];
    if (count)
      break;
    uint64_t next_ns = threads_next_ns();
    if (next_ns == SCRIPT_NEVER)
      script_fail("no thread can go on");
    script.now_ns = next_ns;
  }
  struct thread *t = due[random_below(&script.random, count)];
  t->phase = PHASE_READY;
  script.stay = 1 + random_below(&script.random, 2 * script.options.stay);
  return t;
}

// A thread that ends gives back its stack and what malloc keeps for it. Which addresses others get
// must not depend on when that happens.
static void thread_await_ending(void) {
  while (script.ending && syscall(SYS_tgkill, getpid(), script.ending, 0) == 0)
    (void)syscall(SYS_sched_yield);
  script.ending = 0;
}

static void thread_await_turn(struct thread *t) {
  while (sem_wait(&t->may_go))
    ;
  thread_await_ending();
}

// Lets a thread go on that the seed chooses, which may be this one.
static void threads_switch(void) {
  struct thread *mine = self;
  struct thread *next = threads_choose();
  if (next == mine)
    return;
  sem_post(&next->may_go);
  thread_await_turn(mine);
}

static void points_count(void) {
  if (++script.points > script.options.max_points)
    script_fail("too many points");
}

void script_point(void) {
  if (!self || !script.is_active)
    return;
  script.now_ns += script.options.point_ns;
  points_count();
  if (script.stay && --script.stay)
    return;
  threads_switch();
}

// -------------------------------------------------------------------- waiting --

int script_wait(const void *const *objects, uint32_t count, uint64_t until_ns, const char *call) {
  struct thread *t = self;
  memcpy(t->objects, objects, count * sizeof *objects);
  t->count = count;
  t->until_ns = until_ns;
  t->call = call;
  t->woken = -1;
  t->phase = PHASE_WAITS;
  points_count();
  threads_switch();
  return t->woken;
}

int script_wait_one(const void *object, uint64_t until_ns, const char *call) {
  return script_wait(&object, 1, until_ns, call);
}

static int thread_find_object(const struct thread *t, const void *object) {
  if (t->phase == PHASE_WAITS)
    for (uint32_t i = 0; i < t->count; i++)
      if (t->objects[i] == object)
        return (int)i;
  return -1;
}

uint32_t script_wake(const void *object, uint32_t most) {
  uint32_t woken = 0;
  uint32_t begin = script.most ? random_below(&script.random, script.most) : 0;
  for (uint32_t i = 0; i < script.most && woken < most; i++) {
    struct thread *t = &script.threads[(begin + i) % script.most];
    int which = thread_find_object(t, object);
    if (which < 0)
      continue;
    t->woken = which;
    t->phase = PHASE_READY;
    woken++;
  }
  return woken;
}

// The limits of static memory, by the linker.
extern char __data_start, _end; // NOLINT(bugprone-reserved-identifier)

void script_note_lock(const void *lock, int change) {
  uintptr_t at = (uintptr_t)lock;
  if (at >= (uintptr_t)&__data_start && at < (uintptr_t)&_end)
    self->static_locks += (uint32_t)change;
}

static struct thread *thread_find_number(uint32_t number) {
  for (uint32_t i = 0; i < script.most; i++)
    if (script.threads[i].phase != PHASE_FREE && script.threads[i].number == number)
      return &script.threads[i];
  return NULL;
}

bool script_try_hold(uint32_t thread) {
  struct thread *t = thread_find_number(thread);
  if (t && t->static_locks)
    return false;
  if (t)
    t->is_held = true;
  return true;
}

void script_let_go(uint32_t thread) {
  struct thread *t = thread_find_number(thread);
  if (t)
    t->is_held = false;
}

void script_release(const void *object) {
  if (script.options.events.released)
    script.options.events.released(self->number, object);
}

void script_acquire(const void *object) {
  if (script.options.events.acquired)
    script.options.events.acquired(self->number, object);
}

// -------------------------------------------------------------------- threads --

static struct thread *thread_new(void) {
  for (uint32_t i = 0; i < MOST_THREADS; i++) {
    struct thread *t = &script.threads[i];
    if (t->phase != PHASE_FREE)
      continue;
    memset(t, 0, sizeof *t);
    t->phase = PHASE_READY;
    t->number = script.numbers++;
    if (sem_init(&t->may_go, 0, 0))
      script_fail("no semaphore");
    if (i == script.most)
      script.most++;
    return t;
  }
  script_fail("too many threads");
}

static void thread_free(struct thread *t) {
  sem_destroy(&t->may_go);
  t->phase = PHASE_FREE;
}

static void *thread_main(void *arg) {
  struct thread *t = arg;
  self = t;
  thread_await_turn(t);
  if (script.options.events.entered)
    script.options.events.entered(t->number);
  void *result = t->start(t->arg);
  if (script.options.events.ended)
    script.options.events.ended(t->number);
  t->phase = PHASE_ENDED;
  (void)script_wake(t, UINT32_MAX);
  if (t->is_detached)
    thread_free(t);
  self = NULL;
  struct thread *next = threads_choose();
  script.ending = gettid();
  sem_post(&next->may_go);
  return result;
}

int script_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
  int state = PTHREAD_CREATE_JOINABLE;
  struct thread *t = thread_new();
  if (attr)
    (void)pthread_attr_getdetachstate(attr, &state);
  t->is_detached = state == PTHREAD_CREATE_DETACHED;
  t->start = start;
  t->arg = arg;
  if (script.options.events.began)
    script.options.events.began(t->number, self->number);
  int status = script_real_create(&t->id, attr, thread_main, t);
  *id = t->id;
  if (status)
    thread_free(t);
  script_point();
  return status;
}

static struct thread *thread_find(pthread_t id) {
  for (uint32_t i = 0; i < script.most; i++) {
    struct thread *t = &script.threads[i];
    if (t->phase != PHASE_FREE && !t->is_detached && pthread_equal(t->id, id))
      return t;
  }
  return NULL;
}

bool script_try_await_end(pthread_t id) {
  struct thread *t = thread_find(id);
  if (!t)
    return false;
  while (t->phase != PHASE_ENDED)
    (void)script_wait_one(t, SCRIPT_NEVER, "pthread_join");
  if (script.options.events.joined)
    script.options.events.joined(t->number, self->number);
  thread_free(t);
  return true;
}

bool script_try_detach(pthread_t id) {
  struct thread *t = thread_find(id);
  if (!t)
    return false;
  t->is_detached = true;
  if (t->phase == PHASE_ENDED)
    thread_free(t);
  return true;
}

// ------------------------------------------------------------ begin and end ----

// One thread runs at a time. On one processor the next one begins when this one sleeps, which takes
// a sixth of the time.
static void process_pin(void) {
  cpu_set_t one;
  int cpu = sched_getcpu();
  CPU_ZERO(&one);
  CPU_SET(cpu < 0 ? 0 : cpu, &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

void script_begin(const struct script_options *options) {
  process_pin();
  script.options = *options;
  if (!script.options.max_points)
    script.options.max_points = DEFAULT_MAX_POINTS;
  if (!script.options.stay)
    script.options.stay = DEFAULT_STAY;
  if (!script.options.point_ns)
    script.options.point_ns = DEFAULT_POINT_NS;
  script.random.state = options->seed;
  script.now_ns = UINT64_C(1000000000); // 0 stands for "never" in some programs
  script.points = 0;
  script.numbers = 0;
  script.stay = 1;
  self = thread_new();
  self->id = pthread_self();
  script.is_active = true;
  if (script.options.events.entered)
    script.options.events.entered(self->number);
}

uint64_t script_end(void) {
  script.is_active = false;
  thread_free(self);
  self = NULL;
  return script.points;
}

uint32_t script_thread(void) { return self && script.is_active ? self->number : UINT32_MAX; }

uint64_t script_now_ns(void) { return script.now_ns; }
