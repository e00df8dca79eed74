#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "base/log.h"
#include "base/quiet_thread.h"
#include "runtime/net/event_loop.h"

#define OWNED_STEP 1024u
#define SPARE_DESCRIPTORS 512u

struct rondo_event_loop {
  struct event_base *base;
  struct event wake;
  int wake_fd;
  pthread_t thread;
  pthread_mutex_t lock; // guards all below
  TAILQ_HEAD(, rondo_event_loop_task) tasks;
  int is_stopping, is_detached;
};

static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondo_event_loop *current;
static uint32_t users;

// --------------------------------------------------------------- forking ---

static pthread_mutex_t owned_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *owned; // by descriptor: 1 if a child of fork() closes it
static size_t owned_size;

void rondo_event_loop_own(int fd) {
  size_t at = (size_t)fd;
  pthread_mutex_lock(&owned_lock);
  if (at >= owned_size) {
    size_t size = at + OWNED_STEP;
    uint8_t *grown = realloc(owned, size);
    if (grown) { // otherwise a child keeps the socket open
      memset(grown + owned_size, 0, size - owned_size);
      owned = grown;
      owned_size = size;
    }
  }
  if (at < owned_size)
    owned[at] = 1;
  pthread_mutex_unlock(&owned_lock);
}

void rondo_event_loop_close(int fd) {
  pthread_mutex_lock(&owned_lock);
  if ((size_t)fd < owned_size)
    owned[fd] = 0;
  close(fd);
  pthread_mutex_unlock(&owned_lock);
}

static void loop_before_fork(void) {
  pthread_mutex_lock(&current_lock);
  pthread_mutex_lock(&owned_lock);
}

static void loop_after_fork(void) {
  pthread_mutex_unlock(&owned_lock);
  pthread_mutex_unlock(&current_lock);
}

// The child has no control thread and forgets its parent's. It may start one of its own.
static void loop_after_fork_in_child(void) {
  for (size_t fd = 0; fd < owned_size; fd++) {
    if (owned[fd])
      close((int)fd);
    owned[fd] = 0;
  }
  current = NULL;
  users = 0;
  loop_after_fork();
}

static void loop_handle_forks(void) {
  (void)pthread_atfork(loop_before_fork, loop_after_fork, loop_after_fork_in_child);
}

// ----------------------------------------------------------------- the loop ---

static void loop_free(struct rondo_event_loop *loop) {
  if (loop->wake_fd >= 0) {
    event_del(&loop->wake);
    rondo_event_loop_close(loop->wake_fd);
  }
  if (loop->base)
    event_base_free(loop->base);
  pthread_mutex_destroy(&loop->lock);
  free(loop);
}

static struct rondo_event_loop_task *loop_pop_task(struct rondo_event_loop *loop) {
  pthread_mutex_lock(&loop->lock);
  struct rondo_event_loop_task *task = loop->is_stopping ? NULL : TAILQ_FIRST(&loop->tasks);
  if (task) {
    TAILQ_REMOVE(&loop->tasks, task, queued);
    task->is_posted = 0;
  }
  pthread_mutex_unlock(&loop->lock);
  return task;
}

static void loop_on_wake(evutil_socket_t fd, short what, void *arg) {
  struct rondo_event_loop *loop = arg;
  eventfd_t count;
  (void)what;
  (void)eventfd_read(fd, &count);
  for (struct rondo_event_loop_task *task = loop_pop_task(loop); task; task = loop_pop_task(loop))
    task->call(task->arg);
  pthread_mutex_lock(&loop->lock);
  int stop = loop->is_stopping;
  pthread_mutex_unlock(&loop->lock);
  // Events that are already active still run: they free closed channels.
  if (stop)
    (void)event_base_loopexit(loop->base, NULL);
}

static void *loop_main(void *arg) {
  struct rondo_event_loop *loop = arg;
  (void)event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
  pthread_mutex_lock(&loop->lock);
  int detached = loop->is_detached;
  pthread_mutex_unlock(&loop->lock);
  if (detached)
    loop_free(loop);
  return NULL;
}

static bool loop_try_start_thread(struct rondo_event_loop *loop) {
  if (rondo_quiet_thread_create(&loop->thread, NULL, loop_main, loop) != 0)
    return false;
  pthread_setname_np(loop->thread, "rondo-control");
  return true;
}

static struct event_base *base_create(void) {
  struct event_config *config = event_config_new();
  if (!config)
    return NULL;
  // Only the control thread uses the base, and others wake it by a descriptor, so it needs no lock.
  // Environment variables for the application's libevent do not apply to it.
  struct event_base *base = NULL;
  if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV |
                                        EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
    base = event_base_new_with_config(config);
  event_config_free(config);
  return base;
}

static struct rondo_event_loop *loop_create(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, loop_handle_forks);
  struct rondo_event_loop *loop = calloc(1, sizeof *loop);
  if (!loop)
    return NULL;
  pthread_mutex_init(&loop->lock, NULL);
  TAILQ_INIT(&loop->tasks);
  loop->wake_fd = -1;
  loop->base = base_create();
  int fd = loop->base ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
  if (fd >= 0 &&
      event_assign(&loop->wake, loop->base, fd, EV_READ | EV_PERSIST, loop_on_wake, loop) == 0 &&
      event_add(&loop->wake, NULL) == 0)
    loop->wake_fd = fd;
  else if (fd >= 0)
    close(fd);
  if (loop->wake_fd < 0 || sodium_init() < 0 || !loop_try_start_thread(loop)) {
    loop_free(loop);
    return NULL;
  }
  return loop;
}

struct rondo_event_loop *rondo_event_loop_get(void) {
  pthread_mutex_lock(&current_lock);
  if (!current)
    current = loop_create();
  if (current)
    users++;
  struct rondo_event_loop *loop = current;
  pthread_mutex_unlock(&current_lock);
  return loop;
}

void rondo_event_loop_put(struct rondo_event_loop *loop) {
  pthread_mutex_lock(&current_lock);
  int last = --users == 0;
  if (last)
    current = NULL;
  pthread_mutex_unlock(&current_lock);
  if (!last)
    return;
  pthread_t thread = loop->thread;
  int here = pthread_equal(pthread_self(), thread);
  if (here)
    pthread_detach(thread);
  pthread_mutex_lock(&loop->lock);
  loop->is_stopping = 1;
  loop->is_detached = here;
  (void)eventfd_write(loop->wake_fd, 1);
  pthread_mutex_unlock(&loop->lock);
  if (here)
    return;
  pthread_join(thread, NULL);
  loop_free(loop);
}

void rondo_event_loop_post(struct rondo_event_loop *loop, struct rondo_event_loop_task *task) {
  pthread_mutex_lock(&loop->lock);
  if (!task->is_posted) {
    task->is_posted = 1;
    TAILQ_INSERT_TAIL(&loop->tasks, task, queued);
    (void)eventfd_write(loop->wake_fd, 1);
  }
  pthread_mutex_unlock(&loop->lock);
}

void rondo_event_loop_cancel(struct rondo_event_loop *loop, struct rondo_event_loop_task *task) {
  pthread_mutex_lock(&loop->lock);
  if (task->is_posted)
    TAILQ_REMOVE(&loop->tasks, task, queued);
  task->is_posted = 0;
  pthread_mutex_unlock(&loop->lock);
}

struct event_base *rondo_event_loop_base(struct rondo_event_loop *loop) {
  return loop->base;
}

void rondo_event_loop_timer_set(struct event *timer, uint64_t delay_ns) {
  struct timeval delay = {(time_t)(delay_ns / 1000000000), (long)(delay_ns % 1000000000 / 1000)};
  if (evtimer_pending(timer, NULL))
    evtimer_del(timer);
  (void)evtimer_add(timer, &delay);
}

void rondo_event_loop_make_room(uint32_t count) {
  struct rlimit limit;
  rlim_t wanted = (rlim_t)count + SPARE_DESCRIPTORS;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
    rondo_log(RONDO_LOG_INFO, "init: raised the limit of open files to %llu",
              (unsigned long long)limit.rlim_cur);
}
