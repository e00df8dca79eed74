// Processes that a test forks, as ranks of a job; for tests of what happens between processes.
//
// The test itself starts no thread before it forks. A child ends by returning from its function; it
// fails the test by RONDO_CHILD_CHECK or by dying.
#ifndef RONDO_TESTS_SUPPORT_PROCESSES_H
#define RONDO_TESTS_SUPPORT_PROCESSES_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <rondo/rondo.h>

#define RONDO_TEST_PROCESSES 16u

struct rondo_test_processes {
  uint32_t count;
  pid_t pids[RONDO_TEST_PROCESSES];
  int to[RONDO_TEST_PROCESSES], from[RONDO_TEST_PROCESSES]; // pipes
};

// The parameters of a child: its rank, the number of ranks, and its ends of the pipes.
struct rondo_test_child {
  uint32_t rank, count;
  int to, from;
  void *arg;
};

// Ends the child where `holds` is 0.
#define RONDO_CHILD_CHECK(holds)                                                                   \
  do {                                                                                             \
    if (!(holds)) {                                                                                \
      fprintf(stderr, "%s:%d: rank %u: does not hold: %s\n", __FILE__, __LINE__, child->rank,      \
              #holds);                                                                             \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

// What a forked child of a test does first: it ends with its parent, and when it crashes. Without
// that, cmocka would go on with the next test in the child, which forks, too.
void rondo_test_child_begin(void);

// Forks `count` children that call `run`.
void rondo_test_fork(struct rondo_test_processes *p, uint32_t count,
                     void (*run)(struct rondo_test_child *child), void *arg);

// In the children: rank 0 makes an id on loopback, the others get it; all by way of the test, which
// calls rondo_test_pass_id meanwhile.
struct rondo_unique_id rondo_test_child_id(struct rondo_test_child *child,
                                           const struct rondo_config *cfg);
void rondo_test_pass_id(struct rondo_test_processes *p);

// A byte from a child to the test, or the other way; both wait for it.
void rondo_test_child_say(struct rondo_test_child *child);
void rondo_test_child_receive(struct rondo_test_child *child);
void rondo_test_say(struct rondo_test_processes *p, uint32_t rank);
void rondo_test_receive(struct rondo_test_processes *p, uint32_t rank);

// Waits for all; fails the test if one failed. Those in `killed` (a bit each) died by SIGKILL.
void rondo_test_reap(struct rondo_test_processes *p, uint32_t killed);

#endif // RONDO_TESTS_SUPPORT_PROCESSES_H
