// What a child process makes of the library's state after fork().
//
// A child has one thread, the one that forked, and a copy of all memory. Other threads of the
// parent may have held a lock, or half changed a list. So the child forgets its parent's contexts,
// jobs and threads without reading them, initialises every lock again, and is then like a process
// that has not used the library yet. It frees nothing, and writes to no memory that both processes
// share.
//
// Each file that has state registers a handler with RONDO_ON_FORK. fork() calls the handler in the
// child before it returns there.
#ifndef RONDO_BASE_FORK_H
#define RONDO_BASE_FORK_H

#include <stdint.h>

// The process that forked this one since the library was loaded; 0: none did.
int64_t rondo_forked_from(void);

// Registers a handler for every child. It may call rondo_forked_from. Called when the library is
// loaded.
void rondo_fork_on_child(void (*handler)(void));

// At file scope: registers a static function when the library is loaded.
#define RONDO_ON_FORK(handler)                                                                     \
  __attribute__((constructor)) static void handler##_register(void) {                              \
    rondo_fork_on_child(handler);                                                                  \
  }

#endif // RONDO_BASE_FORK_H
