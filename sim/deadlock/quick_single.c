// The single-queue half of the published decisions, and what both halves share.
#include "sim/deadlock/quick.h"
#include "sim/deadlock/quick_sync.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

// Notes where each GPU stands in the member lists of the groups it has joined.
static void index_marks(struct rondo_sim_quick *q) {
  const struct rondo_sim_world *w = q->world;
  q->mark_place = rondo_sim_calloc(w->joined_offset[w->gpu_count], sizeof(uint32_t));
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    for (uint32_t k = w->joined_offset[gpu]; k < w->joined_offset[gpu + 1]; k++) {
      uint32_t m = w->member_offset[w->joined[k]];
      while (w->members[m] != gpu) {
        m++;
      }
      q->mark_place[k] = m;
    }
  }
}

static bool submit(struct rondo_sim_quick *q, uint32_t gpu, struct rondo_sim_collective c) {
  const struct rondo_sim_world *w = q->world;
  struct rondo_sim_slot *slot = &q->slots[c.group];
  uint32_t k = w->joined_offset[gpu];
  while (w->joined[k] != c.group) {
    k++;
  }
  uint8_t *mark = &q->in_slot[q->mark_place[k]];
  if (*mark) {
    return false;
  }
  if (slot->submitted > 0 && slot->index != c.index) {
    return true;
  }
  *mark = 1;
  slot->index = c.index;
  q->dirty += slot->submitted == 0;
  if (++slot->submitted == rondo_sim_world_size(w, c.group)) {
    slot->submitted = 0;
    q->dirty--;
    memset(q->in_slot + w->member_offset[c.group], 0, rondo_sim_world_size(w, c.group));
  }
  return false;
}

static void clear(struct rondo_sim_quick *q, uint32_t component) {
  const struct rondo_sim_world *w = q->world;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    for (uint32_t k = w->joined_offset[gpu]; k < w->joined_offset[gpu + 1]; k++) {
      q->in_slot[q->mark_place[k]] = 0;
      q->slots[w->joined[k]].submitted = 0;
    }
  }
  q->dirty = 0;
}

// What the GPU draws at a turn: its list, with the window that the turn may lie in.
static struct rondo_sim_collective drawn_at(const struct rondo_sim_quick *q,
                                            const struct rondo_sim_events *e, uint32_t gpu,
                                            uint32_t turn) {
  uint32_t planned = turn;
  for (uint32_t k = q->window_first[gpu]; e && k < q->window_first[gpu + 1]; k++) {
    const struct rondo_sim_window *x = &e->windows[k];
    if (turn >= x->start && turn < x->start + x->length) {
      planned = e->permuted[x->first_permuted + turn - x->start];
    }
  }
  return rondo_sim_world_at(q->world, gpu, planned);
}

// One turn of every GPU of a component. 1: a deadlock, 0: not, -1: all lists are at their end.
static int play_turn(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                     uint32_t component, uint32_t turn) {
  const struct rondo_sim_world *w = q->world;
  int result = -1;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    if (turn < rondo_sim_world_length(w, gpu)) {
      result = 0;
      if (submit(q, gpu, drawn_at(q, e, gpu, turn))) {
        return 1;
      }
    }
  }
  return result;
}

// The first turn from `turn` on in which a window of the component is open; UINT32_MAX if none.
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

static bool play(struct rondo_sim_quick *q, const struct rondo_sim_events *e, uint32_t component) {
  bool jumps = q->in_step[component];
  uint32_t turn = 0;
  clear(q, component);
  for (;;) {
    if (jumps && q->dirty == 0) {
      turn = next_disturbed(q, e, component, turn);
      if (turn == UINT32_MAX) {
        return false;
      }
    }
    int result = play_turn(q, e, component, turn++);
    if (result != 0) {
      return result > 0;
    }
  }
}

// Is every group empty after each undisturbed turn?
static bool stays_in_step(struct rondo_sim_quick *q, uint32_t component) {
  clear(q, component);
  for (uint32_t turn = 0;; turn++) {
    int result = play_turn(q, NULL, component, turn);
    if (result != 0 || q->dirty > 0) {
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
  q->slots = rondo_sim_calloc(w->group_count, sizeof(*q->slots));
  q->in_slot = rondo_sim_calloc(w->member_offset[w->group_count], 1);
  q->in_step = rondo_sim_calloc(w->component_count, sizeof(bool));
  index_marks(q);
  q->all_in_step = true;
  for (uint32_t c = 0; c < w->component_count; c++) {
    q->in_step[c] = stays_in_step(q, c);
    q->all_in_step &= q->in_step[c];
  }
}

void rondo_sim_quick_fini(struct rondo_sim_quick *q) {
  free(q->in_step);
  free(q->slots);
  free(q->in_slot);
  free(q->mark_place);
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

static bool has_windows(const struct rondo_sim_quick *q, uint32_t component) {
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
    bool deadlock = !q->single ? rondo_sim_quick_sync(q, e, c)
                               : (!q->in_step[c] || has_windows(q, c)) && play(q, e, c);
    if (deadlock) {
      return true;
    }
  }
  return false;
}
