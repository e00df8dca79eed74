#include "runtime/order/comm_end.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "runtime/job/job.h"
#include "runtime/order/comm_detach.h"
#include "runtime/order/comm_failure.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/stream.h"

#define CACHED_COLLECTIVES 64u
#define CACHED_PAIRS 8u
// An aborted run ends as soon as no peer reads its buffers, which takes far less than this.
#define ABORT_BOUND_NS INT64_C(10000000000)

// ----------------------------------------------------------------- finding ---

int rondo_comm_pin(struct rondo_rank *rank, struct rondo_comm comm, const char *call,
                   struct rondo_comm_end **end) {
  pthread_mutex_lock(&rank->comms_lock);
  struct rondo_comm_end *e = rank->comms;
  while (e && e->handle != comm.handle)
    e = e->next;
  bool is_open = e && !e->closing;
  if (is_open)
    e->users++;
  pthread_mutex_unlock(&rank->comms_lock);
  *end = e;
  if (is_open)
    return RONDO_SUCCESS;
  if (e)
    return RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "%s: the communicator is being destroyed", call);
  return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: rank %u has no such communicator", call,
                          rank->cfg.rank);
}

void rondo_comm_unpin(struct rondo_comm_end *end) {
  pthread_mutex_lock(&end->rank->comms_lock);
  end->users--;
  pthread_mutex_unlock(&end->rank->comms_lock);
}

struct rondo_comm_end *rondo_comm_find(const struct rondo_job *job, uint32_t rank, uint64_t key) {
  struct rondo_rank *here = rondo_rank_of(job->members[rank]);
  if (!here)
    return NULL;
  pthread_mutex_lock(&here->comms_lock);
  struct rondo_comm_end *end = here->comms;
  while (end && end->key != key)
    end = end->next;
  pthread_mutex_unlock(&here->comms_lock);
  return end;
}

bool rondo_comm_has_member(const struct rondo_comm_end *end, uint32_t rank) {
  for (uint32_t i = 0; i < end->nranks; i++)
    if (end->members[i] == rank)
      return true;
  return false;
}

// ------------------------------------------------------------------ series ---

static void series_free(struct rondo_series *s) {
  rondo_cache_fini(&s->cache);
  if (s->writer.job)
    rondo_journal_writer_fini(&s->writer);
  free(s);
}

// Writes the ranks whose calls are compared with those of this rank: the previous and the next
// member, or the other rank of a pair. Returns how many.
static uint32_t series_neighbours(const struct rondo_comm_end *end, const struct rondo_series *s,
                                  uint32_t *neighbours) {
  uint32_t n = end->nranks;
  if (s->from != RONDO_SERIES_COLLECTIVE) {
    neighbours[0] = end->members[s->from == end->position ? s->to : s->from];
    return s->from != s->to;
  }
  neighbours[0] = end->members[(end->position + n - 1) % n];
  neighbours[1] = end->members[(end->position + 1) % n];
  return n > 2 ? 2 : n - 1;
}

// Makes a series at `*at`. Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, or RONDO_ERR_EXISTS (the
// rank has a communicator of that key).
static int series_create(const struct rondo_comm_end *end, uint32_t from, uint32_t to,
                         uint32_t cached, struct rondo_series **at) {
  const struct rondo_rank *rank = end->rank;
  const struct rondo_journal_name name = {end->key, from, to, rank->cfg.rank, 0};
  uint32_t neighbours[2];
  struct rondo_series *s = calloc(1, sizeof *s);
  if (!s)
    return RONDO_ERR_NO_MEMORY;
  s->from = from;
  s->to = to;
  uint32_t count = series_neighbours(end, s, neighbours);
  int status = rondo_cache_init(&s->cache, cached);
  if (status == RONDO_SUCCESS)
    status = rondo_journal_writer_init(&s->writer, rank->job, &name, neighbours, count);
  if (status == RONDO_SUCCESS)
    *at = s;
  else
    series_free(s);
  return status;
}

int rondo_comm_find_series(struct rondo_comm_end *end, const struct rondo_collective_desc *what,
                           struct rondo_series **series) {
  if (what->kind != RONDO_SEND_RECV) {
    *series = end->series[0];
    return RONDO_SUCCESS;
  }
  uint32_t from = what->root;
  uint32_t to = what->peer;
  if (from >= end->nranks || to >= end->nranks || (from != end->position && to != end->position))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: key %llu: send_recv from %u to %u called at position %u of "
                            "%u ranks",
                            (unsigned long long)end->key, from, to, end->position, end->nranks);
  struct rondo_series **at = &end->series[1 + (from == end->position ? to : end->nranks + from)];
  int status = *at ? RONDO_SUCCESS : series_create(end, from, to, end->cached_pairs, at);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "comm_call: no memory for another pair");
  *series = *at;
  return RONDO_SUCCESS;
}

void rondo_comm_visit(const struct rondo_comm_end *end,
                      void (*visit)(struct rondo_collective coll, void *arg), void *arg) {
  for (uint32_t i = 0; i < rondo_comm_series_count(end); i++) {
    const struct rondo_series *s = end->series[i];
    for (uint32_t k = 0; s && k < s->cache.count; k++)
      visit(s->cache.entries[k].coll, arg);
  }
  for (const struct rondo_retired_coll *p = end->retired; p; p = p->next)
    visit(p->coll, arg);
}

// -------------------------------------------------------------------- turns ---

void rondo_comm_take_turn(struct rondo_comm_end *end) {
  pthread_mutex_lock(&end->lock);
  while (end->is_calling) {
    end->turn_awaits++;
    pthread_cond_wait(&end->turn_over, &end->lock);
    end->turn_awaits--;
  }
  end->is_calling = true;
}

void rondo_comm_give_turn(struct rondo_comm_end *end) {
  end->is_calling = false;
  if (end->turn_awaits)
    pthread_cond_signal(&end->turn_over);
  pthread_mutex_unlock(&end->lock);
}

void rondo_comm_unlock_for_device(struct rondo_comm_end *end) {
  if (!end->rank->member.device->driver->is_direct)
    pthread_mutex_unlock(&end->lock);
}

void rondo_comm_lock_after_device(struct rondo_comm_end *end) {
  if (!end->rank->member.device->driver->is_direct)
    pthread_mutex_lock(&end->lock);
}

// ----------------------------------------------------------------- retiring ---

// Deregisters a retired collective. Returns false if it has runs left.
static bool retired_try_deregister(struct rondo_comm_end *end,
                                   const struct rondo_retired_coll *retired) {
  rondo_comm_unlock_for_device(end);
  int status = rondo_rank_deregister(end->rank, retired->coll, 0);
  rondo_comm_lock_after_device(end);
  return status != RONDO_ERR_BUSY;
}

void rondo_comm_sweep(struct rondo_comm_end *end) {
  for (struct rondo_retired_coll **at = &end->retired; *at;) {
    struct rondo_retired_coll *p = *at;
    if (rondo_load_relaxed_u32(&end->owner.failed) || !retired_try_deregister(end, p)) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    end->retired_count--;
    free(p);
  }
}

// ------------------------------------------------------------------ making ---

static void end_free(struct rondo_comm_end *end) {
  rondo_comm_free_detachments(end);
  for (uint32_t i = 0; end->series && i < rondo_comm_series_count(end); i++)
    if (end->series[i])
      series_free(end->series[i]);
  while (end->retired) {
    struct rondo_retired_coll *retired = end->retired;
    end->retired = retired->next;
    free(retired);
  }
  free(end->spare_retired);
  free((void *)end->series);
  pthread_cond_destroy(&end->turn_over);
  pthread_mutex_destroy(&end->lock);
  free(end);
}

// Frees an end that is in no list.
static void end_discard(struct rondo_comm_end *end) {
  if (end->group.handle)
    (void)rondo_group_forget(end->rank, end->group);
  end_free(end);
}

// Sets the members, and makes a group that lives as long as the end.
static int end_set_group(struct rondo_comm_end *end, struct rondo_group group) {
  struct rondo_rank *rank = end->rank;
  rondo_lock_take(&rank->lock);
  const struct rondo_member_list *list = NULL;
  int status = rondo_group_list(rank, group, &list);
  rondo_lock_give(&rank->lock);
  if (status != RONDO_SUCCESS)
    return status;
  end->members = list->members;
  end->nranks = list->nranks;
  while (end->position < end->nranks && end->members[end->position] != rank->cfg.rank)
    end->position++;
  if (end->position == end->nranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_create: key %llu: rank %u is not in the group",
                            (unsigned long long)end->key, rank->cfg.rank);
  return group.handle ? rondo_group_make(rank, end->members, end->nranks, &end->group)
                      : RONDO_SUCCESS;
}

static int end_make(struct rondo_rank *rank, const struct rondo_comm_config *cfg,
                    struct rondo_comm_end **made) {
  struct rondo_comm_end *end = calloc(1, sizeof *end);
  if (!end)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "comm_create: no memory");
  end->rank = rank;
  end->key = cfg->key;
  end->priority = cfg->priority;
  end->cached_pairs = cfg->cached_pairs ? cfg->cached_pairs : CACHED_PAIRS;
  pthread_mutex_init(&end->lock, NULL);
  pthread_cond_init(&end->turn_over, NULL);
  int status = end_set_group(end, cfg->group);
  if (status == RONDO_SUCCESS) {
    uint32_t cached = cfg->cached_collectives ? cfg->cached_collectives : CACHED_COLLECTIVES;
    end->series =
        (struct rondo_series **)calloc(rondo_comm_series_count(end), sizeof(struct rondo_series *));
    status = end->series ? series_create(end, RONDO_SERIES_COLLECTIVE, RONDO_SERIES_COLLECTIVE,
                                         cached, &end->series[0])
                         : RONDO_ERR_NO_MEMORY;
    if (status != RONDO_SUCCESS)
      rondo_log(RONDO_LOG_ERROR, "comm_create: rank %u, key %llu: no memory, or the key is in use",
                rank->cfg.rank, (unsigned long long)end->key);
  }
  if (status == RONDO_SUCCESS)
    *made = end;
  else
    end_discard(end);
  return status;
}

// Adds the end to the rank's list, unless the list has an end of the same key.
static bool end_try_enlist(struct rondo_comm_end *end) {
  struct rondo_rank *rank = end->rank;
  pthread_mutex_lock(&rank->job->lock);
  bool is_new = !rondo_comm_find(rank->job, rank->cfg.rank, end->key);
  if (is_new) {
    pthread_mutex_lock(&rank->comms_lock);
    end->handle = ++rank->next_comm;
    end->next = rank->comms;
    rank->comms = end;
    pthread_mutex_unlock(&rank->comms_lock);
    rondo_comm_attach(end);
    rondo_comm_inherit_failure(end);
  }
  pthread_mutex_unlock(&rank->job->lock);
  return is_new;
}

int rondo_comm_end_create(struct rondo_rank *rank, const struct rondo_comm_config *cfg,
                          struct rondo_comm *comm) {
  struct rondo_comm_end *end = NULL;
  int status = end_make(rank, cfg, &end);
  if (status != RONDO_SUCCESS)
    return status;
  if (end_try_enlist(end)) {
    comm->handle = end->handle;
    return RONDO_SUCCESS;
  }
  end_discard(end);
  return RONDO_LOG_REFUSE(RONDO_ERR_EXISTS,
                          "comm_create: rank %u already has a communicator of key %llu",
                          rank->cfg.rank, (unsigned long long)cfg->key);
}

// ------------------------------------------------------------------ ending ---

struct graph_count {
  struct rondo_rank *rank;
  uint32_t graphs;
};

static void coll_count_graphs(struct rondo_collective handle, void *arg) {
  struct graph_count *count = arg;
  const struct rondo_coll *coll = rondo_coll_find(count->rank, handle);
  count->graphs += coll ? coll->replays : 0;
}

// True while a graph exists that contains calls of the communicator, which is locked.
static bool end_is_in_graph(const struct rondo_comm_end *end) {
  struct graph_count count = {end->rank, 0};
  rondo_lock_take(&end->rank->lock);
  rondo_replays_reap(end->rank);
  rondo_comm_visit(end, coll_count_graphs, &count);
  rondo_lock_give(&end->rank->lock);
  return count.graphs > 0;
}

// Waits for other threads to unpin the end. The calls that they wait for have ended.
static void end_await_users(struct rondo_comm_end *end) {
  const struct timespec pause = {0, 50000};
  for (;;) {
    pthread_mutex_lock(&end->rank->comms_lock);
    uint32_t users = end->users;
    pthread_mutex_unlock(&end->rank->comms_lock);
    if (users <= 1)
      return;
    nanosleep(&pause, NULL);
  }
}

static void coll_deregister(struct rondo_collective coll, void *arg) {
  (void)rondo_rank_deregister(arg, coll, 0);
}

static void end_unlink_and_free(struct rondo_comm_end *end) {
  struct rondo_rank *rank = end->rank;
  end_await_users(end);
  rondo_comm_visit(end, coll_deregister, rank);
  pthread_mutex_lock(&rank->job->lock); // other threads find the end under either lock
  rondo_comm_detach(end);
  pthread_mutex_lock(&rank->comms_lock);
  RONDO_LIST_REMOVE(rank->comms, end, next);
  pthread_mutex_unlock(&rank->comms_lock);
  pthread_mutex_unlock(&rank->job->lock);
  end_discard(end);
}

// Refuses new calls from now on. Only one thread closes an end. Returns RONDO_SUCCESS,
// RONDO_ERR_BUSY or RONDO_ERR_CLOSED.
static int end_close(struct rondo_comm_end *end) {
  int status = RONDO_SUCCESS;
  rondo_comm_take_turn(end); // calls that have begun are drained
  if (end_is_in_graph(end))
    status = RONDO_LOG_REFUSE(RONDO_ERR_BUSY,
                              "comm_destroy: key %llu: a graph with its calls still exists",
                              (unsigned long long)end->key);
  pthread_mutex_lock(&end->rank->comms_lock);
  if (status == RONDO_SUCCESS && end->closing)
    status = RONDO_LOG_REFUSE(RONDO_ERR_CLOSED,
                              "comm_destroy: the communicator is already being destroyed");
  if (status == RONDO_SUCCESS)
    end->closing = 1;
  pthread_mutex_unlock(&end->rank->comms_lock);
  rondo_comm_give_turn(end);
  return status;
}

static int end_drain(struct rondo_comm_end *end, int mode, int64_t timeout_ns) {
  if (mode == RONDO_DESTROY_DRAIN && rondo_comm_end_wait_all(end, timeout_ns) != RONDO_ERR_TIMEOUT)
    return RONDO_SUCCESS;
  rondo_comm_end_fail(end, RONDO_ERR_ABORTED, "destroyed with calls outstanding");
  if (rondo_comm_end_wait_all(end, ABORT_BOUND_NS) == RONDO_ERR_TIMEOUT)
    return RONDO_LOG_REFUSE(
        RONDO_ERR_INTERNAL,
        "comm_destroy: key %llu: aborted calls did not end; the communicator still exists",
        (unsigned long long)end->key);
  return mode == RONDO_DESTROY_DRAIN ? RONDO_ERR_TIMEOUT : RONDO_SUCCESS;
}

int rondo_comm_end_destroy(struct rondo_comm_end *end, int mode, int64_t timeout_ns) {
  int status = end_close(end);
  if (status != RONDO_SUCCESS)
    return status;
  status = end_drain(end, mode, timeout_ns);
  if (status == RONDO_SUCCESS || status == RONDO_ERR_TIMEOUT)
    end_unlink_and_free(end);
  return status;
}

void rondo_comms_free(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->job->lock); // other threads use the ends of the list under it
  pthread_mutex_lock(&rank->comms_lock);
  struct rondo_comm_end *ends = rank->comms;
  rank->comms = NULL;
  pthread_mutex_unlock(&rank->comms_lock);
  pthread_mutex_unlock(&rank->job->lock);
  while (ends) {
    struct rondo_comm_end *end = ends;
    ends = end->next;
    end_free(end);
  }
}
