#include "sim/schedule/explain.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sim/analyse/report.h"
#include "sim/common/graph.h"
#include <rondo/rondo.h>

#define MOST_CALLS 4000000u

static void members_add(struct rondo_analyse_group_decl *g, uint32_t count) {
  g->member_count = count;
  g->members = rondo_sim_alloc(count * sizeof *g->members);
  for (uint32_t i = 0; i < count; i++) {
    g->members[i] = i;
  }
}

// Adds the rank's run of a collective, as the rank's flight record would hold it.
static void call_add(struct rondo_analyse_record *r, const struct rondo_schedule_job *job,
                     uint32_t collective, int standing) {
  struct rondo_analyse_track *t = &r->tracks[0];
  uint32_t key = rondo_analyse_strings_print(&r->strings, "collective %" PRIu32, collective);
  struct rondo_analyse_group_decl *g = rondo_analyse_track_group(t, key);
  bool uneven;
  g->size = job->settings.rank_count;
  if (t->rank == 0) { // it is enough that one rank lists them
    members_add(g, job->settings.rank_count);
  }
  if (standing == RONDO_SCHEDULE_NOT_SUBMITTED) {
    return;
  }
  struct rondo_analyse_call *call = rondo_analyse_track_call(t);
  const char *kind = rondo_kind_name(job->shape.kind);
  call->group = (uint32_t)t->group_count - 1;
  call->kind = (uint8_t)rondo_analyse_kind_of(kind, &uneven);
  call->name = rondo_analyse_strings_print(&r->strings, "%s", kind);
  call->seq = 1;
  call->state = standing == RONDO_SCHEDULE_ENDED     ? RONDO_ANALYSE_COMPLETED
                : standing == RONDO_SCHEDULE_STARTED ? RONDO_ANALYSE_STARTED
                                                     : RONDO_ANALYSE_SCHEDULED;
}

static void record_make(struct rondo_analyse_record *r, const struct rondo_schedule_job *job,
                        const struct rondo_schedule_machine *m, uint32_t rank) {
  rondo_analyse_record_init(r, "simulated");
  r->source = RONDO_ANALYSE_RONDO;
  struct rondo_analyse_track *t = rondo_analyse_record_track(r);
  t->rank = rank;
  t->states_known = t->starts_known = true;
  for (uint32_t place = 0; place < job->collectives; place++) {
    uint32_t collective = rondo_schedule_machine_order(m, rank, place);
    call_add(r, job, collective, rondo_schedule_machine_standing(m, rank, collective));
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
  if (n * job->collectives > MOST_CALLS) {
    return false;
  }
  struct rondo_analyse_record *records = rondo_sim_alloc(n * sizeof *records);
  for (uint32_t i = 0; i < n; i++) {
    record_make(&records[i], job, m, i);
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
