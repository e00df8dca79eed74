#include "tools/demo/program.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/kit/barrier.h"
#include "tools/kit/clock.h"
#include "tools/kit/device_sync.h"
#include "tools/kit/memory.h"
#include "tools/kit/permute.h"
#include "tools/kit/shape.h"
#include "tools/kit/thread_group.h"

// A wait returns this often to see whether the program was interrupted.
#define SLICE_NS (100 * RONDO_KIT_MILLISECOND_NS)
#define DRAIN_NS (10 * RONDO_KIT_SECOND_NS)
// The processes have exchanged messages just before: one that does not join has died since.
#define JOIN_NS (30 * RONDO_KIT_SECOND_NS)

struct collective {
  struct rondo_collective handle;
  struct rondo_kit_shape shape;
  struct rondo_kit_memory send;
  struct rondo_kit_memory recv;
  uint32_t submitted; // runs
};

struct rank {
  struct execution *execution;
  const struct demo_options *options;
  uint32_t rank;
  struct rondo_context context;
  struct collective *collectives;
  uint32_t *order;
  struct rondo_kit_device_sync *sync; // null: the backend has no driver of its own
  _Atomic uint32_t done;              // iterations, for the progress
  struct demo_rank_outcome *outcome;
};

// One execution of a program.
struct execution {
  const struct demo_program *program;
  struct demo_outcome *outcome;
  uint32_t first, local; // the ranks of this process
  struct rondo_unique_id id;
  struct rondo_kit_barrier barrier;
  sem_t left; // posted by each rank of this process at its end
  _Atomic int end;
  struct rank ranks[];
};

static _Atomic bool interrupted;

void demo_interrupt(void) { atomic_store(&interrupted, true); }
bool demo_is_interrupted(void) { return atomic_load(&interrupted); }

// ----------------------------------------------------------------- orders ----

static void order_shuffle(const struct demo_options *o, uint32_t rank, uint32_t iteration,
                          uint32_t *order) {
  struct rondo_kit_permutation which = {o->seed, rank, iteration};
  rondo_kit_permute(&which, o->collectives, order);
}

bool demo_program_is_disordered(const struct demo_options *options) {
  size_t bytes = options->collectives * sizeof(uint32_t);
  uint32_t *first = malloc(bytes);
  uint32_t *other = malloc(bytes);
  bool differs = false;
  for (uint32_t i = 0; first && other && i < options->iterations && !differs; i++) {
    order_shuffle(options, 0, i, first);
    for (uint32_t r = 1; r < options->ranks && !differs; r++) {
      order_shuffle(options, r, i, other);
      differs = memcmp(first, other, bytes) != 0;
    }
  }
  free(first);
  free(other);
  return differs;
}

// -------------------------------------------------------------- one rank -----

// Ends the execution unless it has ended. Returns whether this call did.
static bool execution_end(struct execution *execution, int end) {
  int none = DEMO_COMPLETED;
  return atomic_compare_exchange_strong(&execution->end, &none, end);
}

// Whether the execution is to go on.
static bool execution_goes_on(struct execution *execution) {
  if (demo_is_interrupted())
    execution_end(execution, DEMO_INTERRUPTED);
  return atomic_load(&execution->end) == DEMO_COMPLETED;
}

static bool call_succeeded(struct rank *self, const char *call, int status) {
  if (status == RONDO_SUCCESS)
    return true;
  int end = status == RONDO_ERR_UNSUPPORTED ? DEMO_REFUSED : DEMO_FAILED;
  if (execution_end(self->execution, end)) {
    self->execution->outcome->status = status;
    self->execution->outcome->failed_rank = self->rank;
    (void)snprintf(self->execution->outcome->failed_call, DEMO_CALL_BYTES, "%s", call);
  }
  return false;
}

static void deadlock_declare(struct rank *self) {
  struct demo_outcome *outcome = self->execution->outcome;
  size_t report_bytes;
  if (!execution_end(self->execution, DEMO_DEADLOCKED))
    return;
  outcome->stuck_ranks = 1;
  FILE *stream = open_memstream(&outcome->report, &report_bytes);
  if (!stream)
    return;
  rondo_report(self->context, stream, NULL);
  fclose(stream);
}

// Waits for the last run of a collective or, if `c` is null, for the device.
static int wait_slice(struct rank *self, const struct collective *c) {
  if (!c && self->sync)
    return rondo_kit_device_sync_wait(self->sync, SLICE_NS);
  if (!c)
    return rondo_device_synchronize(self->context, SLICE_NS);
  return rondo_wait(self->context, c->handle, RONDO_LAST_RUN, SLICE_NS);
}

static bool rank_wait(struct rank *self, const struct collective *c) {
  uint64_t start_ns = rondo_kit_now_ns();
  int status = wait_slice(self, c);
  while (status == RONDO_ERR_TIMEOUT) {
    if (!execution_goes_on(self->execution))
      return false;
    // A process may have died before it joined the job of this execution.
    if (rondo_kit_processes_is_broken())
      return call_succeeded(self, "waiting for the other processes", RONDO_ERR_PEER);
    if (rondo_kit_now_ns() - start_ns >= self->execution->program->watchdog_ns) {
      deadlock_declare(self);
      return false;
    }
    status = wait_slice(self, c);
  }
  return call_succeeded(self, c ? "rondo_wait" : "device synchronisation", status);
}

// Each iteration and collective has values of its own, so that a result left over from another one
// shows.
static uint64_t round_number(const struct rank *self, uint32_t iteration, uint32_t collective) {
  return (uint64_t)iteration * self->options->collectives + collective + 1;
}

static bool buffers_renew(struct rank *self, uint32_t iteration) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < self->options->collectives && status == RONDO_SUCCESS; i++) {
    struct collective *c = &self->collectives[i];
    status = rondo_kit_memory_fill(&c->send, c->send.base, &c->shape, self->rank,
                                   round_number(self, iteration, i));
    if (status == RONDO_SUCCESS)
      status = rondo_kit_memory_poison(&c->recv, c->recv.base, &c->shape);
  }
  return call_succeeded(self, "rondo_mem_copy", status);
}

static bool results_check(struct rank *self, uint32_t iteration) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < self->options->collectives && status == RONDO_SUCCESS; i++) {
    struct collective *c = &self->collectives[i];
    status = rondo_kit_memory_check(&c->recv, c->recv.base, &c->shape, self->rank,
                                    round_number(self, iteration, i), &self->outcome->wrong);
    self->outcome->checked += rondo_kit_shape_checked(&c->shape, self->rank);
  }
  return call_succeeded(self, "rondo_mem_copy", status);
}

static bool rank_iterate(struct rank *self, uint32_t iteration) {
  const struct demo_program *program = self->execution->program;
  uint32_t count = program->options->collectives;
  if (!buffers_renew(self, iteration))
    return false;
  order_shuffle(program->options, self->rank, iteration, self->order);
  for (uint32_t i = 0; i < count; i++) {
    struct collective *c = &self->collectives[self->order[i]];
    if (i > 0 && program->synchronize && !rank_wait(self, NULL))
      return false;
    int status = rondo_run(self->context, c->handle, c->send.base, c->recv.base, NULL, NULL);
    if (!call_succeeded(self, "rondo_run", status))
      return false;
    c->submitted++;
  }
  for (uint32_t i = 0; i < count; i++)
    if (!rank_wait(self, &self->collectives[self->order[i]]))
      return false;
  return results_check(self, iteration);
}

static bool context_open(struct rank *self) {
  const struct demo_program *program = self->execution->program;
  struct rondo_config config = program->options->config;
  config.id = self->execution->id;
  config.rank = self->rank;
  config.rank_count = program->options->ranks;
  config.device = (int)(self->rank % program->options->devices);
  config.budget = program->budget;
  config.report_on_timeout = 0; // the demo waits in slices and reports once
  config.join_timeout_ns = program->processes ? JOIN_NS : 0;
  return call_succeeded(self, "rondo_init", rondo_init(&self->context, &config));
}

// On a CUDA device the program synchronises by the driver's own call.
static bool sync_open(struct rank *self) {
  if (self->options->config.backend != RONDO_BACKEND_CUDA || !self->execution->program->synchronize)
    return true;
  self->sync = rondo_kit_device_sync_open((int)(self->rank % self->options->devices));
  return self->sync || call_succeeded(self, "opening the CUDA driver", RONDO_ERR_SYSTEM);
}

static bool buffers_make(struct rank *self, struct collective *c) {
  int status =
      rondo_kit_memory_grow(&c->send, self->context, rondo_kit_shape_send_bytes(&c->shape));
  if (status == RONDO_SUCCESS)
    status = rondo_kit_memory_grow(&c->recv, self->context, rondo_kit_shape_recv_bytes(&c->shape));
  return call_succeeded(self, "rondo_mem_alloc", status);
}

static bool collectives_open(struct rank *self) {
  for (uint32_t i = 0; i < self->options->collectives; i++) {
    struct collective *c = &self->collectives[i];
    struct rondo_collective_desc d = rondo_kit_shape_desc(&c->shape, i + 1, self->rank);
    if (!call_succeeded(self, "rondo_register", rondo_register(self->context, &d, &c->handle)) ||
        !buffers_make(self, c))
      return false;
  }
  return true;
}

// What a process tells the others when its rank has ended.
struct rank_end {
  int32_t end, status;
  char failed_call[DEMO_CALL_BYTES];
  struct demo_rank_outcome outcome;
};

// The end with the largest weight explains the others. A rank whose runs another rank ended
// explains nothing.
static int rank_end_weight(const struct rank_end *rank_end) {
  static const int weights[] = {[DEMO_COMPLETED] = 0,
                                [DEMO_FAILED] = 2,
                                [DEMO_DEADLOCKED] = 3,
                                [DEMO_REFUSED] = 4,
                                [DEMO_INTERRUPTED] = 5};
  bool by_others = rank_end->status == RONDO_ERR_ABORTED || rank_end->status == RONDO_ERR_PEER;
  return rank_end->end == DEMO_FAILED && by_others ? 1 : weights[rank_end->end];
}

static void outcomes_merge(struct execution *execution, const struct rank_end *ends) {
  struct demo_outcome *outcome = execution->outcome;
  const struct rank_end *decisive = &ends[0];
  outcome->stuck_ranks = 0;
  for (uint32_t r = 0; r < outcome->rank_count; r++) {
    outcome->ranks[r] = ends[r].outcome;
    outcome->stuck_ranks += ends[r].end == DEMO_DEADLOCKED;
    if (rank_end_weight(&ends[r]) > rank_end_weight(decisive))
      decisive = &ends[r];
  }
  atomic_store(&execution->end, decisive->end);
  outcome->status = decisive->status;
  outcome->failed_rank = (uint32_t)(decisive - ends);
  memcpy(outcome->failed_call, decisive->failed_call, sizeof outcome->failed_call);
}

// All processes end a program together, and learn how the others ended.
static void outcomes_exchange(struct rank *self, bool opened) {
  struct execution *execution = self->execution;
  int end = atomic_load(&execution->end);
  // Other ranks may still wait for this one, until their watchdog ends them.
  if (opened && (end == DEMO_FAILED || end == DEMO_INTERRUPTED))
    rondo_abort(self->context);
  struct rank_end *ends = calloc(execution->outcome->rank_count, sizeof *ends);
  int status = RONDO_ERR_NO_MEMORY;
  if (ends) {
    struct rank_end *own = &ends[self->rank];
    own->end = end;
    own->status = execution->outcome->status;
    own->outcome = *self->outcome;
    memcpy(own->failed_call, execution->outcome->failed_call, sizeof own->failed_call);
    status = rondo_kit_processes_gather(execution->program->processes, own, ends, sizeof *own,
                                        demo_is_interrupted);
  }
  if (status == RONDO_SUCCESS)
    outcomes_merge(execution, ends);
  else
    execution->outcome->is_apart = !call_succeeded(self, "the other processes", status);
  free(ends);
}

// Gives every process the part of `array` that each rank has written: `bytes` a rank.
static bool stuck_gather(const struct rank *self, void *array, size_t bytes) {
  return rondo_kit_processes_gather(self->execution->program->processes,
                                    (char *)array + self->rank * bytes, array, bytes,
                                    demo_is_interrupted) == RONDO_SUCCESS;
}

// Each rank reads what its runs are doing, while all ranks still have their contexts.
static void stuck_read(struct rank *self) {
  struct execution *execution = self->execution;
  struct demo_stuck *stuck = &execution->outcome->stuck;
  struct demo_runs *runs = demo_stuck_runs(stuck, self->rank);
  for (uint32_t i = 0; i < stuck->collective_count; i++)
    runs[i].submitted = self->collectives[i].submitted;
  (void)demo_stuck_read(stuck, self->rank, self->context); // a failure leaves fewer runs to print
  rondo_kit_barrier_wait(&execution->barrier);
  if (!execution->program->processes)
    return;
  size_t bytes = stuck->collective_count * sizeof *stuck->runs;
  execution->outcome->is_apart = !stuck_gather(self, stuck->executing, sizeof *stuck->executing) ||
                                 !stuck_gather(self, stuck->runs, bytes);
}

static void rank_main(void *arg, uint32_t index) {
  struct execution *execution = arg;
  struct rank *self = &execution->ranks[execution->first + index];
  bool opened = context_open(self);
  if (opened && sync_open(self) && collectives_open(self))
    for (uint32_t i = 0; i < self->options->iterations && execution_goes_on(execution); i++) {
      if (!rank_iterate(self, i))
        break;
      self->outcome->iterations = i + 1;
      atomic_store(&self->done, i + 1);
    }
  // The stuck report shows all ranks, so no rank destroys its context before all have ended.
  rondo_kit_barrier_wait(&execution->barrier);
  if (opened)
    rondo_counters(self->context, &self->outcome->counters);
  if (execution->program->processes)
    outcomes_exchange(self, opened);
  if (atomic_load(&execution->end) == DEMO_DEADLOCKED && !execution->outcome->is_apart)
    stuck_read(self);
  if (opened) {
    bool completed = atomic_load(&execution->end) == DEMO_COMPLETED;
    int mode = completed ? RONDO_DESTROY_DRAIN : RONDO_DESTROY_ABORT;
    call_succeeded(self, "rondo_destroy", rondo_destroy(self->context, mode, DRAIN_NS));
    rondo_kit_device_sync_close(self->sync);
  }
  sem_post(&execution->left);
}

// ------------------------------------------------------------- the execution -----

static void rank_fini(struct rank *self) {
  for (uint32_t i = 0; self->collectives && i < self->options->collectives; i++) {
    rondo_kit_memory_forget(&self->collectives[i].send);
    rondo_kit_memory_forget(&self->collectives[i].recv);
  }
  free(self->collectives);
  free(self->order);
}

static bool rank_init(struct rank *self) {
  const struct demo_options *o = self->options;
  self->collectives = calloc(o->collectives, sizeof(self->collectives[0]));
  self->order = calloc(o->collectives, sizeof(self->order[0]));
  if (!self->collectives || !self->order)
    return false;
  for (uint32_t i = 0; i < o->collectives; i++) {
    struct collective *c = &self->collectives[i];
    c->shape = (struct rondo_kit_shape){RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM,
                                        .rank_count = o->ranks};
    rondo_kit_shape_size(&c->shape, demo_options_bytes(o, i));
  }
  return true;
}

static void execution_destroy(struct execution *execution) {
  for (uint32_t r = 0; r < execution->program->options->ranks; r++)
    rank_fini(&execution->ranks[r]);
  sem_destroy(&execution->left);
  free(execution);
}

static struct execution *execution_create(const struct demo_program *program,
                                          struct demo_outcome *outcome) {
  uint32_t ranks = program->options->ranks;
  size_t bytes = sizeof(struct execution) + ranks * sizeof(struct rank);
  struct execution *execution = aligned_alloc(128, (bytes + 127) / 128 * 128);
  if (!execution)
    return NULL;
  memset(execution, 0, bytes);
  execution->program = program;
  execution->outcome = outcome;
  execution->first = rondo_kit_processes_rank(program->processes);
  execution->local = program->processes ? 1 : ranks;
  rondo_kit_barrier_init(&execution->barrier, execution->local, rondo_kit_core_count());
  sem_init(&execution->left, 0, 0);
  bool complete = true;
  for (uint32_t r = execution->first; r < execution->first + execution->local; r++) {
    struct rank *self = &execution->ranks[r];
    self->execution = execution;
    self->options = program->options;
    self->rank = r;
    self->outcome = &outcome->ranks[r];
    complete = complete && rank_init(self);
  }
  if (complete)
    return execution;
  execution_destroy(execution);
  return NULL;
}

// Gives all ranks of the job one id. Returns false if the processes cannot agree on one.
static bool id_agree(struct execution *execution) {
  struct rondo_kit_processes *processes = execution->program->processes;
  struct rank *self = &execution->ranks[execution->first];
  if (!processes)
    return call_succeeded(self, "rondo_unique_id_create", rondo_unique_id_create(&execution->id));
  int status = rondo_kit_processes_new_id(processes, &execution->id, demo_is_interrupted);
  execution->outcome->is_apart = status != RONDO_SUCCESS;
  if (status == RONDO_ERR_TIMEOUT && demo_is_interrupted())
    execution_end(execution, DEMO_INTERRUPTED);
  else
    call_succeeded(self, "the other processes", status);
  return status == RONDO_SUCCESS;
}

// Iterations that all ranks of this process have completed.
static uint32_t iterations_done(const struct execution *execution) {
  uint32_t least = UINT32_MAX;
  for (uint32_t r = execution->first; r < execution->first + execution->local; r++) {
    uint32_t done = atomic_load(&execution->ranks[r].done);
    least = done < least ? done : least;
  }
  return least;
}

static void ranks_watch(struct execution *execution, void (*progress)(void *arg, uint32_t done),
                        void *arg) {
  uint32_t left = 0;
  while (left < execution->local) {
    struct timespec until = rondo_kit_deadline(SLICE_NS);
    if (sem_timedwait(&execution->left, &until) == 0)
      left++;
    else if (errno == ETIMEDOUT && progress)
      progress(arg, iterations_done(execution));
  }
}

static void outcome_sum(const struct execution *execution) {
  struct demo_outcome *outcome = execution->outcome;
  outcome->end = atomic_load(&execution->end);
  outcome->iterations = UINT32_MAX;
  uint32_t first =
      outcome->is_apart ? execution->first : 0; // only its own ranks if the others are lost
  uint32_t end = outcome->is_apart ? execution->first + execution->local : outcome->rank_count;
  for (uint32_t r = first; r < end; r++) {
    if (outcome->ranks[r].iterations < outcome->iterations)
      outcome->iterations = outcome->ranks[r].iterations;
    outcome->runs +=
        outcome->ranks[r].iterations * (uint64_t)execution->program->options->collectives;
    outcome->checked += outcome->ranks[r].checked;
    outcome->wrong += outcome->ranks[r].wrong;
  }
}

// Returns 0, or -1 if there are no threads.
static int execution_run(struct execution *execution, void (*progress)(void *arg, uint32_t done),
                         void *arg) {
  struct rondo_kit_thread_group group = {execution->local, false, rank_main, execution};
  uint64_t start_ns = rondo_kit_now_ns();
  struct rondo_kit_threads *threads = rondo_kit_thread_group_start(&group);
  if (!threads)
    return -1;
  ranks_watch(execution, progress, arg);
  rondo_kit_thread_group_join(threads);
  execution->outcome->elapsed_ns = rondo_kit_now_ns() - start_ns;
  return 0;
}

int demo_program_run(const struct demo_program *program, void (*progress)(void *arg, uint32_t done),
                     void *arg, struct demo_outcome *outcome) {
  uint32_t ranks = program->options->ranks;
  memset(outcome, 0, sizeof(*outcome));
  outcome->rank_count = ranks;
  outcome->ranks = calloc(ranks, sizeof(outcome->ranks[0]));
  bool complete =
      demo_stuck_init(&outcome->stuck, ranks, program->options->collectives) && outcome->ranks;
  struct execution *execution = complete ? execution_create(program, outcome) : NULL;
  if (!execution)
    return -1;
  int status = id_agree(execution) ? execution_run(execution, progress, arg) : 0;
  outcome_sum(execution);
  if (outcome->end == DEMO_DEADLOCKED)
    demo_stuck_find_cycle(&outcome->stuck);
  execution_destroy(execution);
  return status;
}

void demo_outcome_fini(struct demo_outcome *outcome) {
  demo_stuck_fini(&outcome->stuck);
  free(outcome->report);
  free(outcome->ranks);
}
