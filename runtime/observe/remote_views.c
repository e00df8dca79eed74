#include "runtime/observe/remote_views.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "runtime/job/processes.h"
#include "runtime/observe/snapshot.h"

struct question {
  uint64_t round;
  uint32_t count, reserved;
  struct rondo_id wanted[RONDO_VIEWS_WANTED];
};

struct answer {
  uint64_t round;
  uint32_t count, reserved;
  struct rondo_coll_view views[RONDO_VIEWS_ENTRIES];
};
_Static_assert(sizeof(struct rondo_coll_view) == 120, "sent between processes");
_Static_assert(sizeof(struct answer) < RONDO_MESH_MESSAGE_BYTES, "one message");

static struct rondo_views *job_views(const struct rondo_job *job) { return job->views; }

static int views_open(struct rondo_job *job) {
  job->views = calloc(1, sizeof(struct rondo_views));
  if (!job->views)
    return RONDO_ERR_NO_MEMORY;
  rondo_condition_init(&job_views(job)->changed);
  return RONDO_SUCCESS;
}

static void views_close(struct rondo_job *job) {
  struct rondo_views *views = job_views(job);
  if (!views)
    return;
  for (uint32_t p = 0; views->answers && p < job->process_count; p++)
    free(views->answers[p].bytes);
  free(views->answers);
  pthread_cond_destroy(&views->changed);
  free(views);
}

// -------------------------------------------------------------------- answering ---

static bool is_wanted(const struct question *q, const struct rondo_coll_view *v) {
  for (uint32_t i = 0; i < q->count; i++)
    if (rondo_id_compare(q->wanted[i], v->id) == 0)
      return true;
  return false;
}

// Fills in the collectives of the question, then others with outstanding runs, until the answer is
// full.
static void answer_fill(const struct rondo_snapshot *s, const struct question *q,
                        struct answer *a) {
  for (int others = 0; others < 2; others++) {
    for (uint32_t r = 0; r < s->rank_count; r++) {
      for (uint32_t i = 0; i < s->ranks[r].coll_count; i++) {
        const struct rondo_coll_view *v = &s->ranks[r].colls[i];
        int is_one = others ? !is_wanted(q, v) && v->submitted > v->completed : is_wanted(q, v);
        if (!is_one || a->count == RONDO_VIEWS_ENTRIES)
          continue;
        a->views[a->count] = *v;
        a->views[a->count++].members = NULL;
      }
    }
  }
}

static int views_asked(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct question q;
  struct rondo_snapshot s;
  if (message->size < offsetof(struct question, wanted) || message->size > sizeof q)
    return 0;
  memcpy(&q, message->bytes, message->size);
  if (q.count > RONDO_VIEWS_WANTED ||
      message->size != offsetof(struct question, wanted) + q.count * sizeof *q.wanted)
    return 0;
  struct answer *a = calloc(1, sizeof *a);
  int status = rondo_snapshot_take(&s, job);
  if (a && status == RONDO_SUCCESS) {
    a->round = q.round;
    answer_fill(&s, &q, a);
    rondo_processes_send(job, message->from, RONDO_MESSAGE_VIEWS, a,
                         offsetof(struct answer, views) + a->count * sizeof *a->views);
  }
  rondo_snapshot_fini(&s);
  free(a);
  return 1;
}

// ---------------------------------------------------------------------- asking ---

// True if the process has a member that is not gone.
static bool has_awaited(const struct rondo_job *job, const struct rondo_coll_view *v,
                        uint32_t process) {
  for (uint32_t i = 0; i < v->nranks; i++)
    if (rondo_processes_where(job, v->members[i]) == process && !job->gone[v->members[i]])
      return true;
  return false;
}

// Names the collectives with outstanding runs here and a member in that process.
static void question_fill(const struct rondo_job *job, const struct rondo_snapshot *s,
                          uint32_t process, struct question *q) {
  q->count = 0;
  for (uint32_t r = 0; r < s->rank_count; r++) {
    for (uint32_t i = 0; i < s->ranks[r].coll_count; i++) {
      const struct rondo_coll_view *v = &s->ranks[r].colls[i];
      if (v->submitted == v->completed || q->count == RONDO_VIEWS_WANTED || is_wanted(q, v) ||
          !has_awaited(job, v, process))
        continue;
      q->wanted[q->count++] = v->id;
    }
  }
}

static void round_begin(struct rondo_job *job, const struct rondo_snapshot *s) {
  struct rondo_views *views = job->views;
  struct question q = {.round = ++views->round};
  for (uint32_t p = 0; p < job->process_count; p++) {
    struct rondo_views_answer *a = &views->answers[p];
    free(a->bytes);
    a->bytes = NULL;
    if (p == job->self || job->processes[p].is_lost)
      continue;
    question_fill(job, s, p, &q);
    if (!q.count)
      continue;
    a->round = views->round;
    views->awaited++;
    rondo_processes_send(job, p, RONDO_MESSAGE_LOOK, &q,
                         offsetof(struct question, wanted) + q.count * sizeof *q.wanted);
  }
}

static void answers_await(struct rondo_job *job) {
  uint64_t end_ns = rondo_now_ns() + RONDO_VIEWS_WAIT_NS;
  int error = 0;
  while (job_views(job)->awaited && error != ETIMEDOUT)
    error = rondo_condition_wait(&job_views(job)->changed, &job->lock, end_ns);
  job_views(job)->awaited = 0; // late answers are dropped
}

static int views_answered(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_views *views = job->views;
  struct answer head;
  if (message->size < offsetof(struct answer, views) || message->size > sizeof head)
    return 0;
  memcpy(&head, message->bytes, offsetof(struct answer, views));
  if (head.count > RONDO_VIEWS_ENTRIES ||
      message->size != offsetof(struct answer, views) + head.count * sizeof *head.views)
    return 0;
  struct rondo_views_answer *a = views->answers ? &views->answers[message->from] : NULL;
  if (!a || head.round != views->round || a->round != head.round || a->bytes)
    return 1; // the answer is late
  a->bytes = malloc(message->size);
  if (a->bytes)
    memcpy(a->bytes, message->bytes, message->size);
  if (views->awaited && --views->awaited == 0)
    pthread_cond_broadcast(&views->changed);
  return 1;
}

// --------------------------------------------------------------------- merging ---

// Copies the members of a collective from a rank here that has registered it.
static int view_copy_members(const struct rondo_snapshot *s, struct rondo_coll_view *v) {
  for (uint32_t r = 0; r < s->rank_count; r++) {
    const struct rondo_coll_view *known =
        s->ranks[r].is_present == RONDO_VIEW_HERE ? rondo_snapshot_find(s, r, v->id) : NULL;
    if (!known)
      continue;
    v->members = malloc(known->nranks * sizeof *v->members);
    if (!v->members)
      return 0;
    memcpy(v->members, known->members, known->nranks * sizeof *v->members);
    v->nranks = known->nranks;
    return 1;
  }
  return 1;
}

// Checks the fields of a received view that are used as indexes.
static bool is_sound(const struct rondo_job *job, uint32_t process,
                     const struct rondo_coll_view *v) {
  return rondo_processes_is_rank_at(job, v->rank, process) && v->phase <= RONDO_PHASE_ENDED &&
         v->completed <= v->submitted;
}

// Adds a received view to those of its rank. Returns 0 without memory.
static int snapshot_enter_view(struct rondo_snapshot *s, const struct rondo_coll_view *received) {
  struct rondo_rank_view *rank = &s->ranks[received->rank];
  struct rondo_coll_view *grown =
      realloc(rank->colls, (rank->coll_count + 1) * sizeof *rank->colls);
  if (!grown)
    return 0;
  rank->colls = grown;
  struct rondo_coll_view v = *received;
  v.members = NULL;
  v.nranks = 0;
  if (!view_copy_members(s, &v))
    return 0;
  grown[rank->coll_count++] = v;
  return 1;
}

// The enum rondo_view of a rank of another process.
static uint8_t rank_find_view(const struct rondo_job *job, uint32_t rank) {
  uint32_t process = rondo_processes_where(job, rank);
  if (job->gone[rank])
    return RONDO_VIEW_LOST;
  if (process >= job->process_count)
    return RONDO_VIEW_NOWHERE;
  const struct rondo_views_answer *a = &job_views(job)->answers[process];
  if (a->bytes)
    return RONDO_VIEW_ELSEWHERE;
  return a->round == job_views(job)->round ? RONDO_VIEW_SILENT : RONDO_VIEW_NOWHERE;
}

static int answer_enter(const struct rondo_job *job, struct rondo_snapshot *s, uint32_t process) {
  const struct rondo_views_answer *a = &job_views(job)->answers[process];
  const struct answer *received = a->bytes;
  for (uint32_t i = 0; received && i < received->count; i++)
    if (is_sound(job, process, &received->views[i]) && !snapshot_enter_view(s, &received->views[i]))
      return 0;
  return 1;
}

int rondo_views_merge(struct rondo_job *job, struct rondo_snapshot *s) {
  struct rondo_views *views = job->views;
  if (!job->membership || job->is_manual)
    return RONDO_SUCCESS;
  if (job->roster == RONDO_ROSTER_KNOWN && !views->answers)
    views->answers = calloc(job->process_count, sizeof *views->answers);
  if (!views->answers)
    return job->roster == RONDO_ROSTER_KNOWN ? RONDO_ERR_NO_MEMORY : RONDO_SUCCESS;
  if (!views->awaited)
    round_begin(job, s);
  answers_await(job);
  for (uint32_t r = 0; r < s->rank_count; r++)
    if (s->ranks[r].is_present != RONDO_VIEW_HERE)
      s->ranks[r].is_present = rank_find_view(job, r);
  for (uint32_t p = 0; p < job->process_count; p++)
    if (!answer_enter(job, s, p))
      return RONDO_ERR_NO_MEMORY;
  return RONDO_SUCCESS;
}

static int views_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  return message->type == RONDO_MESSAGE_LOOK ? views_asked(job, message)
                                             : views_answered(job, message);
}

const struct rondo_job_extension rondo_views_extension = {
    .open = views_open,
    .close = views_close,
    .receive = views_receive,
    .types = {RONDO_MESSAGE_LOOK, RONDO_MESSAGE_VIEWS}};
