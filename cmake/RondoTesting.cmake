# Finds what tests need and says how one is registered.
#
#   rondo_test(NAME <name> SOURCES <file> ... LABELS <label> ... [LINK <target> ...]
#              [ARGS <arg> ...] [TIMEOUT <seconds>] [SERIAL] [ONE_THREAD])
#
# Builds the cmocka executable test_<name> and registers it with ctest as <name>.
#
# LABELS  unit, integration, explore, model, fuzz, gpu, soak or bench. Every preset runs unit and
#         integration; the sanitizer presets run nothing else. `tree` beside unit: the test looks at
#         the sources, not at what was built of them, so scripts/check runs it in one preset.
# LINK    modules, such as rondo_daemon_plan or rondo_daemon_plan_explore. Modules are object
#         libraries, so name each one whose code is called, indirectly too. A test that links
#         an _explore variant is itself compiled with RONDO_EXPLORE=1; link no mixture.
# TIMEOUT seconds that the test may take, 120 if not said; four times that under a sanitizer.
# SERIAL  ctest runs nothing else beside it.
# ONE_THREAD  the test has one thread. The thread sanitizer could find nothing, so its preset leaves
#         the test out.
#
#   rondo_fuzz_test(NAME <name> SOURCES <file> ... [LINK <target> ...] [RUNS <count>] [ONE_THREAD]
#                   [PROGRAM <name>])
#
# The sources define LLVMFuzzerTestOneInput. With RONDO_FUZZ (preset fuzz) they are linked with
# libFuzzer and run RUNS inputs, 100,000 if not said, under the label fuzz. Otherwise they are
# linked with tests/support/fuzz_replay.c and become a unit test, which replays the inputs in
# corpus/<name> beside the sources, where findings are kept, and a few thousand random ones.
# PROGRAM the name of the executable after fuzz_, <name> if not said. Tests with different corpora
#         can share one executable.
#
# A test may include any header of the tree ("module/file.h"). Exit status 77 means skipped.
# Under a sanitizer or with coverage the environment has RONDO_TEST_REDUCED=1: see
# tests/support/load.h.

if(RONDO_BUILD_TESTS)
  find_package(PkgConfig)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
    pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
  endif()
  if(NOT CMOCKA_FOUND)
    message(WARNING "cmocka not found (Debian: libcmocka-dev, or scripts/setup check): "
                    "the tests are not built")
    set(RONDO_BUILD_TESTS OFF)
  endif()
  if(NOT ZSTD_FOUND)
    message(STATUS "zstd not found (Debian: libzstd-dev, or scripts/setup check): "
                   "compiled kernels are not executed")
  endif()
endif()

# rondo_long_tests(<seconds> <test> ...): tells ctest how long these tests take. ctest starts long
# tests first, so that none runs alone at the end. Tests that do not exist are ignored.
function(rondo_long_tests seconds)
  foreach(name IN LISTS ARGN)
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST ${seconds})
    endif()
  endforeach()
endfunction()

# What a test finds in its environment. The thread sanitizer makes each process that ends with more
# than one thread sleep, one second if not told otherwise: a fifth of the time of all tests.
set(RONDO_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:handle_segv=2"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=20")
if(RONDO_SANITIZE OR RONDO_COVERAGE)
  list(APPEND RONDO_TEST_ENVIRONMENT "RONDO_TEST_REDUCED=1")
endif()

# gcc 12's thread sanitizer cannot start where the kernel scatters mappings more widely than
# 28 bits, so there its tests run with address randomisation off.
set(RONDO_TEST_LAUNCHER "")
if(RONDO_SANITIZE MATCHES "thread" AND EXISTS /proc/sys/vm/mmap_rnd_bits)
  file(READ /proc/sys/vm/mmap_rnd_bits mmap_rnd_bits)
  find_program(SETARCH setarch)
  mark_as_advanced(SETARCH)
  if(mmap_rnd_bits GREATER 28 AND SETARCH)
    set(RONDO_TEST_LAUNCHER ${SETARCH} --addr-no-randomize)
  endif()
endif()

# Gives a registered test the properties that all tests have.
function(rondo_test_properties name labels timeout)
  if(RONDO_SANITIZE)
    math(EXPR timeout "4 * ${timeout}")
  endif()
  set_tests_properties(
    ${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                       ENVIRONMENT "${RONDO_TEST_ENVIRONMENT}")
endfunction()

# Makes the executable of a test; `libraries` are the modules it links.
function(rondo_test_executable target sources libraries)
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE ${libraries} rondo_options)
  if(libraries MATCHES "_explore(;|$)")
    target_compile_definitions(${target} PRIVATE RONDO_EXPLORE=1)
  endif()
endfunction()

function(rondo_test)
  cmake_parse_arguments(T "SERIAL;ONE_THREAD" "NAME;TIMEOUT" "SOURCES;LABELS;LINK;ARGS" ${ARGN})
  if(NOT T_NAME OR NOT T_SOURCES OR NOT T_LABELS OR T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rondo_test: NAME, SOURCES and LABELS are needed; "
                        "not understood: '${T_UNPARSED_ARGUMENTS}'")
  endif()
  if(T_ONE_THREAD AND RONDO_SANITIZE MATCHES "thread")
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set(target test_${T_NAME})
  string(REPLACE "." "_" target ${target})
  rondo_test_executable(${target} "${T_SOURCES}" "${T_LINK}")
  target_link_libraries(${target} PRIVATE PkgConfig::CMOCKA)
  add_test(NAME ${T_NAME} COMMAND ${RONDO_TEST_LAUNCHER} $<TARGET_FILE:${target}> ${T_ARGS})
  rondo_test_properties(${T_NAME} "${T_LABELS}" ${T_TIMEOUT})
  if(T_SERIAL)
    set_tests_properties(${T_NAME} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# rondo_misuse_test(<name> <target> ...): what the installed program <target> does if it cannot
# write its output. tests/integration/misuse.sh describes the arguments.
function(rondo_misuse_test name target)
  add_test(NAME ${name} COMMAND ${RONDO_TEST_LAUNCHER}
                                ${PROJECT_SOURCE_DIR}/tests/integration/misuse.sh
                                $<TARGET_FILE:${target}> ${ARGN})
  rondo_test_properties(${name} integration 60)
endfunction()

function(rondo_fuzz_test)
  cmake_parse_arguments(T "ONE_THREAD" "NAME;RUNS;PROGRAM" "SOURCES;LINK" ${ARGN})
  if(NOT T_NAME OR NOT T_SOURCES OR T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rondo_fuzz_test: NAME and SOURCES are needed; "
                        "not understood: '${T_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT T_RUNS)
    set(T_RUNS 100000)
  endif()
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${T_NAME})
  if(NOT EXISTS ${corpus})
    set(corpus "")
  endif()
  if(T_ONE_THREAD AND RONDO_SANITIZE MATCHES "thread")
    return()
  endif()
  if(NOT T_PROGRAM)
    set(T_PROGRAM ${T_NAME})
  endif()
  set(target fuzz_${T_PROGRAM})
  if(NOT TARGET ${target})
    rondo_test_executable(${target} "${T_SOURCES}" "${T_LINK}")
  endif()
  if(RONDO_FUZZ)
    if(NOT TARGET fuzz_targets)
      add_custom_target(fuzz_targets)
    endif()
    add_dependencies(fuzz_targets ${target})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(found ${CMAKE_CURRENT_BINARY_DIR}/found/${T_NAME})
    file(MAKE_DIRECTORY ${found})
    add_test(NAME fuzz.${T_NAME}
             COMMAND ${target} -runs=${T_RUNS} -seed=1 -max_total_time=60 -print_final_stats=1
                     -error_exitcode=1 -artifact_prefix=${found}- ${found} ${corpus})
    rondo_test_properties(fuzz.${T_NAME} fuzz 120)
    return()
  endif()
  if(NOT TARGET rondo_fuzz_replay)
    add_library(rondo_fuzz_replay OBJECT ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay.c)
    target_include_directories(rondo_fuzz_replay PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(rondo_fuzz_replay PRIVATE rondo_options)
  endif()
  target_link_libraries(${target} PRIVATE rondo_fuzz_replay)
  add_test(NAME fuzz.${T_NAME} COMMAND ${RONDO_TEST_LAUNCHER} $<TARGET_FILE:${target}> ${corpus})
  rondo_test_properties(fuzz.${T_NAME} unit 60)
endfunction()
