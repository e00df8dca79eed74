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

# The CUDA backend is not written yet, with or without nvcc.
message(STATUS "Backends: host")
