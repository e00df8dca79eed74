#include "runtime/api/forked.h"

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "runtime/complete/callbacks.h"
#include "runtime/job/job.h"
#include "runtime/net/mesh.h"
#include "runtime/observe/report.h"

static int64_t self, parent;

int64_t rondo_forked_from(void) { return parent; }

static void in_child(void) {
  parent = self;
  self = getpid();
  rondo_log_forked();
  rondo_handles_forked();
  rondo_callers_forked();
  rondo_callbacks_forked();
  rondo_jobs_forked();
  rondo_meshes_forked();
  rondo_report_forked();
}

__attribute__((constructor)) static void watch_forks(void) {
  self = getpid();
  (void)pthread_atfork(NULL, NULL, in_child);
}
