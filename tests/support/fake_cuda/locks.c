// Finds calls that are made with a lock held. On a GPU nearly every call may wait: one that frees
// or registers memory, or loads a kernel, waits for the device, and all others wait for the lock of
// the context, which that one holds. A thread that then holds a lock of its own stops the threads
// that need this lock, and the device may be waiting for them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/internal.h"

static struct {
  unsigned (*count_held)(void);
  char first[64]; // such call since the reset; empty: none
} watch;

// Calls that only change the thread, or return what never changes.
static int call_never_waits(const char *entry) {
  static const char *const names[] = {"cuGetErrorName",    "cuDriverGetVersion", "cuInit",
                                      "cuDeviceGet",       "cuThreadExchange",   "cuCtxPush",
                                      "cuCtxPop",          "cuCtxSetCurrent",    "cuCtxGet",
                                      "cuDeviceCanAccess", "cuDeviceTotalMem"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(entry, names[i], strlen(names[i])) == 0)
      return 1;
  return 0;
}

void rondo_fake_watch_locks(unsigned (*count_held)(void)) {
  pthread_mutex_lock(&fake.lock);
  watch.count_held = count_held;
  watch.first[0] = '\0';
  pthread_mutex_unlock(&fake.lock);
}

const char *rondo_fake_called_with_lock(void) {
  pthread_mutex_lock(&fake.lock);
  const char *first = watch.first[0] ? watch.first : NULL;
  pthread_mutex_unlock(&fake.lock);
  return first;
}

// Of a program that is linked with rondo_counted_locks (tests/support/counted_locks.h); else null.
__attribute__((weak, visibility("default"))) unsigned rondo_test_count_held_locks(void);

void fake_watch_call(const char *entry) {
  if (call_never_waits(entry))
    return;
  if (fake.options.watch_locks && rondo_test_count_held_locks && rondo_test_count_held_locks()) {
    fprintf(stderr, "fake CUDA driver: %s was called with a lock held\n", entry);
    abort();
  }
  if (!watch.count_held || watch.first[0] || !watch.count_held())
    return;
  snprintf(watch.first, sizeof watch.first, "%s", entry);
}
