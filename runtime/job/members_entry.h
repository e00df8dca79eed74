// What a process says of itself when it joins: the bytes of its entry in the roster. They are where
// it is, its cost model, and the places of its ranks. Pure.
//
// The cost model of the process of rank 0 is that of the job. Others have none in their entries.
#ifndef RONDO_RUNTIME_JOB_MEMBERS_ENTRY_H
#define RONDO_RUNTIME_JOB_MEMBERS_ENTRY_H

#include "daemon/plan/cost_file.h"
#include "runtime/job/roster.h"
#include "runtime/net/wire.h"

// Writes an entry, with the places of ranks as far as they fit. `model`: null for none. Returns its
// size; 0 if the process itself does not fit.
uint32_t rondo_members_entry_write(const struct rondo_wire_member *member,
                                   const struct rondo_cost_model *model,
                                   uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES]);

// Reads the cost model of an entry. Returns false if it is torn or makes no sense, or without
// memory, and says so in `why`, of RONDO_COST_WHY_BYTES. Writes null if the entry has none, else a
// model that the caller frees, with the digest that it had when it was written and no `tuning`.
bool rondo_members_entry_model(const uint8_t *bytes, uint32_t size, struct rondo_cost_file **file,
                               char *why);

// Writes the ranks of a process as ranges. Returns how many; `ranges` has room for one a rank.
uint32_t rondo_members_entry_ranges(const struct rondo_wire_member *member,
                                    struct rondo_rank_range *ranges);

// Makes the topology of a roster. Returns null if an entry is malformed, or without memory.
struct rondo_topology *rondo_members_entry_topology(const struct rondo_roster *roster);

// Writes who the process of an entry is, such as "node3, pid 412".
void rondo_members_entry_describe(const uint8_t *bytes, uint32_t size, char *text, size_t capacity);

#endif // RONDO_RUNTIME_JOB_MEMBERS_ENTRY_H
