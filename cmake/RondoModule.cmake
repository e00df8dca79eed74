# One CMake target a module, headers visible only along an arrow of the design.
#
#   rondo_module(NAME <target> DIR <folder> [SOURCES ...] [USES <target> ...])
#
# Makes the library `rondo_<target>`. Its headers are included as "<folder>/x.h"
# and only by targets that name it in USES (directly or through another module):
# each module gets an include root of its own in the build tree that holds a
# link to its folder and nothing else.
#
# A module without SOURCES is header-only. Modules with sources are object
# libraries, which RondoPackage makes librondo of, built twice where asked: once plain and
# once with RONDO_EXPLORE, the test-only switch that turns on the explorer's
# interleaving points and faults, and without the time stamp counter, which no seed repeats.

function(rondo_module_root target folder)
  set(root ${CMAKE_BINARY_DIR}/include-roots/${target})
  get_filename_component(parent ${root}/${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  if(NOT EXISTS ${root}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
  endif()
  set(RONDO_MODULE_ROOT ${root} PARENT_SCOPE)
endfunction()

function(rondo_module)
  cmake_parse_arguments(M "" "NAME;DIR" "SOURCES;USES" ${ARGN})
  rondo_module_root(${M_NAME} ${M_DIR})
  set(uses "")
  set(uses_explore "")
  foreach(use IN LISTS M_USES)
    list(APPEND uses rondo_${use}_headers)
  endforeach()
  add_library(rondo_${M_NAME}_headers INTERFACE)
  target_include_directories(rondo_${M_NAME}_headers INTERFACE ${RONDO_MODULE_ROOT})
  target_link_libraries(rondo_${M_NAME}_headers INTERFACE ${uses})
  if(NOT M_SOURCES)
    return()
  endif()
  if(M_DIR MATCHES "^(base|queues|scheduler|daemon|runtime)(/|$)")
    set_property(GLOBAL APPEND PROPERTY RONDO_LIBRARY_MODULES rondo_${M_NAME})
  endif()
  foreach(variant IN ITEMS "" _explore _scripted)
    set(target rondo_${M_NAME}${variant})
    add_library(${target} OBJECT ${M_SOURCES})
    target_link_libraries(${target} PRIVATE rondo_${M_NAME}_headers rondo_options)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                               C_VISIBILITY_PRESET hidden)
    if(RONDO_IPO_IN_USE AND NOT variant)
      target_compile_options(${target}
                             PRIVATE "$<$<COMPILE_LANGUAGE:C>:${RONDO_IPO_COMPILE_OPTIONS}>")
    endif()
    if(variant STREQUAL "_explore")
      target_compile_definitions(${target} PRIVATE RONDO_EXPLORE=1 RONDO_NO_TICKS=1)
    endif()
    if(variant STREQUAL "_scripted")
      # Each access calls a function that the tests provide (tests/support/ptx/ptx_hooks.h). The
      # compiler has no hooks for these calls.
      target_compile_options(${target} PRIVATE -fsanitize=thread)
      target_compile_definitions(
        ${target} PRIVATE memcpy=__tsan_memcpy memmove=__tsan_memmove memset=__tsan_memset
                          RONDO_NO_TICKS=1)
    endif()
    if(variant)
      # Only with what links it: not every module is, nor in every preset.
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
endfunction()
