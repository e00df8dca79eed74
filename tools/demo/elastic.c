#include "tools/demo/elastic.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/demo/print.h"
#include "tools/demo/program.h"
#include "tools/kit/clock.h"
#include "tools/kit/permute.h"
#include <rondo/elastic.h>
#include <rondo/rondo.h>

#define PATIENCE 10u // as that of the other programs with preemption
#define PAUSE_NS 200000

// What a process says to the one that watches.
struct member_report {
  _Atomic uint32_t iterations;   // done
  _Atomic uint64_t recovered_ns; // when it had the first result without the killed member; 0: not
  _Atomic uint64_t vote_ns;      // how long the vote took; 0: has not voted
  _Atomic uint64_t runs, elements, wrong;
  _Atomic uint64_t fewer; // runs whose result is not of all ranks of the job
};

// Memory that all processes share. `members` has one more, the newcomer.
struct life {
  struct rondo_unique_id id, newcomers;
  _Atomic bool has_id, has_newcomers;
  _Atomic bool is_victim_ready; // it has submitted half of its runs, and waits for its end
  uint32_t ranks, victim, kill_at, grow_at;
  struct member_report members[DEMO_MAX_RANKS + 1];
};

struct collective {
  struct rondo_collective handle;
  uint64_t count;
  uint32_t *send, *recv; // the same in every second collective
};

// One process of the job.
struct member {
  const struct demo_options *options;
  struct life *life;
  struct member_report *report;
  uint32_t place; // in life->members
  struct rondo_context context;
  uint32_t rank, ranks;
  int64_t patience_ns;
  struct collective *collectives;
  uint32_t *order;
  char why[RONDO_REASON_BYTES];
};

static void pause_briefly(void) {
  const struct timespec pause = {0, PAUSE_NS};
  nanosleep(&pause, NULL);
}

// ------------------------------------------------------------------- a member ---

// Ends the process if a call has failed.
static void member_check(const struct member *m, int status, const char *call) {
  if (status == RONDO_SUCCESS)
    return;
  fprintf(stderr, "rondo-demo: process %u: %s: %s%s%s\n", m->place, call,
          rondo_status_string(status), m->why[0] ? ": " : "", m->why);
  _exit(1);
}

static void member_wait_for(const struct member *m, const _Atomic bool *flag, const char *what) {
  uint64_t end_ns = rondo_kit_now_ns() + (uint64_t)m->patience_ns;
  while (!atomic_load(flag)) {
    if (rondo_kit_now_ns() > end_ns)
      member_check(m, RONDO_ERR_TIMEOUT, what);
    pause_briefly();
  }
}

static void member_join(struct member *m) {
  struct rondo_config cfg = m->options->config;
  struct life *life = m->life;
  if (m->place == life->ranks) {
    member_wait_for(m, &life->has_newcomers, "waiting for the id of newcomers");
    cfg.id = life->newcomers;
    member_check(m, rondo_join(&m->context, &cfg, m->patience_ns, m->why), "rondo_join");
    return;
  }
  cfg.rank = m->place;
  cfg.rank_count = life->ranks;
  if (m->place == 0) {
    member_check(m, rondo_unique_id_listen(&life->id, &cfg), "rondo_unique_id_listen");
    atomic_store(&life->has_id, true);
  }
  member_wait_for(m, &life->has_id, "waiting for the id");
  cfg.id = life->id;
  member_check(m, rondo_init(&m->context, &cfg), "rondo_init");
}

// Registers all collectives in the job of the context.
static void member_register(struct member *m) {
  member_check(m, rondo_describe_rank(m->context, &m->rank, &m->ranks), "rondo_describe_rank");
  for (uint32_t k = 0; k < m->options->collectives; k++) {
    struct collective *c = &m->collectives[k];
    struct rondo_collective_desc d = rondo_all_reduce(k + 1, c->count, RONDO_UINT32, RONDO_SUM);
    d.on_loss = RONDO_ON_LOSS_RETRY;
    member_check(m, rondo_register(m->context, &d, &c->handle), "rondo_register");
  }
}

static void member_allocate(struct member *m) {
  uint32_t count = m->options->collectives;
  m->collectives = calloc(count, sizeof *m->collectives);
  m->order = calloc(count, sizeof *m->order);
  if (!m->collectives || !m->order)
    member_check(m, RONDO_ERR_NO_MEMORY, "starting");
  for (uint32_t k = 0; k < count; k++) {
    struct collective *c = &m->collectives[k];
    c->count = demo_options_bytes(m->options, k) / sizeof *c->send;
    c->send = malloc(c->count * sizeof *c->send);
    c->recv = k % 2 ? c->send : malloc(c->count * sizeof *c->recv);
    if (!c->send || !c->recv)
      member_check(m, RONDO_ERR_NO_MEMORY, "starting");
  }
}

// A rank's input is this for rank 0, and `rank` more for others; the sums are modulo 2^32.
static uint32_t element_base(uint32_t collective, uint32_t iteration, uint64_t i) {
  return (uint32_t)i * 2654435761u + collective * 40503u + iteration;
}

static void member_fill(const struct member *m, uint32_t k, uint32_t iteration) {
  const struct collective *c = &m->collectives[k];
  for (uint64_t i = 0; i < c->count; i++)
    c->send[i] = element_base(k, iteration, i) + m->rank;
}

// Submits the first `count` runs of the iteration's order.
static void member_submit(struct member *m, uint32_t iteration, uint32_t count) {
  const struct rondo_kit_permutation own = {m->options->seed, m->place, iteration};
  rondo_kit_permute(&own, m->options->collectives, m->order);
  for (uint32_t i = 0; i < count; i++) {
    const struct collective *c = &m->collectives[m->order[i]];
    member_fill(m, m->order[i], iteration);
    member_check(m, rondo_run(m->context, c->handle, c->send, c->recv, NULL, NULL), "rondo_run");
  }
}

static void member_verify(struct member *m, uint32_t k, uint32_t iteration) {
  uint32_t of[DEMO_MAX_RANKS], count, sum_of_ranks = 0, wrong = 0;
  const struct collective *c = &m->collectives[k];
  member_check(m,
               rondo_run_members(m->context, c->handle, RONDO_LAST_RUN, of, DEMO_MAX_RANKS, &count),
               "rondo_run_members");
  for (uint32_t i = 0; i < count; i++)
    sum_of_ranks += of[i];
  for (uint64_t i = 0; i < c->count; i++)
    wrong += c->recv[i] != count * element_base(k, iteration, i) + sum_of_ranks;
  atomic_fetch_add(&m->report->runs, 1);
  atomic_fetch_add(&m->report->elements, c->count);
  atomic_fetch_add(&m->report->wrong, wrong);
  if (count == m->ranks)
    return;
  atomic_fetch_add(&m->report->fewer, 1);
  if (!atomic_load(&m->report->recovered_ns))
    atomic_store(&m->report->recovered_ns, rondo_kit_now_ns());
}

static void member_finish(struct member *m, uint32_t iteration) {
  for (uint32_t i = 0; i < m->options->collectives; i++) {
    uint32_t k = m->order[i];
    member_check(m,
                 rondo_wait(m->context, m->collectives[k].handle, RONDO_LAST_RUN, m->patience_ns),
                 "rondo_wait");
    member_verify(m, k, iteration);
  }
  atomic_store(&m->report->iterations, iteration + 1);
}

// The members that are left admit the newcomer. The lowest rank keeps the id. Returns the context
// in the new job.
static struct rondo_context member_vote(struct member *m, uint32_t keeper) {
  struct life *life = m->life;
  struct rondo_context next;
  bool keeps = m->rank == keeper;
  uint64_t begin_ns = rondo_kit_now_ns();
  if (keeps) {
    member_check(m, rondo_grow_listen(&life->newcomers, NULL), "rondo_grow_listen");
    atomic_store(&life->has_newcomers, true);
  }
  member_check(
      m, rondo_grow(m->context, keeps ? &life->newcomers : NULL, 1, m->patience_ns, &next, m->why),
      "rondo_grow");
  atomic_store(&m->report->vote_ns, rondo_kit_now_ns() - begin_ns);
  return next;
}

// All members of a new job learn the next iteration from those that know it.
static uint32_t member_agree(struct member *m, uint32_t known) {
  uint32_t next = known;
  struct rondo_collective_desc d = rondo_all_reduce(0, 1, RONDO_UINT32, RONDO_MAX);
  struct rondo_collective coll;
  member_check(m, rondo_register(m->context, &d, &coll), "rondo_register");
  member_check(m, rondo_run(m->context, coll, &next, &next, NULL, NULL), "rondo_run");
  member_check(m, rondo_wait(m->context, coll, RONDO_LAST_RUN, m->patience_ns), "rondo_wait");
  return next;
}

// An iteration in whose middle the job changes. Returns the number of the next one.
static uint32_t member_change_job(struct member *m, uint32_t iteration) {
  uint32_t keeper, count;
  member_check(
      m,
      rondo_run_members(m->context, m->collectives[0].handle, RONDO_LAST_RUN, &keeper, 1, &count),
      "rondo_run_members");
  member_submit(m, iteration, m->options->collectives);
  struct rondo_context next = member_vote(m, keeper);
  member_finish(m, iteration);
  member_check(m, rondo_destroy(m->context, RONDO_DESTROY_DRAIN, m->patience_ns), "rondo_destroy");
  m->context = next;
  member_register(m);
  return member_agree(m, iteration + 1);
}

static void member_die(struct member *m, uint32_t iteration) {
  member_submit(m, iteration, (m->options->collectives + 1) / 2);
  atomic_store(&m->life->is_victim_ready, true);
  for (;;)
    pause_briefly();
}

static void member_main(const struct demo_options *options, struct life *life, uint32_t place) {
  struct member m = {.options = options,
                     .life = life,
                     .place = place,
                     .report = &life->members[place],
                     .patience_ns = (int64_t)(options->watchdog_ns * PATIENCE)};
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  member_allocate(&m);
  member_join(&m);
  member_register(&m);
  uint32_t iteration = place == life->ranks ? member_agree(&m, 0) : 0;
  while (iteration < options->iterations) {
    if (place == life->victim && iteration == life->kill_at)
      member_die(&m, iteration);
    if (place < life->ranks && iteration == life->grow_at) {
      iteration = member_change_job(&m, iteration);
      continue;
    }
    member_submit(&m, iteration, options->collectives);
    member_finish(&m, iteration++);
  }
  member_check(&m, rondo_destroy(m.context, RONDO_DESTROY_DRAIN, m.patience_ns), "rondo_destroy");
  _exit(0);
}

// ------------------------------------------------------------- the one that watches ---

struct watch {
  const struct demo_options *options;
  struct life *life;
  pid_t pids[DEMO_MAX_RANKS + 1]; // 0: ended
  uint32_t running;
  uint64_t killed_ns;
  uint64_t recovery_ns, vote_ns; // of the slowest member; 0: not known yet
  bool failed;
  struct demo_progress progress;
};

static void members_kill(struct watch *w) {
  for (uint32_t i = 0; i <= w->life->ranks; i++)
    if (w->pids[i] > 0)
      kill(w->pids[i], SIGKILL);
}

static void members_reap(struct watch *w) {
  int result;
  pid_t pid;
  while ((pid = waitpid(-1, &result, WNOHANG)) > 0)
    for (uint32_t i = 0; i <= w->life->ranks; i++) {
      if (w->pids[i] != pid)
        continue;
      w->pids[i] = 0;
      w->running--;
      bool is_expected = (i == w->life->victim && w->killed_ns) || demo_is_interrupted();
      w->failed |= result != 0 && !is_expected;
    }
}

// Prints a line of events, on a line of its own.
__attribute__((format(printf, 2, 3))) static void event_print(struct watch *w, const char *format,
                                                              ...) {
  va_list values;
  demo_print_progress_end(&w->progress);
  w->progress.last_ns = 0;
  va_start(values, format);
  vprintf(format, values);
  va_end(values);
  fflush(stdout);
}

static void victim_kill(struct watch *w) {
  w->killed_ns = rondo_kit_now_ns();
  kill(w->pids[w->life->victim], SIGKILL);
  event_print(w, "  iteration %u: rank %u is killed in the middle of its calls\n",
              w->life->kill_at + 1, w->life->victim);
}

static bool member_is_survivor(const struct life *life, uint32_t place) {
  return place < life->ranks && place != life->victim;
}

// Notes and prints what all members that are left have done since.
static void events_print(struct watch *w) {
  const struct life *life = w->life;
  uint64_t recovered_ns = 0, vote_ns = 0;
  bool all_recovered = w->killed_ns > 0, all_voted = true;
  for (uint32_t i = 0; i < life->ranks; i++) {
    if (!member_is_survivor(life, i))
      continue;
    uint64_t at_ns = atomic_load(&life->members[i].recovered_ns);
    uint64_t took_ns = atomic_load(&life->members[i].vote_ns);
    all_recovered = all_recovered && at_ns > 0;
    all_voted = all_voted && took_ns > 0;
    recovered_ns = at_ns > recovered_ns ? at_ns : recovered_ns;
    vote_ns = took_ns > vote_ns ? took_ns : vote_ns;
  }
  if (all_recovered && !w->recovery_ns) {
    w->recovery_ns = recovered_ns - w->killed_ns;
    event_print(w, "    %.1f ms later all others have a result without it\n",
                (double)w->recovery_ns / 1e6);
  }
  if (all_voted && !w->vote_ns) {
    w->vote_ns = vote_ns;
    event_print(w,
                "  iteration %u: a new process joins in the middle of the others' runs\n"
                "    the vote takes %.1f ms\n",
                life->grow_at + 1, (double)w->vote_ns / 1e6);
  }
}

static uint32_t iterations_done(const struct life *life) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < life->ranks; i++) {
    uint32_t done = atomic_load(&life->members[i].iterations);
    if (member_is_survivor(life, i) && done < least)
      least = done;
  }
  return least;
}

// Returns false if a process could not be made.
static bool members_start(struct watch *w) {
  fflush(stdout); // else each process would print what is left
  for (uint32_t i = 0; i <= w->life->ranks; i++) {
    pid_t pid = fork();
    if (pid == 0)
      member_main(w->options, w->life, i);
    if (pid < 0) {
      fprintf(stderr, "rondo-demo: no process for rank %u: %s\n", i, strerror(errno));
      return false;
    }
    w->pids[i] = pid;
    w->running++;
  }
  return true;
}

static void members_watch(struct watch *w) {
  while (w->running > 0 && !w->failed && !demo_is_interrupted()) {
    pause_briefly();
    members_reap(w);
    if (atomic_load(&w->life->is_victim_ready) && !w->killed_ns)
      victim_kill(w);
    events_print(w);
    if (!w->options->quiet)
      demo_print_progress(&w->progress, iterations_done(w->life));
  }
  demo_print_progress_end(&w->progress);
  w->progress.last_ns = 0;
}

struct sums {
  uint64_t runs, elements, wrong, fewer;
};

static struct sums reports_sum(const struct life *life) {
  struct sums all = {0, 0, 0, 0};
  for (uint32_t i = 0; i <= life->ranks; i++) {
    const struct member_report *r = &life->members[i];
    all.runs += atomic_load(&r->runs);
    all.elements += atomic_load(&r->elements);
    all.wrong += atomic_load(&r->wrong);
    all.fewer += atomic_load(&r->fewer);
  }
  return all;
}

static int watch_judge(const struct watch *w, const struct sums *all, uint64_t took_ns) {
  const struct life *life = w->life;
  bool is_done = iterations_done(life) == w->options->iterations &&
                 atomic_load(&life->members[life->ranks].iterations) == w->options->iterations;
  bool good = !w->failed && is_done && all->wrong == 0 && all->fewer > 0;
  if (demo_is_interrupted())
    printf("  interrupted after %u iterations\n", iterations_done(life));
  else if (is_done)
    printf("  all %u iterations completed in %.2f s\n", w->options->iterations,
           (double)took_ns / 1e9);
  else
    printf("  NOT COMPLETED: %u of %u iterations\n", iterations_done(life), w->options->iterations);
  printf("      %llu runs, %llu of them without the killed rank; %llu elements checked, "
         "%llu wrong\n",
         (unsigned long long)all->runs, (unsigned long long)all->fewer,
         (unsigned long long)all->elements, (unsigned long long)all->wrong);
  if (demo_is_interrupted() && !w->failed && all->wrong == 0)
    return DEMO_ELASTIC_INTERRUPTED;
  return good ? DEMO_ELASTIC_GOOD : DEMO_ELASTIC_BAD;
}

int demo_elastic_run(const struct demo_options *options, json_t *results) {
  struct life *life =
      mmap(NULL, sizeof *life, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (life == MAP_FAILED) {
    fprintf(stderr, "rondo-demo: no memory\n");
    return DEMO_ELASTIC_BAD;
  }
  life->ranks = options->ranks;
  life->victim = (uint32_t)(options->seed % options->ranks);
  life->kill_at = options->iterations / 3;
  life->grow_at = options->iterations * 2 / 3;
  struct watch w = {
      .options = options, .life = life, .progress = {"members change", options->iterations, 0}};
  uint64_t begin_ns = rondo_kit_now_ns();
  w.failed = !members_start(&w);
  if (!w.failed)
    members_watch(&w);
  members_kill(&w); // those that are left after a failure
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
    continue;
  events_print(&w);
  struct sums all = reports_sum(life);
  int end = watch_judge(&w, &all, rondo_kit_now_ns() - begin_ns);
  json_array_append_new(results,
                        json_pack("{s:s, s:b, s:i, s:f, s:f, s:I, s:I, s:I, s:I}", "program",
                                  "elastic", "good", end == DEMO_ELASTIC_GOOD, "killed_rank",
                                  (int)life->victim, "recovery_ms", (double)w.recovery_ns / 1e6,
                                  "vote_ms", (double)w.vote_ns / 1e6, "runs", (json_int_t)all.runs,
                                  "runs_without_killed_rank", (json_int_t)all.fewer, "elements",
                                  (json_int_t)all.elements, "wrong", (json_int_t)all.wrong));
  munmap(life, sizeof *life);
  return end;
}
