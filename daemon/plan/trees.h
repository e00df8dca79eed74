// Plans over trees. The double tree: two binary trees over all ranks, each for one of the two
// chunks of a loop: all-reduce, reduce and broadcast. Both have the same root, which has one child
// in each. Every other rank is a leaf of at least one of the trees, so that all ranks send and
// receive about as much, and no rank sends or receives more than two chunks a pass (P. Sanders, J.
// Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
// 2009).
#ifndef RONDO_DAEMON_PLAN_TREES_H
#define RONDO_DAEMON_PLAN_TREES_H

#include "daemon/plan/build.h"

// The builder of the double tree. An all-reduce has two passes, up and down the trees, so that the
// loops follow each other in both.
void rondo_plan_double_tree_build(const struct rondo_plan_request *request,
                                  struct rondo_plan *plan);

// Binomial trees, with scratch.
void rondo_plan_binomial_reduce_build(const struct rondo_plan_request *request,
                                      struct rondo_plan *plan);
void rondo_plan_binomial_gather_build(const struct rondo_plan_request *request,
                                      struct rondo_plan *plan);
void rondo_plan_binomial_scatter_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan);

#endif // RONDO_DAEMON_PLAN_TREES_H
