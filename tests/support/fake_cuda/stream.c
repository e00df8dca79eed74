// Streams, events and hardware queues of the fake driver.
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/fake_cuda/internal.h"

#define SPIN_LOOKS 64 // at a value that is awaited, before looking less often
#define LOOK_PAUSE_NS 20000
#define SMALL_BYTES 512 // of a copy whose source may change under it

// ----------------------------------------------------------------- operations --

struct fake_op *fake_op_new(enum fake_kind kind, CUstream stream) {
  struct fake_op *op = calloc(1, sizeof *op);
  if (!op)
    abort();
  op->kind = kind;
  op->stream = stream;
  return op;
}

void fake_event_drop(CUevent event) {
  if (--event->references == 0)
    free(event);
}

void fake_op_free(struct fake_op *op) {
  if (op->event)
    fake_event_drop(op->event);
  if (op->exec)
    fake_exec_ended(op->exec);
  free(op->owned);
  free(op);
}

static void stream_forget(CUstream stream) {
  if (!stream->is_destroyed || stream->head)
    return;
  CUstream *at = &stream->ctx->streams;
  while (*at != stream)
    at = &(*at)->next;
  *at = stream->next;
  free(stream);
}

void fake_op_ended(struct fake_op *op) {
  CUstream stream = op->stream;
  stream->head = op->next_in_stream;
  if (!stream->head)
    stream->tail = NULL;
  fake_op_free(op);
  stream_forget(stream);
  pthread_cond_broadcast(&fake.changed);
}

// ------------------------------------------------------------------ executing --

static uint64_t value_at(CUdeviceptr address, int is_wide) {
  if (fake.options.script)
    return fake_scripted_value((const void *)(uintptr_t)address, is_wide ? 8 : 4);
  if (is_wide)
    return __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_SEQ_CST);
  return __atomic_load_n((const uint32_t *)(uintptr_t)address, __ATOMIC_SEQ_CST);
}

static int is_awaited_value(const CUstreamBatchMemOpParams *p, int is_wide) {
  uint64_t value = value_at(p->waitValue.address, is_wide);
  uint64_t wanted = is_wide ? p->waitValue.value64 : p->waitValue.value;
  switch (p->waitValue.flags & 3u) {
  case CU_STREAM_WAIT_VALUE_GEQ:
    return is_wide ? (int64_t)(value - wanted) >= 0
                   : (int32_t)((uint32_t)value - (uint32_t)wanted) >= 0;
  case CU_STREAM_WAIT_VALUE_EQ:
    return value == wanted;
  case CU_STREAM_WAIT_VALUE_AND:
    return (value & wanted) != 0;
  default:
    return ~(value | wanted) << (is_wide ? 0 : 32) != 0;
  }
}

static void op_set_waiting(struct fake_op *op, uint32_t is_waiting) {
  pthread_mutex_lock(&fake.lock);
  op->is_waiting = is_waiting;
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.lock);
}

// The thread that writes the value may need this core.
static void await_value(struct fake_op *op, const CUstreamBatchMemOpParams *p, int is_wide) {
  const struct timespec pause = {0, LOOK_PAUSE_NS};
  for (uint32_t looks = 0; !is_awaited_value(p, is_wide); looks++) {
    if (looks == SPIN_LOOKS)
      op_set_waiting(op, 1);
    if (looks < SPIN_LOOKS)
      sched_yield();
    else
      nanosleep(&pause, NULL);
  }
  op_set_waiting(op, 0);
}

static void write_value(CUdeviceptr to, uint64_t value, int is_wide) {
  if (fake.options.script)
    fake_scripted_set_value((void *)(uintptr_t)to, value, is_wide ? 8 : 4);
  else if (is_wide)
    __atomic_store_n((uint64_t *)(uintptr_t)to, value, __ATOMIC_SEQ_CST);
  else
    __atomic_store_n((uint32_t *)(uintptr_t)to, (uint32_t)value, __ATOMIC_SEQ_CST);
}

static void execute_value(struct fake_op *op, const CUstreamBatchMemOpParams *p) {
  CUdeviceptr to = p->writeValue.address;
  switch (p->operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    await_value(op, p, 0);
    break;
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    await_value(op, p, 1);
    break;
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    write_value(to, p->writeValue.value, 0);
    break;
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    write_value(to, p->writeValue.value64, 1);
    break;
  default:
    break; // barriers: every write here is one
  }
}

static void record_event(const struct fake_op *op) {
  pthread_mutex_lock(&fake.lock);
  op->event->done = op->number;
  pthread_mutex_unlock(&fake.lock);
}

static void copy_scripted(void *dst, const void *src, size_t bytes) {
  void *between = malloc(bytes + 1);
  if (!between)
    abort();
  fake_scripted_read(between, src, bytes);
  fake_scripted_write(dst, between, bytes);
  free(between);
}

static void fill(void *dst, int value, size_t bytes) {
  void *values = malloc(bytes + 1);
  if (!values)
    abort();
  memset(values, value, bytes);
  fake_scripted_write(dst, values, bytes);
  free(values);
}

// A kernel may work on small data meanwhile, and another copy may write the same, so they are
// copied word by word, as a device does.
static void copy(void *dst, const void *src, size_t bytes) {
  if (fake.options.script) {
    copy_scripted(dst, src, bytes);
    return;
  }
  uint64_t words[SMALL_BYTES / sizeof(uint64_t)];
  int is_of_words = ((uintptr_t)src | (uintptr_t)dst | bytes) % sizeof words[0] == 0;
  if (!is_of_words || bytes > sizeof words) {
    memmove(dst, src, bytes);
    return;
  }
  for (size_t i = 0; i < bytes / sizeof words[0]; i++)
    words[i] = __atomic_load_n((const uint64_t *)src + i, __ATOMIC_RELAXED);
  for (size_t i = 0; i < bytes / sizeof words[0]; i++)
    __atomic_store_n((uint64_t *)dst + i, words[i], __ATOMIC_RELAXED);
}

void fake_execute(struct fake_op *op) {
  switch (op->kind) {
  case FAKE_COPY:
    copy(op->dst, op->src, op->bytes);
    break;
  case FAKE_FILL:
    fill(op->dst, (int)op->value, op->bytes);
    break;
  case FAKE_VALUES:
    for (uint32_t i = 0; i < op->count; i++)
      execute_value(op, &op->values[i]);
    break;
  case FAKE_RECORD:
    record_event(op);
    break;
  case FAKE_HOST:
    op->host(op->arg);
    break;
  case FAKE_GRAPH:
    fake_exec_run(op->exec);
    break;
  default: // a wait for an event is over when the operation is ready
    break;
  }
}

// The legacy stream and the streams that are not non-blocking wait for what was enqueued to the
// others before.
static int is_held_up(const struct fake_op *op) {
  const struct CUctx_st *ctx = op->stream->ctx;
  const struct CUstream_st *legacy = &ctx->legacy;
  if (op->stream != legacy)
    return !(op->stream->flags & CU_STREAM_NON_BLOCKING) && legacy->head &&
           legacy->head->number < op->number;
  for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
    if (s != legacy && !(s->flags & CU_STREAM_NON_BLOCKING) && s->head &&
        s->head->number < op->number)
      return 1;
  return 0;
}

static int is_ready(const struct fake_op *op) {
  if (op->stream->head != op || is_held_up(op))
    return 0;
  if (op->kind == FAKE_AWAIT)
    return op->event->done >= op->value;
  return op->kind != FAKE_GRAPH || !op->exec->is_busy;
}

static void *queue_main(void *arg) {
  struct fake_queue *q = arg;
  pthread_mutex_lock(&fake.lock);
  for (;;) {
    while (!q->head || !is_ready(q->head))
      pthread_cond_wait(&fake.changed, &fake.lock);
    struct fake_op *op = q->head;
    q->head = op->next_in_queue;
    if (!q->head)
      q->tail = NULL;
    if (op->exec)
      op->exec->is_busy = 1;
    int is_kernel = op->kind == FAKE_KERNEL; // it may have ended before it can be asked again
    pthread_mutex_unlock(&fake.lock);
    if (is_kernel)
      fake_kernel_start(op);
    else
      fake_execute(op);
    pthread_mutex_lock(&fake.lock);
    if (!is_kernel)
      fake_op_ended(op);
  }
  return NULL;
}

CUresult fake_enqueue(struct fake_op *op) {
  CUstream s = op->stream;
  struct fake_queue *q = s->queue;
  if (s->capture)
    return fake_capture_add(s->capture, op);
  if (!q->is_started && pthread_create(&q->thread, NULL, queue_main, q))
    abort();
  q->is_started = 1;
  op->number = ++fake.numbers;
  if (op->kind == FAKE_RECORD)
    op->event->recorded = op->number;
  if (s->tail)
    s->tail->next_in_stream = op;
  else
    s->head = op;
  s->tail = op;
  if (q->tail)
    q->tail->next_in_queue = op;
  else
    q->head = op;
  q->tail = op;
  pthread_cond_broadcast(&fake.changed);
  return CUDA_SUCCESS;
}

// -------------------------------------------------------------------- waiting --

void fake_await_op(CUstream stream, uint64_t number) {
  while (stream->head && stream->head->number <= number)
    pthread_cond_wait(&fake.changed, &fake.lock);
}

static int has_before(const struct CUctx_st *ctx, uint64_t number) {
  for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
    if (s->head && s->head->number <= number)
      return 1;
  return 0;
}

void fake_await_streams(CUcontext ctx) {
  uint64_t number = fake.numbers;
  while (has_before(ctx, number))
    pthread_cond_wait(&fake.changed, &fake.lock);
}

static int graph_runs_kernel(const struct CUgraphExec_st *exec) {
  for (const struct fake_op *op = exec->nodes; op; op = op->next_in_stream)
    if (op->left)
      return 1;
  return 0;
}

// The first operation of a stream stands, and no kernel of the stream can run.
static int op_is_stuck(const struct fake_op *op) {
  if (op->kind == FAKE_GRAPH)
    return !graph_runs_kernel(op->exec);
  return op->is_waiting || (op->kind == FAKE_AWAIT && op->event->done < op->value);
}

static int has_kernel_before(const struct CUctx_st *ctx, uint64_t number) {
  for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
    if (s->head && s->head->number <= number && !op_is_stuck(s->head))
      return 1;
  return 0;
}

void fake_await_context(CUcontext ctx) {
  uint64_t number = fake.numbers;
  while (ctx->is_locked)
    pthread_cond_wait(&fake.changed, &fake.lock);
  ctx->is_locked = fake.options.holds_lock ? FAKE_LOCKED : FAKE_UNLOCKED;
  while (fake.options.kernels_only ? has_kernel_before(ctx, number) : has_before(ctx, number))
    pthread_cond_wait(&fake.changed, &fake.lock);
  if (ctx->is_locked)
    pthread_cond_broadcast(&fake.changed);
  ctx->is_locked = FAKE_UNLOCKED;
}

// -------------------------------------------------------------------- streams --

void fake_context_init(CUcontext ctx, uint32_t device) {
  CUstream s = ctx->streams;
  while (s && s != &ctx->legacy) {
    CUstream next = s->next;
    free(s);
    s = next;
  }
  ctx->device = device;
  ctx->retained = ctx->peers = 0;
  ctx->stream_count = 1; // the legacy stream has the first queue
  ctx->streams = &ctx->legacy;
  memset(&ctx->legacy, 0, sizeof ctx->legacy);
  ctx->legacy.ctx = ctx;
  ctx->legacy.queue = &ctx->queues[0];
}

CUstream fake_stream(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY)
    return fake_current() ? &fake_current()->legacy : NULL;
  for (uint32_t d = 0; d < fake.options.devices; d++)
    for (CUstream s = fake.contexts[d].streams; s; s = s->next)
      if (s == handle && !s->is_destroyed)
        return s;
  return NULL;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  CUcontext ctx = fake_current();
  CUstream s = calloc(1, sizeof *s);
  if (!s)
    abort();
  s->ctx = ctx;
  s->flags = flags;
  s->priority = priority;
  s->queue = &ctx->queues[ctx->stream_count++ % fake.options.connections];
  s->next = ctx->streams;
  ctx->streams = s;
  fake.live.streams++;
  *stream = s;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  if (!s || s == &s->ctx->legacy)
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  s->is_destroyed = 1;
  fake.live.streams--;
  stream_forget(s);
  return fake_leave(CUDA_SUCCESS);
}

// Calls that are not allowed on a stream that is being captured.
static CUresult refuse_capture(CUstream s) {
  if (!s->capture)
    return CUDA_SUCCESS;
  s->capture->is_invalid = 1;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamQuery(CUstream stream) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  CUresult result = s ? refuse_capture(s) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS && s->head)
    result = CUDA_ERROR_NOT_READY;
  return fake_leave(result);
}

CUresult cuStreamSynchronize(CUstream stream) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  CUresult result = s ? refuse_capture(s) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS)
    fake_await_op(s, fake.numbers);
  return fake_leave(result);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  if (!s)
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  *ctx = s->ctx;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *arg) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  if (!s)
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  struct fake_op *op = fake_op_new(FAKE_HOST, s);
  op->host = function;
  op->arg = arg;
  return fake_leave(fake_enqueue(op));
}

// ----------------------------------------------------- stream memory operations --

// Wide values need aligned addresses in memory that the device knows.
static int is_value_op(const CUstreamBatchMemOpParams *p) {
  uint32_t bytes;
  switch (p->operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    bytes = 4;
    break;
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    bytes = 8;
    break;
  default:
    return p->operation == CU_STREAM_MEM_OP_BARRIER;
  }
  uintptr_t address = (uintptr_t)p->waitValue.address;
  return address % bytes == 0 && fake_range_of(address, bytes) != NULL;
}

static CUresult enqueue_values(CUstream stream, uint32_t count,
                               const CUstreamBatchMemOpParams *params) {
  CUstream s = fake_stream(stream);
  if (!s)
    return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0 || count > 256)
    return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < count; i++)
    if (!is_value_op(&params[i]))
      return CUDA_ERROR_INVALID_VALUE;
  struct fake_op *op = fake_op_new(FAKE_VALUES, s);
  op->owned = malloc(count * sizeof *params);
  if (!op->owned)
    abort();
  memcpy(op->owned, params, count * sizeof *params);
  op->values = op->owned;
  op->count = count;
  return fake_enqueue(op);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params,
                            unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  return fake_leave(flags ? CUDA_ERROR_INVALID_VALUE : enqueue_values(stream, count, params));
}

static CUresult enqueue_value(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address,
                              uint64_t value, unsigned int flags) {
  CUstreamBatchMemOpParams p;
  memset(&p, 0, sizeof p);
  p.operation = type;
  p.waitValue.address = address; // reads and writes have the same layout
  p.waitValue.value64 = value;
  p.waitValue.flags = flags;
  return enqueue_values(stream, 1, &p);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  return fake_leave(enqueue_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags));
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  return fake_leave(enqueue_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  return fake_leave(enqueue_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags));
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  return fake_leave(enqueue_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags));
}

// --------------------------------------------------------------------- events --

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  (void)flags;
  CUevent e = calloc(1, sizeof *e);
  if (!e)
    abort();
  e->references = 1;
  fake.live.events++;
  *event = e;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy(CUevent event) {
  FAKE_ENTER(FAKE_STARTED);
  if (event->is_destroyed)
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  event->is_destroyed = 1;
  fake.live.events--;
  fake_event_drop(event);
  return fake_leave(CUDA_SUCCESS);
}

static CUresult enqueue_event(CUstream stream, CUevent event, enum fake_kind kind) {
  CUstream s = fake_stream(stream);
  if (!s)
    return CUDA_ERROR_INVALID_HANDLE;
  int taken = 0;
  CUresult result = fake_capture_event(s, event, kind, &taken);
  if (taken || result != CUDA_SUCCESS)
    return result;
  struct fake_op *op = fake_op_new(kind, s);
  op->event = event;
  op->value = event->recorded;
  event->references++;
  return fake_enqueue(op);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED);
  return fake_leave(enqueue_event(stream, event, FAKE_RECORD));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  (void)flags;
  return fake_leave(enqueue_event(stream, event, FAKE_AWAIT));
}

CUresult cuEventQuery(CUevent event) {
  FAKE_ENTER(FAKE_STARTED | FAKE_UNSAFE);
  return fake_leave(event->done >= event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent event) {
  FAKE_ENTER(FAKE_STARTED | FAKE_UNSAFE);
  uint64_t number = event->recorded;
  while (event->done < number)
    pthread_cond_wait(&fake.changed, &fake.lock);
  return fake_leave(CUDA_SUCCESS);
}
