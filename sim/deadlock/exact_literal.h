// The paper's simulator, literally (DFCCL section 2.4.1): GPUs take turns, each issues the next
// event of its program, collectives go from *invoked* to *executing* to *successful*, and the
// dependency graph is searched for a cycle after each invocation and each synchronisation.
//
// The graph: an executing collective on one GPU points to its invoked counterparts on other GPUs;
// an invoked collective on a GPU points to all executing collectives of that GPU. A GPU may hold a
// limited number of executing collectives (RONDO_SIM_UNLIMITED: no limit, 1: single queue). With a
// limit above 1, a GPU that waits for room waits for any of them, and a cycle is not enough: the
// search looks for a set of GPUs of which each waits for the set alone, and shows a cycle inside
// it.
//
// A suspended GPU goes on invoking; its collectives wait for the end of the synchronisation.
//
// The naive engine uses this simulation, it explains the deadlocks of the fast engine, and tests
// compare the fast engine with it. One object belongs to one thread.
#ifndef RONDO_SIM_DEADLOCK_EXACT_LITERAL_H
#define RONDO_SIM_DEADLOCK_EXACT_LITERAL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/programs.h"
#include "sim/common/rng.h"

// The order of turns; the paper leaves it open. It changes when a deadlock shows, never whether.
enum rondo_sim_turns { RONDO_SIM_ROUND_ROBIN, RONDO_SIM_RANDOM_TURNS };

// A node of the cycle: the part of a collective on a GPU.
struct rondo_sim_part {
  uint32_t program, collective; // local numbers of the programs
  bool executing;               // else invoked
};

struct rondo_sim_literal_gpu {
  uint32_t issued, started; // items of the program
  bool sync_issued;         // the synchronisation before item `issued` has been issued
  uint32_t *executing;      // collectives
  uint32_t executing_count;
  uint64_t mark; // of the search
  bool touched;
};

struct rondo_sim_literal_collective {
  uint64_t first_position;
  uint32_t missing; // members that have not started it
};

// A GPU on the path of a search, and the position in its edges: executing collective by executing
// collective, member by member.
struct rondo_sim_literal_step {
  uint32_t program, executing, member;
};

struct rondo_sim_literal {
  const struct rondo_sim_programs *programs;
  uint32_t limit;
  struct rondo_sim_literal_gpu *gpus;
  uint32_t *executing_pool;
  uint32_t *position; // of each local collective, at each member: item number
  struct rondo_sim_literal_collective *collectives;
  uint32_t *touched;
  struct rondo_sim_literal_step *path;
  struct rondo_sim_part *cycle;
  uint32_t touched_count, cycle_count;
  uint64_t events, searches; // issued so far; made so far
};

// Runs to the end of the round: all collectives successful, or a deadlock. Returns true for a
// deadlock; l->cycle then holds its nodes in order, each waiting for the next and the last for the
// first. Only random turns use `rng`. The caller frees what `l` holds.
bool rondo_sim_literal_run(struct rondo_sim_literal *l, const struct rondo_sim_programs *p,
                           uint32_t limit, enum rondo_sim_turns turns, struct rondo_sim_rng *rng);
void rondo_sim_literal_fini(struct rondo_sim_literal *l);

#endif // RONDO_SIM_DEADLOCK_EXACT_LITERAL_H
