// The stuck report: which ranks wait for each other, and where each outstanding run stands.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/observe/flight_write.h"
#include "runtime/observe/report.h"
#include "runtime/observe/snapshot.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/wait.h"

#define LINES 64u       // of a report; its last line counts the runs that have none
#define CYCLE_LINES 20u // for the ranks of a cycle, and again for their runs

// ------------------------------------------------------------------ one run --

static bool has_submitted(const struct rondo_snapshot *s, uint32_t rank, struct rondo_id id,
                          uint64_t run) {
  const struct rondo_coll_view *v = rondo_snapshot_find(s, rank, id);
  return v && v->submitted >= run;
}

static uint32_t missing_count(const struct rondo_snapshot *s, const struct rondo_coll_view *v,
                              uint64_t run) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < v->nranks; i++)
    missing += !has_submitted(s, v->members[i], v->id, run);
  return missing;
}

// Why a rank may not have submitted a run.
static const char *missing_reason(const struct rondo_snapshot *s, uint32_t rank,
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

static void missing_print(const struct rondo_snapshot *s, const struct rondo_coll_view *v,
                          uint64_t run, FILE *out) {
  if (!v->members)
    return;
  if (!missing_count(s, v, run)) {
    fprintf(out, "; all %u ranks have submitted it", v->nranks);
    return;
  }
  fprintf(out, "; not submitted by rank");
  for (uint32_t i = 0; i < v->nranks; i++) {
    uint32_t m = v->members[i];
    if (has_submitted(s, m, v->id, run))
      continue;
    fprintf(out, " %u%s", m, missing_reason(s, m, v));
  }
}

static void primitive_print(uint32_t primitive, FILE *out) {
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

static void place_print(const struct rondo_coll_view *v, FILE *out) {
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
    primitive_print(v->primitive, out);
    fprintf(out, ")");
  }
  if (v->peer >= 0)
    fprintf(out, ", waiting for rank %d to %s", v->peer, v->wants_data ? "send" : "take data");
  fprintf(out, ", for %.3f s", (double)v->waiting_ns / 1e9);
}

static void coll_print(const struct rondo_snapshot *s, uint32_t rank,
                       const struct rondo_coll_view *v, FILE *out) {
  uint64_t run = v->executing ? v->executing : v->completed + 1;
  fprintf(out, "  rank %u%s, id %llu (%s, %llu × %s, %u ranks), run %llu: ", rank,
          s->ranks[rank].is_present == RONDO_VIEW_HERE ? "" : " elsewhere",
          (unsigned long long)v->id.number, rondo_kind_name(v->kind), (unsigned long long)v->count,
          rondo_dtype_name(v->dtype), v->group_size, (unsigned long long)run);
  if (v->executing)
    place_print(v, out);
  else
    fprintf(out, "not begun by this rank's daemon");
  missing_print(s, v, run, out);
  if (v->submitted > run)
    fprintf(out, "; %llu later runs wait for it", (unsigned long long)(v->submitted - run));
  fprintf(out, "\n");
}

// ---------------------------------------------------------------- the report --

struct report {
  const struct rondo_snapshot *s;
  FILE *out;
  uint32_t *cycle;
  uint32_t cycle_length;       // 0: no ranks wait for each other in a cycle
  uint32_t lines;              // printed so far
  uint64_t executing, waiting; // outstanding runs without a line
};

static bool is_outstanding(const struct rondo_coll_view *v) { return v->submitted > v->completed; }

static bool has_outstanding(const struct rondo_snapshot *s) {
  for (uint32_t r = 0; r < s->rank_count; r++)
    for (uint32_t i = 0; i < s->ranks[r].coll_count; i++)
      if (is_outstanding(&s->ranks[r].colls[i]))
        return true;
  return false;
}

// True if the rank is among the ranks of the cycle that the report names, and executes `v` there.
static bool is_in_cycle(const struct report *p, uint32_t rank, const struct rondo_coll_view *v) {
  for (uint32_t i = 0; i < p->cycle_length && i < CYCLE_LINES; i++)
    if (p->cycle[i] == rank)
      return rondo_snapshot_scheduled(p->s, rank) == v;
  return false;
}

static void verdict_print(struct report *p) {
  p->lines++;
  if (!p->cycle_length) {
    fprintf(p->out, "  %s\n",
            has_outstanding(p->s) ? "no ranks wait for each other in a cycle"
                                  : "no run is outstanding");
    return;
  }
  fprintf(p->out, "  cycle of %u ranks:\n", p->cycle_length);
  for (uint32_t i = 0; i < p->cycle_length && i < CYCLE_LINES; i++, p->lines++)
    fprintf(p->out, "    rank %u executes id %llu and waits for rank %u, which has not begun it\n",
            p->cycle[i], (unsigned long long)rondo_snapshot_scheduled(p->s, p->cycle[i])->id.number,
            p->cycle[(i + 1) % p->cycle_length]);
  if (p->cycle_length <= CYCLE_LINES)
    return;
  fprintf(p->out, "    and %u more ranks\n", p->cycle_length - CYCLE_LINES);
  p->lines++;
}

static void cycle_runs_print(struct report *p) {
  for (uint32_t i = 0; i < p->cycle_length && i < CYCLE_LINES; i++, p->lines++)
    coll_print(p->s, p->cycle[i], rondo_snapshot_scheduled(p->s, p->cycle[i]), p->out);
}

// Prints the first outstanding run of a collective, or counts its runs if the report is full.
static void other_run_print(struct report *p, uint32_t rank, const struct rondo_coll_view *v) {
  if (!is_outstanding(v) || is_in_cycle(p, rank, v))
    return;
  if (p->lines < LINES - 1) {
    coll_print(p->s, rank, v, p->out);
    p->lines++;
    return;
  }
  p->executing += v->executing != 0;
  p->waiting += v->submitted - v->completed - (v->executing != 0);
}

// Runs of this process come first: other processes can report theirs.
static void other_runs_print(struct report *p) {
  for (int elsewhere = 0; elsewhere < 2; elsewhere++)
    for (uint32_t r = 0; r < p->s->rank_count; r++)
      for (uint32_t i = 0; i < p->s->ranks[r].coll_count; i++)
        if ((p->s->ranks[r].is_present != RONDO_VIEW_HERE) == elsewhere)
          other_run_print(p, r, &p->s->ranks[r].colls[i]);
  if (p->executing || p->waiting)
    fprintf(p->out, "  other runs: %llu being executed, %llu waiting for a block\n",
            (unsigned long long)p->executing, (unsigned long long)p->waiting);
}

int rondo_report_print(struct rondo_job *job, FILE *out, uint32_t *cycle_ranks) {
  struct rondo_snapshot s;
  int status = rondo_snapshot_init(&s, job);
  struct report p = {.s = &s, .out = out, .lines = 1};
  p.cycle = calloc(s.rank_count ? s.rank_count : 1, sizeof *p.cycle);
  if (status == RONDO_SUCCESS && p.cycle) {
    p.cycle_length = rondo_snapshot_cycle(&s, p.cycle);
    fprintf(out, "rondo: stuck report of a job of %u ranks\n", s.rank_count);
    verdict_print(&p);
    cycle_runs_print(&p);
    other_runs_print(&p);
    fflush(out);
    if (cycle_ranks)
      *cycle_ranks = p.cycle_length;
  } else {
    status = RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "report: no memory");
  }
  rondo_snapshot_fini(&s);
  free(p.cycle);
  return status;
}

void rondo_report_timeout(const struct rondo_awaited *a, int64_t timeout_ns) {
  struct rondo_rank *rank = a->rank;
  if (timeout_ns <= 0 || !rank->cfg.report_on_timeout)
    return;
  rondo_log(RONDO_LOG_WARN, "wait: rank %u, id %llu, run %llu: not ended within %.3f s",
            rank->cfg.rank, (unsigned long long)a->coll->desc.id, (unsigned long long)a->run,
            (double)timeout_ns / 1e9);
  (void)rondo_report_print(rank->job, rondo_log_stream(), NULL);
  rondo_lock_take(&rank->lock);
  rondo_flight_add(&rank->flight, RONDO_FLIGHT_TIMEOUT, &a->coll->tag)->run = a->run;
  rondo_lock_give(&rank->lock);
  rondo_flight_dump(rank->job);
}

// ---------------------------------------------------------------- as data -----

static void stuck_fill(const struct rondo_snapshot *s, const struct rondo_coll_view *v,
                       uint64_t run, struct rondo_stuck *e) {
  int executing = v->executing == run;
  e->id = v->id.number;
  e->run = run;
  e->state = executing                            ? RONDO_RUN_EXECUTING
             : run <= v->completed + v->on_device ? RONDO_RUN_QUEUED
                                                  : RONDO_RUN_WAITING;
  e->block = v->block;
  e->op = executing ? v->op : 0;
  e->peer = executing ? v->peer : -1;
  e->missing = missing_count(s, v, run);
  e->waiting_ns = executing ? v->waiting_ns : 0;
}

int rondo_stuck_list(struct rondo_rank *rank, struct rondo_stuck *entries, size_t capacity,
                     size_t *count) {
  struct rondo_snapshot s;
  int status = rondo_snapshot_init(&s, rank->job);
  if (status == RONDO_SUCCESS) {
    const struct rondo_rank_view *view = &s.ranks[rank->cfg.rank];
    size_t n = 0;
    for (uint32_t i = 0; i < view->coll_count; i++) {
      const struct rondo_coll_view *v = &view->colls[i];
      for (uint64_t run = v->completed + 1; run <= v->submitted; run++, n++)
        if (n < capacity)
          stuck_fill(&s, v, run, &entries[n]);
    }
    *count = n;
  }
  rondo_snapshot_fini(&s);
  return status;
}

int rondo_missing_list(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                       struct rondo_rank_list *list) {
  struct rondo_snapshot s;
  struct rondo_id id;
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "missing");
  if (coll)
    id = coll->registration.id;
  rondo_lock_give(&rank->lock);
  if (!coll)
    return RONDO_ERR_UNKNOWN;
  int status = rondo_snapshot_init(&s, rank->job);
  const struct rondo_coll_view *view =
      status == RONDO_SUCCESS ? rondo_snapshot_find(&s, rank->cfg.rank, id) : NULL;
  list->count = 0;
  for (uint32_t i = 0; view && i < view->nranks; i++)
    if (!has_submitted(&s, view->members[i], id, run))
      rondo_rank_list_add(list, view->members[i]);
  rondo_snapshot_fini(&s);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "missing: no memory");
  return RONDO_SUCCESS;
}

void rondo_missing_describe(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                            struct rondo_text *text) {
  uint32_t ranks[RONDO_TEXT_RANKS + 1];
  struct rondo_rank_list list = {.ranks = ranks, .capacity = sizeof ranks / sizeof *ranks};
  if (rondo_missing_list(rank, handle, run, &list) != RONDO_SUCCESS || !list.count)
    return;
  rondo_text_add(text, "; missing: rank ");
  for (uint32_t i = 0; i < list.count && i < list.capacity; i++)
    rondo_text_add_rank(text, i, ranks[i]);
}

int rondo_counters_read(struct rondo_rank *rank, struct rondo_counters *out) {
  struct rondo_daemon_counters d;
  struct rondo_counters c = {0};
  rondo_rank_lock(rank);
  c.submitted = rank->submitted;
  c.completed = rank->completed;
  rondo_lock_give(&rank->lock);
  rank->member.daemon->driver->read_counters(rank->member.daemon, &d);
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
  for (uint32_t i = 0; i < rank->job->rank_count; i++)
    if (rank->job->members[i])
      c.connector_bytes +=
          rondo_load_relaxed_u64(&rondo_rank_of(rank->job->members[i])->lending.lent_bytes);
  pthread_mutex_unlock(&rank->job->lock);
  *out = c;
  return RONDO_SUCCESS;
}

struct rondo_collective_counters rondo_coll_counters(const struct rondo_rank *rank,
                                                     const struct rondo_coll *coll) {
  struct rondo_collective_counters out = RONDO_COLLECTIVE_COUNTERS_INIT;
  const struct rondo_tally t =
      rondo_daemon_tally(rank->member.daemon, rank->cfg.blocks, coll->index);
  out.switches = t.counts[RONDO_TALLY_SWITCHES];
  out.preemptions = t.counts[RONDO_TALLY_PREEMPTIONS];
  out.loads = t.counts[RONDO_TALLY_LOADS];
  out.saves = t.counts[RONDO_TALLY_SAVES];
  out.fetches = t.counts[RONDO_TALLY_FETCHES];
  out.queue_sum = t.counts[RONDO_TALLY_QUEUE_SUM];
  out.queue_most = t.counts[RONDO_TALLY_QUEUE_MOST];
  out.waits_data = t.counts[RONDO_TALLY_WAITS_DATA];
  out.waits_room = t.counts[RONDO_TALLY_WAITS_ROOM];
  out.waits_start = t.counts[RONDO_TALLY_WAITS_START];
  out.waits_readers = t.counts[RONDO_TALLY_WAITS_READERS];
  out.waits_completion = t.counts[RONDO_TALLY_WAITS_COMPLETION];
  return out;
}

int rondo_coll_counters_read(struct rondo_rank *rank, struct rondo_collective handle,
                             struct rondo_collective_counters *out) {
  int status = RONDO_ERR_UNKNOWN;
  if (!rank->member.daemon->tallies)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "collective_counters: rank %u does not count them: %s", rank->cfg.rank,
                            rank->cfg.collective_counters
                                ? "the backend is not the host"
                                : "its configuration has no collective_counters");
  rondo_rank_lock(rank);
  const struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "collective_counters");
  if (coll) {
    *out = rondo_coll_counters(rank, coll);
    status = RONDO_SUCCESS;
  }
  rondo_lock_give(&rank->lock);
  return status;
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

// The thread that reads the pipe is the parent's.
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

static void job_report(struct rondo_job *job, void *arg) {
  (void)rondo_report_print(job, arg, NULL);
  rondo_flight_dump(job);
}

static void *reporter_main(void *arg) {
  char byte;
  while (read(signal_pipe[0], &byte, 1) == 1)
    rondo_job_visit(job_report, rondo_log_stream());
  return arg;
}

static void reporter_install(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  struct sigaction before;
  pthread_t thread;
  const char *wanted = getenv("RONDO_REPORT_SIGNAL");
  if (wanted && strcmp(wanted, "0") == 0)
    return;
  if (sigaction(SIGUSR1, NULL, &before) ||
      (before.sa_handler != SIG_DFL && before.sa_handler != on_signal)) // on_signal: the parent's
    return;
  if (pipe2(signal_pipe, O_CLOEXEC))
    return;
  if (pthread_create(&thread, NULL, reporter_main, NULL))
    return;
  pthread_setname_np(thread, "rondo-report");
  pthread_detach(thread);
  (void)sigaction(SIGUSR1, &action, NULL);
}

void rondo_report_on_signal(void) { pthread_once(&install_once, reporter_install); }
