// Waiting for the ranks of a job to come, and to go.
#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "runtime/job/processes.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

enum standing { AWAITED = 1, PRESENT = 2, GONE = 4 };

// Where the ranks go that are waited for, or in vain.
struct absentees {
  uint32_t *ranks;
  uint32_t capacity, count;
};

// The lock of the job is held, here and below.
static enum standing standing_of(const struct rondo_job *job, uint32_t rank) {
  if (job->members[rank])
    return PRESENT;
  if (job->was_here[rank])
    return GONE;
  if (!job->mesh)
    return AWAITED;
  if (job->gone[rank] || job->roster == RONDO_ROSTER_FAILED)
    return GONE;
  return rondo_processes_where(job, rank) == RONDO_SOMEWHERE ? AWAITED : PRESENT;
}

// Lists the other ranks whose standing is one of `standings`. Returns how many they are.
static uint32_t list(struct absentees *a, const struct rondo_rank *self, unsigned standings) {
  a->count = 0;
  for (uint32_t r = 0; r < self->job->rank_count; r++) {
    if (r == self->cfg.rank || !(standing_of(self->job, r) & standings))
      continue;
    if (a->count < a->capacity)
      a->ranks[a->count] = r;
    a->count++;
  }
  return a->count;
}

// Each returns RONDO_SUCCESS, RONDO_IN_PROGRESS, or why it never will be so.
static int look_who_is_there(struct absentees *a, const struct rondo_rank *self) {
  if (list(a, self, GONE))
    return RONDO_ERR_PEER;
  return list(a, self, AWAITED) ? RONDO_IN_PROGRESS : RONDO_SUCCESS;
}

static int look_who_has_gone(struct absentees *a, const struct rondo_rank *self) {
  return list(a, self, AWAITED | PRESENT) ? RONDO_IN_PROGRESS : RONDO_SUCCESS;
}

// Waits until `look` says something else than RONDO_IN_PROGRESS.
static int await(struct rondo_rank *self, struct absentees *a,
                 int (*look)(struct absentees *, const struct rondo_rank *), int64_t timeout_ns) {
  struct rondo_job *job = self->job;
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  int is_over = timeout_ns <= 0;
  pthread_mutex_lock(&job->lock);
  int status = look(a, self);
  while (status == RONDO_IN_PROGRESS && !is_over) {
    is_over = rondo_condition_wait(&job->attendance, &job->lock, end_ns) != 0;
    status = rondo_load_seq_cst_u32(&self->closing) ? RONDO_ERR_CLOSED : look(a, self);
  }
  pthread_mutex_unlock(&job->lock);
  return status == RONDO_IN_PROGRESS ? RONDO_ERR_TIMEOUT : status;
}

static int enter_and_await(struct rondo_context ctx, const char *call, struct absentees *a,
                           int (*look)(struct absentees *, const struct rondo_rank *),
                           int64_t timeout_ns) {
  struct rondo_rank *self;
  if (a->capacity && !a->ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: room for ranks at null", call);
  if (timeout_ns > 0 && rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: a callback may not wait", call);
  int status = rondo_rank_pin(ctx, call, &self);
  if (status != RONDO_SUCCESS)
    return status;
  status = await(self, a, look, timeout_ns);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_wait_ready(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                     uint32_t capacity, uint32_t *count) {
  struct absentees a = {.ranks = ranks, .capacity = capacity};
  int status = enter_and_await(ctx, "wait_ready", &a, look_who_is_there, timeout_ns);
  if (count)
    *count = a.count;
  return status;
}

int rondo_wait_gone(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                    uint32_t capacity, uint32_t *count) {
  struct absentees a = {.ranks = ranks, .capacity = capacity};
  int status = enter_and_await(ctx, "wait_gone", &a, look_who_has_gone, timeout_ns);
  if (count)
    *count = a.count;
  return status;
}
