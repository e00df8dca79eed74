#include "tools/perf/job.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kit/clock.h"
#include "tools/kit/memory.h"
#include "tools/kit/thread_group.h"
#include "tools/perf/batch.h"

#define TIMED_ROUND 1u // of the inputs that are timed
#define ROUND_BITS 20u // no point has more rounds
#define DRAIN_NS (10 * (int64_t)RONDO_KIT_SECOND_NS)

struct rank {
  struct job *job;
  uint32_t rank;
  struct perf_batch batch;
  uint32_t iteration;  // of the point, with those before timing
  size_t stride_bytes; // from one buffer to the next
  struct rondo_kit_memory
      master;                   // the inputs of the timed iterations, from which they are rewritten
  struct rondo_kit_memory send; // a buffer a run
  struct rondo_kit_memory recv;
};

// Shared by all ranks, threads or processes. The measurement follows.
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
  struct perf_counts counts[PERF_MAX_IN_FLIGHT];
};

struct job {
  const struct perf_setup *setup;
  const struct perf_source *source;
  struct rondo_unique_id id;
  struct shared *shared;
  struct rondo_kit_measurement *measurement; // shared, too
  uint32_t first, local;                     // the ranks of this process
  struct rank ranks[];                       // `local` of them
};

static bool call_succeeded(const struct rank *self, const char *call, int status) {
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

static const struct rondo_kit_shape *run_shape(const struct rank *self, uint32_t run) {
  return &self->batch.collectives[perf_batch_collective(&self->batch, run)].shape;
}

// The rank's own thread calls it, so that the pages lie on its NUMA node.
static int buffers_grow(struct rank *self) {
  const struct perf_point *point = &self->job->shared->point;
  struct rondo_context context = self->batch.context;
  self->stride_bytes = perf_point_bytes(point).stride;
  size_t bytes = (size_t)self->job->setup->depth * point->in_flight * self->stride_bytes;
  int status = rondo_kit_memory_grow(&self->master, context, point->in_flight * self->stride_bytes);
  if (status == RONDO_SUCCESS)
    status = rondo_kit_memory_grow(&self->recv, context, bytes);
  if (status == RONDO_SUCCESS && !point->in_place)
    status = rondo_kit_memory_grow(&self->send, context, bytes);
  return status;
}

static void places_find(struct rank *self) {
  const struct perf_point *point = &self->job->shared->point;
  for (uint32_t run = 0; run < self->batch.run_count; run++) {
    const struct rondo_kit_shape *shape = run_shape(self, run);
    size_t offset =
        run * self->stride_bytes + self->job->setup->unalign * rondo_dtype_bytes(shape->dtype);
    char *send = point->in_place ? NULL : self->send.base + offset;
    self->batch.places[run] =
        rondo_kit_shape_place(shape, self->rank, point->in_place, send, self->recv.base + offset);
  }
}

// The timed input of a collective.
static char *master_at(const struct rank *self, uint32_t member) {
  return self->master.base + member * self->stride_bytes;
}

// Each collective in flight has inputs of its own, so that a result of another collective shows.
static uint64_t round_number(uint64_t round, uint32_t member) {
  return round + ((uint64_t)member << ROUND_BITS);
}

// ------------------------------------------------------------ one iteration --

static int run_rewrite(struct rank *self, uint32_t run) {
  const struct rondo_kit_shape *shape = run_shape(self, run);
  // Only the root of a broadcast or a scatter has input.
  if (!rondo_kit_shape_sends(shape, self->rank))
    return RONDO_SUCCESS;
  const char *master = master_at(self, perf_batch_collective(&self->batch, run));
  size_t bytes = rondo_kit_shape_send_bytes(shape);
  if (self->master.mirror)
    return rondo_mem_copy(self->batch.context, self->batch.places[run].send, master, bytes);
  memcpy(self->batch.places[run].send, master, bytes);
  return RONDO_SUCCESS;
}

static void inputs_rewrite(void *arg, uint32_t rank) {
  struct rank *self = arg;
  (void)rank;
  perf_batch_order(&self->batch, self->iteration++);
  for (uint32_t run = 0; run < self->batch.run_count; run++)
    call_succeeded(self, "rondo_mem_copy", run_rewrite(self, run));
}

static int batch_run(void *arg, uint32_t rank) {
  struct rank *self = arg;
  (void)rank;
  if (atomic_load_explicit(&self->job->shared->status, memory_order_relaxed) != RONDO_SUCCESS)
    return RONDO_ERR_ABORTED; // after a failure the remaining iterations are empty
  int status = perf_batch_run(&self->batch);
  call_succeeded(self, self->batch.call, status);
  return status;
}

// --------------------------------------------------------------- one point ---

static void wrong_count(struct rank *self, uint64_t round) {
  for (uint32_t run = 0; run < self->batch.run_count; run++) {
    uint64_t wrong = 0;
    int status = rondo_kit_memory_check(
        &self->recv, self->batch.places[run].recv, run_shape(self, run), self->rank,
        round_number(round, perf_batch_collective(&self->batch, run)), &wrong);
    if (!call_succeeded(self, "rondo_mem_copy", status))
      return;
    atomic_fetch_add(&self->job->shared->wrong, wrong);
  }
}

// Writes new inputs, and a pattern that is no result into the receive buffer.
static int run_renew(struct rank *self, uint32_t run, uint64_t round) {
  const struct rondo_kit_shape *shape = run_shape(self, run);
  const struct rondo_kit_memory *send =
      self->job->shared->point.in_place ? &self->recv : &self->send;
  struct rondo_kit_place place = self->batch.places[run];
  int status = rondo_kit_memory_poison(&self->recv, place.recv, shape);
  if (status != RONDO_SUCCESS || !rondo_kit_shape_sends(shape, self->rank))
    return status;
  return rondo_kit_memory_fill(send, place.send, shape, self->rank,
                               round_number(round, perf_batch_collective(&self->batch, run)));
}

static void round_check(struct rank *self, uint64_t round) {
  perf_batch_order(&self->batch, self->iteration++);
  for (uint32_t run = 0; run < self->batch.run_count; run++)
    call_succeeded(self, "rondo_mem_copy", run_renew(self, run, round));
  if (batch_run(self, self->rank) == 0)
    wrong_count(self, round);
}

// The inputs of the timed iterations.
static int masters_make(const struct rank *self) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < self->batch.point->in_flight && status == RONDO_SUCCESS; i++)
    status =
        rondo_kit_memory_fill(&self->master, master_at(self, i), &self->batch.collectives[i].shape,
                              self->rank, round_number(TIMED_ROUND, i));
  return status;
}

static void point_measure(struct rank *self) {
  struct job *job = self->job;
  const struct perf_point *point = &job->shared->point;
  struct rondo_kit_driver driver = {.rewrite = inputs_rewrite, .once = batch_run, .arg = self};
  call_succeeded(self, "rondo_mem_copy", masters_make(self));
  rondo_kit_measure(job->measurement, self->rank, &point->schedule, &driver);
  if (point->checks > 0 && job->measurement->iters > 0 &&
      atomic_load(&job->shared->status) == RONDO_SUCCESS)
    wrong_count(self, TIMED_ROUND);
  for (uint32_t i = 0; i < point->checks; i++)
    round_check(self, TIMED_ROUND + 1 + i);
}

static void point_prepare(struct rank *self) {
  const struct shared *shared = self->job->shared;
  int status = perf_batch_begin(&self->batch, &shared->point, shared->point_number);
  if (!call_succeeded(self, self->batch.call, status) ||
      !call_succeeded(self, "rondo_mem_alloc", buffers_grow(self)))
    return;
  places_find(self);
  self->iteration = 0;
}

static void point_run(struct rank *self) {
  struct job *job = self->job;
  point_prepare(self);
  rondo_kit_barrier_wait(&job->shared->barrier);
  if (atomic_load(&job->shared->status) == RONDO_SUCCESS)
    point_measure(self);
  rondo_kit_barrier_wait(&job->shared->barrier);
  if (atomic_load(&job->shared->status) != RONDO_SUCCESS)
    perf_batch_abort(&self->batch);
  else if (job->setup->counts)
    call_succeeded(self, "rondo_collective_counters",
                   perf_batch_count(&self->batch, job->shared->counts));
  call_succeeded(self, "rondo_deregister", perf_batch_end(&self->batch));
  rondo_kit_barrier_wait(&job->shared->barrier);
}

static void point_fetch(struct job *job) {
  struct shared *shared = job->shared;
  shared->has_point =
      shared->init_status == RONDO_SUCCESS && job->source->next(job->source->arg, &shared->point);
  shared->point_number++;
  shared->failed_call[0] = '\0';
  atomic_store(&job->shared->status, RONDO_SUCCESS);
  atomic_store(&job->shared->wrong, 0);
  if (job->setup->counts)
    memset(shared->counts, 0, sizeof shared->counts);
}

static void point_finish(struct job *job) {
  struct perf_result result = {.status = atomic_load(&job->shared->status),
                               .failed_call = job->shared->failed_call,
                               .failed_rank = job->shared->failed_rank,
                               .wrong = atomic_load(&job->shared->wrong)};
  if (result.status == RONDO_SUCCESS)
    result.stats = rondo_kit_measure_stats(job->measurement);
  if (result.status == RONDO_SUCCESS && job->setup->counts)
    result.counts = job->shared->counts;
  job->shared->is_bad |= result.wrong > 0 || result.status != RONDO_SUCCESS;
  job->source->finished(job->source->arg, &job->shared->point, &result);
}

// ------------------------------------------------------------------- a job ---

static int context_open(struct rank *self) {
  const struct perf_setup *setup = self->job->setup;
  struct rondo_config config = setup->config;
  config.id = self->job->id;
  config.rank = self->rank;
  config.rank_count = setup->ranks;
  config.device = (int)(self->rank % setup->devices);
  return rondo_init(&self->batch.context, &config);
}

static void rank_main(void *arg, uint32_t index) {
  struct job *job = arg;
  struct rank *self = &job->ranks[index];
  uint32_t rank = self->rank;
  if (job->setup->pinned)
    rondo_kit_pin(rank);
  int status = context_open(self);
  call_succeeded(self, "rondo_init", status);
  rondo_kit_barrier_wait(&job->shared->barrier);
  if (rank == 0)
    job->shared->init_status = atomic_load(&job->shared->status);
  for (;;) {
    if (rank == 0)
      point_fetch(job);
    rondo_kit_barrier_wait(&job->shared->barrier);
    if (!job->shared->has_point)
      break;
    point_run(self);
    if (rank == 0)
      point_finish(job);
  }
  if (status == RONDO_SUCCESS)
    rondo_destroy(self->batch.context, RONDO_DESTROY_DRAIN, DRAIN_NS);
}

static void job_destroy(struct job *job) {
  for (uint32_t i = 0; i < job->local; i++) {
    sem_destroy(&job->ranks[i].batch.ended);
    rondo_kit_memory_forget(&job->ranks[i].master);
    rondo_kit_memory_forget(&job->ranks[i].send);
    rondo_kit_memory_forget(&job->ranks[i].recv);
  }
  if (!job->setup->processes)
    free(job->shared);
  free(job);
}

static void *lines_allocate(size_t bytes) {
  void *memory = aligned_alloc(128, (bytes + 127) / 128 * 128);
  return memory ? memset(memory, 0, bytes) : NULL;
}

// Returns an enum rondo_status.
static int shared_open(struct job *job) {
  const struct perf_setup *setup = job->setup;
  size_t bytes = sizeof(struct shared) + rondo_kit_measurement_bytes(setup->ranks, setup->capacity);
  job->shared =
      setup->processes ? rondo_kit_processes_share(setup->processes, bytes) : lines_allocate(bytes);
  if (!job->shared && setup->processes)
    fprintf(stderr,
            "rondo-perf: rank %u: the processes share no memory to be timed by: they must be "
            "on one machine\n",
            job->first);
  if (!job->shared)
    return setup->processes ? RONDO_ERR_SYSTEM : RONDO_ERR_NO_MEMORY;
  job->measurement = (struct rondo_kit_measurement *)(job->shared + 1);
  if (job->first == 0) {
    rondo_kit_barrier_init(&job->shared->barrier, setup->ranks, setup->cores);
    rondo_kit_measurement_init(job->measurement, setup->ranks, setup->capacity, setup->cores);
  }
  // When this returns, the memory is initialised for all ranks.
  return setup->processes ? rondo_kit_processes_new_id(setup->processes, &job->id, NULL)
                          : rondo_unique_id_create(&job->id);
}

static struct job *job_create(const struct perf_setup *setup, const struct perf_source *source) {
  uint32_t local = setup->processes ? 1 : setup->ranks;
  struct job *job = lines_allocate(sizeof(*job) + local * sizeof(job->ranks[0]));
  if (!job)
    return NULL;
  job->setup = setup;
  job->source = source;
  job->local = local;
  job->first = rondo_kit_processes_rank(setup->processes);
  for (uint32_t i = 0; i < local; i++) {
    struct rank *self = &job->ranks[i];
    self->job = job;
    self->rank = self->batch.rank = job->first + i;
    self->batch.setup = setup;
    sem_init(&self->batch.ended, 0, 0);
  }
  return job;
}

int perf_job_run(const struct perf_setup *setup, const struct perf_source *source, bool *good) {
  struct job *job = job_create(setup, source);
  if (!job)
    return RONDO_ERR_NO_MEMORY;
  struct rondo_kit_thread_group group = {job->local, false, rank_main, job};
  int status = shared_open(job);
  if (status == RONDO_SUCCESS)
    status = rondo_kit_thread_group_run(&group) == 0 ? job->shared->init_status : RONDO_ERR_SYSTEM;
  *good = status == RONDO_SUCCESS && !job->shared->is_bad;
  job_destroy(job);
  return status;
}
