// A list that keeps its newest nodes: when the list is full, the oldest node is freed. Used for
// messages to communicator ends that do not exist yet.
#ifndef RONDO_RUNTIME_ORDER_BOUNDED_LIST_H
#define RONDO_RUNTIME_ORDER_BOUNDED_LIST_H

#include <stdint.h>
#include <stdlib.h>

// The first member of every element. Elements come from malloc.
struct rondo_bounded_node {
  struct rondo_bounded_node *next;
};

// Zeroed memory is an empty list.
struct rondo_bounded_list {
  struct rondo_bounded_node *first; // the newest
  uint32_t count;
};

// Adds a node, and frees the oldest one if the list then has more than `capacity`.
static inline void rondo_bounded_list_add(struct rondo_bounded_list *list,
                                          struct rondo_bounded_node *node, uint32_t capacity) {
  struct rondo_bounded_node **last = &list->first;
  node->next = list->first;
  list->first = node;
  if (list->count++ < capacity)
    return;
  while ((*last)->next)
    last = &(*last)->next;
  free(*last);
  *last = NULL;
  list->count--;
}

// Removes and returns the node that `*at`, a link of the list, points to.
static inline struct rondo_bounded_node *rondo_bounded_list_remove(struct rondo_bounded_list *list,
                                                                   struct rondo_bounded_node **at) {
  struct rondo_bounded_node *node = *at;
  *at = node->next;
  list->count--;
  return node;
}

static inline void rondo_bounded_list_clear(struct rondo_bounded_list *list) {
  while (list->first)
    free(rondo_bounded_list_remove(list, &list->first));
}

#endif // RONDO_RUNTIME_ORDER_BOUNDED_LIST_H
