// The single-queue half of the quick decisions, and what both halves share.
#include "sim/deadlock/published_quick.h"

#include <stdlib.h>

#include "sim/common/text.h"

static void slots_clear(struct rondo_sim_quick *q, uint32_t component) {
  const struct rondo_sim_layout *w = q->layout;
  uint32_t first = w->component_first[component];
  rondo_sim_slots_clear(&q->slots, w->component_gpus + first,
                        w->component_first[component + 1] - first);
}

// Plays one turn of every GPU of a component. 1: a deadlock, 0: none, -1: all lists are at their
// end.
static int turn_play(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                     uint32_t component, uint32_t turn) {
  const struct rondo_sim_layout *w = q->layout;
  int result = -1;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    if (turn < rondo_sim_layout_length(w, gpu)) {
      result = 0;
      uint32_t slot = e ? rondo_sim_events_planned(e, gpu, turn) : turn;
      if (rondo_sim_slots_submit(&q->slots, gpu, rondo_sim_layout_at(w, gpu, slot))) {
        return 1;
      }
    }
  }
  return result;
}

// The first turn from `turn` on in which a window of the component is open, or UINT32_MAX.
static uint32_t next_disturbed(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                               uint32_t component, uint32_t turn) {
  const struct rondo_sim_layout *w = q->layout;
  uint32_t best = UINT32_MAX;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    for (uint32_t k = q->window_first[gpu]; k < q->window_first[gpu + 1]; k++) {
      const struct rondo_sim_window *x = &e->windows[k];
      if (x->start + x->length > turn) {
        uint32_t at = x->start > turn ? x->start : turn;
        best = at < best ? at : best;
        break;
      }
    }
  }
  return best;
}

static bool component_play(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                           uint32_t component) {
  bool jumps = q->in_step[component];
  uint32_t turn = jumps ? next_disturbed(q, e, component, 0) : 0;
  if (turn == UINT32_MAX) {
    return false;
  }
  slots_clear(q, component);
  for (;;) {
    int result = turn_play(q, e, component, turn++);
    if (result != 0) {
      return result > 0;
    }
    if (jumps && q->slots.dirty == 0) {
      turn = next_disturbed(q, e, component, turn);
      if (turn == UINT32_MAX) {
        return false;
      }
    }
  }
}

// True if every group is empty after each undisturbed turn.
static bool component_stays_in_step(struct rondo_sim_quick *q, uint32_t component) {
  slots_clear(q, component);
  for (uint32_t turn = 0;; turn++) {
    int result = turn_play(q, NULL, component, turn);
    if (result != 0 || q->slots.dirty > 0) {
      return result < 0;
    }
  }
}

void rondo_sim_quick_init(struct rondo_sim_quick *q, const struct rondo_sim_layout *w,
                          bool single) {
  *q = (struct rondo_sim_quick){.layout = w, .single = single};
  q->window_first = rondo_sim_calloc(w->gpu_count + 1u, sizeof(uint32_t));
  q->sync_first = rondo_sim_calloc(w->gpu_count + 1u, sizeof(uint32_t));
  if (!single) {
    q->gpus = rondo_sim_calloc(w->gpu_count, sizeof(*q->gpus));
    q->hung = rondo_sim_calloc(w->gpu_count, sizeof(uint32_t));
    return;
  }
  rondo_sim_slots_init(&q->slots, w);
  q->in_step = rondo_sim_calloc(w->component_count, sizeof(bool));
  q->all_in_step = true;
  for (uint32_t c = 0; c < w->component_count; c++) {
    q->in_step[c] = component_stays_in_step(q, c);
    q->all_in_step &= q->in_step[c];
  }
}

void rondo_sim_quick_fini(struct rondo_sim_quick *q) {
  free(q->in_step);
  rondo_sim_slots_fini(&q->slots);
  free(q->window_first);
  free(q->sync_first);
  free(q->gpus);
  free(q->heap);
  free(q->hung);
  *q = (struct rondo_sim_quick){0};
}

// Notes where the windows and the synchronisations of each GPU begin.
static void index_events(struct rondo_sim_quick *q, const struct rondo_sim_events *e) {
  uint32_t window = 0, sync = 0, gpu = 0;
  for (; gpu < q->layout->gpu_count; gpu++) {
    q->window_first[gpu] = window;
    q->sync_first[gpu] = sync;
    while (e->windows[window].gpu == gpu) {
      window++;
    }
    while (e->syncs[sync].at < q->layout->slot_offset[gpu + 1]) {
      sync++;
    }
  }
  q->window_first[gpu] = window;
  q->sync_first[gpu] = sync;
}

bool rondo_sim_quick_deadlock(struct rondo_sim_quick *q, const struct rondo_sim_events *e) {
  bool nothing = q->single ? e->window_count == 0 && q->all_in_step : e->sync_count == 0;
  if (nothing) {
    return false;
  }
  index_events(q, e);
  for (uint32_t c = 0; c < q->layout->component_count; c++) {
    if (q->single ? component_play(q, e, c) : rondo_sim_quick_sync(q, e, c)) {
      return true;
    }
  }
  return false;
}
