// When runs that were submitted go to the daemon, if all ranks follow one order.
#include <stdlib.h>
#include <string.h>

#include "sim/schedule/machine_state.h"

void rondo_schedule_orders_make(struct rondo_schedule_machine *m) {
  struct rondo_schedule_orders *o = &m->orders;
  uint32_t n = m->settings.rank_count;
  if (m->settings.order == RONDO_SCHEDULE_STATIC) {
    o->calls = rondo_sim_alloc(m->call_count * sizeof *o->calls);
    o->turns = rondo_sim_calloc(n, sizeof *o->turns);
    for (uint64_t i = 0; i < m->call_count; i++) {
      o->calls[i] = m->arrays.runs[i].call.collective;
    }
  }
  if (m->settings.order == RONDO_SCHEDULE_COORDINATOR) {
    const struct rondo_schedule_link *link =
        &m->collectives[0]
             .links[m->settings.machine_ranks < n ? RONDO_SCHEDULE_OUTSIDE : RONDO_SCHEDULE_INSIDE];
    uint32_t hops = n > 1 ? 32 - (uint32_t)__builtin_clz(n - 1) : 0;
    double message_ns = link->latency_ns + 2 * link->overhead_ns + link->gap_ns;
    o->round_ns = (uint64_t)(2 * hops * message_ns + 0.5);
    o->lacking = rondo_sim_alloc(m->collective_count * sizeof *o->lacking);
    o->ready = rondo_sim_alloc(m->collective_count * sizeof *o->ready);
    o->announced = rondo_sim_alloc(m->collective_count * sizeof *o->announced);
    for (uint32_t i = 0; i < m->collective_count; i++) {
      o->lacking[i] = m->collectives[i].layout->shape.nranks;
    }
  }
}

void rondo_schedule_orders_fini(struct rondo_schedule_machine *m) {
  struct rondo_schedule_orders *o = &m->orders;
  free(o->calls);
  free(o->turns);
  free(o->lacking);
  free(o->ready);
  free(o->announced);
}

// ---------------------------------------------------------------- static order ---

// Gives the daemon what was submitted of the program's order, up to the first run that was not.
static bool turns_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r) {
  uint32_t *turn = &m->orders.turns[rondo_schedule_rank_number(m, r)];
  bool any = false;
  *turn = *turn == r->call_count ? 0 : *turn; // of the next iteration
  while (*turn < r->call_count) {
    uint32_t index = m->orders.calls[r->first_call + *turn];
    if (!rondo_schedule_member_held(rondo_schedule_member_of(m, r, index))) {
      break;
    }
    any |= rondo_schedule_run_give(r, rondo_schedule_member_of(m, r, index), index);
    ++*turn;
  }
  return any;
}

// ----------------------------------------------------------------- coordinator ---

static void round_plan(struct rondo_schedule_machine *m, uint64_t at_ns, uint32_t part) {
  rondo_schedule_event_push(&m->events,
                            &(struct rondo_schedule_event){
                                .at_ns = at_ns, .kind = RONDO_SCHEDULE_SUBMIT, .sequence = part});
}

// All members have submitted a run of the collective. The next cycle finds it.
static void ready_add(struct rondo_schedule_machine *m, uint32_t collective, uint64_t now_ns) {
  struct rondo_schedule_orders *o = &m->orders;
  uint64_t cycle = m->settings.cycle_ns;
  o->ready[o->ready_count++] = collective;
  if (!o->gathers) {
    uint64_t at_ns = now_ns > o->round_ends_ns ? now_ns : o->round_ends_ns;
    o->gathers = true;
    round_plan(m, cycle ? (at_ns + cycle - 1) / cycle * cycle : at_ns, RONDO_SCHEDULE_GATHER);
  }
}

// Rank 0 knows what is ready; the others get to know it.
static void round_gather(struct rondo_schedule_machine *m, uint64_t now_ns) {
  struct rondo_schedule_orders *o = &m->orders;
  memcpy(o->announced, o->ready, o->ready_count * sizeof *o->ready);
  o->announced_count = o->ready_count;
  o->ready_count = 0;
  o->gathers = false;
  o->round_ends_ns = now_ns + o->round_ns;
  m->totals.rounds++;
  round_plan(m, o->round_ends_ns, RONDO_SCHEDULE_ANNOUNCE);
}

static void round_announce(struct rondo_schedule_machine *m, uint64_t now_ns) {
  struct rondo_schedule_orders *o = &m->orders;
  for (uint32_t i = 0; i < o->announced_count; i++) {
    const struct rondo_schedule_collective *c = &m->collectives[o->announced[i]];
    for (uint32_t k = 0; k < c->layout->shape.nranks; k++) {
      struct rondo_schedule_rank *r = &m->ranks[c->ranks ? c->ranks[k] : k];
      uint32_t index = rondo_schedule_index_of(m, r, o->announced[i]);
      struct rondo_schedule_member *member = rondo_schedule_member_of(m, r, index);
      rondo_schedule_run_deliver(m, r, index, now_ns);
      o->lacking[o->announced[i]] += !rondo_schedule_member_held(member);
    }
    if (o->lacking[o->announced[i]] == 0) {
      ready_add(m, o->announced[i], now_ns);
    }
  }
}

// ----------------------------------------------------------------------- calls ---

bool rondo_schedule_order_submit(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                 uint32_t index, uint64_t now_ns) {
  struct rondo_schedule_member *member = rondo_schedule_member_of(m, r, index);
  switch (m->settings.order) {
  case RONDO_SCHEDULE_STATIC:
    return turns_go_on(m, r);
  case RONDO_SCHEDULE_COORDINATOR:
    // If it is the first that is held, the rank was lacking.
    if (member->outstanding == member->given + 1 && --m->orders.lacking[member->collective] == 0) {
      ready_add(m, member->collective, now_ns);
    }
    return false;
  default:
    return rondo_schedule_run_give(r, member, index);
  }
}

void rondo_schedule_order_round(struct rondo_schedule_machine *m, uint32_t part, uint64_t now_ns) {
  if (part == RONDO_SCHEDULE_GATHER) {
    round_gather(m, now_ns);
  } else {
    round_announce(m, now_ns);
  }
}
