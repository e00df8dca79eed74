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

# rondo_xxhash: link it to see xxhash.h, which is compiled in; its library is not linked. With
# it RONDO_HAVE_XXHASH is on; without, state is not synchronised (include/rondo/state.h).
add_library(rondo_xxhash INTERFACE)
set(RONDO_HAVE_XXHASH OFF)
if(RONDO_USE_XXHASH)
  find_path(RONDO_XXHASH_INCLUDE_DIR xxhash.h)
  mark_as_advanced(RONDO_XXHASH_INCLUDE_DIR)
  set(version "")
  if(RONDO_XXHASH_INCLUDE_DIR)
    file(STRINGS ${RONDO_XXHASH_INCLUDE_DIR}/xxhash.h version
         REGEX "^#define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
    string(REGEX REPLACE "[^0-9;]" "" version "${version}")
    string(REPLACE ";" "." version "${version}")
  endif()
  if(version VERSION_GREATER_EQUAL 0.8)
    set(RONDO_HAVE_XXHASH ON)
    target_compile_definitions(rondo_xxhash INTERFACE RONDO_HAVE_XXHASH=1)
    target_include_directories(rondo_xxhash SYSTEM INTERFACE ${RONDO_XXHASH_INCLUDE_DIR})
    message(STATUS "xxHash ${version}: ${RONDO_XXHASH_INCLUDE_DIR}")
  else()
    message(STATUS "xxHash 0.8 not found (Debian: libxxhash-dev): state is not synchronised")
  endif()
else()
  message(STATUS "xxHash not used: state is not synchronised")
endif()

# rondo_cuda_toolkit: link it to see cuda.h. It exists only if RONDO_HAVE_CUDA is on. Nothing of the
# toolkit is linked: the program finds the driver when it runs. RONDO_NVCC is the toolkit's
# compiler. RONDO_CUDA_STUB is the library that stands for the driver in link tests. Either may be
# missing. Without an installed toolkit the one of `scripts/setup cuda` is taken, in build/cuda.
#
# FindCUDAToolkit of CMake 3.25 (Debian 12) stops at a toolkit of version 13, which has no
# nvToolsExt.
set(RONDO_HAVE_CUDA OFF)
if(RONDO_USE_CUDA)
  find_program(RONDO_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
               PATHS /usr/local/cuda ${PROJECT_SOURCE_DIR}/build/cuda/nvidia/cu13 PATH_SUFFIXES bin)
  set(toolkit "")
  if(RONDO_NVCC)
    file(REAL_PATH ${RONDO_NVCC} toolkit)
    get_filename_component(toolkit ${toolkit} DIRECTORY)
    get_filename_component(toolkit ${toolkit} DIRECTORY)
  endif()
  find_path(RONDO_CUDA_INCLUDE_DIR cuda.h HINTS ${toolkit} ENV CUDA_HOME ENV CUDA_PATH
            PATHS /usr/local/cuda PATH_SUFFIXES include)
  find_library(RONDO_CUDA_STUB cuda HINTS ${toolkit} ENV CUDA_HOME ENV CUDA_PATH
               PATHS /usr/local/cuda PATH_SUFFIXES lib64/stubs lib/stubs)
  mark_as_advanced(RONDO_NVCC RONDO_CUDA_INCLUDE_DIR RONDO_CUDA_STUB)
  set(version 0)
  if(RONDO_CUDA_INCLUDE_DIR)
    file(STRINGS ${RONDO_CUDA_INCLUDE_DIR}/cuda.h version REGEX "^#define CUDA_VERSION [0-9]+")
    string(REGEX REPLACE "[^0-9]" "" version "${version}")
  endif()
  if(version GREATER_EQUAL 12080)
    set(RONDO_HAVE_CUDA ON)
    add_library(rondo_cuda_toolkit INTERFACE)
    target_include_directories(rondo_cuda_toolkit SYSTEM INTERFACE ${RONDO_CUDA_INCLUDE_DIR})
    target_link_libraries(rondo_cuda_toolkit INTERFACE ${CMAKE_DL_LIBS})
    message(STATUS "CUDA toolkit: ${RONDO_CUDA_INCLUDE_DIR}, ${RONDO_NVCC}")
  else()
    message(STATUS "No CUDA toolkit of version 12.8 or later found (scripts/setup cuda): "
                   "the CUDA backend is not built")
  endif()
else()
  message(STATUS "CUDA is not used: the CUDA backend is not built")
endif()

# rondo_mesh_libraries: what the runtime needs for jobs of several processes. With libevent (the
# event loop) and libsodium (the keyed hash that proves the job's secret) RONDO_HAVE_MESH is on;
# without, jobs stay in one process.
add_library(rondo_mesh_libraries INTERFACE)
set(RONDO_HAVE_MESH OFF)
if(RONDO_USE_MESH)
  find_path(RONDO_EVENT_INCLUDE_DIR event2/event.h)
  find_library(RONDO_EVENT_LIBRARY event_core)
  find_path(RONDO_SODIUM_INCLUDE_DIR sodium.h)
  find_library(RONDO_SODIUM_LIBRARY sodium)
  mark_as_advanced(RONDO_EVENT_INCLUDE_DIR RONDO_EVENT_LIBRARY RONDO_SODIUM_INCLUDE_DIR
                   RONDO_SODIUM_LIBRARY)
  if(RONDO_EVENT_INCLUDE_DIR AND RONDO_EVENT_LIBRARY AND RONDO_SODIUM_INCLUDE_DIR
     AND RONDO_SODIUM_LIBRARY)
    set(RONDO_HAVE_MESH ON)
    target_include_directories(rondo_mesh_libraries SYSTEM INTERFACE ${RONDO_EVENT_INCLUDE_DIR}
                                                                     ${RONDO_SODIUM_INCLUDE_DIR})
    target_link_libraries(rondo_mesh_libraries INTERFACE ${RONDO_EVENT_LIBRARY}
                                                         ${RONDO_SODIUM_LIBRARY})
    message(STATUS "Several processes: ${RONDO_EVENT_LIBRARY}, ${RONDO_SODIUM_LIBRARY}")
  else()
    message(STATUS "libevent or libsodium not found (Debian: libevent-dev, libsodium-dev): "
                   "the ranks of a job share one process")
  endif()
else()
  message(STATUS "libevent and libsodium not used: the ranks of a job share one process")
endif()

# rondo_pmix: link it to see pmix.h. It exists only if RONDO_HAVE_PMIX is on. The library itself is
# not linked: Rondo loads it when a launcher offers PMIx and a job needs it.
add_library(rondo_pmix INTERFACE)
set(RONDO_HAVE_PMIX OFF)
if(RONDO_USE_PMIX AND RONDO_HAVE_MESH)
  find_path(RONDO_PMIX_INCLUDE_DIR pmix.h PATH_SUFFIXES pmix pmix2
            HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)
  mark_as_advanced(RONDO_PMIX_INCLUDE_DIR)
  if(RONDO_PMIX_INCLUDE_DIR)
    set(RONDO_HAVE_PMIX ON)
    target_include_directories(rondo_pmix SYSTEM INTERFACE ${RONDO_PMIX_INCLUDE_DIR})
    message(STATUS "PMIx: ${RONDO_PMIX_INCLUDE_DIR}")
  else()
    message(STATUS "PMIx not found (Debian: libpmix-dev): launchers are asked by their variables")
  endif()
else()
  message(STATUS "PMIx not used: launchers are asked by their variables")
endif()

# rondo_ucx: link it to see ucp/api/ucp.h. It exists only if RONDO_HAVE_UCX is on. The library
# itself is not linked: Rondo loads it when a job first has ranks on two machines.
add_library(rondo_ucx INTERFACE)
set(RONDO_HAVE_UCX OFF)
if(RONDO_USE_UCX AND RONDO_HAVE_MESH)
  find_path(RONDO_UCX_INCLUDE_DIR ucp/api/ucp.h)
  mark_as_advanced(RONDO_UCX_INCLUDE_DIR)
  if(RONDO_UCX_INCLUDE_DIR)
    set(RONDO_HAVE_UCX ON)
    target_include_directories(rondo_ucx SYSTEM INTERFACE ${RONDO_UCX_INCLUDE_DIR})
    message(STATUS "UCX: ${RONDO_UCX_INCLUDE_DIR}")
  else()
    message(STATUS "UCX not found (Debian: libucx-dev): "
                   "the processes of a job share one machine's memory")
  endif()
else()
  message(STATUS "UCX not used: the processes of a job share one machine's memory")
endif()

# rondo_nccl_headers: link it to see nccl.h. It exists only if RONDO_HAVE_NCCL is on, which means
# that windows of NCCL can be compiled; else RONDO_NO_NCCL says why not. Rondo loads the library
# when a job first asks for a window. Only version 2.28 will do: a later one has other device
# structures and needs other requirements.
add_library(rondo_nccl_headers INTERFACE)
set(RONDO_HAVE_NCCL OFF)
set(RONDO_NO_NCCL "NCCL was not to be used")
if(RONDO_USE_NCCL AND RONDO_HAVE_CUDA AND RONDO_NVCC)
  find_path(RONDO_NCCL_INCLUDE_DIR nccl.h HINTS ${RONDO_CUDA_INCLUDE_DIR})
  mark_as_advanced(RONDO_NCCL_INCLUDE_DIR)
  set(RONDO_NO_NCCL "there was no nccl.h")
  if(RONDO_NCCL_INCLUDE_DIR)
    file(STRINGS ${RONDO_NCCL_INCLUDE_DIR}/nccl.h version
         REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" version "${version}")
    string(REPLACE ";" "." version "${version}")
    set(RONDO_NO_NCCL "NCCL was of version ${version}, not 2.28")
    if(version VERSION_GREATER_EQUAL 2.28 AND version VERSION_LESS 2.29)
      set(RONDO_NO_NCCL "there was no nccl_device.h")
      if(EXISTS ${RONDO_NCCL_INCLUDE_DIR}/nccl_device.h)
        set(RONDO_HAVE_NCCL ON)
      endif()
    endif()
  endif()
elseif(RONDO_USE_NCCL)
  set(RONDO_NO_NCCL "there was no CUDA toolkit with nvcc")
endif()
if(RONDO_HAVE_NCCL)
  target_include_directories(rondo_nccl_headers SYSTEM INTERFACE ${RONDO_NCCL_INCLUDE_DIR})
  target_link_libraries(rondo_nccl_headers INTERFACE rondo_cuda_toolkit)
  message(STATUS "NCCL ${version} for windows: ${RONDO_NCCL_INCLUDE_DIR}")
else()
  message(STATUS "Windows of NCCL are not built: ${RONDO_NO_NCCL}")
endif()
