# Compiles kernel.cu once for all architectures, and makes it part of the module's sources.
#
# sm_80, sm_90 and sm_100, and PTX for every other architecture since. No contraction: a product is
# rounded before it is added, as on the host. Build folders of one tree share the result, because
# it depends on the sources alone and takes a minute.
set(RONDO_CUDA_IMAGE ${CMAKE_CURRENT_BINARY_DIR}/rondo_cuda_kernel.fatbin)
set(kernel_cache ${CMAKE_CURRENT_BINARY_DIR}/kernels)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_BINARY_DIR MATCHES "^${PROJECT_SOURCE_DIR}/build/")
  set(kernel_cache ${PROJECT_SOURCE_DIR}/build/kernels)
endif()
add_custom_command(
  OUTPUT ${RONDO_CUDA_IMAGE}
  COMMAND
    daemon/cuda/compile_kernel.sh ${RONDO_CUDA_IMAGE} ${kernel_cache}
    ${RONDO_NVCC} -std=c++17 -O3 -fmad=false -Werror=all-warnings --threads 0
    -gencode=arch=compute_80,code=[sm_80,compute_80] -gencode=arch=compute_90,code=sm_90
    -gencode=arch=compute_100,code=sm_100 -I. -Iinclude daemon/cuda/kernel.cu
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernel.cu ${CMAKE_CURRENT_SOURCE_DIR}/compile_kernel.sh
  DEPFILE ${RONDO_CUDA_IMAGE}.d
  COMMENT "Compiling the CUDA kernels"
  VERBATIM)
add_custom_target(rondo_cuda_kernel DEPENDS ${RONDO_CUDA_IMAGE})
set_source_files_properties(
  cuda_image.c PROPERTIES OBJECT_DEPENDS ${RONDO_CUDA_IMAGE}
                     COMPILE_DEFINITIONS "RONDO_CUDA_IMAGE_FILE=\"${RONDO_CUDA_IMAGE}\"")
set(RONDO_KERNEL_CACHE ${kernel_cache} CACHE INTERNAL "where compiled kernels are kept")
set(RONDO_CUDA_IMAGE ${RONDO_CUDA_IMAGE} CACHE INTERNAL "what nvcc makes of kernel.cu")
