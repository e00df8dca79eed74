// Writes the flight record as text: the events of the ring and the runs being executed.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "runtime/observe/flight_write.h"
#include "runtime/observe/report.h"
#include "runtime/observe/snapshot.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"

#define HOST_BYTES 256
#define PATH_BYTES 4096

// A registered collective at the moment of writing.
struct live {
  struct rondo_flight_tag tag;
  struct rondo_coll_view view;
  struct rondo_collective_counters counters; // size 0: not counted
  uint64_t awaits_stream; // the oldest run, if its stream has not come to it; else 0
  uint32_t oldest_count;
  struct rondo_flight_event oldest[RONDO_DEVICE_RUNS]; // runs that the ring no longer holds
};

struct capture {
  struct rondo_flight *flight; // copied
  struct live *lives;
  uint32_t live_count;
};

// ----------------------------------------------------------------- capture ---

// True if a run has a stream that has not come to it. A graph resets the doorbell when a replay
// ends, so its runs are not told apart.
static bool tie_waits(const struct rondo_tie *tie) {
  return tie->words && !(tie->ticket & RONDO_TICKET_REPLAYED) &&
         rondo_load_acquire_u64(&tie->words->doorbell) < tie->ticket; // D2
}

static int live_capture(struct rondo_rank *rank, const struct rondo_coll *coll, struct live *l) {
  l->tag = coll->tag;
  if (rank->member.daemon->tallies)
    l->counters = rondo_coll_counters(rank, coll);
  for (const struct rondo_run_record *r = coll->head; r && r != coll->unpushed; r = r->next) {
    struct rondo_flight_event e = {.tag = coll->tag, .at_ns = r->submitted_ns, .run = r->number};
    e.pushed_ns = e.at_ns; // or later
    if (!rondo_flight_at(&rank->flight, r->event))
      l->oldest[l->oldest_count++] = e;
  }
  if (coll->head && tie_waits(&coll->head->tie))
    l->awaits_stream = coll->head->number;
  return rondo_coll_view_fill(rank, coll, &l->view);
}

// The rank's lock is held.
static int rank_capture(struct rondo_rank *rank, struct capture *c) {
  int status = RONDO_SUCCESS;
  rondo_rank_add_changes(rank);
  c->flight = malloc(sizeof *c->flight);
  c->lives = calloc(rank->coll_count ? rank->coll_count : 1, sizeof *c->lives);
  if (!c->flight || !c->lives)
    return RONDO_ERR_NO_MEMORY;
  *c->flight = rank->flight;
  for (uint32_t i = 0; i < rank->coll_slots && status == RONDO_SUCCESS; i++) {
    const struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      status = live_capture(rank, coll, &c->lives[c->live_count++]);
  }
  return status;
}

static void capture_free(struct capture *c) {
  for (uint32_t i = 0; i < c->live_count; i++)
    free(c->lives[i].view.members);
  free(c->lives);
  free(c->flight);
}

// ---------------------------------------------------------------- printing ---

// Prints a group; null `ranks` are all ranks in order.
static void group_print(uint32_t group, const uint32_t *ranks, uint32_t count, FILE *out) {
  char name[32] = "all";
  if (group)
    (void)snprintf(name, sizeof name, "group %u", group);
  fprintf(out, "{\"group\": %u, \"name\": \"%s\", \"ranks\": [", group, name);
  for (uint32_t i = 0; i < count; i++)
    fprintf(out, "%s%u", i ? ", " : "", ranks ? ranks[i] : i);
  fprintf(out, "]}\n");
}

static void groups_print(const struct capture *c, uint32_t rank_count, FILE *out) {
  group_print(0, NULL, rank_count, out);
  for (uint32_t i = 0; i < c->live_count; i++) {
    uint32_t before = 0;
    while (c->lives[before].tag.group != c->lives[i].tag.group)
      before++;
    if (c->lives[i].tag.group && before == i)
      group_print(c->lives[i].tag.group, c->lives[i].view.members, c->lives[i].view.nranks, out);
  }
}

static const struct live *live_find(const struct capture *c, uint64_t handle) {
  for (uint32_t i = 0; i < c->live_count; i++)
    if (c->lives[i].tag.handle == handle)
      return &c->lives[i];
  return NULL;
}

static void descriptor_print(const struct rondo_flight_event *e, FILE *out) {
  const struct rondo_flight_tag *t = &e->tag;
  int kind = (int)t->kind;
  fprintf(out, "{\"collective\": %llu, \"group\": %u, \"run\": %llu, ", (unsigned long long)t->id,
          t->group, (unsigned long long)(e->run - 1));
  fprintf(out, "\"kind\": \"%s\", \"count\": %llu, \"dtype\": \"%s\", ", rondo_kind_name(kind),
          (unsigned long long)t->count, rondo_dtype_name(t->dtype));
  if (rondo_plan_reduces(kind))
    fprintf(out, "\"op\": \"%s\", ", rondo_redop_name(t->redop));
  if (rondo_plan_is_rooted(kind))
    fprintf(out, "\"root\": %u, ", t->root);
}

// A plan may have been made after the run was submitted, and then the tag of the event lacks it.
static void algorithm_print(const struct rondo_flight_tag *tag, FILE *out) {
  if (tag->rule != RONDO_PLAN_RULE_COUNT)
    fprintf(out, "\"algorithm\": \"%s\", \"rule\": \"%s\", ",
            rondo_plan_algorithm_name(tag->algorithm), rondo_plan_rule_name(tag->rule));
}

static void run_print(const struct capture *c, const struct rondo_flight_event *e, FILE *out) {
  const struct live *l = live_find(c, e->tag.handle);
  int is_executing = !e->ended_ns && l && l->view.executing == e->run;
  uint64_t started_ns = e->ended_ns    ? e->ended_ns - e->device_ns
                        : is_executing ? l->view.started_ns
                                       : 0;
  descriptor_print(e, out);
  algorithm_print(l ? &l->tag : &e->tag, out);
  fprintf(out, "\"state\": \"%s\", \"submitted_ns\": %llu, \"pushed_ns\": %llu, ",
          e->ended_ns    ? "completed"
          : is_executing ? "started"
                         : "submitted",
          (unsigned long long)e->at_ns, (unsigned long long)e->pushed_ns);
  fprintf(out, "\"started_ns\": %llu, \"completed_ns\": %llu", (unsigned long long)started_ns,
          (unsigned long long)e->ended_ns);
  if (e->value)
    fprintf(out, ", \"status\": \"%s\"", rondo_status_name(e->value));
  if (!e->ended_ns && l && l->awaits_stream == e->run)
    fprintf(out, ", \"awaits\": \"stream\"");
  fprintf(out, "}\n");
}

static void event_print(const struct rondo_flight_event *e, FILE *out) {
  static const char *const names[] = {"registered", "",        "deregistered", "start",
                                      "quit",       "timeout", "aborted"};
  fprintf(out, "{\"event\": \"%s\", \"time_ns\": %llu", names[e->what],
          (unsigned long long)e->at_ns);
  if (e->what == RONDO_FLIGHT_STARTED || e->what == RONDO_FLIGHT_QUIT)
    fprintf(out, ", \"block\": %u", e->value);
  else if (e->what != RONDO_FLIGHT_ABORTED)
    fprintf(out, ", \"id\": %llu", (unsigned long long)e->tag.id);
  if (e->what == RONDO_FLIGHT_TIMEOUT)
    fprintf(out, ", \"run\": %llu", (unsigned long long)(e->run - 1));
  fprintf(out, "}\n");
}

static void counters_print(const struct live *l, uint64_t now_ns, FILE *out) {
  const struct rondo_collective_counters *c = &l->counters;
  const struct {
    const char *name;
    uint64_t value;
  } fields[] = {{"switches", c->switches},
                {"preemptions", c->preemptions},
                {"loads", c->loads},
                {"saves", c->saves},
                {"fetches", c->fetches},
                {"queue_sum", c->queue_sum},
                {"queue_most", c->queue_most},
                {"waits_data", c->waits_data},
                {"waits_room", c->waits_room},
                {"waits_start", c->waits_start},
                {"waits_readers", c->waits_readers},
                {"waits_completion", c->waits_completion}};
  fprintf(out, "{\"event\": \"counters\", \"time_ns\": %llu, \"id\": %llu",
          (unsigned long long)now_ns, (unsigned long long)l->tag.id);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    fprintf(out, ", \"%s\": %llu", fields[i].name, (unsigned long long)fields[i].value);
  fprintf(out, "}\n");
}

// Prints for how long a thread of the rank has been in rondo_device_synchronize.
static void synchronising_print(const struct rondo_rank *rank, uint64_t now_ns, FILE *out) {
  uint64_t since_ns = rondo_load_acquire_u64(&rank->synchronises_since_ns);
  uint64_t own_ns = rondo_now_ns(), for_ns = own_ns > since_ns ? own_ns - since_ns : 0;
  if (rondo_load_acquire_u32(&rank->synchronisers))
    fprintf(out, "{\"event\": \"synchronises\", \"time_ns\": %llu, \"for_ns\": %llu}\n",
            (unsigned long long)(now_ns - for_ns), (unsigned long long)for_ns);
}

// Prints first the outstanding runs that the ring no longer holds, so that a stuck run is always in
// the record.
static void events_print(const struct capture *c, FILE *out) {
  uint64_t added = c->flight->added;
  uint64_t gone = added > RONDO_FLIGHT_EVENTS ? added - RONDO_FLIGHT_EVENTS : 0;
  for (uint32_t i = 0; i < c->live_count; i++)
    for (uint32_t k = 0; k < c->lives[i].oldest_count; k++)
      run_print(c, &c->lives[i].oldest[k], out);
  for (uint64_t number = gone + 1; number <= added; number++) {
    const struct rondo_flight_event *e = rondo_flight_at(c->flight, number);
    if (e->what == RONDO_FLIGHT_RUN)
      run_print(c, e, out);
    else
      event_print(e, out);
  }
  uint64_t now_ns = rondo_stamp_ns(&c->flight->clock);
  for (uint32_t i = 0; i < c->live_count; i++)
    if (c->lives[i].counters.size)
      counters_print(&c->lives[i], now_ns, out);
}

static void host_name_read(char *name, size_t bytes) {
  if (gethostname(name, bytes))
    name[0] = '\0';
  name[bytes - 1] = '\0';
  for (char *at = name; *at; at++)
    if (*at == '"' || *at == '\\' || *at == '/' || (unsigned char)*at < ' ')
      *at = '_';
}

int rondo_flight_print(struct rondo_rank *rank, FILE *out) {
  struct capture c = {0};
  char host[HOST_BYTES];
  rondo_rank_lock(rank);
  int status = rank_capture(rank, &c);
  rondo_lock_give(&rank->lock);
  if (status == RONDO_SUCCESS) {
    host_name_read(host, sizeof host);
    fprintf(out,
            "{\"rondo\": \"flight-record\", \"version\": 1, \"rank\": %u, \"ranks\": %u, "
            "\"host\": \"%s\", \"pid\": %ld}\n",
            rank->cfg.rank, rank->cfg.rank_count, host, (long)getpid());
    if (c.flight->added > RONDO_FLIGHT_EVENTS)
      fprintf(out, "{\"dropped\": %llu}\n",
              (unsigned long long)(c.flight->added - RONDO_FLIGHT_EVENTS));
    groups_print(&c, rank->cfg.rank_count, out);
    events_print(&c, out);
    synchronising_print(rank, rondo_stamp_ns(&c.flight->clock), out);
    if (fflush(out) || ferror(out))
      status = RONDO_ERR_SYSTEM;
  }
  capture_free(&c);
  return status;
}

// ------------------------------------------------------------------- files ---

// %r is the rank, %h the host, %p the process. Without %r the rank is appended after a dot.
static void path_format(const char *pattern, uint32_t rank, char *path, size_t bytes) {
  char host[HOST_BYTES];
  size_t at = 0;
  int has_rank = 0;
  host_name_read(host, sizeof host);
  path[0] = '\0';
  for (const char *p = pattern; *p && at < bytes - 1; p++) {
    int kind = p[0] == '%' ? p[1] : 0;
    size_t room = bytes - at;
    if (kind == 'r')
      (void)snprintf(path + at, room, "%u", rank);
    else if (kind == 'h')
      (void)snprintf(path + at, room, "%s", host);
    else if (kind == 'p')
      (void)snprintf(path + at, room, "%ld", (long)getpid());
    else
      (void)snprintf(path + at, room, "%c", *p);
    has_rank |= kind == 'r';
    p += kind == 'r' || kind == 'h' || kind == 'p';
    at += strlen(path + at);
  }
  if (!has_rank)
    (void)snprintf(path + at, bytes - at, ".%u", rank);
}

static void rank_dump(struct rondo_rank *rank, const char *pattern) {
  char path[PATH_BYTES];
  path_format(pattern, rank->cfg.rank, path, sizeof path);
  FILE *out = fopen(path, "we");
  int status = out ? rondo_flight_print(rank, out) : RONDO_ERR_SYSTEM;
  if (out && fclose(out))
    status = RONDO_ERR_SYSTEM;
  if (status != RONDO_SUCCESS)
    rondo_log(RONDO_LOG_ERROR, "flight record: rank %u: %s cannot be written", rank->cfg.rank,
              path);
}

void rondo_flight_dump(struct rondo_job *job) {
  const char *pattern = getenv("RONDO_FLIGHT_FILE");
  if (!pattern || !*pattern)
    return;
  // The job's lock admits one writer at a time and keeps the ranks.
  pthread_mutex_lock(&job->lock);
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (rondo_rank_of(job->members[r]))
      rank_dump(rondo_rank_of(job->members[r]), pattern);
  pthread_mutex_unlock(&job->lock);
}
