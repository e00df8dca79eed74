// The stuck report: what nobody could say at 3 a.m.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "runtime/observe/flight_write.h"
#include "runtime/observe/report.h"
#include "runtime/observe/snapshot.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/service.h"

#define LINES_ELSEWHERE 64u // of ranks of other processes

// ---------------------------------------------------------------- the report --

static int has_submitted(const struct rondo_snapshot *s, uint32_t rank, struct rondo_id id,
                         uint64_t run) {
  const struct rondo_coll_view *v = rondo_snapshot_find(s, rank, id);
  return v && v->submitted >= run;
}

static uint32_t count_missing(const struct rondo_snapshot *s, const struct rondo_coll_view *v,
                              uint64_t run) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < v->nranks; i++)
    missing += !has_submitted(s, v->members[i], v->id, run);
  return missing;
}

// Why a rank that has not submitted a run may not have.
static const char *excuse(const struct rondo_snapshot *s, uint32_t rank,
                          const struct rondo_coll_view *v) {
  switch (s->ranks[rank].is_present) {
  case RONDO_VIEW_NOWHERE:
    return " (not in this process)";
  case RONDO_VIEW_SILENT:
    return " (its process does not answer)";
  case RONDO_VIEW_LOST:
    return " (it has left or is lost)";
  default:
    return rondo_snapshot_find(s, rank, v->id) ? "" : " (not registered either)";
  }
}

static void print_missing(const struct rondo_snapshot *s, const struct rondo_coll_view *v,
                          uint64_t run, FILE *out) {
  if (!v->members)
    return;
  if (!count_missing(s, v, run)) {
    fprintf(out, "; all %u ranks have submitted it", v->nranks);
    return;
  }
  fprintf(out, "; not submitted by rank");
  for (uint32_t i = 0; i < v->nranks; i++) {
    uint32_t m = v->members[i];
    if (has_submitted(s, m, v->id, run))
      continue;
    fprintf(out, " %u%s", m, excuse(s, m, v));
  }
}

static void print_primitive(uint32_t primitive, FILE *out) {
  static const struct {
    uint32_t flag;
    const char *name;
  } parts[] = {{RONDO_PRIM_RECV, "recv"},
               {RONDO_PRIM_REDUCE, "reduce"},
               {RONDO_PRIM_COPY, "copy"},
               {RONDO_PRIM_SEND, "send"}};
  const char *gap = "";
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!(primitive & parts[i].flag))
      continue;
    fprintf(out, "%s%s", gap, parts[i].name);
    gap = " ";
  }
}

static void print_place(const struct rondo_coll_view *v, FILE *out) {
  static const char *const phases[] = {"is idle",
                                       "waits for all ranks to register",
                                       "",
                                       "waits for its data to be taken",
                                       "is ending with an error",
                                       "waits for room in the completion queue"};
  fprintf(out, "block %u ", v->block);
  if (v->phase != RONDO_PHASE_OPS) {
    fprintf(out, "%s", phases[v->phase]);
  } else {
    fprintf(out, "stands at op %u (", v->op);
    print_primitive(v->primitive, out);
    fprintf(out, ")");
  }
  if (v->peer >= 0)
    fprintf(out, ", waiting for rank %d to %s", v->peer, v->wants_data ? "send" : "take data");
  fprintf(out, ", for %.3f s", (double)v->waiting_ns / 1e9);
}

static void print_coll(const struct rondo_snapshot *s, uint32_t rank,
                       const struct rondo_coll_view *v, FILE *out) {
  uint64_t run = v->executing ? v->executing : v->completed + 1;
  fprintf(out, "  rank %u%s, id %llu (%s, %llu × %s, %u ranks), run %llu: ", rank,
          s->ranks[rank].is_present == RONDO_VIEW_HERE ? "" : " elsewhere",
          (unsigned long long)v->desc.id, rondo_kind_name(v->desc.kind),
          (unsigned long long)v->desc.count, rondo_dtype_name(v->desc.dtype), v->group_size,
          (unsigned long long)run);
  if (v->executing)
    print_place(v, out);
  else
    fprintf(out, "not begun by this rank's daemon");
  print_missing(s, v, run, out);
  if (v->submitted > run)
    fprintf(out, "; %llu later runs wait behind it", (unsigned long long)(v->submitted - run));
  fprintf(out, "\n");
}

static void print_cycle(const struct rondo_snapshot *s, const uint32_t *cycle, uint32_t length,
                        FILE *out) {
  fprintf(out, "  cycle of %u ranks:\n", length);
  for (uint32_t i = 0; i < length; i++) {
    const struct rondo_coll_view *v = rondo_snapshot_scheduled(s, cycle[i]);
    fprintf(out, "    rank %u executes id %llu and waits for rank %u, which has not begun it\n",
            cycle[i], (unsigned long long)v->desc.id, cycle[(i + 1) % length]);
  }
}

// Every run that is outstanding in this process, and of others as many lines as fit. Returns how many runs.
static uint64_t print_outstanding(const struct rondo_snapshot *s, FILE *out) {
  uint64_t outstanding = 0;
  uint32_t elsewhere = 0;
  for (uint32_t r = 0; r < s->rank_count; r++) {
    for (uint32_t i = 0; i < s->ranks[r].coll_count; i++) {
      const struct rondo_coll_view *v = &s->ranks[r].colls[i];
      if (v->submitted == v->completed)
        continue;
      outstanding += v->submitted - v->completed;
      elsewhere += s->ranks[r].is_present != RONDO_VIEW_HERE;
      if (s->ranks[r].is_present == RONDO_VIEW_HERE || elsewhere <= LINES_ELSEWHERE)
        print_coll(s, r, v, out);
    }
  }
  if (elsewhere > LINES_ELSEWHERE)
    fprintf(out, "  %u more of ranks elsewhere\n", elsewhere - LINES_ELSEWHERE);
  return outstanding;
}

static int report_job(struct rondo_job *job, FILE *out, uint32_t *cycle_ranks) {
  struct rondo_snapshot s;
  int status = rondo_snapshot_init(&s, job);
  uint32_t *cycle = calloc(s.rank_count ? s.rank_count : 1, sizeof *cycle);
  if (status != RONDO_SUCCESS || !cycle) {
    rondo_snapshot_fini(&s);
    free(cycle);
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "report: no memory");
  }
  fprintf(out, "rondo: stuck report of a job of %u ranks\n", s.rank_count);
  uint64_t outstanding = print_outstanding(&s, out);
  uint32_t length = rondo_snapshot_cycle(&s, cycle);
  if (length)
    print_cycle(&s, cycle, length, out);
  else
    fprintf(out, "  %s\n",
            outstanding ? "no ranks wait for each other in a circle" : "no run is outstanding");
  fflush(out);
  if (cycle_ranks)
    *cycle_ranks = length;
  rondo_snapshot_fini(&s);
  free(cycle);
  return RONDO_SUCCESS;
}

int rondo_report(struct rondo_context ctx, FILE *stream, uint32_t *cycle_ranks) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "report", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!stream)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "report: the stream is null");
  else
    status = report_job(rank->job, stream, cycle_ranks);
  rondo_rank_unpin(ctx);
  return status;
}

// ------------------------------------------------------------------- entries --

static void fill_entry(const struct rondo_snapshot *s, const struct rondo_coll_view *v,
                       uint64_t run, struct rondo_stuck *e) {
  int executing = v->executing == run;
  e->id = v->desc.id;
  e->run = run;
  e->state = executing                            ? RONDO_RUN_EXECUTING
             : run <= v->completed + v->on_device ? RONDO_RUN_QUEUED
                                                  : RONDO_RUN_WAITING;
  e->block = v->block;
  e->op = executing ? v->op : 0;
  e->peer = executing ? v->peer : -1;
  e->missing = count_missing(s, v, run);
  e->waiting_ns = executing ? v->waiting_ns : 0;
}

int rondo_stuck(struct rondo_context ctx, struct rondo_stuck *entries, size_t capacity,
                size_t *count) {
  struct rondo_rank *rank;
  struct rondo_snapshot s;
  int status = rondo_rank_pin(ctx, "stuck", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!count || (!entries && capacity)) {
    rondo_rank_unpin(ctx);
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "stuck: a null argument");
  }
  status = rondo_snapshot_init(&s, rank->job);
  if (status == RONDO_SUCCESS) {
    const struct rondo_rank_view *view = &s.ranks[rank->cfg.rank];
    size_t n = 0;
    for (uint32_t i = 0; i < view->coll_count; i++) {
      const struct rondo_coll_view *v = &view->colls[i];
      for (uint64_t run = v->completed + 1; run <= v->submitted; run++, n++)
        if (n < capacity)
          fill_entry(&s, v, run, &entries[n]);
    }
    *count = n;
  }
  rondo_snapshot_fini(&s);
  rondo_rank_unpin(ctx);
  return status;
}

// ------------------------------------------------------------------ counters --

int rondo_counters(struct rondo_context ctx, struct rondo_counters *out) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "counters", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!out) {
    rondo_rank_unpin(ctx);
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "counters: the place for them is null");
  }
  struct rondo_counters c = {0};
  rondo_rank_lock(rank);
  c.submitted = rank->submitted;
  c.completed = rank->completed;
  rondo_lock_give(&rank->lock);
  struct rondo_daemon_counters d;
  rank->daemon->driver->read_counters(rank->daemon, &d);
  c.steps = d.blocks.steps;
  c.primitives = d.blocks.primitives;
  c.preemptions = d.blocks.preemptions;
  c.context_loads = d.blocks.context_loads;
  c.context_saves = d.blocks.context_saves;
  c.quits = d.blocks.quits;
  c.starts = d.starts;
  c.helped = d.helped;
  pthread_mutex_lock(&rank->job->lock);
  c.connector_bytes = rank->job->transports.pool.used_bytes;
  pthread_mutex_unlock(&rank->job->lock);
  *out = c;
  rondo_rank_unpin(ctx);
  return RONDO_SUCCESS;
}

// -------------------------------------------------------------------- signal --

static int signal_pipe[2] = {-1, -1};
static pthread_once_t install_once = PTHREAD_ONCE_INIT;

static void on_signal(int number) {
  (void)number;
  char byte = 0;
  if (signal_pipe[1] < 0) // a child process without contexts
    return;
  ssize_t written = write(signal_pipe[1], &byte, 1);
  (void)written;
}

// The pipe leads to a thread of the parent.
static void report_forked(void) {
  for (int i = 0; i < 2; i++) {
    int fd = signal_pipe[i];
    signal_pipe[i] = -1;
    if (fd >= 0)
      close(fd);
  }
  install_once = (pthread_once_t)PTHREAD_ONCE_INIT;
}
RONDO_ON_FORK(report_forked)

static void visit_job(struct rondo_job *job, void *arg) {
  (void)report_job(job, arg, NULL);
  rondo_flight_dump(job);
}

static void *reporter_main(void *arg) {
  char byte;
  while (read(signal_pipe[0], &byte, 1) == 1)
    rondo_job_visit(visit_job, rondo_log_stream());
  return arg;
}

static void install(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  struct sigaction before;
  pthread_t thread;
  const char *wanted = getenv("RONDO_REPORT_SIGNAL");
  if (wanted && strcmp(wanted, "0") == 0)
    return;
  if (sigaction(SIGUSR1, NULL, &before) ||
      (before.sa_handler != SIG_DFL && before.sa_handler != on_signal)) // this one: of the parent
    return;
  if (pipe2(signal_pipe, O_CLOEXEC))
    return;
  if (pthread_create(&thread, NULL, reporter_main, NULL))
    return;
  pthread_setname_np(thread, "rondo-report");
  pthread_detach(thread);
  (void)sigaction(SIGUSR1, &action, NULL);
}

void rondo_report_on_signal(void) { pthread_once(&install_once, install); }
