// The mirror: what blocks of a device poll, copied from the host's memory to the device's.
//
// A load of the host's memory takes a GPU as long as eight of its own. So one warp of a device
// keeps the mirror of a daemon, and no block reads the host's memory to see whether something has
// changed. The warp passes the entries of the SQ on to the inboxes of the blocks, and copies the
// exit word. For each collective that it has passed a run of, until that run has ended, it copies
// the gate, and says whether the run's stream has reached the run.
//
//   own -> step ... -> disown
//
// Every launched block has such a warp, and one of them at a time owns the mirror. Nothing is lost
// when that block leaves: the state is in the mirror, and block 0 releases an entry of the SQ only
// when it has accepted it, so the launcher sees what no block has.
//
// Blocks of the host's own daemons read the words themselves.
//
// Edges (docs/memory-order.md):
//   S1/S2 an entry: from the CPU to the mirror, and from the mirror to the inboxes.
//   X1 disown pairs with X2 try_own: the state of the mirror, and of the inboxes' producers.
//   G3 stores the copy of a gate, after G2 of its host words; pairs with G2 in a block.
//   D6 stores that a stream has reached a run, after D2 of the doorbell; pairs with D2 in a block.
#ifndef RONDO_DAEMON_CORE_MIRROR_CORE_H
#define RONDO_DAEMON_CORE_MIRROR_CORE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/explore.h"
#include "base/platform.h"
#include "daemon/core/context_core.h"
#include "queues/sq_core.h"

// Collectives that one step looks at. Their loads are in flight at once.
#define RONDO_MIRROR_VISITS 4u

struct rondo_mirror {
  uint32_t owner; // 1 while a warp keeps the mirror (X1/X2)
  uint32_t exit;  // copy of the exit word
  uint8_t blocks_line[RONDO_LINE_BYTES - 8];
  // Of the owner. Addresses are constant.
  uint64_t exit_word;              // in the host's memory
  struct rondo_sq_consumer source; // of the SQ
  uint64_t inboxes;                // of struct rondo_sq_producer, by block
  uint64_t copies;                 // of struct rondo_mirror_copy, by table index
  uint64_t watched;                // of as many table indexes
  uint32_t watched_count;
  uint32_t cursor; // place in `watched` that the next step begins with
  uint8_t owner_line[RONDO_LINE_BYTES - 56];
};
static_assert(sizeof(struct rondo_mirror) == 2 * RONDO_LINE_BYTES, "shared layout");

// Takes the mirror. A warp that has it calls rondo_mirror_step until its block leaves.
RONDO_FN bool rondo_mirror_try_own(struct rondo_mirror *m) {
  return rondo_load_relaxed_u32(&m->owner) == 0 &&
         rondo_try_swap_acq_rel_device_u32(&m->owner, 0, 1); // X2
}

RONDO_FN void rondo_mirror_disown(struct rondo_mirror *m) {
  rondo_store_release_device_u32(&m->owner, 0); // X1
}

RONDO_FN uint32_t *rondo_mirror_watched(const struct rondo_mirror *m) {
  return (uint32_t *)(uintptr_t)m->watched;
}

RONDO_FN const struct rondo_communicator_gate *
rondo_mirror_gate(const struct rondo_mirror_copy *copy) {
  return (const struct rondo_communicator_gate *)(uintptr_t)copy->watched_gate;
}

// A member that leaves because of a failure stores the failure first, so the state is loaded after
// `last_run`, and stored before it.
RONDO_FN void rondo_mirror_copy_gate(struct rondo_mirror_copy *copy) {
  const struct rondo_communicator_gate *gate = rondo_mirror_gate(copy);
  uint64_t last_run = rondo_load_acquire_u64(&gate->last_run);    // G2
  uint32_t state = rondo_load_acquire_u32(&gate->state);          // G2
  rondo_store_release_device_u32(&copy->seen.state, state);       // G3
  rondo_store_release_device_u64(&copy->seen.last_run, last_run); // G3
}

// ---------------------------------------------------------------------- entries --

// A collective that has the index of an earlier one: what is known of that one is void. Blocks read
// the copy after the entry.
RONDO_FN void rondo_mirror_renew(struct rondo_mirror_copy *copy, uint32_t generation) {
  copy->generation = generation;
  copy->watched_gate = copy->gate;
  rondo_store_relaxed_u32(&copy->seen.state, RONDO_GATE_CLOSED);
  rondo_store_relaxed_u64(&copy->seen.last_run, UINT64_MAX);
  rondo_store_relaxed_u64(&copy->ended, 0);
  for (uint32_t i = 0; i < RONDO_DEVICE_RUNS; i++) {
    copy->runs[i].words = 0;
    rondo_store_relaxed_u64(&copy->due[i], 0);
  }
}

// Looks after the gate and the stream of a run from now on. Before its entry is passed on.
RONDO_FN void rondo_mirror_watch(struct rondo_mirror *m, const struct rondo_sqe *entry) {
  struct rondo_mirror_copy *copy = rondo_mirror_copy_at(m->copies, entry->collective);
  struct rondo_mirror_run *run = &copy->runs[entry->run % RONDO_DEVICE_RUNS];
  if (!copy->watched_gate || copy->generation != entry->generation)
    rondo_mirror_renew(copy, entry->generation);
  run->words = entry->stream;
  run->ticket = entry->ticket;
  run->number = copy->passed = entry->run;
  if (!(entry->flags & RONDO_SQE_OPEN)) // the block will ask, and must not find an older state
    rondo_mirror_copy_gate(copy);
  if (copy->is_watched)
    return;
  copy->is_watched = 1;
  rondo_mirror_watched(m)[m->watched_count++] = entry->collective;
}

// Passes entries on to the inboxes, while there is room. Returns how many.
RONDO_FN uint32_t rondo_mirror_pass(struct rondo_mirror *m) {
  struct rondo_sq_producer *inboxes = (struct rondo_sq_producer *)(uintptr_t)m->inboxes;
  uint32_t passed = 0;
  for (; passed < RONDO_MIRROR_VISITS; passed++) {
    const struct rondo_sqe *peeked = rondo_sq_try_peek(&m->source);
    if (!peeked)
      break;
    struct rondo_sqe entry = *peeked;
    // Block 0 has room: it releases the SQ itself, which is as long as its inbox.
    if (!rondo_sq_can_fan_out(inboxes, 1, entry.block_count))
      break;
    rondo_mirror_watch(m, &entry);
    if (entry.stream)
      entry.stream |= RONDO_STREAM_MIRRORED;
    rondo_sq_fan_out(inboxes, 0, &entry);
    rondo_sq_take(&m->source);
  }
  return passed;
}

// -------------------------------------------------------------- gates and streams --

// What one look found in the host's memory.
struct rondo_mirror_look {
  uint32_t index;
  uint32_t is_over; // 1: no run is outstanding, and nothing was looked at
  uint32_t state;
  uint64_t last_run;
  uint64_t doorbells[RONDO_DEVICE_RUNS];
};

RONDO_FN const struct rondo_stream_words *rondo_mirror_words(const struct rondo_mirror_run *run) {
  return (const struct rondo_stream_words *)(uintptr_t)run->words;
}

// True if all runs that were passed on have ended.
RONDO_FN bool rondo_mirror_is_over(const struct rondo_mirror_copy *copy) {
  return rondo_load_relaxed_u64(&copy->ended) == copy->passed;
}

// The loads need no order: what has changed is loaded again.
RONDO_FN void rondo_mirror_look(const struct rondo_mirror *m, uint32_t place,
                                struct rondo_mirror_look *look) {
  look->index = rondo_mirror_watched(m)[place];
  const struct rondo_mirror_copy *copy = rondo_mirror_copy_at(m->copies, look->index);
  const struct rondo_communicator_gate *gate = rondo_mirror_gate(copy);
  look->is_over = rondo_mirror_is_over(copy);
  if (look->is_over)
    return;
  look->state = rondo_load_relaxed_u32(&gate->state);
  look->last_run = rondo_load_relaxed_u64(&gate->last_run);
  for (uint32_t i = 0; i < RONDO_DEVICE_RUNS; i++)
    look->doorbells[i] = copy->runs[i].words
                             ? rondo_load_relaxed_u64(&rondo_mirror_words(&copy->runs[i])->doorbell)
                             : 0;
}

// A run that has been reached is looked after no more: its block may reset the doorbell.
RONDO_FN void rondo_mirror_reach(struct rondo_mirror_copy *copy, uint32_t parity) {
  struct rondo_mirror_run *run = &copy->runs[parity];
  if (rondo_load_acquire_u64(&rondo_mirror_words(run)->doorbell) < run->ticket) // D2
    return;
  rondo_store_release_device_u64(&copy->due[parity], run->number); // D6
  run->words = 0;
}

// Takes a collective off the list, whose last run has ended.
RONDO_FN void rondo_mirror_forget(struct rondo_mirror *m, uint32_t place) {
  uint32_t *watched = rondo_mirror_watched(m);
  struct rondo_mirror_copy *copy = rondo_mirror_copy_at(m->copies, watched[place]);
  for (uint32_t i = 0; i < RONDO_DEVICE_RUNS; i++)
    copy->runs[i].words = 0; // a run that failed before its stream had reached it
  copy->is_watched = 0;
  watched[place] = watched[--m->watched_count];
}

// Copies what a look has found.
RONDO_FN void rondo_mirror_note(struct rondo_mirror *m, uint32_t place,
                                const struct rondo_mirror_look *look) {
  struct rondo_mirror_copy *copy = rondo_mirror_copy_at(m->copies, look->index);
  if (look->is_over) {
    if (rondo_mirror_is_over(copy)) // a run may have been passed on since
      rondo_mirror_forget(m, place);
    return;
  }
  bool is_changed = look->state != rondo_load_relaxed_u32(&copy->seen.state) ||
                    look->last_run != rondo_load_relaxed_u64(&copy->seen.last_run);
  if (is_changed && !RONDO_FAULT(GATE_NOT_MIRRORED))
    rondo_mirror_copy_gate(copy);
  for (uint32_t i = 0; i < RONDO_DEVICE_RUNS; i++)
    if (copy->runs[i].words && look->doorbells[i] >= copy->runs[i].ticket)
      rondo_mirror_reach(copy, i);
}

// ------------------------------------------------------------------------- steps --

// One bounded step of the owner. Returns true if it passed an entry on.
RONDO_FN bool rondo_mirror_step(struct rondo_mirror *m) {
  const uint32_t *exit_word = (const uint32_t *)(uintptr_t)m->exit_word;
  struct rondo_mirror_look looks[RONDO_MIRROR_VISITS];
  const uint32_t first = m->cursor < m->watched_count ? m->cursor : 0;
  const uint32_t rest = m->watched_count - first;
  const uint32_t exits = rondo_load_relaxed_u32(exit_word);
  RONDO_UNROLL for (uint32_t i = 0; i < RONDO_MIRROR_VISITS; i++) {
    if (i < rest)
      rondo_mirror_look(m, first + i, &looks[i]);
  }
  m->cursor = first + RONDO_MIRROR_VISITS;
  bool passed = rondo_mirror_pass(m) != 0; // its load is in flight with those of the looks
  // Backwards: to forget a collective moves the last one to its place.
  RONDO_UNROLL for (uint32_t i = RONDO_MIRROR_VISITS; i-- > 0;) {
    if (i < rest)
      rondo_mirror_note(m, first + i, &looks[i]);
  }
  if (exits != rondo_load_relaxed_u32(&m->exit) && !RONDO_FAULT(EXIT_NOT_MIRRORED))
    rondo_store_release_device_u32(&m->exit, rondo_load_acquire_u32(exit_word));
  return passed;
}

#endif // RONDO_DAEMON_CORE_MIRROR_CORE_H
