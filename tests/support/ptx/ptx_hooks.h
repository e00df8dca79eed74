// Lets C code of the CPU take part in a scripted run. gcc's and clang's -fsanitize=thread makes the
// code call a function at each access. This library has those functions, in the place of the thread
// sanitizer's own, and passes the accesses to a memory (ptx_memory.h).
//
//   ptx_hooks_enter -> a call of code that was compiled with -fsanitize=thread -> ptx_hooks_leave
//
// Only the code is compiled so; the program is not linked with -fsanitize=thread. Accesses to bytes
// that are in no range of the memory, and those outside of enter and leave, go to the process.
//
// An atomic load may return an old value. A plain load reads what the process has, which is the
// only value that it may read if it races with no store; if it does, the memory accuses it.
// memcpy, memset and the like are not seen, except where clang's calls of __tsan_memcpy name them.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_HOOKS_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_HOOKS_H

#include "tests/support/ptx/ptx_memory.h"

// Each may be null.
struct ptx_hooks_events {
  void (*point)(void); // before each atomic access: another thread may run
  // An atomic access to bytes in no range. It orders this thread and others that make one there.
  void (*meet)(const void *at);
};

// Accesses of this thread are those of `agent`, a thread of the CPU, until ptx_hooks_leave.
// `name` is for accusations, whose `text_line` is the place in the program, as addr2line takes it.
// `events` may be null.
void ptx_hooks_enter(struct ptx_memory *m, uint32_t agent, const char *name,
                     const struct ptx_hooks_events *events);
void ptx_hooks_leave(void);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_HOOKS_H
