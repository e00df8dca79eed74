// Runs the threads of a process one at a time, in an order that a seed chooses, in virtual time.
// The same seed gives the same run, so a failure can be repeated.
//
//   script_begin -> the program: threads, locks, conditions, futexes, sleeps -> script_end
//
// The program is linked with these sources. They stand in for the calls of libc with which threads
// begin, wait and read clocks (script_calls.c), also for shared libraries of the program. Between
// two such calls another thread may run at each script_point.
//
// The run fails if no thread can go on (a deadlock), or after `max_points`. Then it prints what
// each thread waits for, and aborts.
//
// Not covered: processes, signals, pthread_cancel, pthread_exit, semaphores, read-write locks,
// waits in sockets and poll. A thread that was there before script_begin is not part of it.
#ifndef RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_H
#define RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

// What orders threads, for a checker of races. Threads have numbers from 0, in the order in which
// they begin. Each may be null.
struct script_events {
  void (*began)(uint32_t thread, uint32_t by); // in the thread that begins the other
  void (*entered)(uint32_t thread);            // in the thread, before all else
  void (*ended)(uint32_t thread);              // in the thread, after all else
  void (*joined)(uint32_t thread, uint32_t by);
  // The thread gives a lock or a condition to others; the thread takes it.
  void (*released)(uint32_t thread, const void *object);
  void (*acquired)(uint32_t thread, const void *object);
};

struct script_options {
  uint64_t seed;
  uint64_t max_points; // 0: 100 million
  uint32_t stay;       // points that a thread passes between two switches, on average; 0: 16
  uint32_t point_ns;   // virtual time from one point to the next; 0: 10
  struct script_events events;
};

// From here on the calling thread is thread 0, and one thread runs at a time, on this processor.
void script_begin(const struct script_options *options);

// The threads that were begun must have ended, or wait without end: then they stay where they are
// until the process exits. Returns the number of points passed.
uint64_t script_end(void);

// Another thread may run here. Does nothing in a thread that is not part of the script.
void script_point(void);

// The number of the calling thread; UINT32_MAX: it is not part of the script.
uint32_t script_thread(void);

// Virtual time.
uint64_t script_now_ns(void);

// The thread does nothing until it is let go, whatever wakes it: as if its process was stopped, or
// killed. Not the calling thread. Returns false, and changes nothing, if the thread has a lock that
// lies in static memory: others than the threads of its process may want that.
bool script_try_hold(uint32_t thread);
void script_let_go(uint32_t thread);

#endif // RONDO_TESTS_SUPPORT_SCRIPT_SCRIPT_H
