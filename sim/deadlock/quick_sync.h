// The synchronisation half of the quick published decisions; see quick.h.
#ifndef RONDO_SIM_DEADLOCK_QUICK_SYNC_H
#define RONDO_SIM_DEADLOCK_QUICK_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/events.h"
#include "sim/deadlock/quick.h"

// Plays one component; q->window_first is up to date. True for a deadlock.
bool rondo_sim_quick_sync(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                          uint32_t component);

#endif // RONDO_SIM_DEADLOCK_QUICK_SYNC_H
