#include "runtime/job/agreeing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "runtime/job/device_work.h"
#include "runtime/job/match.h"
#include "runtime/job/processes.h"

#define RETRY_NS UINT64_C(10000000) // until there may be memory again

struct rondo_agreeing *rondo_agreeing_create(struct rondo_member_lists *lists) {
  struct rondo_agreeing *a = calloc(1, sizeof *a);
  if (!a)
    return NULL;
  rondo_agreement_init(&a->core, lists);
  return a;
}

void rondo_agreeing_destroy(struct rondo_agreeing *a) {
  if (!a)
    return;
  rondo_agreement_fini(&a->core);
  rondo_agreement_actions_free(&a->actions);
  free(a->process_of);
  free(a);
}

// ------------------------------------------------------------------ actions ---

static void retry_ask(struct rondo_job *job);

static void action_send(struct rondo_job *job, const struct rondo_agreement_action *action) {
  if (action->process < job->process_count)
    rondo_job_transport_events.send(job, action->process, action->message_type,
                                    job->agreeing->actions.bytes + action->at, action->size, -1);
}

static void action_fail(struct rondo_job *job, const struct rondo_agreement_action *action) {
  char text[RONDO_REASON_BYTES]; // carrying it out may append actions and move their bytes
  (void)snprintf(text, sizeof text, "%s", job->agreeing->actions.bytes + action->at);
  const struct rondo_agreement_failure failure = {action->status, action->culprit, action->other,
                                                  text};
  if (action->key.id.space != RONDO_SPACE_KEY) {
    rondo_match_failed(job, &action->key, &failure);
    return;
  }
  RONDO_JOB_CALL(job, key_failed, job, action->key.id.number, &failure);
  RONDO_JOB_CALL(job, settle, job);
}

static void action_carry_out(struct rondo_job *job, const struct rondo_agreement_action *action) {
  switch (action->type) {
  case RONDO_AGREEMENT_SEND:
    action_send(job, action);
    break;
  case RONDO_AGREEMENT_AGREED:
    rondo_match_agreed(job, &action->key);
    break;
  case RONDO_AGREEMENT_FAILED:
    action_fail(job, action);
    break;
  default:
    rondo_match_limit(job, &action->key, action->completed, action->culprit);
  }
}

void rondo_agreeing_run(struct rondo_job *job) {
  struct rondo_agreeing *a = job->agreeing;
  if (!a || a->is_running)
    return;
  a->is_running = true;
  for (uint32_t i = 0; i < a->actions.count; i++) {
    const struct rondo_agreement_action action = a->actions.list[i];
    action_carry_out(job, &action);
  }
  rondo_agreement_actions_clear(&a->actions);
  a->is_running = false;
  if (a->core.is_starved || a->is_behind)
    retry_ask(job);
}

static int core_step(struct rondo_job *job, struct rondo_agreement_event *event) {
  return rondo_agreement_step(&job->agreeing->core, event, &job->agreeing->actions);
}

// ------------------------------------------------------------- ranks that go ---

static bool rank_go(struct rondo_job *job, int type, uint32_t rank) {
  uint32_t process = rondo_processes_where(job, rank);
  struct rondo_agreement_event event = {
      .type = type, .rank = rank, .ranks = &rank, .rank_count = 1, .process = RONDO_NO_PLACE};
  if (process < job->process_count && !rondo_processes_has_rank(job, process))
    event.process = process;
  // The membership tells all processes of a loss.
  if (job->gone[rank] == RONDO_RANK_LOST)
    event.type = RONDO_AGREEMENT_LOST;
  return core_step(job, &event) == RONDO_SUCCESS;
}

void rondo_agreeing_leave(struct rondo_job *job, uint32_t rank) {
  if (!job->agreeing)
    return;
  job->agreeing->is_behind |= !rank_go(job, RONDO_AGREEMENT_LEAVE, rank);
  rondo_agreeing_run(job);
}

void rondo_agreeing_lose(struct rondo_job *job, uint32_t rank) {
  if (!job->agreeing)
    return;
  job->agreeing->is_behind |= !rank_go(job, RONDO_AGREEMENT_LEFT, rank);
  rondo_agreeing_run(job);
}

// Tells the core of all ranks that have gone. Those that it knows do no harm.
static bool ranks_go_again(struct rondo_job *job) {
  bool is_done = true;
  for (uint32_t r = 0; r < job->rank_count; r++) {
    if (job->gone[r])
      is_done = rank_go(job, RONDO_AGREEMENT_LEFT, r) && is_done;
    else if (job->was_here[r] && !job->members[r])
      is_done = rank_go(job, RONDO_AGREEMENT_LEAVE, r) && is_done;
  }
  return is_done;
}

static void on_retry(void *arg) {
  struct rondo_job *job = arg;
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_RETRY};
  pthread_mutex_lock(&job->lock);
  struct rondo_agreeing *a = job->agreeing;
  a->has_timer = false;
  if (a->is_behind)
    a->is_behind = !ranks_go_again(job);
  (void)core_step(job, &event); // cannot fail
  rondo_agreeing_run(job);
  rondo_job_unlock(job);
}

// Without memory for the timer, the next event asks again.
static void retry_ask(struct rondo_job *job) {
  struct rondo_agreeing *a = job->agreeing;
  if (!a->has_timer && !job->is_leaving)
    a->has_timer =
        rondo_members_calls->after(job->membership, RETRY_NS, on_retry, job) == RONDO_SUCCESS;
}

// ------------------------------------------------------------------- events ---

bool rondo_agreeing_locate(struct rondo_job *job) {
  struct rondo_agreeing *a = job->agreeing;
  a->process_of = calloc(job->rank_count, sizeof *a->process_of);
  if (!a->process_of)
    return false;
  for (uint32_t r = 0; r < job->rank_count; r++)
    a->process_of[r] = rondo_members_calls->process_of(job->membership, r);
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_LOCATED, .process_of = a->process_of, .process = job->self};
  bool is_located = core_step(job, &event) == RONDO_SUCCESS;
  rondo_agreeing_run(job);
  return is_located;
}

uint64_t rondo_agreeing_times(const struct rondo_job *job, const struct rondo_registration *r) {
  return rondo_agreement_times(&job->agreeing->core, r->id, r->rank);
}

int rondo_agreeing_register(struct rondo_job *job, struct rondo_registration *r) {
  if (!job->agreeing)
    return RONDO_SUCCESS;
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_REGISTER,
                                        .key = {.id = r->id},
                                        .rank = r->rank,
                                        .members = r->members,
                                        .nranks = r->nranks,
                                        .descriptor = rondo_registration_descriptor(r)};
  int status = core_step(job, &event);
  if (status != RONDO_SUCCESS)
    return status;
  r->generation = event.key.generation;
  r->group = event.key.group;
  return RONDO_SUCCESS;
}

static void registration_step(struct rondo_job *job, const struct rondo_registration *r,
                              struct rondo_agreement_event *event) {
  if (!job->agreeing)
    return;
  event->key = (struct rondo_agreement_key){r->id, r->generation, r->group};
  event->rank = r->rank;
  (void)core_step(job, event); // cannot fail
  rondo_agreeing_run(job);
}

void rondo_agreeing_plan(struct rondo_job *job, const struct rondo_registration *r) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_PLANNED,
                                        .descriptor = rondo_registration_descriptor(r)};
  registration_step(job, r, &event);
}

void rondo_agreeing_fail(struct rondo_job *job, const struct rondo_registration *r,
                         const struct rondo_agreement_failure *failure) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_FAIL, .failure = *failure};
  registration_step(job, r, &event);
}

void rondo_agreeing_fail_key(struct rondo_job *job, uint64_t key, const uint32_t *members,
                             uint32_t nranks, const struct rondo_agreement_failure *failure) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_FAIL,
                                        .key.id = {key, RONDO_SPACE_KEY, 0},
                                        .members = members,
                                        .nranks = nranks,
                                        .failure = *failure};
  if (!job->agreeing)
    return;
  if (core_step(job, &event) != RONDO_SUCCESS)
    rondo_log(RONDO_LOG_ERROR, "no memory to tell that communicator %llu has failed",
              (unsigned long long)key);
  rondo_agreeing_run(job);
}

void rondo_agreeing_deregister(struct rondo_job *job, const struct rondo_registration *r,
                               uint64_t completed) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_DEREGISTER, .completed = completed};
  registration_step(job, r, &event);
}

bool rondo_agreeing_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_RECEIVE,
                                        .process = message->from,
                                        .message_type = message->type,
                                        .bytes = message->bytes,
                                        .size = message->size};
  int status = core_step(job, &event);
  rondo_agreeing_run(job);
  return status == RONDO_SUCCESS;
}
