#include "base/fork.h"

#include <assert.h>
#include <pthread.h>
#include <unistd.h>

#define MOST_HANDLERS 16u

static int64_t self, parent;
static void (*handlers[MOST_HANDLERS])(void);
static uint32_t handler_count;

int64_t rondo_forked_from(void) { return parent; }

static void fork_begin_child(void) {
  parent = self;
  self = getpid();
  for (uint32_t i = 0; i < handler_count; i++)
    handlers[i]();
}

void rondo_fork_on_child(void (*handler)(void)) {
  if (!handler_count) {
    self = getpid();
    (void)pthread_atfork(NULL, NULL, fork_begin_child);
  }
  assert(handler_count < MOST_HANDLERS);
  handlers[handler_count++] = handler;
}
