// Finds calls of the CUDA driver that are made with a lock of Rondo's held (counted_locks.h). For
// programs that are linked with rondo_held_locks and the stand-in for the driver.
//
//   rondo_test_watch_locks -> ... -> rondo_test_has_called_with_lock
#ifndef RONDO_TESTS_SUPPORT_HELD_LOCKS_H
#define RONDO_TESTS_SUPPORT_HELD_LOCKS_H

#include <stdbool.h>

// Begins to watch the stand-in for the driver.
void rondo_test_watch_locks(void);
// Returns true, and names the first such call on stderr, if there was one since.
bool rondo_test_has_called_with_lock(void);

#endif // RONDO_TESTS_SUPPORT_HELD_LOCKS_H
