// Explains a deadlock that a run has found: its cycle in words and as a graph.
#include "sim/deadlock/report.h"

#include <stdio.h>

#include "sim/deadlock/decide_round.h"
#include "sim/deadlock/exact_literal.h"

// A component with more items than this is not played from its beginning; only its stuck region is.
#define RONDO_SIM_EXPLAIN_ITEMS 20000000u

// Names a collective by its group and index.
static void name_collective(const struct rondo_sim_literal *l, uint32_t collective, char *name,
                            size_t bytes) {
  struct rondo_sim_collective c = rondo_sim_programs_name(l->programs, collective);
  snprintf(name, bytes, "collective %u of group %u", c.index, c.group);
}

static uint32_t gpu_of(const struct rondo_sim_literal *l, uint32_t program) {
  return l->programs->programs[program].gpu;
}

static bool behind_sync(const struct rondo_sim_literal *l, uint32_t program) {
  const struct rondo_sim_program *x = &l->programs->programs[program];
  return (l->programs->items[x->first + l->gpus[program].started] & RONDO_SIM_SYNC_BEFORE) != 0;
}

static void part_explain(struct rondo_sim_literal *l, uint32_t k, struct rondo_sim_text *words) {
  char name[64], next_name[64];
  const struct rondo_sim_part *a = &l->cycle[k], *b = &l->cycle[(k + 1) % l->cycle_count];
  name_collective(l, a->collective, name, sizeof(name));
  name_collective(l, b->collective, next_name, sizeof(next_name));
  if (a->executing) {
    rondo_sim_text_add(words, "%2u. GPU %u executes %s and waits for GPU %u to execute it.\n",
                       k + 1, gpu_of(l, a->program), name, gpu_of(l, b->program));
    return;
  }
  const char *why = behind_sync(l, a->program) ? "suspended by a synchronisation issued before it"
                    : l->limit == 1            ? "it has a single queue"
                                               : "no room is left";
  rondo_sim_text_add(words,
                     "%2u. GPU %u has invoked %s but cannot execute it (%s)\n"
                     "    until %s, which it executes, is successful.\n",
                     k + 1, gpu_of(l, a->program), name, why, next_name);
}

static void cycle_draw(const struct rondo_sim_literal *l, const char *title,
                       struct rondo_sim_graph *g) {
  rondo_sim_graph_init(g, title);
  for (uint32_t k = 0; k < l->cycle_count; k++) {
    char name[64], label[128];
    const struct rondo_sim_part *a = &l->cycle[k];
    name_collective(l, a->collective, name, sizeof(name));
    snprintf(label, sizeof(label), "GPU %u: %s\n%s", gpu_of(l, a->program), name,
             a->executing ? "executing" : "invoked");
    rondo_sim_graph_add_node(g, label, a->executing ? RONDO_SIM_NODE_HOLDS : RONDO_SIM_NODE_WAITS);
  }
  for (uint32_t k = 0; k < l->cycle_count; k++) {
    rondo_sim_graph_add_edge(g, (int)k, (int)((k + 1) % l->cycle_count),
                             l->cycle[k].executing ? "needs its peer" : "waits on this GPU", true);
  }
}

static void cycle_explain(struct rondo_sim_literal *l, const struct rondo_sim_row *row,
                          enum rondo_sim_variant variant, struct rondo_sim_story *story) {
  char title[256];
  const struct rondo_sim_outcome *o = &row->outcomes[variant];
  snprintf(title, sizeof(title), "Row %s (%s), round %llu: the cycle of waits", row->name,
           rondo_sim_variant_name(variant), (unsigned long long)o->total.first_deadlock);
  rondo_sim_text_add(&story->words, "%s\n%s; grouping %u, seed %llu\n", title, row->what,
                     o->first_grouping, (unsigned long long)row->config.seed);
  rondo_sim_text_add(&story->words, "It closed with event %llu of the GPUs involved:\n",
                     (unsigned long long)l->events);
  for (uint32_t k = 0; k < l->cycle_count; k++) {
    part_explain(l, k, &story->words);
  }
  rondo_sim_text_add(&story->words, "%2u. That is where the list began: none can go on.\n",
                     l->cycle_count + 1);
  cycle_draw(l, title, &story->graph);
  story->told = true;
}

// Widens the stuck region of the fast engine to the whole component if that is not too large, so
// that the story begins with the round.
static void region_widen(struct rondo_sim_round *r) {
  const struct rondo_sim_layout *w = r->layout;
  struct rondo_sim_range all =
      rondo_sim_range_of_component(w, w->component[r->fast.programs.programs[0].gpu]);
  uint64_t items = 0;
  for (uint32_t i = 0; i < all.seed_count; i++) {
    items += rondo_sim_layout_length(w, all.seeds[i]);
  }
  if (items <= RONDO_SIM_EXPLAIN_ITEMS) {
    rondo_sim_programs_region(&r->fast.programs, w, &r->events, &all);
  }
}

// Decides the first deadlock of an outcome again, and plays it.
static void outcome_explain(const struct rondo_sim_row *row, enum rondo_sim_variant variant,
                            struct rondo_sim_story *story) {
  const struct rondo_sim_outcome *o = &row->outcomes[variant];
  struct rondo_sim_layout w;
  struct rondo_sim_round r;
  struct rondo_sim_literal l;
  if (!rondo_sim_config_layout(&row->config, o->first_grouping, rondo_sim_variant_order(variant),
                               &w)) {
    return;
  }
  rondo_sim_round_init(&r, &row->config, &w, variant, o->first_grouping);
  if (rondo_sim_round_decide(&r, o->total.first_deadlock)) {
    if (r.decision == RONDO_SIM_DECIDE_FAST) {
      region_widen(&r);
    }
    if (rondo_sim_literal_run(&l, &r.fast.programs, r.fast.limit, RONDO_SIM_ROUND_ROBIN, NULL)) {
      cycle_explain(&l, row, variant, story);
    }
    rondo_sim_literal_fini(&l);
  }
  rondo_sim_round_fini(&r);
  rondo_sim_layout_fini(&w);
}

void rondo_sim_explain(struct rondo_sim_report *r) {
  for (uint32_t i = 0; i < r->row_count && !r->story.told; i++) {
    for (int v = 0; v < RONDO_SIM_PUBLISHED && !r->story.told; v++) {
      if (r->rows[i].outcomes[v].ran && r->rows[i].outcomes[v].total.deadlocks > 0) {
        outcome_explain(&r->rows[i], (enum rondo_sim_variant)v, &r->story);
      }
    }
  }
}
