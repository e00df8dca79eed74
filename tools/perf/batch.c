#include "tools/perf/batch.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/kit/clock.h"
#include "tools/kit/permute.h"
#include "tools/kit/serve.h"

#define ABORT_NS ((int64_t)RONDO_KIT_SECOND_NS) // an aborted run ends within this time
#define PASSES_BETWEEN_CLOCKS 256u // reading the clock takes as long as several calls of rondo_test

// ------------------------------------------------------------ registration ---

// rondo_register copies the arrays.
static int uneven_register(struct perf_batch *b, const struct rondo_kit_shape *shape,
                           struct rondo_collective_desc *d, struct rondo_collective *collective) {
  uint64_t *counts = calloc(2 * (size_t)shape->rank_count, sizeof *counts);
  if (!counts)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t r = 0; r < shape->rank_count; r++) {
    counts[r] = rondo_kit_shape_part(shape, b->rank, r);
    counts[shape->rank_count + r] = rondo_kit_shape_part(shape, r, b->rank);
  }
  d->send_counts = counts;
  d->recv_counts = counts + shape->rank_count;
  int status = rondo_register(b->context, d, collective);
  free(counts);
  return status;
}

// A collective owns the ids first_id to first_id + RONDO_MAX_RANKS - 1: in a ring of send-recvs the
// send of rank r has id first_id + r.
static int registration_add(struct perf_batch *b, struct perf_collective *c, uint64_t first_id,
                            uint32_t of_rank) {
  const struct rondo_kit_shape *shape = &c->shape;
  bool is_ring = shape->kind == RONDO_SEND_RECV && shape->rank_count > 1;
  uint64_t id = first_id + (shape->kind == RONDO_SEND_RECV ? of_rank : 0);
  struct rondo_collective_desc d = rondo_kit_shape_desc(shape, id, of_rank);
  struct perf_registration *registration = &c->registrations[c->registration_count];
  registration->is_only_send = is_ring && of_rank == b->rank;
  registration->is_only_receive = is_ring && of_rank != b->rank;
  int status = shape->kind == RONDO_ALL_TO_ALL_V
                   ? uneven_register(b, shape, &d, &registration->collective)
                   : rondo_register(b->context, &d, &registration->collective);
  c->registration_count += status == RONDO_SUCCESS;
  return status;
}

static int collective_register(struct perf_batch *b, uint32_t index, uint64_t first_id) {
  struct perf_collective *c = &b->collectives[index];
  c->shape = perf_point_shape(b->point, index);
  uint32_t n = c->shape.rank_count;
  int status = registration_add(b, c, first_id, b->rank);
  if (status == RONDO_SUCCESS && c->shape.kind == RONDO_SEND_RECV && n > 1)
    status = registration_add(b, c, first_id, (b->rank + n - 1) % n);
  return status;
}

int perf_batch_begin(struct perf_batch *b, const struct perf_point *point, uint64_t number) {
  b->point = point;
  b->call = "memory";
  b->run_count = point->in_flight * b->setup->depth;
  b->collectives = calloc(point->in_flight, sizeof *b->collectives);
  b->places = calloc(b->run_count, sizeof *b->places);
  b->order = calloc(b->run_count, sizeof *b->order);
  b->submissions = calloc((size_t)b->run_count * PERF_MAX_REGISTRATIONS, sizeof *b->submissions);
  b->pending = calloc((size_t)point->in_flight * PERF_MAX_REGISTRATIONS, sizeof *b->pending);
  atomic_store(&b->callback_status, RONDO_SUCCESS);
  while (sem_trywait(&b->ended) == 0)
    continue; // posted by runs of a point that failed
  if (!b->collectives || !b->places || !b->order || !b->submissions || !b->pending)
    return RONDO_ERR_NO_MEMORY;
  // The descriptor counts only runs that are submitted after its creation.
  b->call = "rondo_event_fd";
  int status =
      point->wait == PERF_WAIT_EVENT ? rondo_event_fd(b->context, &b->event_fd) : RONDO_SUCCESS;
  if (status != RONDO_SUCCESS)
    return status;
  b->call = "rondo_register";
  for (uint32_t i = 0; i < point->in_flight && status == RONDO_SUCCESS; i++)
    status = collective_register(b, i, (number * PERF_MAX_IN_FLIGHT + i) * RONDO_MAX_RANKS);
  return status;
}

int perf_batch_count(struct perf_batch *b, struct perf_counts *counts) {
  int status = RONDO_SUCCESS;
  b->call = "rondo_collective_counters";
  for (uint32_t i = 0; i < b->point->in_flight; i++)
    for (uint32_t k = 0; k < b->collectives[i].registration_count && status == RONDO_SUCCESS; k++) {
      struct rondo_collective_counters c = RONDO_COLLECTIVE_COUNTERS_INIT;
      status =
          rondo_collective_counters(b->context, b->collectives[i].registrations[k].collective, &c);
      perf_counts_add(&counts[i], &c);
    }
  return status;
}

void perf_batch_abort(struct perf_batch *b) {
  int status = RONDO_SUCCESS;
  rondo_abort(b->context);
  for (uint32_t i = 0; b->collectives && i < b->point->in_flight; i++)
    for (uint32_t k = 0; k < b->collectives[i].registration_count && status != RONDO_ERR_TIMEOUT;
         k++)
      status = rondo_wait(b->context, b->collectives[i].registrations[k].collective, RONDO_LAST_RUN,
                          ABORT_NS);
}

int perf_batch_end(struct perf_batch *b) {
  int first = RONDO_SUCCESS;
  b->call = "rondo_deregister";
  for (uint32_t i = 0; b->collectives && i < b->point->in_flight; i++)
    for (uint32_t k = 0; k < b->collectives[i].registration_count; k++) {
      int status = rondo_deregister(b->context, b->collectives[i].registrations[k].collective);
      first = first == RONDO_SUCCESS ? status : first;
    }
  free(b->collectives);
  free(b->places);
  free(b->order);
  free(b->submissions);
  free(b->pending);
  return first;
}

// -------------------------------------------------------------- submission ---

static void order_choose(struct perf_batch *b, uint32_t iteration) {
  int orders = b->point->orders;
  uint32_t whose = orders == RONDO_KIT_ORDERS_OWN ? b->rank : UINT32_MAX;
  struct rondo_kit_permutation which = {b->setup->seed, whose, iteration};
  if (orders != RONDO_KIT_ORDERS_ONE) {
    rondo_kit_permute(&which, b->run_count, b->order);
    return;
  }
  for (uint32_t i = 0; i < b->run_count; i++)
    b->order[i] = i;
}

// Runs of one collective end in order, so one of them, the last, is pending for all.
void perf_batch_order(struct perf_batch *b, uint32_t iteration) {
  order_choose(b, iteration);
  b->submission_count = b->pending_count = 0;
  for (uint32_t i = 0; i < b->run_count; i++) {
    const struct perf_collective *c = &b->collectives[perf_batch_collective(b, b->order[i])];
    const struct rondo_kit_place *place = &b->places[b->order[i]];
    for (uint32_t k = 0; k < c->registration_count; k++) {
      const struct perf_registration *registration = &c->registrations[k];
      struct perf_submission *s = &b->submissions[b->submission_count++];
      s->collective = registration->collective;
      s->send = registration->is_only_receive ? NULL : place->send;
      s->recv = registration->is_only_send ? NULL : place->recv;
      if (i < b->point->in_flight)
        b->pending[b->pending_count++] = registration->collective;
    }
  }
}

static void run_ended(void *arg, int status) {
  struct perf_batch *b = arg;
  if (status != RONDO_SUCCESS)
    atomic_store(&b->callback_status, status);
  sem_post(&b->ended);
}

static int batch_submit(struct perf_batch *b) {
  rondo_callback callback = b->point->wait == PERF_WAIT_CALLBACK ? run_ended : NULL;
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < b->submission_count && status == RONDO_SUCCESS; i++) {
    const struct perf_submission *s = &b->submissions[i];
    status = rondo_run(b->context, s->collective, s->send, s->recv, callback, b);
  }
  return status;
}

// ----------------------------------------------------------------- waiting ---

// Tests each pending collective once and removes those that have ended. Returns the first failure.
static int pending_test(struct perf_batch *b) {
  uint32_t kept = 0;
  int first = RONDO_SUCCESS;
  for (uint32_t i = 0; i < b->pending_count; i++) {
    int status = rondo_test(b->context, b->pending[i], RONDO_LAST_RUN);
    if (status == RONDO_IN_PROGRESS)
      b->pending[kept++] = b->pending[i];
    else if (first == RONDO_SUCCESS)
      first = status;
  }
  b->pending_count = kept;
  return first;
}

static int batch_wait_callbacks(struct perf_batch *b) {
  struct timespec until = rondo_kit_deadline(b->setup->timeout_ns);
  for (uint32_t i = 0; i < b->submission_count; i++)
    while (sem_timedwait(&b->ended, &until) != 0)
      if (errno != EINTR)
        return RONDO_ERR_TIMEOUT;
  return atomic_load(&b->callback_status);
}

static int batch_wait_blocking(struct perf_batch *b) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < b->pending_count && status == RONDO_SUCCESS; i++)
    status = rondo_wait(b->context, b->pending[i], RONDO_LAST_RUN, (int64_t)b->setup->timeout_ns);
  return status;
}

static int batch_wait_testing(struct perf_batch *b) {
  uint64_t until_ns = 0;
  for (uint32_t pass = 1;; pass++) {
    int status = pending_test(b);
    if (status != RONDO_SUCCESS || b->pending_count == 0)
      return status;
    if (b->setup->ranks > b->setup->cores)
      sched_yield();
    if (pass % PASSES_BETWEEN_CLOCKS != 0)
      continue;
    uint64_t now_ns = rondo_kit_now_ns();
    if (until_ns == 0)
      until_ns = now_ns + b->setup->timeout_ns;
    if (now_ns >= until_ns)
      return RONDO_ERR_TIMEOUT;
  }
}

static int batch_wait_events(struct perf_batch *b) {
  struct pollfd events = {.fd = b->event_fd, .events = POLLIN};
  int timeout_ms =
      (int)((b->setup->timeout_ns + RONDO_KIT_MILLISECOND_NS - 1) / RONDO_KIT_MILLISECOND_NS);
  uint64_t ended;
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS && b->pending_count > 0) {
    int ready = poll(&events, 1, timeout_ms);
    if (ready == 0)
      return RONDO_ERR_TIMEOUT;
    if (ready < 0 && errno != EINTR)
      return RONDO_ERR_SYSTEM;
    // The descriptor counts the runs that ended since the last read; rondo_test tells which ones.
    if (ready > 0 && read(events.fd, &ended, sizeof ended) < 0 && errno != EAGAIN)
      return RONDO_ERR_SYSTEM;
    status = pending_test(b);
  }
  return status;
}

static void late_sleep(const struct perf_batch *b) {
  struct timespec left = {.tv_sec = (time_t)(b->setup->late_ns / RONDO_KIT_SECOND_NS),
                          .tv_nsec = (long)(b->setup->late_ns % RONDO_KIT_SECOND_NS)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    continue;
}

int perf_batch_run(struct perf_batch *b) {
  static int (*const waits[PERF_WAIT_COUNT])(struct perf_batch *) = {
      batch_wait_callbacks, batch_wait_blocking, batch_wait_testing, batch_wait_events};
  if (b->setup->late_ns && b->setup->late_rank == b->rank)
    late_sleep(b);
  b->call = "rondo_run";
  int status = batch_submit(b);
  if (status != RONDO_SUCCESS)
    return status;
  b->call = perf_wait_name(b->point->wait);
  return waits[b->point->wait](b);
}
