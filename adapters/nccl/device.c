#include "adapters/nccl/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define READ_BOUND_NS (60 * INT64_C(1000000000))
#define READ_PAUSE_NS 20000
#define MOST_BYTES 8u // of what is read: an element
enum { CU_SUCCESS = 0, CU_NOT_READY = 600, CU_CAPTURE_NONE = 0 };

// Calls of the CUDA driver; CUresult, CUdevice and the status of a capture are int, handles pointers,
// addresses of the device numbers.
static struct {
  int (*get_device)(int *device);
  int (*stream_context)(void *stream, void **context);
  int (*push_context)(void *context);
  int (*pop_context)(void **context);
  int (*is_capturing)(void *stream, int *status);
  int (*copy)(void *to, uint64_t from, size_t bytes, void *stream);
  int (*query)(void *stream);
} driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// The driver stays: it cannot be unloaded.
static void find_driver(void) {
  const struct {
    void *at;
    const char *name;
  } calls[] = {{&driver.get_device, "cuCtxGetDevice"},
               {&driver.stream_context, "cuStreamGetCtx"},
               {&driver.push_context, "cuCtxPushCurrent_v2"},
               {&driver.pop_context, "cuCtxPopCurrent_v2"},
               {&driver.is_capturing, "cuStreamIsCapturing"},
               {&driver.copy, "cuMemcpyDtoHAsync_v2"},
               {&driver.query, "cuStreamQuery"}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library && i < sizeof calls / sizeof *calls; i++) {
    void *found = dlsym(library, calls[i].name);
    memcpy(calls[i].at, &found, sizeof found);
  }
}

int rondo_nccl_current_device(void) {
  int device = 0;
  pthread_once(&once, find_driver);
  return driver.get_device && driver.get_device(&device) == CU_SUCCESS ? device : 0;
}

// Until the stream has done all that is in it.
static const char *await_stream(void *stream) {
  const struct timespec pause = {0, READ_PAUSE_NS};
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t begin_s = now.tv_sec;
  int status = driver.query(stream);
  while (status == CU_NOT_READY && now.tv_sec - begin_s < READ_BOUND_NS / INT64_C(1000000000)) {
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    status = driver.query(stream);
  }
  if (status == CU_NOT_READY)
    return "what is in the stream before it has not ended within a minute";
  return status == CU_SUCCESS ? NULL : "the stream has failed";
}

// The context of the stream is current. No page-locked memory: making or freeing it waits for whole devices, and
// so for streams that wait for this call. A copy to other memory returns when it is done; it is
// asked for when the stream has nothing left to do, so that the wait is ours, and has a bound.
static const char *read_in_order(void *to, const void *from, size_t bytes, void *stream) {
  static _Thread_local unsigned char staging[MOST_BYTES]; // there yet if the copy never ends
  int status = CU_CAPTURE_NONE;
  if (driver.is_capturing(stream, &status) != CU_SUCCESS || status != CU_CAPTURE_NONE)
    return "the stream is being captured, or is none";
  const char *why = await_stream(stream);
  if (why)
    return why;
  if (driver.copy(staging, (uint64_t)(uintptr_t)from, bytes, stream) != CU_SUCCESS)
    return "its memory cannot be read";
  why = await_stream(stream);
  if (!why)
    memcpy(to, staging, bytes);
  return why;
}

const char *rondo_nccl_device_read(void *to, const void *from, size_t bytes, void *stream) {
  void *context = NULL;
  pthread_once(&once, find_driver);
  if (!driver.query || !driver.copy || !driver.is_capturing || !driver.pop_context ||
      !driver.push_context || !driver.stream_context)
    return "the CUDA driver lacks a call that it needs";
  if (bytes > MOST_BYTES || driver.stream_context(stream, &context) != CU_SUCCESS ||
      driver.push_context(context) != CU_SUCCESS)
    return "the stream is none";
  const char *why = read_in_order(to, from, bytes, stream);
  (void)driver.pop_context(&context);
  return why;
}
