// The single-queue half of the quick decisions, and what both halves share.
#include "sim/deadlock/quick.h"
#include "sim/deadlock/quick_sync.h"

#include <stdlib.h>

#include "sim/common/text.h"

static void slots_clear(struct rondo_sim_quick *q, uint32_t component) {
  const struct rondo_sim_world *w = q->world;
  uint32_t first = w->component_first[component];
  rondo_sim_slots_clear(&q->slots, w->component_gpus + first,
                        w->component_first[component + 1] - first);
}

// Plays one turn of every GPU of a component. 1: a deadlock, 0: none, -1: all lists are at their
// end.
static int turn_play(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                     uint32_t component, uint32_t turn) {
  const struct rondo_sim_world *w = q->world;
  int result = -1;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    if (turn < rondo_sim_world_length(w, gpu)) {
      result = 0;
      uint32_t slot = e ? rondo_sim_events_planned(e, gpu, turn) : turn;
      if (rondo_sim_slots_submit(&q->slots, gpu, rondo_sim_world_at(w, gpu, slot))) {
        return 1;
      }
    }
  }
  return result;
}

// The first turn from `turn` on in which a window of the component is open, or UINT32_MAX.
static uint32_t next_disturbed(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                               uint32_t component, uint32_t turn) {
  const struct rondo_sim_world *w = q->world;
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
  uint32_t turn = 0;
  slots_clear(q, component);
  for (;;) {
    if (jumps && q->slots.dirty == 0) {
      turn = next_disturbed(q, e, component, turn);
      if (turn == UINT32_MAX) {
        return false;
      }
    }
    int result = turn_play(q, e, component, turn++);
    if (result != 0) {
      return result > 0;
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

void rondo_sim_quick_init(struct rondo_sim_quick *q, const struct rondo_sim_world *w, bool single) {
  *q = (struct rondo_sim_quick){.world = w, .single = single};
  q->window_first = rondo_sim_calloc(w->gpu_count + 1u, sizeof(uint32_t));
  if (!single) {
    q->gpus = rondo_sim_calloc(w->gpu_count, sizeof(*q->gpus));
    q->sync_first = rondo_sim_calloc(w->gpu_count + 1u, sizeof(uint32_t));
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

static void index_windows(struct rondo_sim_quick *q, const struct rondo_sim_events *e) {
  uint32_t k = 0;
  for (uint32_t gpu = 0; gpu < q->world->gpu_count; gpu++) {
    q->window_first[gpu] = k;
    while (k < e->window_count && e->windows[k].gpu == gpu) {
      k++;
    }
  }
  q->window_first[q->world->gpu_count] = k;
}

static void index_syncs(struct rondo_sim_quick *q, const struct rondo_sim_events *e) {
  uint32_t k = 0;
  for (uint32_t gpu = 0; gpu < q->world->gpu_count; gpu++) {
    q->sync_first[gpu] = k;
    while (k < e->sync_count && e->syncs[k].at < q->world->slot_offset[gpu + 1]) {
      k++;
    }
  }
  q->sync_first[q->world->gpu_count] = k;
}

static bool component_has_windows(const struct rondo_sim_quick *q, uint32_t component) {
  const struct rondo_sim_world *w = q->world;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    if (q->window_first[gpu] < q->window_first[gpu + 1]) {
      return true;
    }
  }
  return false;
}

bool rondo_sim_quick_deadlock(struct rondo_sim_quick *q, const struct rondo_sim_events *e) {
  bool nothing = q->single ? e->window_count == 0 && q->all_in_step : e->sync_count == 0;
  if (nothing) {
    return false;
  }
  index_windows(q, e);
  if (!q->single) {
    index_syncs(q, e);
  }
  for (uint32_t c = 0; c < q->world->component_count; c++) {
    bool deadlock =
        !q->single ? rondo_sim_quick_sync(q, e, c)
                   : (!q->in_step[c] || component_has_windows(q, c)) && component_play(q, e, c);
    if (deadlock) {
      return true;
    }
  }
  return false;
}
