// The life of a communicator's end.
#include "runtime/order/comm_end.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/order/failure.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/stream.h"

#define CACHED_COLLECTIVES 64u
#define CACHED_PAIRS 8u
// After an abort every run ends as soon as no peer is reading a buffer: far within this.
#define ABORT_BOUND_NS INT64_C(10000000000)

// ----------------------------------------------------------------- finding ---

int rondo_comm_pin(struct rondo_rank *rank, struct rondo_comm comm, const char *call,
                   struct rondo_comm_end **end) {
  int status = RONDO_ERR_UNKNOWN;
  pthread_mutex_lock(&rank->comms_lock);
  for (struct rondo_comm_end *e = rank->comms; e; e = e->next) {
    if (e->handle != comm.handle)
      continue;
    status = e->closing ? RONDO_ERR_CLOSED : RONDO_SUCCESS;
    if (status == RONDO_SUCCESS) {
      e->users++;
      *end = e;
    }
    break;
  }
  pthread_mutex_unlock(&rank->comms_lock);
  if (status == RONDO_ERR_UNKNOWN)
    return RONDO_LOG_REFUSE(status, "%s: rank %u has no such communicator", call, rank->cfg.rank);
  if (status == RONDO_ERR_CLOSED)
    return RONDO_LOG_REFUSE(status, "%s: the communicator is being destroyed", call);
  return RONDO_SUCCESS;
}

void rondo_comm_unpin(struct rondo_comm_end *end) {
  pthread_mutex_lock(&end->rank->comms_lock);
  end->users--;
  pthread_mutex_unlock(&end->rank->comms_lock);
}

// ------------------------------------------------------------------ series ---

static void series_fini(struct rondo_series *s) {
  rondo_cache_fini(&s->cache);
  if (s->track.job)
    rondo_track_fini(&s->track);
}

// Whose calls are compared with those of this rank: the members before and behind it, or the other of a pair.
static uint32_t find_neighbours(const struct rondo_comm_end *end, const struct rondo_series *s,
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

static int series_init(const struct rondo_comm_end *end, struct rondo_series *s, uint32_t from,
                       uint32_t to, uint32_t cached) {
  const struct rondo_rank *rank = end->rank;
  const struct rondo_journal_name name = {end->key, from, to, rank->cfg.rank, 0};
  uint32_t neighbours[2];
  memset(s, 0, sizeof *s);
  s->from = from;
  s->to = to;
  int status = rondo_cache_init(&s->cache, cached);
  uint32_t count = find_neighbours(end, s, neighbours);
  if (status == RONDO_SUCCESS)
    status = rondo_track_init(&s->track, rank->job, &name, neighbours, count);
  if (status != RONDO_SUCCESS)
    rondo_cache_fini(&s->cache);
  return status;
}

static int make_pair(struct rondo_comm_end *end, uint32_t from, uint32_t to,
                     struct rondo_series **at) {
  struct rondo_series *s = malloc(sizeof *s);
  int status = s ? series_init(end, s, from, to, end->cached_pairs) : RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS) {
    free(s);
    return RONDO_LOG_REFUSE(status, "comm_call: no memory for one more pair");
  }
  *at = s;
  return RONDO_SUCCESS;
}

int rondo_comm_series(struct rondo_comm_end *end, const struct rondo_collective_desc *what,
                      struct rondo_series **series) {
  if (what->kind != RONDO_SEND_RECV) {
    *series = &end->collective;
    return RONDO_SUCCESS;
  }
  uint32_t from = what->root;
  uint32_t to = what->peer;
  if (from >= end->nranks || to >= end->nranks || (from != end->position && to != end->position))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: key %llu: send_recv from %u to %u called at position %u of "
                            "%u ranks",
                            (unsigned long long)end->key, from, to, end->position, end->nranks);
  struct rondo_series **at = from == end->position ? &end->sends[to] : &end->recvs[from];
  int status = *at ? RONDO_SUCCESS : make_pair(end, from, to, at);
  *series = *at;
  return status;
}

static void visit_cache(const struct rondo_series *s,
                        void (*visit)(struct rondo_collective coll, void *arg), void *arg) {
  for (uint32_t i = 0; s && i < s->cache.count; i++)
    visit(s->cache.entries[i].coll, arg);
}

void rondo_comm_visit(const struct rondo_comm_end *end,
                      void (*visit)(struct rondo_collective coll, void *arg), void *arg) {
  visit_cache(&end->collective, visit, arg);
  for (uint32_t i = 0; i < end->nranks; i++) {
    visit_cache(end->sends[i], visit, arg);
    visit_cache(end->recvs[i], visit, arg);
  }
  for (const struct rondo_retired_coll *p = end->retired; p; p = p->next)
    visit(p->coll, arg);
}

static int is_awaited(const struct rondo_comm_end *end, struct rondo_collective coll) {
  for (const struct rondo_comm_waiter *w = end->waiters; w; w = w->next)
    if (w->coll.handle == coll.handle)
      return 1;
  return 0;
}

void rondo_comm_sweep(struct rondo_comm_end *end) {
  for (struct rondo_retired_coll **at = &end->retired; *at;) {
    struct rondo_retired_coll *p = *at;
    if (rondo_load_relaxed_u32(&end->owner.failed) || is_awaited(end, p->coll) ||
        rondo_rank_deregister(end->rank, p->coll, 0) == RONDO_ERR_BUSY) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    end->retired_count--;
    free(p);
  }
}

// ------------------------------------------------------------------ making ---

static int check_config(const struct rondo_comm_config *cfg) {
  if (!cfg || cfg->size != sizeof *cfg || cfg->version != RONDO_COMM_CONFIG_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_create: the configuration is null, or of another version");
  if (cfg->priority < RONDO_PRIORITY_MIN || cfg->priority > RONDO_PRIORITY_MAX)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_create: priority %d is out of range",
                            cfg->priority);
  if (cfg->cached_collectives > RONDO_COMM_MAX_CACHED || cfg->cached_pairs > RONDO_COMM_MAX_CACHED)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_create: %u cached collectives and %u of a pair, at most %u",
                            cfg->cached_collectives, cfg->cached_pairs, RONDO_COMM_MAX_CACHED);
  return RONDO_SUCCESS;
}

static void end_free(struct rondo_comm_end *end) {
  rondo_comm_forget_detached(end);
  for (uint32_t i = 0; end->sends && i < 2 * end->nranks; i++) {
    if (!end->sends[i])
      continue;
    series_fini(end->sends[i]);
    free(end->sends[i]);
  }
  series_fini(&end->collective);
  while (end->retired) {
    struct rondo_retired_coll *p = end->retired;
    end->retired = p->next;
    free(p);
  }
  free(end->spare);
  free((void *)end->sends);
  free(end->members);
  pthread_mutex_destroy(&end->lock);
  free(end);
}

// Its members, and a group of its own that lasts as long as it does.
static int set_group(struct rondo_comm_end *end, struct rondo_group group) {
  struct rondo_rank *rank = end->rank;
  rondo_lock_take(&rank->lock);
  int status = rondo_group_members(rank, group, &end->members, &end->nranks);
  rondo_lock_give(&rank->lock);
  if (status != RONDO_SUCCESS)
    return status;
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
  int status = set_group(end, cfg->group);
  if (status == RONDO_SUCCESS) {
    end->sends =
        (struct rondo_series **)calloc(2 * (size_t)end->nranks, sizeof(struct rondo_series *));
    end->recvs = end->sends ? end->sends + end->nranks : NULL;
    status =
        end->sends
            ? series_init(end, &end->collective, RONDO_SERIES_COLLECTIVE, RONDO_SERIES_COLLECTIVE,
                          cfg->cached_collectives ? cfg->cached_collectives : CACHED_COLLECTIVES)
            : RONDO_ERR_NO_MEMORY;
    if (status != RONDO_SUCCESS)
      status =
          RONDO_LOG_REFUSE(status, "comm_create: rank %u, key %llu: no memory, or there already",
                           rank->cfg.rank, (unsigned long long)end->key);
  }
  if (status == RONDO_SUCCESS) {
    *made = end;
    return status;
  }
  if (end->group.handle)
    (void)rondo_group_forget(rank, end->group);
  end_free(end);
  return status;
}

// Enters it among the rank's. Returns RONDO_SUCCESS or RONDO_ERR_EXISTS.
static int enlist(struct rondo_comm_end *end) {
  struct rondo_rank *rank = end->rank;
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&rank->job->lock);
  pthread_mutex_lock(&rank->comms_lock);
  for (const struct rondo_comm_end *e = rank->comms; e; e = e->next)
    if (e->key == end->key)
      status = RONDO_ERR_EXISTS;
  if (status == RONDO_SUCCESS) {
    end->handle = ++rank->next_comm;
    end->next = rank->comms;
    rank->comms = end;
  }
  pthread_mutex_unlock(&rank->comms_lock);
  if (status == RONDO_SUCCESS) {
    rondo_comm_attach(end);
    rondo_comm_inherit_failure(end);
  }
  pthread_mutex_unlock(&rank->job->lock);
  return status;
}

static int create(struct rondo_rank *rank, const struct rondo_comm_config *cfg,
                  struct rondo_comm *comm) {
  struct rondo_comm_end *end = NULL;
  int status = check_config(cfg);
  if (status == RONDO_SUCCESS && !comm)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_create: the place for the handle is null");
  if (status == RONDO_SUCCESS)
    status = end_make(rank, cfg, &end);
  if (status != RONDO_SUCCESS)
    return status;
  status = enlist(end);
  if (status == RONDO_SUCCESS) {
    comm->handle = end->handle;
    return status;
  }
  if (end->group.handle)
    (void)rondo_group_forget(rank, end->group);
  end_free(end);
  return RONDO_LOG_REFUSE(status, "comm_create: rank %u has a communicator of key %llu already",
                          rank->cfg.rank, (unsigned long long)cfg->key);
}

int rondo_comm_create(struct rondo_context ctx, const struct rondo_comm_config *cfg,
                      struct rondo_comm *comm) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "comm_create", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = create(rank, cfg, comm);
  rondo_rank_unpin(ctx);
  return status;
}

// ------------------------------------------------------------------ ending ---

struct graph_count {
  struct rondo_rank *rank;
  uint32_t graphs;
};

static void count_graphs(struct rondo_collective handle, void *arg) {
  struct graph_count *count = arg;
  const struct rondo_coll *coll = rondo_coll_find(count->rank, handle);
  count->graphs += coll ? coll->replays : 0;
}

// 1 if a graph is there yet into which calls were captured. The communicator is locked.
static int is_in_graph(const struct rondo_comm_end *end) {
  struct graph_count count = {end->rank, 0};
  rondo_lock_take(&end->rank->lock);
  rondo_replays_reap(end->rank);
  rondo_comm_visit(end, count_graphs, &count);
  rondo_lock_give(&end->rank->lock);
  return count.graphs > 0;
}

// Other threads are about to leave: the calls for which they wait have ended.
static void await_users(struct rondo_comm_end *end) {
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

static void remove_coll(struct rondo_collective coll, void *arg) {
  (void)rondo_rank_deregister(arg, coll, 0);
}

static void dismantle(struct rondo_comm_end *end) {
  struct rondo_rank *rank = end->rank;
  await_users(end);
  rondo_comm_visit(end, remove_coll, rank);
  pthread_mutex_lock(&rank->job->lock); // others find it under either
  rondo_comm_detach(end);
  pthread_mutex_lock(&rank->comms_lock);
  struct rondo_comm_end **at = &rank->comms;
  while (*at != end)
    at = &(*at)->next;
  *at = end->next;
  pthread_mutex_unlock(&rank->comms_lock);
  pthread_mutex_unlock(&rank->job->lock);
  if (end->group.handle)
    (void)rondo_group_forget(rank, end->group);
  end_free(end);
}

// From now on there are no new calls. Only one caller gets that far. Returns RONDO_SUCCESS, RONDO_ERR_BUSY or
// RONDO_ERR_CLOSED.
static int close_end(struct rondo_comm_end *end) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&end->lock);
  if (is_in_graph(end))
    status = RONDO_LOG_REFUSE(RONDO_ERR_BUSY,
                              "comm_destroy: key %llu: a graph with calls of it is there yet",
                              (unsigned long long)end->key);
  pthread_mutex_lock(&end->rank->comms_lock);
  if (status == RONDO_SUCCESS && end->closing)
    status = RONDO_LOG_REFUSE(RONDO_ERR_CLOSED,
                              "comm_destroy: the communicator is being destroyed already");
  if (status == RONDO_SUCCESS)
    end->closing = 1;
  pthread_mutex_unlock(&end->rank->comms_lock);
  pthread_mutex_unlock(&end->lock);
  return status;
}

static int drain(struct rondo_context ctx, struct rondo_comm_end *end, int mode,
                 int64_t timeout_ns) {
  if (mode == RONDO_DESTROY_DRAIN &&
      rondo_comm_await_all(ctx, end, timeout_ns) != RONDO_ERR_TIMEOUT)
    return RONDO_SUCCESS;
  rondo_comm_fail(end, RONDO_ERR_ABORTED, "destroyed with calls outstanding");
  if (rondo_comm_await_all(ctx, end, ABORT_BOUND_NS) == RONDO_ERR_TIMEOUT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INTERNAL,
                            "comm_destroy: key %llu: aborted calls did not end; it is kept",
                            (unsigned long long)end->key);
  return mode == RONDO_DESTROY_DRAIN ? RONDO_ERR_TIMEOUT : RONDO_SUCCESS;
}

int rondo_comm_destroy(struct rondo_context ctx, struct rondo_comm comm, int mode,
                       int64_t timeout_ns) {
  struct rondo_rank *rank;
  struct rondo_comm_end *end;
  if (mode != RONDO_DESTROY_DRAIN && mode != RONDO_DESTROY_ABORT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_destroy: mode %d is none", mode);
  if (rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_destroy: a callback may not destroy a communicator");
  int status = rondo_rank_pin(ctx, "comm_destroy", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_comm_pin(rank, comm, "comm_destroy", &end);
  if (status == RONDO_SUCCESS) {
    status = close_end(end);
    if (status == RONDO_SUCCESS)
      status = drain(ctx, end, mode, timeout_ns);
    if (status == RONDO_SUCCESS || status == RONDO_ERR_TIMEOUT)
      dismantle(end);
    else
      rondo_comm_unpin(end);
  }
  rondo_rank_unpin(ctx);
  return status;
}

void rondo_comms_free(struct rondo_rank *rank) {
  pthread_mutex_lock(&rank->job->lock); // others look through the list, and at what they find there
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
