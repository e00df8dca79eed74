// struct rondo_setup: calls in the device's context, kernels that run once, and a device without
// daemons.
#include <stdio.h>

#include "daemon/cuda/cuda_backend.h"

static int setup_call_inside(struct rondo_device *device, int (*call)(void *arg), void *arg,
                             char *why) {
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(rondo_cuda_device_of(device), &scope);
  int status = rondo_cuda_check(result, "the device has no context", why);
  if (status == RONDO_SUCCESS)
    status = call(arg);
  rondo_cuda_leave(&scope);
  return status;
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
  return result == CUDA_SUCCESS ? rondo_cuda_await(d, *stream, once->deadline_ns) : result;
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
  return rondo_cuda_check(result, once->name, why);
}

const struct rondo_setup rondo_cuda_setup = {.call_inside = setup_call_inside,
                                             .run_once = setup_run_once,
                                             .hold = rondo_cuda_launcher_hold,
                                             .is_quiet = rondo_cuda_launcher_is_quiet,
                                             .retain = rondo_cuda_retain};
