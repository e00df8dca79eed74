// Control instructions, barriers and special registers.
#include <string.h>
#include <time.h>

#include "tests/support/ptx/ptx_exec.h"

// ------------------------------------------------------------------- branching --

// Counts the instructions since the last control instruction, and stops at the end of the budget.
static void steps_count(struct ptx_warp *w, const struct ptx_instr *i) {
  w->steps += (uint64_t)i->straight * (uint32_t)__builtin_popcount(w->mask);
  w->idle_steps += i->straight;
  w->budget -= i->straight;
  if (w->budget <= 0 && w->stop == PTX_GOES_ON)
    w->stop = PTX_TURN;
}

// Lanes that wait at a lower counter, or at this one, come first.
static void group_check(struct ptx_warp *w) {
  if (w->pc >= w->merge_pc && w->stop == PTX_GOES_ON)
    w->stop = PTX_TURN;
}

void ptx_run_block(struct ptx_warp *w, const struct ptx_instr *i) {
  steps_count(w, i);
  group_check(w);
}

void ptx_run_jump(struct ptx_warp *w, const struct ptx_instr *i) {
  w->pc = i->target;
  steps_count(w, i);
  group_check(w);
}

static void lanes_part(struct ptx_warp *w, const struct ptx_instr *i, uint32_t taken) {
  taken &= w->mask;
  steps_count(w, i);
  if (taken == w->mask) {
    w->pc = i->target;
  } else if (taken) {
    for (uint32_t l = 0; l < PTX_WARP; l++)
      if (w->mask >> l & 1u)
        w->lane_pc[l] = taken >> l & 1u ? i->target : w->pc;
    w->mask = 0;
    w->stop = PTX_TURN;
    return;
  }
  group_check(w);
}

void ptx_run_branch(struct ptx_warp *w, const struct ptx_instr *i) {
  lanes_part(w, i, *(const uint32_t *)ptx_operand(w, i->r[0]));
}

void ptx_run_unless(struct ptx_warp *w, const struct ptx_instr *i) {
  lanes_part(w, i, ~*(const uint32_t *)ptx_operand(w, i->r[0]));
}

void ptx_run_exit(struct ptx_warp *w, const struct ptx_instr *i) {
  steps_count(w, i);
  w->live &= ~w->mask;
  w->mask = 0;
  w->stop = PTX_ENDED;
}

void ptx_run_trap(struct ptx_warp *w, const struct ptx_instr *i) {
  (void)i;
  ptx_accuse(w, (uint32_t)__builtin_ctz(w->mask), "traps");
}

uint64_t ptx_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// A pause of t ns lasts between 0 and 2 t. The seed chooses; without one it lasts 0.
void ptx_run_sleep(struct ptx_warp *w, const struct ptx_instr *i) {
  w->idle_steps = 0;
  w->stop = PTX_SLEEPS;
  if (!w->block->launch.options->seed)
    return;
  const uint64_t now_ns = ptx_clock_ns();
  const uint32_t *ns = ptx_operand(w, i->r[0]);
  PTX_EACH_LANE(w, w->lane_wake_ns[l] =
                       now_ns + ptx_block_random(w->block) % (2 * (uint64_t)ns[l] + 1));
  w->sleeping |= w->mask;
}

// -------------------------------------------------------------------- barriers --

static uint32_t threads_left(const struct ptx_block *b) {
  uint32_t threads = 0;
  for (uint32_t n = 0; n < b->warp_count; n++)
    threads += b->warps[n].live ? PTX_WARP : 0;
  return threads;
}

// What a barrier cannot mean, or null.
static const char *barrier_fault(const struct ptx_block *b, uint32_t number, uint32_t threads) {
  if (number >= PTX_BARRIERS)
    return "uses a barrier whose number is above 15";
  if (threads % PTX_WARP || threads == 0)
    return "counts a barrier in threads that are no multiple of 32";
  if (threads > b->warp_count * PTX_WARP)
    return "waits at a barrier for more threads than the block has";
  return NULL;
}

// One lane begins to wait. False: accused.
static bool lane_wait(struct ptx_warp *w, const struct ptx_instr *i, uint32_t lane) {
  struct ptx_block *b = w->block;
  const uint32_t number = ((const uint32_t *)ptx_operand(w, i->r[0]))[lane];
  const bool counts_left = i->use.count == 1;
  const uint32_t threads =
      counts_left ? threads_left(b) : ((const uint32_t *)ptx_operand(w, i->r[1]))[lane];
  const char *fault = barrier_fault(b, number, threads);
  if (fault) {
    ptx_accuse(w, lane, "%s", fault);
    return false;
  }
  struct ptx_barrier *barrier = &b->barriers[number];
  if (!barrier->expected) {
    barrier->expected = threads;
    barrier->counts_left = counts_left;
    barrier->is_aligned = i->use.is_signed;
  } else if (barrier->counts_left != counts_left ||
             (!counts_left && barrier->expected != threads)) {
    ptx_accuse(w, lane, "waits at barrier %u for %u threads, where others wait for %u", number,
               threads, barrier->expected);
    return false;
  }
  w->lane_barrier[lane] = (uint8_t)number;
  w->lane_pc[lane] = w->pc;
  return true;
}

void ptx_run_barrier(struct ptx_warp *w, const struct ptx_instr *i) {
  for (uint32_t each = w->mask; each; each &= each - 1)
    if (!lane_wait(w, i, (uint32_t)__builtin_ctz(each)))
      return;
  w->idle_steps = 0;
  w->waiting |= w->mask;
  w->mask = 0;
  w->stop = PTX_WAITS;
}

static void barrier_open(struct ptx_block *b, struct ptx_barrier *barrier) {
  struct ptx_lanes lanes[PTX_MAX_THREADS / PTX_WARP];
  uint32_t count = 0;
  for (uint32_t n = 0; n < b->warp_count; n++)
    if (barrier->arrived >> n & 1u) {
      lanes[count++] = (struct ptx_lanes){b->warps[n].agent, b->warps[n].live};
      b->warps[n].waiting = 0;
    }
  if (b->meter)
    ptx_meter_meet(b, barrier->arrived);
  if (b->launch.memory)
    ptx_memory_meet(b->launch.memory, lanes, count);
  memset(barrier, 0, sizeof *barrier);
}

void ptx_barriers_look(struct ptx_block *b) {
  for (uint32_t n = 0; n < PTX_BARRIERS; n++) {
    struct ptx_barrier *barrier = &b->barriers[n];
    const uint32_t expected = barrier->counts_left ? threads_left(b) : barrier->expected;
    if (barrier->arrived && (uint32_t)__builtin_popcount(barrier->arrived) * PTX_WARP >= expected)
      barrier_open(b, barrier);
  }
}

// A warp arrives when all its lanes that have not ended wait at one barrier.
void ptx_barrier_arrive(struct ptx_warp *w) {
  struct ptx_block *b = w->block;
  if (!w->live || w->waiting != w->live)
    return;
  const uint32_t first = (uint32_t)__builtin_ctz(w->live);
  struct ptx_barrier *barrier = &b->barriers[w->lane_barrier[first]];
  for (uint32_t each = w->live; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    if (w->lane_barrier[l] != w->lane_barrier[first])
      return;
    if (barrier->is_aligned && w->lane_pc[l] != w->lane_pc[first]) {
      w->pc = w->lane_pc[l];
      ptx_accuse(w, l, "executes an aligned barrier that not all lanes of its warp execute");
      return;
    }
  }
  barrier->arrived |= 1u << w->index;
}

// ------------------------------------------------------------ special registers --

static uint64_t special_value(const struct ptx_warp *w, enum ptx_special special) {
  const struct ptx_block *b = w->block;
  const uint64_t step = b->launch.options->timer_step_ns ? b->launch.options->timer_step_ns : 32;
  switch (special) {
  case PTX_NTID:
    return b->launch.threads;
  case PTX_CTAID:
    return b->index;
  case PTX_NCTAID:
    return b->launch.blocks;
  case PTX_ONE:
    return 1;
  case PTX_WARP_ID:
    return w->index;
  case PTX_SM:
    return b->launch.options->multiprocessor;
  case PTX_CLOCK:
  case PTX_CLOCK64:
    return ptx_clock_ns();
  case PTX_TIMER:
    return ptx_clock_ns() / step * step;
  default:
    return 0;
  }
}

void ptx_run_special(struct ptx_warp *w, const struct ptx_instr *i) {
  const enum ptx_special special = (enum ptx_special)i->offset;
  const uint64_t value = special_value(w, special);
  void *to = ptx_operand(w, i->r[0]);
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    const uint64_t lane = special == PTX_TID    ? w->index * PTX_WARP + l
                          : special == PTX_LANE ? l
                                                : 0;
    ptx_element_write(to, i->use.register_bytes, l, value + lane);
  }
}
