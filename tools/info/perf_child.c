#include "tools/info/perf_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "rondo-perf"

struct child {
  const struct info_perf_ranks *ranks;
  uint32_t rank;
  const char *algorithms, *job;
  int input, output; // -1: none
};

// The one beside this program, else the one on the path.
static void program_find(char *path) {
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = '\0';
  if (snprintf(path, PATH_MAX, "%s/" PROGRAM, dirname(self)) >= PATH_MAX || access(path, X_OK) != 0)
    (void)snprintf(path, PATH_MAX, PROGRAM);
}

static void number_set(const char *name, uint32_t value) {
  char text[16];
  (void)snprintf(text, sizeof text, "%" PRIu32, value);
  setenv(name, text, 1);
}

// Becomes the program, or the launcher, which gets the program and its arguments as its own.
static void program_exec(const struct child *c, const char *path) {
  char ranks[16], command[PATH_MAX];
  (void)snprintf(ranks, sizeof ranks, "%" PRIu32, c->ranks->count);
  if (!c->ranks->launcher) {
    (void)execlp(path, PROGRAM, "--serve", "--check", "0", "--pin", "0", "-t", ranks, (char *)NULL);
    return;
  }
  if (snprintf(command, sizeof command, "%s \"$@\"", c->ranks->launcher) >= PATH_MAX)
    errno = ENAMETOOLONG;
  else
    (void)execlp("sh", "sh", "-c", command, "sh", path, "--serve", "--check", "0", "--pin", "0",
                 "-t", ranks, (char *)NULL);
}

// Between fork and exec. This program has one thread.
static void child_exec(const struct child *c) {
  char path[PATH_MAX];
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  prctl(PR_SET_PDEATHSIG, SIGTERM); // also if this program is killed
  dup2(c->input >= 0 ? c->input : nothing, STDIN_FILENO);
  dup2(c->output >= 0 ? c->output : nothing, STDOUT_FILENO);
  setenv("RONDO_ALGO", c->algorithms, 1);
  unsetenv("RONDO_COST_MODEL");
  if (c->ranks->processes) {
    number_set("RONDO_RANK", c->rank);
    number_set("RONDO_RANK_COUNT", c->ranks->count);
    setenv("RONDO_ROOT", "127.0.0.1", 1);
    setenv("RONDO_JOB", c->job, 1);
  }
  program_find(path);
  program_exec(c, path);
  fprintf(stderr, "rondo-info tune: %s: %s\n", path, strerror(errno));
  _exit(127);
}

static bool answer_read(struct info_perf *perf, char *line, size_t bytes) {
  if (fgets(line, (int)bytes, perf->answers))
    return true;
  fprintf(stderr, "rondo-info tune: " PROGRAM " has ended\n");
  return false;
}

static bool children_fork(struct info_perf *perf, struct child *c, const int requests[2],
                          const int answers[2]) {
  for (c->rank = 0; c->rank < (c->ranks->processes ? c->ranks->count : 1); c->rank++) {
    c->input = c->rank == 0 ? requests[0] : -1;
    c->output = c->rank == 0 ? answers[1] : -1;
    pid_t pid = fork();
    if (pid == 0)
      child_exec(c);
    if (pid < 0)
      return false;
    perf->pids[perf->count++] = pid;
  }
  return true;
}

bool info_perf_start(struct info_perf *perf, const struct info_perf_ranks *ranks,
                     const char *algorithms) {
  static unsigned job_number;
  char job[64], line[256];
  int requests[2], answers[2];
  struct child child = {.ranks = ranks, .algorithms = algorithms, .job = job};
  (void)snprintf(job, sizeof job, "tune-%ld-%u", (long)getpid(), job_number++);
  *perf = (struct info_perf){.pids = calloc(ranks->count, sizeof *perf->pids)};
  if (!perf->pids || pipe2(requests, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
    fprintf(stderr, "rondo-info tune: %s\n", strerror(errno));
    return false;
  }
  bool forked = children_fork(perf, &child, requests, answers);
  close(requests[0]);
  close(answers[1]);
  perf->requests = fdopen(requests[1], "w");
  perf->answers = fdopen(answers[0], "r");
  return forked && perf->requests && perf->answers && answer_read(perf, line, sizeof line);
}

bool info_perf_ask(struct info_perf *perf, const char *request, double *time_ns) {
  static const char key[] = "\"middle_ns\":";
  char line[1024];
  fprintf(perf->requests, "%s\n", request);
  (void)fflush(perf->requests);
  if (!answer_read(perf, line, sizeof line))
    return false;
  const char *at = strstr(line, key);
  *time_ns = at ? strtod(at + sizeof key - 1, NULL) : 0;
  if (*time_ns > 0)
    return true;
  fprintf(stderr, "rondo-info tune: %s: %s", request, line);
  return false;
}

void info_perf_end(struct info_perf *perf) {
  if (perf->requests)
    (void)fclose(perf->requests);
  for (uint32_t i = 0; i < perf->count; i++)
    (void)waitpid(perf->pids[i], NULL, 0);
  if (perf->answers)
    (void)fclose(perf->answers);
  free(perf->pids);
}
