// The memory of a script: what the threads of the program and of the fake driver, and the kernels,
// read from memory that they share, chosen by the seed under PTX's memory model; and which of their
// accesses race.
//
//   script_memory_open -> rondo_fake_reset with `script` -> script_begin ... -> script_end
//
// The program's own code takes part where it is compiled with -fsanitize=thread.
#ifndef RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_MEMORY_H
#define RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_MEMORY_H

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/ptx/ptx_memory.h"
#include "tests/support/script/script.h"

// Makes a memory, sets `script->events`, and writes what the fake driver needs to `driver`. Once in
// a process. An accusation is printed and ends the process.
void script_memory_open(const struct ptx_memory_options *options, struct script_options *script,
                        struct rondo_fake_script *driver);

#endif // RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_MEMORY_H
