// The poller: one thread per rank context that calls the callbacks of ended runs, in order and
// never inside another call of the application (the paper, 3.1). It starts with the first callback.
#ifndef RONDO_RUNTIME_COMPLETE_CALLBACKS_H
#define RONDO_RUNTIME_COMPLETE_CALLBACKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_callback_entry {
  struct rondo_callback_entry *next;
  rondo_callback callback;
  void *arg;
  int status;
};

// Steps the daemon whose runs the callbacks belong to, a bounded number of times. Any thread.
typedef void (*rondo_callbacks_drive)(void *owner);

struct rondo_callbacks {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct rondo_callback_entry *head, *tail; // under the lock, as all below
  struct rondo_callback_entry *reserved;
  int is_started, is_stopping, is_manual;
  uint32_t posted;             // counts posted callbacks; read without the lock
  rondo_callbacks_drive drive; // null in manual contexts
  void *owner;
  pthread_t thread;
};

// The poller calls `drive(owner)` before it sleeps while callbacks are due: a run that it completes
// itself needs no wake-up. If `drive` is null there is no thread, and the owner calls
// rondo_callbacks_fire.
void rondo_callbacks_init(struct rondo_callbacks *c, rondo_callbacks_drive drive, void *owner);

// Reserves the memory of one callback, and starts the poller if this is the first. Called at
// submission, so that nothing can fail at completion. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or
// RONDO_ERR_SYSTEM.
int rondo_callbacks_reserve(struct rondo_callbacks *c);

// Frees an unused reservation.
void rondo_callbacks_unreserve(struct rondo_callbacks *c);

// Queues a callback for the poller. Uses one reservation.
void rondo_callbacks_post(struct rondo_callbacks *c, rondo_callback callback, void *arg,
                          int status);

// Calls the queued callbacks on this thread. Returns how many. For manual contexts.
int rondo_callbacks_fire(struct rondo_callbacks *c);

// Calls the queued callbacks, ends the thread and frees everything. Not from a callback.
void rondo_callbacks_fini(struct rondo_callbacks *c);

// True on a poller thread.
bool rondo_callbacks_is_inside(void);

#endif // RONDO_RUNTIME_COMPLETE_CALLBACKS_H
