// struct rondo_setup: calls in the device's context, kernels that run once, and a device without
// daemons.
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "daemon/cuda/cuda_backend.h"

#define LOOK_NS 100000

static int setup_fail(char *why, const char *what, CUresult result) {
  snprintf(why, RONDO_WHY_BYTES, "%s: %s", what, rondo_cuda_error_name(result));
  return RONDO_ERR_SYSTEM;
}

static int setup_call_inside(struct rondo_device *device, int (*call)(void *arg), void *arg,
                             char *why) {
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(rondo_cuda_device_of(device), &scope);
  if (result != CUDA_SUCCESS)
    return setup_fail(why, "the device has no context", result);
  int status = call(arg);
  rondo_cuda_leave(&scope);
  return status;
}

static CUresult stream_await(const struct rondo_cuda_device *d, CUstream stream,
                             uint64_t deadline_ns) {
  const struct timespec pause = {0, LOOK_NS};
  CUresult result = d->api->stream_query(stream);
  while (result == CUDA_ERROR_NOT_READY && rondo_now_ns() < deadline_ns) {
    nanosleep(&pause, NULL);
    result = d->api->stream_query(stream);
  }
  return result;
}

// Loads, launches and awaits the kernel. Writes the launch's stream to `stream`; null: none.
static CUresult module_run(const struct rondo_cuda_device *d, const struct rondo_once *once,
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
  return result == CUDA_SUCCESS ? stream_await(d, *stream, once->deadline_ns) : result;
}

static int setup_run_once(struct rondo_device *device, const struct rondo_once *once, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  CUmodule module = NULL;
  CUstream stream = NULL;
  CUresult result = d->api->module_load_data(&module, once->image);
  if (result == CUDA_SUCCESS)
    result = module_run(d, once, module, &stream);
  if (result == CUDA_ERROR_NOT_READY) { // the running kernel keeps its module and stream
    snprintf(why, RONDO_WHY_BYTES, "the kernel %s does not end", once->name);
    return RONDO_ERR_TIMEOUT;
  }
  if (stream)
    (void)d->api->stream_destroy(stream);
  if (module)
    (void)d->api->module_unload(module);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : setup_fail(why, once->name, result);
}

static void setup_hold(struct rondo_device *device, bool on) {
  rondo_cuda_launcher_hold(rondo_cuda_device_of(device), on);
}

static bool setup_is_quiet(struct rondo_device *device) {
  return rondo_cuda_launcher_is_quiet(rondo_cuda_device_of(device));
}

static void setup_retain(struct rondo_device *device) {
  rondo_cuda_retain(rondo_cuda_device_of(device));
}

const struct rondo_setup rondo_cuda_setup = {.call_inside = setup_call_inside,
                                             .run_once = setup_run_once,
                                             .hold = setup_hold,
                                             .is_quiet = setup_is_quiet,
                                             .retain = setup_retain};
