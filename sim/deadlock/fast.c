#include "sim/deadlock/fast.h"

#include <stdlib.h>

#include "sim/common/text.h"

void rondo_sim_fast_init(struct rondo_sim_fast *f, const struct rondo_sim_world *w,
                         uint32_t limit) {
  *f = (struct rondo_sim_fast){.world = w, .limit = limit};
  rondo_sim_programs_init(&f->programs, w);
}

void rondo_sim_fast_fini(struct rondo_sim_fast *f) {
  rondo_sim_programs_fini(&f->programs);
  free(f->clusters);
  free(f->seeds);
  *f = (struct rondo_sim_fast){0};
}

// True if a synchronisation lies inside the window, so that an earlier collective can wait for a
// later one. `*sync` moves on with the windows.
static bool holds_sync(const struct rondo_sim_fast *f, const struct rondo_sim_events *e,
                       const struct rondo_sim_window *x, uint32_t *sync) {
  uint64_t start = f->world->slot_offset[x->gpu] + x->start;
  while (*sync < e->sync_count && e->syncs[*sync].at <= start) {
    ++*sync;
  }
  return *sync < e->sync_count && e->syncs[*sync].at < start + x->length;
}

// True if some collective of the window is invoked after at least `limit` that were planned after
// it.
static bool holds_limit(const struct rondo_sim_fast *f, const struct rondo_sim_events *e,
                        const struct rondo_sim_window *x) {
  if (x->length <= f->limit) {
    return false;
  }
  const uint32_t *slots = e->permuted + x->first_permuted;
  for (uint32_t late = f->limit; late < x->length; late++) {
    uint32_t overtakers = 0;
    for (uint32_t k = 0; k < late; k++) {
      overtakers += slots[k] > slots[late];
    }
    if (overtakers >= f->limit) {
      return true;
    }
  }
  return false;
}

static void add_cluster(struct rondo_sim_fast *f, const struct rondo_sim_window *x) {
  if (f->cluster_count == f->cluster_capacity) {
    f->cluster_capacity = f->cluster_capacity * 2 + 64;
    f->clusters = rondo_sim_realloc(f->clusters, sizeof(*f->clusters) * f->cluster_capacity);
    f->seeds = rondo_sim_realloc(f->seeds, sizeof(*f->seeds) * f->cluster_capacity);
  }
  f->clusters[f->cluster_count++] = (struct rondo_sim_cluster){
      f->world->component[x->gpu], x->gpu, rondo_sim_world_key_at(f->world, x->gpu, x->start),
      rondo_sim_world_key_at(f->world, x->gpu, x->start + x->length - 1)};
}

static void find_clusters(struct rondo_sim_fast *f, const struct rondo_sim_events *e) {
  uint32_t sync = 0;
  f->cluster_count = 0;
  for (uint32_t i = 0; i < e->window_count; i++) {
    const struct rondo_sim_window *x = &e->windows[i];
    if ((f->limit != RONDO_SIM_UNLIMITED && holds_limit(f, e, x)) ||
        (f->limit > 1 && e->sync_count > 0 && holds_sync(f, e, x, &sync))) {
      add_cluster(f, x);
    }
  }
}

static int by_component_and_low(const void *a, const void *b) {
  const struct rondo_sim_cluster *x = a, *y = b;
  if (x->component != y->component) {
    return x->component < y->component ? -1 : 1;
  }
  return x->low < y->low ? -1 : x->low > y->low;
}

// With a limit above one, a GPU that waits for room waits for *any* of its executing collectives. A
// stuck set then has no bound in keys, so the whole component is visited.
static void range_widen(const struct rondo_sim_fast *f, struct rondo_sim_range *range,
                        uint32_t component) {
  const struct rondo_sim_world *w = f->world;
  if (f->limit > 1 && f->limit != RONDO_SIM_UNLIMITED) {
    range->low = 0;
    range->high = UINT64_MAX;
    range->seeds = w->component_gpus + w->component_first[component];
    range->seed_count = w->component_first[component + 1] - w->component_first[component];
  }
}

bool rondo_sim_fast_deadlock(struct rondo_sim_fast *f, const struct rondo_sim_events *e) {
  find_clusters(f, e);
  if (f->cluster_count > 1) {
    qsort(f->clusters, f->cluster_count, sizeof(*f->clusters), by_component_and_low);
  }
  for (uint32_t i = 0; i < f->cluster_count;) {
    uint32_t component = f->clusters[i].component, count = 0;
    uint64_t low = f->clusters[i].low, high = f->clusters[i].high;
    for (; i < f->cluster_count && f->clusters[i].component == component &&
           f->clusters[i].low <= high;
         i++) {
      high = f->clusters[i].high > high ? f->clusters[i].high : high;
      f->seeds[count++] = f->clusters[i].gpu;
    }
    struct rondo_sim_range range = {low, high, f->seeds, count};
    range_widen(f, &range, component);
    rondo_sim_programs_region(&f->programs, f->world, e, &range);
    if (rondo_sim_programs_stuck(&f->programs, f->limit)) {
      return true;
    }
  }
  return false;
}
