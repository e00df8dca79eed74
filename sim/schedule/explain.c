#include "sim/schedule/explain.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sim/analyse/report.h"
#include "sim/common/graph.h"
#include <rondo/rondo.h>

#define MOST_CALLS 4000000u

static void members_add(struct rondo_analyse_group_decl *g,
                        const struct rondo_schedule_collective *c) {
  g->member_count = c->layout->shape.nranks;
  g->members = rondo_sim_alloc(g->member_count * sizeof *g->members);
  for (uint32_t i = 0; i < g->member_count; i++) {
    g->members[i] = c->ranks ? c->ranks[i] : i;
  }
}

// The group of a collective, in which its runs are numbered.
static struct rondo_analyse_group_decl *
group_of(struct rondo_analyse_record *r, const struct rondo_schedule_machine *m, uint32_t number) {
  const struct rondo_schedule_collective *c = rondo_schedule_machine_collective(m, number);
  struct rondo_analyse_track *t = &r->tracks[0];
  uint32_t key = rondo_analyse_strings_print(&r->strings, "collective %" PRIu32, number);
  struct rondo_analyse_group_decl *g = rondo_analyse_track_find(t, key);
  if (!g) {
    g = rondo_analyse_track_group(t, key);
    g->size = c->layout->shape.nranks;
    g->next_seq = 1;
    if (t->rank == (c->ranks ? c->ranks[0] : 0)) { // it is enough that one rank lists them
      members_add(g, c);
    }
  }
  return g;
}

// Adds a call of the rank's program, as the rank's flight record would hold it.
static void call_add(struct rondo_analyse_record *r, const struct rondo_schedule_machine *m,
                     uint32_t number, int standing) {
  struct rondo_analyse_track *t = &r->tracks[0];
  struct rondo_analyse_group_decl *g = group_of(r, m, number);
  const char *kind =
      rondo_kind_name(rondo_schedule_machine_collective(m, number)->layout->shape.kind);
  bool uneven;
  if (standing == RONDO_SCHEDULE_NOT_SUBMITTED) {
    return;
  }
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  call->group = (uint32_t)(g - t->groups);
  call->kind = (uint8_t)rondo_analyse_kind_of(kind, &uneven);
  call->name = rondo_analyse_strings_print(&r->strings, "%s", kind);
  call->seq = g->next_seq++;
  call->state = standing == RONDO_SCHEDULE_ENDED     ? RONDO_ANALYSE_COMPLETED
                : standing == RONDO_SCHEDULE_STARTED ? RONDO_ANALYSE_STARTED
                                                     : RONDO_ANALYSE_SCHEDULED;
}

static void record_make(struct rondo_analyse_record *r, const struct rondo_schedule_machine *m,
                        uint32_t rank) {
  rondo_analyse_record_init(r, "simulated");
  r->source = RONDO_ANALYSE_RONDO;
  struct rondo_analyse_track *t = rondo_analyse_record_track(r);
  t->rank = rank;
  t->states_known = t->starts_known = true;
  uint64_t syncs_ns = rondo_schedule_machine_syncs_ns(m, rank);
  t->synchronises = syncs_ns != UINT64_MAX;
  t->synchronises_ns = t->synchronises ? (int64_t)syncs_ns : 0;
  for (uint32_t i = 0; i < rondo_schedule_machine_call_count(m, rank); i++) {
    uint32_t collective;
    int standing = rondo_schedule_machine_standing(m, rank, i, &collective);
    call_add(r, m, collective, standing);
  }
}

static void cycle_draw(struct rondo_schedule_story *story,
                       const struct rondo_analyse_analysis *analysis) {
  struct rondo_sim_graph graph;
  rondo_sim_graph_init(&graph, "Circular wait");
  rondo_analyse_report_graph(&graph, analysis);
  rondo_sim_graph_dot(&graph, &story->dot);
  rondo_sim_graph_svg(&graph, &story->svg);
  rondo_sim_graph_fini(&graph);
}

bool rondo_schedule_explain(const struct rondo_schedule_job *job,
                            const struct rondo_schedule_machine *m,
                            struct rondo_schedule_story *story) {
  uint32_t n = job->settings.rank_count;
  struct rondo_analyse_job analysed;
  struct rondo_analyse_analysis analysis;
  const struct rondo_analyse_group_hints hints = {NULL, 0};
  *story = (struct rondo_schedule_story){0};
  if (rondo_schedule_machine_totals(m).runs / job->settings.iterations > MOST_CALLS) {
    return false;
  }
  struct rondo_analyse_record *records = rondo_sim_alloc(n * sizeof *records);
  for (uint32_t i = 0; i < n; i++) {
    record_make(&records[i], m, i);
  }
  (void)rondo_analyse_job_init(&analysed, RONDO_ANALYSE_FAMILY_RONDO, records, n, &hints);
  rondo_analyse_analysis_init(&analysis, &analysed);
  const struct rondo_analyse_analysis *analyses[] = {&analysis};
  const struct rondo_analyse_report report = {analyses, 1, records, n, false};
  rondo_analyse_report_text(&story->text, &report);
  rondo_analyse_report_json(&story->json, &report);
  story->is_cycle = analysis.verdict.outcome == RONDO_ANALYSE_CIRCULAR_WAIT;
  if (story->is_cycle) {
    cycle_draw(story, &analysis);
  }
  rondo_analyse_analysis_fini(&analysis);
  rondo_analyse_job_fini(&analysed);
  for (uint32_t i = 0; i < n; i++) {
    rondo_analyse_record_fini(&records[i]);
  }
  free(records);
  return true;
}

void rondo_schedule_story_fini(struct rondo_schedule_story *story) {
  rondo_sim_text_fini(&story->text);
  rondo_sim_text_fini(&story->json);
  rondo_sim_text_fini(&story->dot);
  rondo_sim_text_fini(&story->svg);
}
