// Capture and replay of streams in the fake driver. A graph is made of chains, one for each stream
// that was captured; nodes that record an event and nodes that wait for one tie them together.
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/internal.h"

#define MAX_CHAINS 8u // beside each other in one graph

static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// -------------------------------------------------------------------- capture --

// A call that a capture does not allow: of any thread where the capture is global, of its own
// thread where it is local to it, and of none that has said that it knows.
static int forbids(const struct CUgraph_st *g) {
  if (g->mode == CU_STREAM_CAPTURE_MODE_RELAXED || mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return 0;
  if (pthread_equal(g->thread, pthread_self()))
    return 1;
  return g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

int fake_capture_forbids(void) {
  for (CUgraph g = fake.captures; g; g = g->next)
    if (forbids(g))
      return 1;
  return 0;
}

void fake_capture_invalidate(void) {
  for (CUgraph g = fake.captures; g; g = g->next)
    g->is_invalid |= forbids(g);
}

CUresult fake_capture_add(CUgraph graph, struct fake_op *op) {
  if (graph->is_invalid || op->kind == FAKE_GRAPH) {
    fake_op_free(op);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (graph->last)
    graph->last->next_in_stream = op;
  else
    graph->nodes = op;
  graph->last = op;
  op->node = ++graph->node_count;
  return CUDA_SUCCESS;
}

CUresult fake_capture_event(CUstream stream, CUevent event, enum fake_kind kind, int *taken) {
  CUgraph g = fake.captures;
  while (g && g->id != event->graph_id)
    g = g->next;
  *taken = stream->capture || (kind == FAKE_AWAIT && g);
  if (kind == FAKE_RECORD)
    event->graph_id = stream->capture ? stream->capture->id : 0;
  if (!*taken)
    return CUDA_SUCCESS;
  if (kind == FAKE_AWAIT && !stream->capture)
    stream->capture = g;
  if (kind == FAKE_AWAIT && stream->capture != g) {
    stream->capture->is_invalid = 1;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  struct fake_op *op = fake_op_new(kind, stream);
  op->value = event->node;
  CUresult result = fake_capture_add(stream->capture, op);
  if (kind == FAKE_RECORD)
    event->node = stream->capture->node_count;
  return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *exchanged) {
  FAKE_ENTER(FAKE_STARTED);
  CUstreamCaptureMode before = mode;
  mode = *exchanged;
  *exchanged = before;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode capture_mode) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  if (!s || s == &s->ctx->legacy)
    return fake_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (s->capture)
    return fake_leave(CUDA_ERROR_ILLEGAL_STATE);
  CUgraph g = calloc(1, sizeof *g);
  if (!g)
    abort();
  g->stream = s;
  g->id = ++fake.graph_ids;
  g->mode = capture_mode;
  g->thread = pthread_self();
  g->next = fake.captures;
  fake.captures = g;
  s->capture = g;
  fake.live.graphs++;
  return fake_leave(CUDA_SUCCESS);
}

static void held_drop(struct fake_held *held) {
  while (held) {
    struct fake_held *h = held;
    held = h->next;
    h->object->references -= h->count;
    if (h->object->references == 0) {
      h->object->destroy(h->object->ptr);
      fake.live.user_objects--;
      free(h->object);
    }
    free(h);
  }
}

static void graph_free(CUgraph graph) {
  while (graph->nodes) {
    struct fake_op *op = graph->nodes;
    graph->nodes = op->next_in_stream;
    fake_op_free(op);
  }
  held_drop(graph->held);
  free(graph);
  fake.live.graphs--;
}

// 1 if the last that was captured from the stream is awaited in another one of the graph.
static int is_joined(const struct CUgraph_st *g, CUstream stream) {
  const struct fake_op *last = NULL;
  for (const struct fake_op *op = g->nodes; op; op = op->next_in_stream)
    if (op->stream == stream)
      last = op;
  for (const struct fake_op *op = g->nodes; op && last && last->kind == FAKE_RECORD;
       op = op->next_in_stream)
    if (op->kind == FAKE_AWAIT && op->value == last->node && op->stream != stream)
      return 1;
  return 0;
}

// Ends the capture of all streams that were taken in. Returns 1 if each has been joined again.
static int let_streams_go(const struct CUgraph_st *g) {
  int all = 1;
  for (uint32_t d = 0; d < RONDO_FAKE_MAX_DEVICES; d++)
    for (CUstream s = fake.contexts[d].streams; s; s = s->next) {
      if (s->capture != g)
        continue;
      all &= s == g->stream || is_joined(g, s);
      s->capture = NULL;
    }
  return all;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  *graph = NULL;
  if (!s || !s->capture)
    return fake_leave(CUDA_ERROR_ILLEGAL_STATE);
  CUgraph g = s->capture;
  if (g->stream != s)
    return fake_leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CUgraph *at = &fake.captures;
  while (*at != g)
    at = &(*at)->next;
  *at = g->next;
  int are_joined = let_streams_go(g);
  CUresult result = g->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                    : are_joined  ? CUDA_SUCCESS
                                  : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  g->stream = NULL;
  if (result != CUDA_SUCCESS) {
    graph_free(g);
    return fake_leave(result);
  }
  *graph = g;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  return cuStreamGetCaptureInfo_v3(stream, status, NULL, NULL, NULL, NULL, NULL);
}

// NOLINTNEXTLINE(readability-function-size): the signature of cuda.h
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies,
                                   const CUgraphEdgeData **edges, size_t *dependency_count) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  if (!s || dependencies || edges || dependency_count)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  CUgraph g = s->capture;
  if (!g)
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
  else
    *status =
        g->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (g && id)
    *id = g->id;
  if (g && graph)
    *graph = g;
  return fake_leave(CUDA_SUCCESS);
}

// --------------------------------------------------------------- user objects --

CUresult cuUserObjectCreate(CUuserObject *object, void *ptr, CUhostFn destroy,
                            unsigned int references, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  if (!destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  CUuserObject o = calloc(1, sizeof *o);
  if (!o)
    abort();
  *o = (struct CUuserObject_st){ptr, destroy, references};
  fake.live.user_objects++;
  *object = o;
  return fake_leave(CUDA_SUCCESS);
}

static struct fake_held *hold(CUuserObject object, uint32_t count, struct fake_held *next) {
  struct fake_held *h = calloc(1, sizeof *h);
  if (!h)
    abort();
  *h = (struct fake_held){object, count, next};
  return h;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  FAKE_ENTER(FAKE_STARTED);
  held_drop(hold(object, count, NULL));
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED);
  graph->held = hold(object, count, graph->held);
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
    object->references += count;
  return fake_leave(CUDA_SUCCESS);
}

// ---------------------------------------------------------------------- graphs --

CUresult cuGraphDestroy(CUgraph graph) {
  FAKE_ENTER(FAKE_STARTED);
  graph_free(graph);
  return fake_leave(CUDA_SUCCESS);
}

static struct fake_op *node_copy(const struct fake_op *node) {
  struct fake_op *op = fake_op_new(node->kind, node->stream);
  size_t bytes = node->kind == FAKE_VALUES ? node->count * sizeof *node->values : node->bytes;
  *op = *node;
  op->next_in_stream = NULL;
  if (!node->owned)
    return op;
  op->owned = malloc(bytes + 1);
  if (!op->owned)
    abort();
  memcpy(op->owned, node->owned, bytes);
  op->values = node->values ? op->owned : NULL;
  return op;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_UNSAFE);
  if (flags || graph->stream)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  CUgraphExec e = calloc(1, sizeof *e);
  if (!e)
    abort();
  struct fake_op **at = &e->nodes;
  for (const struct fake_op *op = graph->nodes; op; op = op->next_in_stream) {
    *at = node_copy(op);
    at = &(*at)->next_in_stream;
  }
  for (const struct fake_held *h = graph->held; h; h = h->next) {
    e->held = hold(h->object, h->count, e->held);
    h->object->references += h->count;
  }
  fake.live.execs++;
  *exec = e;
  return fake_leave(CUDA_SUCCESS);
}

static void exec_free(CUgraphExec exec) {
  while (exec->nodes) {
    struct fake_op *op = exec->nodes;
    exec->nodes = op->next_in_stream;
    fake_op_free(op);
  }
  held_drop(exec->held);
  free(exec);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  FAKE_ENTER(FAKE_STARTED);
  exec->is_destroyed = 1;
  fake.live.execs--;
  if (!exec->in_flight)
    exec_free(exec);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED);
  CUstream s = fake_stream(stream);
  if (!s)
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  struct fake_op *op = fake_op_new(FAKE_GRAPH, s);
  op->exec = exec;
  exec->in_flight++;
  return fake_leave(fake_enqueue(op));
}

void fake_exec_ended(CUgraphExec exec) {
  exec->is_busy = 0;
  if (--exec->in_flight == 0 && exec->is_destroyed)
    exec_free(exec);
}

// One stream's part of a graph that is replayed.
struct chain {
  CUgraphExec exec;
  CUstream stream;
  pthread_t thread;
};

// Between the chains of one replay.
static void meet(const struct chain *c, struct fake_op *op) {
  pthread_mutex_lock(&fake.lock);
  if (op->kind == FAKE_RECORD) {
    op->is_done = 1;
    pthread_cond_broadcast(&fake.changed);
  } else {
    const struct fake_op *awaited = c->exec->nodes;
    while (awaited && awaited->node != op->value)
      awaited = awaited->next_in_stream;
    if (!awaited)
      abort(); // it was captured in this graph
    while (!awaited->is_done)
      pthread_cond_wait(&fake.changed, &fake.lock);
  }
  pthread_mutex_unlock(&fake.lock);
}

static void run_kernel(struct fake_op *op) {
  fake_kernel_start(op);
  pthread_mutex_lock(&fake.lock);
  while (op->left)
    pthread_cond_wait(&fake.changed, &fake.lock);
  pthread_mutex_unlock(&fake.lock);
}

static void *chain_main(void *arg) {
  const struct chain *c = arg;
  for (struct fake_op *op = c->exec->nodes; op; op = op->next_in_stream) {
    if (op->stream != c->stream)
      continue;
    if (op->kind == FAKE_RECORD || op->kind == FAKE_AWAIT)
      meet(c, op);
    else if (op->kind == FAKE_KERNEL)
      run_kernel(op);
    else
      fake_execute(op);
  }
  return NULL;
}

void fake_exec_run(CUgraphExec exec) {
  struct chain chains[MAX_CHAINS];
  uint32_t count = 0;
  for (struct fake_op *op = exec->nodes; op; op = op->next_in_stream) {
    uint32_t i = 0;
    while (i < count && chains[i].stream != op->stream)
      i++;
    if (i == MAX_CHAINS)
      abort();
    if (i == count)
      chains[count++] = (struct chain){.exec = exec, .stream = op->stream};
    op->is_done = 0;
  }
  for (uint32_t i = 1; i < count; i++)
    if (pthread_create(&chains[i].thread, NULL, chain_main, &chains[i]))
      abort();
  if (count)
    chain_main(&chains[0]);
  for (uint32_t i = 1; i < count; i++)
    pthread_join(chains[i].thread, NULL);
}
