// The drop-in library in several processes of one machine, which pass the unique id on by pipes.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rondo/types.h>

#include "adapters/nccl/abi.h"
#include "tests/support/named.h"

#define PROCESSES 3
#define COUNT 3000
#define ROUNDS 10
#define CHILD_SECONDS 40 // after which a child that hangs is killed

// Ends a child with a line, where `holds` is 0.
static void check(int holds, const char *text, int line) {
  if (holds)
    return;
  fprintf(stderr, "%d: does not hold: %s: %s\n", line, text, ncclGetLastError(NULL));
  _exit(1);
}
#define CHECK(holds) check((holds) ? 1 : 0, #holds, __LINE__)
#define NCCL(call) CHECK((call) == RONDO_NCCL_SUCCESS)

static int pipes[PROCESSES][2]; // what the first process says to each other one

// An id that the first process makes and the others hear of.
static struct rondo_nccl_id share_id(int rank) {
  struct rondo_nccl_id id;
  if (rank) {
    CHECK(read(pipes[rank][0], &id, sizeof id) == (ssize_t)sizeof id);
    return id;
  }
  NCCL(ncclGetUniqueId(&id));
  for (int r = 1; r < PROCESSES; r++)
    CHECK(write(pipes[r][1], &id, sizeof id) == (ssize_t)sizeof id);
  return id;
}

static int32_t *filled(int32_t value) {
  int32_t *data = malloc(COUNT * sizeof *data);
  CHECK(data);
  for (int i = 0; i < COUNT; i++)
    data[i] = value + i;
  return data;
}

struct member {
  int rank;
  rondo_nccl_comm_t pair[2];
  int32_t *sent, *got[2];
};

// Two communicators in one group, in an order of each process's own.
static void run_rounds(const struct member *m) {
  for (int round = 0; round < ROUNDS; round++) {
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
      int c = (m->rank + i + round) % 2;
      NCCL(ncclAllReduce(m->sent, m->got[c], COUNT, RONDO_INT32, RONDO_SUM, m->pair[c], NULL));
    }
    NCCL(ncclGroupEnd());
    CHECK(m->got[0][COUNT - 1] == 6 + PROCESSES * (COUNT - 1));
    CHECK(m->got[1][COUNT - 1] == 6 + PROCESSES * (COUNT - 1));
  }
}

static void run_ring(const struct member *m) {
  int next = (m->rank + 1) % PROCESSES, last = (m->rank + PROCESSES - 1) % PROCESSES;
  NCCL(ncclGroupStart());
  NCCL(ncclSend(m->sent, COUNT, RONDO_INT32, next, m->pair[0], NULL));
  NCCL(ncclRecv(m->got[0], COUNT, RONDO_INT32, last, m->pair[0], NULL));
  NCCL(ncclGroupEnd());
  CHECK(m->got[0][0] == last + 1);
}

#define REFUSED(call) CHECK((call) == RONDO_NCCL_INVALID_ARGUMENT)

// A child that has no part in the communicators of its parent, with a group open and a call kept.
static void run_child(const struct member *m) {
  int number, error;
  alarm(CHILD_SECONDS);
  CHECK(ncclGroupEnd() != RONDO_NCCL_SUCCESS);
  REFUSED(ncclAllReduce(m->sent, m->got[0], COUNT, RONDO_INT32, RONDO_SUM, m->pair[0], NULL));
  REFUSED(ncclCommCount(m->pair[0], &number));
  REFUSED(ncclCommGetAsyncError(m->pair[0], &error));
  REFUSED(ncclCommFinalize(m->pair[0]));
  REFUSED(ncclCommAbort(m->pair[0]));
  REFUSED(ncclCommDestroy(m->pair[1]));
  _exit(0);
}

static void run_fork(const struct member *m) {
  int status = -1;
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(m->sent, m->got[0], COUNT, RONDO_INT32, RONDO_SUM, m->pair[0], NULL));
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    run_child(m);
  NCCL(ncclGroupEnd());
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(m->got[0][COUNT - 1] == 6 + PROCESSES * (COUNT - 1));
}

// All but rank 1.
static void run_split(const struct member *m) {
  rondo_nccl_comm_t part;
  int color = m->rank == 1 ? RONDO_NCCL_NO_COLOR : 0;
  NCCL(ncclCommSplit(m->pair[1], color, m->rank, &part, NULL));
  CHECK((part == NULL) == (m->rank == 1));
  if (!part)
    return;
  NCCL(ncclAllGather(m->sent, m->got[1], 1, RONDO_INT32, part, NULL));
  CHECK(m->got[1][0] == 1 && m->got[1][1] == PROCESSES);
  NCCL(ncclCommDestroy(part));
}

static void run_rank(int rank) {
  struct member m = {.rank = rank, .sent = filled(rank + 1), .got = {filled(0), filled(0)}};
  for (int c = 0; c < 2; c++) {
    struct rondo_nccl_id id = share_id(rank);
    NCCL(ncclCommInitRank(&m.pair[c], PROCESSES, id, rank));
  }
  run_rounds(&m);
  run_fork(&m);
  run_ring(&m);
  run_split(&m);
  for (int c = 0; c < 2; c++) {
    NCCL(ncclCommFinalize(m.pair[c]));
    NCCL(ncclCommDestroy(m.pair[c]));
    free(m.got[c]);
  }
  free(m.sent);
}

static pid_t start(int rank) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  // Who is not the first keeps no end to write to, so that it hears of the first one's end.
  for (int r = 0; r < PROCESSES && rank; r++)
    close(pipes[r][1]);
  run_rank(rank);
  exit(0);
}

static void processes_are_ranks_as_threads_are(void **state) {
  pid_t pids[PROCESSES];
  int failed = 0;
  (void)state;
  for (int r = 0; r < PROCESSES; r++)
    assert_int_equal(pipe(pipes[r]), 0);
  for (int r = 0; r < PROCESSES; r++) {
    pids[r] = start(r);
    assert_true(pids[r] > 0);
  }
  for (int r = 0; r < PROCESSES; r++) {
    close(pipes[r][0]);
    close(pipes[r][1]);
  }
  for (int r = 0; r < PROCESSES; r++) {
    int status = -1;
    assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
    failed += status != 0;
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("nccl_processes", processes_are_ranks_as_threads_are),
  };
  if (setenv("RONDO_NCCL_BACKEND", "host", 1) || setenv("NCCL_SOCKET_IFNAME", "lo", 1))
    return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
