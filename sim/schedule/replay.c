#include "sim/schedule/replay.h"

#include <stdlib.h>
#include <string.h>

#include "sim/analyse/match.h"
#include "sim/analyse/read.h"
#include <rondo/rondo.h>

#define NONE UINT32_MAX

struct reader {
  struct rondo_schedule_replay *r;
  struct rondo_analyse_job job;
  uint32_t *statement_of; // by group; NONE
  struct rondo_sim_error *error;
};

static uint64_t dtype_bytes(int dtype) {
  static const uint8_t bytes[RONDO_ANALYSE_DTYPE_COUNT] = {
      [RONDO_ANALYSE_INT8] = 1,        [RONDO_ANALYSE_UINT8] = 1,   [RONDO_ANALYSE_INT16] = 2,
      [RONDO_ANALYSE_INT32] = 4,       [RONDO_ANALYSE_UINT32] = 4,  [RONDO_ANALYSE_INT64] = 8,
      [RONDO_ANALYSE_UINT64] = 8,      [RONDO_ANALYSE_FLOAT16] = 2, [RONDO_ANALYSE_BFLOAT16] = 2,
      [RONDO_ANALYSE_FLOAT32] = 4,     [RONDO_ANALYSE_FLOAT64] = 8, [RONDO_ANALYSE_FLOAT8_E4M3] = 1,
      [RONDO_ANALYSE_FLOAT8_E5M2] = 1, [RONDO_ANALYSE_BOOL] = 1};
  return bytes[dtype];
}

// True if the run is replayed.
static bool op_stays(const struct rondo_analyse_job *job, const struct rondo_analyse_op *op) {
  return op->called == job->groups[op->group].member_count || op->completed == 0;
}

// ----------------------------------------------------------------- collectives ---

// Copies the members of a group. Returns false if not each of them is another rank of the job.
static bool members_copy(const struct rondo_analyse_job *job, const struct rondo_analyse_group *g,
                         uint32_t **members) {
  bool *seen = rondo_sim_calloc(job->rank_count, sizeof *seen);
  bool ok = g->member_count > 0, is_all = g->member_count == job->rank_count;
  uint32_t *ranks = rondo_sim_alloc(g->member_count * sizeof *ranks);
  for (size_t i = 0; i < g->member_count && ok; i++) {
    ranks[i] = g->members[i];
    ok = ranks[i] < job->rank_count && !seen[ranks[i]];
    is_all &= ranks[i] == i;
    if (ok) {
      seen[ranks[i]] = true;
    }
  }
  free(seen);
  if (!ok || is_all) {
    free(ranks);
    ranks = NULL;
  }
  *members = ranks;
  return ok;
}

// Adds the collective of a call, with the members of its group.
static bool statement_add(struct reader *reader, const struct rondo_analyse_call *call) {
  struct rondo_schedule_replay *r = reader->r;
  struct rondo_schedule_statements *s = &r->statements;
  const struct rondo_analyse_group *g = &reader->job.groups[call->group];
  const char *kind = rondo_analyse_job_text(&reader->job, call->name);
  const char *key = rondo_analyse_job_text(&reader->job, g->key);
  const char *name = strstr(key, "collective ");
  struct rondo_schedule_statement x = rondo_schedule_statement_default();
  uint64_t bytes = dtype_bytes(call->dtype);
  // A record does not say what each rank sends to each.
  if (!rondo_schedule_kind_read(kind, &x.kind) || x.kind == RONDO_ALL_TO_ALL_V) {
    return rondo_sim_refuse(reader->error, "replay: %s: the kind %s is not simulated", key, kind);
  }
  if (bytes && call->in_count > (UINT64_C(1) << 46) / bytes) {
    return rondo_sim_refuse(reader->error, "replay: %s: too many elements", key);
  }
  x.bytes = call->in_count * bytes;
  x.root = call->peer > 0 ? (uint32_t)call->peer : 0;
  x.size = (uint32_t)g->member_count;
  x.times = 0;
  snprintf(x.name, sizeof x.name, "%s", name ? name : key);
  rondo_sim_text_clean(x.name);
  if (!g->members_known || !members_copy(&reader->job, g, &r->members[s->count])) {
    return rondo_sim_refuse(reader->error, "replay: %s: its ranks are not all known", key);
  }
  reader->statement_of[call->group] = s->count;
  s->items[s->count++] = x;
  return true;
}

static bool statements_make(struct reader *reader) {
  struct rondo_analyse_job *job = &reader->job;
  struct rondo_schedule_statements *s = &reader->r->statements;
  reader->statement_of = rondo_sim_alloc(job->group_count * sizeof *reader->statement_of);
  memset(reader->statement_of, 0xff, job->group_count * sizeof *reader->statement_of);
  s->capacity = (uint32_t)job->group_count;
  s->items = rondo_sim_calloc(job->group_count, sizeof *s->items);
  reader->r->members = rondo_sim_calloc(job->group_count, sizeof *reader->r->members);
  s->rank_count = (uint32_t)job->rank_count;
  for (uint32_t i = 0; i < job->op_count; i++) {
    const struct rondo_analyse_op *op = &job->ops[i];
    const struct rondo_analyse_call *call = &job->ranks[op->first_rank].calls[op->first_call];
    if (!op_stays(job, op)) {
      continue;
    }
    if (op->differences & ~(uint32_t)RONDO_ANALYSE_DIFFERS_REDOP) {
      return rondo_sim_refuse(reader->error, "replay: %s: its ranks call it differently",
                              rondo_analyse_job_text(job, job->groups[op->group].key));
    }
    if (reader->statement_of[op->group] == NONE && !statement_add(reader, call)) {
      return false;
    }
    s->items[reader->statement_of[op->group]].times++;
  }
  return s->count > 0 || rondo_sim_refuse(reader->error, "replay: no run is in all records");
}

// ----------------------------------------------------------------------- calls ---

static bool is_member(const struct rondo_schedule_replay *r, uint32_t statement, uint32_t rank) {
  const uint32_t *members = r->members[statement];
  uint32_t i = 0;
  while (members && i < r->statements.items[statement].size && members[i] != rank) {
    i++;
  }
  return !members || i < r->statements.items[statement].size;
}

// Adds the calls of a rank that stay, with the times when they were made in compute_ns.
static bool rank_calls_add(struct reader *reader, uint32_t rank, uint32_t *count) {
  const struct rondo_analyse_rank *from = &reader->job.ranks[rank];
  for (size_t i = 0; i < from->call_count; i++) {
    const struct rondo_analyse_call *call = &from->calls[i];
    if (call->op == RONDO_ANALYSE_NO_OP || !op_stays(&reader->job, &reader->job.ops[call->op])) {
      reader->r->left_out++;
      continue;
    }
    if (!is_member(reader->r, reader->statement_of[call->group], rank)) {
      return rondo_sim_refuse(reader->error, "replay: rank %u calls %s, which it is not in", rank,
                              reader->r->statements.items[reader->statement_of[call->group]].name);
    }
    reader->r->calls[(*count)++] = (struct rondo_schedule_call){
        .compute_ns = call->created_ns > 0 ? (uint64_t)call->created_ns : 0,
        .collective = reader->statement_of[call->group]};
  }
  return true;
}

// Times become those since the call before; of the first call, since the first one of all ranks.
static void times_make(struct rondo_schedule_replay *r) {
  uint32_t ranks = r->statements.rank_count;
  r->begins_ns = UINT64_MAX;
  for (uint32_t i = 0; i < ranks; i++) {
    uint32_t first = r->first_call[i];
    if (first < r->first_call[i + 1] && r->calls[first].compute_ns < r->begins_ns) {
      r->begins_ns = r->calls[first].compute_ns;
    }
  }
  for (uint32_t i = 0; i < ranks; i++) {
    uint64_t last_ns = r->begins_ns;
    for (uint32_t k = r->first_call[i]; k < r->first_call[i + 1]; k++) {
      uint64_t ns = r->calls[k].compute_ns;
      r->calls[k].compute_ns = ns > last_ns ? ns - last_ns : 0;
      last_ns = ns > last_ns ? ns : last_ns;
    }
  }
}

static bool calls_make(struct reader *reader) {
  struct rondo_analyse_job *job = &reader->job;
  struct rondo_schedule_replay *r = reader->r;
  uint32_t count = 0;
  r->calls = rondo_sim_calloc(job->call_count, sizeof *r->calls);
  r->first_call = rondo_sim_calloc(job->rank_count + 1, sizeof *r->first_call);
  for (uint32_t i = 0; i < job->rank_count; i++) {
    if (!rank_calls_add(reader, i, &count)) {
      return false;
    }
    r->first_call[i + 1] = count;
  }
  times_make(r);
  return true;
}

// ------------------------------------------------------------------------ read ---

static bool ranks_check(const struct reader *reader) {
  const struct rondo_analyse_job *job = &reader->job;
  for (size_t i = 0; i < job->rank_count; i++) {
    if (!job->ranks[i].present || job->ranks[i].number != (int64_t)i) {
      return rondo_sim_refuse(reader->error, "replay: there is no record of rank %zu", i);
    }
  }
  return (job->rank_count > 0 && job->rank_count <= RONDO_MAX_RANKS &&
          job->call_count <= UINT32_MAX) ||
         rondo_sim_refuse(reader->error, "replay: too many ranks or calls");
}

static bool records_check(const struct rondo_analyse_record *records, uint32_t count,
                          struct rondo_sim_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    if (records[i].unusable || records[i].source != RONDO_ANALYSE_RONDO) {
      return rondo_sim_refuse(error, "replay: %.200s is no flight record of Rondo",
                              records[i].path);
    }
  }
  return true;
}

bool rondo_schedule_replay_make(struct rondo_schedule_replay *r,
                                struct rondo_analyse_record *records, uint32_t count,
                                struct rondo_sim_error *error) {
  const struct rondo_analyse_group_hints hints = {NULL, 0};
  struct reader reader = {.r = r, .error = error};
  *r = (struct rondo_schedule_replay){0};
  if (!records_check(records, count, error) ||
      !rondo_analyse_job_init(&reader.job, RONDO_ANALYSE_FAMILY_RONDO, records, count, &hints)) {
    return false;
  }
  rondo_analyse_match(&reader.job);
  bool ok = ranks_check(&reader) && statements_make(&reader) && calls_make(&reader);
  free(reader.statement_of);
  rondo_analyse_job_fini(&reader.job);
  if (!ok) {
    rondo_sim_text_clean(error->text);
  }
  return ok;
}

bool rondo_schedule_replay_read(struct rondo_schedule_replay *r, char **paths, uint32_t count,
                                struct rondo_sim_error *error) {
  const struct rondo_analyse_load_options options = {.thread_count = 1};
  struct rondo_analyse_record *records = rondo_sim_calloc(count, sizeof *records);
  rondo_analyse_load(records, paths, count, &options);
  bool ok = rondo_schedule_replay_make(r, records, count, error);
  for (uint32_t i = 0; i < count; i++) {
    rondo_analyse_record_fini(&records[i]);
  }
  free(records);
  return ok;
}

void rondo_schedule_replay_fini(struct rondo_schedule_replay *r) {
  for (uint32_t i = 0; r->members && i < r->statements.count; i++) {
    free(r->members[i]);
  }
  for (uint32_t i = 0; r->graphs && i < r->statements.rank_count; i++) {
    free(r->graphs[i].nodes);
    free(r->graphs[i].children);
  }
  free(r->graphs);
  free(r->members);
  free(r->first_call);
  free(r->calls);
}
