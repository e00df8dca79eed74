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
  char why[256]; // empty: the library can be used
} library = {.once = PTHREAD_ONCE_INIT};

static void *library_find_call(void *handle, const char *name) {
  void *call = dlsym(handle, name);
  if (!call && !library.why[0])
    (void)snprintf(library.why, sizeof library.why, LIBRARY " has no %s", name);
  return call;
}

static const char *version_print(int version, char text[VERSION_TEXT_BYTES]) {
  (void)snprintf(text, VERSION_TEXT_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
  return text;
}

static void library_check_version(void) {
  char is[VERSION_TEXT_BYTES];
  char wanted[VERSION_TEXT_BYTES];
  int version = 0;
  if (library.calls.ncclGetVersion(&version) != ncclSuccess)
    (void)snprintf(library.why, sizeof library.why, LIBRARY " does not tell its version");
  else if (version != NCCL_VERSION_CODE)
    (void)snprintf(library.why, sizeof library.why,
                   LIBRARY " is version %s, and this library was compiled for %s",
                   version_print(version, is), version_print(NCCL_VERSION_CODE, wanted));
}

static void library_find(void) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    (void)snprintf(library.why, sizeof library.why, "NCCL cannot be loaded: %s",
                   reason ? reason : "no reason given");
    return;
  }
  // Only Rondo's drop-in loads librondo.
  if (dlsym(handle, "rondo_version")) {
    (void)snprintf(library.why, sizeof library.why,
                   "the " LIBRARY " that is found is Rondo's own, not NVIDIA's");
    (void)dlclose(handle);
    return;
  }
#define FIND(name) *(void **)&library.calls.name = library_find_call(handle, #name);
  RONDO_NCCL_CALLS(FIND)
  // Checks the version before it looks for calls that only newer versions have.
  if (!library.why[0])
    library_check_version();
  FIND(ncclDevCommCreate)
  FIND(ncclDevCommDestroy)
  FIND(ncclTeamLsa)
#undef FIND
}

const struct rondo_nccl_library *rondo_nccl_load(char *why) {
  pthread_once(&library.once, library_find);
  if (!library.why[0])
    return &library.calls;
  (void)snprintf(why, RONDO_WHY_BYTES, "%s", library.why);
  return NULL;
}
