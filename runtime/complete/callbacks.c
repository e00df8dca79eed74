#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fork.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "runtime/complete/callbacks.h"

// How long a poller drives its daemon before it sleeps: as long as a wake-up takes.
#define DRIVE_NS 10000u

// Every wait reads this; the initial-exec model saves a function call.
static _Thread_local int is_inside __attribute__((tls_model("initial-exec")));

static uint32_t forks; // generations of fork() since the library was loaded

bool rondo_callbacks_is_inside(void) { return is_inside; }

// A child forked inside a callback is no poller. It exits with 0 if it returns from the callback.
static void callbacks_forked(void) {
  is_inside = 0;
  forks++;
}
RONDO_ON_FORK(callbacks_forked)

void rondo_callbacks_init(struct rondo_callbacks *c, rondo_callbacks_drive drive, void *owner) {
  memset(c, 0, sizeof *c);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  c->is_manual = !drive;
  c->drive = drive;
  c->owner = owner;
}

// Calls the first queued callback, if any. Needs the lock, and releases it meanwhile.
static bool callbacks_try_call(struct rondo_callbacks *c) {
  struct rondo_callback_entry *e = c->head;
  int is_poller = is_inside;
  uint32_t forks_before = forks;
  if (!e)
    return false;
  c->head = e->next;
  if (!c->head)
    c->tail = NULL;
  pthread_mutex_unlock(&c->lock);
  e->callback(e->arg, e->status);
  if (is_poller &&
      forks != forks_before) // in a child of the callback, to which `c` does not belong
    exit(EXIT_SUCCESS);
  free(e);
  pthread_mutex_lock(&c->lock);
  return true;
}

// Drives the daemon until a callback is posted, for at most DRIVE_NS. Needs the lock, and releases
// it meanwhile.
static void callbacks_drive(struct rondo_callbacks *c) {
  uint32_t posted = c->posted;
  pthread_mutex_unlock(&c->lock);
  uint64_t until_ns = rondo_now_ns() + DRIVE_NS;
  while (rondo_load_relaxed_u32(&c->posted) == posted && rondo_now_ns() < until_ns)
    c->drive(c->owner);
  pthread_mutex_lock(&c->lock);
}

static void *poller_main(void *arg) {
  struct rondo_callbacks *c = arg;
  is_inside = 1;
  pthread_mutex_lock(&c->lock);
  while (c->head || !c->is_stopping) {
    if (callbacks_try_call(c))
      continue;
    if (c->reserved)
      callbacks_drive(c);
    if (!c->head && !c->is_stopping)
      pthread_cond_wait(&c->changed, &c->lock);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

int rondo_callbacks_reserve(struct rondo_callbacks *c) {
  int status = RONDO_SUCCESS;
  struct rondo_callback_entry *e = malloc(sizeof *e);
  if (!e)
    return RONDO_ERR_NO_MEMORY;
  pthread_mutex_lock(&c->lock);
  if (!c->is_started && !c->is_manual) {
    if (pthread_create(&c->thread, NULL, poller_main, c) == 0) {
      pthread_setname_np(c->thread, "rondo-poller");
      c->is_started = 1;
    } else {
      status = RONDO_ERR_SYSTEM;
    }
  }
  if (status == RONDO_SUCCESS) {
    e->next = c->reserved;
    c->reserved = e;
  }
  pthread_mutex_unlock(&c->lock);
  if (status != RONDO_SUCCESS)
    free(e);
  return status;
}

void rondo_callbacks_unreserve(struct rondo_callbacks *c) {
  pthread_mutex_lock(&c->lock);
  struct rondo_callback_entry *e = c->reserved;
  c->reserved = e->next;
  pthread_mutex_unlock(&c->lock);
  free(e);
}

void rondo_callbacks_post(struct rondo_callbacks *c, rondo_callback callback, void *arg,
                          int status) {
  pthread_mutex_lock(&c->lock);
  struct rondo_callback_entry *e = c->reserved;
  c->reserved = e->next;
  e->callback = callback;
  e->arg = arg;
  e->status = status;
  e->next = NULL;
  if (c->tail)
    c->tail->next = e;
  else
    c->head = e;
  c->tail = e;
  rondo_store_relaxed_u32(&c->posted, c->posted + 1);
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

int rondo_callbacks_fire(struct rondo_callbacks *c) {
  int fired = 0;
  pthread_mutex_lock(&c->lock);
  while (callbacks_try_call(c))
    fired++;
  pthread_mutex_unlock(&c->lock);
  return fired;
}

void rondo_callbacks_fini(struct rondo_callbacks *c) {
  pthread_mutex_lock(&c->lock);
  c->is_stopping = 1;
  int started = c->is_started;
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->lock);
  if (started)
    pthread_join(c->thread, NULL);
  (void)rondo_callbacks_fire(c);
  while (c->reserved) {
    struct rondo_callback_entry *e = c->reserved;
    c->reserved = e->next;
    free(e);
  }
  pthread_cond_destroy(&c->changed);
  pthread_mutex_destroy(&c->lock);
}
