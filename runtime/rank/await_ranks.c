// Waiting until the ranks of a job are present, and until they have gone.
#include "base/clock.h"
#include "base/condition.h"
#include "runtime/job/processes.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/rank.h"

// GONE: it had joined. ABSENT: it has not, and will not.
enum presence { AWAITED = 1, PRESENT = 2, GONE = 4, ABSENT = 8 };

// The job's lock is held, here and below.
static enum presence rank_find_presence(const struct rondo_job *job, uint32_t rank) {
  if (job->members[rank])
    return PRESENT;
  if (job->was_here[rank])
    return GONE;
  if (!job->membership)
    return AWAITED;
  if (job->roster == RONDO_ROSTER_FAILED)
    return ABSENT;
  bool has_joined = rondo_processes_where(job, rank) != RONDO_SOMEWHERE;
  if (job->gone[rank])
    return has_joined ? GONE : ABSENT;
  return has_joined ? PRESENT : AWAITED;
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

// The presences that one waits to end, and those that end the wait with RONDO_ERR_PEER.
static const struct {
  unsigned awaited, refused;
} waits[] = {
    [RONDO_AWAIT_READY] = {AWAITED, GONE | ABSENT},
    [RONDO_AWAIT_JOINED] = {AWAITED, ABSENT},
    [RONDO_AWAIT_GONE] = {AWAITED | PRESENT, 0},
};

// Lists the ranks that the caller waits for. Returns RONDO_SUCCESS, RONDO_IN_PROGRESS, or
// RONDO_ERR_PEER if the wait is in vain for the ranks of the list.
static int list_check(struct rondo_rank_list *list, const struct rondo_rank *self,
                      enum rondo_await what) {
  if (list_fill(list, self, waits[what].refused))
    return RONDO_ERR_PEER;
  return list_fill(list, self, waits[what].awaited) ? RONDO_IN_PROGRESS : RONDO_SUCCESS;
}

int rondo_rank_await(struct rondo_rank *self, enum rondo_await what, struct rondo_rank_list *list,
                     int64_t timeout_ns) {
  struct rondo_job *job = self->job;
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  int is_over = timeout_ns <= 0;
  pthread_mutex_lock(&job->lock);
  int status = list_check(list, self, what);
  while (status == RONDO_IN_PROGRESS && !is_over) {
    is_over = rondo_condition_wait(&job->attendance, &job->lock, end_ns) != 0;
    status =
        rondo_load_seq_cst_u32(&self->closing) ? RONDO_ERR_CLOSED : list_check(list, self, what);
  }
  pthread_mutex_unlock(&job->lock);
  return status == RONDO_IN_PROGRESS ? RONDO_ERR_TIMEOUT : status;
}
