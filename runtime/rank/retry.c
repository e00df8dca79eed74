#include "runtime/rank/retry.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/quiet_thread.h"
#include "runtime/job/match.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/group.h"
#include "runtime/rank/lending.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/link_binding.h"

#define LOSS_NS UINT64_C(2000000000) // from the error of a run to the news of the loss behind it
#define POLL_NS UINT64_C(100000)     // pause while a run of an older view has not ended yet
#define LONG_NS UINT64_C(3600000000000)
#define DEREGISTER_NS UINT64_C(10000000000)

enum part { DATA, AGREE };

// --------------------------------------------------------------------- runs ---

static void retries_wake(struct rondo_rank *rank) {
  struct rondo_retries *all = rank->retries;
  pthread_mutex_lock(&all->wake_lock);
  all->wakes++;
  pthread_cond_signal(&all->wake);
  pthread_mutex_unlock(&all->wake_lock);
}

// The rank's lock is held, here and below.
static void retry_fail(struct rondo_rank *rank, struct rondo_retry *r, int status) {
  r->failed_status = status;
  r->state.phase = RONDO_RETRY_FAILING;
  retries_wake(rank);
}

// Submits a run of a hidden collective.
static void hidden_submit(struct rondo_rank *rank, struct rondo_coll *coll, const void *send,
                          void *recv) {
  struct rondo_retry *r = coll->retry;
  int status = rondo_rank_reserve_overflow(rank);
  if (status == RONDO_SUCCESS && coll->borrows)
    status = rondo_coll_borrow(rank, coll);
  if (status != RONDO_SUCCESS) {
    retry_fail(rank, r, status);
    return;
  }
  r->hidden = (struct rondo_run_record){.number = coll->submitted + 1,
                                        .args = {.send = send, .recv = recv}};
  rondo_store_relaxed_u64(&coll->submitted, r->hidden.number);
  coll->head = coll->tail = coll->unpushed = &r->hidden;
  rank->hidden_runs++;
  rank->started_runs++;
  rondo_coll_push(rank, coll);
  rondo_daemon_add_outstanding(rank->member.daemon);                   // H3, K2, P4
  rondo_binding_wake(&rank->job->transports, coll->registration.comm); // P4
}

static void hidden_end(struct rondo_rank *rank, struct rondo_coll *coll) {
  uint64_t number = coll->head->number;
  coll->head = coll->tail = NULL;
  coll->on_device--;
  rank->hidden_runs--;
  rondo_store_release_u64(&coll->completed, number);
  if (coll->borrows)
    rondo_coll_return(rank, coll);
  rondo_fetch_add_seq_cst_u64(&rank->member.daemon->outstanding, (uint64_t)-1); // H7
  if (!coll->retry->front->head) // else the end of the front's run tells
    rank->member.daemon->driver->notify_completion(rank->member.daemon);
}

void rondo_retry_note_push(struct rondo_coll *front) {
  if (front->retry->state.phase == RONDO_RETRY_IDLE)
    rondo_retry_begin(&front->retry->state);
}

void *rondo_retry_recv(const struct rondo_coll *coll, const struct rondo_run_record *record) {
  const struct rondo_retry *r = coll->retry;
  return coll == r->front && r->staging ? r->staging : record->args.recv;
}

bool rondo_retry_push(struct rondo_rank *rank, struct rondo_coll *front) {
  struct rondo_retry *r = front->retry;
  if (r->state.phase == RONDO_RETRY_FAILED)
    return false;
  if (r->state.phase != RONDO_RETRY_IDLE || !front->unpushed || !r->agree)
    return true;
  if (r->data == front)
    return false;
  const struct rondo_run_record *record = front->unpushed;
  front->unpushed = record->next;
  front->on_device = 1;
  rondo_retry_begin(&r->state);
  hidden_submit(rank, r->data, record->args.send, rondo_retry_recv(front, record));
  return true;
}

// Does the front's oldest run again.
static void retry_restart(struct rondo_rank *rank, struct rondo_retry *r) {
  r->front->unpushed = r->front->head;
  r->front->on_device = 0;
  rondo_coll_push(rank, r->front);
}

// The staged result becomes that of the front's oldest run, which ends. Then the next one starts.
static uint64_t retry_commit(struct rondo_rank *rank, struct rondo_retry *r, uint32_t duration_ns) {
  if (r->staging)
    memcpy(r->front->head->args.recv, r->staging, r->front->recv_bytes);
  rondo_run_end(rank, r->front, RONDO_SUCCESS, duration_ns);
  return 1;
}

// From the next run on the members of the new view take part.
static void retry_change_view(struct rondo_retry *r, uint64_t first_run) {
  struct rondo_retry_view *old = r->view;
  r->coming->first_run = first_run;
  r->coming->before = old;
  if (old->first_run == first_run) { // no run has ended with its members
    r->coming->before = old->before;
    free(old);
  }
  r->view = r->coming;
  r->coming = NULL;
}

static uint64_t retry_end_flush(struct rondo_rank *rank, struct rondo_retry *r,
                                uint32_t duration_ns) {
  uint64_t own = r->front->completed;
  uint64_t most = r->numbers[1];
  enum rondo_retry_act act = rondo_retry_flushed(&r->state, own, most);
  if (act == RONDO_RETRY_DEFECT || (act == RONDO_RETRY_COMMIT && !r->front->head)) {
    rondo_log(RONDO_LOG_ERROR, "id %llu: a member has ended run %llu, this rank only run %llu",
              (unsigned long long)r->front->desc.id, (unsigned long long)most,
              (unsigned long long)own);
    retry_fail(rank, r, RONDO_ERR_INTERNAL);
    return 0;
  }
  retry_change_view(r, most + 1);
  if (act == RONDO_RETRY_COMMIT)
    return retry_commit(rank, r, duration_ns);
  retry_restart(rank, r);
  return 0;
}

uint64_t rondo_retry_accept(struct rondo_rank *rank, struct rondo_coll *coll, int status,
                            uint32_t duration_ns) {
  struct rondo_retry *r = coll->retry;
  bool is_flush = r->state.phase == RONDO_RETRY_FLUSH;
  if (coll != r->front)
    hidden_end(rank, coll);
  if (r->state.phase == RONDO_RETRY_FAILED) { // only the front has runs then
    rondo_run_end(rank, r->front, r->failed_status, duration_ns);
    return 1;
  }
  if (status == RONDO_ERR_PEER) {
    rondo_retry_break(&r->state);
    r->since_ns = rondo_now_ns();
    retries_wake(rank);
    return 0;
  }
  if (status != RONDO_SUCCESS) {
    retry_fail(rank, r, status);
    return 0;
  }
  if (is_flush)
    return retry_end_flush(rank, r, duration_ns);
  if (rondo_retry_succeed(&r->state) == RONDO_RETRY_COMMIT)
    return retry_commit(rank, r, duration_ns);
  r->numbers[0] = r->front->head->number;
  hidden_submit(rank, r->agree, &r->numbers[0], &r->numbers[1]);
  return 0;
}

// -------------------------------------------------------------------- views ---

// What has become of the members of a front.
struct look {
  uint64_t gone;  // digest of those that are gone
  uint32_t count; // of those that are left
  bool has_lost, has_left, is_root_gone;
  bool is_short;   // the job has fewer ranks than least_ranks
  bool is_cut_off; // this process is no longer in its job
};

static struct look retry_look(const struct rondo_rank *rank, const struct rondo_retry *r,
                              uint32_t *left) {
  struct rondo_job *job = rank->job;
  const struct rondo_registration *reg = &r->front->registration;
  struct look look = {.gone = UINT64_C(0x7265747279)}; // a number that names this use
  pthread_mutex_lock(&job->lock);
  look.is_cut_off = job->is_cut_off || job->roster == RONDO_ROSTER_FAILED;
  look.is_short = rank->cfg.least_ranks && rondo_job_count_left(job) < rank->cfg.least_ranks;
  for (uint32_t i = 0; i < reg->nranks; i++) {
    uint32_t member = reg->members[i];
    if (!rondo_job_is_gone(job, member)) {
      left[look.count++] = member;
      continue;
    }
    look.gone = rondo_digest_bytes(look.gone, &member, sizeof member);
    look.is_root_gone |= i == r->front->desc.root && r->front->desc.kind != RONDO_ALL_REDUCE;
    if (job->gone && job->gone[member] == RONDO_RANK_LOST)
      look.has_lost = true;
    else
      look.has_left = true;
  }
  pthread_mutex_unlock(&job->lock);
  return look;
}

// Registers a hidden collective of the members that are left. Returns as rondo_rank_register.
static int hidden_register(struct rondo_rank *rank, struct rondo_retry *r, enum part part,
                           struct rondo_group group, uint64_t gone, struct rondo_coll **coll) {
  const struct rondo_registration *reg = &r->front->registration;
  struct rondo_collective handle;
  struct rondo_collective_desc desc = rondo_all_reduce(0, 1, RONDO_UINT64, RONDO_MAX);
  if (part == DATA) {
    desc = r->front->desc;
    desc.on_loss = RONDO_ON_LOSS_FAIL;
    desc.root = 0;
    struct rondo_retry_view *view = r->coming;
    for (uint32_t i = 0; desc.kind != RONDO_ALL_REDUCE && i < view->count; i++)
      if (view->members[i] == reg->members[r->front->desc.root])
        desc.root = i;
  }
  desc.id = r->front->desc.id;
  desc.priority = r->front->desc.priority;
  desc.group = group;
  uint64_t name = rondo_digest_mix(desc.id) + reg->generation;
  name = rondo_digest_mix(rondo_digest_mix(name) + gone) + (uint64_t)part;
  const struct rondo_register_request request = {
      .desc = &desc, .id = {.number = name, .space = RONDO_SPACE_RETRY}, .retry = r};
  int status = rondo_rank_register(rank, &request, &handle);
  if (status == RONDO_SUCCESS)
    *coll = rondo_coll_find(rank, handle);
  return status;
}

// The members that are left, as a view that takes effect later. Null: no memory.
static struct rondo_retry_view *view_make(struct rondo_rank *rank, const uint32_t *left,
                                          uint32_t count) {
  const struct rondo_member_list *list = rondo_job_list(rank->job, left, count);
  struct rondo_retry_view *view = list ? malloc(sizeof *view) : NULL;
  if (view)
    *view = (struct rondo_retry_view){.members = list->members, .count = list->nranks};
  return view;
}

// Ends a hidden collective without outstanding runs.
static void hidden_deregister(struct rondo_rank *rank, struct rondo_retry *r,
                              struct rondo_coll *coll) {
  if (coll && coll != r->front)
    (void)rondo_rank_deregister(rank, rondo_coll_handle(coll), 1);
}

// Begins the flush of those that are left. No run of an earlier view is outstanding, and none
// starts.
static int retry_flush(struct rondo_rank *rank, struct rondo_retry *r, const struct look *look,
                       const uint32_t *left) {
  struct rondo_coll *parts[2] = {NULL, NULL};
  struct rondo_group group = {0};
  free(r->coming);
  r->coming = view_make(rank, left, look->count);
  int status = r->coming ? rondo_group_make(rank, left, look->count, &group) : RONDO_ERR_NO_MEMORY;
  if (status == RONDO_SUCCESS)
    status = hidden_register(rank, r, DATA, group, look->gone, &parts[DATA]);
  if (status == RONDO_SUCCESS)
    status = hidden_register(rank, r, AGREE, group, look->gone, &parts[AGREE]);
  if (group.handle)
    (void)rondo_group_forget(rank, group);
  if (status != RONDO_SUCCESS) {
    hidden_deregister(rank, r, parts[DATA]);
    return status;
  }
  struct rondo_coll *old_data = r->data;
  struct rondo_coll *old_agree = r->agree;
  rondo_rank_lock(rank);
  r->data = parts[DATA];
  r->agree = parts[AGREE];
  r->since_ns = rondo_now_ns();
  r->gone = look->gone;
  r->state.phase = RONDO_RETRY_FLUSH;
  r->numbers[0] = r->front->completed;
  hidden_submit(rank, r->agree, &r->numbers[0], &r->numbers[1]);
  rondo_lock_give(&rank->lock);
  rondo_submission_notify(rank, 1);
  hidden_deregister(rank, r, old_data);
  hidden_deregister(rank, r, old_agree);
  return RONDO_SUCCESS;
}

// ------------------------------------------------------------------ serving ---

// Fails the collective on all members, and ends the runs that wait here. Only the first failure of
// each of the three counts.
static void retry_end_failed(struct rondo_rank *rank, struct rondo_retry *r) {
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  rondo_job_fail(rank->job, &r->front->registration, r->failed_status);
  rondo_job_fail(rank->job, &r->data->registration, r->failed_status);
  rondo_job_fail(rank->job, &r->agree->registration, r->failed_status);
  r->state.phase = RONDO_RETRY_FAILED;
  if (r->front->on_device)
    retry_restart(rank, r);
  else
    rondo_coll_push(rank, r->front);
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
  rondo_submission_notify(rank, 1);
}

// A member that lives has not begun its flush for so long that it has deregistered the collective:
// a process that is stopped is lost after half the time.
static bool flush_is_overdue(const struct rondo_rank *rank, const struct rondo_retry *r) {
  return r->state.phase == RONDO_RETRY_FLUSH &&
         rondo_now_ns() - r->since_ns > 2 * rank->cfg.peer_timeout_ns;
}

static void flush_end(struct rondo_rank *rank, struct rondo_retry *r) {
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  if (r->state.phase == RONDO_RETRY_FLUSH)
    rondo_job_fail(rank->job, &r->agree->registration, RONDO_ERR_PEER);
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
}

// Says once why runs end, whose own reason names the rank that was lost. `all->lock` is held.
static void retries_tell_short(const struct rondo_rank *rank) {
  if (!rank->retries->has_told_short)
    rondo_log(RONDO_LOG_ERROR,
              "rank %u: the job has fewer ranks left than least_ranks, %u: no run is done again",
              rank->cfg.rank, rank->cfg.least_ranks);
  rank->retries->has_told_short = true;
}

// Why a collective that has met a loss, or is idle, cannot go on with the members that are left.
static int retry_find_failure(const struct rondo_rank *rank, const struct rondo_retry *r,
                              const struct look *look, bool is_new) {
  int is_open = 0;
  int verdict = rondo_gate_verdict(&r->front->registration.comm->gate, UINT64_MAX, &is_open);
  bool is_broken = r->state.phase == RONDO_RETRY_BROKEN;
  if (verdict != RONDO_SUCCESS && verdict != RONDO_ERR_PEER)
    return verdict;
  if (is_new && look->is_short)
    retries_tell_short(rank);
  if (is_new && (look->is_cut_off || look->is_root_gone || look->is_short))
    return RONDO_ERR_PEER;
  if (is_broken && rondo_load_seq_cst_u32(&rank->closing))
    return RONDO_ERR_ABORTED;
  bool is_loss = look->has_lost || !look->has_left; // or it is about to be known
  if (is_broken && !is_new && (!is_loss || rondo_now_ns() >= r->since_ns + LOSS_NS))
    return RONDO_ERR_PEER;
  return RONDO_SUCCESS;
}

struct due {
  bool flushes, fails, is_overdue;
};

// Decides what is due. Returns how long nothing else will be.
static uint64_t retry_decide(struct rondo_rank *rank, struct rondo_retry *r,
                             const struct look *look, struct due *due) {
  bool is_new = look->has_lost && look->gone != r->gone;
  bool is_closing = rondo_load_seq_cst_u32(&rank->closing);
  int status = RONDO_SUCCESS;
  rondo_rank_lock(rank);
  bool can_flush = rondo_retry_can_flush(&r->state);
  if (can_flush && (is_new || r->state.phase == RONDO_RETRY_BROKEN))
    status = retry_find_failure(rank, r, look, is_new);
  if (status != RONDO_SUCCESS)
    retry_fail(rank, r, status);
  due->flushes = can_flush && is_new && status == RONDO_SUCCESS && !is_closing;
  if (due->flushes) // no run starts any more
    rondo_retry_break(&r->state);
  due->fails = r->state.phase == RONDO_RETRY_FAILING;
  due->is_overdue = flush_is_overdue(rank, r);
  uint64_t pause_ns = LONG_NS;
  if (r->state.phase == RONDO_RETRY_BROKEN || (is_new && r->state.phase <= RONDO_RETRY_FLUSH))
    pause_ns = POLL_NS;
  else if (r->state.phase == RONDO_RETRY_FLUSH)
    pause_ns = rank->cfg.peer_timeout_ns;
  rondo_lock_give(&rank->lock);
  return pause_ns;
}

// Does what is due. Returns after which time more may be.
static uint64_t retry_serve(struct rondo_rank *rank, struct rondo_retry *r, uint32_t *left) {
  struct look look = retry_look(rank, r, left);
  struct due due;
  uint64_t pause_ns = retry_decide(rank, r, &look, &due);
  if (due.fails)
    retry_end_failed(rank, r);
  if (due.is_overdue)
    flush_end(rank, r);
  if (!due.flushes)
    return pause_ns;
  int status = retry_flush(rank, r, &look, left);
  rondo_lock_take(&rank->lock);
  if (status == RONDO_ERR_FULL) // messages wait for slow processes: once more
    r->since_ns = rondo_now_ns();
  else if (status != RONDO_SUCCESS)
    retry_fail(rank, r, status);
  rondo_lock_give(&rank->lock);
  return status == RONDO_SUCCESS ? rank->cfg.peer_timeout_ns : POLL_NS;
}

static uint64_t retries_serve(struct rondo_rank *rank, uint32_t *left) {
  uint64_t pause_ns = LONG_NS;
  pthread_mutex_lock(&rank->retries->lock);
  for (struct rondo_retry *r = rank->retries->first; r; r = r->next) {
    uint64_t own_ns = retry_serve(rank, r, left);
    pause_ns = own_ns < pause_ns ? own_ns : pause_ns;
  }
  pthread_mutex_unlock(&rank->retries->lock);
  return pause_ns;
}

static void *retries_main(void *arg) {
  struct rondo_rank *rank = arg;
  struct rondo_retries *all = rank->retries;
  pthread_setname_np(pthread_self(), "rondo-retry");
  pthread_mutex_lock(&all->wake_lock);
  while (!all->stops) {
    uint64_t seen = all->wakes;
    pthread_mutex_unlock(&all->wake_lock);
    uint64_t end_ns = rondo_now_ns() + retries_serve(rank, all->left);
    pthread_mutex_lock(&all->wake_lock);
    while (all->wakes == seen && !all->stops &&
           rondo_condition_wait(&all->wake, &all->wake_lock, end_ns) == 0)
      continue;
  }
  pthread_mutex_unlock(&all->wake_lock);
  return NULL;
}

static void retry_on_lost(struct rondo_job *job, uint32_t rank) {
  (void)rank;
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (job->members[r])
      retries_wake(rondo_rank_of(job->members[r]));
}

static int extension_open(struct rondo_job *job) {
  (void)job;
  return RONDO_SUCCESS;
}

static void extension_close(struct rondo_job *job) { (void)job; }

const struct rondo_job_extension rondo_retry_extension = {
    .open = extension_open, .close = extension_close, .lost = retry_on_lost};

// -------------------------------------------------------------- a rank's all ---

struct rondo_retries *rondo_retries_create(void) {
  struct rondo_retries *all = calloc(1, sizeof *all);
  if (!all)
    return NULL;
  pthread_mutex_init(&all->lock, NULL);
  pthread_mutex_init(&all->wake_lock, NULL);
  rondo_condition_init(&all->wake);
  return all;
}

void rondo_retries_stop(struct rondo_rank *rank) {
  struct rondo_retries *all = rank->retries;
  pthread_mutex_lock(&all->wake_lock);
  all->stops = true;
  pthread_cond_signal(&all->wake);
  pthread_mutex_unlock(&all->wake_lock);
  if (all->has_thread)
    pthread_join(all->thread, NULL);
}

static void retry_free(struct rondo_retry *r) {
  while (r->view) {
    struct rondo_retry_view *view = r->view;
    r->view = view->before;
    free(view);
  }
  free(r->coming);
  free(r->staging);
  free(r);
}

void rondo_retries_free(struct rondo_retries *all) {
  while (all->first) {
    struct rondo_retry *r = all->first;
    all->first = r->next;
    retry_free(r);
  }
  free(all->left);
  pthread_cond_destroy(&all->wake);
  pthread_mutex_destroy(&all->wake_lock);
  pthread_mutex_destroy(&all->lock);
  free(all);
}

void rondo_retries_abort(struct rondo_rank *rank) {
  for (struct rondo_retry *r = rank->retries->first; r; r = r->next)
    if (rondo_retry_can_flush(&r->state))
      retry_fail(rank, r, RONDO_ERR_ABORTED);
}

// `all->lock` is held.
static int retries_start(struct rondo_rank *rank) {
  struct rondo_retries *all = rank->retries;
  if (all->has_thread)
    return RONDO_SUCCESS;
  if (!all->left)
    all->left = malloc(rank->cfg.rank_count * sizeof *all->left);
  if (!all->left)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: rank %u: no memory", rank->cfg.rank);
  all->has_thread = rondo_quiet_thread_create(&all->thread, NULL, retries_main, rank) == 0;
  return all->has_thread
             ? RONDO_SUCCESS
             : RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "register: rank %u: the system gives no thread",
                                rank->cfg.rank);
}

// -------------------------------------------------------------- registering ---

static int retry_check(const struct rondo_rank *rank, const struct rondo_collective_desc *d) {
  bool can = d->kind == RONDO_ALL_REDUCE || d->kind == RONDO_REDUCE || d->kind == RONDO_BROADCAST;
  if (!can)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "register: id %llu: %s has no meaning with fewer ranks: "
                            "RONDO_ON_LOSS_RETRY is for all_reduce, reduce and broadcast",
                            (unsigned long long)d->id, rondo_kind_name(d->kind));
  if (!rank->member.device->driver->is_direct)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "register: id %llu: RONDO_ON_LOSS_RETRY needs the host backend",
                            (unsigned long long)d->id);
  return RONDO_SUCCESS;
}

// Gets what a front needs besides its own registration.
static int retry_complete(struct rondo_rank *rank, struct rondo_retry *r) {
  struct rondo_coll *front = r->front;
  const struct rondo_registration *reg = &front->registration;
  r->view = malloc(sizeof *r->view);
  if (front->used_buffers & 2)
    r->staging = malloc(front->recv_bytes);
  if (!r->view || (front->used_buffers & 2 && !r->staging))
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: id %llu: no memory for %llu bytes",
                            (unsigned long long)front->desc.id,
                            (unsigned long long)front->recv_bytes);
  *r->view =
      (struct rondo_retry_view){.first_run = 1, .members = reg->members, .count = reg->nranks};
  r->data = front;
  struct rondo_coll *agree = NULL;
  int status = hidden_register(rank, r, AGREE, front->desc.group, 0, &agree);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_lock_take(&rank->lock);
  r->agree = agree;
  r->next = rank->retries->first;
  rank->retries->first = r;
  rondo_lock_give(&rank->lock);
  return RONDO_SUCCESS;
}

int rondo_retry_register(struct rondo_rank *rank, const struct rondo_register_request *request,
                         struct rondo_collective *handle) {
  int status = retry_check(rank, request->desc);
  struct rondo_register_request front = *request;
  front.retry = status == RONDO_SUCCESS ? calloc(1, sizeof *front.retry) : NULL;
  if (status != RONDO_SUCCESS)
    return status;
  if (!front.retry)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "register: no memory");
  pthread_mutex_lock(&rank->retries->lock);
  status = retries_start(rank);
  if (status == RONDO_SUCCESS)
    status = rondo_rank_register(rank, &front, handle);
  bool is_registered = status == RONDO_SUCCESS;
  if (is_registered) {
    front.retry->front = rondo_coll_find(rank, *handle);
    status = retry_complete(rank, front.retry);
  }
  if (status != RONDO_SUCCESS) {
    if (is_registered)
      (void)rondo_rank_deregister(rank, *handle, 1);
    retry_free(front.retry);
  }
  pthread_mutex_unlock(&rank->retries->lock);
  if (status == RONDO_SUCCESS)
    retries_wake(rank); // members may be lost already
  return status;
}

// True if the members of the collective are those of its view, as far as this rank knows. Otherwise
// the others still need this rank for a flush. `all->lock` is held.
static bool retry_is_settled(struct rondo_rank *rank, const struct rondo_retry *r) {
  struct look look = retry_look(rank, r, rank->retries->left);
  rondo_rank_lock(rank);
  uint8_t phase = r->state.phase;
  rondo_lock_give(&rank->lock);
  bool is_over = phase >= RONDO_RETRY_FAILING;
  return is_over || (phase != RONDO_RETRY_FLUSH && phase != RONDO_RETRY_BROKEN &&
                     (!look.has_lost || look.gone == r->gone));
}

static void retry_unlink(struct rondo_rank *rank, const struct rondo_retry *r) {
  struct rondo_retry **at = &rank->retries->first;
  rondo_lock_take(&rank->lock);
  while (*at != r)
    at = &(*at)->next;
  *at = r->next;
  rondo_lock_give(&rank->lock);
}

// One try of rondo_retry_deregister. Returns RONDO_IN_PROGRESS if a flush comes first.
static int retry_try_deregister(struct rondo_rank *rank, struct rondo_collective handle) {
  pthread_mutex_lock(&rank->retries->lock);
  const struct rondo_coll *front = rondo_coll_find(rank, handle);
  struct rondo_retry *r = front ? front->retry : NULL;
  int status = !r || front->head || retry_is_settled(rank, r)
                   ? rondo_rank_deregister(rank, handle, 1)
                   : RONDO_IN_PROGRESS;
  if (status == RONDO_SUCCESS && r) {
    hidden_deregister(rank, r, r->data);
    hidden_deregister(rank, r, r->agree);
    retry_unlink(rank, r);
    retry_free(r);
  }
  pthread_mutex_unlock(&rank->retries->lock);
  return status;
}

int rondo_retry_deregister(struct rondo_rank *rank, struct rondo_collective handle) {
  const struct timespec pause = {0, (long)POLL_NS};
  uint64_t end_ns = rondo_now_ns() + (rondo_callbacks_is_inside() ? 0 : DEREGISTER_NS);
  int status = retry_try_deregister(rank, handle);
  while (status == RONDO_IN_PROGRESS && rondo_now_ns() < end_ns &&
         !rondo_load_seq_cst_u32(&rank->closing)) {
    nanosleep(&pause, NULL);
    status = retry_try_deregister(rank, handle);
  }
  if (status != RONDO_IN_PROGRESS)
    return status;
  return RONDO_LOG_REFUSE(RONDO_ERR_BUSY, "deregister: members that have met a loss do not answer");
}

void rondo_retry_fail(struct rondo_rank *rank, struct rondo_collective handle, int status,
                      const char *why) {
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  const struct rondo_coll *front = rondo_coll_find(rank, handle);
  struct rondo_retry *r = front ? front->retry : NULL;
  if (r) {
    rondo_job_fail_because(rank->job, &r->front->registration, status, why);
    rondo_job_fail_because(rank->job, &r->data->registration, status, why);
    rondo_job_fail_because(rank->job, &r->agree->registration, status, why);
  }
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
  rondo_submission_notify(rank, 1);
  retries_wake(rank);
}

// ---------------------------------------------------------------- observing ---

int rondo_retry_state(struct rondo_rank *rank, struct rondo_collective handle) {
  int status = RONDO_SUCCESS;
  int is_open = 0;
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *front = rondo_coll_find(rank, handle);
  const struct rondo_retry *r = front ? front->retry : NULL;
  const struct rondo_coll *parts[] = {front, r ? r->data : NULL, r ? r->agree : NULL};
  if (r && r->state.phase >= RONDO_RETRY_FAILING)
    status = r->failed_status;
  for (uint32_t i = 0; status == RONDO_SUCCESS && r && i < 3; i++) {
    int verdict = rondo_gate_verdict(&parts[i]->registration.comm->gate, UINT64_MAX, &is_open);
    status = verdict == RONDO_ERR_PEER ? status : verdict;
  }
  rondo_lock_give(&rank->lock);
  return r ? status : RONDO_ERR_UNKNOWN;
}

static int members_find(const struct rondo_coll *coll, uint64_t run, struct rondo_rank_list *list) {
  if (run > coll->completed)
    return RONDO_IN_PROGRESS;
  if (coll->failed_from && run >= coll->failed_from)
    return coll->failed_status;
  const uint32_t *members = coll->registration.members;
  uint32_t count = coll->registration.nranks;
  if (coll->retry) {
    const struct rondo_retry_view *view = coll->retry->view;
    while (view->first_run > run && view->before)
      view = view->before;
    members = view->members;
    count = view->count;
  }
  for (uint32_t i = 0; i < count; i++)
    rondo_rank_list_add(list, members[i]);
  return RONDO_SUCCESS;
}

int rondo_retry_list_members(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                             struct rondo_rank_list *list) {
  struct rondo_awaited a = {0};
  rondo_rank_lock(rank);
  int status = rondo_awaited_find(rank, handle, run, "run_members", &a);
  if (status == RONDO_SUCCESS)
    status = members_find(a.coll, a.run, list);
  rondo_lock_give(&rank->lock);
  return status;
}
