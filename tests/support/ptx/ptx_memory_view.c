#include "tests/support/ptx/ptx_memory_view.h"

#include <stdio.h>
#include <stdlib.h>

void *ptx_reallocate(void *old, uint64_t bytes) {
  void *memory = realloc(old, bytes);
  if (!memory) {
    fprintf(stderr, "ptx: no memory for %llu bytes\n", (unsigned long long)bytes);
    abort();
  }
  return memory;
}

void *ptx_allocate(uint64_t bytes) { return ptx_reallocate(NULL, bytes); }

static struct ptx_view *view_create(uint32_t capacity) {
  struct ptx_view *view = ptx_allocate(sizeof *view + capacity * sizeof view->entries[0]);
  view->references = 1;
  view->count = 0;
  return view;
}

void ptx_view_drop(struct ptx_view *view) {
  if (view && --view->references == 0)
    free(view);
}

static bool key_is_all(uint32_t key) { return (key & 63) == 0; }

// The first entry whose key is not below `key`.
static uint32_t view_find(const struct ptx_view *view, uint32_t key) {
  uint32_t low = 0, high = view->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (view->entries[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool ptx_view_knows(const struct ptx_view *view, uint32_t agent, uint32_t lanes, uint32_t clock) {
  if (!lanes)
    return true;
  if (!view)
    return false;
  uint32_t at = view_find(view, ptx_view_all(agent));
  for (; at < view->count && view->entries[at].key >> 6 == agent && lanes; at++) {
    const struct ptx_view_entry *e = &view->entries[at];
    if (e->clock < clock)
      continue;
    if (key_is_all(e->key))
      return true;
    lanes &= ~(1u << ((e->key & 63) - 1));
  }
  return !lanes;
}

// Goes through two views in the order of their keys. `all` is the clock of the current agent's
// entry for all lanes, or 0.
struct view_walk {
  const struct ptx_view *view;
  uint32_t at, agent, all;
};

// The clock up to which the view knows the lanes of `key`, which never goes back.
static uint32_t walk_clock(struct view_walk *w, uint32_t key) {
  if (w->agent != key >> 6) {
    w->agent = key >> 6;
    w->all = 0;
  }
  while (w->view && w->at < w->view->count && w->view->entries[w->at].key <= key) {
    const struct ptx_view_entry *e = &w->view->entries[w->at++];
    if (key_is_all(e->key) && e->key >> 6 == w->agent)
      w->all = e->clock;
    if (e->key == key && !key_is_all(key))
      return e->clock;
  }
  return w->all;
}

static uint32_t walk_next(const struct view_walk *w) {
  return w->view && w->at < w->view->count ? w->view->entries[w->at].key : UINT32_MAX;
}

bool ptx_view_includes(const struct ptx_view *view, const struct ptx_view *other) {
  if (!other || view == other)
    return true;
  struct view_walk w = {view, 0, UINT32_MAX, 0};
  for (uint32_t i = 0; i < other->count; i++)
    if (walk_clock(&w, other->entries[i].key) < other->entries[i].clock)
      return false;
  return true;
}

// Both views at every key of either, with the later clock or the earlier one.
static struct ptx_view *view_combine(const struct ptx_view *one, const struct ptx_view *two,
                                     bool later) {
  uint32_t capacity = (one ? one->count : 0) + (two ? two->count : 0);
  struct ptx_view *view = view_create(capacity);
  struct view_walk a = {one, 0, UINT32_MAX, 0}, b = {two, 0, UINT32_MAX, 0};
  uint32_t all_agent = UINT32_MAX, all = 0;
  for (;;) {
    uint32_t next_a = walk_next(&a), next_b = walk_next(&b);
    uint32_t key = next_a < next_b ? next_a : next_b;
    if (key == UINT32_MAX)
      return view;
    uint32_t clock_a = walk_clock(&a, key), clock_b = walk_clock(&b, key);
    uint32_t clock = (clock_a > clock_b) == later ? clock_a : clock_b;
    if (key >> 6 != all_agent) {
      all_agent = key >> 6;
      all = 0;
    }
    if (clock <= all)
      continue;
    if (key_is_all(key))
      all = clock;
    view->entries[view->count++] = (struct ptx_view_entry){key, clock};
  }
}

struct ptx_view *ptx_view_join(struct ptx_view *one, struct ptx_view *two) {
  if (ptx_view_includes(one, two))
    return ptx_view_hold(one);
  if (ptx_view_includes(two, one))
    return ptx_view_hold(two);
  return view_combine(one, two, true);
}

struct ptx_view *ptx_view_common(const struct ptx_view *one, const struct ptx_view *two) {
  return view_combine(one, two, false);
}

struct ptx_view *ptx_view_with(struct ptx_view *view, uint32_t key, uint32_t clock) {
  struct ptx_view *single = view_create(1);
  single->entries[single->count++] = (struct ptx_view_entry){key, clock};
  struct ptx_view *with =
      ptx_view_includes(view, single) ? ptx_view_hold(view) : view_combine(view, single, true);
  free(single);
  return with;
}

void ptx_view_learn(struct ptx_view **view, struct ptx_view *other) {
  struct ptx_view *both = ptx_view_join(*view, other);
  ptx_view_drop(*view);
  *view = both;
}
