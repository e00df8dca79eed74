// The part of the plan verifier that needs no execution. It checks that ops and lists of peers are
// well formed, and that the plans of different ranks fit together. Used by verify.c and by tools.
#ifndef RONDO_DAEMON_PLAN_VERIFY_SHAPE_H
#define RONDO_DAEMON_PLAN_VERIFY_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/verify.h"

struct rondo_plan_where {
  uint32_t rank, op, chunk; // or RONDO_PLAN_NOWHERE
};

// Writes the report; always false, so that a check can end with it.
__attribute__((format(printf, 3, 4))) bool
rondo_plan_verify_fault(struct rondo_plan_verify_report *report, struct rondo_plan_where where,
                        const char *format, ...);

// True if every plan of the case is well formed and all fit together.
bool rondo_plan_verify_shape(const struct rondo_plan_verify_case *what,
                             struct rondo_plan_verify_report *report);

// An index of `rank` among the first `count` peers, or RONDO_PLAN_NOWHERE.
uint32_t rondo_plan_verify_peer_find(const struct rondo_plan *plan,
                                     const struct rondo_plan_peers *peers, uint32_t count,
                                     uint32_t rank);

#endif // RONDO_DAEMON_PLAN_VERIFY_SHAPE_H
