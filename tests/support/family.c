#include "tests/support/family.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "tests/support/job.h"
#include "tests/support/machines.h"
#include "tests/support/named.h"
#include "tests/support/processes.h"
#include "tools/kit/thread_group.h"

#define LIFETIME_SECONDS 50u

uint32_t rondo_family_machines;
uint32_t rondo_family_in_turn;

struct rondo_family *rondo_family_create(uint32_t processes, uint32_t ranks) {
  struct rondo_config defaults = RONDO_CONFIG_INIT;
  struct rondo_family *f =
      mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(f != MAP_FAILED && processes <= RONDO_FAMILY_MAX);
  f->processes = processes;
  f->ranks = ranks;
  f->machines = rondo_family_machines < processes ? rondo_family_machines : processes;
  f->cfg = defaults;
  const char *backend = getenv("RONDO_TEST_BACKEND");
  if (backend && strcmp(backend, "cuda") == 0)
    f->cfg.backend = RONDO_BACKEND_CUDA;
  const char *devices = getenv("RONDO_TEST_DEVICES");
  f->devices = devices ? (uint32_t)strtoul(devices, NULL, 10) : 1;
  return f;
}

void rondo_family_destroy(struct rondo_family *f) { munmap(f, sizeof *f); }

uint32_t rondo_family_process_of(const struct rondo_family *f, uint32_t rank) {
  return rank * f->processes / f->ranks;
}

uint32_t rondo_family_machine_of(const struct rondo_family *f, uint32_t process) {
  return rondo_family_in_turn ? process % f->machines : process * f->machines / f->processes;
}

// ------------------------------------------------------------------ members ---

void rondo_member_true(int is_so, const char *text, const char *file, int line) {
  if (is_so)
    return;
  fprintf(stderr, "%s:%d: process %d: not so: %s\n", file, line, (int)getpid(), text);
  _exit(1);
}

void rondo_member_status(int got, int expected, const char *text, const char *file, int line) {
  if (got == expected)
    return;
  fprintf(stderr, "%s:%d: process %d: %s is %s\n", file, line, (int)getpid(), text,
          rondo_status_name(got));
  _exit(1);
}

struct household {
  struct rondo_family *family;
  uint32_t first;
};

static void live(void *arg, uint32_t index) {
  const struct household *h = arg;
  h->family->member(h->family, h->first + index);
}

static void child_main(struct rondo_family *f, uint32_t process) {
  struct household h = {.family = f};
  uint32_t count = 0;
  rondo_test_child_begin();
  alarm(LIFETIME_SECONDS);
  if (f->machines)
    rondo_machines_enter(rondo_family_machine_of(f, process));
  for (uint32_t r = 0; r < f->ranks; r++) {
    if (rondo_family_process_of(f, r) != process)
      continue;
    h.first = count ? h.first : r;
    count++;
  }
  struct rondo_kit_thread_group group = {.count = count, .main = live, .arg = &h};
  if (count == 1)
    f->member(f, h.first);
  else
    RONDO_MEMBER_TRUE(rondo_kit_thread_group_run(&group) == 0);
  _exit(0);
}

static void pause_briefly(void) {
  const struct timespec brief = {0, 1000000};
  nanosleep(&brief, NULL);
}

void rondo_family_await(const uint32_t *word, uint32_t value) {
  for (uint32_t i = 0; rondo_load_acquire_u32(word) < value; i++) {
    RONDO_MEMBER_TRUE(i < LIFETIME_SECONDS * 1000);
    pause_briefly();
  }
}

void rondo_family_add(uint32_t *word) { (void)rondo_fetch_add_acq_rel_u32(word, 1); }

struct rondo_context rondo_family_open(struct rondo_family *f, uint32_t job, uint32_t rank,
                                       uint32_t ranks) {
  struct rondo_context ctx;
  struct rondo_config cfg = f->cfg;
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_unique_id_listen(&f->ids[job], &f->cfg), RONDO_SUCCESS);
    rondo_store_release_u32(&f->has_id[job], 1);
  }
  rondo_family_await(&f->has_id[job], 1);
  cfg.id = f->ids[job];
  cfg.rank = rank;
  cfg.device = f->cfg.backend == RONDO_BACKEND_CUDA ? (int)(rank % f->devices) : cfg.device;
  cfg.rank_count = ranks;
  RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  return ctx;
}

void rondo_family_close(struct rondo_context ctx) {
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
}

// ------------------------------------------------------------------- running ---

void rondo_family_run(struct rondo_family *f, void (*member)(struct rondo_family *f, uint32_t rank),
                      void (*watch)(struct rondo_family *f)) {
  int killed[RONDO_FAMILY_MAX] = {0};
  f->member = member;
  fflush(NULL);
  for (uint32_t p = 0; p < f->processes; p++) {
    f->ends[p] = -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
      child_main(f, p);
    f->pids[p] = pid;
  }
  if (watch)
    watch(f);
  for (uint32_t p = 0; p < f->processes; p++) {
    int end = 0;
    assert_int_equal(waitpid(f->pids[p], &end, 0), f->pids[p]);
    f->ends[p] = end;
    killed[p] = WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL;
  }
  for (uint32_t p = 0; p < f->processes; p++)
    if (f->ends[p] && !(watch && killed[p]))
      fail_msg("process %u ended with %s %d", p, WIFSIGNALED(f->ends[p]) ? "signal" : "status",
               WIFSIGNALED(f->ends[p]) ? WTERMSIG(f->ends[p]) : WEXITSTATUS(f->ends[p]));
}

// ---------------------------------------------------------------- belongings ---

// Entries of a folder whose names begin so.
static uint32_t count_entries(const char *path, const char *start) {
  uint32_t count = 0;
  DIR *dir = opendir(path);
  const struct dirent *entry;
  while (dir && (entry = readdir(dir)))
    count += strncmp(entry->d_name, start, strlen(start)) == 0;
  if (dir)
    closedir(dir);
  return count;
}

static uint32_t count_lines(const char *path) {
  uint32_t count = 0;
  FILE *file = fopen(path, "re");
  for (int c = file ? getc(file) : EOF; c != EOF; c = getc(file))
    count += c == '\n';
  if (file)
    fclose(file);
  return count;
}

struct rondo_belongings rondo_belongings_count(void) {
  return (struct rondo_belongings){
      .descriptors = count_entries("/proc/self/fd", ""),
      .threads = count_entries("/proc/self/task", ""),
      .mappings = count_lines("/proc/self/maps"),
      // The whole machine's, where programs with other libraries may be at work.
      .shared_files = count_entries("/dev/shm", "rondo"),
  };
}
