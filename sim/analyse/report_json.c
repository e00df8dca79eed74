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

// null for a number that means "none".
static json_t *number_of(int64_t value) { return value < 0 ? json_null() : json_integer(value); }

// The paragraphs of a part of the findings, as a list of strings.
static json_t *lines_of(const struct rondo_analyse_analysis *a, enum rondo_analyse_part part) {
  json_t *list = json_array();
  char *text = rondo_sim_strdup(rondo_analyse_words(a, part)), *cursor = text;
  for (char *line; (line = strsep(&cursor, "\n"));) {
    if (*line) {
      json_array_append_new(list, string_of(line));
    }
  }
  free(text);
  return list;
}

static json_t *rank_of(const struct rondo_analyse_job *job, uint32_t rank) {
  return job->ranks[rank].number >= 0 ? json_integer(job->ranks[rank].number)
                                      : string_of(rondo_analyse_words_rank(job, rank));
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
  json_object_set_new(o, "number", json_integer(call->seq));
  set_string(o, "state", rondo_analyse_state_name(call->state));
  json_object_set_new(o, "count", counts ? json_integer((json_int_t)call->in_count) : json_null());
  set_string(o, "dtype", rondo_analyse_dtype_name(call->dtype));
  set_string(o, "shape", rondo_analyse_job_text(job, call->shape));
  set_string(o, "reduction", rondo_analyse_redop_name(call->redop));
  json_object_set_new(o, "root_or_peer", number_of(call->peer));
  set_string(o, call->flags & RONDO_ANALYSE_STREAM ? "stream" : "thread",
             rondo_analyse_job_text(job, call->queue));
  set_string(o, "site", rondo_analyse_job_text(job, call->site));
  json_object_set_new(o, "created_ns", json_integer(call->created_ns));
  json_object_set_new(o, "awaits_stream",
                      json_boolean((call->flags & RONDO_ANALYSE_AWAITS_STREAM) != 0));
  return o;
}

static json_t *cycle_of(const struct rondo_analyse_analysis *a) {
  static const char *const reasons[] = {"front",         "behind_group", "behind_stream",
                                        "behind_device", "behind_order", "not_called"};
  json_t *list = json_array();
  for (size_t i = 0; i < a->verdict.turn_count; i++) {
    const struct rondo_analyse_turn *turn = &a->verdict.turns[i];
    const struct rondo_analyse_pending *p = &a->waits.pending[turn->holder];
    json_t *call = call_of(a->job, &a->job->ranks[p->rank].calls[p->call]);
    json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:s}", "rank", rank_of(a->job, p->rank),
                                          "call", call, "waits_for", rank_of(a->job, turn->absent),
                                          "because", reasons[turn->reason]));
  }
  return list;
}

// The calls of an operation; null if there is none.
static json_t *sides_of(const struct rondo_analyse_analysis *a, uint32_t op) {
  if (op == RONDO_ANALYSE_NO_OP) {
    return json_null();
  }
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
    const struct rondo_analyse_call *calls = a->job->ranks[d->ranks[i]].calls;
    json_t *common = d->common[i] < 0 ? json_null() : call_of(a->job, &calls[d->common[i]]);
    json_t *then = d->calls[i] < 0 ? json_null() : call_of(a->job, &calls[d->calls[i]]);
    json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "rank", rank_of(a->job, d->ranks[i]),
                                          "last_in_common", common, "then", then));
  }
  return list;
}

static json_t *places_of(const struct rondo_analyse_job *job, const struct rondo_analyse_rank *r) {
  json_t *list = json_array();
  for (size_t i = 0; i < r->place_count; i++) {
    const struct rondo_analyse_progress *reached = &r->places[i].reached;
    const char *group = rondo_analyse_job_text(job, job->groups[r->places[i].group].name);
    json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", "group", string_of(group),
                                          "last_submitted", number_of(reached->submitted),
                                          "last_started", number_of(reached->started),
                                          "last_completed", number_of(reached->completed)));
  }
  return list;
}

static json_t *state_of(const struct rondo_analyse_analysis *a, uint32_t rank) {
  const struct rondo_analyse_rank *r = &a->job->ranks[rank];
  json_t *waiting = json_array();
  for (uint32_t i = a->waits.front_first[rank]; i < a->waits.front_first[rank + 1]; i++) {
    const struct rondo_analyse_pending *p = &a->waits.pending[a->waits.front[i]];
    json_array_append_new(waiting, call_of(a->job, &r->calls[p->call]));
  }
  return json_pack(
      "{s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:I, s:o, s:o}", "rank", rank_of(a->job, rank),
      "file", string_of(r->path), "host", string_of(rondo_analyse_job_text(a->job, r->host)), "pid",
      number_of(r->pid), "present", r->present, "cut_off", r->cut_off, "completion_recorded",
      r->states_known, "start_recorded", r->starts_known, "synchronises", r->synchronises, "calls",
      (json_int_t)r->call_count, "waits_in", waiting, "groups", places_of(a->job, r));
}

static json_t *groups_of(const struct rondo_analyse_job *job) {
  json_t *list = json_array();
  for (size_t i = 0; i < job->group_count; i++) {
    const struct rondo_analyse_group *g = &job->groups[i];
    json_array_append_new(
        list, json_pack("{s:o, s:o, s:I, s:o, s:b}", "name",
                        string_of(rondo_analyse_job_text(job, g->name)), "description",
                        string_of(rondo_analyse_job_text(job, g->desc)), "size",
                        (json_int_t)g->size, "members", ranks_of(job, g->members, g->member_count),
                        "members_recorded", g->members_known));
  }
  return list;
}

static json_t *analysis_of(const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  static const char *const families[] = {"torch", "nccl_log", "nccl_ras", "rondo"};
  json_t *o = json_object();
  set_string(o, "verdict", rondo_analyse_outcome_name((int)v->outcome));
  set_string(o, "evidence", families[a->job->family]);
  set_string(o, "summary", rondo_analyse_words(a, RONDO_ANALYSE_HEADLINE));
  set_string(o, "certainty", v->by_order ? "likely" : v->inferred ? "inferred" : "recorded");
  json_object_set_new(o, "explanation", lines_of(a, RONDO_ANALYSE_EXPLANATION));
  json_object_set_new(o, "cycle", cycle_of(a));
  json_object_set_new(o, "operation", sides_of(a, v->op));
  json_object_set_new(o, "ranks", ranks_of(a->job, v->ranks, v->rank_count));
  json_object_set_new(o, "unknown_members", json_integer((json_int_t)v->unknown_members));
  json_object_set_new(o, "first_divergence", divergence_of(a));
  json_object_set_new(o, "first_divergence_in_words", lines_of(a, RONDO_ANALYSE_DIVERGENCE));
  json_object_set_new(o, "prevention", lines_of(a, RONDO_ANALYSE_PREVENTION));
  json_t *states = json_array();
  for (uint32_t rank = 0; rank < a->job->rank_count; rank++) {
    json_array_append_new(states, state_of(a, rank));
  }
  json_object_set_new(o, "rank_states", states);
  json_object_set_new(o, "groups", groups_of(a->job));
  return o;
}

static json_t *files_of(const struct rondo_analyse_report *r) {
  json_t *list = json_array();
  for (size_t i = 0; i < r->record_count; i++) {
    const struct rondo_analyse_record *record = &r->records[i];
    json_t *problems = json_array();
    for (size_t k = 0; k < record->problems.count; k++) {
      json_array_append_new(problems, string_of(record->problems.items[k]));
    }
    json_array_append_new(list, json_pack("{s:o, s:s, s:b, s:o}", "path", string_of(record->path),
                                          "kind", rondo_analyse_source_name((int)record->source),
                                          "usable", !record->unusable, "problems", problems));
  }
  return list;
}

void rondo_analyse_report_json(struct rondo_sim_text *t, const struct rondo_analyse_report *r) {
  int outcome = (int)r->analyses[0]->verdict.outcome;
  json_t *analyses = json_array();
  for (size_t i = 0; i < r->analysis_count; i++) {
    json_array_append_new(analyses, analysis_of(r->analyses[i]));
  }
  json_t *root = json_pack("{s:s, s:i, s:o, s:o}", "verdict", rondo_analyse_outcome_name(outcome),
                           "exit_code", rondo_analyse_outcome_exit_code(outcome), "analyses",
                           analyses, "files", files_of(r));
  char *text = json_dumps(root, JSON_INDENT(2));
  rondo_sim_text_add(t, "%s\n", text ? text : "{}");
  json_decref(root);
  free(text);
}
