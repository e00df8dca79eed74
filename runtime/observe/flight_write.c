// Writes the flight record as text: the events of the ring and the runs being executed.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/plan/build.h"
#include "runtime/observe/flight_write.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/service.h"

#define HOST_BYTES 256
#define PATH_BYTES 4096

// A registered collective at the moment of writing.
struct live {
  struct rondo_flight_tag tag;
  uint32_t *members; // copied; null: all ranks in order
  uint32_t member_count;
  uint64_t executing, started_ns; // the run that a block has begun; 0: none
  uint32_t oldest_count;
  struct rondo_flight_event oldest[RONDO_DEVICE_RUNS]; // runs that the ring no longer holds
};

struct capture {
  uint32_t rank, rank_count;
  struct rondo_flight *flight; // copied
  struct live *lives;
  uint32_t live_count;
};

// ----------------------------------------------------------------- capture ---

static int live_capture(struct rondo_rank *rank, const struct rondo_coll *coll, struct live *l) {
  struct rondo_block_view look;
  l->tag = coll->tag;
  l->member_count = coll->registration.nranks;
  if (l->tag.group) {
    l->members = malloc(l->member_count * sizeof *l->members);
    if (!l->members)
      return RONDO_ERR_NO_MEMORY;
    memcpy(l->members, coll->members, l->member_count * sizeof *l->members);
  }
  for (uint32_t b = 0; coll->head && b < coll->registration.shape.blocks && !l->executing; b++)
    if (rank->member.daemon->driver->try_inspect(rank->member.daemon, b, coll->index, &look)) {
      l->executing = look.state.run.number;
      l->started_ns = look.state.started_ns;
    }
  for (const struct rondo_run_record *r = coll->head; r && r != coll->unpushed; r = r->next) {
    struct rondo_flight_event e = {.tag = coll->tag, .at_ns = r->submitted_ns, .run = r->number};
    e.pushed_ns = e.at_ns; // or later
    if (!rondo_flight_at(&rank->flight, r->event))
      l->oldest[l->oldest_count++] = e;
  }
  return RONDO_SUCCESS;
}

// The rank's lock is held.
static int rank_capture(struct rondo_rank *rank, struct capture *c) {
  int status = RONDO_SUCCESS;
  rondo_rank_add_changes(rank);
  c->rank = rank->cfg.rank;
  c->rank_count = rank->cfg.rank_count;
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
    free(c->lives[i].members);
  free(c->lives);
  free(c->flight);
}

// ---------------------------------------------------------------- printing ---

static void group_print(const struct live *l, FILE *out) {
  fprintf(out, "{\"group\": %u, \"name\": \"group %u\", \"ranks\": [", l->tag.group, l->tag.group);
  for (uint32_t i = 0; i < l->member_count; i++)
    fprintf(out, "%s%u", i ? ", " : "", l->members[i]);
  fprintf(out, "]}\n");
}

static void groups_print(const struct capture *c, FILE *out) {
  fprintf(out, "{\"group\": 0, \"name\": \"all\", \"ranks\": [");
  for (uint32_t r = 0; r < c->rank_count; r++)
    fprintf(out, "%s%u", r ? ", " : "", r);
  fprintf(out, "]}\n");
  for (uint32_t i = 0; i < c->live_count; i++) {
    uint32_t before = 0;
    while (c->lives[before].tag.group != c->lives[i].tag.group)
      before++;
    if (c->lives[i].tag.group && before == i)
      group_print(&c->lives[i], out);
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

static void run_print(const struct capture *c, const struct rondo_flight_event *e, FILE *out) {
  const struct live *l = live_find(c, e->tag.handle);
  int is_executing = !e->ended_ns && l && l->executing == e->run;
  uint64_t started_ns = e->ended_ns ? e->ended_ns - e->device_ns : is_executing ? l->started_ns : 0;
  descriptor_print(e, out);
  fprintf(out, "\"state\": \"%s\", \"submitted_ns\": %llu, \"pushed_ns\": %llu, ",
          e->ended_ns    ? "completed"
          : is_executing ? "started"
                         : "submitted",
          (unsigned long long)e->at_ns, (unsigned long long)e->pushed_ns);
  fprintf(out, "\"started_ns\": %llu, \"completed_ns\": %llu", (unsigned long long)started_ns,
          (unsigned long long)e->ended_ns);
  if (e->value)
    fprintf(out, ", \"status\": \"%s\"", rondo_status_name(e->value));
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
            c.rank, c.rank_count, host, (long)getpid());
    if (c.flight->added > RONDO_FLIGHT_EVENTS)
      fprintf(out, "{\"dropped\": %llu}\n",
              (unsigned long long)(c.flight->added - RONDO_FLIGHT_EVENTS));
    groups_print(&c, out);
    events_print(&c, out);
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
