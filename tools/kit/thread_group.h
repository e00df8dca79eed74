// A thread group: one thread a rank, started together and joined together; and the cores that a
// process may use.
#ifndef RONDO_TOOLS_KIT_THREAD_GROUP_H
#define RONDO_TOOLS_KIT_THREAD_GROUP_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct rondo_kit_thread_group {
  uint32_t count;
  bool pinned; // thread r runs on the r-th core that the process may use, modulo their number
  void (*main)(void *arg, uint32_t rank);
  void *arg;
};

struct rondo_kit_threads; // the running threads of a group

// Starts the threads; `group` is copied. Returns null if a thread cannot be created, and then none
// calls `main`.
struct rondo_kit_threads *rondo_kit_thread_group_start(const struct rondo_kit_thread_group *group);

// Waits for all threads and frees `threads`.
void rondo_kit_thread_group_join(struct rondo_kit_threads *threads);

// Starts and joins. Returns 0, or -1 if a thread cannot be created.
int rondo_kit_thread_group_run(const struct rondo_kit_thread_group *group);

// Cores that this process may use, at least 1.
uint32_t rondo_kit_core_count(void);

// The cores that this process may use, which the processes of a machine can send each other.
cpu_set_t rondo_kit_cores(void);

// Binds the calling thread to the `index`-th core that the process may use, modulo their number.
// The thread stays unbound if the system refuses.
void rondo_kit_pin(uint32_t index);

#endif // RONDO_TOOLS_KIT_THREAD_GROUP_H
