// Memory shared by processes of one machine: device memory by the CUDA driver's virtual memory
// management, whose file descriptors go from process to process; host memory, which each process
// locks.
//
// A mapping keeps the memory alive after the process that made it is gone. The older handles of
// cuIpcGetMemHandle do not promise that, so they are not used.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/cuda_backend.h"

// Reserved addresses per byte of memory, because freed space may be fragmented.
#define RANGE_FACTOR 4u

const char *rondo_cuda_sharing_obstacle(const struct rondo_cuda_device *d) {
  if (!rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
    return "virtual memory management";
  if (!rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
    return "file descriptors of its memory";
  return NULL;
}

static CUmemAllocationProp allocation_properties(const struct rondo_cuda_device *d) {
  CUmemAllocationProp p;
  memset(&p, 0, sizeof p);
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = d->handle;
  return p;
}

// ----------------------------------------------------------------- addresses --

// Checks that device memory comes in units of RONDO_RANGE_UNIT_BYTES.
static int device_check_granularity(const struct rondo_cuda_device *d, char *why) {
  const CUmemAllocationProp p = allocation_properties(d);
  size_t unit = 0;
  CUresult result =
      d->api->mem_get_allocation_granularity(&unit, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS)
    return rondo_cuda_check(result, "cuMemGetAllocationGranularity", why);
  if (unit && RONDO_RANGE_UNIT_BYTES % unit == 0)
    return RONDO_SUCCESS;
  snprintf(why, RONDO_WHY_BYTES, "the device has memory in units of %zu bytes", unit);
  return RONDO_ERR_UNSUPPORTED;
}

static int share_reserve(struct rondo_device *device, uint64_t *base, uint64_t *bytes, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  const char *obstacle = rondo_cuda_sharing_obstacle(d);
  struct rondo_cuda_scope scope;
  CUdeviceptr at = 0;
  size_t total = *bytes;
  if (obstacle) {
    snprintf(why, RONDO_WHY_BYTES, "device %d does not offer %s", d->ordinal, obstacle);
    return RONDO_ERR_UNSUPPORTED;
  }
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return rondo_cuda_check(CUDA_ERROR_INVALID_CONTEXT, "the device has no context", why);
  int status = device_check_granularity(d, why);
  CUresult result = CUDA_SUCCESS;
  if (status == RONDO_SUCCESS && !total) {
    result = d->api->device_total_mem(&total, d->handle);
    total = total / RONDO_RANGE_UNIT_BYTES * RONDO_RANGE_UNIT_BYTES * RANGE_FACTOR;
  }
  if (status == RONDO_SUCCESS && result == CUDA_SUCCESS)
    result = d->api->mem_address_reserve(&at, total, RONDO_RANGE_UNIT_BYTES, 0, 0);
  rondo_cuda_leave(&scope);
  if (status == RONDO_SUCCESS && result != CUDA_SUCCESS)
    return rondo_cuda_check(result, "no addresses can be reserved", why);
  if (status == RONDO_SUCCESS) {
    *base = at;
    *bytes = total;
  }
  return status;
}

static void share_release(struct rondo_device *device, uint64_t base, uint64_t bytes) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  rondo_cuda_enter_to_free(d, &scope);
  (void)d->api->mem_address_free(base, bytes);
  rondo_cuda_leave(&scope);
}

// -------------------------------------------------------------------- memory --

// Maps a handle and releases it.
static CUresult handle_map(const struct rondo_cuda_device *d, uint64_t at, uint64_t bytes,
                           CUmemGenericAllocationHandle handle) {
  CUresult result = d->api->mem_map(at, bytes, 0, handle, 0);
  (void)d->api->mem_release(handle);
  return result;
}

static CUresult memory_create(const struct rondo_cuda_device *d, uint64_t at, uint64_t bytes,
                              int *fd) {
  const CUmemAllocationProp p = allocation_properties(d);
  CUmemGenericAllocationHandle handle = 0;
  int made = -1;
  CUresult result = d->api->mem_create(&handle, bytes, &p, 0);
  if (result != CUDA_SUCCESS)
    return result;
  result = d->api->mem_export_to_shareable_handle(&made, handle,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) {
    (void)d->api->mem_release(handle);
    return result;
  }
  (void)fcntl(made, F_SETFD, FD_CLOEXEC);
  result = handle_map(d, at, bytes, handle);
  if (result == CUDA_SUCCESS)
    *fd = made;
  else
    close(made);
  return result;
}

static int share_allocate(struct rondo_device *device, uint64_t at, uint64_t bytes, int *fd,
                          char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(d, &scope);
  if (result == CUDA_SUCCESS)
    result = memory_create(d, at, bytes, fd);
  rondo_cuda_leave(&scope);
  return rondo_cuda_check(result, "no memory that can be shared is to be had", why);
}

static int share_map(struct rondo_device *device, uint64_t at, uint64_t bytes, int fd, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  CUmemGenericAllocationHandle handle = 0;
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(d, &scope);
  if (result == CUDA_SUCCESS)
    result = d->api->mem_import_from_shareable_handle(&handle, (void *)(intptr_t)fd,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS)
    result = handle_map(d, at, bytes, handle);
  rondo_cuda_leave(&scope);
  return rondo_cuda_check(result, "the memory of another process cannot be mapped", why);
}

static int share_set_access(struct rondo_device *device, uint64_t at, uint64_t bytes, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  CUmemAccessDesc access;
  char text[64];
  struct rondo_cuda_scope scope;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = d->handle;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult result = rondo_cuda_enter(d, &scope);
  if (result == CUDA_SUCCESS)
    result = d->api->mem_set_access(at, bytes, &access, 1);
  rondo_cuda_leave(&scope);
  snprintf(text, sizeof text, "device %d may not use the memory", d->ordinal);
  return rondo_cuda_check(result, text, why);
}

static void share_unmap(struct rondo_device *device, uint64_t at, uint64_t bytes) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  rondo_cuda_enter_to_free(d, &scope);
  (void)d->api->mem_unmap(at, bytes);
  rondo_cuda_leave(&scope);
}

static int share_zero(struct rondo_device *device, uint64_t at, uint64_t bytes) {
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  int status = rondo_cuda_zero(d, at, bytes);
  rondo_cuda_leave(&scope);
  return status;
}

// ---------------------------------------------------------------------- host --

static int share_pin(struct rondo_device *device, void *memory, uint64_t bytes, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  CUresult result = rondo_cuda_enter(d, &scope);
  if (result == CUDA_SUCCESS)
    result = d->api->mem_host_register(memory, bytes,
                                       CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  rondo_cuda_leave(&scope);
  return rondo_cuda_check(result, "memory of the host cannot be page-locked", why);
}

static void share_unpin(struct rondo_device *device, void *memory) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  rondo_cuda_enter_to_free(d, &scope);
  (void)d->api->mem_host_unregister(memory);
  rondo_cuda_leave(&scope);
}

const struct rondo_sharing rondo_cuda_sharing = {.pin = share_pin,
                                                 .unpin = share_unpin,
                                                 .reserve = share_reserve,
                                                 .release = share_release,
                                                 .allocate = share_allocate,
                                                 .map = share_map,
                                                 .set_access = share_set_access,
                                                 .unmap = share_unmap,
                                                 .zero = share_zero};
