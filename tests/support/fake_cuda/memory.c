// Memory of the fake driver: ranges that are known, and copies that are checked against them.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/fake_cuda/internal.h"

#define ALIGNMENT 512u
#define DIRTY_BYTES ((size_t)4 << 20) // of an allocation, at its beginning, are not zero

// --------------------------------------------------------------------- ranges --

struct fake_range *fake_range_of(uintptr_t address, size_t bytes) {
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (address >= r->begin && address - r->begin < r->bytes &&
        bytes <= r->bytes - (address - r->begin))
      return r;
  return NULL;
}

static uint64_t *live_of(enum fake_place place) {
  return place == FAKE_REGISTERED ? &fake.live.registered : &fake.live.allocations;
}

void fake_range_add(uintptr_t begin, size_t bytes, enum fake_place place, CUcontext ctx) {
  struct fake_range *r = malloc(sizeof *r);
  if (!r)
    abort();
  *r = (struct fake_range){begin, bytes, place, ctx, 0, fake.ranges};
  fake.ranges = r;
  ++*live_of(place);
  fake.live.bytes += bytes;
  fake_scripted_range_add(r);
}

static CUresult range_make(uintptr_t *begin, size_t bytes, enum fake_place place) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (fake.options.memory_waits && place != FAKE_POOL)
    fake_await_context(fake_current());
  size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void *memory = bytes > SIZE_MAX / 2 ? NULL : aligned_alloc(ALIGNMENT, whole);
  if (!memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memset(memory, 0xa5, whole < DIRTY_BYTES ? whole : DIRTY_BYTES); // as device memory is
  *begin = (uintptr_t)memory;
  fake_range_add(*begin, bytes, place, fake_current());
  return CUDA_SUCCESS;
}

static CUresult range_remove(uintptr_t begin, enum fake_place place) {
  struct fake_range **at = &fake.ranges;
  while (*at && ((*at)->begin != begin || (*at)->place != place))
    at = &(*at)->next;
  if (!*at)
    return CUDA_ERROR_INVALID_VALUE;
  if (fake.options.memory_waits && place != FAKE_POOL)
    fake_await_context((*at)->ctx);
  at = &fake.ranges; // others came and went meanwhile
  while (*at && ((*at)->begin != begin || (*at)->place != place))
    at = &(*at)->next;
  if (!*at)
    return CUDA_ERROR_INVALID_VALUE;
  struct fake_range *r = *at;
  *at = r->next;
  fake_range_gone();
  fake_scripted_range_remove(begin);
  --*live_of(place);
  fake.live.bytes -= r->bytes;
  free(r);
  if (place != FAKE_REGISTERED)
    free((void *)begin);
  return CUDA_SUCCESS;
}

void fake_range_gone(void) { (void)__atomic_add_fetch(&fake.range_changes, 1, __ATOMIC_RELEASE); }

void fake_ranges_free(void) {
  fake_range_gone();
  while (fake.ranges) {
    struct fake_range *r = fake.ranges;
    fake.ranges = r->next;
    if (r->place == FAKE_MAPPED)
      munmap((void *)r->begin, r->bytes);
    else if (r->place != FAKE_REGISTERED)
      free((void *)r->begin);
    free(r);
  }
}

// ----------------------------------------------------------------- allocation --

CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  uintptr_t begin = 0;
  CUresult result = range_make(&begin, bytes, FAKE_ON_DEVICE);
  if (result == CUDA_SUCCESS)
    *memory = begin;
  return fake_leave(result);
}

CUresult cuMemFree(CUdeviceptr memory) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  const struct fake_range *r = fake_range_of((uintptr_t)memory, 1);
  int is_managed = r && r->place == FAKE_MANAGED;
  return fake_leave(range_remove((uintptr_t)memory, is_managed ? FAKE_MANAGED : FAKE_ON_DEVICE));
}

// Peer access does not cover memory of a pool.
CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t bytes, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  uintptr_t begin = 0;
  if (!fake_stream(stream))
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  CUresult result = range_make(&begin, bytes, FAKE_POOL);
  if (result == CUDA_SUCCESS)
    *memory = begin;
  return fake_leave(result);
}

CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  if (!fake_stream(stream))
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  return fake_leave(range_remove((uintptr_t)memory, FAKE_POOL));
}

CUresult cuMemAllocManaged(CUdeviceptr *memory, size_t bytes, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  uintptr_t begin = 0;
  if (flags != CU_MEM_ATTACH_GLOBAL)
    return fake_leave(CUDA_ERROR_NOT_SUPPORTED);
  CUresult result = range_make(&begin, bytes, FAKE_MANAGED);
  if (result == CUDA_SUCCESS)
    *memory = begin;
  return fake_leave(result);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  uintptr_t begin = 0;
  (void)flags;
  CUresult result = range_make(&begin, bytes, FAKE_PINNED);
  if (result == CUDA_SUCCESS)
    *memory = (void *)begin;
  return fake_leave(result);
}

CUresult cuMemFreeHost(void *memory) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  return fake_leave(range_remove((uintptr_t)memory, FAKE_PINNED));
}

CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  (void)flags;
  if (!memory || !bytes)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  if (fake_range_of((uintptr_t)memory, 1))
    return fake_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  if (fake.options.memory_waits)
    fake_await_context(fake_current());
  fake_range_add((uintptr_t)memory, bytes, FAKE_REGISTERED, fake_current());
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *memory) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  return fake_leave(range_remove((uintptr_t)memory, FAKE_REGISTERED));
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *memory, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  if (flags || !fake_range_of((uintptr_t)memory, 1))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  *device = (CUdeviceptr)(uintptr_t)memory;
  return fake_leave(CUDA_SUCCESS);
}

// ----------------------------------------------------------------- attributes --

static int is_on_device(const struct fake_range *r) {
  return r->place == FAKE_ON_DEVICE || r->place == FAKE_MAPPED || r->place == FAKE_POOL ||
         r->place == FAKE_MANAGED;
}

static void attribute_of(CUpointer_attribute attribute, const struct fake_range *r,
                         CUdeviceptr pointer, void *data) {
  switch ((int)attribute) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)data =
        !r ? 0u : (unsigned)(is_on_device(r) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)data = r ? (int)r->ctx->device : -2;
    break;
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *(CUcontext *)data = r ? r->ctx : NULL;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(CUdeviceptr *)data = r ? r->begin : 0;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)data = r ? r->bytes : 0;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    *(CUdeviceptr *)data = r ? pointer : 0;
    break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *(unsigned *)data = r && r->place == FAKE_MANAGED;
    break;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    *(unsigned *)data = r && r->place == FAKE_ON_DEVICE;
    break;
  default:
    abort(); // an attribute that the fake does not know
  }
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr pointer) {
  FAKE_ENTER(FAKE_STARTED);
  const struct fake_range *r = fake_range_of((uintptr_t)pointer, 1);
  for (unsigned i = 0; i < count; i++)
    attribute_of(attributes[i], r, pointer, data[i]);
  return fake_leave(CUDA_SUCCESS);
}

// --------------------------------------------------------------------- copies --

bool fake_range_is_reachable(const struct fake_range *range, CUcontext ctx) {
  if (range->place == FAKE_MAPPED)
    return range->access >> ctx->device & 1u;
  if (range->place == FAKE_POOL)
    return range->ctx == ctx;
  return range->place != FAKE_ON_DEVICE || range->ctx == ctx ||
         (ctx->peers >> range->ctx->device & 1u);
}

// Memory that a device of `ctx` can reach.
static bool is_reachable(CUdeviceptr memory, size_t bytes, CUcontext ctx) {
  const struct fake_range *r = fake_range_of((uintptr_t)memory, bytes);
  return r && fake_range_is_reachable(r, ctx);
}

// Waits for what was enqueued last. It may hold the lock of the context, as driver 580 does.
static void await_copy(CUstream s) {
  s->ctx->is_locked = fake.options.holds_lock ? FAKE_LOCKED_BY_COPY : FAKE_UNLOCKED;
  fake_await_op(s, fake.numbers);
  s->ctx->is_locked = FAKE_UNLOCKED;
  if (fake.options.holds_lock)
    pthread_cond_broadcast(&fake.changed);
}

// One end may be pageable memory of the host. A copy from there is staged before the call returns,
// and one to there has ended then, as the driver does.
static CUresult copy(void *dst, const void *src, size_t bytes, CUstream stream) {
  CUstream s = fake_stream(stream);
  if (!s)
    return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0)
    return CUDA_SUCCESS;
  int from_pageable = !fake_range_of((uintptr_t)src, bytes);
  int to_pageable = !fake_range_of((uintptr_t)dst, bytes);
  struct fake_op *op = fake_op_new(FAKE_COPY, s);
  op->dst = dst;
  op->src = src;
  op->bytes = bytes;
  if (from_pageable && !s->capture) {
    op->owned = malloc(bytes);
    if (!op->owned)
      abort();
    memcpy(op->owned, src, bytes);
    op->src = op->owned;
  }
  CUresult result = fake_enqueue(op);
  if (result == CUDA_SUCCESS && to_pageable && !s->capture)
    await_copy(s);
  return result;
}

static CUresult copy_now(void *dst, const void *src, size_t bytes) {
  CUresult result = copy(dst, src, bytes, NULL);
  if (result == CUDA_SUCCESS)
    fake_await_op(fake_stream(NULL), fake.numbers);
  return result;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  if (bytes && !is_reachable(dst, bytes, fake_current()))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  return fake_leave(copy((void *)(uintptr_t)dst, src, bytes, stream));
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  if (bytes && !is_reachable(src, bytes, fake_current()))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  return fake_leave(copy(dst, (const void *)(uintptr_t)src, bytes, stream));
}

static CUresult fill(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream) {
  CUstream s = fake_stream(stream);
  if (!s)
    return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0)
    return CUDA_SUCCESS;
  if (!is_reachable(dst, bytes, fake_current()))
    return CUDA_ERROR_INVALID_VALUE;
  struct fake_op *op = fake_op_new(FAKE_FILL, s);
  op->dst = (void *)(uintptr_t)dst;
  op->value = value;
  op->bytes = bytes;
  return fake_enqueue(op);
}

// True if the copy arrives changed.
static int is_corrupted(CUdeviceptr dst, CUdeviceptr src) {
  const struct fake_range *to = fake_range_of((uintptr_t)dst, 1);
  const struct fake_range *from = fake_range_of((uintptr_t)src, 1);
  return fake.options.peers_corrupt && to && from && is_on_device(to) && is_on_device(from) &&
         to->ctx != from->ctx;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  if (bytes &&
      (!is_reachable(dst, bytes, fake_current()) || !is_reachable(src, bytes, fake_current())))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  CUresult result = copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes, stream);
  if (result == CUDA_SUCCESS && bytes && is_corrupted(dst, src))
    result = fill(dst + bytes / 2, 0, 1, stream);
  return fake_leave(result);
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  if (bytes && !is_reachable(dst, bytes, fake_current()))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  return fake_leave(copy_now((void *)(uintptr_t)dst, src, bytes));
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  if (bytes && !is_reachable(src, bytes, fake_current()))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  return fake_leave(copy_now(dst, (const void *)(uintptr_t)src, bytes));
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  return fake_leave(fill(dst, value, bytes, stream));
}

CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t bytes) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  CUresult result = fill(dst, value, bytes, NULL);
  if (result == CUDA_SUCCESS && bytes)
    fake_await_op(fake_stream(NULL), fake.numbers);
  return fake_leave(result);
}
