// Virtual memory management of the fake driver: memory of a device is a file without a name, so
// that another process can map it, and goes with the last mapping, descriptor and handle.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_cuda/internal.h"

#define GRANULARITY ((size_t)2 << 20)
#define FILE_NAME "fake-cuda-device-"

// A CUmemGenericAllocationHandle points to this.
struct handle {
  int fd;
  size_t bytes;
  uint32_t device;
};

static int is_offered(void) { return fake.options.sharing != 0; }

static int is_sound(const CUmemAllocationProp *p) {
  return p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id >= 0 &&
         (uint32_t)p->location.id < fake.options.devices;
}

// ------------------------------------------------------------------ addresses --

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *p,
                                       CUmemAllocationGranularity_flags option) {
  FAKE_ENTER(FAKE_STARTED);
  (void)option;
  if (!is_offered() || !is_sound(p))
    return fake_leave(CUDA_ERROR_NOT_SUPPORTED);
  *bytes = GRANULARITY;
  return fake_leave(CUDA_SUCCESS);
}

// On a boundary of the granularity, as the driver does: the system's pages are smaller.
static void *reserve(size_t bytes) {
  char *whole = mmap(NULL, bytes + GRANULARITY, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED)
    return NULL;
  size_t before = (GRANULARITY - (uintptr_t)whole % GRANULARITY) % GRANULARITY;
  if (before)
    munmap(whole, before);
  munmap(whole + before + bytes, GRANULARITY - before);
  return whole + before;
}

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
  FAKE_ENTER(FAKE_STARTED);
  if (!bytes || bytes % GRANULARITY || alignment > GRANULARITY || wish || flags)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  void *memory = reserve(bytes);
  if (!memory)
    return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
  fake.live.reserved++;
  *at = (CUdeviceptr)(uintptr_t)memory;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  FAKE_ENTER(FAKE_STARTED);
  for (const struct fake_range *r = fake.ranges; r; r = r->next)
    if (r->begin >= at && r->begin < at + bytes)
      return fake_leave(CUDA_ERROR_INVALID_VALUE); // something is mapped there
  if (munmap((void *)(uintptr_t)at, bytes))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  fake.live.reserved--;
  return fake_leave(CUDA_SUCCESS);
}

// --------------------------------------------------------------------- handles --

static CUresult give_handle(CUmemGenericAllocationHandle *out, int fd, size_t bytes,
                            uint32_t device) {
  struct handle *h = malloc(sizeof *h);
  if (!h)
    abort();
  *h = (struct handle){fd, bytes, device};
  fake.live.handles++;
  *out = (CUmemGenericAllocationHandle)(uintptr_t)h;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *p,
                     unsigned long long flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_UNSAFE);
  char name[64];
  if (!is_offered())
    return fake_leave(CUDA_ERROR_NOT_SUPPORTED);
  if (!is_sound(p) || !bytes || bytes % GRANULARITY || flags)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  if (fake.options.memory_waits)
    fake_await_context(&fake.contexts[p->location.id]);
  snprintf(name, sizeof name, FILE_NAME "%d", p->location.id);
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
    close(fd);
    fd = -1;
  }
  if (fd < 0)
    return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
  return fake_leave(give_handle(out, fd, bytes, (uint32_t)p->location.id));
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  FAKE_ENTER(FAKE_STARTED);
  struct handle *h = (struct handle *)(uintptr_t)handle;
  close(h->fd);
  free(h);
  fake.live.handles--;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  FAKE_ENTER(FAKE_STARTED);
  const struct handle *h = (const struct handle *)(uintptr_t)handle;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  int fd = dup(h->fd);
  if (fd < 0)
    return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
  *(int *)out = fd;
  return fake_leave(CUDA_SUCCESS);
}

// The number of the device whose memory a file is; -1: it is none.
static int device_of(int fd) {
  char path[64];
  char name[128];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, name, sizeof name - 1);
  if (length <= 0)
    return -1;
  name[length] = '\0';
  const char *number = strstr(name, FILE_NAME);
  return number ? (int)strtol(number + strlen(FILE_NAME), NULL, 10) : -1;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                        CUmemAllocationHandleType type) {
  FAKE_ENTER(FAKE_STARTED);
  struct stat s;
  int fd = (int)(intptr_t)handle;
  int device = device_of(fd);
  if (!is_offered())
    return fake_leave(CUDA_ERROR_NOT_SUPPORTED);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || device < 0 ||
      (uint32_t)device >= fake.options.devices || fstat(fd, &s))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  fd = dup(fd);
  if (fd < 0)
    return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
  return fake_leave(give_handle(out, fd, (size_t)s.st_size, (uint32_t)device));
}

// -------------------------------------------------------------------- mappings --

static struct fake_range **mapping_at(CUdeviceptr at, size_t bytes) {
  struct fake_range **r = &fake.ranges;
  while (*r && ((*r)->place != FAKE_MAPPED || (*r)->begin != at || (*r)->bytes != bytes))
    r = &(*r)->next;
  return r;
}

// Nobody may use it before access is set.
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  FAKE_ENTER(FAKE_STARTED);
  const struct handle *h = (const struct handle *)(uintptr_t)handle;
  if (offset || flags || bytes != h->bytes || fake_range_of((uintptr_t)at, 1))
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  void *memory = mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, h->fd, 0);
  if (memory == MAP_FAILED)
    return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
  fake_range_add((uintptr_t)at, bytes, FAKE_MAPPED, &fake.contexts[h->device]);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count) {
  FAKE_ENTER(FAKE_STARTED);
  struct fake_range *r = *mapping_at(at, bytes);
  if (!r || count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  uint32_t device = (uint32_t)access->location.id;
  if (device != r->ctx->device && !fake_offers_access(device, r->ctx->device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  if (mprotect((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE))
    return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
  r->access |= 1u << device;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  FAKE_ENTER(FAKE_STARTED | FAKE_UNSAFE);
  struct fake_range *r = *mapping_at(at, bytes);
  if (!r)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  if (fake.options.memory_waits)
    fake_await_context(r->ctx);
  struct fake_range **place = mapping_at(at, bytes); // others came and went meanwhile
  r = *place;
  if (!r)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  *place = r->next;
  fake_range_gone();
  fake_scripted_range_remove(r->begin);
  fake.live.allocations--;
  fake.live.bytes -= r->bytes;
  free(r);
  (void)mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return fake_leave(CUDA_SUCCESS);
}
