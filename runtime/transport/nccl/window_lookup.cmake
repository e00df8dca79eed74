# Compiles window_lookup.cu for all architectures, for window.c to include. Uses the cache of
# daemon/cuda/kernel.cmake.
set(image ${CMAKE_CURRENT_BINARY_DIR}/rondo_nccl_window_lookup.fatbin)
set(RONDO_NCCL_IMAGE ${image} CACHE INTERNAL "what nvcc makes of window_lookup.cu")
add_custom_command(
  OUTPUT ${image}
  COMMAND
    daemon/cuda/compile_kernel.sh ${image} ${RONDO_KERNEL_CACHE} ${RONDO_NVCC} -std=c++17 -O3
    -Werror=all-warnings --threads 0 ${RONDO_CUDA_GENCODE} -I. -Iinclude
    -I${RONDO_NCCL_INCLUDE_DIR} runtime/transport/nccl/window_lookup.cu
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/window_lookup.cu
          ${PROJECT_SOURCE_DIR}/daemon/cuda/compile_kernel.sh
  DEPFILE ${image}.d
  COMMENT "Compiling the kernel that looks up windows of NCCL"
  VERBATIM)
add_custom_target(rondo_nccl_kernel DEPENDS ${image})
set_source_files_properties(
  transport/nccl/window.c
  PROPERTIES OBJECT_DEPENDS ${image} COMPILE_DEFINITIONS "RONDO_NCCL_IMAGE_FILE=\"${image}\"")
