#include "tests/support/held_locks.h"

#include <stdio.h>

#include "tests/support/counted_locks.h"
#include "tests/support/fake_cuda/fake_cuda.h"

void rondo_test_watch_locks(void) { rondo_fake_watch_locks(rondo_test_count_held_locks); }

bool rondo_test_has_called_with_lock(void) {
  const char *call = rondo_fake_called_with_lock();
  if (call)
    fprintf(stderr, "%s was called with a lock held\n", call);
  return call != NULL;
}
