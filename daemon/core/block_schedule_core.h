// Scheduling: which collective of the task queue the block works on, and when it is preempted.
#ifndef RONDO_DAEMON_CORE_BLOCK_SCHEDULE_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_SCHEDULE_CORE_H

#include "daemon/core/block_execute_core.h"

// Schedules the collective at place `to`. The current one keeps its place.
RONDO_FN void rondo_block_switch(struct rondo_block *b, uint32_t to) {
  if (to <= b->queue.cursor)
    b->stalled = b->passed = 1;
  rondo_block_tally_switch(b);
  b->queue.cursor = to;
  b->scheduled = 0;
}

// Counts that the block leaves a stuck collective for another one.
RONDO_FN void rondo_block_count_preemption(struct rondo_block *b, uint32_t index) {
  rondo_counter_add(&b->counters.preemptions, 1);
  rondo_block_tally(b, index, RONDO_TALLY_PREEMPTIONS);
}

// Preempts the scheduled collective, which is stuck and has spent its budget: schedules the next
// one.
RONDO_FN void rondo_block_preempt(struct rondo_block *b, struct rondo_active_slot *slot) {
  rondo_block_note_wait(b, slot);
  uint32_t next = b->queue.cursor + 1;
  slot->blocked_since_ns = 0;
  rondo_block_count_preemption(b, slot->context.fixed.index);
  rondo_block_switch(b, next < b->queue.count ? next : 0);
}

// Notes that the last step on the scheduled collective made no progress. The wait begins now,
// unless it has begun before.
RONDO_FN void rondo_block_note_blocked(const struct rondo_block *b, struct rondo_active_slot *slot,
                                       uint64_t now_ns) {
  if (slot->blocked_since_ns)
    return;
  slot->blocked_since_ns = now_ns;
  rondo_block_tally(b, slot->context.fixed.index,
                    rondo_wait_reason(&slot->context, (int)b->attempt));
}

// How long the scheduled collective may be stuck. In RONDO_PHASE_DRAIN the run only waits until
// peers have read its data, so to stay is useless: another collective may have to come first here,
// such as the receives of two ranks that send to each other.
RONDO_FN uint64_t rondo_block_budget(const struct rondo_block *b,
                                     const struct rondo_active_slot *slot) {
  uint64_t least_ns = b->daemon->policy.min_budget_ns;
  if (slot->context.state.phase != RONDO_PHASE_DRAIN || slot->budget_ns < least_ns)
    return slot->budget_ns;
  return least_ns;
}

// True if at least `ns` have passed between two readings of the clock. A clock that moves in steps
// of a microsecond, as on some GPUs, may have been about to move at the first reading.
RONDO_FN bool rondo_block_has_passed(const struct rondo_block *b, uint64_t since_ns,
                                     uint64_t now_ns, uint64_t ns) {
  return ns == 0 || now_ns - since_ns >= ns + b->tick_ns - 1;
}

// The places of the task queue with the urgency of place `at`; the queue is sorted.
struct rondo_place_range {
  uint32_t begin, end;
};

RONDO_FN struct rondo_place_range rondo_block_peers_of(const struct rondo_block *b, uint32_t at) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  struct rondo_place_range range = {at, at + 1};
  uint32_t urgency = rondo_task_urgency(entries[at]);
  while (range.begin > 0 && rondo_task_urgency(entries[range.begin - 1]) == urgency)
    range.begin--;
  while (range.end < b->queue.count && rondo_task_urgency(entries[range.end]) == urgency)
    range.end++;
  return range;
}

// Finds a collective of the ready set that is ready, other than the scheduled one. In order of the
// queue it is the next one; with priorities (`by_urgency`) the most urgent one. Returns its place,
// or RONDO_NOWHERE.
RONDO_FN uint32_t rondo_block_find_next(struct rondo_block *b, bool by_urgency) {
  uint32_t at = b->queue.cursor;
  if (RONDO_FAULT(LOOK_FROM_FRONT))
    return rondo_block_find_ready(b, 0, at);
  uint32_t known = RONDO_LOOK_ROUND(b);
  if (known != RONDO_NOT_LOOKED)
    return known;
  if (!by_urgency)
    return rondo_block_find_ready(b, at + 1, b->queue.count - 1);
  const struct rondo_place_range peers = rondo_block_peers_of(b, at);
  // In order: more urgent ones; equally urgent ones, from the scheduled one on and around; less
  // urgent ones.
  uint32_t found = RONDO_NOWHERE;
  uint32_t from = 0;
  uint32_t until = peers.begin;
  for (uint32_t part = 0; part < 4 && found == RONDO_NOWHERE; part++) {
    found = rondo_block_find_ready(b, from, until - from);
    from = part == 0 ? at + 1 : part == 1 ? peers.begin : peers.end;
    until = part == 0 ? peers.end : part == 1 ? at : b->queue.count;
  }
  return found;
}

// One look round: finds a ready collective other than the scheduled one. Every
// RONDO_FAIR_ROUNDS-th round ignores priorities, so that none waits for ever. Returns its place, or
// RONDO_NOWHERE.
//
// A round takes the flags only if the ready set is exhausted, or if that costs little: to read
// flags that peers are setting takes as long as some small primitives. So new ones join after those
// that were ready before, unless a turn was long or the order is by priority.
#define RONDO_FAIR_ROUNDS 16u
#define RONDO_LONG_TURN_BYTES (16u << 10)
RONDO_FN uint32_t rondo_block_find_other(struct rondo_block *b) {
  bool is_fair = ++b->rounds % RONDO_FAIR_ROUNDS == 0;
  bool has_order = b->daemon->policy.order == RONDO_ORDER_PRIORITY;
  bool takes = is_fair || has_order || b->turn_bytes >= RONDO_LONG_TURN_BYTES;
  if (takes)
    (void)rondo_block_take_flags(b);
  uint32_t found = rondo_block_find_next(b, has_order && !is_fair);
  if (found == RONDO_NOWHERE && !takes && rondo_block_take_flags(b))
    found = rondo_block_find_next(b, false);
  if (found == RONDO_NOWHERE || is_fair)
    rondo_block_look_blindly(b);
  return found;
}

// Schedules another ready collective, if any. `is_stuck`: the current one is stuck; stores its
// wait. Returns true if there was one.
RONDO_FN bool rondo_block_try_switch(struct rondo_block *b, bool is_stuck) {
  uint32_t current = rondo_task_index(rondo_task_queue_current(&b->queue));
  if (is_stuck)
    rondo_block_arm_wait(b, rondo_slot_at_cursor(b));
  uint32_t found = rondo_block_find_other(b);
  if (found == RONDO_NOWHERE) {
    if (is_stuck)
      rondo_block_set_ready(b, current); // it stays scheduled
    return false;
  }
  rondo_block_switch(b, found);
  return true;
}

// Called when the scheduled collective, one of several, is stuck. Schedules a ready one and returns
// true; if there is none, preempts the current one when its budget is used up.
RONDO_FN bool rondo_block_stuck(struct rondo_block *b, uint64_t now_ns) {
  const struct rondo_policy *policy = &b->daemon->policy;
  struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  rondo_block_note_blocked(b, slot, now_ns);
  if (policy->budget == RONDO_BUDGET_NEVER || b->looks == 0 || RONDO_FAULT(BUDGET_NEVER_ENDS))
    return false;
  uint64_t since_ns = slot->blocked_since_ns > b->looked_ns ? slot->blocked_since_ns : b->looked_ns;
  if (rondo_block_has_passed(b, since_ns, now_ns, policy->look_ns) && !RONDO_FAULT(SPINS_IN_VAIN)) {
    b->looked_ns = now_ns;
    b->stalled = 1;
    if (rondo_block_try_switch(b, 1)) {
      slot->blocked_since_ns = 0;
      rondo_block_count_preemption(b, slot->context.fixed.index);
      return true;
    }
  }
  if (rondo_block_has_passed(b, slot->blocked_since_ns, now_ns, rondo_block_budget(b, slot)))
    rondo_block_preempt(b, slot);
  return false;
}

// Works for one step on the scheduled collective, whose slot is given. Returns true if anything
// moved.
RONDO_FN bool rondo_block_work(struct rondo_block *b, struct rondo_active_slot *slot,
                               uint64_t now_ns) {
  // A budget of zero: another context has used this slot since.
  if (!b->scheduled || slot->budget_ns == 0) {
    slot->budget_ns = rondo_policy_initial_budget(&b->daemon->policy, b->queue.cursor);
    slot->blocked_since_ns = 0;
    b->turn_bytes = 0;
    b->scheduled = 1;
    rondo_block_set_ready(b, slot->context.fixed.index); // until its wait is stored
  }
  RONDO_POINT("block.execute");
  if (!rondo_block_execute(b, slot, now_ns))
    return false;
  slot->blocked_since_ns = 0;
  return true;
}

// Called after the scheduled collective has made progress or ended, if others are queued. Schedules
// a ready one if the turn is over, the current one is stuck, or the ready one is more urgent.
RONDO_FN void rondo_block_share(struct rondo_block *b) {
  const struct rondo_policy *policy = &b->daemon->policy;
  if (policy->budget == RONDO_BUDGET_NEVER || RONDO_FAULT(SPINS_IN_VAIN))
    return;
  uint32_t current = rondo_task_queue_current(&b->queue);
  uint32_t index = rondo_task_index(current);
  if (!b->scheduled) { // the next in the queue; it may be stuck
    if (!rondo_block_is_ready(b, index))
      (void)rondo_block_try_switch(b, 0);
    return;
  }
  const struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  if (slot->context.state.phase == RONDO_PHASE_OPS && b->attempt != RONDO_ATTEMPT_DONE) {
    if (policy->look_ns)
      return; // its peer may be about to go on
    if (rondo_block_try_switch(b, 1))
      rondo_block_count_preemption(b, index);
    return;
  }
  uint32_t first = *rondo_task_entries(&b->queue);
  bool is_passed = policy->order == RONDO_ORDER_PRIORITY &&
                   rondo_task_urgency(first) > rondo_task_urgency(current);
  if (!is_passed && b->turn_bytes < RONDO_TURN_BYTES)
    return;
  (void)rondo_block_try_switch(b, 0);
}

// Called when the only collective in the queue is stuck. Keeps it scheduled, and looks for new
// entries.
RONDO_FN void rondo_block_stay(struct rondo_block *b, struct rondo_active_slot *slot,
                               uint64_t now_ns) {
  const struct rondo_policy *policy = &b->daemon->policy;
  rondo_block_note_blocked(b, slot, now_ns);
  if (b->looks && now_ns - b->looked_ns >= policy->look_ns) {
    b->looked_ns = now_ns;
    b->stalled = 1;
  }
}

// Works on the scheduled collective and, if that is stuck, on a ready one. Returns true if anything
// moved.
RONDO_FN bool rondo_block_move(struct rondo_block *b, uint64_t now_ns) {
  // A collective that seems ready may be stuck: it may wait for two words, and only one has
  // changed.
  for (uint32_t tries = 0; tries < 2; tries++) {
    struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
    if (rondo_block_work(b, slot, now_ns)) {
      if (b->queue.count > 1)
        rondo_block_share(b);
      return true;
    }
    if (b->queue.count == 1) {
      rondo_block_stay(b, slot, now_ns);
      return false;
    }
    if (!rondo_block_stuck(b, now_ns))
      return false;
  }
  return false;
}

#endif // RONDO_DAEMON_CORE_BLOCK_SCHEDULE_CORE_H
