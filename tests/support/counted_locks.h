// Counts the locks that each thread holds, in programs that are linked with rondo_counted_locks.
// The stand-in for the CUDA driver finds the function by its name if RONDO_TEST_FAKE_CUDA says
// watch_locks=1, and then ends a program that makes a call with a lock held.
#ifndef RONDO_TESTS_SUPPORT_COUNTED_LOCKS_H
#define RONDO_TESTS_SUPPORT_COUNTED_LOCKS_H

// The mutexes that the program itself has taken, and in debug builds the locks of base/lock.h, that
// the calling thread holds.
unsigned rondo_test_count_held_locks(void);

#endif // RONDO_TESTS_SUPPORT_COUNTED_LOCKS_H
