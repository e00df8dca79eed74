#include "adapters/nccl/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define AWAIT_BOUND_S 60
#define AWAIT_PAUSE_NS 20000
enum { CU_SUCCESS = 0, CU_NOT_READY = 600, CU_CAPTURE_NONE = 0 };

// In the types of C: CUresult, CUdevice and CUstreamCaptureStatus are int.
static struct {
  int (*get_device)(int *device);
  int (*stream_context)(void *stream, void **context);
  int (*push_context)(void *context);
  int (*pop_context)(void **context);
  int (*is_capturing)(void *stream, int *status);
  int (*query)(void *stream);
} driver;
static bool is_complete; // all of them were found
static pthread_once_t once = PTHREAD_ONCE_INIT;

// The library is never closed: the driver cannot be unloaded.
static void driver_load(void) {
  const struct {
    void *at;
    const char *name;
  } calls[] = {
      {&driver.get_device, "cuCtxGetDevice"},        {&driver.stream_context, "cuStreamGetCtx"},
      {&driver.push_context, "cuCtxPushCurrent_v2"}, {&driver.pop_context, "cuCtxPopCurrent_v2"},
      {&driver.is_capturing, "cuStreamIsCapturing"}, {&driver.query, "cuStreamQuery"}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  is_complete = library != NULL;
  for (size_t i = 0; library && i < sizeof calls / sizeof *calls; i++) {
    void *found = dlsym(library, calls[i].name);
    memcpy(calls[i].at, &found, sizeof found);
    is_complete &= found != NULL;
  }
}

int rondo_nccl_device_get_current(void) {
  int device = 0;
  pthread_once(&once, driver_load);
  return driver.get_device && driver.get_device(&device) == CU_SUCCESS ? device : 0;
}

// The context of the stream is current.
static const char *stream_await(void *stream) {
  const struct timespec pause = {0, AWAIT_PAUSE_NS};
  struct timespec now;
  int status = CU_CAPTURE_NONE;
  if (driver.is_capturing(stream, &status) != CU_SUCCESS || status != CU_CAPTURE_NONE)
    return "the stream is being captured, or is invalid";
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t end_s = now.tv_sec + AWAIT_BOUND_S;
  while ((status = driver.query(stream)) == CU_NOT_READY && now.tv_sec < end_s) {
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
  if (status == CU_NOT_READY)
    return "the earlier work of the stream has not ended within a minute";
  return status == CU_SUCCESS ? NULL : "the stream has failed";
}

const char *rondo_nccl_device_await(void *stream) {
  void *context = NULL;
  pthread_once(&once, driver_load);
  if (!is_complete)
    return "the CUDA driver is too old";
  if (driver.stream_context(stream, &context) != CU_SUCCESS ||
      driver.push_context(context) != CU_SUCCESS)
    return "the stream is invalid";
  const char *why = stream_await(stream);
  (void)driver.pop_context(&context);
  return why;
}
