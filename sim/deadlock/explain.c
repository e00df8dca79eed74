#include "sim/deadlock/explain.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/deadlock/fast.h"
#include "sim/deadlock/literal.h"
#include "sim/deadlock/naive.h"

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

static bool programs_explain(struct rondo_sim_programs *p, uint32_t limit,
                             const struct rondo_sim_row *row, enum rondo_sim_variant variant,
                             struct rondo_sim_story *story) {
  struct rondo_sim_literal l;
  rondo_sim_literal_init(&l, p, limit);
  bool deadlock = rondo_sim_literal_run(&l, RONDO_SIM_ROUND_ROBIN, NULL);
  if (deadlock) {
    cycle_explain(&l, row, variant, story);
  }
  rondo_sim_literal_fini(&l);
  return deadlock;
}

// Rebuilds the round of the fast engine: its stuck region, widened to the whole component if that
// is not too large, so that the story begins with the round.
static bool replay_fast(const struct rondo_sim_world *w, const struct rondo_sim_row *row,
                        enum rondo_sim_variant variant, struct rondo_sim_rng *rng,
                        struct rondo_sim_story *story) {
  struct rondo_sim_chances chances = rondo_sim_config_chances(&row->config);
  struct rondo_sim_events e;
  struct rondo_sim_fast fast;
  uint32_t limit = rondo_sim_config_limit(&row->config);
  rondo_sim_events_init(&e);
  rondo_sim_events_draw(&e, w, &chances, false, rng);
  rondo_sim_fast_init(&fast, w, limit);
  bool told = rondo_sim_fast_deadlock(&fast, &e);
  if (told) {
    uint32_t component = w->component[fast.programs.programs[0].gpu];
    uint32_t first = w->component_first[component], end = w->component_first[component + 1];
    uint64_t items = 0;
    for (uint32_t i = first; i < end; i++) {
      items += rondo_sim_world_length(w, w->component_gpus[i]);
    }
    if (items <= RONDO_SIM_EXPLAIN_ITEMS) {
      struct rondo_sim_range all = {0, UINT64_MAX, w->component_gpus + first, end - first};
      rondo_sim_programs_region(&fast.programs, w, &e, &all);
    }
    told = programs_explain(&fast.programs, limit, row, variant, story);
  }
  rondo_sim_fast_fini(&fast);
  rondo_sim_events_fini(&e);
  return told;
}

static bool replay_naive(const struct rondo_sim_world *w, const struct rondo_sim_row *row,
                         enum rondo_sim_variant variant, struct rondo_sim_rng *rng,
                         struct rondo_sim_story *story) {
  struct rondo_sim_chances chances = rondo_sim_config_chances(&row->config);
  struct rondo_sim_programs p;
  rondo_sim_programs_init(&p, w);
  rondo_sim_naive_draw(&p, w, &chances, rng);
  bool told = programs_explain(&p, rondo_sim_config_limit(&row->config), row, variant, story);
  rondo_sim_programs_fini(&p);
  return told;
}

static bool explain_outcome(const struct rondo_sim_row *row, enum rondo_sim_variant variant,
                            struct rondo_sim_story *story) {
  const struct rondo_sim_outcome *o = &row->outcomes[variant];
  struct rondo_sim_world w;
  struct rondo_sim_rng rng;
  enum rondo_sim_order order =
      variant == RONDO_SIM_EXACT_SEQUENTIAL ? RONDO_SIM_SEQUENTIAL : RONDO_SIM_INTERLEAVED;
  if (!rondo_sim_config_world(&row->config, o->first_grouping, order, &w)) {
    return false;
  }
  rondo_sim_run_stream(&rng, &row->config, variant, o->first_grouping, o->total.first_deadlock);
  bool told = row->config.engine == RONDO_SIM_NAIVE_ENGINE
                  ? replay_naive(&w, row, variant, &rng, story)
                  : replay_fast(&w, row, variant, &rng, story);
  rondo_sim_world_fini(&w);
  return told;
}

bool rondo_sim_explain(struct rondo_sim_report *r) {
  for (uint32_t i = 0; i < r->row_count && !r->story.told; i++) {
    for (int v = 0; v < RONDO_SIM_PUBLISHED && !r->story.told; v++) {
      if (r->rows[i].outcomes[v].ran && r->rows[i].outcomes[v].total.deadlocks > 0) {
        explain_outcome(&r->rows[i], (enum rondo_sim_variant)v, &r->story);
      }
    }
  }
  return r->story.told;
}
