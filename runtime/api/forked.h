// What a child process makes of the library's state after fork().
//
// A child has one thread, the one that forked, and a copy of all memory, in which other threads were in the
// middle of something: locks may be held for ever, and lists may be half changed. So the child forgets its
// parent's contexts, jobs and threads without looking at them, makes every lock anew, and is then as a process
// that has not used the library yet. It frees nothing, and writes to no memory that the two share.
//
// Each file that has state has a call for it, which fork() makes in the child before it returns there
// (forked.c has the list). daemon/host/device.c, daemon/cuda/api.c, runtime/net/event_loop.c and
// runtime/transport/ucx/ucx.c have handlers of their own.
#ifndef RONDO_RUNTIME_API_FORKED_H
#define RONDO_RUNTIME_API_FORKED_H

#include <stdint.h>

// The process that forked this one since the library was loaded; 0: none did.
int64_t rondo_forked_from(void);

// From now on the handles that are there, those of the parent, are refused with RONDO_ERR_CLOSED.
void rondo_handles_forked(void);
// Only the calling thread is left.
void rondo_callers_forked(void);

#endif // RONDO_RUNTIME_API_FORKED_H
