// A job of several processes of this machine, for tests: forked from the test, each with some of
// the ranks, each a thread.
//
//   rondo_family_run -> [ in each process: rank threads call `member` ] -> how each ended
//
// The test itself must not have used the library before: threads do not survive a fork.
#ifndef RONDO_TESTS_SUPPORT_FAMILY_H
#define RONDO_TESTS_SUPPORT_FAMILY_H

#include <stdint.h>
#include <sys/types.h>

#include <rondo/rondo.h>

#define RONDO_FAMILY_MAX 16u

// In memory that all processes of a family share.
struct rondo_family {
  uint32_t processes, ranks; // in all
  uint32_t machines;         // on which the processes are; 0: none but this one
  struct rondo_config cfg;   // but for rank, id and device
  uint32_t devices;          // ranks are on these in turn, on CUDA
  uint64_t seed;
  uint32_t words[64]; // for the test
  // The family's own.
  struct rondo_unique_id ids[4]; // of jobs, one after the other
  uint32_t has_id[4];
  pid_t pids[RONDO_FAMILY_MAX];
  int ends[RONDO_FAMILY_MAX]; // as waitpid says; -1: still there
  void (*member)(struct rondo_family *f, uint32_t rank);
  void (*watch)(struct rondo_family *f);
};

// The number of machines (machines.h, open) on which later families are.
extern uint32_t rondo_family_machines;
// 1: process p of a family is on machine p modulo their number; else the machines are filled one
// after the other.
extern uint32_t rondo_family_in_turn;

// A family in shared memory, with the default configuration, on the backend that RONDO_TEST_BACKEND
// says and as many devices as RONDO_TEST_DEVICES.
struct rondo_family *rondo_family_create(uint32_t processes, uint32_t ranks);
void rondo_family_destroy(struct rondo_family *f);

// Forks, runs `member` for each rank, and `watch` (may be null) meanwhile in the test's own
// process, and waits for all. Fails the test if a process ends otherwise than with 0, unless
// `watch` killed it.
void rondo_family_run(struct rondo_family *f, void (*member)(struct rondo_family *f, uint32_t rank),
                      void (*watch)(struct rondo_family *f));

// ---- for members ----

// Fails the process, with a line that says where.
#define RONDO_MEMBER_TRUE(condition)                                                               \
  rondo_member_true((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define RONDO_MEMBER_STATUS(call, expected)                                                        \
  rondo_member_status((call), (expected), #call, __FILE__, __LINE__)
void rondo_member_true(int is_so, const char *text, const char *file, int line);
void rondo_member_status(int got, int expected, const char *text, const char *file, int line);

// Opens rank `rank` of `ranks` of the family's n-th job, whose rank 0 makes the id.
struct rondo_context rondo_family_open(struct rondo_family *f, uint32_t job, uint32_t rank,
                                       uint32_t ranks);
void rondo_family_close(struct rondo_context ctx);

// The number of the process in which a rank lives.
uint32_t rondo_family_process_of(const struct rondo_family *f, uint32_t rank);

// The machine of a process, where there are machines.
uint32_t rondo_family_machine_of(const struct rondo_family *f, uint32_t process);

// Waits until `*word` is at least `value`; fails the process if it never is.
void rondo_family_await(const uint32_t *word, uint32_t value);
void rondo_family_add(uint32_t *word);

// The resources of a process: open descriptors, threads, mappings; and the entries of /dev/shm
// whose names begin with rondo.
struct rondo_belongings {
  uint32_t descriptors, threads, mappings, shared_files;
};
struct rondo_belongings rondo_belongings_count(void);

#endif // RONDO_TESTS_SUPPORT_FAMILY_H
