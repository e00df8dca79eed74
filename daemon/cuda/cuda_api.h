// The calls of the CUDA driver that Rondo uses, looked up at first use: the library also runs on
// machines without that driver, so it does not link it.
//
//   rondo_cuda_api_load -> rondo_cuda_api()->mem_alloc(...) ...
//
// Each call has the signature that cuda.h declares, and is looked up under the name that cuda.h
// gives it, version suffix included. A suffix that is written out here gives the same signature
// with CUDA 12 and 13.
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
  ENTRY(device_get_p2p_attribute, cuDeviceGetP2PAttribute)                                         \
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
  ENTRY(launch_kernel_ex, cuLaunchKernelEx)                                                        \
  ENTRY(stream_create_with_priority, cuStreamCreateWithPriority)                                   \
  ENTRY(stream_destroy, cuStreamDestroy)                                                           \
  ENTRY(stream_query, cuStreamQuery)                                                               \
  ENTRY(stream_wait_event, cuStreamWaitEvent)                                                      \
  ENTRY(event_create, cuEventCreate)                                                               \
  ENTRY(event_destroy, cuEventDestroy)                                                             \
  ENTRY(event_record, cuEventRecord)                                                               \
  ENTRY(stream_batch_mem_op, cuStreamBatchMemOp)                                                   \
  ENTRY(stream_get_capture_info, cuStreamGetCaptureInfo_v3)                                        \
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

// Loads and starts the driver. Returns RONDO_SUCCESS, or RONDO_ERR_UNSUPPORTED (no driver, it is
// too old or lacks a call, it does not start, or it has no device) and one line in `why`. A second
// call costs nothing; a failure is tried again. Any thread.
int rondo_cuda_api_load(char why[RONDO_CUDA_WHY_BYTES]);

// The table. Null before rondo_cuda_api_load has succeeded.
const struct rondo_cuda_api *rondo_cuda_api(void);

// The name of a result, such as "CUDA_ERROR_OUT_OF_MEMORY". Never null.
const char *rondo_cuda_error_name(CUresult result);

// For tests: unloads the driver, and loads the library `name` from now on; null: the driver again.
// No thread may be using the table.
void rondo_cuda_api_from(const char *name);

#endif // RONDO_DAEMON_CUDA_API_H
