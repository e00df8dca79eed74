// What to simulate: the configuration, from a JSON file or from options.
//
// Two formats are read: Rondo's own (docs/simulator.md) and the files of the published DFCCL
// simulator, which are recognised by their keys (total_rounds, ...) and need no change. A bad file
// is refused with one line that names the key and the line of the file.
//
//   rondo_sim_config_init(&c);
//   rondo_sim_config_load(&c, path, &error);  ...  rondo_sim_config_fini(&c);
#ifndef RONDO_SIM_DEADLOCK_CONFIG_H
#define RONDO_SIM_DEADLOCK_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/common/text.h"
#include "sim/deadlock/events.h"
#include "sim/deadlock/exact_literal.h"
#include "sim/deadlock/layout.h"

enum rondo_sim_model {
  RONDO_SIM_SINGLE_QUEUE,    // a GPU executes one collective at a time
  RONDO_SIM_SYNCHRONISATION, // any number at a time; synchronisations suspend the GPU
  RONDO_SIM_RESOURCES // at most `resources` at a time; synchronisations if their chance is > 0
};

enum rondo_sim_grouping {
  RONDO_SIM_3D,         // tensor, data and pipeline parallel sizes
  RONDO_SIM_FREE,       // the groups are listed
  RONDO_SIM_FREE_DRAWN, // only sizes are given; groupings are drawn from a seed
};

enum rondo_sim_engine { RONDO_SIM_FAST_ENGINE, RONDO_SIM_NAIVE_ENGINE };

// `count` groups of `gpus` GPUs each, to be drawn.
struct rondo_sim_group_sizes {
  uint32_t count, gpus;
};

struct rondo_sim_config {
  enum rondo_sim_model model;
  double disorder, synchronisation; // probabilities
  uint64_t resources;
  enum rondo_sim_order order;
  enum rondo_sim_skipped skipped;
  enum rondo_sim_turns turns;
  enum rondo_sim_engine engine;
  unsigned compat_dfccl; // 1: adds the published simulator's decisions
  bool published_stream; // of a published file with fix_seed 1: use its random numbers
  uint32_t processes;    // of a published file: each runs `rounds`
  uint64_t rounds, seed;
  uint64_t threads; // 0: one for each processor
  enum rondo_sim_grouping grouping;
  uint32_t tensor, data, pipeline;               // 3D: group sizes
  uint32_t tensor_collectives, data_collectives; // 3D: of each group
  uint32_t gpu_count, group_count;               // free
  struct rondo_sim_group *groups;                // free, listed: with their own gpus arrays
  struct rondo_sim_group_sizes *sizes;           // drawn
  uint32_t size_count;
  uint32_t *collective_choices; // drawn: each goes to an equal share of the groups
  uint32_t choice_count;
  uint32_t max_groups_per_gpu, draws;
  uint64_t grouping_seed;
};

// The defaults: one group of 8 GPUs with 161 collectives, single queue, disorder 1e-5.
void rondo_sim_config_init(struct rondo_sim_config *c);
void rondo_sim_config_fini(struct rondo_sim_config *c);

// Frees the listed groups.
void rondo_sim_config_forget_groups(struct rondo_sim_config *c);

// Copies a configuration; the copy shares nothing with `from`.
void rondo_sim_config_copy(struct rondo_sim_config *c, const struct rondo_sim_config *from);

// Reads a file into an initialised configuration. False on a bad file.
bool rondo_sim_config_load(struct rondo_sim_config *c, const char *path,
                           struct rondo_sim_error *error);

// The same from text; errors call it `name`.
bool rondo_sim_config_parse(struct rondo_sim_config *c, const char *text, const char *name,
                            struct rondo_sim_error *error);

// The names of the options that rondo_sim_config_set() knows, and files too.
#define RONDO_SIM_WORD_OPTIONS "model,order,skipped,turns,engine,compat"
#define RONDO_SIM_NUMBER_OPTIONS "disorder,synchronisation,resources,rounds,seed,threads"

// Sets one named option from text. False if the value is wrong; the option is lost then.
bool rondo_sim_config_set(struct rondo_sim_config *c, const char *name, const char *value,
                          struct rondo_sim_error *error);

// Checks the values against each other.
bool rondo_sim_config_check(const struct rondo_sim_config *c, struct rondo_sim_error *error);

// Appends the configuration as JSON for the published simulator: one process with a new seed each
// time, and the first of drawn groupings. False if that simulator lacks the model.
bool rondo_sim_config_export(const struct rondo_sim_config *c, struct rondo_sim_text *out);

// Builds the layout of one grouping. False if the sizes cannot be drawn.
bool rondo_sim_config_layout(const struct rondo_sim_config *c, uint32_t grouping,
                             enum rondo_sim_order order, struct rondo_sim_layout *w);

// The number of collectives that a GPU may execute at once in this model.
uint32_t rondo_sim_config_limit(const struct rondo_sim_config *c);

// The probability of a synchronisation in this model.
double rondo_sim_config_synchronisation(const struct rondo_sim_config *c);

// The chances of disorder at a slot in this model.
struct rondo_sim_chances rondo_sim_config_chances(const struct rondo_sim_config *c);

const char *rondo_sim_model_name(enum rondo_sim_model model);

#endif // RONDO_SIM_DEADLOCK_CONFIG_H
