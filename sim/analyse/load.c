#include "sim/analyse/load.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/analyse/json.h"
#include "sim/analyse/read.h"
#include "sim/common/text.h"

#define MOST_THREADS 64
#define FIRST_REPORT_S 1.0 // shorter work says nothing

struct load {
  struct rondo_analyse_record *records;
  char **paths;
  size_t count;
  const struct rondo_analyse_load_options *options;
  atomic_size_t next, done;
  atomic_uint_fast64_t bytes;
  pthread_mutex_t lock;
  pthread_cond_t finished;
};

// The rank that digits stand for; -1 if they stand for none.
static int64_t digits_rank(const char *digits, size_t bytes) {
  int64_t number = rondo_analyse_slice_integer((struct rondo_analyse_slice){digits, bytes}, -1);
  return number <= RONDO_ANALYSE_HIGHEST_RANK ? number : -1;
}

// The last number in a name that follows `word`.
static int64_t number_behind(const char *name, const char *word) {
  int64_t found = -1;
  for (const char *at = strcasestr(name, word); at; at = strcasestr(at + 1, word)) {
    const char *digits = at + strlen(word);
    digits += *digits && strchr("_-. ", *digits) ? 1 : 0;
    if (isdigit((unsigned char)*digits)) {
      found = digits_rank(digits, strlen(digits));
    }
  }
  return found;
}

static int64_t last_number(const char *name) {
  const char *end = name + strlen(name);
  while (end > name && !isdigit((unsigned char)end[-1])) {
    end--;
  }
  const char *start = end;
  while (start > name && isdigit((unsigned char)start[-1])) {
    start--;
  }
  return digits_rank(start, (size_t)(end - start));
}

// Finds the rank in a file's name: by the pattern if there is one; else the number after "rank", or
// else the last number in the name (`*named` tells which). Returns -1 if there is none.
static int64_t path_rank(const char *path, const regex_t *pattern, bool *named) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  regmatch_t match[2];
  if (pattern) {
    *named = regexec(pattern, name, 2, match, 0) == 0 && match[1].rm_so >= 0;
    return *named ? digits_rank(name + match[1].rm_so, (size_t)(match[1].rm_eo - match[1].rm_so))
                  : -1;
  }
  int64_t number = number_behind(name, "rank");
  *named = number >= 0;
  return number >= 0 ? number : last_number(name);
}

static void file_read(struct load *load, size_t at) {
  struct rondo_analyse_record *r = &load->records[at];
  struct rondo_analyse_input in;
  rondo_analyse_record_init(r, load->paths[at]);
  r->rank_hint = path_rank(r->path, load->options->rank_pattern, &r->rank_named);
  if (rondo_analyse_input_open(&in, r->path)) {
    rondo_analyse_record_problem(r, 0, 0, "cannot be opened: %s", strerror(errno));
    r->unusable = true;
    return;
  }
  in.progress_bytes = &load->bytes;
  rondo_analyse_read(r, &in);
  rondo_analyse_input_close(&in);
}

static void *worker_run(void *argument) {
  struct load *load = argument;
  size_t at;
  while ((at = atomic_fetch_add(&load->next, 1)) < load->count) {
    file_read(load, at);
    pthread_mutex_lock(&load->lock);
    atomic_fetch_add(&load->done, 1);
    pthread_cond_signal(&load->finished);
    pthread_mutex_unlock(&load->lock);
  }
  return NULL;
}

static uint64_t total_bytes(char **paths, size_t count) {
  uint64_t total = 0;
  struct stat info;
  for (size_t i = 0; i < count; i++) {
    total += stat(paths[i], &info) == 0 ? (uint64_t)info.st_size : 0;
  }
  return total;
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void progress_show(struct load *load, uint64_t total, double elapsed_s) {
  double bytes = (double)atomic_load(&load->bytes);
  double left_s = bytes > 0 ? elapsed_s * ((double)total / bytes - 1) : 0;
  fprintf(stderr, "\rread %zu of %zu files, %.0f of %.0f MB, about %.0f s left   ",
          atomic_load(&load->done), load->count, bytes * 1e-6, (double)total * 1e-6,
          left_s > 0 ? left_s : 0);
  fflush(stderr);
}

// Waits for the workers and shows the progress four times a second.
static void progress_watch(struct load *load, uint64_t total) {
  double start_s = seconds_now();
  bool shown = false;
  pthread_mutex_lock(&load->lock);
  while (atomic_load(&load->done) < load->count) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 250000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int rc = pthread_cond_timedwait(&load->finished, &load->lock, &until);
    double elapsed_s = seconds_now() - start_s;
    if (rc == ETIMEDOUT && load->options->progress && elapsed_s > FIRST_REPORT_S) {
      progress_show(load, total, elapsed_s);
      shown = true;
    }
  }
  pthread_mutex_unlock(&load->lock);
  if (shown) {
    fputc('\n', stderr);
  }
}

static unsigned threads_wanted(const struct load *load) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  size_t wanted =
      load->options->thread_count ? load->options->thread_count : (size_t)(cores > 0 ? cores : 1);
  wanted = wanted < load->count ? wanted : load->count;
  return (unsigned)(wanted < MOST_THREADS ? wanted : MOST_THREADS);
}

void rondo_analyse_load(struct rondo_analyse_record *records, char **paths, size_t count,
                        const struct rondo_analyse_load_options *options) {
  struct load load = {.records = records, .paths = paths, .count = count, .options = options};
  pthread_t threads[MOST_THREADS];
  unsigned wanted = threads_wanted(&load), started = 0;
  pthread_mutex_init(&load.lock, NULL);
  pthread_cond_init(&load.finished, NULL);
  while (started < wanted && pthread_create(&threads[started], NULL, worker_run, &load) == 0) {
    started++;
  }
  if (!started) {
    worker_run(&load); // no thread could be started: read here
  }
  progress_watch(&load, total_bytes(paths, count));
  for (unsigned i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
  }
  pthread_cond_destroy(&load.finished);
  pthread_mutex_destroy(&load.lock);
}
