#include "tools/kit/device_sync.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "tools/kit/clock.h"

// The calls of the driver, as cuda.h declares them: results are 0 or an error.
struct calls {
  int (*init)(unsigned flags);
  int (*device_get)(int *device, int ordinal);
  int (*context_retain)(void **context, int device);
  int (*context_release)(int device);
  int (*context_set)(void *context);
  int (*synchronize)(void);
};

struct rondo_kit_device_sync {
  struct calls calls;
  void *library, *context;
  int device;
  pthread_t thread;
  sem_t asked, done;
  bool is_running;
  atomic_bool is_ending;
  int result; // written before `done` is posted
};

static void *sync_main(void *arg) {
  struct rondo_kit_device_sync *s = arg;
  int set = s->calls.context_set(s->context);
  for (;;) {
    while (sem_wait(&s->asked) != 0)
      continue;
    if (atomic_load(&s->is_ending))
      return NULL;
    s->result = set ? set : s->calls.synchronize();
    sem_post(&s->done);
  }
}

static bool call_find(void *library, const char *name, void *call) {
  void *found = dlsym(library, name);
  memcpy(call, &found, sizeof found); // C has no conversion from an object to a function
  return found != NULL;
}

static bool calls_find(struct rondo_kit_device_sync *s) {
  struct calls *c = &s->calls;
  return call_find(s->library, "cuInit", &c->init) &&
         call_find(s->library, "cuDeviceGet", &c->device_get) &&
         call_find(s->library, "cuDevicePrimaryCtxRetain", &c->context_retain) &&
         call_find(s->library, "cuDevicePrimaryCtxRelease_v2", &c->context_release) &&
         call_find(s->library, "cuCtxSetCurrent", &c->context_set) &&
         call_find(s->library, "cuCtxSynchronize", &c->synchronize);
}

struct rondo_kit_device_sync *rondo_kit_device_sync_open(int ordinal) {
  struct rondo_kit_device_sync *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  bool found = s->library && calls_find(s);
  if (found && s->calls.init(0) == 0 && s->calls.device_get(&s->device, ordinal) == 0 &&
      s->calls.context_retain(&s->context, s->device) == 0) {
    sem_init(&s->asked, 0, 0);
    sem_init(&s->done, 0, 0);
    if (pthread_create(&s->thread, NULL, sync_main, s) == 0)
      return s;
    s->calls.context_release(s->device);
    sem_destroy(&s->asked);
    sem_destroy(&s->done);
  }
  fprintf(stderr, "the CUDA driver, or device %d, cannot be used\n", ordinal);
  if (s->library)
    dlclose(s->library);
  free(s);
  return NULL;
}

int rondo_kit_device_sync_wait(struct rondo_kit_device_sync *s, uint64_t timeout_ns) {
  struct timespec until = rondo_kit_deadline(timeout_ns);
  if (!s->is_running)
    sem_post(&s->asked);
  s->is_running = true;
  while (sem_timedwait(&s->done, &until) != 0)
    if (errno != EINTR)
      return RONDO_ERR_TIMEOUT;
  s->is_running = false;
  return s->result == 0 ? RONDO_SUCCESS : RONDO_ERR_SYSTEM;
}

void rondo_kit_device_sync_close(struct rondo_kit_device_sync *s) {
  if (!s)
    return;
  atomic_store(&s->is_ending, true); // the thread reads it after a running call
  sem_post(&s->asked);
  pthread_join(s->thread, NULL);
  sem_destroy(&s->asked);
  sem_destroy(&s->done);
  s->calls.context_release(s->device);
  dlclose(s->library);
  free(s);
}
