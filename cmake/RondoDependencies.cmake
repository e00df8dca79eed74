# What Rondo uses from outside, where it is there.
#
# rondo_numa: link it wherever memory or workers are placed. With libnuma it defines
# RONDO_HAVE_NUMA=1; without, it is empty and the code does without placement.
add_library(rondo_numa INTERFACE)
set(RONDO_HAVE_NUMA OFF)
if(RONDO_USE_NUMA)
  find_path(RONDO_NUMA_INCLUDE_DIR numa.h)
  find_library(RONDO_NUMA_LIBRARY numa)
  mark_as_advanced(RONDO_NUMA_INCLUDE_DIR RONDO_NUMA_LIBRARY)
  if(RONDO_NUMA_INCLUDE_DIR AND RONDO_NUMA_LIBRARY)
    set(RONDO_HAVE_NUMA ON)
    target_compile_definitions(rondo_numa INTERFACE RONDO_HAVE_NUMA=1)
    target_include_directories(rondo_numa SYSTEM INTERFACE ${RONDO_NUMA_INCLUDE_DIR})
    target_link_libraries(rondo_numa INTERFACE ${RONDO_NUMA_LIBRARY})
    message(STATUS "libnuma: ${RONDO_NUMA_LIBRARY}")
  else()
    message(STATUS "libnuma not found (Debian: libnuma-dev): "
                   "memory and workers are not placed by NUMA node")
  endif()
else()
  message(STATUS "libnuma not used: memory and workers are not placed by NUMA node")
endif()

# rondo_cuda_toolkit: link it to see cuda.h. Only where RONDO_HAVE_CUDA is on. Nothing of the toolkit is
# linked: the driver is found when the program runs.
set(RONDO_HAVE_CUDA OFF)
if(RONDO_USE_CUDA)
  find_package(CUDAToolkit 13.0 QUIET)
  if(CUDAToolkit_FOUND)
    set(RONDO_HAVE_CUDA ON)
    add_library(rondo_cuda_toolkit INTERFACE)
    target_include_directories(rondo_cuda_toolkit SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(rondo_cuda_toolkit INTERFACE ${CMAKE_DL_LIBS})
    message(STATUS "CUDA toolkit: ${CUDAToolkit_VERSION}, ${CUDAToolkit_INCLUDE_DIRS}")
  else()
    message(STATUS "No CUDA toolkit of version 13 or later found: the CUDA backend is not built")
  endif()
else()
  message(STATUS "CUDA is not used: the CUDA backend is not built")
endif()
