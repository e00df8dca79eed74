// Programs: what each rank calls, as a list of statements that all ranks execute, each with its own
// groups. A statement comes from the options, from a generator or from a file (docs/simulator.md).
#ifndef RONDO_SIM_SCHEDULE_PROGRAM_H
#define RONDO_SIM_SCHEDULE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/common/text.h"

#define RONDO_SCHEDULE_CHOICE (-1) // in place of an algorithm: the one that the runtime chooses

// `copies` collectives of the groups of `size` ranks that are `stride` apart; each rank calls those
// of its group one after the other, and all that `times` times. So it has `copies` × `times` calls,
// computes for `compute_ns` before each, synchronises its device if `syncs`, and waits for its end
// if `waits`.
struct rondo_schedule_statement {
  char name[32];
  int kind, algorithm; // enum rondo_kind; enum rondo_algorithm, or RONDO_SCHEDULE_CHOICE
  uint64_t bytes, compute_ns;
  uint32_t size, stride; // size 0: all ranks
  uint32_t root;         // position
  uint32_t copies, times;
  bool waits, syncs;
  uint16_t behind;     // of the calls, see struct rondo_schedule_call
  uint32_t parts_seed; // these two of an all-to-all-v, see struct rondo_schedule_shape
  bool returns;
};

struct rondo_schedule_statements {
  struct rondo_schedule_statement *items;
  uint32_t count, capacity;
  uint32_t rank_count; // that the program is for; 0: any
};

// One all-reduce of 1 MiB of all ranks.
struct rondo_schedule_statement rondo_schedule_statement_default(void);

// Reads a kind ("all_reduce"), or an algorithm for a kind: a name as rondo-info plan has it, or
// "recursive", the one of log2 n rounds. Returns false if there is none.
bool rondo_schedule_kind_read(const char *name, int *kind);
bool rondo_schedule_algorithm_read(const char *name, int kind, int *algorithm);

// Appends the statements of a program:
//   "ddp"        the gradients (`like->bytes` in all) in buckets of 25 MiB
//   "3d:T,D,P"   for T × D × P ranks: a tensor-parallel all-reduce after each half of a layer,
//                which the rank waits for, and data-parallel ones of the gradients, beside the
//                backward pass; `like->copies` layers
//   "fsdp:N"     the parameters (`like->bytes` in all) in `like->copies` layers, of which each of N
//                ranks has a part: all-gathers of a layer before it is computed forward and
//                backward, one layer ahead, and a reduce-scatter of its gradients after the latter
//   "moe:E,D"    D × E ranks: all-to-all-v among E experts before and after they compute, forward
//                and backward, in `like->copies` layers, and all-reduces of gradients among D
//   else         a path of a file, which rondo_schedule_program_parse reads
// Kind, bytes, algorithm and compute time are those of `like` unless the program has its own.
bool rondo_schedule_program_read(struct rondo_schedule_statements *s, const char *what,
                                 const struct rondo_schedule_statement *like,
                                 struct rondo_sim_error *error);

// The same of the text of a file. `name`: the file's, for errors.
bool rondo_schedule_program_parse(struct rondo_schedule_statements *s, const char *text,
                                  const char *name, const struct rondo_schedule_statement *like,
                                  struct rondo_sim_error *error);

#endif // RONDO_SIM_SCHEDULE_PROGRAM_H
