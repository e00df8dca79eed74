// Ranks that share the cores of their machine. Steps of blocks and computing take the core that is
// free first. Who finds none waits, behind those that waited before.
#include <stdlib.h>

#include "sim/schedule/machine_state.h"

// A rank computes for so long at most while others wait for a core. Linux has slices of 0.7 to 4
// ms, by the number of processors.
#define SLICE_NS UINT64_C(1000000)

void rondo_schedule_cores_make(struct rondo_schedule_machine *m) {
  const struct rondo_schedule_settings *s = &m->settings;
  if (s->cores == 0 || s->cores >= s->machine_ranks) {
    return;
  }
  uint32_t machines = s->rank_count / s->machine_ranks;
  m->cores = rondo_sim_calloc(machines, sizeof *m->cores);
  for (uint32_t i = 0; i < machines; i++) {
    m->cores[i].until_ns = rondo_sim_calloc(s->cores, sizeof *m->cores[i].until_ns);
  }
}

void rondo_schedule_cores_fini(struct rondo_schedule_machine *m) {
  uint32_t machines = m->cores ? m->settings.rank_count / m->settings.machine_ranks : 0;
  for (uint32_t i = 0; i < machines; i++) {
    free(m->cores[i].until_ns);
  }
  free(m->cores);
}

static struct rondo_schedule_cores *cores_of(const struct rondo_schedule_machine *m,
                                             const struct rondo_schedule_rank *r) {
  return &m->cores[rondo_schedule_rank_number(m, r) / m->settings.machine_ranks];
}

// The core that is free first.
static uint64_t *core_first(const struct rondo_schedule_machine *m,
                            const struct rondo_schedule_cores *cores) {
  uint64_t *first = cores->until_ns;
  for (uint32_t i = 1; i < m->settings.cores; i++) {
    first = cores->until_ns[i] < *first ? &cores->until_ns[i] : first;
  }
  return first;
}

// The rank whose ticket is next asks no later than a core is free, so all others ask after it.
bool rondo_schedule_core_ask(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                             enum rondo_schedule_core_use use, uint64_t now_ns,
                             uint64_t *again_ns) {
  if (!m->cores) {
    return true;
  }
  struct rondo_schedule_cores *cores = cores_of(m, r);
  uint64_t *ticket = &r->tickets[use], free_ns = *core_first(m, cores);
  bool is_next = *ticket ? *ticket == cores->called + 1 : cores->given == cores->called;
  if (free_ns <= now_ns && is_next) {
    cores->called += *ticket != 0;
    *ticket = 0;
    return true;
  }
  *ticket = *ticket ? *ticket : ++cores->given;
  *again_ns = free_ns > now_ns ? free_ns : now_ns;
  return false;
}

void rondo_schedule_core_take(struct rondo_schedule_machine *m, const struct rondo_schedule_rank *r,
                              uint64_t until_ns) {
  if (m->cores) {
    *core_first(m, cores_of(m, r)) = until_ns;
  }
}

static void program_plan(struct rondo_schedule_machine *m, const struct rondo_schedule_rank *r,
                         uint64_t at_ns, uint32_t part) {
  rondo_schedule_event_push(&m->events,
                            &(struct rondo_schedule_event){.at_ns = at_ns,
                                                           .kind = RONDO_SCHEDULE_SUBMIT,
                                                           .rank = rondo_schedule_rank_number(m, r),
                                                           .sequence = part});
}

void rondo_schedule_compute(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                            uint64_t at_ns, uint64_t ns) {
  if (m->cores && ns) {
    r->compute_ns = ns;
    program_plan(m, r, at_ns, RONDO_SCHEDULE_COMPUTE);
  } else {
    program_plan(m, r, at_ns + ns, RONDO_SCHEDULE_PROGRAM);
  }
}

void rondo_schedule_compute_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                  uint64_t now_ns) {
  uint64_t again_ns;
  if (!rondo_schedule_core_ask(m, r, RONDO_SCHEDULE_CORE_COMPUTE, now_ns, &again_ns)) {
    program_plan(m, r, again_ns, RONDO_SCHEDULE_COMPUTE);
    return;
  }
  uint64_t slice = r->compute_ns < SLICE_NS ? r->compute_ns : SLICE_NS;
  r->compute_ns -= slice;
  rondo_schedule_core_take(m, r, now_ns + slice);
  program_plan(m, r, now_ns + slice,
               r->compute_ns ? RONDO_SCHEDULE_COMPUTE : RONDO_SCHEDULE_PROGRAM);
}
