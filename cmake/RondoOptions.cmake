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
target_compile_definitions(rondo_options INTERFACE _GNU_SOURCE)
target_link_libraries(rondo_options INTERFACE Threads::Threads)
if(RONDO_WERROR)
  target_compile_options(rondo_options INTERFACE -Werror)
endif()
if(RONDO_SANITIZE)
  target_compile_options(rondo_options INTERFACE -fsanitize=${RONDO_SANITIZE}
                                                 -fno-omit-frame-pointer)
  target_link_options(rondo_options INTERFACE -fsanitize=${RONDO_SANITIZE})
endif()
if(RONDO_COVERAGE)
  target_compile_options(rondo_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(rondo_options INTERFACE --coverage)
endif()
