#include "tools/kit/thread_group.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct thread {
  struct rondo_kit_threads *all;
  uint32_t rank;
  pthread_t handle;
};

struct rondo_kit_threads {
  struct rondo_kit_thread_group group;
  pthread_mutex_t lock; // held while starting: threads go on only when all are there
  bool cancelled;
  struct thread threads[];
};

// The cores that the process began with: pinning a thread must not shrink what others count.
static cpu_set_t allowed_cores;
static pthread_once_t allowed_once = PTHREAD_ONCE_INIT;

static void allowed_cores_read(void) {
  if (sched_getaffinity(0, sizeof(allowed_cores), &allowed_cores) != 0) {
    CPU_ZERO(&allowed_cores);
    CPU_SET(0, &allowed_cores);
  }
}

cpu_set_t rondo_kit_cores(void) {
  pthread_once(&allowed_once, allowed_cores_read);
  return allowed_cores;
}

uint32_t rondo_kit_core_count(void) {
  cpu_set_t cores = rondo_kit_cores();
  return (uint32_t)CPU_COUNT(&cores);
}

void rondo_kit_pin(uint32_t index) {
  uint32_t left = index % rondo_kit_core_count();
  for (size_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed_cores))
      continue;
    if (left > 0) {
      left--;
      continue;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

static void *thread_main(void *arg) {
  struct thread *self = arg;
  struct rondo_kit_threads *all = self->all;
  pthread_mutex_lock(&all->lock);
  bool cancelled = all->cancelled;
  pthread_mutex_unlock(&all->lock);
  if (cancelled)
    return NULL;
  if (all->group.pinned)
    rondo_kit_pin(self->rank);
  all->group.main(all->group.arg, self->rank);
  return NULL;
}

static void threads_free(struct rondo_kit_threads *all, uint32_t started) {
  for (uint32_t r = 0; r < started; r++)
    pthread_join(all->threads[r].handle, NULL);
  pthread_mutex_destroy(&all->lock);
  free(all);
}

struct rondo_kit_threads *rondo_kit_thread_group_start(const struct rondo_kit_thread_group *group) {
  size_t bytes = sizeof(struct rondo_kit_threads) + group->count * sizeof(struct thread);
  struct rondo_kit_threads *all = calloc(1, bytes);
  if (!all)
    return NULL;
  all->group = *group;
  pthread_mutex_init(&all->lock, NULL);
  pthread_mutex_lock(&all->lock);
  uint32_t started = 0;
  while (started < group->count) {
    struct thread *t = &all->threads[started];
    t->all = all;
    t->rank = started;
    if (pthread_create(&t->handle, NULL, thread_main, t) != 0)
      break;
    started++;
  }
  all->cancelled = started < group->count;
  pthread_mutex_unlock(&all->lock);
  if (!all->cancelled)
    return all;
  threads_free(all, started);
  return NULL;
}

void rondo_kit_thread_group_join(struct rondo_kit_threads *threads) {
  threads_free(threads, threads->group.count);
}

int rondo_kit_thread_group_run(const struct rondo_kit_thread_group *group) {
  struct rondo_kit_threads *threads = rondo_kit_thread_group_start(group);
  if (!threads)
    return -1;
  rondo_kit_thread_group_join(threads);
  return 0;
}
