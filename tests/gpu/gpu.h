// Shared by the programs of tests/gpu: checks, a watchdog, one device and its driver.
//
// A machine with a GPU may have no test library, so a check that fails ends the process with 1. The
// CUDA driver is found when the program runs: without one, or without a device, the program ends
// with 77. The stand-in for the driver (tests/support/fake_cuda) serves as well; its kernels are in
// stand_in_kernels.c.
//
//   gpu_open -> gpu_watch -> gpu.cuMemAlloc(...) ...
#ifndef RONDO_TESTS_GPU_GPU_H
#define RONDO_TESTS_GPU_GPU_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cuda.h>

#include <rondo/rondo.h>

static inline void gpu_check(int holds, const char *file, int line, const char *condition) {
  if (holds)
    return;
  fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  _exit(1);
}

#define CHECK(condition) gpu_check((condition) != 0, __FILE__, __LINE__, #condition)
#define OK(call) CHECK((call) == RONDO_SUCCESS)
#define CUDA(call) CHECK((gpu.call) == CUDA_SUCCESS)

#define LONG_NS INT64_C(50000000000) // a wait that only a hang outlasts

// The driver's calls that the programs use, under the names that cuda.h gives them.
#define GPU_ENTRIES(ENTRY)                                                                         \
  ENTRY(cuInit)                                                                                    \
  ENTRY(cuDeviceGetCount)                                                                          \
  ENTRY(cuDeviceGet)                                                                               \
  ENTRY(cuDeviceGetAttribute)                                                                      \
  ENTRY(cuDeviceCanAccessPeer)                                                                     \
  ENTRY(cuDevicePrimaryCtxRetain)                                                                  \
  ENTRY(cuCtxSetCurrent)                                                                           \
  ENTRY(cuCtxEnablePeerAccess)                                                                     \
  ENTRY(cuCtxSynchronize)                                                                          \
  ENTRY(cuModuleLoadData)                                                                          \
  ENTRY(cuModuleUnload)                                                                            \
  ENTRY(cuModuleGetFunction)                                                                       \
  ENTRY(cuFuncLoad)                                                                                \
  ENTRY(cuFuncSetAttribute)                                                                        \
  ENTRY(cuLaunchKernel)                                                                            \
  ENTRY(cuMemAlloc)                                                                                \
  ENTRY(cuMemFree)                                                                                 \
  ENTRY(cuMemHostAlloc)                                                                            \
  ENTRY(cuMemFreeHost)                                                                             \
  ENTRY(cuMemcpyHtoD)                                                                              \
  ENTRY(cuMemcpyDtoHAsync)                                                                         \
  ENTRY(cuMemcpyDtoH)                                                                              \
  ENTRY(cuMemcpyDtoDAsync)                                                                         \
  ENTRY(cuMemsetD8)                                                                                \
  ENTRY(cuMemsetD8Async)                                                                           \
  ENTRY(cuStreamCreate)                                                                            \
  ENTRY(cuStreamDestroy)                                                                           \
  ENTRY(cuStreamSynchronize)                                                                       \
  ENTRY(cuStreamBeginCapture)                                                                      \
  ENTRY(cuStreamEndCapture)                                                                        \
  ENTRY(cuGraphInstantiate)                                                                        \
  ENTRY(cuGraphLaunch)                                                                             \
  ENTRY(cuGraphExecDestroy)                                                                        \
  ENTRY(cuGraphDestroy)

struct gpu_driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type takes none
#define GPU_MEMBER(symbol) __typeof__(symbol) *symbol;
  GPU_ENTRIES(GPU_MEMBER)
#undef GPU_MEMBER
  int is_stand_in; // no figure means anything
  int device_count;
  uint32_t multiprocessors; // of device 0
};
extern struct gpu_driver gpu;

// The kernels of kernels.cu, as cuModuleLoadData takes them; and the daemon that keeps times.
extern const unsigned char gpu_kernels_image[];
extern const unsigned char gpu_timed_image[];

// Finds the driver and makes device 0 current; ends the program with 77 if there is none.
void gpu_open(const char *program);
// Makes another device current.
void gpu_use(int device);
// Whether the current device reaches the memory of another one, which it then may use.
int gpu_reach(int device);
// Ends the program with `status`, whatever it does, when so many seconds have passed.
void gpu_watch(unsigned seconds, int status);
// 1 if little of that time is left: for what may stop at any point.
int gpu_is_late(void);

// A kernel of the device that is current, of kernels.cu. It is loaded, which may wait for all that
// runs: a launch later, when streams wait for each other, does not.
CUfunction gpu_kernel(const char *name);
// One of device 0; `params` is the kernel's only parameter.
void gpu_launch(CUfunction kernel, uint32_t blocks, uint32_t threads, CUstream stream,
                const void *params);

// Device memory, all zero. At least a byte.
uint64_t gpu_memory(uint64_t bytes);
void gpu_release(uint64_t memory);
void *gpu_pinned(uint64_t bytes); // memory of the host that the device uses in place
CUstream gpu_stream(void);

static inline void *gpu_pointer(uint64_t memory) { return (void *)(uintptr_t)memory; }

uint64_t gpu_random(uint64_t bound);
double gpu_now_us(void);
// `full`, or `reduced` with RONDO_TEST_REDUCED=1.
int gpu_load(int full, int reduced);

#endif // RONDO_TESTS_GPU_GPU_H
