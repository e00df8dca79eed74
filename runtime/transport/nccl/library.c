#include "runtime/transport/nccl/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "daemon/driver/driver.h"

#define LIBRARY "libnccl.so.2"
#define VERSION_TEXT_BYTES 32

static struct {
  pthread_once_t once;
  struct rondo_nccl_library calls;
  char why[256]; // empty: it can be used
} library = {.once = PTHREAD_ONCE_INIT};

static void *find_call(void *handle, const char *name) {
  void *call = dlsym(handle, name);
  if (!call && !library.why[0])
    (void)snprintf(library.why, sizeof library.why, LIBRARY " has no %s", name);
  return call;
}

static const char *print_version(int version, char text[VERSION_TEXT_BYTES]) {
  (void)snprintf(text, VERSION_TEXT_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
  return text;
}

static void check_version(void) {
  char is[VERSION_TEXT_BYTES];
  char wanted[VERSION_TEXT_BYTES];
  int version = 0;
  if (library.calls.ncclGetVersion(&version) != ncclSuccess)
    (void)snprintf(library.why, sizeof library.why, LIBRARY " does not say which version it is");
  else if (version != NCCL_VERSION_CODE)
    (void)snprintf(library.why, sizeof library.why,
                   LIBRARY " is version %s, and this library was compiled for %s",
                   print_version(version, is), print_version(NCCL_VERSION_CODE, wanted));
}

static void find_library(void) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    (void)snprintf(library.why, sizeof library.why, "NCCL cannot be loaded: %s",
                   reason ? reason : "no reason given");
    return;
  }
  // Only the drop-in brings librondo with it.
  if (dlsym(handle, "rondo_version")) {
    (void)snprintf(library.why, sizeof library.why,
                   "the " LIBRARY " that is found is Rondo's own, not NVIDIA's");
    (void)dlclose(handle);
    return;
  }
#define FIND(name) *(void **)&library.calls.name = find_call(handle, #name);
  RONDO_NCCL_CALLS(FIND)
  // The version before calls that only later ones have.
  if (!library.why[0])
    check_version();
  FIND(ncclDevCommCreate)
  FIND(ncclDevCommDestroy)
  FIND(ncclTeamLsa)
#undef FIND
}

const struct rondo_nccl_library *rondo_nccl_load(char *why) {
  pthread_once(&library.once, find_library);
  if (!library.why[0])
    return &library.calls;
  (void)snprintf(why, RONDO_WHY_BYTES, "%s", library.why);
  return NULL;
}
