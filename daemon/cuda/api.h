// The calls of the CUDA driver that Rondo uses, found when they are first needed: the library runs
// on machines without a driver, so it is not linked with one.
//
//   rondo_cuda_api_load -> rondo_cuda_api()->mem_alloc(...) ...
//
// Each call has the signature that cuda.h declares, and is looked up under the very name that
// cuda.h gives it, version suffix included: what is found is what was compiled against.
#ifndef RONDO_DAEMON_CUDA_API_H
#define RONDO_DAEMON_CUDA_API_H

#include <stddef.h>

#include <cuda.h>

#define RONDO_CUDA_ENTRIES(ENTRY)                                                                  \
  ENTRY(init, cuInit)                                                                              \
  ENTRY(get_error_name, cuGetErrorName)                                                            \
  ENTRY(driver_get_version, cuDriverGetVersion)                                                    \
  ENTRY(device_get_count, cuDeviceGetCount)                                                        \
  ENTRY(device_get, cuDeviceGet)                                                                   \
  ENTRY(device_get_attribute, cuDeviceGetAttribute)                                                \
  ENTRY(device_get_pci_bus_id, cuDeviceGetPCIBusId)                                                \
  ENTRY(device_can_access_peer, cuDeviceCanAccessPeer)                                             \
  ENTRY(device_primary_ctx_retain, cuDevicePrimaryCtxRetain)                                       \
  ENTRY(device_primary_ctx_release, cuDevicePrimaryCtxRelease)                                     \
  ENTRY(ctx_push_current, cuCtxPushCurrent)                                                        \
  ENTRY(ctx_pop_current, cuCtxPopCurrent)                                                          \
  ENTRY(ctx_enable_peer_access, cuCtxEnablePeerAccess)                                             \
  ENTRY(ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange)                                \
  ENTRY(module_load_data, cuModuleLoadData)                                                        \
  ENTRY(module_unload, cuModuleUnload)                                                             \
  ENTRY(module_get_function, cuModuleGetFunction)                                                  \
  ENTRY(func_load, cuFuncLoad)                                                                     \
  ENTRY(func_set_attribute, cuFuncSetAttribute)                                                    \
  ENTRY(launch_kernel, cuLaunchKernel)                                                             \
  ENTRY(stream_create_with_priority, cuStreamCreateWithPriority)                                   \
  ENTRY(stream_destroy, cuStreamDestroy)                                                           \
  ENTRY(stream_query, cuStreamQuery)                                                               \
  ENTRY(stream_batch_mem_op, cuStreamBatchMemOp)                                                   \
  ENTRY(stream_get_capture_info, cuStreamGetCaptureInfo)                                           \
  ENTRY(stream_get_ctx, cuStreamGetCtx)                                                            \
  ENTRY(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode)                    \
  ENTRY(user_object_create, cuUserObjectCreate)                                                    \
  ENTRY(user_object_release, cuUserObjectRelease)                                                  \
  ENTRY(graph_retain_user_object, cuGraphRetainUserObject)                                         \
  ENTRY(mem_alloc, cuMemAlloc)                                                                     \
  ENTRY(mem_free, cuMemFree)                                                                       \
  ENTRY(device_total_mem, cuDeviceTotalMem)                                                        \
  ENTRY(mem_get_allocation_granularity, cuMemGetAllocationGranularity)                             \
  ENTRY(mem_address_reserve, cuMemAddressReserve)                                                  \
  ENTRY(mem_address_free, cuMemAddressFree)                                                        \
  ENTRY(mem_create, cuMemCreate)                                                                   \
  ENTRY(mem_release, cuMemRelease)                                                                 \
  ENTRY(mem_export_to_shareable_handle, cuMemExportToShareableHandle)                              \
  ENTRY(mem_import_from_shareable_handle, cuMemImportFromShareableHandle)                          \
  ENTRY(mem_map, cuMemMap)                                                                         \
  ENTRY(mem_unmap, cuMemUnmap)                                                                     \
  ENTRY(mem_set_access, cuMemSetAccess)                                                            \
  ENTRY(mem_host_register, cuMemHostRegister)                                                      \
  ENTRY(mem_host_unregister, cuMemHostUnregister)                                                  \
  ENTRY(memcpy_htod_async, cuMemcpyHtoDAsync)                                                      \
  ENTRY(memcpy_dtoh_async, cuMemcpyDtoHAsync)                                                      \
  ENTRY(memcpy_dtod_async, cuMemcpyDtoDAsync)                                                      \
  ENTRY(memset_d8_async, cuMemsetD8Async)                                                          \
  ENTRY(pointer_get_attributes, cuPointerGetAttributes)

struct rondo_cuda_api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type takes none
#define RONDO_CUDA_MEMBER(member, symbol) __typeof__(symbol) *member;
  RONDO_CUDA_ENTRIES(RONDO_CUDA_MEMBER)
#undef RONDO_CUDA_MEMBER
};

#define RONDO_CUDA_WHY_BYTES 512u

// Finds the driver and starts it. Returns 0, or RONDO_ERR_UNSUPPORTED (there is no driver, it lacks a call,
// it does not start, or it has no device) with one line in `why` that names what is wrong.
// Once it has succeeded it costs nothing; a failure is tried again. Any thread.
int rondo_cuda_api_load(char why[RONDO_CUDA_WHY_BYTES]);

// The table. Null before rondo_cuda_api_load has succeeded.
const struct rondo_cuda_api *rondo_cuda_api(void);

// The driver's name of a result, such as "CUDA_ERROR_OUT_OF_MEMORY". Never null.
const char *rondo_cuda_error_name(CUresult result);

// For tests: looks in another library than the driver's from now on, and forgets what was loaded; null is the driver's
// again. Nobody may be using the table.
void rondo_cuda_api_from(const char *name);

#endif // RONDO_DAEMON_CUDA_API_H
