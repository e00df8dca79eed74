#include "sim/deadlock/exact_fast.h"

#include <stdlib.h>

#include "sim/common/text.h"

void rondo_sim_fast_init(struct rondo_sim_fast *f, const struct rondo_sim_layout *w,
                         uint32_t limit) {
  *f = (struct rondo_sim_fast){.layout = w, .limit = limit};
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
static bool holds_sync(const struct rondo_sim_fast *f, const struct rondo_sim_window *x,
                       const struct rondo_sim_sync **sync) {
  uint64_t start = f->layout->slot_offset[x->gpu] + x->start;
  while ((*sync)->at <= start) {
    ++*sync;
  }
  return (*sync)->at < start + x->length;
}

// True if some collective of the window is invoked after at least `limit` that were planned after
// it.
static bool holds_limit(const struct rondo_sim_fast *f, const struct rondo_sim_events *e,
                        const struct rondo_sim_window *x) {
  if (f->limit == 1) {
    return true; // a window begins with a skip
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

static void find_clusters(struct rondo_sim_fast *f, const struct rondo_sim_events *e) {
  const struct rondo_sim_layout *w = f->layout;
  const struct rondo_sim_sync *sync = e->syncs;
  RONDO_SIM_RESERVE(f->seeds, e->window_count, f->seed_capacity);
  RONDO_SIM_RESERVE(f->clusters, e->window_count, f->cluster_capacity);
  f->cluster_count = 0;
  for (const struct rondo_sim_window *x = e->windows; x < e->windows + e->window_count; x++) {
    if ((f->limit != RONDO_SIM_UNLIMITED && holds_limit(f, e, x)) ||
        (f->limit > 1 && e->sync_count > 0 && holds_sync(f, x, &sync))) {
      f->clusters[f->cluster_count++] = (struct rondo_sim_cluster){
          w->component[x->gpu], x->gpu, rondo_sim_layout_key_at(w, x->gpu, x->start),
          rondo_sim_layout_key_at(w, x->gpu, x->start + x->length - 1)};
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
    if (f->limit > 1 && f->limit != RONDO_SIM_UNLIMITED) {
      // A GPU that waits for room waits for *any* of its executing collectives. A stuck set then
      // has no bound in keys, so the whole component is visited.
      range = rondo_sim_range_of_component(f->layout, component);
    }
    rondo_sim_programs_region(&f->programs, f->layout, e, &range);
    if (rondo_sim_programs_stuck(&f->programs, f->limit)) {
      return true;
    }
  }
  return false;
}
