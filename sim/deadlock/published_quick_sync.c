#include "sim/deadlock/published_quick.h"

#include <stddef.h>

#include "sim/common/text.h"

#define NEVER UINT64_MAX

// The collectives of one group that a GPU has submitted: the first `prefix` ones, and those of the
// group among the planned slots `extra[0..extra_count)`.
struct have {
  uint32_t gpu, group, prefix, extra_count;
  const uint32_t *extra;
};

static bool event_is_before(const struct rondo_sim_quick_event *a,
                            const struct rondo_sim_quick_event *b) {
  return a->time != b->time ? a->time < b->time : a->awakening < b->awakening;
}

static void heap_push(struct rondo_sim_quick *q, struct rondo_sim_quick_event event) {
  RONDO_SIM_GROW(q->heap, q->heap_count, q->heap_capacity, 64);
  uint32_t k = q->heap_count++;
  while (k > 0 && event_is_before(&event, &q->heap[(k - 1) / 2])) {
    q->heap[k] = q->heap[(k - 1) / 2];
    k = (k - 1) / 2;
  }
  q->heap[k] = event;
}

static struct rondo_sim_quick_event heap_pop(struct rondo_sim_quick *q) {
  struct rondo_sim_quick_event top = q->heap[0], last = q->heap[--q->heap_count];
  uint32_t k = 0;
  for (uint32_t child = 1; child < q->heap_count; child = 2 * k + 1) {
    child += child + 1 < q->heap_count && event_is_before(&q->heap[child + 1], &q->heap[child]);
    if (!event_is_before(&q->heap[child], &last)) {
      break;
    }
    q->heap[k] = q->heap[child];
    k = child;
  }
  if (q->heap_count > 0) {
    q->heap[k] = last;
  }
  return top;
}

static uint64_t time_of(const struct rondo_sim_quick *q, uint32_t gpu, uint32_t slot) {
  return (uint64_t)(slot + q->gpus[gpu].lag) * q->layout->gpu_count + gpu;
}

// The number of slots that the GPU has submitted before `time`.
static uint32_t gpu_position(const struct rondo_sim_quick *q, uint32_t gpu, uint64_t time) {
  const struct rondo_sim_quick_gpu *x = &q->gpus[gpu];
  if (x->hung) {
    return x->position;
  }
  int64_t turn = (int64_t)(time / q->layout->gpu_count);
  int64_t n = turn - x->lag + (gpu < time % q->layout->gpu_count);
  int64_t length = rondo_sim_layout_length(q->layout, gpu);
  return (uint32_t)(n < 0 ? 0 : n < length ? n : length);
}

// The window of a GPU that holds `slot`, or null.
static const struct rondo_sim_window *window_at(const struct rondo_sim_quick *q,
                                                const struct rondo_sim_events *e, uint32_t gpu,
                                                uint32_t slot) {
  for (uint32_t k = q->window_first[gpu]; k < q->window_first[gpu + 1]; k++) {
    const struct rondo_sim_window *x = &e->windows[k];
    if (slot < x->start + x->length) {
      return slot >= x->start ? x : NULL;
    }
  }
  return NULL;
}

static struct have have_at(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                           uint32_t gpu, uint32_t group, uint64_t time) {
  uint32_t n = gpu_position(q, gpu, time);
  const struct rondo_sim_window *x = window_at(q, e, gpu, n);
  struct have have = {.gpu = gpu, .group = group};
  if (x && x->start < n) {
    have.extra = e->permuted + x->first_permuted;
    have.extra_count = n - x->start;
    n = x->start;
  }
  have.prefix = rondo_sim_layout_count_below(q->layout, gpu,
                                             rondo_sim_layout_place(q->layout, gpu, group), n);
  return have;
}

static bool have_has_extra(const struct rondo_sim_layout *w, const struct have *have,
                           uint32_t index) {
  for (uint32_t k = 0; k < have->extra_count; k++) {
    struct rondo_sim_collective c = rondo_sim_layout_at(w, have->gpu, have->extra[k]);
    if (c.group == have->group && c.index == index) {
      return true;
    }
  }
  return false;
}

static bool have_has(const struct rondo_sim_layout *w, const struct have *have, uint32_t index) {
  return index < have->prefix || have_has_extra(w, have, index);
}

// True if `a` has submitted a collective of the group and `b` has not.
static bool have_is_ahead(const struct rondo_sim_layout *w, const struct have *a,
                          const struct have *b) {
  for (uint32_t index = b->prefix; index < a->prefix; index++) {
    if (!have_has_extra(w, b, index)) {
      return true;
    }
  }
  for (uint32_t k = 0; k < a->extra_count; k++) {
    struct rondo_sim_collective c = rondo_sim_layout_at(w, a->gpu, a->extra[k]);
    if (c.group == a->group && !have_has(w, b, c.index)) {
      return true;
    }
  }
  return false;
}

// The slot at which a GPU submits a collective.
static uint32_t real_slot(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                          uint32_t gpu, struct rondo_sim_collective c) {
  uint32_t planned = rondo_sim_layout_slot(q->layout, gpu, c);
  const struct rondo_sim_window *x = window_at(q, e, gpu, planned);
  if (!x) {
    return planned;
  }
  uint32_t k = 0;
  while (e->permuted[x->first_permuted + k] != planned) {
    k++;
  }
  return x->start + k;
}

// The last slot of b's GPU whose collective `a` has submitted and `b` has not; -1 if there is none.
static int64_t last_missing(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                            const struct have *a, const struct have *b) {
  const struct rondo_sim_layout *w = q->layout;
  int64_t last = -1;
  for (uint32_t k = 0; k < a->extra_count; k++) {
    struct rondo_sim_collective c = rondo_sim_layout_at(w, a->gpu, a->extra[k]);
    if (c.group == a->group && !have_has(w, b, c.index)) {
      int64_t slot = real_slot(q, e, b->gpu, c);
      last = slot > last ? slot : last;
    }
  }
  // Goes down from the newest: all that is older and outside the window of the newest is earlier.
  uint32_t floor = 0;
  bool seen = false;
  for (uint32_t index = a->prefix; index > b->prefix; index--) {
    struct rondo_sim_collective c = {a->group, index - 1};
    uint32_t planned = rondo_sim_layout_slot(w, b->gpu, c);
    if (seen && planned < floor) {
      break;
    }
    if (have_has_extra(w, b, c.index)) {
      continue;
    }
    if (!seen) {
      const struct rondo_sim_window *x = window_at(q, e, b->gpu, planned);
      floor = x ? x->start : planned;
      seen = true;
    }
    int64_t slot = real_slot(q, e, b->gpu, c);
    last = slot > last ? slot : last;
  }
  return last;
}

// The earliest time at which all that is outstanding on a GPU at `time` can be done: 0 if nothing
// is outstanding, NEVER if a hung GPU must come first. `any_only` stops at the first outstanding
// collective.
static uint64_t done_at(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                        uint32_t gpu, uint64_t time, bool any_only) {
  const struct rondo_sim_layout *w = q->layout;
  uint64_t done = 0;
  for (uint32_t k = w->joined_offset[gpu]; k < w->joined_offset[gpu + 1]; k++) {
    struct have mine = have_at(q, e, gpu, w->joined[k], time);
    for (uint32_t m = w->member_offset[w->joined[k]]; m < w->member_offset[w->joined[k] + 1]; m++) {
      uint32_t other = w->members[m];
      if (other == gpu) {
        continue;
      }
      struct have theirs = have_at(q, e, other, w->joined[k], time);
      if (!have_is_ahead(w, &mine, &theirs)) {
        continue;
      }
      if (any_only || q->gpus[other].hung) {
        return NEVER;
      }
      uint64_t at = time_of(q, other, (uint32_t)last_missing(q, e, &mine, &theirs));
      done = at > done ? at : done;
    }
  }
  return done;
}

static void schedule_sync(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                          uint32_t gpu) {
  const struct rondo_sim_quick_gpu *x = &q->gpus[gpu];
  if (x->sync < q->sync_first[gpu + 1]) {
    uint32_t slot = (uint32_t)(e->syncs[x->sync].at - q->layout->slot_offset[gpu]);
    heap_push(q, (struct rondo_sim_quick_event){time_of(q, gpu, slot), gpu, false});
  }
}

static void set_wake(struct rondo_sim_quick *q, uint32_t gpu, uint64_t wake) {
  q->gpus[gpu].wake = wake;
  if (wake != NEVER) {
    heap_push(q, (struct rondo_sim_quick_event){wake, gpu, true});
  }
}

// True if `a` is ahead of `b` in a group of both.
static bool ahead_in_any(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                         uint32_t a, uint32_t b, uint64_t time) {
  const struct rondo_sim_layout *w = q->layout;
  uint32_t i = w->joined_offset[a], j = w->joined_offset[b];
  while (i < w->joined_offset[a + 1] && j < w->joined_offset[b + 1]) {
    uint32_t x = w->joined[i], y = w->joined[j];
    if (x == y) {
      struct have mine = have_at(q, e, a, x, time), theirs = have_at(q, e, b, x, time);
      if (have_is_ahead(w, &mine, &theirs)) {
        return true;
      }
    }
    i += x <= y;
    j += y <= x;
  }
  return false;
}

// The published test for a GPU that has just hung.
static bool gpu_intersects(const struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                           uint32_t gpu, uint64_t time) {
  bool waits = false, is_awaited = false;
  for (uint32_t k = 0; k < q->hung_count; k++) {
    if (q->hung[k] != gpu) {
      waits = waits || ahead_in_any(q, e, gpu, q->hung[k], time);
      is_awaited = is_awaited || ahead_in_any(q, e, q->hung[k], gpu, time);
    }
  }
  return waits && is_awaited;
}

static bool gpu_synchronise(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                            uint64_t time, uint32_t gpu) {
  struct rondo_sim_quick_gpu *x = &q->gpus[gpu];
  uint32_t slot = (uint32_t)(e->syncs[x->sync].at - q->layout->slot_offset[gpu]);
  if (++x->repeats == e->syncs[x->sync].count) {
    x->sync++;
    x->repeats = 0;
  }
  if (done_at(q, e, gpu, time, true) == 0) {
    x->lag++; // a synchronisation without effect uses up the turn
    schedule_sync(q, e, gpu);
    return false;
  }
  x->hung = true;
  x->position = slot;
  q->hung[q->hung_count++] = gpu;
  set_wake(q, gpu, done_at(q, e, gpu, time, false));
  return gpu_intersects(q, e, gpu, time);
}

static void gpu_unhang(struct rondo_sim_quick *q, uint32_t gpu) {
  uint32_t k = 0;
  while (q->hung[k] != gpu) {
    k++;
  }
  q->hung[k] = q->hung[--q->hung_count];
  q->gpus[gpu].hung = false;
}

// Wakes a hung GPU if the last collective that it waited for was submitted at `time`.
static void gpu_awaken(struct rondo_sim_quick *q, const struct rondo_sim_events *e, uint64_t time,
                       uint32_t gpu) {
  struct rondo_sim_quick_gpu *x = &q->gpus[gpu];
  if (!x->hung || x->wake != time) {
    return;
  }
  uint64_t done = done_at(q, e, gpu, time + 1, false);
  if (done > 0) {
    set_wake(q, gpu, done);
    return;
  }
  gpu_unhang(q, gpu);
  uint64_t turn = time / q->layout->gpu_count;
  turn += gpu <= time % q->layout->gpu_count; // its turn of this round is over
  x->lag = (int64_t)turn - x->position;
  schedule_sync(q, e, gpu);
  for (uint32_t k = 0; k < q->hung_count; k++) {
    if (q->gpus[q->hung[k]].wake == NEVER) {
      set_wake(q, q->hung[k], done_at(q, e, q->hung[k], time + 1, false));
    }
  }
}

static void component_begin(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                            uint32_t component) {
  const struct rondo_sim_layout *w = q->layout;
  q->heap_count = q->hung_count = 0;
  for (uint32_t i = w->component_first[component]; i < w->component_first[component + 1]; i++) {
    uint32_t gpu = w->component_gpus[i];
    q->gpus[gpu] = (struct rondo_sim_quick_gpu){.sync = q->sync_first[gpu]};
    schedule_sync(q, e, gpu);
  }
}

bool rondo_sim_quick_sync(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                          uint32_t component) {
  component_begin(q, e, component);
  while (q->heap_count > 0) {
    struct rondo_sim_quick_event event = heap_pop(q);
    if (event.awakening) {
      gpu_awaken(q, e, event.time, event.gpu);
    } else if (gpu_synchronise(q, e, event.time, event.gpu)) {
      return true;
    }
  }
  return false;
}
