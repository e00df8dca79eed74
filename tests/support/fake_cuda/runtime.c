// A stand-in for the CUDA runtime, libcudart: the few calls that examples/05_cuda_stream.c makes,
// over the driver, which is a stand-in as well.
#include <cuda.h>
#include <cuda_runtime_api.h>

// The first call makes the primary context of device 0 current, as the runtime does.
static cudaError_t context_enter(void) {
  static CUcontext context;
  CUdevice device;
  CUresult result = CUDA_SUCCESS;
  if (!context && (result = cuDeviceGet(&device, 0)) == CUDA_SUCCESS)
    result = cuDevicePrimaryCtxRetain(&context, device);
  return result == CUDA_SUCCESS ? (cudaError_t)cuCtxSetCurrent(context) : (cudaError_t)result;
}

cudaError_t cudaGetDeviceCount(int *count) {
  CUresult result = cuInit(0);
  return (cudaError_t)(result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  cudaError_t error = context_enter();
  return error == cudaSuccess ? (cudaError_t)cuStreamCreate(stream, CU_STREAM_DEFAULT) : error;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice)
    return (cudaError_t)cuMemcpyHtoDAsync((CUdeviceptr)dst, src, bytes, stream);
  if (kind == cudaMemcpyDeviceToHost)
    return (cudaError_t)cuMemcpyDtoHAsync(dst, (CUdeviceptr)src, bytes, stream);
  return cudaErrorNotSupported;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return (cudaError_t)cuStreamSynchronize(stream);
}
