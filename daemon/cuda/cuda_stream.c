// Runs in stream order, by stream memory operations: these hold no multiprocessor and need no CPU
// thread.
#include <stdio.h>
#include <string.h>

#include "daemon/cuda/cuda_backend.h"

static CUstreamBatchMemOpParams op_write_value(const uint64_t *word, uint64_t value) {
  CUstreamBatchMemOpParams p;
  memset(&p, 0, sizeof p);
  p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  p.writeValue.address = (CUdeviceptr)(uintptr_t)word;
  p.writeValue.value64 = value;
  p.writeValue.flags =
      CU_STREAM_WRITE_VALUE_DEFAULT; // earlier work of the stream is visible first (D1)
  return p;
}

static CUstreamBatchMemOpParams op_wait_value(const uint64_t *word, uint64_t value, unsigned how) {
  CUstreamBatchMemOpParams p;
  memset(&p, 0, sizeof p);
  p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  p.waitValue.address = (CUdeviceptr)(uintptr_t)word;
  p.waitValue.value64 = value;
  p.waitValue.flags = how;
  return p;
}

static int stream_refuse(CUresult result, const char *call, char *why) {
  (void)snprintf(why, RONDO_WHY_BYTES, "%s: %s", call, rondo_cuda_error_name(result));
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE ||
      result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT)
    return RONDO_ERR_INVALID;
  return result == CUDA_ERROR_NOT_SUPPORTED ? RONDO_ERR_UNSUPPORTED : RONDO_ERR_SYSTEM;
}

// Checks that runs can be tied to the stream. Called in the device's context.
static int stream_check(const struct rondo_cuda_device *device, CUstream stream, char *why) {
  CUcontext ctx = NULL;
  if (device->shares_queue) {
    (void)snprintf(why, RONDO_WHY_BYTES,
                   "CUDA_DEVICE_MAX_CONNECTIONS=1: a stream that waits would keep the daemon from "
                   "being launched");
    return RONDO_ERR_UNSUPPORTED;
  }
  CUresult result = device->api->stream_get_ctx(stream, &ctx);
  if (result != CUDA_SUCCESS)
    return stream_refuse(result, "cuStreamGetCtx", why);
  if (ctx == device->ctx)
    return RONDO_SUCCESS;
  (void)snprintf(why, RONDO_WHY_BYTES, "the stream is not one of device %d", device->ordinal);
  return RONDO_ERR_INVALID;
}

// `values`: the request, then two for the wait. Enqueues those of `parts`.
static int stream_enqueue(const struct rondo_cuda_device *device, CUstream stream,
                          CUstreamBatchMemOpParams *values, unsigned parts, char *why) {
  unsigned first = parts & RONDO_STREAM_ASK ? 0 : 1;
  unsigned end = parts & RONDO_STREAM_WAIT ? 3 : 1;
  CUresult result = device->api->stream_batch_mem_op(stream, end - first, values + first, 0);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : stream_refuse(result, "cuStreamBatchMemOp", why);
}

int rondo_cuda_enqueue(struct rondo_daemon *base, void *stream, struct rondo_stream_words *words,
                       uint64_t ticket, unsigned parts, char *why) {
  const struct rondo_cuda_device *device = rondo_cuda_daemon_of(base)->device;
  CUstreamBatchMemOpParams values[] = {
      op_write_value(&words->doorbell, ticket),
      op_wait_value(&words->completion, ticket, CU_STREAM_WAIT_VALUE_GEQ),
      op_write_value(&words->passed, ticket)};
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(device, &scope);
  if (result != CUDA_SUCCESS)
    return stream_refuse(result, "cuCtxPushCurrent", why);
  int status = stream_check(device, stream, why);
  if (status == RONDO_SUCCESS)
    status = stream_enqueue(device, stream, values, parts, why);
  rondo_cuda_leave(&scope);
  return status;
}

// -------------------------------------------------------------------- capture --

// Writes the graph that the stream is being captured into; null: none.
static int stream_find_graph(const struct rondo_cuda_device *device, CUstream stream,
                             CUgraph *graph, char *why) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  *graph = NULL;
  CUresult result =
      device->api->stream_get_capture_info(stream, &capture, NULL, graph, NULL, NULL, NULL);
  if (result != CUDA_SUCCESS)
    return stream_refuse(result, "cuStreamGetCaptureInfo", why);
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE)
    *graph = NULL;
  if (capture != CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return RONDO_SUCCESS;
  (void)snprintf(why, RONDO_WHY_BYTES, "the capture of the stream is invalid");
  return RONDO_ERR_INVALID;
}

int rondo_cuda_get_capturing(struct rondo_daemon *base, void *stream, int *capturing, char *why) {
  const struct rondo_cuda_device *device = rondo_cuda_daemon_of(base)->device;
  struct rondo_cuda_scope scope;
  CUgraph graph = NULL;
  CUresult result = rondo_cuda_enter(device, &scope);
  if (result != CUDA_SUCCESS)
    return stream_refuse(result, "cuCtxPushCurrent", why);
  int status = stream_check(device, stream, why);
  if (status == RONDO_SUCCESS)
    status = stream_find_graph(device, stream, &graph, why);
  *capturing = graph != NULL;
  rondo_cuda_leave(&scope);
  return status;
}

// Makes the graph the owner of the capture. Called in the device's context.
static int graph_own_capture(const struct rondo_cuda_device *device, CUgraph graph,
                             const struct rondo_capture *c, char *why) {
  CUuserObject object = NULL;
  CUresult result = device->api->user_object_create(&object, c->arg, c->drop, 1,
                                                    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    c->drop(c->arg);
    return stream_refuse(result, "cuUserObjectCreate", why);
  }
  result = device->api->graph_retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS)
    return RONDO_SUCCESS;
  (void)device->api->user_object_release(object, 1); // which calls drop
  return stream_refuse(result, "cuGraphRetainUserObject", why);
}

// The graph owns the capture after this call, or the capture was dropped.
static int capture_own(const struct rondo_cuda_device *device, CUgraph graph,
                       const struct rondo_capture *c, int status, char *why) {
  if (status == RONDO_SUCCESS)
    return graph_own_capture(device, graph, c, why);
  c->drop(c->arg);
  return status;
}

int rondo_cuda_capture(struct rondo_daemon *base, void *stream, const struct rondo_capture *c,
                       unsigned parts, char *why) {
  const struct rondo_cuda_device *device = rondo_cuda_daemon_of(base)->device;
  // Equal, not "at least": that compares on a circle, on which the ticket of a replayed run is not
  // ahead of 0.
  CUstreamBatchMemOpParams values[] = {
      op_write_value(&c->words->doorbell, c->ticket),
      op_wait_value(&c->words->completion, c->ticket, CU_STREAM_WAIT_VALUE_EQ),
      op_write_value(&c->words->completion, 0)};
  struct rondo_cuda_scope scope;
  CUgraph graph = NULL;
  CUresult result = rondo_cuda_enter(device, &scope);
  if (result != CUDA_SUCCESS) {
    if (parts & RONDO_STREAM_ASK)
      c->drop(c->arg);
    return stream_refuse(result, "cuCtxPushCurrent", why);
  }
  int status = stream_find_graph(device, stream, &graph, why);
  if (status == RONDO_SUCCESS && !graph) {
    (void)snprintf(why, RONDO_WHY_BYTES, "the capture of the stream has ended");
    status = RONDO_ERR_INVALID;
  }
  if (parts & RONDO_STREAM_ASK)
    status = capture_own(device, graph, c, status, why);
  if (status == RONDO_SUCCESS)
    status = stream_enqueue(device, stream, values, parts, why);
  rondo_cuda_leave(&scope);
  return status;
}
