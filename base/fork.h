// What a child process makes of the library's state after fork().
//
// A child has one thread, the one that forked, and a copy of all memory. Other threads of the parent were
// in the middle of something: locks may be held for ever, and lists may be half changed. So the child
// forgets its parent's contexts, jobs and threads without looking at them, makes every lock anew, and is
// then as a process that has not used the library yet. It frees nothing, and writes to no memory that the
// two processes share.
//
// Each file that has state registers a handler for that with RONDO_ON_FORK. fork() calls it in the child
// before it returns there.
#ifndef RONDO_BASE_FORK_H
#define RONDO_BASE_FORK_H

#include <stdint.h>

// The process that forked this one since the library was loaded; 0: none did.
int64_t rondo_forked_from(void);

// Has `handler` called in every child, after rondo_forked_from is right. When the library is loaded, or
// under a lock of the caller's.
void rondo_fork_on_child(void (*handler)(void));

// At file scope: registers a static function when the library is loaded.
#define RONDO_ON_FORK(handler)                                                                     \
  __attribute__((constructor)) static void handler##_register(void) {                              \
    rondo_fork_on_child(handler);                                                                  \
  }

#endif // RONDO_BASE_FORK_H
