// Decides single rounds of one grouping: does the round end in a deadlock?
//
//   rondo_sim_round_init(&r, &config, &layout, variant, grouping);
//   bool deadlock = rondo_sim_round_decide(&r, 17);  ... any number of rounds ...
//   rondo_sim_round_fini(&r);
//
// Every round has its own stream of random numbers, so rounds may be decided in any order, except
// where rondo_sim_round_replays() says otherwise. One object belongs to one thread.
#ifndef RONDO_SIM_DEADLOCK_DECIDE_ROUND_H
#define RONDO_SIM_DEADLOCK_DECIDE_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/config.h"
#include "sim/deadlock/exact_fast.h"
#include "sim/deadlock/mersenne.h"
#include "sim/deadlock/published_literal.h"
#include "sim/deadlock/published_quick.h"

// How a round is decided.
enum rondo_sim_variant {
  RONDO_SIM_EXACT_INTERLEAVED, // real cycles, interleaved lists
  RONDO_SIM_EXACT_SEQUENTIAL,  // real cycles, sequential lists
  RONDO_SIM_PUBLISHED,         // the published simulator's decisions; the exact ones come before
  // The same on sequential lists, which its source code has commented out:
  RONDO_SIM_PUBLISHED_SEQUENTIAL,
  RONDO_SIM_VARIANTS
};

enum rondo_sim_decision {
  RONDO_SIM_DECIDE_FAST,      // exact, near the windows
  RONDO_SIM_DECIDE_NAIVE,     // exact, every event and every turn
  RONDO_SIM_DECIDE_QUICK,     // published, from the events
  RONDO_SIM_DECIDE_PUBLISHED, // published, every event and every turn
  RONDO_SIM_DECIDE_REPLAY     // the same with the published random numbers
};

struct rondo_sim_round {
  const struct rondo_sim_config *config;
  const struct rondo_sim_layout *layout;
  enum rondo_sim_variant variant;
  uint32_t grouping;
  enum rondo_sim_decision decision;
  struct rondo_sim_chances chances;
  struct rondo_sim_events events;
  struct rondo_sim_fast fast; // fast.programs: where an exact deadlock lies
  struct rondo_sim_published published;
  struct rondo_sim_mersenne mersenne;
  struct rondo_sim_quick quick;
};

// The config and the layout must outlive the object.
void rondo_sim_round_init(struct rondo_sim_round *r, const struct rondo_sim_config *c,
                          const struct rondo_sim_layout *w, enum rondo_sim_variant variant,
                          uint32_t grouping);
void rondo_sim_round_fini(struct rondo_sim_round *r);

// True if the round is a deadlock.
bool rondo_sim_round_decide(struct rondo_sim_round *r, uint64_t round);

// True if all rounds share one stream of random numbers: they must come in order, on one thread.
bool rondo_sim_round_replays(const struct rondo_sim_config *c, enum rondo_sim_variant variant);

// The order of the lists in a variant.
enum rondo_sim_order rondo_sim_variant_order(enum rondo_sim_variant variant);

// The name in tables, --variant and JSON.
const char *rondo_sim_variant_name(enum rondo_sim_variant variant);

#endif // RONDO_SIM_DEADLOCK_DECIDE_ROUND_H
