// A team: one thread a rank, started together and joined together.
#ifndef RONDO_EXAMPLES_KIT_TEAM_H
#define RONDO_EXAMPLES_KIT_TEAM_H

#include <stdbool.h>
#include <stdint.h>

struct rondo_kit_team {
  uint32_t count;
  bool pinned; // member r runs on the r-th core that the process may use, modulo their number
  void (*member)(void *arg, uint32_t rank);
  void *arg;
};

struct rondo_kit_crew; // a team that has been started

// Cores that this process may use, at least 1.
uint32_t rondo_kit_core_count(void);

// The cores that a process may use, to be put together with those of other processes of the machine.
struct rondo_kit_cores {
  uint64_t words[16]; // core c is bit c % 64 of word c / 64; cores beyond are left out
};

// Those of this process.
struct rondo_kit_cores rondo_kit_cores_own(void);
void rondo_kit_cores_add(struct rondo_kit_cores *cores, const struct rondo_kit_cores *others);
uint32_t rondo_kit_cores_number(const struct rondo_kit_cores *cores); // at least 1

// Binds the calling thread to the `index`-th core that the process may use, modulo their number.
// Where the system refuses, the thread stays unbound.
void rondo_kit_pin(uint32_t index);

// Starts the members; `team` is copied. Returns null if the threads cannot be had, and
// then no member runs.
struct rondo_kit_crew *rondo_kit_team_start(const struct rondo_kit_team *team);

// Waits for all members and frees the crew.
void rondo_kit_team_join(struct rondo_kit_crew *crew);

// Starts and joins. Returns 0, or -1 if the threads cannot be had.
int rondo_kit_team_run(const struct rondo_kit_team *team);

#endif // RONDO_EXAMPLES_KIT_TEAM_H
