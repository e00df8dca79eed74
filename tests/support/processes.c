#include "tests/support/processes.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/named.h"

void rondo_test_child_begin(void) {
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
    (void)signal(crashes[i], SIG_DFL);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void run_child(struct rondo_test_child *child, void (*run)(struct rondo_test_child *)) {
  rondo_test_child_begin();
  run(child);
  fflush(NULL);
  _exit(0);
}

void rondo_test_fork(struct rondo_test_processes *p, uint32_t count,
                     void (*run)(struct rondo_test_child *child), void *arg) {
  assert_true(count <= RONDO_TEST_PROCESSES);
  memset(p, 0, sizeof *p);
  fflush(NULL);
  for (uint32_t r = 0; r < count; r++) {
    int down[2];
    int up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
      struct rondo_test_child child = {r, count, up[1], down[0], arg};
      close(down[1]);
      close(up[0]);
      for (uint32_t i = 0; i < r; i++) {
        close(p->to[i]);
        close(p->from[i]);
      }
      run_child(&child, run);
    }
    close(down[0]);
    close(up[1]);
    p->pids[r] = pid;
    p->to[r] = down[1];
    p->from[r] = up[0];
  }
  p->count = count;
}

static int move_all(int fd, void *bytes, size_t size, int is_write) {
  char *at = bytes;
  while (size) {
    ssize_t n = is_write ? write(fd, at, size) : read(fd, at, size);
    if (n <= 0)
      return 0;
    at += n;
    size -= (size_t)n;
  }
  return 1;
}

struct rondo_unique_id rondo_test_child_id(struct rondo_test_child *child,
                                           const struct rondo_config *cfg) {
  struct rondo_unique_id id;
  struct rondo_config local = *cfg;
  memcpy(local.interfaces, "=lo", sizeof "=lo");
  if (child->rank == 0) {
    RONDO_CHILD_CHECK(rondo_unique_id_listen(&id, &local) == RONDO_SUCCESS);
    RONDO_CHILD_CHECK(move_all(child->to, &id, sizeof id, 1));
  }
  RONDO_CHILD_CHECK(move_all(child->from, &id, sizeof id, 0));
  return id;
}

void rondo_test_pass_id(struct rondo_test_processes *p) {
  struct rondo_unique_id id;
  assert_true(move_all(p->from[0], &id, sizeof id, 0));
  for (uint32_t r = 0; r < p->count; r++)
    assert_true(move_all(p->to[r], &id, sizeof id, 1));
}

void rondo_test_child_say(struct rondo_test_child *child) {
  char byte = 1;
  RONDO_CHILD_CHECK(move_all(child->to, &byte, 1, 1));
}

void rondo_test_child_receive(struct rondo_test_child *child) {
  char byte;
  RONDO_CHILD_CHECK(move_all(child->from, &byte, 1, 0));
}

void rondo_test_say(struct rondo_test_processes *p, uint32_t rank) {
  char byte = 1;
  assert_true(move_all(p->to[rank], &byte, 1, 1));
}

void rondo_test_receive(struct rondo_test_processes *p, uint32_t rank) {
  char byte;
  assert_true(move_all(p->from[rank], &byte, 1, 0));
}

void rondo_test_reap(struct rondo_test_processes *p, uint32_t killed) {
  int failed = 0;
  for (uint32_t r = 0; r < p->count; r++) {
    int status = 0;
    assert_int_equal(waitpid(p->pids[r], &status, 0), p->pids[r]);
    if (killed >> r & 1)
      failed |= !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
    else
      failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    close(p->to[r]);
    close(p->from[r]);
  }
  assert_int_equal(failed, 0);
}
