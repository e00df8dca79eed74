// What a process says of itself when it joins: the bytes of its entry in the roster. Pure.
#ifndef RONDO_RUNTIME_JOB_MEMBERS_ENTRY_H
#define RONDO_RUNTIME_JOB_MEMBERS_ENTRY_H

#include "runtime/job/roster.h"
#include "runtime/net/wire.h"

// Writes an entry: where the process is, and the places of its ranks as far as they fit. Returns
// its size; 0 if the process itself does not fit.
uint32_t rondo_members_entry_write(const struct rondo_wire_member *member,
                                   uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES]);

// Writes the ranks of a process as ranges. Returns how many; `ranges` has room for one a rank.
uint32_t rondo_members_entry_ranges(const struct rondo_wire_member *member,
                                    struct rondo_rank_range *ranges);

// Makes the topology of a roster. Returns null if an entry is malformed, or without memory.
struct rondo_topology *rondo_members_entry_topology(const struct rondo_roster *roster);

// Writes who the process of an entry is, such as "node3, pid 412".
void rondo_members_entry_describe(const uint8_t *bytes, uint32_t size, char *text, size_t capacity);

#endif // RONDO_RUNTIME_JOB_MEMBERS_ENTRY_H
