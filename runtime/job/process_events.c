// Receives messages from the other processes of a job and handles their loss. Events and timers of
// the members run on the control thread, events of the proxy on the thread that holds the proxy.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/job/agreeing.h"
#include "runtime/job/device_work.h"
#include "runtime/job/match.h"
#include "runtime/job/offers.h"
#include "runtime/job/processes.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/proxy.h"

#define BROKEN_NS UINT64_C(1000000000) // for the members to report the cause, at most

// ----------------------------------------------------------- competing ranks ---

static void competing_set(struct rondo_job *job, uint32_t count) {
  job->transports.device->driver->set_competing(job->competing_ranks, count);
  job->competing_ranks = count;
}

// Tells the driver how many ranks of other processes compete for this process's cores.
static void processes_count_competing(struct rondo_job *job) {
  const struct rondo_driver *driver = job->transports.device->driver;
  struct rondo_members_process own;
  struct rondo_members_process other;
  uint32_t count = 0;
  if (!driver->count_competing || job->roster != RONDO_ROSTER_KNOWN ||
      rondo_members_calls->process_get(job->membership, job->self, &own) != RONDO_SUCCESS)
    return;
  for (uint32_t p = 0; p < job->process_count; p++) {
    if (p == job->self || job->processes[p].is_lost ||
        !rondo_members_calls->is_same_machine(job->membership, p) ||
        rondo_members_calls->process_get(job->membership, p, &other) != RONDO_SUCCESS)
      continue;
    // A pid of another namespace means nothing here: then all ranks compete.
    int is_known = other.pid_namespace == own.pid_namespace;
    job->processes[p].competing =
        is_known ? driver->count_competing(other.pid, other.rank_count) : other.rank_count;
    count += job->processes[p].competing;
  }
  competing_set(job, count);
}

// ----------------------------------------------------------------- settling ---

static void entry_resume(struct rondo_job *job, struct rondo_match_entry *m) {
  rondo_match_settle_all(job, m);
  rondo_match_rebind(job, m);
}

static void entries_resume(struct rondo_job *job) {
  if (job->transports.device->driver->sharing)
    rondo_match_entries_visit(job, entry_resume);
}

// ------------------------------------------------------------------- losing ---

static void rank_lose(struct rondo_job *job, uint32_t rank, int left) {
  if (job->gone[rank])
    return;
  job->gone[rank] = left ? RONDO_RANK_LEFT : RONDO_RANK_LOST;
  struct rondo_match_entry *next = NULL;
  for (struct rondo_match_entry *m = LIST_FIRST(&job->entry_list); m; m = next) {
    next = LIST_NEXT(m, listed);
    rondo_match_lost(job, m, rank, left);
  }
  rondo_agreeing_lose(job, rank);
  RONDO_JOB_CALL(job, lost, job, rank);
}

static void process_lose(struct rondo_job *job, uint32_t process) {
  struct rondo_process *p = &job->processes[process];
  p->is_lost = 1;
  if (p->competing)
    competing_set(job, job->competing_ranks - p->competing);
  p->competing = 0;
  rondo_transports_lose(&job->transports, process);
}

// Treats a process as lost, and has it removed from the job.
static void process_give_up(struct rondo_job *job, uint32_t process, const char *text) {
  if (job->processes[process].is_lost)
    return;
  if (rondo_members_calls->give_up)
    rondo_members_calls->give_up(job->membership, process, text);
  job->processes[process].is_lost = 1; // nothing more is sent to it
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (rondo_processes_where(job, r) == process)
      rank_lose(job, r, 0);
  process_lose(job, process);
  entries_resume(job);
}

static void processes_give_up_failed(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  for (uint32_t p = 0; p < job->process_count; p++)
    if (job->processes[p].is_failed)
      process_give_up(job, p, "a message to it could not be sent");
  rondo_job_unlock(job);
}

static void on_lost(void *arg, const uint32_t *ranks, uint32_t rank_count, int reason,
                    const char *text) {
  struct rondo_job *job = arg;
  int left = reason == RONDO_LOST_LEFT;
  pthread_mutex_lock(&job->lock);
  if (job->roster == RONDO_ROSTER_AWAITED)
    job->roster = RONDO_ROSTER_FAILED; // a roster would have arrived before the loss of its ranks
  job->is_cut_off |= reason == RONDO_LOST_SELF;
  if (!left && rank_count)
    rondo_log(RONDO_LOG_ERROR, "rank %u%s is lost: %s", ranks[0],
              rank_count > 1 ? " with the others of its process" : "", text ? text : "");
  for (uint32_t i = 0; i < rank_count; i++)
    rank_lose(job, ranks[i], left);
  for (uint32_t i = 0; i < rank_count; i++) {
    uint32_t process = rondo_processes_where(job, ranks[i]);
    if (process < job->process_count && !rondo_processes_has_rank(job, process))
      process_lose(job, process);
  }
  entries_resume(job);
  pthread_cond_broadcast(&job->attendance);
  rondo_job_unlock(job);
}

// ---------------------------------------------------------------- receiving ---

// Each receiver returns false if the message is invalid.
static bool transports_receive(struct rondo_job *job, struct rondo_mesh_message *message) {
  struct rondo_transport_arrival a = {.from = message->from,
                                      .type = message->type,
                                      .bytes = message->bytes,
                                      .size = message->size,
                                      .fds = message->fds,
                                      .fd_count = message->fd_count};
  if (message->type == RONDO_MESSAGE_PROXY)
    a.address_bytes = rondo_members_calls->address_of(job->membership, message->from, &a.address);
  return rondo_transports_receive(&job->transports, &a) != 0;
}

static bool extension_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  for (const struct rondo_job_extension *const *e = job->extensions; *e; e++)
    for (uint32_t i = 0; i < RONDO_JOB_EXTENSION_TYPES; i++)
      if ((*e)->receive && (*e)->types[i] == message->type)
        return (*e)->receive(job, message);
  return false;
}

static bool message_receive(struct rondo_job *job, struct rondo_mesh_message *message) {
  switch (message->type) {
  case RONDO_MESSAGE_ARENA:
  case RONDO_MESSAGE_PART:
  case RONDO_MESSAGE_MAPPED:
  case RONDO_MESSAGE_WINDOW:
  case RONDO_MESSAGE_PROXY:
    return transports_receive(job, message);
  case RONDO_MESSAGE_OFFERS:
  case RONDO_MESSAGE_DETACH:
  case RONDO_MESSAGE_RELEASE:
    return rondo_offers_receive(job, message);
  case RONDO_MESSAGE_ENTRY:
  case RONDO_MESSAGE_MEMBERS:
    return rondo_agreeing_receive(job, message);
  default:
    return extension_receive(job, message);
  }
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  if (message->from < job->process_count && !job->processes[message->from].is_lost) {
    if (!message_receive(job, message)) {
      rondo_log(RONDO_LOG_ERROR, "process %u sent an invalid message (type %u, %zu bytes)",
                message->from, message->type, message->size);
      process_give_up(job, message->from, "it sent an invalid message");
    }
  }
  rondo_job_unlock(job);
}

// ------------------------------------------------------------------- roster ---

// Allocates the table of processes and connects the transports to them. Returns RONDO_SUCCESS or
// RONDO_ERR_NO_MEMORY.
static int processes_create(struct rondo_job *job) {
  uint32_t count = rondo_members_calls->process_count(job->membership);
  struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
  struct rondo_transport_peer *peers = calloc(count, sizeof *peers);
  job->processes = calloc(count, sizeof *job->processes);
  if (!peers || !job->processes) {
    free(peers);
    free(job->processes);
    job->processes = NULL;
    return RONDO_ERR_NO_MEMORY;
  }
  job->process_count = count;
  job->self = rondo_members_calls->self(job->membership);
  for (uint32_t p = 0; p < count; p++) {
    struct rondo_members_process at = {0};
    peers[p].is_same_machine = rondo_members_calls->is_same_machine(job->membership, p) != 0;
    if (rondo_members_calls->process_get(job->membership, p, &at) == RONDO_SUCCESS)
      peers[p].asks_window = at.asks_window != 0;
    job->processes[p].machine = at.machine[0];
    job->processes[p].cores = at.cores;
    job->processes[p].ports = at.ports;
  }
  (void)rondo_members_calls->address_of(job->membership, job->self, &own);
  rondo_transports_meet(&job->transports, job->self, &own, count, peers);
  return RONDO_SUCCESS;
}

// Without memory for the roster, all ranks of other processes count as lost.
static void roster_give_up(struct rondo_job *job) {
  rondo_log(RONDO_LOG_ERROR, "no memory for the roster: all ranks of other processes are given up");
  job->roster = RONDO_ROSTER_FAILED;
  job->process_count = 0;
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (!job->was_here[r])
      rank_lose(job, r, 0);
}

// Takes the cost model of rank 0, so that all ranks choose the same algorithms.
static void job_take_model(struct rondo_job *job) {
  const struct rondo_cost_model *own = job->model;
  if (!rondo_members_calls->model)
    return;
  job->model = rondo_members_calls->model(job->membership);
  if (own && (!job->model || job->model->digest != own->digest))
    rondo_log(RONDO_LOG_WARN,
              "the cost model of this process (RONDO_COST_MODEL) is not used: rank 0, whose model "
              "the job uses, has %s",
              job->model ? "another one" : "none");
}

static void on_roster(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  job->roster = RONDO_ROSTER_KNOWN;
  job_take_model(job);
  bool has_memory = processes_create(job) == RONDO_SUCCESS;
  if (has_memory)
    rondo_match_entries_visit(job, rondo_match_plan_all); // before others are told of them
  if (!has_memory || !rondo_agreeing_locate(job))
    roster_give_up(job);
  processes_count_competing(job);
  RONDO_JOB_CALL(job, located, job);
  rondo_match_entries_visit(job, rondo_match_settle_all);
  pthread_cond_broadcast(&job->attendance);
  rondo_job_unlock(job);
}

// Without the lock: it was set before the members began.
static const struct rondo_cost_model *on_model(void *arg) {
  const struct rondo_job *job = arg;
  return job->own_model ? &job->own_model->model : NULL;
}

const struct rondo_members_events rondo_job_members_events = {on_roster, on_receive, on_lost,
                                                              on_model};

// --------------------------------------------------------------- transports ---

static void on_send(void *owner, uint32_t process, uint32_t type, const void *bytes, size_t size,
                    int fd) {
  struct rondo_job *job = owner;
  struct rondo_mesh_send message = {.to = process, .type = type, .bytes = bytes, .size = size};
  if (fd >= 0) {
    message.fds = &fd;
    message.fd_count = 1;
  }
  if (job->processes[process].is_lost || job->processes[process].is_failed)
    return;
  int status = rondo_members_calls->send(job->membership, &message);
  if (status == RONDO_SUCCESS || status == RONDO_ERR_PEER)
    return; // on_lost handles a process that is gone
  // No memory for the message, or a defect. The process would miss the message unnoticed.
  rondo_log(RONDO_LOG_ERROR, "process %u is given up: a message to it cannot be sent (%s)", process,
            rondo_status_name(status));
  job->processes[process].is_failed = 1; // the caller may be changing registrations
  (void)rondo_members_calls->after(job->membership, 0, processes_give_up_failed, job);
}

static void on_after(void *owner, uint64_t delay_ns, void (*call)(void *arg), void *arg) {
  const struct rondo_job *job = owner;
  (void)rondo_members_calls->after(job->membership, delay_ns, call, arg);
}

static void on_resume(void *owner) { entries_resume(owner); }

static void on_unlock(void *owner) { rondo_job_unlock(owner); }

static void on_link_over(void *owner, struct rondo_proxy_link *link, int is_whole) {
  struct rondo_job *job = owner;
  pthread_mutex_lock(&job->lock);
  rondo_match_link_over(job, link, is_whole);
  pthread_mutex_unlock(&job->lock);
}

// Gives up processes that the proxy does not reach and whose loss the members have not reported
// meanwhile.
static void processes_give_up_broken(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  for (uint32_t p = 0; p < job->process_count; p++) {
    if (!job->processes[p].is_broken || job->processes[p].is_lost)
      continue;
    rondo_log(RONDO_LOG_ERROR, "process %u is given up: the network no longer reaches it", p);
    process_give_up(job, p, "the network no longer reaches it");
  }
  rondo_job_unlock(job);
}

static void on_broken(void *owner, uint32_t process, const char *text) {
  struct rondo_job *job = owner;
  uint64_t delay_ns = job->peer_timeout_ns / 2;
  pthread_mutex_lock(&job->lock);
  if (!job->processes[process].is_lost && !job->is_leaving) {
    rondo_log(RONDO_LOG_INFO, "process %u: the network: %s", process, text);
    job->processes[process].is_broken = 1;
    (void)rondo_members_calls->after(job->membership, delay_ns < BROKEN_NS ? delay_ns : BROKEN_NS,
                                     processes_give_up_broken, job);
  }
  pthread_mutex_unlock(&job->lock);
}

// Notifies the rank of a link, unless it has left.
static void on_notify(void *owner, const struct rondo_proxy_link *link) {
  struct rondo_job *job = owner;
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(link);
  uint32_t rank = config->is_outgoing ? config->first->producer_rank : config->first->consumer_rank;
  pthread_mutex_lock(&job->lock);
  const struct rondo_member *member = rank < job->rank_count ? job->members[rank] : NULL;
  if (member && !member->is_manual && member->daemon->driver->notify_arrival)
    member->daemon->driver->notify_arrival(member->daemon);
  pthread_mutex_unlock(&job->lock);
}

static int on_is_link_used(void *owner, const struct rondo_proxy_link *link) {
  struct rondo_job *job = owner;
  pthread_mutex_lock(&job->lock);
  int used = rondo_match_is_link_used(job, link);
  pthread_mutex_unlock(&job->lock);
  return used;
}

// If another thread holds the lock, counts as busy: that thread may be about to submit.
static int on_is_busy(void *owner) {
  struct rondo_job *job = owner;
  int busy = 0;
  if (pthread_mutex_trylock(&job->lock))
    return 1;
  for (uint32_t r = 0; r < job->rank_count && !busy; r++)
    busy = job->members[r] && rondo_load_seq_cst_u64(&job->members[r]->daemon->outstanding); // P1
  pthread_mutex_unlock(&job->lock);
  return busy;
}

const struct rondo_transports_events rondo_job_transport_events = {.send = on_send,
                                                                   .after = on_after,
                                                                   .resume = on_resume,
                                                                   .unlock = on_unlock,
                                                                   .link_over = on_link_over,
                                                                   .broken = on_broken,
                                                                   .notify = on_notify,
                                                                   .is_link_used = on_is_link_used,
                                                                   .is_busy = on_is_busy};

// ----------------------------------------------------------------- watching ---

static bool is_blocked_on(const struct rondo_job *job, const struct rondo_registration *r,
                          uint32_t process) {
  if (rondo_load_relaxed_u64(r->submitted) == rondo_load_relaxed_u64(r->completed))
    return false;
  for (uint32_t i = 0; i < r->nranks; i++)
    if (rondo_processes_where(job, r->members[i]) == process)
      return true;
  return false;
}

// True if a run here waits for the process.
static bool process_is_awaited(const struct rondo_job *job, uint32_t process) {
  const struct rondo_match_entry *m;
  LIST_FOREACH (m, &job->entry_list, listed)
    for (const struct rondo_registration *r = m->registrations; r; r = r->next)
      if (r->comm->gate.state < RONDO_GATE_FAILED && is_blocked_on(job, r, process))
        return true;
  return false;
}

// Tells the members for which processes runs here have waited since the last tick. One that does
// not answer is removed from the job. A slow process answers too, on its control thread.
static void processes_watch(struct rondo_job *job) {
  uint32_t *blocked = malloc((job->process_count + 1) * sizeof *blocked);
  uint32_t count = 0;
  for (uint32_t p = 0; p < job->process_count && blocked; p++) {
    struct rondo_process *at = &job->processes[p];
    bool was_awaited = at->is_awaited;
    at->is_awaited = p != job->self && !at->is_lost && process_is_awaited(job, p);
    if (at->is_awaited && was_awaited)
      blocked[count++] = p;
  }
  if (blocked && (count || job->was_blocked) && rondo_members_calls->blocked)
    rondo_members_calls->blocked(job->membership, blocked, count);
  job->was_blocked = count != 0;
  free(blocked);
}

static void on_tick(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  for (uint32_t p = 0; p < job->process_count; p++)
    if (job->processes[p].is_failed)
      process_give_up(job, p, "a message to it could not be sent");
  processes_watch(job);
  (void)rondo_members_calls->after(job->membership, job->peer_timeout_ns / 4, on_tick, job);
  rondo_job_unlock(job);
}

void rondo_processes_watch(struct rondo_job *job) {
  uint64_t period_ns = job->peer_timeout_ns / 4;
  if (!job->peer_timeout_ns)
    return;
  (void)rondo_members_calls->after(job->membership, period_ns, on_tick, job);
}
