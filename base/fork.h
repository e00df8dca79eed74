// Handlers that reset the library's state in a child after fork().
//
// A child has one thread, the one that forked, and a copy of all memory. At the fork, other threads
// of the parent may have held a lock, or have been changing a list. So the child forgets the
// contexts, jobs and threads of its parent without reading them, and initialises every lock again.
// Then it is like a process that has not used the library yet. It frees nothing, and does not write
// to memory that both processes share.
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
