#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/report.h"

// A JSON string of any bytes; bytes that are not UTF-8 become question marks.
static json_t *string_of(const char *text) {
  json_t *made = json_string(text);
  if (made) {
    return made;
  }
  char *copy = rondo_sim_strdup(text);
  for (char *p = copy; *p; p++) {
    *p = (unsigned char)*p >= 0x80 ? '?' : *p;
  }
  made = json_string(copy);
  free(copy);
  return made;
}

static void set_string(json_t *object, const char *key, const char *text) {
  json_object_set_new(object, key, string_of(text));
}

static void set_integer(json_t *object, const char *key, int64_t value) {
  json_object_set_new(object, key, json_integer(value));
}

// null for a number that means "none".
static void set_number(json_t *object, const char *key, int64_t value) {
  json_object_set_new(object, key, value < 0 ? json_null() : json_integer(value));
}

// The paragraphs of a part of the findings, as a list of strings.
static json_t *lines_of(void (*words)(struct rondo_sim_text *,
                                      const struct rondo_analyse_analysis *),
                        const struct rondo_analyse_analysis *a) {
  json_t *list = json_array();
  char *text = rondo_analyse_words_text(words, a), *cursor = text;
  for (char *line; (line = strsep(&cursor, "\n"));) {
    if (*line) {
      json_array_append_new(list, string_of(line));
    }
  }
  free(text);
  return list;
}

static json_t *rank_of(const struct rondo_analyse_job *job, uint32_t rank) {
  if (job->ranks[rank].number >= 0) {
    return json_integer(job->ranks[rank].number);
  }
  struct rondo_sim_text text = {0};
  rondo_analyse_words_rank(&text, job, rank);
  json_t *made = string_of(rondo_sim_text_str(&text));
  rondo_sim_text_fini(&text);
  return made;
}

static json_t *ranks_of(const struct rondo_analyse_job *job, const uint32_t *ranks, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) {
    json_array_append_new(list,
                          ranks[i] == RONDO_ANALYSE_NO_RANK ? json_null() : rank_of(job, ranks[i]));
  }
  return list;
}

static json_t *call_of(const struct rondo_analyse_job *job, const struct rondo_analyse_call *call) {
  json_t *o = json_object();
  bool counts = call->flags & RONDO_ANALYSE_COUNTS_KNOWN;
  set_string(o, "operation", rondo_analyse_kind_name(call->kind));
  set_string(o, "recorded_as", rondo_analyse_job_text(job, call->name));
  set_string(o, "group", rondo_analyse_job_text(job, job->groups[call->group].name));
  set_integer(o, "number", call->seq);
  set_string(o, "state", rondo_analyse_state_name(call->state));
  json_object_set_new(o, "count", counts ? json_integer((json_int_t)call->in_count) : json_null());
  set_string(o, "dtype", rondo_analyse_dtype_name(call->dtype));
  set_string(o, "shape", rondo_analyse_job_text(job, call->shape));
  set_string(o, "reduction", rondo_analyse_redop_name(call->redop));
  set_number(o, "root_or_peer", call->peer);
  set_string(o, call->flags & RONDO_ANALYSE_STREAM ? "stream" : "thread",
             rondo_analyse_job_text(job, call->queue));
  set_string(o, "site", rondo_analyse_job_text(job, call->site));
  set_integer(o, "created_ns", call->created_ns);
  return o;
}

static const char *reason_name(enum rondo_analyse_reason reason) {
  static const char *const names[] = {"front",         "behind_group", "behind_stream",
                                      "behind_device", "behind_order", "not_called"};
  return names[reason];
}

static json_t *cycle_of(const struct rondo_analyse_analysis *a) {
  json_t *list = json_array();
  for (size_t i = 0; i < a->verdict.turn_count; i++) {
    const struct rondo_analyse_turn *turn = &a->verdict.turns[i];
    const struct rondo_analyse_pending *p = &a->waits.pending[turn->holder];
    json_t *o = json_object();
    json_object_set_new(o, "rank", rank_of(a->job, p->rank));
    json_object_set_new(o, "call", call_of(a->job, &a->job->ranks[p->rank].calls[p->call]));
    json_object_set_new(o, "waits_for", rank_of(a->job, turn->absent));
    set_string(o, "because", reason_name(turn->reason));
    json_array_append_new(list, o);
  }
  return list;
}

// The calls of an operation.
static json_t *sides_of(const struct rondo_analyse_analysis *a, uint32_t op) {
  json_t *list = json_array();
  for (size_t i = a->callers.first[op]; i < a->callers.first[op + 1]; i++) {
    const struct rondo_analyse_caller *c = &a->callers.items[i];
    json_t *o = call_of(a->job, &a->job->ranks[c->rank].calls[c->call]);
    json_object_set_new(o, "rank", rank_of(a->job, c->rank));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *divergence_of(const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_divergence *d = &a->verdict.divergence;
  if (!d->found) {
    return json_null();
  }
  json_t *list = json_array();
  for (int i = 0; i < 2; i++) {
    const struct rondo_analyse_rank *r = &a->job->ranks[d->ranks[i]];
    json_t *o = json_object();
    json_object_set_new(o, "rank", rank_of(a->job, d->ranks[i]));
    json_object_set_new(o, "last_in_common",
                        d->common[i] < 0 ? json_null() : call_of(a->job, &r->calls[d->common[i]]));
    json_object_set_new(o, "then",
                        d->calls[i] < 0 ? json_null() : call_of(a->job, &r->calls[d->calls[i]]));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *places_of(const struct rondo_analyse_job *job, uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  struct rondo_analyse_progress *progress = rondo_analyse_progress_of(job, rank);
  json_t *list = json_array();
  for (size_t i = 0; i < r->place_count; i++) {
    json_t *o = json_object();
    set_string(o, "group", rondo_analyse_job_text(job, job->groups[r->places[i].group].name));
    set_number(o, "last_submitted", progress[i].submitted);
    set_number(o, "last_started", progress[i].started);
    set_number(o, "last_completed", progress[i].completed);
    json_array_append_new(list, o);
  }
  free(progress);
  return list;
}

static json_t *state_of(const struct rondo_analyse_analysis *a, uint32_t rank) {
  const struct rondo_analyse_rank *r = &a->job->ranks[rank];
  json_t *o = json_object();
  json_object_set_new(o, "rank", rank_of(a->job, rank));
  set_string(o, "file", r->path);
  set_string(o, "host", rondo_analyse_job_text(a->job, r->host));
  set_number(o, "pid", r->pid);
  json_object_set_new(o, "present", json_boolean(r->present));
  json_object_set_new(o, "cut_off", json_boolean(r->cut_off));
  json_object_set_new(o, "completion_recorded", json_boolean(r->states_known));
  json_object_set_new(o, "start_recorded", json_boolean(r->starts_known));
  set_integer(o, "calls", (int64_t)r->call_count);
  json_t *waiting = json_array();
  for (uint32_t i = a->waits.front_first[rank]; i < a->waits.front_first[rank + 1]; i++) {
    const struct rondo_analyse_pending *p = &a->waits.pending[a->waits.front[i]];
    json_array_append_new(waiting, call_of(a->job, &r->calls[p->call]));
  }
  json_object_set_new(o, "waits_in", waiting);
  json_object_set_new(o, "groups", places_of(a->job, rank));
  return o;
}

static json_t *groups_of(const struct rondo_analyse_job *job) {
  json_t *list = json_array();
  for (size_t i = 0; i < job->group_count; i++) {
    const struct rondo_analyse_group *g = &job->groups[i];
    json_t *o = json_object();
    set_string(o, "name", rondo_analyse_job_text(job, g->name));
    set_string(o, "description", rondo_analyse_job_text(job, g->desc));
    set_integer(o, "size", g->size);
    json_object_set_new(o, "members", ranks_of(job, g->members, g->member_count));
    json_object_set_new(o, "members_recorded", json_boolean(g->members_known));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *analysis_of(const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  static const char *const families[] = {"torch", "nccl_log", "nccl_ras", "rondo"};
  struct rondo_sim_text headline = {0};
  json_t *o = json_object();
  rondo_analyse_words_headline(&headline, a);
  set_string(o, "verdict", rondo_analyse_outcome_name((int)v->outcome));
  set_string(o, "evidence", families[a->job->family]);
  set_string(o, "summary", rondo_sim_text_str(&headline));
  set_string(o, "certainty", v->by_order ? "likely" : v->inferred ? "inferred" : "recorded");
  json_object_set_new(o, "explanation", lines_of(rondo_analyse_words_explanation, a));
  json_object_set_new(o, "cycle", cycle_of(a));
  json_object_set_new(o, "operation",
                      v->op == RONDO_ANALYSE_NO_OP ? json_null() : sides_of(a, v->op));
  json_object_set_new(o, "ranks", ranks_of(a->job, v->ranks, v->rank_count));
  set_integer(o, "unknown_members", (int64_t)v->unknown_members);
  json_object_set_new(o, "first_divergence", divergence_of(a));
  json_object_set_new(o, "first_divergence_in_words", lines_of(rondo_analyse_words_divergence, a));
  json_object_set_new(o, "prevention", lines_of(rondo_analyse_words_prevention, a));
  json_t *states = json_array();
  for (uint32_t rank = 0; rank < a->job->rank_count; rank++) {
    json_array_append_new(states, state_of(a, rank));
  }
  json_object_set_new(o, "rank_states", states);
  json_object_set_new(o, "groups", groups_of(a->job));
  rondo_sim_text_fini(&headline);
  return o;
}

static json_t *files_of(const struct rondo_analyse_report *r) {
  json_t *list = json_array();
  for (size_t i = 0; i < r->record_count; i++) {
    const struct rondo_analyse_record *record = &r->records[i];
    json_t *o = json_object();
    json_t *problems = json_array();
    set_string(o, "path", record->path);
    set_string(o, "kind", rondo_analyse_source_name((int)record->source));
    json_object_set_new(o, "usable", json_boolean(!record->unusable));
    for (size_t k = 0; k < record->problem_count && k < 20; k++) {
      json_array_append_new(problems, string_of(record->problems[k]));
    }
    json_object_set_new(o, "problems", problems);
    json_array_append_new(list, o);
  }
  return list;
}

char *rondo_analyse_report_json(const struct rondo_analyse_report *r) {
  json_t *root = json_object();
  json_t *analyses = json_array();
  set_string(root, "verdict", rondo_analyse_outcome_name((int)r->outcome));
  set_integer(root, "exit_code", rondo_analyse_outcome_exit_code((int)r->outcome));
  for (size_t i = 0; i < r->analysis_count; i++) {
    json_array_append_new(analyses, analysis_of(r->analyses[i]));
  }
  json_object_set_new(root, "analyses", analyses);
  json_object_set_new(root, "files", files_of(r));
  char *text = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  return text ? text : rondo_sim_strdup("{}");
}
