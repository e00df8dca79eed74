// The stand-in for the CUDA driver: order within streams and between them, which calls wait for
// which work, capture and replay, planted failures, and misuse that a GPU would refuse.
#include <pthread.h>
#include <string.h>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/named.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

static CUcontext ctx;
static CUmodule module;

// A kernel that waits for word 0 to become 1, so that a test says when it ends, then counts up
// the word that it is told.
struct held_param {
  uint32_t *gate;
  uint32_t *count;
};

static void held_kernel(const void *param, uint32_t block, uint32_t block_count) {
  const struct held_param *p = param;
  (void)block;
  (void)block_count;
  while (!__atomic_load_n(p->gate, __ATOMIC_ACQUIRE))
    sched_yield();
  __atomic_fetch_add(p->count, 1, __ATOMIC_ACQ_REL);
}

static CUfunction held;
static uint32_t *words; // of pinned memory, zeroed
static CUdeviceptr device;

static void open_gate(uint32_t gate) { __atomic_store_n(&words[gate], 1, __ATOMIC_RELEASE); }

static int begin_with(const struct rondo_fake_options *options) {
  rondo_fake_reset(options);
  rondo_fake_register("held", held_kernel, sizeof(struct held_param));
  void *memory;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
      cuModuleLoadData(&module, "image") || cuModuleGetFunction(&held, module, "held") ||
      cuFuncLoad(held) || cuMemHostAlloc(&memory, 4096, 0) || cuMemAlloc(&device, 4096))
    return -1;
  words = memory;
  memset(words, 0, 4096);
  return 0;
}

static int begin(void **state) {
  (void)state;
  return begin_with(NULL);
}

static int end(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 8; i++)
    open_gate(i); // a test that failed may have left a kernel behind
  if (cuMemFreeHost(words) || cuMemFree(device) || cuModuleUnload(module) ||
      cuDevicePrimaryCtxRelease(0))
    return -1;
  (void)cuCtxSetCurrent(NULL);
  return rondo_fake_live_count() != 0;
}

static CUstream stream_new(uint32_t flags) {
  CUstream s;
  OK(cuStreamCreateWithPriority(&s, flags, 0));
  return s;
}

static void launch(CUstream s, uint32_t gate, uint32_t count) {
  struct held_param p = {&words[gate], &words[count]};
  void *params[] = {&p};
  OK(cuLaunchKernel(held, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static uint32_t word(uint32_t at) { return __atomic_load_n(&words[at], __ATOMIC_ACQUIRE); }

static CUdeviceptr address_of(uint32_t at) { return (CUdeviceptr)(uintptr_t)&words[at]; }

// ---------------------------------------------------------------------- order --

static void a_stream_keeps_its_order(void **state) {
  (void)state;
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  OK(cuStreamWaitValue32(s, address_of(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (uint32_t i = 1; i <= 50; i++)
    OK(cuStreamWriteValue32(s, address_of(1), i, 0));
  assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
  assert_int_equal(word(1), 0);
  open_gate(0);
  OK(cuStreamSynchronize(s));
  assert_int_equal(word(1), 50);
  OK(cuStreamDestroy(s));
}

static void a_kernel_holds_its_stream_and_no_other(void **state) {
  (void)state;
  CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
  CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
  launch(a, 0, 1);
  OK(cuStreamWriteValue32(a, address_of(2), 7, 0));
  OK(cuStreamWriteValue32(b, address_of(3), 7, 0));
  OK(cuStreamSynchronize(b));
  assert_int_equal(word(3), 7);
  assert_int_equal(word(2), 0);
  assert_int_equal(rondo_fake_running(), 1);
  open_gate(0);
  OK(cuStreamSynchronize(a));
  assert_int_equal(word(1), 1);
  assert_int_equal(word(2), 7);
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

static void the_default_stream_waits_for_blocking_streams_only(void **state) {
  (void)state;
  CUstream blocking = stream_new(CU_STREAM_DEFAULT);
  CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
  launch(other, 0, 1);
  OK(cuMemsetD8(device, 3, 64)); // on the default stream, while `other` runs
  launch(blocking, 2, 3);
  OK(cuMemsetD8Async(device, 4, 64, NULL));
  assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  open_gate(2);
  OK(cuStreamSynchronize(NULL));
  assert_int_equal(word(3), 1);
  assert_int_equal(word(1), 0);
  open_gate(0);
  OK(cuCtxSynchronize());
  OK(cuStreamDestroy(blocking));
  OK(cuStreamDestroy(other));
}

static void blocking_streams_wait_for_the_default_stream(void **state) {
  (void)state;
  CUstream blocking = stream_new(CU_STREAM_DEFAULT);
  launch(NULL, 0, 1);
  OK(cuStreamWriteValue32(blocking, address_of(2), 9, 0));
  assert_int_equal(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
  assert_int_equal(word(2), 0);
  open_gate(0);
  OK(cuStreamSynchronize(blocking));
  assert_int_equal(word(2), 9);
  OK(cuStreamDestroy(blocking));
}

static void events_order_streams(void **state) {
  (void)state;
  CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
  CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventQuery(event)); // never recorded
  launch(a, 0, 1);
  OK(cuEventRecord(event, a));
  OK(cuStreamWaitEvent(b, event, 0));
  OK(cuStreamWriteValue32(b, address_of(2), 5, 0));
  assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  assert_int_equal(word(2), 0);
  open_gate(0);
  OK(cuEventSynchronize(event));
  OK(cuStreamSynchronize(b));
  assert_int_equal(word(2), 5);
  OK(cuEventDestroy(event));
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

// With one hardware queue, what waits holds up what was enqueued to other streams after it, but
// a kernel holds up nothing until its own stream goes on.
static void streams_that_share_a_queue_hold_each_other_up(void **state) {
  (void)state;
  struct rondo_fake_options o = rondo_fake_defaults();
  OK(cuMemFreeHost(words));
  OK(cuMemFree(device));
  OK(cuModuleUnload(module));
  o.connections = 1;
  assert_int_equal(begin_with(&o), 0);
  CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
  CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
  launch(a, 0, 1);
  OK(cuStreamWriteValue32(b, address_of(2), 1, 0));
  OK(cuStreamSynchronize(b));
  OK(cuStreamWaitValue32(a, address_of(3), 1, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cuStreamWriteValue32(b, address_of(2), 2, 0));
  open_gate(3); // the kernel in `a` still holds the queue
  assert_int_equal(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
  assert_int_equal(word(2), 1);
  open_gate(0);
  OK(cuStreamSynchronize(b));
  assert_int_equal(word(2), 2);
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

// ------------------------------------------------------- which calls wait ------

struct caller {
  CUresult (*call)(void);
  pthread_t thread;
  uint32_t state; // 1: called, 2: returned
  CUresult result;
};

static void *caller_main(void *arg) {
  struct caller *c = arg;
  if (cuCtxSetCurrent(ctx))
    return NULL;
  __atomic_store_n(&c->state, 1, __ATOMIC_RELEASE);
  c->result = c->call();
  __atomic_store_n(&c->state, 2, __ATOMIC_RELEASE);
  (void)cuCtxSetCurrent(NULL);
  return NULL;
}

static CUdeviceptr spare;
static void *spare_host;
static CUresult call_free(void) { return cuMemFree(spare); }
static CUresult call_alloc(void) { return cuMemAlloc(&spare, 64); }
static CUresult call_host_alloc(void) { return cuMemHostAlloc(&spare_host, 64, 0); }
static CUresult call_host_free(void) { return cuMemFreeHost(spare_host); }

// The call returns when a kernel that runs on a non-blocking stream has ended, and not before.
static void waits_for_kernel(CUresult (*call)(void), const char *entry) {
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  struct caller c = {.call = call};
  words[0] = words[1] = 0;
  launch(s, 0, 1);
  uint64_t before = rondo_fake_calls(entry);
  assert_int_equal(pthread_create(&c.thread, NULL, caller_main, &c), 0);
  while (rondo_fake_calls(entry) == before)
    sched_yield();
  for (int i = 0; i < 100; i++)
    sched_yield();
  assert_int_equal(__atomic_load_n(&c.state, __ATOMIC_ACQUIRE), 1);
  assert_int_equal(rondo_fake_running(), 1);
  open_gate(0);
  assert_int_equal(pthread_join(c.thread, NULL), 0);
  assert_int_equal(c.result, CUDA_SUCCESS);
  assert_int_equal(word(1), 1);
  OK(cuStreamDestroy(s));
}

static void whole_device_calls_wait_for_kernels_of_any_stream(void **state) {
  (void)state;
  waits_for_kernel(cuCtxSynchronize, "cuCtxSynchronize");
  waits_for_kernel(call_alloc, "cuMemAlloc");
  waits_for_kernel(call_free, "cuMemFree");
  waits_for_kernel(call_host_alloc, "cuMemHostAlloc");
  waits_for_kernel(call_host_free, "cuMemFreeHost");
}

static CUresult call_lazy_launch(void) {
  CUfunction other;
  struct held_param p = {&words[2], &words[3]};
  void *params[] = {&p};
  CUresult result = cuModuleGetFunction(&other, module, "held");
  open_gate(2);
  return result ? result : cuLaunchKernel(other, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
}

static void the_first_launch_of_a_lazy_kernel_waits(void **state) {
  (void)state;
  waits_for_kernel(call_lazy_launch, "cuLaunchKernel");
  OK(cuCtxSynchronize());
  assert_int_equal(word(3), 1);
}

static void a_blocking_launch_returns_when_the_kernel_has_ended(void **state) {
  (void)state;
  struct rondo_fake_options o = rondo_fake_defaults();
  OK(cuMemFreeHost(words));
  OK(cuMemFree(device));
  OK(cuModuleUnload(module));
  o.launch_blocking = 1;
  assert_int_equal(begin_with(&o), 0);
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  open_gate(0);
  launch(s, 0, 1);
  assert_int_equal(word(1), 1);
  assert_int_equal(rondo_fake_running(), 0);
  OK(cuStreamDestroy(s));
}

static void kernels_beyond_the_device_wait_for_a_place(void **state) {
  (void)state;
  struct rondo_fake_options o = rondo_fake_defaults();
  OK(cuMemFreeHost(words));
  OK(cuMemFree(device));
  OK(cuModuleUnload(module));
  o.resident_blocks = 1;
  assert_int_equal(begin_with(&o), 0);
  CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
  CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
  launch(a, 0, 1);
  launch(b, 0, 1);
  assert_int_equal(rondo_fake_running(), 2);
  open_gate(0);
  OK(cuCtxSynchronize());
  assert_int_equal(word(1), 2);
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

// -------------------------------------------------- the lock of a context, domains --

static void begin_anew(const struct rondo_fake_options *options) {
  OK(cuMemFreeHost(words));
  OK(cuMemFree(device));
  OK(cuModuleUnload(module));
  assert_int_equal(begin_with(options), 0);
}

static void call_from_another_thread(struct caller *c, CUresult (*call)(void)) {
  *c = (struct caller){.call = call};
  assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
  while (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == 0)
    sched_yield();
  for (int i = 0; i < 200; i++)
    sched_yield();
}

static CUresult call_query(void) { return cuStreamQuery(NULL); }

static void a_call_that_waits_holds_the_lock_of_its_context(void **state) {
  (void)state;
  struct rondo_fake_options o = rondo_fake_defaults();
  struct caller waits;
  struct caller other;
  o.holds_lock = 1;
  begin_anew(&o);
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  launch(s, 0, 1);
  call_from_another_thread(&waits, call_alloc);
  call_from_another_thread(&other, call_query);
  assert_int_equal(__atomic_load_n(&waits.state, __ATOMIC_ACQUIRE), 1);
  assert_int_equal(__atomic_load_n(&other.state, __ATOMIC_ACQUIRE), 1);
  open_gate(0);
  assert_int_equal(pthread_join(waits.thread, NULL), 0);
  assert_int_equal(pthread_join(other.thread, NULL), 0);
  assert_int_equal(waits.result, CUDA_SUCCESS);
  assert_int_equal(other.result, CUDA_SUCCESS);
  OK(cuMemFree(spare));
  OK(cuStreamDestroy(s));
}

// A stream that waits holds up a call that waits for all streams, and none that waits for kernels.
static void a_call_may_wait_for_kernels_only(void **state) {
  (void)state;
  struct rondo_fake_options o = rondo_fake_defaults();
  struct caller c;
  for (uint32_t kernels_only = 0; kernels_only < 2; kernels_only++) {
    o.kernels_only = kernels_only;
    begin_anew(&o);
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue32(s, address_of(2), 1, CU_STREAM_WAIT_VALUE_GEQ));
    launch(s, 0, 1); // behind the wait
    call_from_another_thread(&c, call_alloc);
    if (!kernels_only)
      assert_int_equal(__atomic_load_n(&c.state, __ATOMIC_ACQUIRE), 1);
    else
      assert_int_equal(pthread_join(c.thread, NULL), 0);
    open_gate(2);
    open_gate(0);
    if (!kernels_only)
      assert_int_equal(pthread_join(c.thread, NULL), 0);
    OK(cuMemFree(spare));
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
  }
  waits_for_kernel(call_alloc, "cuMemAlloc");
  OK(cuMemFree(spare));
}

static void a_launch_says_its_domain(void **state) {
  (void)state;
  struct held_param p = {&words[0], &words[1]};
  void *params[] = {&p};
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN};
  CUlaunchConfig config = {.gridDimX = 1,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = 32,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = &attribute,
                           .numAttrs = 1};
  attribute.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  open_gate(0);
  OK(cuLaunchKernelEx(&config, held, params, NULL));
  config.numAttrs = 0;
  OK(cuLaunchKernelEx(&config, held, params, NULL));
  OK(cuLaunchKernelEx(&config, held, params, NULL));
  OK(cuCtxSynchronize());
  assert_int_equal(word(1), 3);
  assert_int_equal(rondo_fake_launches_in(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE), 1);
  assert_int_equal(rondo_fake_launches_in(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT), 2);
}

// ---------------------------------------------------------------- what it sees --

static void wrong_handles_and_ranges_are_refused(void **state) {
  (void)state;
  char bytes[64] = {0};
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  assert_int_equal(cuMemcpyHtoD(device + 4090, bytes, 64), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoH(bytes, device + 8192, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFree(device + 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuStreamWriteValue64(s, address_of(1), 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuStreamWaitValue32(s, (CUdeviceptr)(uintptr_t)bytes, 1, 0),
                   CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamDestroy(s));
  assert_int_equal(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
  OK(cuCtxSetCurrent(NULL));
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxSetCurrent(ctx));
}

static unsigned type_of(CUdeviceptr pointer) {
  unsigned type = 99;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void *data = &type;
  OK(cuPointerGetAttributes(1, &attribute, &data, pointer));
  return type;
}

static void pointers_say_what_they_are(void **state) {
  (void)state;
  static char pageable[4096];
  assert_int_equal(type_of(device + 100), CU_MEMORYTYPE_DEVICE);
  assert_int_equal(type_of(address_of(3)), CU_MEMORYTYPE_HOST);
  assert_int_equal(type_of((CUdeviceptr)(uintptr_t)pageable), 0);
  OK(cuMemHostRegister(pageable, sizeof pageable, 0));
  assert_int_equal(type_of((CUdeviceptr)(uintptr_t)pageable), CU_MEMORYTYPE_HOST);
  OK(cuMemHostUnregister(pageable));
}

static void the_nth_call_fails_and_leaves_nothing(void **state) {
  (void)state;
  CUdeviceptr made[3] = {0};
  rondo_fake_fail("cuMemAlloc", 2, 1, CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&made[0], 8));
  assert_int_equal(cuMemAlloc(&made[1], 8), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&made[2], 8));
  assert_int_equal(made[1], 0);
  assert_int_equal(rondo_fake_failed(), 1);
  OK(cuMemFree(made[0]));
  OK(cuMemFree(made[2]));
  rondo_fake_fail(NULL, 1, UINT64_MAX, CUDA_ERROR_UNKNOWN);
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
  assert_int_equal(cuMemAlloc(&made[0], 8), CUDA_ERROR_UNKNOWN);
  rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
}

// --------------------------------------------------------------------- graphs --

static CUgraphExec captured(CUstream s, uint64_t value) {
  CUgraph graph;
  CUgraphExec exec;
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuStreamWaitValue32(s, address_of(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
  launch(s, 0, 1);
  OK(cuStreamWriteValue64(s, address_of(2), value, 0));
  OK(cuStreamEndCapture(s, &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  return exec;
}

static void a_graph_replays_what_was_captured_and_nothing_ran_before(void **state) {
  (void)state;
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  CUgraphExec exec = captured(s, 77);
  OK(cuStreamSynchronize(s));
  assert_int_equal(word(2), 0);
  for (int i = 0; i < 10; i++)
    OK(cuGraphLaunch(exec, s));
  assert_int_equal(word(1), 0);
  OK(cuGraphExecDestroy(exec)); // while it is in flight
  open_gate(0);
  OK(cuStreamSynchronize(s));
  assert_int_equal(word(1), 10);
  assert_int_equal(word(2), 77);
  OK(cuStreamDestroy(s));
}

static void a_graph_does_not_run_beside_itself(void **state) {
  (void)state;
  CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
  CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
  CUgraphExec exec = captured(a, 1);
  OK(cuGraphLaunch(exec, a));
  OK(cuGraphLaunch(exec, b));
  OK(cuStreamWriteValue32(b, address_of(4), 1, 0));
  assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
  assert_int_equal(word(4), 0);
  open_gate(0);
  OK(cuCtxSynchronize());
  assert_int_equal(word(1), 2);
  OK(cuGraphExecDestroy(exec));
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

static void a_capture_takes_in_streams_and_wants_them_joined(void **state) {
  (void)state;
  CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
  CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
  CUevent event;
  CUgraph graph;
  CUstreamCaptureStatus status;
  OK(cuEventCreate(&event, 0));
  OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuEventRecord(event, a));
  OK(cuStreamWaitEvent(b, event, 0));
  OK(cuStreamIsCapturing(b, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  assert_int_equal(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  assert_int_equal(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  OK(cuStreamIsCapturing(b, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuEventRecord(event, b)); // in no capture
  OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  assert_int_equal(cuStreamWaitEvent(a, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  assert_int_equal(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cuEventDestroy(event));
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

static void unsafe_calls_break_a_capture_unless_the_thread_is_relaxed(void **state) {
  (void)state;
  CUgraph graph;
  CUdeviceptr memory;
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUstreamCaptureStatus status;
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  OK(cuMemAlloc(&memory, 8));
  OK(cuMemFree(memory));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  OK(cuStreamIsCapturing(s, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  assert_int_equal(cuMemAlloc(&memory, 8), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cuStreamDestroy(s));
}

static void count_up(void *count) { ++*(uint32_t *)count; }

static void a_user_object_lasts_as_long_as_the_last_graph_that_holds_it(void **state) {
  (void)state;
  uint32_t dropped = 0;
  CUuserObject object;
  CUgraph graph;
  CUgraph ended;
  CUgraphExec exec;
  CUstreamCaptureStatus status;
  CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuStreamGetCaptureInfo_v3(s, &status, NULL, &graph, NULL, NULL, NULL));
  OK(cuUserObjectCreate(&object, &dropped, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  OK(cuStreamEndCapture(s, &ended));
  OK(cuGraphInstantiate(&exec, ended, 0));
  OK(cuGraphDestroy(ended));
  assert_int_equal(dropped, 0);
  OK(cuGraphExecDestroy(exec));
  assert_int_equal(dropped, 1);
  OK(cuStreamDestroy(s));
}

static unsigned holds_one(void) { return 1; }
static unsigned holds_none(void) { return 0; }

static void a_call_that_may_wait_and_holds_a_lock_is_named(void **state) {
  (void)state;
  CUdeviceptr memory;
  CUcontext current;
  rondo_fake_watch_locks(holds_none);
  OK(cuMemAlloc(&memory, 8));
  assert_null(rondo_fake_called_with_lock());
  rondo_fake_watch_locks(holds_one);
  OK(cuCtxGetCurrent(&current));
  assert_null(rondo_fake_called_with_lock());
  OK(cuMemFree(memory));
  OK(cuCtxSynchronize());
  assert_string_equal(rondo_fake_called_with_lock(), "cuMemFree_v2");
  rondo_fake_watch_locks(NULL);
}

#define TEST(function)                                                                             \
  { "fake_cuda." #function, function, begin, end, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_stream_keeps_its_order),
      TEST(a_kernel_holds_its_stream_and_no_other),
      TEST(the_default_stream_waits_for_blocking_streams_only),
      TEST(blocking_streams_wait_for_the_default_stream),
      TEST(events_order_streams),
      TEST(streams_that_share_a_queue_hold_each_other_up),
      TEST(whole_device_calls_wait_for_kernels_of_any_stream),
      TEST(the_first_launch_of_a_lazy_kernel_waits),
      TEST(a_blocking_launch_returns_when_the_kernel_has_ended),
      TEST(kernels_beyond_the_device_wait_for_a_place),
      TEST(a_call_that_waits_holds_the_lock_of_its_context),
      TEST(a_call_may_wait_for_kernels_only),
      TEST(a_launch_says_its_domain),
      TEST(wrong_handles_and_ranges_are_refused),
      TEST(pointers_say_what_they_are),
      TEST(the_nth_call_fails_and_leaves_nothing),
      TEST(a_graph_replays_what_was_captured_and_nothing_ran_before),
      TEST(a_graph_does_not_run_beside_itself),
      TEST(a_capture_takes_in_streams_and_wants_them_joined),
      TEST(unsafe_calls_break_a_capture_unless_the_thread_is_relaxed),
      TEST(a_user_object_lasts_as_long_as_the_last_graph_that_holds_it),
      TEST(a_call_that_may_wait_and_holds_a_lock_is_named),
  };
  return cmocka_run_group_tests_name("fake_cuda", tests, NULL, NULL);
}
