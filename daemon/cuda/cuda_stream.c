// Runs in stream order, by stream memory operations: these hold no multiprocessor and need no CPU
// thread.
//
// Before a stream waits for a run, a launch of the daemon for this run is enqueued in a launch
// stream, behind an event of the waiting stream. So the run needs no further call of the CUDA
// driver: while a stream waits, such a call could wait for that stream (docs/tour.md).
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
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

static int stream_enqueue(const struct rondo_cuda_device *device, CUstream stream,
                          CUstreamBatchMemOpParams *values, unsigned count, char *why) {
  CUresult result = device->api->stream_batch_mem_op(stream, count, values, 0);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : stream_refuse(result, "cuStreamBatchMemOp", why);
}

// -------------------------------------------------------------- launch streams --

static bool launch_stream_try_take(struct rondo_cuda_launch_stream *s) {
  return rondo_try_swap_seq_cst_u32(&s->is_taken, 0, 1);
}

static void launch_stream_release(struct rondo_cuda_launch_stream *s) {
  rondo_store_seq_cst_u32(&s->is_taken, 0);
}

// True if another stream of the application can use the launch stream. A launch that finds its
// block owned ends before its run does, and the owner knows of the run by the tie alone.
static bool launch_stream_is_idle(const struct rondo_cuda_daemon *d,
                                  const struct rondo_cuda_launch_stream *s) {
  return d->device->api->stream_query(s->handle) == CUDA_SUCCESS &&
         (!s->words || rondo_load_acquire_u64(&s->words->completion) >= s->ticket);
}

// Takes the launch stream that belongs to `stream`, else an idle one. Returns null if there is
// none. Called in the device's context.
static struct rondo_cuda_launch_stream *launch_stream_take(struct rondo_cuda_daemon *d,
                                                           CUstream stream) {
  struct rondo_cuda_launch_stream *const end = d->launch_streams + RONDO_CUDA_TIES;
  for (struct rondo_cuda_launch_stream *s = d->launch_streams; s < end; s++) {
    if (!launch_stream_try_take(s))
      continue;
    if (s->is_bound && s->stream == stream)
      return s;
    launch_stream_release(s);
  }
  for (struct rondo_cuda_launch_stream *s = d->launch_streams; s < end; s++) {
    if (!launch_stream_try_take(s))
      continue;
    if (launch_stream_is_idle(d, s)) {
      s->is_bound = true;
      s->stream = stream;
      return s;
    }
    launch_stream_release(s);
  }
  return NULL;
}

// Enqueues a launch that begins when the stream has done what it has been given so far.
static CUresult launch_stream_launch(const struct rondo_cuda_daemon *d,
                                     struct rondo_cuda_launch_stream *s,
                                     const struct rondo_stream_words *words, uint64_t ticket) {
  const struct rondo_cuda_api *api = d->device->api;
  struct rondo_cuda_launch launch = d->launch;
  launch.words = (uint64_t)(uintptr_t)words;
  launch.ticket = ticket;
  launch.tie = (uint32_t)(s - d->launch_streams);
  CUresult result = api->event_record(s->reached, s->stream);
  if (result == CUDA_SUCCESS)
    result = api->stream_wait_event(s->handle, s->reached, 0);
  if (result == CUDA_SUCCESS)
    result = rondo_cuda_launch(d, s->handle, launch);
  if (result == CUDA_SUCCESS) {
    s->words = words;
    s->ticket = ticket;
  }
  return result;
}

// Enqueues a launch for a run that the stream is about to wait for, and that was submitted. Returns
// false if the launcher has to launch for it. Called in the device's context.
static bool daemon_try_launch_for(struct rondo_cuda_daemon *d, CUstream stream,
                                  const struct rondo_stream_words *words, uint64_t ticket) {
  // A blocking launch would return when the stream has reached the run.
  if (d->device->residency_ns || !rondo_cuda_can_stay(d->device))
    return false;
  rondo_fetch_add_seq_cst_u32(&d->enqueuing, 1);
  struct rondo_cuda_launch_stream *s =
      rondo_cuda_launcher_is_held(d->device) ? NULL : launch_stream_take(d, stream);
  bool has_launch = s && launch_stream_launch(d, s, words, ticket) == CUDA_SUCCESS;
  if (s)
    launch_stream_release(s);
  rondo_fetch_add_seq_cst_u32(&d->enqueuing, UINT32_MAX);
  return has_launch;
}

static void daemon_note_ask(struct rondo_cuda_daemon *d) {
  if (rondo_load_relaxed_u32(&d->base.tied_runs) == 0)
    rondo_store_relaxed_u32(&d->lacks_launch, 0);
  rondo_store_relaxed_u64(&d->asked_ns, rondo_now_ns());
  rondo_fetch_add_seq_cst_u32(&d->asking, 1);
}

// `has_launch`: the run has a launch.
static void daemon_note_wait(struct rondo_cuda_daemon *d, bool has_launch) {
  if (!has_launch)
    rondo_store_seq_cst_u32(&d->lacks_launch, 1);
  rondo_fetch_add_seq_cst_u32(&d->asking, UINT32_MAX);
}

static int stream_enqueue_ask(struct rondo_cuda_daemon *d, CUstream stream,
                              CUstreamBatchMemOpParams *ask, char *why) {
  int status = stream_check(d->device, stream, why);
  if (status == RONDO_SUCCESS)
    status = stream_enqueue(d->device, stream, ask, 1, why);
  if (status == RONDO_SUCCESS)
    daemon_note_ask(d);
  return status;
}

int rondo_cuda_enqueue(struct rondo_daemon *base, void *stream, struct rondo_stream_words *words,
                       uint64_t ticket, unsigned parts, char *why) {
  struct rondo_cuda_daemon *d = rondo_cuda_daemon_of(base);
  CUstreamBatchMemOpParams ask = op_write_value(&words->doorbell, ticket);
  CUstreamBatchMemOpParams wait[] = {
      op_wait_value(&words->completion, ticket, CU_STREAM_WAIT_VALUE_GEQ),
      op_write_value(&words->passed, ticket)};
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(d->device, &scope);
  int status = RONDO_SUCCESS;
  if (result != CUDA_SUCCESS)
    return stream_refuse(result, "cuCtxPushCurrent", why);
  if (parts & RONDO_STREAM_ASK)
    status = stream_enqueue_ask(d, stream, &ask, why);
  if (status == RONDO_SUCCESS && parts & RONDO_STREAM_WAIT) {
    bool has_launch = daemon_try_launch_for(d, stream, words, ticket);
    status = stream_enqueue(d->device, stream, wait, 2, why);
    daemon_note_wait(d, has_launch);
  }
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
  unsigned first = parts & RONDO_STREAM_ASK ? 0 : 1;
  unsigned end = parts & RONDO_STREAM_WAIT ? 3 : 1;
  if (status == RONDO_SUCCESS)
    status = stream_enqueue(device, stream, values + first, end - first, why);
  rondo_cuda_leave(&scope);
  return status;
}
