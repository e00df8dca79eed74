#include "benchmarks/collective/job.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/kit/clock.h"
#include "examples/kit/memory.h"
#include "examples/kit/team.h"

#define TIMED_ROUND 1u // of the inputs that are timed
#define BUFFER_ALIGN 4096u
#define UNALIGN_ROOM 128u
#define POISON 0xa5
#define DRAIN_NS (10 * (int64_t)RONDO_KIT_SECOND_NS)

// What a rank runs for one collective of the table: one collective, or in the ring of send-recvs a send to
// the next rank and a receive from the one before.
#define MAX_LEGS 2u
struct leg {
  struct rondo_collective collective;
  bool is_only_send, is_only_receive;
};

struct rank {
  struct job *job;
  uint32_t rank;
  struct rondo_context context;
  struct leg legs[MAX_LEGS];
  uint32_t leg_count;
  struct rondo_kit_memory master; // the input of the timed iterations, from which it is rewritten
  struct rondo_kit_memory send;   // depth buffers each
  struct rondo_kit_memory recv;
  struct rondo_kit_place *places; // depth; found before the clock is looked at
  sem_t ended;                    // posted by callbacks
  _Atomic int callback_status;
};

// What all ranks see, be they threads or processes. The arena follows.
struct shared {
  struct rondo_kit_barrier barrier;
  struct perf_point point;
  uint64_t point_number;
  bool has_point;
  _Atomic int status; // the first failure of this point
  char failed_call[32];
  uint32_t failed_rank;
  _Atomic uint64_t wrong;
  bool is_bad; // some point had wrong elements, or failed
  int init_status;
};

struct job {
  const struct perf_setup *setup;
  const struct perf_source *source;
  struct rondo_unique_id id;
  struct shared *shared;
  struct rondo_bench_arena *arena; // shared, too
  uint32_t first, local;           // the ranks of this process
  struct rank ranks[];             // `local` of them
};

static bool succeeded(const struct rank *self, const char *call, int status) {
  struct shared *shared = self->job->shared;
  int none = RONDO_SUCCESS;
  if (status == RONDO_SUCCESS)
    return true;
  if (atomic_compare_exchange_strong(&shared->status, &none, status)) {
    snprintf(shared->failed_call, sizeof shared->failed_call, "%s", call);
    shared->failed_rank = self->rank;
  }
  return false;
}

// ---------------------------------------------------------------- buffers ----

// Bytes from one of the `depth` buffers to the next.
static size_t stride_bytes(const struct perf_point *point) {
  size_t bytes = rondo_kit_shape_bytes(&point->shape) + UNALIGN_ROOM;
  return (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

// By the rank's own thread: pages lie near it.
static int buffers_grow(struct rank *self) {
  const struct perf_point *point = &self->job->shared->point;
  size_t bytes = self->job->setup->depth * stride_bytes(point);
  if (!self->places)
    self->places = calloc(self->job->setup->depth, sizeof *self->places);
  int status = self->places ? rondo_kit_memory_grow(&self->master, self->context,
                                                    rondo_kit_shape_send_bytes(&point->shape))
                            : RONDO_ERR_NO_MEMORY;
  if (status == RONDO_SUCCESS)
    status = rondo_kit_memory_grow(&self->recv, self->context, bytes);
  if (status == RONDO_SUCCESS && !point->in_place)
    status = rondo_kit_memory_grow(&self->send, self->context, bytes);
  return status;
}

// The memory that a send buffer is in.
static const struct rondo_kit_memory *send_memory(const struct rank *self) {
  return self->job->shared->point.in_place ? &self->recv : &self->send;
}

static void find_places(struct rank *self) {
  const struct perf_setup *setup = self->job->setup;
  const struct perf_point *point = &self->job->shared->point;
  for (uint32_t run = 0; run < setup->depth; run++) {
    size_t offset =
        run * stride_bytes(point) + setup->unalign * rondo_dtype_bytes(point->shape.dtype);
    char *send = point->in_place ? NULL : self->send.base + offset;
    self->places[run] = rondo_kit_shape_place(&point->shape, self->rank, point->in_place, send,
                                              self->recv.base + offset);
  }
}

// ------------------------------------------------------------ one iteration --

// A broadcast and a scatter take nothing from the ranks that are not their root.
static bool sends(const struct rank *self) {
  return rondo_kit_shape_sends(&self->job->shared->point.shape, self->rank);
}

static void rewrite(void *arg, uint32_t rank) {
  struct rank *self = arg;
  (void)rank;
  if (!sends(self))
    return;
  size_t bytes = rondo_kit_shape_send_bytes(&self->job->shared->point.shape);
  for (uint32_t i = 0; i < self->job->setup->depth; i++) {
    void *send = self->places[i].send;
    int status = RONDO_SUCCESS;
    if (self->master.mirror)
      status = rondo_mem_copy(self->context, send, self->master.base, bytes);
    else
      memcpy(send, self->master.base, bytes);
    succeeded(self, "rondo_mem_copy", status);
  }
}

static void on_end(void *arg, int status) {
  struct rank *self = arg;
  if (status != RONDO_SUCCESS)
    atomic_store(&self->callback_status, status);
  sem_post(&self->ended);
}

static int wait_for_callbacks(struct rank *self) {
  struct timespec until = rondo_kit_deadline(self->job->setup->timeout_ns);
  for (uint32_t i = 0; i < self->job->setup->depth * self->leg_count; i++)
    while (sem_timedwait(&self->ended, &until) != 0)
      if (errno != EINTR)
        return RONDO_ERR_TIMEOUT;
  return atomic_load(&self->callback_status);
}

static int submit(struct rank *self, uint32_t run) {
  struct rondo_kit_place place = self->places[run];
  rondo_callback callback = self->job->setup->callbacks ? on_end : NULL;
  for (uint32_t i = 0; i < self->leg_count; i++) {
    const struct leg *leg = &self->legs[i];
    int status = rondo_run(self->context, leg->collective, leg->is_only_receive ? NULL : place.send,
                           leg->is_only_send ? NULL : place.recv, callback, self);
    if (!succeeded(self, "rondo_run", status))
      return status;
  }
  return RONDO_SUCCESS;
}

// Runs of one collective end in their order, so the last one stands for all.
static int wait_for_last(struct rank *self) {
  int first = RONDO_SUCCESS;
  for (uint32_t i = 0; i < self->leg_count; i++) {
    int status = rondo_wait(self->context, self->legs[i].collective, RONDO_LAST_RUN,
                            (int64_t)self->job->setup->timeout_ns);
    first = first == RONDO_SUCCESS ? status : first;
  }
  return first;
}

static int once(void *arg, uint32_t rank) {
  struct rank *self = arg;
  const struct perf_setup *setup = self->job->setup;
  (void)rank;
  if (atomic_load_explicit(&self->job->shared->status, memory_order_relaxed) != RONDO_SUCCESS)
    return RONDO_ERR_ABORTED; // after a failure the remaining iterations are empty
  for (uint32_t i = 0; i < setup->depth; i++) {
    int status = submit(self, i);
    if (status != RONDO_SUCCESS)
      return status;
  }
  int status = setup->callbacks ? wait_for_callbacks(self) : wait_for_last(self);
  if (!succeeded(self, setup->callbacks ? "callback" : "rondo_wait", status))
    return status;
  return 0;
}

// --------------------------------------------------------------- one point ---

static void count_wrong(struct rank *self, uint64_t round) {
  const struct rondo_kit_shape *shape = &self->job->shared->point.shape;
  for (uint32_t i = 0; i < self->job->setup->depth; i++) {
    const void *recv = self->places[i].recv;
    int status = rondo_kit_memory_download(&self->recv, recv, rondo_kit_shape_recv_bytes(shape));
    if (!succeeded(self, "rondo_mem_copy", status))
      return;
    uint64_t wrong =
        rondo_kit_shape_wrong(shape, self->rank, round, rondo_kit_memory_look(&self->recv, recv));
    atomic_fetch_add(&self->job->shared->wrong, wrong);
  }
}

// New inputs, and a receive buffer full of what is no result.
static int renew(struct rank *self, uint32_t run, uint64_t round) {
  const struct rondo_kit_shape *shape = &self->job->shared->point.shape;
  const struct rondo_kit_memory *send = send_memory(self);
  struct rondo_kit_place place = self->places[run];
  size_t recv_bytes = rondo_kit_shape_recv_bytes(shape);
  memset(rondo_kit_memory_look(&self->recv, place.recv), POISON, recv_bytes);
  int status = rondo_kit_memory_upload(&self->recv, place.recv, recv_bytes);
  if (status != RONDO_SUCCESS || !sends(self))
    return status;
  rondo_kit_shape_fill(shape, self->rank, round, rondo_kit_memory_look(send, place.send));
  return rondo_kit_memory_upload(send, place.send, rondo_kit_shape_send_bytes(shape));
}

static void check_round(struct rank *self, uint64_t round) {
  for (uint32_t i = 0; i < self->job->setup->depth; i++)
    succeeded(self, "rondo_mem_copy", renew(self, i, round));
  if (once(self, self->rank) == 0)
    count_wrong(self, round);
}

// The input of the timed iterations.
static int make_master(const struct rank *self) {
  const struct rondo_kit_shape *shape = &self->job->shared->point.shape;
  const struct rondo_kit_memory *master = &self->master;
  rondo_kit_shape_fill(shape, self->rank, TIMED_ROUND, rondo_kit_memory_look(master, master->base));
  return rondo_kit_memory_upload(master, master->base, rondo_kit_shape_send_bytes(shape));
}

static void measure_point(struct rank *self) {
  struct job *job = self->job;
  const struct perf_point *point = &job->shared->point;
  struct rondo_bench_driver driver = {rewrite, once, self};
  succeeded(self, "rondo_mem_copy", make_master(self));
  rondo_bench_measure(job->arena, self->rank, &point->schedule, &driver);
  if (point->checks > 0 && job->arena->iters > 0 &&
      atomic_load(&job->shared->status) == RONDO_SUCCESS)
    count_wrong(self, TIMED_ROUND);
  for (uint32_t i = 0; i < point->checks; i++)
    check_round(self, TIMED_ROUND + 1 + i);
}

// Its arrays are copied by rondo_register.
static int register_uneven(struct rank *self, struct rondo_collective_desc *d) {
  const struct rondo_kit_shape *shape = &self->job->shared->point.shape;
  uint64_t *counts = calloc(2 * (size_t)shape->rank_count, sizeof *counts);
  if (!counts)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t r = 0; r < shape->rank_count; r++) {
    counts[r] = rondo_kit_shape_part(shape, self->rank, r);
    counts[shape->rank_count + r] = rondo_kit_shape_part(shape, r, self->rank);
  }
  d->send_counts = counts;
  d->recv_counts = counts + shape->rank_count;
  int status = rondo_register(self->context, d, &self->legs[0].collective);
  free(counts);
  return status;
}

// The send of rank r is collective r of the point.
static int register_leg(struct rank *self, uint32_t of_rank) {
  const struct rondo_kit_shape *shape = &self->job->shared->point.shape;
  bool is_ring = shape->kind == RONDO_SEND_RECV && shape->rank_count > 1;
  uint64_t id = self->job->shared->point_number * RONDO_MAX_RANKS;
  id += shape->kind == RONDO_SEND_RECV ? of_rank : 0;
  struct rondo_collective_desc d = rondo_kit_shape_desc(shape, id, of_rank);
  struct leg *leg = &self->legs[self->leg_count];
  leg->is_only_send = is_ring && of_rank == self->rank;
  leg->is_only_receive = is_ring && of_rank != self->rank;
  int status = shape->kind == RONDO_ALL_TO_ALL_V
                   ? register_uneven(self, &d)
                   : rondo_register(self->context, &d, &leg->collective);
  self->leg_count += status == RONDO_SUCCESS;
  return status;
}

static void register_legs(struct rank *self) {
  const struct rondo_kit_shape *shape = &self->job->shared->point.shape;
  self->leg_count = 0;
  int status = register_leg(self, self->rank);
  if (status == RONDO_SUCCESS && shape->kind == RONDO_SEND_RECV && shape->rank_count > 1)
    status = register_leg(self, (self->rank + shape->rank_count - 1) % shape->rank_count);
  succeeded(self, "rondo_register", status);
}

static void run_point(struct rank *self) {
  struct job *job = self->job;
  self->leg_count = 0;
  if (succeeded(self, "rondo_mem_alloc", buffers_grow(self))) {
    find_places(self);
    register_legs(self);
  }
  atomic_store(&self->callback_status, RONDO_SUCCESS);
  rondo_kit_barrier_wait(&job->shared->barrier);
  if (atomic_load(&job->shared->status) == RONDO_SUCCESS)
    measure_point(self);
  rondo_kit_barrier_wait(&job->shared->barrier);
  if (self->leg_count > 0 && atomic_load(&job->shared->status) != RONDO_SUCCESS)
    rondo_abort(self->context); // so that a run that hangs does not keep the collective busy
  for (uint32_t i = 0; i < self->leg_count; i++)
    succeeded(self, "rondo_deregister", rondo_deregister(self->context, self->legs[i].collective));
  rondo_kit_barrier_wait(&job->shared->barrier);
}

static void fetch_point(struct job *job) {
  struct shared *shared = job->shared;
  shared->has_point =
      shared->init_status == RONDO_SUCCESS && job->source->next(job->source->arg, &shared->point);
  shared->point_number++;
  shared->failed_call[0] = '\0';
  atomic_store(&job->shared->status, RONDO_SUCCESS);
  atomic_store(&job->shared->wrong, 0);
}

static void finish_point(struct job *job) {
  struct perf_result result = {.status = atomic_load(&job->shared->status),
                               .failed_call = job->shared->failed_call,
                               .failed_rank = job->shared->failed_rank,
                               .wrong = atomic_load(&job->shared->wrong)};
  if (result.status == RONDO_SUCCESS)
    result.stats = rondo_bench_measure_stats(job->arena);
  job->shared->is_bad |= result.wrong > 0 || result.status != RONDO_SUCCESS;
  job->source->finished(job->source->arg, &job->shared->point, &result);
}

// ------------------------------------------------------------------- a job ---

static int open_context(struct rank *self) {
  const struct perf_setup *setup = self->job->setup;
  struct rondo_config config = RONDO_CONFIG_INIT;
  config.backend = setup->backend;
  config.id = self->job->id;
  config.rank = self->rank;
  config.rank_count = setup->ranks;
  config.device = (int)(self->rank % setup->devices);
  config.blocks = setup->blocks;
  config.workers = setup->workers;
  config.order = setup->order;
  config.budget = setup->budget;
  return rondo_init(&self->context, &config);
}

static void rank_main(void *arg, uint32_t index) {
  struct job *job = arg;
  struct rank *self = &job->ranks[index];
  uint32_t rank = self->rank;
  if (job->setup->pinned)
    rondo_kit_pin(rank);
  int status = open_context(self);
  succeeded(self, "rondo_init", status);
  rondo_kit_barrier_wait(&job->shared->barrier);
  if (rank == 0)
    job->shared->init_status = atomic_load(&job->shared->status);
  for (;;) {
    if (rank == 0)
      fetch_point(job);
    rondo_kit_barrier_wait(&job->shared->barrier);
    if (!job->shared->has_point)
      break;
    run_point(self);
    if (rank == 0)
      finish_point(job);
  }
  if (status == RONDO_SUCCESS)
    rondo_destroy(self->context, RONDO_DESTROY_DRAIN, DRAIN_NS);
}

static size_t shared_bytes(const struct perf_setup *setup) {
  return sizeof(struct shared) + rondo_bench_arena_bytes(setup->ranks, setup->capacity);
}

static void job_destroy(struct job *job) {
  for (uint32_t i = 0; i < job->local; i++) {
    free(job->ranks[i].places);
    sem_destroy(&job->ranks[i].ended);
    rondo_kit_memory_forget(&job->ranks[i].master);
    rondo_kit_memory_forget(&job->ranks[i].send);
    rondo_kit_memory_forget(&job->ranks[i].recv);
  }
  if (!job->setup->fleet)
    free(job->shared);
  free(job);
}

static void *allocate_lines(size_t bytes) {
  void *memory = aligned_alloc(128, (bytes + 127) / 128 * 128);
  return memory ? memset(memory, 0, bytes) : NULL;
}

// Returns an enum rondo_status.
static int open_shared(struct job *job) {
  const struct perf_setup *setup = job->setup;
  size_t bytes = shared_bytes(setup);
  job->shared = setup->fleet ? rondo_kit_fleet_share(setup->fleet, bytes) : allocate_lines(bytes);
  if (!job->shared && setup->fleet)
    fprintf(stderr,
            "rondo-perf: rank %u: the processes share no memory to be timed by: they must be "
            "on one machine\n",
            job->first);
  if (!job->shared)
    return setup->fleet ? RONDO_ERR_SYSTEM : RONDO_ERR_NO_MEMORY;
  job->arena = (struct rondo_bench_arena *)(job->shared + 1);
  if (job->first == 0) {
    uint32_t cores = setup->fleet ? rondo_kit_fleet_cores(setup->fleet) : rondo_kit_core_count();
    rondo_kit_barrier_init(&job->shared->barrier, setup->ranks, cores);
    rondo_bench_arena_init(job->arena, setup->ranks, setup->capacity, cores);
  }
  // After this nobody finds the memory unprepared.
  return setup->fleet ? rondo_kit_fleet_new_id(setup->fleet, &job->id, NULL)
                      : rondo_unique_id_create(&job->id);
}

static struct job *job_create(const struct perf_setup *setup, const struct perf_source *source) {
  uint32_t local = setup->fleet ? 1 : setup->ranks;
  struct job *job = allocate_lines(sizeof(*job) + local * sizeof(job->ranks[0]));
  if (!job)
    return NULL;
  job->setup = setup;
  job->source = source;
  job->local = local;
  job->first = setup->fleet ? rondo_kit_fleet_rank(setup->fleet) : 0;
  for (uint32_t i = 0; i < local; i++) {
    job->ranks[i].job = job;
    job->ranks[i].rank = job->first + i;
    sem_init(&job->ranks[i].ended, 0, 0);
  }
  return job;
}

int perf_job_run(const struct perf_setup *setup, const struct perf_source *source, bool *good) {
  struct job *job = job_create(setup, source);
  if (!job)
    return RONDO_ERR_NO_MEMORY;
  struct rondo_kit_team team = {job->local, false, rank_main, job};
  int status = open_shared(job);
  if (status == RONDO_SUCCESS)
    status = rondo_kit_team_run(&team) == 0 ? job->shared->init_status : RONDO_ERR_SYSTEM;
  *good = status == RONDO_SUCCESS && !job->shared->is_bad;
  job_destroy(job);
  return status;
}
