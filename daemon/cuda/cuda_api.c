#include "daemon/cuda/cuda_api.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fork.h"
#include <rondo/status.h>

#define DRIVER_LIBRARY "libcuda.so.1"

// The versioned name that cuda.h's macros give a call.
#define SYMBOL_TEXT(symbol) #symbol
#define ENTRY_NAME(member, symbol) SYMBOL_TEXT(symbol),

static const char *const names[] = {RONDO_CUDA_ENTRIES(ENTRY_NAME)};
#define ENTRY_COUNT (sizeof names / sizeof *names)

// The table as a list, for filling it.
union table {
  struct rondo_cuda_api api;
  void *entries[ENTRY_COUNT];
};
static_assert(sizeof(union table) == sizeof(struct rondo_cuda_api), "only pointers");

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *library_name = DRIVER_LIBRARY;
static union table loaded;
static void *library;
static bool has_started; // cuInit was called
static bool is_started;

static long started_by; // the ancestor process that called cuInit; 0: none

// The oldest driver that can run what this version of CUDA compiles: the first of its major
// version, and for CUDA 12 the first that has all calls of the table.
#if CUDA_VERSION < 13000
#define OLDEST_DRIVER 12040
#define OLDEST_DRIVER_NAME "driver 550 (CUDA 12.4)"
#elif CUDA_VERSION < 14000
#define OLDEST_DRIVER 13000
#define OLDEST_DRIVER_NAME "driver 580 (CUDA 13.0)"
#else
#define OLDEST_DRIVER (CUDA_VERSION / 1000 * 1000)
#define OLDEST_DRIVER_NAME "a driver of the CUDA that it was built with"
#endif

// Writes a line to `why` if the driver says that it is too old. It need not be started for that.
static bool driver_is_recent(const struct rondo_cuda_api *api, char *why) {
  int version = 0;
  if (!api->driver_get_version || api->driver_get_version(&version) != CUDA_SUCCESS ||
      version >= OLDEST_DRIVER)
    return true;
  snprintf(why, RONDO_CUDA_WHY_BYTES,
           "the CUDA driver is too old: it is of CUDA %d.%d, and Rondo was built with CUDA %d.%d: "
           "install " OLDEST_DRIVER_NAME " or later",
           version / 1000, version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  return false;
}

// Names every missing call in `why`, as far as there is room.
static bool table_is_complete(const union table *table, char *why) {
  size_t used = 0;
  for (size_t i = 0; i < ENTRY_COUNT; i++) {
    if (table->entries[i] || used >= RONDO_CUDA_WHY_BYTES)
      continue;
    int written = snprintf(why + used, RONDO_CUDA_WHY_BYTES - used, "%s%s",
                           used ? ", " : "the CUDA driver is too old, it lacks: ", names[i]);
    used += (size_t)written;
  }
  return used == 0;
}

// Fills the table.
static int api_find_entries(char *why) {
  union table found;
  for (size_t i = 0; i < ENTRY_COUNT; i++)
    found.entries[i] = dlsym(library, names[i]);
  if (!driver_is_recent(&found.api, why) || !table_is_complete(&found, why))
    return RONDO_ERR_UNSUPPORTED;
  loaded = found;
  return RONDO_SUCCESS;
}

static int api_open_library(char *why) {
  library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    snprintf(why, RONDO_CUDA_WHY_BYTES, "there is no CUDA driver: %s",
             reason ? reason : library_name);
    return RONDO_ERR_UNSUPPORTED;
  }
  int status = api_find_entries(why);
  if (status != RONDO_SUCCESS) {
    dlclose(library);
    library = NULL;
  }
  return status;
}

static int api_start_driver(char *why) {
  int devices = 0;
  has_started = true;
  CUresult result = loaded.api.init(0);
  if (result == CUDA_SUCCESS)
    result = loaded.api.device_get_count(&devices);
  if (result == CUDA_SUCCESS && devices > 0)
    return RONDO_SUCCESS;
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NO_DEVICE)
    snprintf(why, RONDO_CUDA_WHY_BYTES, "there is no CUDA device");
  else
    snprintf(why, RONDO_CUDA_WHY_BYTES, "the CUDA driver does not start: %s",
             rondo_cuda_error_name(result));
  return RONDO_ERR_UNSUPPORTED;
}

// CUDA does not work in a child of a process that has called cuInit: calls may not even return.
static void api_note_fork(void) {
  if (has_started)
    started_by = started_by ? started_by : (long)rondo_forked_from();
  load_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(api_note_fork)

int rondo_cuda_api_load(char why[RONDO_CUDA_WHY_BYTES]) {
  int status = RONDO_SUCCESS;
  if (started_by) {
    snprintf(why, RONDO_CUDA_WHY_BYTES,
             "process %ld has started the CUDA driver and forked this one, where CUDA cannot work",
             started_by);
    return RONDO_ERR_UNSUPPORTED;
  }
  pthread_mutex_lock(&load_lock);
  if (!library)
    status = api_open_library(why);
  if (status == RONDO_SUCCESS && !is_started) {
    status = api_start_driver(why);
    is_started = status == RONDO_SUCCESS;
  }
  pthread_mutex_unlock(&load_lock);
  return status;
}

const struct rondo_cuda_api *rondo_cuda_api(void) {
  pthread_mutex_lock(&load_lock);
  const struct rondo_cuda_api *api = is_started ? &loaded.api : NULL;
  pthread_mutex_unlock(&load_lock);
  return api;
}

const char *rondo_cuda_error_name(CUresult result) {
  const char *name = NULL;
  if (!loaded.api.get_error_name || loaded.api.get_error_name(result, &name) != CUDA_SUCCESS ||
      !name)
    return "an error without a name";
  return name;
}

void rondo_cuda_api_from(const char *name) {
  pthread_mutex_lock(&load_lock);
  if (library)
    dlclose(library);
  library = NULL;
  is_started = false;
  memset(&loaded, 0, sizeof loaded);
  library_name = name ? name : DRIVER_LIBRARY;
  pthread_mutex_unlock(&load_lock);
}
