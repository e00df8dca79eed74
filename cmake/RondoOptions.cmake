# Flags that every target of Rondo is compiled with, and nothing outside it.
add_library(rondo_options INTERFACE)
target_compile_options(
  rondo_options
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wstrict-prototypes
            -Wmissing-prototypes
            -Wpointer-arith
            -Wcast-qual
            -Wundef
            -fno-strict-aliasing)
target_compile_definitions(rondo_options INTERFACE _GNU_SOURCE
                                                   $<$<CONFIG:Debug>:RONDO_NOTE_LOCKS=1>)
target_link_libraries(rondo_options INTERFACE Threads::Threads)
# clang says where it did not vectorise a loop that asks for it, which sanitizers prevent.
target_compile_options(rondo_options INTERFACE $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
if(RONDO_WERROR)
  target_compile_options(rondo_options INTERFACE -Werror)
endif()
if(RONDO_SANITIZE)
  target_compile_options(rondo_options INTERFACE -fsanitize=${RONDO_SANITIZE}
                                                 -fno-sanitize-recover=all
                                                 -fno-omit-frame-pointer)
  target_link_options(rondo_options INTERFACE -fsanitize=${RONDO_SANITIZE})
endif()
if(RONDO_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RONDO_FUZZ needs clang, for libFuzzer: configure with --preset fuzz")
  endif()
  target_compile_options(rondo_options INTERFACE -fsanitize=fuzzer-no-link)
  target_compile_definitions(rondo_options INTERFACE RONDO_FUZZ=1)
endif()
if(RONDO_COVERAGE)
  target_compile_options(rondo_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(rondo_options INTERFACE --coverage)
endif()

# A small run goes through a dozen files. Calls between files took a tenth of its time. Only the
# shared library is linked this way. Its objects also hold ordinary code, which all other targets
# use.
set(RONDO_IPO_IN_USE OFF)
if(RONDO_IPO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE MATCHES "^Rel"
   AND NOT RONDO_SANITIZE AND NOT RONDO_COVERAGE)
  set(RONDO_IPO_IN_USE ON)
  set(RONDO_IPO_COMPILE_OPTIONS -flto=auto -ffat-lto-objects)
  target_link_options(rondo_options INTERFACE
                      $<IF:$<BOOL:$<TARGET_PROPERTY:RONDO_IS_OPTIMISED_WHOLE>>,-flto=auto,-fno-lto>)
endif()

# Runs the tests first when built by the workflow preset "coverage"; see CMakePresets.json.
if(RONDO_COVERAGE AND PROJECT_IS_TOP_LEVEL)
  find_program(GCOVR gcovr)
  if(GCOVR)
    add_custom_target(
      coverage-report
      COMMAND ${GCOVR} --root ${PROJECT_SOURCE_DIR} --exclude tests/ --exclude benchmarks/
              --html-details ${PROJECT_BINARY_DIR}/coverage.html
              --txt ${PROJECT_BINARY_DIR}/coverage.txt --print-summary ${PROJECT_BINARY_DIR}
      VERBATIM)
  else()
    add_custom_target(
      coverage-report COMMAND ${CMAKE_COMMAND} -E echo "gcovr not found: scripts/setup all"
      COMMAND ${CMAKE_COMMAND} -E false)
  endif()
endif()
