// A thread of the process, and the daemons that it looks after.
#include <stdlib.h>

#include "daemon/cuda/cuda_backend.h"

static int watch_reserve(struct rondo_cuda_watch *w) {
  if (w->count < w->capacity)
    return RONDO_SUCCESS;
  uint32_t capacity = w->capacity ? 2 * w->capacity : 16;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  struct rondo_cuda_daemon **daemons = realloc(w->daemons, capacity * sizeof *daemons);
  if (!daemons)
    return RONDO_ERR_NO_MEMORY;
  w->daemons = daemons;
  w->capacity = capacity;
  return RONDO_SUCCESS;
}

int rondo_cuda_watch_add(struct rondo_cuda_watch *w, struct rondo_cuda_daemon *d) {
  pthread_mutex_lock(&w->lock);
  int status = watch_reserve(w);
  if (status == RONDO_SUCCESS && !w->is_started) {
    if (pthread_create(&w->thread, NULL, w->main, w) == 0) {
      pthread_setname_np(w->thread, w->name);
      w->is_started = true;
    } else {
      status = RONDO_ERR_SYSTEM;
    }
  }
  if (status == RONDO_SUCCESS)
    w->daemons[w->count++] = d;
  pthread_mutex_unlock(&w->lock);
  return status;
}

void rondo_cuda_watch_remove(struct rondo_cuda_watch *w, const struct rondo_cuda_daemon *d) {
  for (uint32_t i = 0; i < w->count; i++) {
    if (w->daemons[i] != d)
      continue;
    w->daemons[i] = w->daemons[--w->count];
    break;
  }
}
