# Compiles kernel.cu once for all architectures, and makes it part of the module's sources.
#
# Machine code for sm_80, sm_90, sm_100, sm_103 and sm_120, as far as nvcc knows them, and PTX for
# every other architecture since. The PTX of compute_100 becomes the code of the last three. No
# contraction: a product is rounded before it is added, as on the host. Build folders of one tree
# share the result, because it depends on the sources alone and takes a minute.
execute_process(COMMAND ${RONDO_NVCC} --list-gpu-code OUTPUT_VARIABLE known_to_nvcc
                COMMAND_ERROR_IS_FATAL ANY)
set(architectures 80 90)
set(newest "")
foreach(architecture IN ITEMS 100 103 120)
  if(known_to_nvcc MATCHES "sm_${architecture}(\n|$)")
    list(APPEND architectures ${architecture})
    list(APPEND newest sm_${architecture})
  endif()
endforeach()
list(JOIN newest "," newest)
set(RONDO_CUDA_GENCODE -gencode=arch=compute_80,code=[sm_80,compute_80]
                       -gencode=arch=compute_90,code=sm_90)
if(newest)
  list(APPEND RONDO_CUDA_GENCODE -gencode=arch=compute_100,code=[${newest}])
endif()
list(JOIN architectures "," RONDO_CUDA_ARCHITECTURES)
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
    ${RONDO_CUDA_GENCODE} -I. -Iinclude daemon/cuda/kernel.cu
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernel.cu ${CMAKE_CURRENT_SOURCE_DIR}/compile_kernel.sh
  DEPFILE ${RONDO_CUDA_IMAGE}.d
  COMMENT "Compiling the CUDA kernels"
  VERBATIM)
add_custom_target(rondo_cuda_kernel DEPENDS ${RONDO_CUDA_IMAGE})
set(definitions RONDO_CUDA_IMAGE_FILE="${RONDO_CUDA_IMAGE}"
                RONDO_CUDA_ARCHITECTURES=${RONDO_CUDA_ARCHITECTURES})
set_source_files_properties(cuda_image.c PROPERTIES OBJECT_DEPENDS ${RONDO_CUDA_IMAGE}
                                                    COMPILE_DEFINITIONS "${definitions}")
set(RONDO_CUDA_GENCODE "${RONDO_CUDA_GENCODE}" CACHE INTERNAL "what nvcc compiles kernels for")
set(RONDO_CUDA_ARCHITECTURES ${RONDO_CUDA_ARCHITECTURES}
    CACHE INTERNAL "of the machine code in RONDO_CUDA_IMAGE")
set(RONDO_KERNEL_CACHE ${kernel_cache} CACHE INTERNAL "where compiled kernels are kept")
set(RONDO_CUDA_IMAGE ${RONDO_CUDA_IMAGE} CACHE INTERNAL "what nvcc makes of kernel.cu")
