#include "benchmarks/collective/flight.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "benchmarks/common/serve.h"
#include "examples/kit/clock.h"
#include "examples/kit/permute.h"

#define ABORT_NS ((int64_t)RONDO_KIT_SECOND_NS) // in which a run that was aborted has ended
#define PASSES_BETWEEN_CLOCKS 256u // reading the clock takes as long as several calls of rondo_test

void perf_flight_init(struct perf_flight *f) { sem_init(&f->ended, 0, 0); }
void perf_flight_fini(struct perf_flight *f) { sem_destroy(&f->ended); }

// ------------------------------------------------------------ registration ---

// rondo_register copies the arrays.
static int register_uneven(struct perf_flight *f, const struct rondo_kit_shape *shape,
                           struct rondo_collective_desc *d, struct rondo_collective *collective) {
  uint64_t *counts = calloc(2 * (size_t)shape->rank_count, sizeof *counts);
  if (!counts)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t r = 0; r < shape->rank_count; r++) {
    counts[r] = rondo_kit_shape_part(shape, f->rank, r);
    counts[shape->rank_count + r] = rondo_kit_shape_part(shape, r, f->rank);
  }
  d->send_counts = counts;
  d->recv_counts = counts + shape->rank_count;
  int status = rondo_register(f->context, d, collective);
  free(counts);
  return status;
}

// Of a collective the ids first_id to first_id + RONDO_MAX_RANKS - 1 are free: the send of rank r
// in a ring has number r.
static int register_leg(struct perf_flight *f, struct perf_member *m, uint64_t first_id,
                        uint32_t of_rank) {
  const struct rondo_kit_shape *shape = &m->shape;
  bool is_ring = shape->kind == RONDO_SEND_RECV && shape->rank_count > 1;
  uint64_t id = first_id + (shape->kind == RONDO_SEND_RECV ? of_rank : 0);
  struct rondo_collective_desc d = rondo_kit_shape_desc(shape, id, of_rank);
  struct perf_leg *leg = &m->legs[m->leg_count];
  leg->is_only_send = is_ring && of_rank == f->rank;
  leg->is_only_receive = is_ring && of_rank != f->rank;
  int status = shape->kind == RONDO_ALL_TO_ALL_V ? register_uneven(f, shape, &d, &leg->collective)
                                                 : rondo_register(f->context, &d, &leg->collective);
  m->leg_count += status == RONDO_SUCCESS;
  return status;
}

static int register_member(struct perf_flight *f, uint32_t index, uint64_t first_id) {
  struct perf_member *m = &f->members[index];
  m->shape = perf_point_shape(f->point, index);
  uint32_t n = m->shape.rank_count;
  int status = register_leg(f, m, first_id, f->rank);
  if (status == RONDO_SUCCESS && m->shape.kind == RONDO_SEND_RECV && n > 1)
    status = register_leg(f, m, first_id, (f->rank + n - 1) % n);
  return status;
}

int perf_flight_begin(struct perf_flight *f, const struct perf_point *point, uint64_t number) {
  f->point = point;
  f->call = "memory";
  f->run_count = point->in_flight * f->depth;
  f->members = calloc(point->in_flight, sizeof *f->members);
  f->places = calloc(f->run_count, sizeof *f->places);
  f->order = calloc(f->run_count, sizeof *f->order);
  f->submissions = calloc((size_t)f->run_count * PERF_MAX_LEGS, sizeof *f->submissions);
  f->pending = calloc((size_t)point->in_flight * PERF_MAX_LEGS, sizeof *f->pending);
  atomic_store(&f->callback_status, RONDO_SUCCESS);
  while (sem_trywait(&f->ended) == 0)
    continue; // posted by runs of a point that was given up
  if (!f->members || !f->places || !f->order || !f->submissions || !f->pending)
    return RONDO_ERR_NO_MEMORY;
  // The descriptor must be there before the first run, or the end of that run would not be counted.
  f->call = "rondo_event_fd";
  int status =
      point->wait == PERF_WAIT_EVENT ? rondo_event_fd(f->context, &f->event_fd) : RONDO_SUCCESS;
  if (status != RONDO_SUCCESS)
    return status;
  f->call = "rondo_register";
  for (uint32_t i = 0; i < point->in_flight && status == RONDO_SUCCESS; i++)
    status = register_member(f, i, (number * PERF_MAX_IN_FLIGHT + i) * RONDO_MAX_RANKS);
  return status;
}

void perf_flight_abort(struct perf_flight *f) {
  int status = RONDO_SUCCESS;
  rondo_abort(f->context);
  for (uint32_t i = 0; f->members && i < f->point->in_flight; i++)
    for (uint32_t leg = 0; leg < f->members[i].leg_count && status != RONDO_ERR_TIMEOUT; leg++)
      status = rondo_wait(f->context, f->members[i].legs[leg].collective, RONDO_LAST_RUN, ABORT_NS);
}

int perf_flight_end(struct perf_flight *f) {
  int first = RONDO_SUCCESS;
  f->call = "rondo_deregister";
  for (uint32_t i = 0; f->members && i < f->point->in_flight; i++)
    for (uint32_t leg = 0; leg < f->members[i].leg_count; leg++) {
      int status = rondo_deregister(f->context, f->members[i].legs[leg].collective);
      first = first == RONDO_SUCCESS ? status : first;
    }
  free(f->members);
  free(f->places);
  free(f->order);
  free(f->submissions);
  free(f->pending);
  f->members = NULL;
  f->places = NULL;
  f->order = NULL;
  f->submissions = NULL;
  f->pending = NULL;
  return first;
}

// -------------------------------------------------------------- submission ---

static void choose_order(struct perf_flight *f, uint32_t iteration) {
  int orders = f->point->orders;
  uint32_t whose = orders == RONDO_BENCH_ORDERS_OWN ? f->rank : UINT32_MAX;
  struct rondo_kit_permutation which = {f->seed, whose, iteration};
  if (orders != RONDO_BENCH_ORDERS_ONE) {
    rondo_kit_permute(&which, f->run_count, f->order);
    return;
  }
  for (uint32_t i = 0; i < f->run_count; i++)
    f->order[i] = i;
}

// Lists the collectives in the order of submission. Runs of one collective end in their order, so
// its last run stands for all.
static void pending_fill(struct perf_flight *f) {
  f->pending_count = 0;
  for (uint32_t i = 0; i < f->point->in_flight; i++) {
    const struct perf_member *m = &f->members[perf_flight_member(f, f->order[i])];
    for (uint32_t leg = 0; leg < m->leg_count; leg++)
      f->pending[f->pending_count++] = m->legs[leg].collective;
  }
}

void perf_flight_order(struct perf_flight *f, uint32_t iteration) {
  choose_order(f, iteration);
  f->submission_count = 0;
  for (uint32_t i = 0; i < f->run_count; i++) {
    const struct perf_member *m = &f->members[perf_flight_member(f, f->order[i])];
    const struct rondo_kit_place *place = &f->places[f->order[i]];
    for (uint32_t k = 0; k < m->leg_count; k++) {
      const struct perf_leg *leg = &m->legs[k];
      struct perf_submission *s = &f->submissions[f->submission_count++];
      s->collective = leg->collective;
      s->send = leg->is_only_receive ? NULL : place->send;
      s->recv = leg->is_only_send ? NULL : place->recv;
    }
  }
  pending_fill(f);
}

static void on_end(void *arg, int status) {
  struct perf_flight *f = arg;
  if (status != RONDO_SUCCESS)
    atomic_store(&f->callback_status, status);
  sem_post(&f->ended);
}

static int submit_all(struct perf_flight *f) {
  rondo_callback callback = f->point->wait == PERF_WAIT_CALLBACK ? on_end : NULL;
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < f->submission_count && status == RONDO_SUCCESS; i++) {
    const struct perf_submission *s = &f->submissions[i];
    status = rondo_run(f->context, s->collective, s->send, s->recv, callback, f);
  }
  return status;
}

// ----------------------------------------------------------------- waiting ---

// Tests each pending collective once and removes those that have ended. Returns the first failure.
static int pending_test(struct perf_flight *f) {
  uint32_t kept = 0;
  int first = RONDO_SUCCESS;
  for (uint32_t i = 0; i < f->pending_count; i++) {
    int status = rondo_test(f->context, f->pending[i], RONDO_LAST_RUN);
    if (status == RONDO_IN_PROGRESS)
      f->pending[kept++] = f->pending[i];
    else if (first == RONDO_SUCCESS)
      first = status;
  }
  f->pending_count = kept;
  return first;
}

static int wait_callbacks(struct perf_flight *f) {
  struct timespec until = rondo_kit_deadline(f->timeout_ns);
  for (uint32_t i = 0; i < f->submission_count; i++)
    while (sem_timedwait(&f->ended, &until) != 0)
      if (errno != EINTR)
        return RONDO_ERR_TIMEOUT;
  return atomic_load(&f->callback_status);
}

static int wait_blocking(struct perf_flight *f) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < f->pending_count && status == RONDO_SUCCESS; i++)
    status = rondo_wait(f->context, f->pending[i], RONDO_LAST_RUN, (int64_t)f->timeout_ns);
  return status;
}

static int wait_testing(struct perf_flight *f) {
  uint64_t until_ns = 0;
  for (uint32_t pass = 1;; pass++) {
    int status = pending_test(f);
    if (status != RONDO_SUCCESS || f->pending_count == 0)
      return status;
    if (f->is_crowded)
      sched_yield();
    if (pass % PASSES_BETWEEN_CLOCKS != 0)
      continue;
    uint64_t now_ns = rondo_kit_now_ns();
    if (until_ns == 0)
      until_ns = now_ns + f->timeout_ns;
    if (now_ns >= until_ns)
      return RONDO_ERR_TIMEOUT;
  }
}

static int wait_events(struct perf_flight *f) {
  struct pollfd events = {.fd = f->event_fd, .events = POLLIN};
  int timeout_ms = (int)((f->timeout_ns + RONDO_KIT_MILLISECOND_NS - 1) / RONDO_KIT_MILLISECOND_NS);
  uint64_t ended;
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS && f->pending_count > 0) {
    int ready = poll(&events, 1, timeout_ms);
    if (ready == 0)
      return RONDO_ERR_TIMEOUT;
    if (ready < 0 && errno != EINTR)
      return RONDO_ERR_SYSTEM;
    // It counts the runs that have ended since the last read; which ones they are, rondo_test says.
    if (ready > 0 && read(events.fd, &ended, sizeof ended) < 0 && errno != EAGAIN)
      return RONDO_ERR_SYSTEM;
    status = pending_test(f);
  }
  return status;
}

int perf_flight_once(struct perf_flight *f) {
  static int (*const ways[PERF_WAIT_COUNT])(struct perf_flight *) = {wait_callbacks, wait_blocking,
                                                                     wait_testing, wait_events};
  f->call = "rondo_run";
  int status = submit_all(f);
  if (status != RONDO_SUCCESS)
    return status;
  f->call = perf_wait_name(f->point->wait);
  return ways[f->point->wait](f);
}
