// What another library that sets something up on a device is given: the device as the current one, a kernel that runs once,
// and a device without daemons for as long as it takes.
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "daemon/cuda/backend.h"

#define LOOK_NS 100000

static int fail(char *why, const char *what, CUresult result) {
  snprintf(why, RONDO_WHY_BYTES, "%s: %s", what, rondo_cuda_error_name(result));
  return RONDO_ERR_SYSTEM;
}

static int setup_inside(struct rondo_device *device, int (*call)(void *arg), void *arg, char *why) {
  struct rondo_cuda_stay stay;
  CUresult result = rondo_cuda_enter(rondo_cuda_device_of(device), &stay);
  if (result != CUDA_SUCCESS)
    return fail(why, "the device has no context", result);
  int status = call(arg);
  rondo_cuda_leave(&stay);
  return status;
}

static CUresult await_stream(const struct rondo_cuda_device *d, CUstream stream,
                             uint64_t deadline_ns) {
  const struct timespec pause = {0, LOOK_NS};
  CUresult result = d->api->stream_query(stream);
  while (result == CUDA_ERROR_NOT_READY && rondo_now_ns() < deadline_ns) {
    nanosleep(&pause, NULL);
    result = d->api->stream_query(stream);
  }
  return result;
}

// Loads, launches and awaits it. `stream` is that of the launch, null until there is one.
static CUresult run_module(const struct rondo_cuda_device *d, const struct rondo_once *once,
                           CUmodule module, CUstream *stream) {
  CUfunction kernel = NULL;
  void *params[] = {once->param};
  CUresult result = d->api->module_get_function(&kernel, module, once->name);
  if (result == CUDA_SUCCESS)
    result = d->api->func_load(kernel);
  if (result == CUDA_SUCCESS)
    result = d->api->stream_create_with_priority(stream, CU_STREAM_NON_BLOCKING, d->priority);
  if (result == CUDA_SUCCESS)
    result = d->api->launch_kernel(kernel, 1, 1, 1, 32, 1, 1, 0, *stream, params, NULL);
  return result == CUDA_SUCCESS ? await_stream(d, *stream, once->deadline_ns) : result;
}

static int setup_run_once(struct rondo_device *device, const struct rondo_once *once, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  CUmodule module = NULL;
  CUstream stream = NULL;
  CUresult result = d->api->module_load_data(&module, once->image);
  if (result == CUDA_SUCCESS)
    result = run_module(d, once, module, &stream);
  if (result == CUDA_ERROR_NOT_READY) { // what runs still is left behind
    snprintf(why, RONDO_WHY_BYTES, "the kernel %s does not end", once->name);
    return RONDO_ERR_TIMEOUT;
  }
  if (stream)
    (void)d->api->stream_destroy(stream);
  if (module)
    (void)d->api->module_unload(module);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : fail(why, once->name, result);
}

static void setup_hold(struct rondo_device *device, int on) {
  rondo_cuda_launcher_hold(rondo_cuda_device_of(device), on);
}

static int setup_is_quiet(struct rondo_device *device) {
  return rondo_cuda_launcher_is_quiet(rondo_cuda_device_of(device));
}

static void setup_keep(struct rondo_device *device) {
  rondo_cuda_keep(rondo_cuda_device_of(device));
}

const struct rondo_setup rondo_cuda_setup = {.inside = setup_inside,
                                             .run_once = setup_run_once,
                                             .hold = setup_hold,
                                             .is_quiet = setup_is_quiet,
                                             .keep = setup_keep};
