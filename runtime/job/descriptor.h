// What all members of a group must agree on when they register a collective: its descriptor without
// the member list and without what each rank has for itself. Sent between processes.
#ifndef RONDO_RUNTIME_JOB_DESCRIPTOR_H
#define RONDO_RUNTIME_JOB_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rondo_descriptor {
  uint64_t count;
  int32_t kind, dtype, redop;
  uint32_t root; // a position
  uint32_t nranks;
  uint32_t first_rank, last_rank; // of the group, for texts
  uint32_t blocks, chunk_elems, slot_count;
  uint32_t first_sequence;
  uint8_t algorithm;    // enum rondo_algorithm
  uint8_t quantisation; // enum rondo_quantisation
  uint8_t has_counts;   // 1: an all-to-all-v with the same counts in each run
  uint8_t on_loss;      // enum rondo_on_loss
  uint64_t topology;    // its digest (daemon/plan/plan_topology.h)
};

// True if the plan is known. Before that, algorithm, chunk_elems, slot_count and topology are 0.
static inline bool rondo_descriptor_is_planned(const struct rondo_descriptor *d) {
  return d->slot_count != 0;
}

// True if the fields have values that a registration in a job of `rank_count` ranks can have.
bool rondo_descriptor_is_sound(const struct rondo_descriptor *d, uint32_t rank_count);

// The name of the first property in which two descriptors differ, or null. Two groups may differ
// although their descriptors do not.
const char *rondo_descriptor_difference(const struct rondo_descriptor *a,
                                        const struct rondo_descriptor *b);

// Writes what rank `rank` has registered, for a report of a difference in `what` (null: any).
void rondo_descriptor_describe(const struct rondo_descriptor *d, uint32_t rank, const char *what,
                               char *text, size_t text_bytes);

// Writes to `text` (RONDO_REASON_BYTES) that two ranks have registered id `id` differently in
// `what`.
void rondo_mismatch_describe(uint64_t id, const char *what, const char *left, const char *right,
                             char *text);

#endif // RONDO_RUNTIME_JOB_DESCRIPTOR_H
