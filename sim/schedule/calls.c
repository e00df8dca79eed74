// The programs of ranks: what a rank submits, computes and waits for.
#include "sim/schedule/machine_state.h"

// Nobody looks into the buffers of the user, so their addresses only have to be apart.
#define SEND_ADDRESS UINT64_C(0x100000000000)
#define RECV_ADDRESS UINT64_C(0x200000000000)

static uint64_t compute_ns(struct rondo_schedule_machine *m, const struct rondo_schedule_rank *r,
                           const struct rondo_schedule_call *call) {
  return rondo_schedule_whole_ns(
      rondo_schedule_jittered(m, (double)call->compute_ns * r->slowness));
}

void rondo_schedule_run_push(struct rondo_schedule_rank *r, struct rondo_schedule_member *member,
                             uint32_t index) {
  const struct rondo_sqe entry = {.collective = index,
                                  .run = ++member->runs,
                                  .send = SEND_ADDRESS,
                                  .recv = RECV_ADDRESS,
                                  .generation = member->collective,
                                  .block_count = 1};
  (void)rondo_sq_try_push(&r->sq, &entry);
}

bool rondo_schedule_run_give(struct rondo_schedule_rank *r, struct rondo_schedule_member *member,
                             uint32_t index) {
  if (member->given++ >= RONDO_DEVICE_RUNS) {
    return false;
  }
  rondo_schedule_run_push(r, member, index);
  return true;
}

// The program waits as the call says, unless what it waits for has ended.
static void call_await(const struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                       uint32_t number) {
  uint32_t behind = m->arrays.runs[number].call.behind;
  if (number - r->first_call >= behind &&
      m->arrays.runs[number - behind].iteration_ended <= r->iteration) {
    r->awaited = number - behind;
  }
}

bool rondo_schedule_call_submit(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                uint64_t now_ns) {
  uint32_t number = r->first_call + r->submitted++;
  r->synced = false;
  struct rondo_schedule_run *runs = m->arrays.runs, *run = &runs[number];
  struct rondo_schedule_member *member = rondo_schedule_member_of(m, r, run->call.collective);
  run->submitted_ns = now_ns;
  run->next = RONDO_SCHEDULE_NO_CALL;
  if (member->outstanding++) {
    runs[member->newest].next = number;
  } else {
    member->oldest = number;
  }
  member->newest = number;
  m->totals.runs_submitted++;
  if (run->call.waits) {
    call_await(m, r, number);
  }
  return rondo_schedule_order_submit(m, r, run->call.collective, now_ns);
}

// ----------------------------------------------------- device synchronisations ---

// Where the rank's next call synchronises first, its program waits until the device is idle: until
// the block has quit. Returns true if there is nothing to wait for.
static bool sync_begin(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                       uint64_t now_ns) {
  if (!m->arrays.runs[r->first_call + r->submitted].call.syncs || r->synced) {
    return true;
  }
  m->totals.syncs++;
  if (!r->block.resident && !rondo_sq_has_entry(&r->sq) && r->state == RONDO_SCHEDULE_WAITS) {
    return true;
  }
  r->syncs = true;
  r->sync_since_ns = now_ns;
  if (r->state == RONDO_SCHEDULE_WAITS && r->timer_ns != RONDO_SCHEDULE_NEVER) {
    rondo_schedule_step_plan(m, r, r->timer_ns); // nothing else may happen before it quits
  }
  return false;
}

void rondo_schedule_sync_end(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                             uint64_t now_ns) {
  if (r->syncs) {
    r->syncs = false;
    r->synced = true;
    m->totals.sync_ns += now_ns - r->sync_since_ns;
    rondo_schedule_compute(m, r, now_ns, 0);
  }
}

// ------------------------------------------------------------------- programs ---

bool rondo_schedule_program_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                  uint64_t now_ns) {
  bool any = false;
  while (r->submitted < r->call_count && r->awaited == RONDO_SCHEDULE_NO_CALL &&
         sync_begin(m, r, now_ns)) {
    any |= rondo_schedule_call_submit(m, r, now_ns);
    if (r->submitted == r->call_count || r->awaited != RONDO_SCHEDULE_NO_CALL) {
      break;
    }
    uint64_t compute = compute_ns(m, r, &m->arrays.runs[r->first_call + r->submitted].call);
    if (compute) {
      rondo_schedule_compute(m, r, now_ns, compute);
      break;
    }
  }
  return any;
}

void rondo_schedule_program_resume(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                   uint64_t now_ns) {
  if (r->ended == r->call_count) {
    if (++r->iteration == m->settings.iterations) {
      return;
    }
    r->ended = r->submitted = 0;
    rondo_schedule_order_draw(m, r);
  }
  if (r->submitted < r->call_count) {
    const struct rondo_schedule_call *call = &m->arrays.runs[r->first_call + r->submitted].call;
    rondo_schedule_compute(m, r, now_ns, compute_ns(m, r, call));
  }
}

void rondo_schedule_programs_begin(struct rondo_schedule_machine *m) {
  for (uint32_t i = 0; i < m->settings.rank_count; i++) {
    struct rondo_schedule_rank *r = &m->ranks[i];
    if (r->walk) {
      rondo_schedule_walk_begin(m, r);
    } else if (r->call_count) {
      const struct rondo_schedule_call *first = &m->arrays.runs[r->first_call].call;
      rondo_schedule_compute(m, r, r->late_ns, compute_ns(m, r, first));
    }
  }
}
