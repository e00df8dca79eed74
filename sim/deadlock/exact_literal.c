#include "sim/deadlock/exact_literal.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

// The marks of search n: 2n on the path, 2n + 1 for a GPU that leads nowhere; a lower mark is one
// of an earlier search.
static uint64_t on_path(const struct rondo_sim_literal *l) { return 2 * l->searches; }

// Notes the position of each collective in the program of each member.
static void index_positions(struct rondo_sim_literal *l) {
  const struct rondo_sim_programs *p = l->programs;
  uint64_t total = 0;
  for (uint32_t c = 0; c < p->collective_count; c++) {
    const struct rondo_sim_local_group *g = &p->groups[p->collectives[c].group];
    l->collectives[c].first_position = total;
    l->collectives[c].missing = g[1].first_member - g->first_member;
    total += l->collectives[c].missing;
  }
  l->position = rondo_sim_alloc(sizeof(uint32_t) * total);
  for (uint32_t i = 0; i < p->program_count; i++) {
    for (uint32_t n = 0; n < p->programs[i].length; n++) {
      uint32_t c = p->items[p->programs[i].first + n] & ~RONDO_SIM_SYNC_BEFORE;
      const uint32_t *members = p->members + p->groups[p->collectives[c].group].first_member;
      uint32_t rank = 0;
      while (members[rank] != i) {
        rank++;
      }
      l->position[l->collectives[c].first_position + rank] = n;
    }
  }
}

static void literal_init(struct rondo_sim_literal *l, const struct rondo_sim_programs *p,
                         uint32_t limit) {
  *l = (struct rondo_sim_literal){.programs = p, .limit = limit};
  uint32_t n = p->program_count;
  l->gpus = rondo_sim_calloc(n, sizeof(*l->gpus));
  l->executing_pool = rondo_sim_alloc(sizeof(uint32_t) * p->item_count);
  l->collectives = rondo_sim_alloc(sizeof(*l->collectives) * p->collective_count);
  l->touched = rondo_sim_alloc(sizeof(uint32_t) * n);
  l->path = rondo_sim_alloc(sizeof(*l->path) * n);
  l->cycle = rondo_sim_alloc(sizeof(*l->cycle) * 2 * n);
  for (uint32_t i = 0; i < n; i++) {
    l->gpus[i].executing = l->executing_pool + p->programs[i].first;
  }
  index_positions(l);
}

void rondo_sim_literal_fini(struct rondo_sim_literal *l) {
  free(l->gpus);
  free(l->executing_pool);
  free(l->position);
  free(l->collectives);
  free(l->touched);
  free(l->path);
  free(l->cycle);
  *l = (struct rondo_sim_literal){0};
}

static uint32_t item_at(const struct rondo_sim_literal *l, uint32_t program, uint32_t n) {
  return l->programs->items[l->programs->programs[program].first + n];
}

static void gpu_touch(struct rondo_sim_literal *l, uint32_t program) {
  if (!l->gpus[program].touched) {
    l->gpus[program].touched = true;
    l->touched[l->touched_count++] = program;
  }
}

static void stop_executing(struct rondo_sim_literal_gpu *gpu, uint32_t collective) {
  uint32_t k = 0;
  while (gpu->executing[k] != collective) {
    k++;
  }
  gpu->executing[k] = gpu->executing[--gpu->executing_count];
}

static void collective_succeed(struct rondo_sim_literal *l, uint32_t collective) {
  const struct rondo_sim_programs *p = l->programs;
  const struct rondo_sim_local_group *g = &p->groups[p->collectives[collective].group];
  for (uint32_t m = g->first_member; m < g[1].first_member; m++) {
    stop_executing(&l->gpus[p->members[m]], collective);
    gpu_touch(l, p->members[m]);
  }
}

// Starts the invoked collectives of a GPU as far as the model allows.
static void gpu_start(struct rondo_sim_literal *l, uint32_t program) {
  struct rondo_sim_literal_gpu *gpu = &l->gpus[program];
  while (gpu->started < gpu->issued && gpu->executing_count < l->limit) {
    uint32_t item = item_at(l, program, gpu->started);
    if ((item & RONDO_SIM_SYNC_BEFORE) && gpu->executing_count > 0) {
      return;
    }
    uint32_t collective = item & ~RONDO_SIM_SYNC_BEFORE;
    gpu->started++;
    gpu->executing[gpu->executing_count++] = collective;
    if (--l->collectives[collective].missing == 0) {
      collective_succeed(l, collective);
    }
  }
}

// Starts what can start until nothing can: a success may give room on any touched GPU.
static void gpus_settle(struct rondo_sim_literal *l) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (uint32_t k = 0; k < l->touched_count; k++) {
      uint32_t before = l->gpus[l->touched[k]].started;
      gpu_start(l, l->touched[k]);
      moved |= l->gpus[l->touched[k]].started != before;
    }
  }
}

static void gpu_issue(struct rondo_sim_literal *l, uint32_t program) {
  struct rondo_sim_literal_gpu *gpu = &l->gpus[program];
  l->events++;
  gpu_touch(l, program);
  if ((item_at(l, program, gpu->issued) & RONDO_SIM_SYNC_BEFORE) && !gpu->sync_issued) {
    gpu->sync_issued = true;
    return;
  }
  gpu->sync_issued = false;
  gpu->issued++;
  gpus_settle(l);
}

static bool gpu_waits(const struct rondo_sim_literal_gpu *gpu) {
  return gpu->started < gpu->issued;
}

// The next GPU on which an executing collective of `at` is invoked and not executing, or -1.
static int64_t next_edge(const struct rondo_sim_literal *l, struct rondo_sim_literal_step *at) {
  const struct rondo_sim_programs *p = l->programs;
  const struct rondo_sim_literal_gpu *from = &l->gpus[at->program];
  for (; at->executing < from->executing_count; at->executing++, at->member = 0) {
    uint32_t c = from->executing[at->executing];
    const struct rondo_sim_local_group *g = &p->groups[p->collectives[c].group];
    while (at->member < g[1].first_member - g->first_member) {
      uint32_t rank = at->member++, m = p->members[g->first_member + rank];
      uint32_t n = l->position[l->collectives[c].first_position + rank];
      if (n >= l->gpus[m].started && n < l->gpus[m].issued) {
        return m;
      }
    }
  }
  return -1;
}

// Puts a GPU on the path.
static void path_append(struct rondo_sim_literal *l, uint32_t depth, uint32_t program) {
  l->path[depth] = (struct rondo_sim_literal_step){program, 0, 0};
  l->gpus[program].mark = on_path(l);
}

// Keeps the cycle that runs along the path from `program` to `last` and back.
static void keep_cycle(struct rondo_sim_literal *l, uint32_t program, uint32_t last) {
  uint32_t first = 0;
  while (l->path[first].program != program) {
    first++;
  }
  l->cycle_count = 0;
  for (uint32_t k = first; k <= last; k++) {
    const struct rondo_sim_literal_step *at = &l->path[k];
    uint32_t collective = l->gpus[at->program].executing[at->executing];
    uint32_t to = k < last ? at[1].program : program;
    l->cycle[l->cycle_count++] = (struct rondo_sim_part){at->program, collective, true};
    l->cycle[l->cycle_count++] = (struct rondo_sim_part){to, collective, false};
  }
}

// Searches depth-first from one GPU.
static bool cycle_from(struct rondo_sim_literal *l, uint32_t root) {
  uint32_t depth = 0;
  path_append(l, 0, root);
  for (;;) {
    int64_t to = next_edge(l, &l->path[depth]);
    if (to < 0) {
      l->gpus[l->path[depth].program].mark = on_path(l) + 1;
      if (depth-- == 0) {
        return false;
      }
    } else if (l->gpus[to].mark == on_path(l)) {
      keep_cycle(l, (uint32_t)to, depth);
      return true;
    } else if (l->gpus[to].mark < on_path(l)) {
      path_append(l, ++depth, (uint32_t)to);
    }
  }
}

// A new cycle contains a GPU whose state has just changed, so only such GPUs are roots.
static bool find_cycle(struct rondo_sim_literal *l) {
  bool found = false;
  for (uint32_t k = 0; k < l->touched_count && !found; k++) {
    const struct rondo_sim_literal_gpu *gpu = &l->gpus[l->touched[k]];
    found = gpu_waits(gpu) && gpu->mark < on_path(l) && cycle_from(l, l->touched[k]);
  }
  return found;
}

// True if a GPU of the set (marked as on the path) waits for the set alone. After a synchronisation
// the GPU waits for all its executing collectives, so one that the set holds is enough. For room it
// waits for any of them, so the set must hold each.
static bool gpu_is_held(const struct rondo_sim_literal *l, uint32_t program) {
  const struct rondo_sim_literal_gpu *gpu = &l->gpus[program];
  bool for_all = (item_at(l, program, gpu->started) & RONDO_SIM_SYNC_BEFORE) != 0;
  for (uint32_t k = 0; k < gpu->executing_count; k++) {
    struct rondo_sim_literal_step at = {program, k, 0};
    bool holds = false;
    for (int64_t to = next_edge(l, &at); to >= 0 && at.executing == k && !holds;
         to = next_edge(l, &at)) {
      holds = l->gpus[to].mark == on_path(l);
    }
    if (holds == for_all) {
      return for_all;
    }
  }
  return !for_all;
}

// Finds a cycle in the set: every GPU of the set has an edge into it, so following such edges leads
// to a GPU a second time.
static void cycle_in_set(struct rondo_sim_literal *l, uint32_t at) {
  for (uint32_t depth = 0;; depth++) {
    path_append(l, depth, at);
    l->gpus[at].mark = on_path(l) + 1;
    int64_t to = next_edge(l, &l->path[depth]);
    while (l->gpus[to].mark < on_path(l)) {
      to = next_edge(l, &l->path[depth]);
    }
    at = (uint32_t)to;
    if (l->gpus[at].mark > on_path(l)) {
      keep_cycle(l, at, depth);
      return;
    }
  }
}

// The search for models with limited room: removes every GPU that waits for something outside the
// set.
static bool find_stuck_set(struct rondo_sim_literal *l) {
  uint32_t count = l->programs->program_count, in_set = 0, before;
  for (uint32_t i = 0; i < count; i++) {
    l->gpus[i].mark = gpu_waits(&l->gpus[i]) ? on_path(l) : 0;
    in_set += gpu_waits(&l->gpus[i]);
  }
  do {
    before = in_set;
    for (uint32_t i = 0; i < count; i++) {
      if (l->gpus[i].mark == on_path(l) && !gpu_is_held(l, i)) {
        l->gpus[i].mark = 0;
        in_set--;
      }
    }
  } while (in_set < before);
  if (in_set > 0) {
    uint32_t first = 0;
    while (l->gpus[first].mark != on_path(l)) {
      first++;
    }
    cycle_in_set(l, first);
  }
  return in_set > 0;
}

static bool deadlock_check(struct rondo_sim_literal *l) {
  bool waiting = false, limited = l->limit > 1 && l->limit != RONDO_SIM_UNLIMITED;
  for (uint32_t k = 0; k < l->touched_count; k++) {
    waiting |= gpu_waits(&l->gpus[l->touched[k]]);
  }
  l->searches += waiting;
  bool found = waiting && (limited ? find_stuck_set(l) : find_cycle(l));
  for (uint32_t k = 0; k < l->touched_count; k++) {
    l->gpus[l->touched[k]].touched = false;
  }
  l->touched_count = 0;
  return found;
}

bool rondo_sim_literal_run(struct rondo_sim_literal *l, const struct rondo_sim_programs *p,
                           uint32_t limit, enum rondo_sim_turns turns, struct rondo_sim_rng *rng) {
  uint32_t *live = rondo_sim_alloc(sizeof(uint32_t) * p->program_count), live_count = 0;
  bool deadlock = false;
  literal_init(l, p, limit);
  for (uint32_t i = 0; i < p->program_count; i++) {
    if (p->programs[i].length > 0) {
      live[live_count++] = i;
    }
  }
  for (uint32_t turn = 0; live_count > 0 && !deadlock;) {
    uint32_t k = turns == RONDO_SIM_RANDOM_TURNS ? rondo_sim_rng_below(rng, live_count) : turn;
    gpu_issue(l, live[k]);
    deadlock = deadlock_check(l);
    if (l->gpus[live[k]].issued == p->programs[live[k]].length) {
      // Keeps the order of the other GPUs for round-robin.
      memmove(live + k, live + k + 1, (--live_count - k) * sizeof(*live));
    } else {
      turn = k + 1;
    }
    turn = turn < live_count ? turn : 0;
  }
  free(live);
  return deadlock;
}
