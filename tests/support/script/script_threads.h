// The scheduler of the script, for the stand-ins in script_calls.c. All calls: by a thread of the
// script, which is the one that runs.
#ifndef RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_THREADS_H
#define RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SCRIPT_NEVER UINT64_MAX
#define SCRIPT_MOST_OBJECTS 9u // a thread waits for at most so many at once

// Waits until one of `objects` is woken, or until `until_ns`. `call` says what waits, for reports.
// Returns which was woken, or -1: it was time.
int script_wait(const void *const *objects, uint32_t count, uint64_t until_ns, const char *call);
int script_wait_one(const void *object, uint64_t until_ns, const char *call);

// Wakes at most `most` threads that wait for the object, chosen by the seed. Returns how many.
uint32_t script_wake(const void *object, uint32_t most);

// Begins a thread of the script: what pthread_create returns.
int script_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
// Waits until it has ended. False: it is no thread of the script.
bool script_try_await_end(pthread_t id);
// Nobody will join it. False: it is no thread of the script.
bool script_try_detach(pthread_t id);

// The thread has taken (1) or given (-1) that lock.
void script_note_lock(const void *lock, int change);

void script_release(const void *object);
void script_acquire(const void *object);

// libc's own.
int script_real_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *),
                       void *arg);

#endif // RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_THREADS_H
