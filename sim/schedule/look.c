// Ready flags, ready sets and look rounds (daemon/core/block_ready_core.h) with the same results
// and less work: one thread runs all blocks, so it knows which words may have anything.
#include <stddef.h>

#include "sim/schedule/machine_state.h"

// True if a look at the collective would be one at a wait that is over. Collectives that have ended
// may have looks left; they are not in the queue.
static bool look_succeeds(const struct rondo_block *b, uint32_t index) {
  const uint8_t *flags = (const uint8_t *)(uintptr_t)b->flags;
  if (*rondo_block_ready(b, index) == RONDO_READY_BLIND && !flags[index]) {
    return false;
  }
  return rondo_wait_is_over(rondo_block_wait(b, index)) &&
         rondo_block_context(b, index)->state.phase != RONDO_PHASE_IDLE;
}

static struct rondo_schedule_rank *rank_of(struct rondo_block *b) {
  return (struct rondo_schedule_rank *)(void *)((char *)b -
                                                offsetof(struct rondo_schedule_rank, block));
}

static uint64_t bit_of(uint32_t word) { return UINT64_C(1) << word % 64; }

// Stores the whole word: a load of eight bytes right after a store of one of them makes the
// processor wait.
static void byte_store(uint64_t *words, uint32_t index, uint8_t value) {
  uint32_t shift = index % 8 * 8;
  uint64_t *word = &words[index / 8];
  *word = (*word & ~(UINT64_C(0xff) << shift)) | (uint64_t)value << shift;
}

void rondo_simulate_store_ready(struct rondo_block *b, uint32_t index, uint8_t bits) {
  byte_store((uint64_t *)(uintptr_t)b->ready, index, bits);
  rank_of(b)->ready_words |= bit_of(index / 8);
}

bool rondo_simulate_take_flags(struct rondo_block *b) {
  uint64_t *flags = (uint64_t *)(uintptr_t)b->flags, *ready = (uint64_t *)(uintptr_t)b->ready;
  struct rondo_schedule_rank *r = rank_of(b);
  uint64_t kept = 0;
  bool any = false;
  for (uint64_t bits = r->flag_words; bits; bits &= bits - 1) {
    for (uint32_t i = (uint32_t)__builtin_ctzll(bits); i * 8 < r->member_count; i += 64) {
      if (flags[i] && i * 8 < b->flag_end) {
        ready[i] |= flags[i];
        r->ready_words |= bit_of(i);
        flags[i] = 0;
        any = true;
      }
      kept |= flags[i] ? bit_of(i) : 0;
    }
  }
  r->flag_words = kept;
  return any;
}

// The place of a collective that is in the queue: mostly where it was the last time.
static uint32_t place_of(const struct rondo_schedule_rank *r, uint32_t index) {
  const uint32_t *entries = rondo_task_entries(&r->block.queue);
  uint32_t *place = &r->places[index], at = *place;
  if (at >= r->block.queue.count || rondo_task_index(entries[at]) != index) {
    for (at = 0; rondo_task_index(entries[at]) != index;) {
      at++;
    }
    *place = at;
  }
  return at;
}

// Collectives of the ready set, other than the scheduled one.
#define LOOKS 8u
struct looks {
  uint32_t count; // up to LOOKS + 1: then there may be more
  uint32_t indexes[LOOKS];
};

static void looks_add(struct looks *looks, uint64_t eight, uint32_t first, uint32_t scheduled) {
  while (eight && looks->count <= LOOKS) {
    uint32_t byte = (uint32_t)__builtin_ctzll(eight) / 8;
    eight &= ~(UINT64_C(0xff) << byte * 8);
    if (first + byte != scheduled) {
      if (looks->count < LOOKS) {
        looks->indexes[looks->count] = first + byte;
      }
      looks->count++;
    }
  }
}

static void looks_gather(struct looks *looks, struct rondo_schedule_rank *r, uint32_t scheduled) {
  const uint64_t *ready = (const uint64_t *)(uintptr_t)r->block.ready;
  uint64_t kept = 0;
  looks->count = 0;
  for (uint64_t bits = r->ready_words; bits; bits &= bits - 1) {
    for (uint32_t i = (uint32_t)__builtin_ctzll(bits); i * 8 < r->member_count; i += 64) {
      kept |= ready[i] ? bit_of(i) : 0;
      if (ready[i] && i * 8 < r->block.flag_end) {
        looks_add(looks, ready[i], i * 8, scheduled);
      }
    }
  }
  r->ready_words = kept;
}

// Most look rounds find nothing, or only one place is worth a look. Then nobody has to go through
// the queue. No gate ever fails here.
uint32_t rondo_simulate_look_round(struct rondo_block *b) {
  struct rondo_schedule_rank *r = rank_of(b);
  struct looks looks;
  looks_gather(&looks, r, rondo_task_index(rondo_task_queue_current(&b->queue)));
  if (looks.count > LOOKS) {
    return RONDO_NOT_LOOKED;
  }
  for (uint32_t i = 0; i < looks.count; i++) {
    if (look_succeeds(b, looks.indexes[i])) {
      return looks.count == 1 ? place_of(r, looks.indexes[i]) : RONDO_NOT_LOOKED;
    }
  }
  for (uint32_t i = 0; i < looks.count; i++) { // a round takes the looks that find nothing
    uint32_t index = looks.indexes[i];
    rondo_block_store_ready(b, index, *rondo_block_ready(b, index) & RONDO_READY_ALWAYS);
  }
  return RONDO_NOWHERE;
}

void rondo_schedule_flag_set(struct rondo_schedule_rank *r, const struct rondo_connector *c,
                             uint64_t distance) {
  uint32_t index = (uint32_t)((uintptr_t)c + distance - r->block.flags);
  byte_store((uint64_t *)(uintptr_t)r->block.flags, index, 1);
  r->flag_words |= bit_of(index / 8);
}
