// The scheduling policy: when a block fetches entries, how it orders them, and for how long it
// retries a stuck collective (the paper, 4.3: stickiness). No side effects; time is an argument.
//
// All blocks of all ranks of a job use the same policy. The front of the task queue gets the
// largest budget, each later place half of the one before. Progress multiplies the budget, so a
// block whose peer works on the same collective stays with it. In this way the ranks come to
// execute the same collective at the same time, without a message.
#ifndef RONDO_SCHEDULER_POLICY_CORE_H
#define RONDO_SCHEDULER_POLICY_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include <rondo/types.h>

// Defaults of the times of blocks, which a configuration, rondo-info tune and rondo-sim can change.
#define RONDO_DEFAULT_FRONT_BUDGET_NS 20000u
#define RONDO_DEFAULT_MIN_BUDGET_NS 1000u
#define RONDO_DEFAULT_MAX_BUDGET_NS 400000u
#define RONDO_DEFAULT_SUCCESS_FACTOR 20u
#define RONDO_DEFAULT_QUIT_PERIOD_NS 200000u
#define RONDO_DEFAULT_RESIDENCY_NS 20000000u

struct rondo_policy {
  uint8_t order;  // enum rondo_order_policy
  uint8_t budget; // enum rondo_budget_policy
  uint16_t reserved;
  uint32_t success_factor;
  uint64_t front_budget_ns;
  uint64_t min_budget_ns;
  uint64_t max_budget_ns;
  uint64_t look_ns; // how long a block retries a stuck collective before it looks for a ready one
};

// Budget of a collective that is scheduled at `position` of the task queue.
RONDO_FN uint64_t rondo_policy_initial_budget(const struct rondo_policy *p, uint32_t position) {
  if (p->budget == RONDO_BUDGET_NEVER)
    return UINT64_MAX;
  if (p->budget == RONDO_BUDGET_FIXED)
    return p->front_budget_ns;
  uint64_t budget = position < 64 ? p->front_budget_ns >> position : 0;
  return budget > p->min_budget_ns ? budget : p->min_budget_ns;
}

// Budget after progress.
RONDO_FN uint64_t rondo_policy_raised_budget(const struct rondo_policy *p, uint64_t budget) {
  if (p->budget != RONDO_BUDGET_ADAPTIVE)
    return budget;
  // This runs after every chunk: a division would take as long as some primitives.
  if (budget >> 32 || budget * p->success_factor > p->max_budget_ns)
    return p->max_budget_ns;
  return budget * p->success_factor;
}

// True if a block should look for new entries now: with priorities at every step, else when its
// queue is empty or a whole pass over it made no progress. Without preemption only when its queue
// is empty: the single-queue model of the paper, 2.4.1.
RONDO_FN bool rondo_policy_should_fetch(const struct rondo_policy *p, uint32_t queued,
                                        int stalled) {
  if (queued == 0)
    return true;
  if (p->budget == RONDO_BUDGET_NEVER)
    return false;
  return stalled || p->order == RONDO_ORDER_PRIORITY;
}

// True if a fetched collective of the given urgency should be scheduled before the current one.
RONDO_FN bool rondo_policy_should_switch(const struct rondo_policy *p, uint32_t arrived_urgency,
                                         uint32_t current_urgency) {
  return p->order == RONDO_ORDER_PRIORITY && p->budget != RONDO_BUDGET_NEVER &&
         arrived_urgency > current_urgency;
}

#endif // RONDO_SCHEDULER_POLICY_CORE_H
