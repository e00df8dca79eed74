// The poller: one thread a context that fires the callbacks of runs that have ended,
// in order, and never inside another call of the application (the paper, 3.1). It starts with the
// first callback.
#ifndef RONDO_RUNTIME_COMPLETE_CALLBACKS_H
#define RONDO_RUNTIME_COMPLETE_CALLBACKS_H

#include <pthread.h>
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
  struct rondo_callback_entry *head, *tail; // guarded, as all below
  struct rondo_callback_entry *idle;
  int is_started, is_stopping, is_manual;
  uint32_t posted; // changes with each callback that is handed over; read without the lock
  rondo_callbacks_drive drive; // of a poller that waits; null in manual contexts
  void *owner;
  pthread_t thread;
};

// `drive` (with `owner`) is what the poller calls before it sleeps while callbacks are due: a run that it brings to its
// end itself needs no wake-up. Null: no thread; the caller calls rondo_callbacks_fire.
void rondo_callbacks_init(struct rondo_callbacks *c, rondo_callbacks_drive drive, void *owner);

// Sets aside what one callback needs, and starts the poller if this is the first. Called at
// submission, so that nothing can fail at completion. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or
// RONDO_ERR_SYSTEM.
int rondo_callbacks_reserve(struct rondo_callbacks *c);

// Gives a reservation back unused.
void rondo_callbacks_unreserve(struct rondo_callbacks *c);

// Hands a callback over, using one reservation.
void rondo_callbacks_post(struct rondo_callbacks *c, rondo_callback callback, void *arg,
                          int status);

// Fires what is queued, on this thread; returns how many. For manual contexts.
int rondo_callbacks_fire(struct rondo_callbacks *c);

// Fires what is queued, ends the thread and frees all. Not from a callback.
void rondo_callbacks_fini(struct rondo_callbacks *c);

// 1 on a poller thread.
int rondo_callbacks_is_inside(void);

#endif // RONDO_RUNTIME_COMPLETE_CALLBACKS_H
