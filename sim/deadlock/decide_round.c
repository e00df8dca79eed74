#include "sim/deadlock/decide_round.h"

#include "sim/deadlock/exact_literal.h"

bool rondo_sim_round_replays(const struct rondo_sim_config *c, enum rondo_sim_variant variant) {
  return variant == RONDO_SIM_PUBLISHED && c->published_stream;
}

static enum rondo_sim_decision decision_of(const struct rondo_sim_config *c,
                                           enum rondo_sim_variant variant) {
  bool naive = c->engine == RONDO_SIM_NAIVE_ENGINE;
  if (variant < RONDO_SIM_PUBLISHED) {
    return naive ? RONDO_SIM_DECIDE_NAIVE : RONDO_SIM_DECIDE_FAST;
  }
  return rondo_sim_round_replays(c, variant)        ? RONDO_SIM_DECIDE_REPLAY
         : naive || c->model == RONDO_SIM_RESOURCES ? RONDO_SIM_DECIDE_PUBLISHED
                                                    : RONDO_SIM_DECIDE_QUICK;
}

void rondo_sim_round_init(struct rondo_sim_round *r, const struct rondo_sim_config *c,
                          const struct rondo_sim_layout *w, enum rondo_sim_variant variant,
                          uint32_t grouping) {
  *r = (struct rondo_sim_round){.config = c,
                                .layout = w,
                                .variant = variant,
                                .grouping = grouping,
                                .decision = decision_of(c, variant),
                                .chances = rondo_sim_config_chances(c)};
  bool single = c->model == RONDO_SIM_SINGLE_QUEUE;
  if (variant < RONDO_SIM_PUBLISHED) {
    rondo_sim_fast_init(&r->fast, w, rondo_sim_config_limit(c));
    return;
  }
  r->chances.skipped = RONDO_SIM_SKIPPED_KEEPS_ODDS;
  if (r->decision == RONDO_SIM_DECIDE_QUICK) {
    rondo_sim_quick_init(&r->quick, w, single);
  } else {
    rondo_sim_published_init(&r->published, w, single, &r->chances, (uint32_t)c->resources);
  }
}

void rondo_sim_round_fini(struct rondo_sim_round *r) {
  rondo_sim_events_fini(&r->events);
  rondo_sim_fast_fini(&r->fast);
  rondo_sim_published_fini(&r->published);
  rondo_sim_quick_fini(&r->quick);
}

static bool naive_decide(struct rondo_sim_round *r, struct rondo_sim_rng *rng) {
  struct rondo_sim_literal literal;
  rondo_sim_programs_draw(&r->fast.programs, r->layout, &r->chances, rng);
  bool deadlock =
      rondo_sim_literal_run(&literal, &r->fast.programs, r->fast.limit, r->config->turns, rng);
  rondo_sim_literal_fini(&literal);
  return deadlock;
}

bool rondo_sim_round_decide(struct rondo_sim_round *r, uint64_t round) {
  struct rondo_sim_draws draws = {0};
  struct rondo_sim_rng rng;
  // Each variant has streams of its own, so that their ratios are independent estimates.
  rondo_sim_rng_begin(&rng, r->config->seed ^ (uint64_t)r->variant << 56, r->grouping, round);
  switch (r->decision) {
  case RONDO_SIM_DECIDE_FAST:
    rondo_sim_events_draw(&r->events, r->layout, &r->chances, false, &rng);
    return rondo_sim_fast_deadlock(&r->fast, &r->events);
  case RONDO_SIM_DECIDE_NAIVE:
    return naive_decide(r, &rng);
  case RONDO_SIM_DECIDE_QUICK:
    rondo_sim_events_draw(&r->events, r->layout, &r->chances, true, &rng);
    return rondo_sim_quick_deadlock(&r->quick, &r->events);
  case RONDO_SIM_DECIDE_REPLAY:
    if (round % r->config->rounds == 0) {
      rondo_sim_mersenne_seed(&r->mersenne, 2023); // each of the published processes does
    }
    draws.mersenne = &r->mersenne;
    break;
  default:
    draws.rng = &rng;
  }
  return rondo_sim_published_round(&r->published, draws);
}

enum rondo_sim_order rondo_sim_variant_order(enum rondo_sim_variant variant) {
  static const enum rondo_sim_order orders[] = {RONDO_SIM_INTERLEAVED, RONDO_SIM_SEQUENTIAL,
                                                RONDO_SIM_INTERLEAVED, RONDO_SIM_SEQUENTIAL};
  return orders[variant];
}

const char *rondo_sim_variant_name(enum rondo_sim_variant variant) {
  static const char *const names[] = {"interleaved", "sequential", "dfccl", "dfccl-sequential"};
  return names[variant];
}
