#include "tests/explore/nccl.h"

#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"
#include "adapters/nccl/explore.h"
#include "base/explore.h"
#include "tests/explore/machine.h"

#define THREADS 2u // of a rank
#define CALLS 14u  // of a communicator
#define MOST 8u    // elements a rank sends, or receives from each
#define COLORS 2u
#define SELF_PAIRS 2u

// The communicators of a rank, and which of its threads calls on them.
enum place { WHOLE, PART, OTHER_PART, PART_OF_PART, PLACES };
static const uint32_t thread_of[PLACES] = {0, 0, 1, 0};
// The place whose communicator is split for another, and when.
static const int parent_of[PLACES] = {PLACES, WHOLE, WHOLE, PART};

enum step_kind {
  ALL_REDUCE,
  MULTIPLIED, // all-reduce with a factor of the communicator's own
  ALL_GATHER,
  ALL_TO_ALL,
  REDUCE_SCATTER,
  BROADCAST,
  PAIR,
  TO_ITSELF, // two sends and two receives of each rank to itself, in a group
  STEP_KINDS
};

// A step of all ranks of a communicator, or of the two ranks of a pair.
struct step {
  int kind;
  uint32_t count, root, peer, factor;
};

struct made_step {
  struct step what;
  uint32_t index;
  int is_common; // all made the same up to here
  int32_t send[EXPLORE_RANKS * MOST], recv[EXPLORE_RANKS * MOST];
};

struct end {
  rondo_nccl_comm_t comm;
  int has_split;                 // for it; all but the first come by that
  int is_there, is_over, is_odd; // is_odd: it has to fail
  int rank;
  uint32_t color, rank_count, count, made;
  uint32_t job_ranks[EXPLORE_RANKS];
  struct made_step steps[CALLS];
};

struct thread {
  void *group; // while it does not run
  uint32_t depth;
  int is_running;
};

// There is one machine at a time.
static struct {
  struct explore_machine *machine;
  uint32_t rank_count, odd_color, odd_step, odd_rank;
  int has_odd;
  uint32_t split_after[PLACES]; // steps of the parent before it is split for this one
  int colors[PLACES][EXPLORE_RANKS],
      keys[PLACES][EXPLORE_RANKS]; // what each rank of the job chooses
  struct end ends[EXPLORE_RANKS][PLACES];
  struct thread threads[EXPLORE_RANKS][THREADS];
  struct thread *running;
} job;

int rondo_nccl_fault_planted = RONDO_NCCL_FAULT_NONE;

// --------------------------------------------------------- below and beside it ---

// Stand for rondo_init and rondo_destroy in what the adapter calls: the machine has made the ranks,
// and ends them.
int explore_nccl_open(struct rondo_context *ctx, const struct rondo_config *cfg);
int explore_nccl_close(struct rondo_context ctx, int mode, int64_t timeout_ns);

int explore_nccl_open(struct rondo_context *ctx, const struct rondo_config *cfg) {
  *ctx = job.machine->ranks[cfg->rank].ctx;
  return RONDO_SUCCESS;
}

int explore_nccl_close(struct rondo_context ctx, int mode, int64_t timeout_ns) {
  (void)ctx, (void)mode, (void)timeout_ns;
  return RONDO_SUCCESS;
}

// No lock is held, so applications may act as well.
void rondo_nccl_explore_point(const char *name) {
  struct explore_machine *m = job.machine;
  struct thread *thread = job.running;
  if (!m || !thread)
    return;
  uint32_t in_calls = m->in_calls;
  m->in_calls = 0;
  job.running = NULL;
  rondo_nccl_group_exchange(&thread->group);
  rondo_explore_point(name);
  rondo_nccl_group_exchange(&thread->group);
  job.running = thread;
  m->in_calls = in_calls;
}

// ------------------------------------------------------------------- drawing ---

static struct step draw_step(struct random *r, uint32_t rank_count) {
  static const uint32_t counts[] = {0, 1, 3, MOST};
  struct step s = {.kind = (int)random_below(r, STEP_KINDS), .count = counts[random_below(r, 4)]};
  s.root = random_below(r, rank_count);
  s.factor = 2 + random_below(r, 3);
  if (s.kind == PAIR && rank_count == 1)
    s.kind = TO_ITSELF;
  if (s.kind == PAIR)
    s.peer = (s.root + 1 + random_below(r, rank_count - 1)) % rank_count;
  return s;
}

static int takes_part(const struct step *s, int rank) {
  return s->kind != PAIR || s->root == (uint32_t)rank || s->peer == (uint32_t)rank;
}

// The same for all ranks of a communicator: its place and color say which it is.
static void draw_end(struct end *e, int place, uint64_t seed) {
  struct random r = {random_mix(seed * 64 + (uint64_t)place * COLORS + e->color)};
  for (uint32_t i = 0; i < CALLS; i++) {
    struct step s = draw_step(&r, e->rank_count);
    if (!takes_part(&s, e->rank))
      continue;
    e->steps[e->count++] = (struct made_step){.what = s, .index = i, .is_common = 1};
  }
}

// The ranks of a part in their order, as ncclCommSplit is documented: by key, then by rank in the
// parent.
static void find_members(struct end *e, const struct end *parent, int place, int color) {
  for (uint32_t i = 0; i < parent->rank_count; i++) {
    uint32_t job_rank = parent->job_ranks[i], at = e->rank_count;
    if (job.colors[place][job_rank] != color)
      continue;
    while (at && job.keys[place][e->job_ranks[at - 1]] > job.keys[place][job_rank]) {
      e->job_ranks[at] = e->job_ranks[at - 1];
      at--;
    }
    e->job_ranks[at] = job_rank;
    e->rank_count++;
  }
}

static void make_end(uint32_t rank, int place, uint64_t seed) {
  struct end *e = &job.ends[rank][place];
  int color = job.colors[place][rank];
  if (place == WHOLE) {
    for (uint32_t i = 0; i < job.rank_count; i++)
      e->job_ranks[e->rank_count++] = i;
  } else if (color != RONDO_NCCL_NO_COLOR && job.ends[rank][parent_of[place]].rank_count) {
    e->color = (uint32_t)color;
    find_members(e, &job.ends[rank][parent_of[place]], place, color);
  }
  if (!e->rank_count) { // of none
    e->is_over = 1;
    return;
  }
  while (e->job_ranks[e->rank] != rank)
    e->rank++;
  draw_end(e, place, seed);
}

// One rank of a part of the other thread's makes one collective call of another size; all of its
// members, and no others, must get the error.
static void draw_oddness(struct random *r) {
  struct end *e = &job.ends[random_below(r, job.rank_count)][OTHER_PART];
  if (e->rank_count < 2)
    return;
  for (uint32_t i = 0; i < e->count; i++) {
    struct made_step *s = &e->steps[i];
    if (s->what.kind > BROADCAST || s->what.count == 0 || job.has_odd)
      continue;
    job.has_odd = 1;
    job.odd_color = e->color;
    job.odd_step = s->index;
    s->what.count--;
  }
  for (uint32_t rank = 0; rank < job.rank_count && job.has_odd; rank++) {
    struct end *other = &job.ends[rank][OTHER_PART];
    other->is_odd = other->rank_count && other->color == job.odd_color;
    for (uint32_t i = 0; i < other->count && other->is_odd; i++)
      other->steps[i].is_common = other->steps[i].index < job.odd_step;
  }
}

static void draw_splits(struct random *r) {
  for (int place = PART; place < PLACES; place++) {
    job.split_after[place] = random_below(r, CALLS / 2);
    for (uint32_t rank = 0; rank < job.rank_count; rank++) {
      int color = (int)random_below(r, COLORS * 2 + 1) - 1;
      job.colors[place][rank] = color >= (int)COLORS ? 0 : color;
      job.keys[place][rank] = (int)random_below(r, 4) - 1;
    }
  }
}

static void join(uint32_t rank) {
  struct rondo_nccl_id id = {{0}};
  // As long as in an old NCCL: the fields after `blocking` are not set.
  struct rondo_nccl_config config = {.size = offsetof(struct rondo_nccl_config, cga_cluster_size),
                                     .magic = RONDO_NCCL_CONFIG_MAGIC,
                                     .version = RONDO_NCCL_VERSION,
                                     .blocking = 0};
  struct end *e = &job.ends[rank][WHOLE];
  if (pncclCommInitRankConfig(&e->comm, (int)job.rank_count, id, (int)rank, &config))
    abort();
  e->is_there = 1;
}

void explore_nccl_init(struct explore_machine *m, int odd) {
  struct random r = {random_mix(m->program.seed + 199)};
  (void)setenv("RONDO_NCCL_BACKEND", "host", 1);
  if (!m->trace)
    (void)setenv("NCCL_DEBUG", "NONE", 1);
  memset(&job, 0, sizeof job);
  job.machine = m;
  job.rank_count = m->program.cfg.rank_count;
  draw_splits(&r);
  for (int place = WHOLE; place < PLACES; place++)
    for (uint32_t rank = 0; rank < job.rank_count; rank++)
      make_end(rank, place, m->program.seed);
  if (odd)
    draw_oddness(&r);
  for (uint32_t rank = 0; rank < job.rank_count; rank++)
    join(rank);
}

void explore_nccl_fini(void) {
  for (uint32_t rank = 0; rank < job.rank_count; rank++) {
    for (int place = PLACES - 1; place >= WHOLE; place--)
      (void)pncclCommAbort(job.ends[rank][place].comm);
    for (uint32_t i = 0; i < THREADS; i++)
      free(job.threads[rank][i].group);
  }
  memset(&job, 0, sizeof job);
}

// ------------------------------------------------------------------- calling ---

static int32_t value_of(const struct made_step *s, uint32_t rank, uint32_t at) {
  return (int32_t)(s->index * 10000 + rank * 1000 + at + 1);
}

// True if the result of a call is right. After the odd call it may be refused.
static int is_well(const struct end *e, uint32_t rank, const char *call, int result) {
  if (result == RONDO_NCCL_SUCCESS || result == RONDO_NCCL_IN_PROGRESS || e->is_odd)
    return 1;
  explore_fail(job.machine, EXPLORE_WRONG, "rank %u: %s returned %d: %s", rank, call, result,
               pncclGetLastError(NULL));
  return 0;
}

static int multiplied(struct end *e, struct made_step *s) {
  int op = 0, first = 0;
  int32_t factor = (int32_t)s->what.factor, one = 1;
  int result =
      pncclRedOpCreatePreMulSum(&first, &one, RONDO_INT32, RONDO_NCCL_SCALAR_HOST, e->comm);
  if (!result)
    result = pncclRedOpCreatePreMulSum(&op, &factor, RONDO_INT32, RONDO_NCCL_SCALAR_HOST, e->comm);
  if (!result)
    result = pncclAllReduce(s->send, s->recv, s->what.count, RONDO_INT32, op, e->comm, NULL);
  if (!result)
    result = pncclRedOpDestroy(op, e->comm);
  return result ? result : pncclRedOpDestroy(first, e->comm);
}

static int to_itself(struct end *e, struct made_step *s) {
  int result = pncclGroupStart();
  for (uint32_t i = 0; i < SELF_PAIRS && !result; i++)
    result =
        pncclRecv(s->recv + (size_t)i * MOST, s->what.count, RONDO_INT32, e->rank, e->comm, NULL);
  for (uint32_t i = 0; i < SELF_PAIRS && !result; i++)
    result =
        pncclSend(s->send + (size_t)i * MOST, s->what.count, RONDO_INT32, e->rank, e->comm, NULL);
  int ended = pncclGroupEnd();
  return result ? result : ended;
}

static int call_step(struct end *e, struct made_step *s) {
  const struct step *w = &s->what;
  int root = (int)w->root;
  switch (w->kind) {
  case ALL_REDUCE:
    return pncclAllReduce(s->send, s->recv, w->count, RONDO_INT32, RONDO_SUM, e->comm, NULL);
  case MULTIPLIED:
    return multiplied(e, s);
  case ALL_GATHER:
    return pncclAllGather(s->send, s->recv, w->count, RONDO_INT32, e->comm, NULL);
  case ALL_TO_ALL:
    return pncclAlltoAll(s->send, s->recv, w->count, RONDO_INT32, e->comm, NULL);
  case REDUCE_SCATTER:
    return pncclReduceScatter(s->send, s->recv, w->count, RONDO_INT32, RONDO_SUM, e->comm, NULL);
  case BROADCAST:
    return pncclBroadcast(s->send, s->recv, w->count, RONDO_INT32, root, e->comm, NULL);
  case TO_ITSELF:
    return to_itself(e, s);
  default:
    if (e->rank == root)
      return pncclSend(s->send, w->count, RONDO_INT32, (int)w->peer, e->comm, NULL);
    return pncclRecv(s->recv, w->count, RONDO_INT32, root, e->comm, NULL);
  }
}

static void make_step(uint32_t rank, struct end *e) {
  struct made_step *s = &e->steps[e->made++];
  for (uint32_t i = 0; i < EXPLORE_RANKS * MOST; i++) {
    s->send[i] = value_of(s, (uint32_t)e->rank, i);
    s->recv[i] = -1;
  }
  int result = call_step(e, s);
  explore_trace(job.machine, "rank %u calls: kind %d of %u, root %u, peer %u, as rank %d of %u: %d",
                rank, s->what.kind, s->what.count, s->what.root, s->what.peer, e->rank,
                e->rank_count, result);
  (void)is_well(e, rank, "a call", result);
  if (result != RONDO_NCCL_SUCCESS && e->is_odd)
    e->count = e->made; // it has failed: no more calls
}

// The place that this rank's communicator is split for now, or PLACES. A step that a rank takes no
// part in is passed over, so the order of two splits is that of the steps before which they come.
static int split_due(uint32_t rank, int of) {
  const struct end *parent = &job.ends[rank][of];
  uint32_t next = parent->made < parent->count ? parent->steps[parent->made].index : CALLS;
  int due = PLACES;
  for (int place = PART; place < PLACES; place++) {
    if (parent_of[place] != of || job.ends[rank][place].has_split || next < job.split_after[place])
      continue;
    if (due == PLACES || job.split_after[place] < job.split_after[due])
      due = place;
  }
  return due;
}

static void make_split(uint32_t rank, int place) {
  struct end *parent = &job.ends[rank][parent_of[place]];
  struct end *e = &job.ends[rank][place];
  int color = job.colors[place][rank];
  e->has_split = 1;
  int result = pncclCommSplit(parent->comm, color, job.keys[place][rank], &e->comm, NULL);
  explore_trace(job.machine, "rank %u splits for place %d, color %d: %d", rank, place, color,
                result);
  (void)is_well(parent, rank, "ncclCommSplit", result);
  if ((color == RONDO_NCCL_NO_COLOR) != (e->comm == NULL))
    explore_fail(job.machine, EXPLORE_WRONG, "rank %u chose color %d and got %p", rank, color,
                 (void *)e->comm);
}

// ------------------------------------------------------------------ checking ---

static int32_t sum_of(const struct made_step *s, uint32_t rank_count, uint32_t at) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < rank_count; i++)
    sum += value_of(s, i, at);
  return sum;
}

// The expected value of element `at` of what a rank receives; -1: it receives none there.
static int32_t expected(const struct end *e, const struct made_step *s, uint32_t at) {
  const struct step *w = &s->what;
  uint32_t own = (uint32_t)e->rank, parts = 1;
  if (w->kind == ALL_GATHER || w->kind == ALL_TO_ALL)
    parts = e->rank_count;
  if (w->kind == TO_ITSELF)
    return at < SELF_PAIRS * MOST && at % MOST < w->count ? value_of(s, own, at) : -1;
  if (at >= parts * w->count || (w->kind == PAIR && w->peer != own))
    return -1;
  switch (w->kind) {
  case ALL_REDUCE:
    return sum_of(s, e->rank_count, at);
  case MULTIPLIED:
    return (int32_t)w->factor * sum_of(s, e->rank_count, at);
  case REDUCE_SCATTER:
    return sum_of(s, e->rank_count, own * w->count + at);
  case ALL_GATHER:
    return value_of(s, at / w->count, at % w->count);
  case ALL_TO_ALL:
    return value_of(s, at / w->count, own * w->count + at % w->count);
  default:
    return value_of(s, w->root, at);
  }
}

static void check(const struct end *e, uint32_t rank) {
  for (uint32_t i = 0; i < e->made; i++)
    for (uint32_t at = 0; at < EXPLORE_RANKS * MOST; at++)
      if (e->steps[i].recv[at] != expected(e, &e->steps[i], at))
        explore_fail(
            job.machine, EXPLORE_WRONG,
            "rank %u, rank %d of %u of a communicator, step %u: element %u is %d, and not %d", rank,
            e->rank, e->rank_count, e->steps[i].index, at, e->steps[i].recv[at],
            expected(e, &e->steps[i], at));
}

// A part is there once the asynchronous error says so.
static int come_about(struct end *e, uint32_t rank, int error) {
  int own = -1, count = -1;
  if (error == RONDO_NCCL_IN_PROGRESS || !is_well(e, rank, "the split", error))
    return 0;
  e->is_there = 1;
  (void)pncclCommUserRank(e->comm, &own);
  (void)pncclCommCount(e->comm, &count);
  if (own != e->rank || count != (int)e->rank_count)
    explore_fail(job.machine, EXPLORE_WRONG, "rank %u is rank %d of %d of a part, and not %d of %u",
                 rank, own, count, e->rank, e->rank_count);
  return 1;
}

// Everything was called: whether all of it has ended, and well, or has failed where it has to.
static int come_over(struct end *e, uint32_t rank, int error) {
  if (error == RONDO_NCCL_IN_PROGRESS || (e->is_odd && error == RONDO_NCCL_SUCCESS))
    return 0;
  e->is_over = 1;
  if (is_well(e, rank, "ncclCommGetAsyncError", error) && !e->is_odd)
    check(e, rank);
  return 1;
}

static int look(uint32_t rank, int place) {
  struct end *e = &job.ends[rank][place];
  int error = RONDO_NCCL_SUCCESS;
  if (e->is_over || !e->comm)
    return 0;
  int result = pncclCommGetAsyncError(e->comm, &error);
  if (result)
    explore_fail(job.machine, EXPLORE_WRONG, "rank %u: ncclCommGetAsyncError returned %d", rank,
                 result);
  if (!e->is_there)
    return come_about(e, rank, error);
  if (e->made < e->count || split_due(rank, place) != PLACES)
    return 0;
  return come_over(e, rank, error);
}

// --------------------------------------------------------------------- acting ---

static int end_group(uint32_t rank, uint32_t index) {
  struct thread *thread = &job.threads[rank][index];
  int result = pncclGroupEnd();
  thread->depth--;
  explore_trace(job.machine, "rank %u thread %u ends a group: %d", rank, index, result);
  (void)is_well(&job.ends[rank][index ? OTHER_PART : WHOLE], rank, "ncclGroupEnd", result);
  return 1;
}

static int make_call(uint32_t rank, uint32_t index, int place) {
  struct explore_machine *m = job.machine;
  struct thread *thread = &job.threads[rank][index];
  if (thread->depth && random_chance(&m->random, 25))
    return end_group(rank, index);
  if (thread->depth < 2 && random_chance(&m->random, 20)) {
    thread->depth++;
    explore_trace(m, "rank %u thread %u begins a group", rank, index);
    return pncclGroupStart() == RONDO_NCCL_SUCCESS;
  }
  int due = split_due(rank, place);
  if (due != PLACES)
    make_split(rank, due);
  else
    make_step(rank, &job.ends[rank][place]);
  return 1;
}

// A call on one of the thread's communicators, or else a look at what has come of earlier ones.
static int run_thread(uint32_t rank, uint32_t index) {
  struct explore_machine *m = job.machine;
  uint32_t first = random_below(&m->random, PLACES);
  int moved = 0;
  for (uint32_t i = 0; i < PLACES; i++) {
    int place = (int)((first + i) % PLACES);
    const struct end *e = &job.ends[rank][place];
    if (thread_of[place] == index && e->is_there &&
        (e->made < e->count || split_due(rank, place) != PLACES))
      return make_call(rank, index, place);
  }
  if (job.threads[rank][index].depth)
    return end_group(rank, index);
  for (int place = WHOLE; place < PLACES; place++)
    if (thread_of[place] == index)
      moved |= look(rank, place);
  return moved;
}

int explore_nccl_act(struct explore_machine *m, uint32_t rank) {
  uint32_t index = random_below(&m->random, THREADS);
  struct thread *thread = &job.threads[rank][index];
  if (thread->is_running || !m->is_submitting)
    return 0;
  thread->is_running = 1;
  rondo_nccl_group_exchange(&thread->group);
  job.running = thread;
  int moved = run_thread(rank, index);
  job.running = NULL;
  rondo_nccl_group_exchange(&thread->group);
  thread->is_running = 0;
  return moved;
}

int explore_nccl_is_done(const struct explore_machine *m, uint32_t rank) {
  for (int place = WHOLE; place < PLACES; place++)
    if (!job.ends[rank][place].is_over)
      return 0;
  // Also what a communicator that has failed was doing ends by itself.
  const struct rondo_host_daemon *d = rondo_host_daemon_of(m->ranks[rank].rank->member.daemon);
  return rondo_load_relaxed_u64(&d->base.outstanding) == 0;
}
