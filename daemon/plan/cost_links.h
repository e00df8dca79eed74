// What a collective takes by the terms of its links, where a model has no row of its algorithm.
//
// A message occupies its sender's link, and its receiver's, and then is on its way for the latency,
// in which both can do other things. Ranks of a machine share its ports. So a time follows
//
//   the longest chain of messages: the latencies of its hops,
//   a rank's own messages, which occupy its link one after the other,
//   the busiest port: the messages of all ranks that share it,
//
// and, where loops follow each other, how soon a slot of a connector is free again. Inside machines
// and between them the terms are those of two link classes. The forms are those of the schedule
// simulator without costs of steps (docs/simulator.md). Pure.
#ifndef RONDO_DAEMON_PLAN_COST_LINKS_H
#define RONDO_DAEMON_PLAN_COST_LINKS_H

#include "daemon/plan/cost.h"

// Of a level of an algorithm over two levels, each message is sent as `lanes` × `chunks` messages,
// one after the other. Others have 1 of each.
struct rondo_cost_parts {
  uint32_t lanes, chunks;
  uint32_t slots; // of a connector
  bool has_root;  // of a reduce or broadcast over two levels
};

// The predicted time in nanoseconds of an algorithm that has a plan for the query, of at least two
// ranks. Of algorithms over two levels only that of an all-gather or reduce-scatter.
double rondo_cost_links_time(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                             int algorithm, const struct rondo_cost_parts *parts);

// The predicted time of a loop after the first in a pass of an all-reduce over two levels. `q` and
// `algorithm` are those of the level inside machines; the leaders take `between_ns` among
// themselves.
double rondo_cost_links_pass(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                             int algorithm, const struct rondo_cost_parts *parts,
                             double between_ns);

#endif // RONDO_DAEMON_PLAN_COST_LINKS_H
