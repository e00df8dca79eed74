#include "daemon/plan/plan_topology.h"

#include <stdlib.h>

#include "base/digest.h"
#include "daemon/plan/plan.h"

#define DIGEST_NAME UINT64_C(0x706f6c6f6779) // of this use

// A topology and its arrays, in one piece of memory.
struct room {
  struct rondo_plan_topology is;
  struct rondo_plan_machine *machines;
  uint32_t *machine_of, *order, *place_of;
  uint32_t numbers[];
};

static struct room *room_create(uint32_t nranks) {
  struct room *r = calloc(1, sizeof *r + 3 * (size_t)nranks * sizeof *r->numbers);
  if (!r)
    return NULL;
  r->machines = calloc(nranks, sizeof *r->machines);
  if (!r->machines) {
    free(r);
    return NULL;
  }
  r->machine_of = r->numbers;
  r->order = r->machine_of + nranks;
  r->place_of = r->order + nranks;
  return r;
}

struct labelled {
  uint64_t machine;
  uint32_t position;
};

static int labelled_compare(const void *a, const void *b) {
  const struct labelled *x = a;
  const struct labelled *y = b;
  if (x->machine != y->machine)
    return x->machine < y->machine ? -1 : 1;
  return x->position < y->position ? -1 : 1;
}

// Numbers the machines in the order of their first positions. False without memory.
static bool room_number_machines(struct room *r, const struct rondo_plan_location *locations,
                                 uint32_t nranks) {
  struct labelled *list = malloc(nranks * sizeof *list);
  if (!list)
    return false;
  for (uint32_t i = 0; i < nranks; i++)
    list[i] = (struct labelled){locations[i].machine, i};
  qsort(list, nranks, sizeof *list, labelled_compare);
  uint32_t *first_of = r->order; // by position, the first one of its machine
  for (uint32_t i = 0; i < nranks; i++) {
    bool is_first = i == 0 || list[i].machine != list[i - 1].machine;
    uint32_t first = is_first ? list[i].position : first_of[list[i - 1].position];
    first_of[list[i].position] = first;
  }
  free(list);
  for (uint32_t i = 0; i < nranks; i++) {
    if (first_of[i] == i)
      r->machines[r->is.machine_count].cores = locations[i].cores;
    r->machine_of[i] = first_of[i] == i ? r->is.machine_count++ : r->machine_of[first_of[i]];
  }
  return true;
}

// Orders the positions by machines. Returns true if that is the order of their numbers.
static bool room_order(struct room *r) {
  bool is_identity = true;
  uint32_t place = 0;
  for (uint32_t m = 0; m < r->is.machine_count; m++) {
    r->machines[m].first = place;
    place += r->machines[m].rank_count;
    r->machines[m].rank_count = 0; // counted again below
  }
  for (uint32_t i = 0; i < r->is.nranks; i++) {
    struct rondo_plan_machine *m = &r->machines[r->machine_of[i]];
    uint32_t at = m->first + m->rank_count++;
    r->order[at] = i;
    r->place_of[i] = at;
    is_identity &= at == i;
  }
  return is_identity;
}

static uint64_t room_digest(const struct room *r) {
  uint64_t counts = (uint64_t)r->is.nranks << 32 | r->is.machine_count;
  uint64_t shared = r->is.shares_process | (uint64_t)r->is.machines_share_process << 1 |
                    (uint64_t)r->is.leaders << 2;
  uint64_t digest = rondo_digest_mix(rondo_digest_mix(DIGEST_NAME ^ counts) ^ shared);
  digest = rondo_digest_bytes(digest, r->machines, r->is.machine_count * sizeof r->machines[0]);
  return rondo_digest_bytes(digest, r->machine_of, r->is.nranks * sizeof r->machine_of[0]);
}

static uint32_t least_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Several leaders, if every machine has so many ports and ranks.
static uint32_t room_count_leaders(const struct room *r,
                                   const struct rondo_plan_location *locations) {
  uint32_t leaders = r->is.machine_count > 1 ? RONDO_PLAN_MAX_LEADERS : 1;
  for (uint32_t i = 0; i < r->is.nranks; i++)
    leaders = least_of(leaders, locations[i].ports ? locations[i].ports : 1);
  for (uint32_t m = 0; m < r->is.machine_count; m++)
    leaders = least_of(leaders, r->machines[m].rank_count);
  return r->is.machine_count * leaders <= RONDO_PLAN_ROUNDS_MOST_CHUNKS ? leaders : 1;
}

struct rondo_plan_topology *rondo_plan_topology_create(const struct rondo_plan_location *locations,
                                                       uint32_t nranks) {
  struct room *r = room_create(nranks);
  if (!r)
    return NULL;
  r->is.nranks = nranks;
  r->is.shares_process = true;
  if (!room_number_machines(r, locations, nranks)) {
    rondo_plan_topology_destroy(&r->is);
    return NULL;
  }
  for (uint32_t i = 0; i < nranks; i++) {
    r->machines[r->machine_of[i]].rank_count++;
    r->is.shares_process &= locations[i].process == locations[0].process;
  }
  r->is.shares_memory = r->is.machine_count == 1;
  r->is.machines = r->machines;
  r->is.machine_of = r->is.machine_count > 1 ? r->machine_of : NULL;
  if (!room_order(r)) {
    r->is.order = r->order;
    r->is.place_of = r->place_of;
  }
  r->is.machines_share_process = true;
  for (uint32_t i = 0; i < nranks; i++) {
    uint32_t leader = r->order[r->machines[r->machine_of[i]].first];
    r->is.machines_share_process &= locations[i].process == locations[leader].process;
  }
  r->is.leaders = room_count_leaders(r, locations);
  r->is.digest = room_digest(r);
  return &r->is;
}

void rondo_plan_topology_destroy(struct rondo_plan_topology *topology) {
  struct room *r = (struct room *)topology;
  if (!r)
    return;
  free(r->machines);
  free(r);
}

struct rondo_plan_line rondo_plan_line_of(const struct rondo_plan_topology *t, uint32_t nranks,
                                          uint32_t root) {
  struct rondo_plan_line l = {t, nranks, 0, nranks, rondo_plan_topology_place(t, root)};
  if (t) {
    const struct rondo_plan_machine *m = &t->machines[rondo_plan_topology_machine_of(t, root)];
    l.first = m->first;
    l.count = m->rank_count;
    l.root -= m->first;
  }
  return l;
}

uint32_t rondo_plan_line_at(const struct rondo_plan_line *l, uint32_t step) {
  if (step < l->count)
    step = (l->root + step) % l->count;
  return rondo_plan_topology_at(l->topology, (l->first + step) % l->nranks);
}

uint32_t rondo_plan_line_step(const struct rondo_plan_line *l, uint32_t position) {
  uint32_t place = rondo_plan_topology_place(l->topology, position);
  uint32_t step = (place + l->nranks - l->first) % l->nranks;
  return step < l->count ? (step + l->count - l->root) % l->count : step;
}
