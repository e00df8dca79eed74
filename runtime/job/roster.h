// The roster: the processes of a job, with the machine and the ranks of each, and with bytes of the
// shell about each (addresses, topology). The root makes it once. It does not change, and the
// epochs of the job share it.
//
//   rondo_roster_builder_add ... -> rondo_roster_build -> rondo_roster_entry_get, process_of
//     -> rondo_roster_put
//
// A process is a number: its place in the roster, in the order of their lowest ranks.
#ifndef RONDO_RUNTIME_JOB_ROSTER_H
#define RONDO_RUNTIME_JOB_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/net/shared_bytes.h"
#include <rondo/types.h>

#define RONDO_ROSTER_NOBODY UINT32_MAX
#define RONDO_ROSTER_MAX_BYTES (UINT32_C(256) << 20)
#define RONDO_ROSTER_ENTRY_BYTES 26624u // most of one process's own bytes (members_entry.h)

// The ranks first, first + stride, … of a process.
struct rondo_rank_range {
  uint32_t first, count, stride;
};

// Why a rank is in no process of the roster.
enum rondo_absence { RONDO_ABSENT_MISSING = 1, RONDO_ABSENT_LEFT = 2 };

// One process. What it points to belongs to the roster.
struct rondo_roster_entry {
  uint64_t machine; // equal for processes of one machine
  uint32_t range_count;
  const uint8_t *ranges; // encoded: rondo_roster_range
  uint32_t size;
  const uint8_t *bytes; // the shell's
};

struct rondo_roster {
  uint32_t refs;
  uint32_t rank_count, process_count, machine_count;
  bool is_restartable; // processes keep logs: one that has ended may come back
  uint64_t digest;     // of the bytes
  struct rondo_shared_bytes *bytes;
  uint32_t *offsets;                 // in `bytes`, by process
  uint32_t *machine_of;              // by process: numbers below machine_count
  uint32_t *process_of;              // by rank; RONDO_ROSTER_NOBODY: absent
  uint8_t *absence;                  // by rank: enum rondo_absence, or 0
  struct rondo_shared_bytes **parts; // messages made of it (membership_message.h), or null
  uint32_t part_count;
};

// Decodes a roster. Keeps a reference to `bytes`. Returns null if they are malformed or there is no
// memory.
struct rondo_roster *rondo_roster_decode(struct rondo_shared_bytes *bytes);
struct rondo_roster *rondo_roster_get(struct rondo_roster *roster);
void rondo_roster_put(struct rondo_roster *roster);

void rondo_roster_entry_get(const struct rondo_roster *roster, uint32_t process,
                            struct rondo_roster_entry *entry);
struct rondo_rank_range rondo_roster_range(const struct rondo_roster_entry *entry, uint32_t i);

// ---- of the root ----

// A process that has joined.
struct rondo_roster_source {
  uint64_t machine;
  const struct rondo_rank_range *ranges; // ascending by `first`
  uint32_t range_count;
  uint32_t size;
  const uint8_t *bytes;
};

// Encodes a roster of the processes, which are in the order of their lowest ranks. `absence`, by
// rank, is read for ranks that no process has. Returns null if it would be too long, or without
// memory.
struct rondo_shared_bytes *rondo_roster_encode(const struct rondo_roster_source *sources,
                                               uint32_t process_count, uint32_t rank_count,
                                               const uint8_t *absence, bool is_restartable);

#endif // RONDO_RUNTIME_JOB_ROSTER_H
