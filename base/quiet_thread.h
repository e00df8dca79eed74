// Threads that get no signals: the application's handlers do not run on them.
#ifndef RONDO_BASE_QUIET_THREAD_H
#define RONDO_BASE_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>

// As pthread_create.
static inline int rondo_quiet_thread_create(pthread_t *thread, const pthread_attr_t *attr,
                                            void *(*thread_main)(void *arg), void *arg) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // a new thread has the mask of the one that makes it
  int error = pthread_create(thread, attr, thread_main, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

#endif // RONDO_BASE_QUIET_THREAD_H
