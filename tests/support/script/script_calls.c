// Stand-ins for the calls of libc with which threads begin, wait and read clocks. In a thread that
// is not part of a script they are libc's own.
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/script/script.h"
#include "tests/support/script/script_threads.h"

#define NS_PER_S UINT64_C(1000000000)

// Writes the address of libc's function of that name, if possible of that version, to `*function`.
static void real_find(const char *name, const char *version, void *function) {
  void *found = dlvsym(RTLD_NEXT, name, version);
  if (!found)
    found = dlsym(RTLD_NEXT, name);
  if (!found)
    abort();
  memcpy(function, &found, sizeof found);
}

// Defines `real_NAME`, which has NAME's type.
#define REAL(name, version)                                                                        \
  static __typeof__(&(name)) real_##name(void) {                                                   \
    static __typeof__(&(name)) found;                                                              \
    if (!found)                                                                                    \
      real_find(#name, version, &found);                                                           \
    return found;                                                                                  \
  }

#define GLIBC_OLD "GLIBC_2.2.5"
#define GLIBC_CONDITIONS "GLIBC_2.3.2" // older versions of these calls have other structures
#define GLIBC_NEW "GLIBC_2.34"

REAL(pthread_create, GLIBC_NEW)
REAL(pthread_join, GLIBC_NEW)
REAL(pthread_detach, GLIBC_NEW)
REAL(pthread_once, GLIBC_NEW)
REAL(pthread_mutex_lock, GLIBC_OLD)
REAL(pthread_mutex_trylock, GLIBC_NEW)
REAL(pthread_mutex_unlock, GLIBC_OLD)
REAL(pthread_cond_wait, GLIBC_CONDITIONS)
REAL(pthread_cond_timedwait, GLIBC_CONDITIONS)
REAL(pthread_cond_signal, GLIBC_CONDITIONS)
REAL(pthread_cond_broadcast, GLIBC_CONDITIONS)
REAL(nanosleep, GLIBC_OLD)
REAL(clock_nanosleep, "GLIBC_2.17")
REAL(clock_gettime, "GLIBC_2.17")
REAL(sched_yield, GLIBC_OLD)
REAL(usleep, GLIBC_OLD)
REAL(syscall, GLIBC_OLD)
REAL(read, GLIBC_OLD)
REAL(write, GLIBC_OLD)

static bool is_scripted(void) { return script_thread() != UINT32_MAX; }

static uint64_t ns_of(const struct timespec *t) {
  return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

// -------------------------------------------------------------------- threads --

int script_real_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *),
                       void *arg) {
  return real_pthread_create()(id, attr, start, arg);
}

int pthread_create(pthread_t *restrict id, const pthread_attr_t *restrict attr,
                   void *(*start)(void *), void *restrict arg) {
  return is_scripted() ? script_create(id, attr, start, arg)
                       : real_pthread_create()(id, attr, start, arg);
}

int pthread_join(pthread_t id, void **result) {
  if (is_scripted())
    (void)script_try_await_end(id);
  return real_pthread_join()(id, result);
}

int pthread_detach(pthread_t id) {
  if (is_scripted())
    (void)script_try_detach(id);
  return real_pthread_detach()(id);
}

// ---------------------------------------------------------------------- locks --

// libc's lock keeps the state. It is never waited for there, because only one thread runs.
static int lock_take(pthread_mutex_t *lock) {
  int status = real_pthread_mutex_trylock()(lock);
  while (status == EBUSY) {
    (void)script_wait_one(lock, SCRIPT_NEVER, "pthread_mutex_lock");
    status = real_pthread_mutex_trylock()(lock);
  }
  if (status)
    return status;
  script_note_lock(lock, 1);
  script_acquire(lock);
  return 0;
}

static int lock_give(pthread_mutex_t *lock) {
  script_release(lock);
  script_note_lock(lock, -1);
  int status = real_pthread_mutex_unlock()(lock);
  (void)script_wake(lock, UINT32_MAX);
  return status;
}

int pthread_mutex_lock(pthread_mutex_t *lock) {
  if (!is_scripted())
    return real_pthread_mutex_lock()(lock);
  script_point();
  return lock_take(lock);
}

int pthread_mutex_trylock(pthread_mutex_t *lock) {
  if (!is_scripted())
    return real_pthread_mutex_trylock()(lock);
  script_point();
  int status = real_pthread_mutex_trylock()(lock);
  if (status)
    return status;
  script_note_lock(lock, 1);
  script_acquire(lock);
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *lock) {
  if (!is_scripted())
    return real_pthread_mutex_unlock()(lock);
  int status = lock_give(lock);
  script_point();
  return status;
}

// ----------------------------------------------------------------- conditions --

static int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns,
                          const char *call) {
  int status = lock_give(lock);
  if (status)
    return status;
  int woken = script_wait_one(condition, until_ns, call);
  status = lock_take(lock);
  return status == 0 && woken < 0 ? ETIMEDOUT : status;
}

int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict lock) {
  return is_scripted() ? condition_wait(condition, lock, SCRIPT_NEVER, "pthread_cond_wait")
                       : real_pthread_cond_wait()(condition, lock);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until) {
  return is_scripted() ? condition_wait(condition, lock, ns_of(until), "pthread_cond_timedwait")
                       : real_pthread_cond_timedwait()(condition, lock, until);
}

int pthread_cond_signal(pthread_cond_t *condition) {
  if (!is_scripted())
    return real_pthread_cond_signal()(condition);
  (void)script_wake(condition, 1);
  script_point();
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition) {
  if (!is_scripted())
    return real_pthread_cond_broadcast()(condition);
  (void)script_wake(condition, UINT32_MAX);
  script_point();
  return 0;
}

// --------------------------------------------------------------- initialisation --

#define ONCE_DONE 2 // glibc's

// Another thread may run in the middle of an initialisation, so libc must not wait for it.
static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;

int pthread_once(pthread_once_t *once, void (*init)(void)) {
  static _Thread_local uint32_t depth;
  if (!is_scripted())
    return real_pthread_once()(once, init);
  if (*once == ONCE_DONE)
    return 0;
  if (!depth)
    (void)lock_take(&once_lock);
  depth++;
  if (*once != ONCE_DONE) {
    init();
    *once = ONCE_DONE;
  }
  if (!--depth)
    (void)lock_give(&once_lock);
  return 0;
}

// ----------------------------------------------------------------------- time --

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (!is_scripted() || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
    return real_clock_gettime()(clock, t);
  script_point();
  t->tv_sec = (time_t)(script_now_ns() / NS_PER_S);
  t->tv_nsec = (long)(script_now_ns() % NS_PER_S);
  return 0;
}

static void sleep_until(uint64_t until_ns, const char *call) {
  static const char never_woken;
  (void)script_wait_one(&never_woken, until_ns, call);
}

int nanosleep(const struct timespec *duration, struct timespec *left) {
  if (!is_scripted())
    return real_nanosleep()(duration, left);
  sleep_until(script_now_ns() + ns_of(duration), "nanosleep");
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
  if (!is_scripted())
    return real_clock_nanosleep()(clock, flags, t, left);
  sleep_until(ns_of(t) + (flags & TIMER_ABSTIME ? 0 : script_now_ns()), "clock_nanosleep");
  return 0;
}

int usleep(useconds_t us) {
  if (!is_scripted())
    return real_usleep()(us);
  sleep_until(script_now_ns() + UINT64_C(1000) * us, "usleep");
  return 0;
}

// A thread that yields gives all others time to go on.
int sched_yield(void) {
  if (!is_scripted())
    return real_sched_yield()();
  sleep_until(script_now_ns() + 100, "sched_yield");
  return 0;
}

// --------------------------------------------------------------------- futexes --

static long futex_fail(int error) {
  errno = error;
  return -1;
}

static long futex_wait(const uint32_t *word, uint32_t expected, const struct timespec *duration) {
  if (__atomic_load_n(word, __ATOMIC_RELAXED) != expected)
    return futex_fail(EAGAIN);
  uint64_t until_ns = duration ? script_now_ns() + ns_of(duration) : SCRIPT_NEVER;
  return script_wait_one(word, until_ns, "a futex") < 0 ? futex_fail(ETIMEDOUT) : 0;
}

static long futex_call(const long *args) {
  uint32_t *word = (uint32_t *)(uintptr_t)args[0];
  uint32_t value = (uint32_t)args[2];
  switch ((int)args[1] & FUTEX_CMD_MASK) {
  case FUTEX_WAIT:
    return futex_wait(word, value, (const struct timespec *)(uintptr_t)args[3]);
  case FUTEX_WAKE:
    return (long)script_wake(word, value);
  default:
    return futex_fail(ENOSYS);
  }
}

#if defined(SYS_futex_waitv)
static long futex_wait_any(const long *args) {
  const struct futex_waitv *all = (const struct futex_waitv *)(uintptr_t)args[0];
  const struct timespec *until = (const struct timespec *)(uintptr_t)args[3];
  uint32_t count = (uint32_t)args[1];
  const void *objects[SCRIPT_MOST_OBJECTS];
  if (count > SCRIPT_MOST_OBJECTS)
    return futex_fail(EINVAL);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t *word = (const uint32_t *)(uintptr_t)all[i].uaddr;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != (uint32_t)all[i].val)
      return futex_fail(EAGAIN);
    objects[i] = word;
  }
  int woken = script_wait(objects, count, until ? ns_of(until) : SCRIPT_NEVER, "futex_waitv");
  return woken < 0 ? futex_fail(ETIMEDOUT) : woken;
}
#endif

// ----------------------------------------------------------------------- pipes --

static const char pipes; // what a thread waits for in `read`: any write

ssize_t read(int fd, void *buffer, size_t bytes) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  while (is_scripted() && poll(&one, 1, 0) == 0)
    (void)script_wait_one(&pipes, SCRIPT_NEVER, "read");
  return real_read()(fd, buffer, bytes);
}

ssize_t write(int fd, const void *buffer, size_t bytes) {
  ssize_t written = real_write()(fd, buffer, bytes);
  if (is_scripted())
    (void)script_wake(&pipes, UINT32_MAX);
  return written;
}

// ---------------------------------------------------------------- system calls --

long syscall(long number, ...) {
  long args[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++)
    args[i] = va_arg(list, long);
  va_end(list);
  if (is_scripted() && number == SYS_futex) {
    script_point();
    return futex_call(args);
  }
#if defined(SYS_futex_waitv)
  if (is_scripted() && number == SYS_futex_waitv) {
    script_point();
    return futex_wait_any(args);
  }
#endif
  return real_syscall()(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
