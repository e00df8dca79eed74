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

// A wait comes back so often to see whether the program is to end.
#define SLICE_NS (100 * RONDO_KIT_MILLISECOND_NS)
#define DRAIN_NS (10 * RONDO_KIT_SECOND_NS)
// The processes have exchanged messages just before: one that does not join has died since.
#define JOIN_NS (30 * RONDO_KIT_SECOND_NS)

struct collective {
  struct rondo_collective handle;
  struct rondo_kit_shape shape;
  struct rondo_kit_memory send;
  struct rondo_kit_memory recv;
};

struct rank {
  struct stage *stage;
  uint32_t rank;
  struct rondo_context context;
  struct collective *collectives;
  uint32_t *order;
  struct rondo_kit_device_sync *sync; // null: the backend has no driver of its own
  _Atomic uint32_t done;              // iterations, for the progress
  struct demo_rank_outcome *outcome;
};

// One performance of a program.
struct stage {
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

static void shuffle(const struct demo_options *o, uint32_t rank, uint32_t iteration,
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
    shuffle(options, 0, i, first);
    for (uint32_t r = 1; r < options->ranks && !differs; r++) {
      shuffle(options, r, i, other);
      differs = memcmp(first, other, bytes) != 0;
    }
  }
  free(first);
  free(other);
  return differs;
}

// -------------------------------------------------------------- one rank -----

// Ends the stage, if nothing else has. Returns whether it was this call.
static bool end_stage(struct stage *stage, int end) {
  int none = DEMO_COMPLETED;
  return atomic_compare_exchange_strong(&stage->end, &none, end);
}

// Whether the stage is to go on.
static bool goes_on(struct stage *stage) {
  if (demo_is_interrupted())
    end_stage(stage, DEMO_INTERRUPTED);
  return atomic_load(&stage->end) == DEMO_COMPLETED;
}

static bool succeeded(struct rank *self, const char *call, int status) {
  if (status == RONDO_SUCCESS)
    return true;
  int end = status == RONDO_ERR_UNSUPPORTED ? DEMO_REFUSED : DEMO_FAILED;
  if (end_stage(self->stage, end)) {
    self->stage->outcome->status = status;
    self->stage->outcome->failed_call = call;
    self->stage->outcome->failed_rank = self->rank;
  }
  return false;
}

static void declare_deadlock(struct rank *self) {
  struct demo_outcome *outcome = self->stage->outcome;
  size_t report_bytes;
  if (!end_stage(self->stage, DEMO_DEADLOCKED))
    return;
  outcome->stuck_ranks = 1;
  FILE *stream = open_memstream(&outcome->report, &report_bytes);
  if (!stream)
    return;
  rondo_report(self->context, stream, &outcome->cycle_ranks);
  fclose(stream);
}

// What a rank can wait for: the last run of a collective, or its device.
static int wait_once(struct rank *self, const struct collective *c) {
  if (!c && self->sync)
    return rondo_kit_device_sync_wait(self->sync, SLICE_NS);
  if (!c)
    return rondo_device_synchronize(self->context, SLICE_NS);
  return rondo_wait(self->context, c->handle, RONDO_LAST_RUN, SLICE_NS);
}

static bool wait_for(struct rank *self, const struct collective *c) {
  uint64_t start_ns = rondo_kit_now_ns();
  int status = wait_once(self, c);
  while (status == RONDO_ERR_TIMEOUT) {
    if (!goes_on(self->stage))
      return false;
    // A process may have died before it joined the job of this performance.
    if (rondo_kit_processes_is_broken())
      return succeeded(self, "waiting for the other processes", RONDO_ERR_PEER);
    if (rondo_kit_now_ns() - start_ns >= self->stage->program->watchdog_ns) {
      declare_deadlock(self);
      return false;
    }
    status = wait_once(self, c);
  }
  return succeeded(self, c ? "rondo_wait" : "device synchronisation", status);
}

// Every iteration and collective has values of its own, so that a result that was left over shows.
static uint64_t round_of(const struct rank *self, uint32_t iteration, uint32_t collective) {
  return (uint64_t)iteration * self->stage->program->options->collectives + collective + 1;
}

static bool renew_buffers(struct rank *self, uint32_t iteration) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < self->stage->program->options->collectives && !status; i++) {
    struct collective *c = &self->collectives[i];
    size_t recv_bytes = rondo_kit_shape_recv_bytes(&c->shape);
    rondo_kit_shape_fill(&c->shape, self->rank, round_of(self, iteration, i),
                         rondo_kit_memory_look(&c->send, c->send.base));
    memset(rondo_kit_memory_look(&c->recv, c->recv.base), 0xa5, recv_bytes);
    status = rondo_kit_memory_upload(&c->send, c->send.base, rondo_kit_shape_send_bytes(&c->shape));
    if (status == RONDO_SUCCESS)
      status = rondo_kit_memory_upload(&c->recv, c->recv.base, recv_bytes);
  }
  return succeeded(self, "rondo_mem_copy", status);
}

static bool check_results(struct rank *self, uint32_t iteration) {
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < self->stage->program->options->collectives && !status; i++) {
    struct collective *c = &self->collectives[i];
    status =
        rondo_kit_memory_download(&c->recv, c->recv.base, rondo_kit_shape_recv_bytes(&c->shape));
    self->outcome->checked += rondo_kit_shape_checked(&c->shape, self->rank);
    self->outcome->wrong +=
        rondo_kit_shape_wrong(&c->shape, self->rank, round_of(self, iteration, i),
                              rondo_kit_memory_look(&c->recv, c->recv.base));
  }
  return succeeded(self, "rondo_mem_copy", status);
}

static bool iterate(struct rank *self, uint32_t iteration) {
  const struct demo_program *program = self->stage->program;
  uint32_t count = program->options->collectives;
  if (!renew_buffers(self, iteration))
    return false;
  shuffle(program->options, self->rank, iteration, self->order);
  for (uint32_t i = 0; i < count; i++) {
    struct collective *c = &self->collectives[self->order[i]];
    if (i > 0 && program->synchronize && !wait_for(self, NULL))
      return false;
    int status = rondo_run(self->context, c->handle, c->send.base, c->recv.base, NULL, NULL);
    if (!succeeded(self, "rondo_run", status))
      return false;
  }
  for (uint32_t i = 0; i < count; i++)
    if (!wait_for(self, &self->collectives[self->order[i]]))
      return false;
  return check_results(self, iteration);
}

static int device_of(const struct rank *self) {
  return (int)(self->rank % self->stage->program->options->devices);
}

static bool open_context(struct rank *self) {
  const struct demo_options *o = self->stage->program->options;
  struct rondo_config config = RONDO_CONFIG_INIT;
  config.backend = o->backend;
  config.id = self->stage->id;
  config.rank = self->rank;
  config.rank_count = o->ranks;
  config.device = device_of(self);
  config.blocks = o->blocks;
  config.workers = o->workers;
  config.order = o->order;
  config.budget = self->stage->program->budget;
  config.report_on_timeout = 0; // the demo waits in slices and reports once
  config.join_timeout_ns = self->stage->program->processes ? JOIN_NS : 0;
  return succeeded(self, "rondo_init", rondo_init(&self->context, &config));
}

// On a CUDA device the program synchronises with the device itself, by the driver's call.
static bool open_sync(struct rank *self) {
  const struct demo_options *o = self->stage->program->options;
  if (o->backend != RONDO_BACKEND_CUDA || !self->stage->program->synchronize)
    return true;
  self->sync = rondo_kit_device_sync_open(device_of(self));
  return self->sync || succeeded(self, "opening the CUDA driver", RONDO_ERR_SYSTEM);
}

static bool make_buffers(struct rank *self, struct collective *c) {
  int status =
      rondo_kit_memory_grow(&c->send, self->context, rondo_kit_shape_send_bytes(&c->shape));
  if (status == RONDO_SUCCESS)
    status = rondo_kit_memory_grow(&c->recv, self->context, rondo_kit_shape_recv_bytes(&c->shape));
  return succeeded(self, "rondo_mem_alloc", status);
}

static bool open_collectives(struct rank *self) {
  const struct demo_options *o = self->stage->program->options;
  for (uint32_t i = 0; i < o->collectives; i++) {
    struct collective *c = &self->collectives[i];
    struct rondo_collective_desc d = rondo_kit_shape_desc(&c->shape, i + 1, self->rank);
    if (!succeeded(self, "rondo_register", rondo_register(self->context, &d, &c->handle)) ||
        !make_buffers(self, c))
      return false;
  }
  return true;
}

// What a process tells the others when its rank has ended.
struct last_word {
  int32_t end, status;
  char failed_call[64];
  struct demo_rank_outcome outcome;
};

// Of several ends the one that explains the others. A rank whose runs were ended by others explains
// nothing.
static int weight_of(const struct last_word *word) {
  static const int weights[] = {[DEMO_COMPLETED] = 0,
                                [DEMO_FAILED] = 2,
                                [DEMO_DEADLOCKED] = 3,
                                [DEMO_REFUSED] = 4,
                                [DEMO_INTERRUPTED] = 5};
  bool by_others = word->status == RONDO_ERR_ABORTED || word->status == RONDO_ERR_PEER;
  return word->end == DEMO_FAILED && by_others ? 1 : weights[word->end];
}

static void merge(struct stage *stage, const struct last_word *words) {
  struct demo_outcome *outcome = stage->outcome;
  const struct last_word *decisive = &words[0];
  outcome->stuck_ranks = 0;
  for (uint32_t r = 0; r < outcome->rank_count; r++) {
    outcome->ranks[r] = words[r].outcome;
    outcome->stuck_ranks += words[r].end == DEMO_DEADLOCKED;
    if (weight_of(&words[r]) > weight_of(decisive))
      decisive = &words[r];
  }
  atomic_store(&stage->end, decisive->end);
  outcome->status = decisive->status;
  outcome->failed_rank = (uint32_t)(decisive - words);
  // The text outlives the words.
  static char failed_call[sizeof decisive->failed_call];
  memcpy(failed_call, decisive->failed_call, sizeof failed_call);
  outcome->failed_call = failed_call;
}

// All processes end a program together, and learn how the others ended.
static void outcomes_exchange(struct rank *self, bool opened) {
  struct stage *stage = self->stage;
  int end = atomic_load(&stage->end);
  // Who does not wait for a deadlock to be found elsewhere has to tell those that wait for it.
  if (opened && (end == DEMO_FAILED || end == DEMO_INTERRUPTED))
    rondo_abort(self->context);
  struct last_word word = {.end = end, .status = stage->outcome->status, .outcome = *self->outcome};
  if (stage->outcome->failed_call)
    (void)snprintf(word.failed_call, sizeof word.failed_call, "%s", stage->outcome->failed_call);
  struct last_word *words = calloc(stage->outcome->rank_count, sizeof *words);
  int status = words ? rondo_kit_processes_gather(stage->program->processes, &word, words,
                                                  sizeof word, demo_is_interrupted)
                     : RONDO_ERR_NO_MEMORY;
  if (status == RONDO_SUCCESS)
    merge(stage, words);
  else
    stage->outcome->is_apart = !succeeded(self, "the other processes", status);
  free(words);
}

static void rank_main(void *arg, uint32_t index) {
  struct stage *stage = arg;
  struct rank *self = &stage->ranks[stage->first + index];
  bool opened = open_context(self);
  if (opened && open_sync(self) && open_collectives(self))
    for (uint32_t i = 0; i < stage->program->options->iterations && goes_on(stage); i++) {
      if (!iterate(self, i))
        break;
      self->outcome->iterations = i + 1;
      atomic_store(&self->done, i + 1);
    }
  // The stuck report looks at all ranks, so nobody leaves before everybody has come to an end.
  rondo_kit_barrier_wait(&stage->barrier);
  if (opened)
    rondo_counters(self->context, &self->outcome->counters);
  if (stage->program->processes)
    outcomes_exchange(self, opened);
  if (opened) {
    bool completed = atomic_load(&stage->end) == DEMO_COMPLETED;
    int mode = completed ? RONDO_DESTROY_DRAIN : RONDO_DESTROY_ABORT;
    succeeded(self, "rondo_destroy", rondo_destroy(self->context, mode, DRAIN_NS));
    rondo_kit_device_sync_close(self->sync);
  }
  sem_post(&stage->left);
}

// ------------------------------------------------------------- the stage -----

static void rank_fini(struct rank *self, uint32_t collectives) {
  for (uint32_t i = 0; self->collectives && i < collectives; i++) {
    rondo_kit_memory_forget(&self->collectives[i].send);
    rondo_kit_memory_forget(&self->collectives[i].recv);
  }
  free(self->collectives);
  free(self->order);
}

static int rank_init(struct rank *self, const struct demo_options *o) {
  self->collectives = calloc(o->collectives, sizeof(self->collectives[0]));
  self->order = calloc(o->collectives, sizeof(self->order[0]));
  if (!self->collectives || !self->order)
    return -1;
  for (uint32_t i = 0; i < o->collectives; i++) {
    struct collective *c = &self->collectives[i];
    c->shape.kind = RONDO_ALL_REDUCE;
    c->shape.dtype = RONDO_FLOAT32;
    c->shape.redop = RONDO_SUM;
    c->shape.rank_count = o->ranks;
    rondo_kit_shape_size(&c->shape, demo_options_bytes(o, i));
  }
  return 0;
}

static void stage_destroy(struct stage *stage) {
  for (uint32_t r = 0; r < stage->program->options->ranks; r++)
    rank_fini(&stage->ranks[r], stage->program->options->collectives);
  sem_destroy(&stage->left);
  free(stage);
}

static struct stage *stage_create(const struct demo_program *program,
                                  struct demo_outcome *outcome) {
  uint32_t ranks = program->options->ranks;
  size_t bytes = sizeof(struct stage) + ranks * sizeof(struct rank);
  struct stage *stage = aligned_alloc(128, (bytes + 127) / 128 * 128);
  if (!stage)
    return NULL;
  memset(stage, 0, bytes);
  stage->program = program;
  stage->outcome = outcome;
  stage->first = program->processes ? rondo_kit_processes_rank(program->processes) : 0;
  stage->local = program->processes ? 1 : ranks;
  rondo_kit_barrier_init(&stage->barrier, stage->local, rondo_kit_core_count());
  sem_init(&stage->left, 0, 0);
  bool complete = true;
  for (uint32_t r = stage->first; r < stage->first + stage->local; r++) {
    stage->ranks[r].stage = stage;
    stage->ranks[r].rank = r;
    stage->ranks[r].outcome = &outcome->ranks[r];
    complete = complete && rank_init(&stage->ranks[r], program->options) == 0;
  }
  if (complete)
    return stage;
  stage_destroy(stage);
  return NULL;
}

// Gives all ranks of the job one id. Returns false if the processes cannot agree on one.
static bool find_id(struct stage *stage) {
  struct rondo_kit_processes *processes = stage->program->processes;
  struct rank *self = &stage->ranks[stage->first];
  if (!processes)
    return succeeded(self, "rondo_unique_id_create", rondo_unique_id_create(&stage->id));
  int status = rondo_kit_processes_new_id(processes, &stage->id, demo_is_interrupted);
  stage->outcome->is_apart = status != RONDO_SUCCESS;
  if (status == RONDO_ERR_TIMEOUT && demo_is_interrupted())
    end_stage(stage, DEMO_INTERRUPTED);
  else
    succeeded(self, "the other processes", status);
  return status == RONDO_SUCCESS;
}

// Of all ranks of this process.
static uint32_t iterations_so_far(const struct stage *stage) {
  uint32_t least = UINT32_MAX;
  for (uint32_t r = stage->first; r < stage->first + stage->local; r++) {
    uint32_t done = atomic_load(&stage->ranks[r].done);
    least = done < least ? done : least;
  }
  return least;
}

static void watch(struct stage *stage, void (*progress)(void *arg, uint32_t done), void *arg) {
  uint32_t left = 0;
  while (left < stage->local) {
    struct timespec until = rondo_kit_deadline(SLICE_NS);
    if (sem_timedwait(&stage->left, &until) == 0)
      left++;
    else if (errno == ETIMEDOUT && progress)
      progress(arg, iterations_so_far(stage));
  }
}

static void add_up(const struct stage *stage) {
  struct demo_outcome *outcome = stage->outcome;
  outcome->end = atomic_load(&stage->end);
  outcome->iterations = UINT32_MAX;
  uint32_t first =
      outcome->is_apart ? stage->first : 0; // only its own ranks if the others are lost
  uint32_t end = outcome->is_apart ? stage->first + stage->local : outcome->rank_count;
  for (uint32_t r = first; r < end; r++) {
    if (outcome->ranks[r].iterations < outcome->iterations)
      outcome->iterations = outcome->ranks[r].iterations;
    outcome->runs += outcome->ranks[r].iterations * (uint64_t)stage->program->options->collectives;
    outcome->checked += outcome->ranks[r].checked;
    outcome->wrong += outcome->ranks[r].wrong;
  }
}

// Returns 0, or -1 if there are no threads.
static int perform(struct stage *stage, void (*progress)(void *arg, uint32_t done), void *arg) {
  struct rondo_kit_thread_group group = {stage->local, false, rank_main, stage};
  uint64_t start_ns = rondo_kit_now_ns();
  struct rondo_kit_threads *threads = rondo_kit_thread_group_start(&group);
  if (!threads)
    return -1;
  watch(stage, progress, arg);
  rondo_kit_thread_group_join(threads);
  stage->outcome->elapsed_ns = rondo_kit_now_ns() - start_ns;
  return 0;
}

int demo_program_run(const struct demo_program *program, void (*progress)(void *arg, uint32_t done),
                     void *arg, struct demo_outcome *outcome) {
  uint32_t ranks = program->options->ranks;
  memset(outcome, 0, sizeof(*outcome));
  outcome->rank_count = ranks;
  outcome->ranks = calloc(ranks, sizeof(outcome->ranks[0]));
  struct stage *stage = outcome->ranks ? stage_create(program, outcome) : NULL;
  if (!stage)
    return -1;
  int status = find_id(stage) ? perform(stage, progress, arg) : 0;
  add_up(stage);
  stage_destroy(stage);
  return status;
}

void demo_outcome_fini(struct demo_outcome *outcome) {
  free(outcome->report);
  free(outcome->ranks);
}
