// Kernels of the stand-in for the CUDA driver on the PTX machine: parameters, blocks and shared
// memory of a launch, and memory that a device may not use. Each case is a process of its own,
// because an accusation aborts.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/named.h"
#include "tests/support/ptx/ptx_memory.h"

// Thread t of block b stores b * 100 + t, through shared memory, at the place of its own.
static const char image[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 fast[];\n"
    ".visible .entry put(.param .u32 p0, .param .u64 p1) .maxntid 64, 1, 1\n{\n"
    ".reg .b32 %r<9>;\n.reg .b64 %d<9>;\n"
    "ld.param.u32 %r0, [p0];\nld.param.u64 %d0, [p1];\nmov.u32 %r1, %tid.x;\n"
    "mov.u32 %r2, %ctaid.x;\nmad.lo.s32 %r3, %r2, 100, %r1;\nmov.u32 %r4, fast;\n"
    "mad.lo.s32 %r4, %r1, 4, %r4;\nst.shared.u32 [%r4], %r3;\nbar.sync 0;\n"
    "ld.shared.u32 %r5, [%r4];\nmad.lo.s32 %r6, %r2, %r0, %r1;\nmul.wide.u32 %d1, %r6, 4;\n"
    "add.s64 %d2, %d0, %d1;\nst.u32 [%d2], %r5;\nret;\n}\n";

#define THREADS 40u
#define BLOCKS 2u
#define BYTES (BLOCKS * THREADS * sizeof(uint32_t))
#define OK(call)                                                                                   \
  do {                                                                                             \
    if ((call) != CUDA_SUCCESS)                                                                    \
      _exit(2);                                                                                    \
  } while (0)

static CUcontext contexts[2];

static void devices_open(const struct rondo_fake_script *script) {
  struct rondo_fake_options options = rondo_fake_defaults();
  options.devices = 2;
  options.ptx = 1;
  options.script = script;
  rondo_fake_reset(&options);
  OK(cuInit(0));
  for (int d = 0; d < 2; d++)
    OK(cuDevicePrimaryCtxRetain(&contexts[d], d));
  OK(cuCtxPushCurrent(contexts[0]));
}

static CUdeviceptr memory_of(int device) {
  CUdeviceptr memory;
  OK(cuCtxPushCurrent(contexts[device]));
  OK(cuMemAlloc(&memory, BYTES));
  OK(cuCtxPopCurrent(NULL));
  return memory;
}

// Runs the kernel on device 0.
static CUresult put(CUdeviceptr to, uint32_t threads, uint32_t shared_bytes) {
  CUmodule module;
  CUfunction function;
  uint32_t stride = THREADS;
  void *params[] = {&stride, &to};
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&function, module, "put"));
  const CUresult result =
      cuLaunchKernel(function, BLOCKS, 1, 1, threads, 1, 1, shared_bytes, NULL, params, NULL);
  OK(cuCtxSynchronize());
  return result;
}

static void case_own(void) {
  CUdeviceptr memory = memory_of(0);
  uint32_t words[BLOCKS * THREADS];
  OK(put(memory, THREADS, 4 * THREADS));
  OK(cuMemcpyDtoH(words, memory, BYTES));
  for (uint32_t i = 0; i < BLOCKS * THREADS; i++)
    if (words[i] != i / THREADS * 100 + i % THREADS)
      _exit(3);
}

static void case_peer(void) {
  CUdeviceptr memory = memory_of(1);
  OK(cuCtxEnablePeerAccess(contexts[1], 0));
  OK(put(memory, THREADS, 4 * THREADS));
}

static void case_no_peer(void) { OK(put(memory_of(1), THREADS, 4 * THREADS)); }

// Memory of a pool: peer access does not cover it.
static CUdeviceptr pool_of(int device) {
  CUdeviceptr memory;
  OK(cuCtxPushCurrent(contexts[device]));
  OK(cuMemAllocAsync(&memory, BYTES, NULL));
  OK(cuCtxPopCurrent(NULL));
  return memory;
}

static void case_pool(void) { OK(put(pool_of(0), THREADS, 4 * THREADS)); }

static void case_pool_of_peer(void) {
  CUdeviceptr memory = pool_of(1);
  OK(cuCtxEnablePeerAccess(contexts[1], 0));
  OK(put(memory, THREADS, 4 * THREADS));
}

#define MAPPED_BYTES ((size_t)2 << 20)

// Memory of device 1, mapped with access for one device.
static CUdeviceptr mapped_for(int device, CUmemGenericAllocationHandle *handle) {
  const CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
  const CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr memory;
  OK(cuMemCreate(handle, MAPPED_BYTES, &properties, 0));
  OK(cuMemAddressReserve(&memory, MAPPED_BYTES, 0, 0, 0));
  OK(cuMemMap(memory, MAPPED_BYTES, 0, *handle, 0));
  OK(cuMemSetAccess(memory, MAPPED_BYTES, &access, 1));
  return memory;
}

static void case_mapped(void) {
  CUmemGenericAllocationHandle handle;
  OK(put(mapped_for(0, &handle), THREADS, 4 * THREADS));
}

// Peer access does not cover mappings either.
static void case_mapped_for_peer(void) {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr memory = mapped_for(1, &handle);
  OK(cuCtxEnablePeerAccess(contexts[1], 0));
  OK(put(memory, THREADS, 4 * THREADS));
}

static void case_unmapped(void) {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr memory = mapped_for(0, &handle);
  OK(cuMemUnmap(memory, MAPPED_BYTES));
  OK(put(memory, THREADS, 4 * THREADS));
}

// In a scripted run: the range of the first mapping is gone, so the second one does not overlap it.
static uint32_t script_agent(void) { return 0; }
static uint64_t script_random(void) { return 1; }
static void script_pass(void) {}

static void case_mapped_again(void) {
  const struct ptx_memory_options options = PTX_MEMORY_OPTIONS_INIT;
  const struct rondo_fake_script script = {ptx_memory_create(&options), script_agent, script_random,
                                           script_pass};
  (void)ptx_memory_agent(script.memory, PTX_CPU, 0, 1);
  devices_open(&script);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr memory = mapped_for(0, &handle);
  for (uint32_t i = 0; i < 2; i++) {
    if (!ptx_memory_has_range(script.memory, memory, MAPPED_BYTES))
      _exit(3);
    OK(cuMemUnmap(memory, MAPPED_BYTES));
    if (ptx_memory_has_range(script.memory, memory, MAPPED_BYTES))
      _exit(4);
    OK(cuMemMap(memory, MAPPED_BYTES, 0, handle, 0));
  }
}

static void case_freed(void) {
  CUdeviceptr memory = memory_of(0);
  OK(cuMemFree(memory));
  OK(put(memory, THREADS, 4 * THREADS));
}

static void case_host(void) {
  static uint32_t words[BLOCKS * THREADS];
  OK(put((CUdeviceptr)(uintptr_t)words, THREADS, 4 * THREADS));
}

static void case_little_shared(void) { OK(put(memory_of(0), THREADS, 4 * THREADS - 4)); }

static void case_many_threads(void) {
  if (put(memory_of(0), 65, 4 * THREADS) != CUDA_ERROR_INVALID_VALUE)
    _exit(3);
}

static void case_no_name(void) {
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, image));
  if (cuModuleGetFunction(&function, module, "take") != CUDA_ERROR_NOT_FOUND)
    _exit(3);
}

// Runs a case in a process. Its end as waitpid has it; `line` receives what the process prints.
static int case_run(void (*run)(void), char *line, size_t bytes) {
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    devices_open(NULL);
    run();
    _exit(0);
  }
  close(ends[1]);
  FILE *file = fdopen(ends[0], "r");
  assert_non_null(file);
  line[fread(line, 1, bytes - 1, file)] = '\0';
  fclose(file);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void kernels_have_their_launch(void **state) {
  static void (*const cases[])(void) = {case_own,    case_peer,         case_pool,
                                        case_mapped, case_mapped_again, case_many_threads,
                                        case_no_name};
  char line[512];
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (case_run(cases[i], line, sizeof line) != 0)
      fail_msg("case %zu: %s", i, line);
}

static void memory_without_rights_is_accused(void **state) {
  static void (*const cases[])(void) = {case_no_peer,  case_pool_of_peer, case_mapped_for_peer,
                                        case_unmapped, case_freed,        case_host};
  char line[512];
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int status = case_run(cases[i], line, sizeof line);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(line, "put, block ") ||
        !strstr(line, "PTX line 22: writes 4 bytes at 0x"))
      fail_msg("case %zu: status %d, \"%s\"", i, status, line);
  }
}

static void shared_memory_ends_with_the_launch(void **state) {
  char line[512];
  (void)state;
  const int status = case_run(case_little_shared, line, sizeof line);
  assert_true(WIFSIGNALED(status));
  assert_non_null(strstr(line, "thread 39, PTX line 16: writes 4 bytes at 0x49c of shared memory"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("fake_cuda_ptx", kernels_have_their_launch),
      RONDO_NAMED_TEST("fake_cuda_ptx", memory_without_rights_is_accused),
      RONDO_NAMED_TEST("fake_cuda_ptx", shared_memory_ends_with_the_launch),
  };
  return cmocka_run_group_tests_name("fake_cuda_ptx", tests, NULL, NULL);
}
