// Waiting until the ranks of a job are present, and until they have gone.
#include "base/clock.h"
#include "base/condition.h"
#include "runtime/job/processes.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/rank.h"

enum presence { AWAITED = 1, PRESENT = 2, GONE = 4 };

// The job's lock is held, here and below.
static enum presence rank_find_presence(const struct rondo_job *job, uint32_t rank) {
  if (job->members[rank])
    return PRESENT;
  if (job->was_here[rank])
    return GONE;
  if (!job->membership)
    return AWAITED;
  if (job->gone[rank] || job->roster == RONDO_ROSTER_FAILED)
    return GONE;
  return rondo_processes_where(job, rank) == RONDO_SOMEWHERE ? AWAITED : PRESENT;
}

// Lists the other ranks whose presence is in the set `wanted`. Returns how many they are.
static uint32_t list_fill(struct rondo_rank_list *list, const struct rondo_rank *self,
                          unsigned wanted) {
  list->count = 0;
  for (uint32_t r = 0; r < self->job->rank_count; r++)
    if (r != self->cfg.rank && (rank_find_presence(self->job, r) & wanted))
      rondo_rank_list_add(list, r);
  return list->count;
}

// Lists the ranks that the caller waits for. Returns RONDO_SUCCESS, RONDO_IN_PROGRESS, or
// RONDO_ERR_PEER if ranks have gone that should be ready.
static int list_check(struct rondo_rank_list *list, const struct rondo_rank *self, bool gone) {
  if (!gone && list_fill(list, self, GONE))
    return RONDO_ERR_PEER;
  return list_fill(list, self, gone ? AWAITED | PRESENT : AWAITED) ? RONDO_IN_PROGRESS
                                                                   : RONDO_SUCCESS;
}

int rondo_rank_await(struct rondo_rank *self, bool gone, struct rondo_rank_list *list,
                     int64_t timeout_ns) {
  struct rondo_job *job = self->job;
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  int is_over = timeout_ns <= 0;
  pthread_mutex_lock(&job->lock);
  int status = list_check(list, self, gone);
  while (status == RONDO_IN_PROGRESS && !is_over) {
    is_over = rondo_condition_wait(&job->attendance, &job->lock, end_ns) != 0;
    status =
        rondo_load_seq_cst_u32(&self->closing) ? RONDO_ERR_CLOSED : list_check(list, self, gone);
  }
  pthread_mutex_unlock(&job->lock);
  return status == RONDO_IN_PROGRESS ? RONDO_ERR_TIMEOUT : status;
}
