#include "sim/deadlock/events.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

void rondo_sim_events_fini(struct rondo_sim_events *e) {
  free(e->windows);
  free(e->permuted);
  free(e->syncs);
  free(e->pending);
  *e = (struct rondo_sim_events){0};
}

static void add_permuted(struct rondo_sim_events *e, uint32_t slot) {
  RONDO_SIM_GROW(e->permuted, e->permuted_count, e->permuted_capacity, 64);
  e->permuted[e->permuted_count++] = slot;
}

static void add_window(struct rondo_sim_events *e, struct rondo_sim_window window) {
  RONDO_SIM_GROW(e->windows, e->window_count, e->window_capacity, 64);
  e->windows[e->window_count++] = window;
}

// The list of a GPU while a window is open: skipped collectives in order, then those not seen yet.
struct open_list {
  uint32_t *pending;
  uint32_t pending_count, next, end;
};

static uint32_t list_take(struct rondo_sim_events *e, struct open_list *list, uint32_t skips) {
  uint32_t left = list->pending_count + (list->end - list->next);
  uint32_t pick = skips < left ? skips : left - 1; // the last one cannot be skipped
  if (pick < list->pending_count) {
    uint32_t taken = list->pending[pick];
    memmove(list->pending + pick, list->pending + pick + 1,
            (--list->pending_count - pick) * sizeof(uint32_t));
    return taken;
  }
  uint32_t taken = list->next + (pick - list->pending_count);
  uint32_t needed = list->pending_count + (taken - list->next);
  RONDO_SIM_RESERVE(e->pending, needed, e->pending_capacity);
  list->pending = e->pending;
  while (list->next < taken) {
    list->pending[list->pending_count++] = list->next++;
  }
  list->next++;
  return taken;
}

// The number of skips in a row after a first skip; numbers above `most` make no difference.
static uint32_t skips_in_a_row(const struct rondo_sim_chances *chances, uint32_t most,
                               struct rondo_sim_rng *rng) {
  uint32_t skips = 1;
  while (skips < most && rondo_sim_rng_unit(rng) < chances->disorder.probability) {
    skips++;
  }
  return skips;
}

// Plays the list of `gpu` from the slot of the skip at `*event` until it is as planned again. Sets
// `*event` to the position of the first skip after the window.
static void play_window(struct rondo_sim_events *e, const struct rondo_sim_layout *w, uint32_t gpu,
                        const struct rondo_sim_chances *chances, uint64_t *event,
                        struct rondo_sim_rng *rng) {
  uint64_t base = w->slot_offset[gpu];
  uint32_t length = rondo_sim_layout_length(w, gpu), slot = (uint32_t)(*event - base);
  struct open_list list = {e->pending, 0, slot, length};
  bool keeps_odds = chances->skipped == RONDO_SIM_SKIPPED_KEEPS_ODDS;
  bool opens = slot + 1 < length; // the last one cannot be skipped
  struct rondo_sim_window window = {gpu, slot, 0, e->permuted_count};
  do {
    uint32_t skips = 0;
    if (base + slot == *event) {
      if (keeps_odds || list.pending_count == 0) {
        skips = skips_in_a_row(chances, length - slot, rng);
      }
      *event += 1 + rondo_sim_rare_jump(&chances->disorder, rng);
    }
    uint32_t taken = list_take(e, &list, skips);
    if (opens) {
      add_permuted(e, taken);
    }
    slot++;
  } while (list.pending_count > 0);
  if (opens) {
    window.length = slot - window.start;
    add_window(e, window);
  }
}

// Moves each skipped collective of `gpu`, from the skip at `*event` on, to the end of its list.
// Each is skipped once at most, so a draw belongs to a planned slot. Sets `*event` to the position
// of the first skip after the list.
static void play_list(struct rondo_sim_events *e, const struct rondo_sim_layout *w, uint32_t gpu,
                      const struct rondo_sim_chances *chances, uint64_t *event,
                      struct rondo_sim_rng *rng) {
  uint64_t base = w->slot_offset[gpu];
  uint32_t length = rondo_sim_layout_length(w, gpu), skipped = 0;
  struct rondo_sim_window window = {gpu, (uint32_t)(*event - base), 0, e->permuted_count};
  for (uint32_t slot = window.start; slot < length; slot++) {
    if (base + slot < *event) {
      add_permuted(e, slot);
      continue;
    }
    RONDO_SIM_GROW(e->pending, skipped, e->pending_capacity, 64);
    e->pending[skipped++] = slot;
    *event += 1 + rondo_sim_rare_jump(&chances->disorder, rng);
  }
  if (e->permuted_count == window.first_permuted) {
    return; // all that was left was skipped, so nothing is out of order
  }
  for (uint32_t k = 0; k < skipped; k++) {
    add_permuted(e, e->pending[k]);
  }
  window.length = length - window.start;
  add_window(e, window);
}

static void draw_windows(struct rondo_sim_events *e, const struct rondo_sim_layout *w,
                         const struct rondo_sim_chances *chances, struct rondo_sim_rng *rng) {
  bool last = chances->skipped == RONDO_SIM_SKIPPED_LAST;
  uint64_t event = rondo_sim_rare_jump(&chances->disorder, rng);
  while (event < w->slot_count) {
    (last ? play_list : play_window)(e, w, rondo_sim_layout_gpu_at(w, event), chances, &event, rng);
  }
}

static void draw_syncs(struct rondo_sim_events *e, const struct rondo_sim_layout *w,
                       const struct rondo_sim_rare *sync, bool repeats, struct rondo_sim_rng *rng) {
  uint64_t at = rondo_sim_rare_jump(sync, rng);
  while (at < w->slot_count) {
    uint32_t count = 1;
    while (repeats && count < UINT32_MAX && rondo_sim_rng_unit(rng) < sync->probability) {
      count++;
    }
    RONDO_SIM_GROW(e->syncs, e->sync_count, e->sync_capacity, 64);
    e->syncs[e->sync_count++] = (struct rondo_sim_sync){at, count};
    at += 1 + rondo_sim_rare_jump(sync, rng);
  }
}

void rondo_sim_events_end(struct rondo_sim_events *e) {
  RONDO_SIM_GROW(e->windows, e->window_count, e->window_capacity, 64);
  RONDO_SIM_GROW(e->syncs, e->sync_count, e->sync_capacity, 64);
  e->windows[e->window_count] = (struct rondo_sim_window){.gpu = UINT32_MAX};
  e->syncs[e->sync_count] = (struct rondo_sim_sync){.at = UINT64_MAX};
}

void rondo_sim_events_draw(struct rondo_sim_events *e, const struct rondo_sim_layout *w,
                           const struct rondo_sim_chances *chances, bool all_syncs,
                           struct rondo_sim_rng *rng) {
  e->window_count = e->permuted_count = e->sync_count = 0;
  draw_windows(e, w, chances, rng);
  if (chances->synchronisation.probability > 0 && (all_syncs || e->window_count > 0)) {
    draw_syncs(e, w, &chances->synchronisation, all_syncs, rng);
  }
  rondo_sim_events_end(e);
}

const struct rondo_sim_window *rondo_sim_events_window(const struct rondo_sim_events *e,
                                                       uint32_t gpu, uint32_t slot) {
  const struct rondo_sim_window *x = e->windows;
  uint32_t k = 0;
  RONDO_SIM_LOWER_BOUND(k, e->window_count,
                        x[middle].gpu < gpu ||
                            (x[middle].gpu == gpu && x[middle].start + x[middle].length <= slot));
  return &x[k];
}

uint32_t rondo_sim_events_planned(const struct rondo_sim_events *e, uint32_t gpu, uint32_t slot) {
  const struct rondo_sim_window *x = rondo_sim_events_window(e, gpu, slot);
  bool inside = x->gpu == gpu && x->start <= slot;
  return inside ? e->permuted[x->first_permuted + slot - x->start] : slot;
}

const struct rondo_sim_sync *rondo_sim_events_sync(const struct rondo_sim_events *e, uint64_t at) {
  uint32_t k = 0;
  RONDO_SIM_LOWER_BOUND(k, e->sync_count, e->syncs[middle].at < at);
  return &e->syncs[k];
}
