// A small graph that is drawn: who waits for whom, with the cycle marked. The simulator and the
// analyser both draw their cycles with it.
//
//   struct rondo_sim_graph g;  rondo_sim_graph_init(&g, "Deadlock in round 17");
//   int a = rondo_sim_graph_add_node(&g, "A on GPU 0\nexecuting", RONDO_SIM_NODE_HOLDS);
//   int b = rondo_sim_graph_add_node(&g, "A on GPU 1\ninvoked", RONDO_SIM_NODE_WAITS);
//   rondo_sim_graph_add_edge(&g, a, b, "needs its peer", true);
//   rondo_sim_graph_dot(&g, &text);  rondo_sim_graph_svg(&g, &text);  rondo_sim_graph_fini(&g);
//
// Nodes on a marked edge lie on an inner ring, in the order of the cycle; the others lie on an
// outer ring. One graph belongs to one thread.
#ifndef RONDO_SIM_COMMON_GRAPH_H
#define RONDO_SIM_COMMON_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/common/text.h"

enum rondo_sim_node_kind {
  RONDO_SIM_NODE_HOLDS, // holds what others wait for (an executing collective); green
  RONDO_SIM_NODE_WAITS, // waits to begin (an invoked collective); yellow
  RONDO_SIM_NODE_PLAIN  // anything else (a rank, a thread); white
};

struct rondo_sim_graph_node {
  char *label; // may hold several lines
  enum rondo_sim_node_kind kind;
};

struct rondo_sim_graph_edge {
  int from, to;
  char *label;   // may be empty
  bool in_cycle; // drawn bold and red
};

struct rondo_sim_graph {
  char *title;
  struct rondo_sim_graph_node *nodes;
  struct rondo_sim_graph_edge *edges;
  int node_count, edge_count, node_capacity, edge_capacity;
};

// Makes an empty graph; `title` is copied.
void rondo_sim_graph_init(struct rondo_sim_graph *g, const char *title);

// Frees what the graph holds.
void rondo_sim_graph_fini(struct rondo_sim_graph *g);

// Adds a node and returns its number, counted from 0. `label` is copied.
int rondo_sim_graph_add_node(struct rondo_sim_graph *g, const char *label,
                             enum rondo_sim_node_kind kind);

// Adds an edge between two nodes that exist. `label` is copied; null means none.
void rondo_sim_graph_add_edge(struct rondo_sim_graph *g, int from, int to, const char *label,
                              bool in_cycle);

// Appends the graph as Graphviz DOT (`dot -Tsvg` draws it).
void rondo_sim_graph_dot(const struct rondo_sim_graph *g, struct rondo_sim_text *out);

// Appends the graph as one <svg> element: a whole file, or a part of an HTML page.
void rondo_sim_graph_svg(const struct rondo_sim_graph *g, struct rondo_sim_text *out);

#endif // RONDO_SIM_COMMON_GRAPH_H
