// Jobs of the schedule simulator for tests, from pairs of names and values of options.
#ifndef RONDO_TESTS_SUPPORT_SCHEDULE_H
#define RONDO_TESTS_SUPPORT_SCHEDULE_H

#include <string.h>

#include "sim/schedule/job.h"
#include "tests/support/named.h"

#define END "end"
#define MOST_EVENTS 50000000u // more than any job of a test has: one that spins fails

// Makes a job from pairs of names and values, which end with END.
static inline void job_open(struct rondo_schedule_job *job, const char *const *settings) {
  struct rondo_sim_error error;
  rondo_schedule_job_init(job);
  for (; strcmp(*settings, END) != 0; settings += 2) {
    if (!rondo_schedule_job_set(job, settings[0], settings[1], &error))
      fail_msg("%s", error.text);
  }
}

// Runs a job to its end.
static inline struct rondo_schedule_totals job_play(struct rondo_schedule_job *job) {
  struct rondo_sim_error error;
  struct rondo_schedule_machine *m = rondo_schedule_job_make(job, &error);
  if (!m)
    fail_msg("%s", error.text);
  (void)rondo_schedule_machine_run(m, MOST_EVENTS);
  struct rondo_schedule_totals totals = rondo_schedule_machine_totals(m);
  rondo_schedule_machine_destroy(m);
  rondo_schedule_job_fini(job);
  return totals;
}

static inline struct rondo_schedule_totals play(const char *const *settings) {
  struct rondo_schedule_job job;
  job_open(&job, settings);
  return job_play(&job);
}

#define PLAY(...) play((const char *const[]){__VA_ARGS__, END})

#endif // RONDO_TESTS_SUPPORT_SCHEDULE_H
