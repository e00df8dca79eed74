#include "tests/gpu/gpu.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/gpu/kernels_core.h"
#include "tests/support/load.h"

#define MAX_DEVICES 8
#define TEXT(symbol) TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol

struct gpu_driver gpu;

static CUcontext contexts[MAX_DEVICES];
static CUmodule modules[MAX_DEVICES];
static int current;
static int watched_status;
static double late_us;

// ------------------------------------------------------------------ the driver --

static _Noreturn void skip(const char *program, const char *why) {
  fprintf(stderr, "%s: there is no GPU: %s\n", program, why);
  exit(77);
}

static void *find_call(const char *program, void *library, const char *name) {
  void *call = dlsym(library, name);
  if (!call) {
    fprintf(stderr, "%s: the CUDA driver lacks %s\n", program, name);
    exit(77);
  }
  return call;
}

static void find_calls(const char *program) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    skip(program, "no CUDA driver");
    // A function's address as dlsym gives it: the form that POSIX prescribes.
#define GPU_FIND(symbol) *(void **)&gpu.symbol = find_call(program, library, TEXT(symbol));
  GPU_ENTRIES(GPU_FIND)
#undef GPU_FIND
  gpu.is_stand_in = gpu_stand_in_kernels(library);
}

void gpu_open(const char *program) {
  int count = 0;
  // Several ranks on one device have more streams than the 8 queues that are the default.
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  find_calls(program);
  if (gpu.cuInit(0) != CUDA_SUCCESS || gpu.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
    skip(program, "no device");
  gpu.device_count = count < MAX_DEVICES ? count : MAX_DEVICES;
  gpu_use(0);
  CUDA(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  gpu.multiprocessors = (uint32_t)count;
}

void gpu_use(int device) {
  CUdevice handle;
  CHECK(device < gpu.device_count);
  if (!contexts[device]) {
    CUDA(cuDeviceGet(&handle, device));
    CUDA(cuDevicePrimaryCtxRetain(&contexts[device], handle));
  }
  CUDA(cuCtxSetCurrent(contexts[device]));
  current = device;
}

int gpu_reach(int device) {
  const int here = current;
  int can = 0;
  CUdevice from, to;
  if (device >= gpu.device_count)
    return 0;
  gpu_use(device);
  gpu_use(here);
  CUDA(cuDeviceGet(&from, here));
  CUDA(cuDeviceGet(&to, device));
  CUDA(cuDeviceCanAccessPeer(&can, from, to));
  if (!can)
    return 0;
  const CUresult result = gpu.cuCtxEnablePeerAccess(contexts[device], 0);
  CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  return 1;
}

// --------------------------------------------------------------------- watchdog --

static void out_of_time(int signal) {
  static const char text[] = "out of time\n";
  (void)signal;
  if (watched_status && write(2, text, sizeof text - 1) < 0)
    _exit(watched_status);
  _exit(watched_status);
}

void gpu_watch(unsigned seconds, int status) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = out_of_time;
  watched_status = status;
  late_us = gpu_now_us() + 0.8e6 * seconds;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  alarm(seconds);
}

int gpu_is_late(void) { return gpu_now_us() > late_us; }

// ---------------------------------------------------------------------- kernels --

CUfunction gpu_kernel(const char *name) {
  CUfunction function;
  if (!modules[current])
    CUDA(cuModuleLoadData(&modules[current], gpu_kernels_image));
  CUDA(cuModuleGetFunction(&function, modules[current], name));
  CUDA(cuFuncLoad(function));
  return function;
}

void gpu_launch(CUfunction kernel, uint32_t blocks, uint32_t threads, CUstream stream,
                const void *params) {
  void *list[] = {(void *)(uintptr_t)params};
  CUDA(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, list, NULL));
}

// ----------------------------------------------------------------------- memory --

uint64_t gpu_memory(uint64_t bytes) {
  CUdeviceptr memory;
  bytes = bytes ? bytes : 1;
  CUDA(cuMemAlloc(&memory, bytes));
  CUDA(cuMemsetD8(memory, 0, bytes));
  return memory;
}

void gpu_release(uint64_t memory) { CUDA(cuMemFree(memory)); }

void *gpu_pinned(uint64_t bytes) {
  void *memory;
  CUDA(cuMemHostAlloc(&memory, bytes, 0));
  memset(memory, 0, bytes);
  return memory;
}

CUstream gpu_stream(void) {
  CUstream stream;
  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

// ------------------------------------------------------------------------- rest --

uint64_t gpu_random(uint64_t bound) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % bound;
}

double gpu_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int gpu_load(int full, int reduced) {
  return (int)rondo_test_load((uint64_t)full, (uint64_t)reduced);
}
