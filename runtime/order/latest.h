// Lists of what members that come later have to hear: only the latest are kept.
#ifndef RONDO_RUNTIME_ORDER_LATEST_H
#define RONDO_RUNTIME_ORDER_LATEST_H

#include <stdint.h>
#include <stdlib.h>

// How each one begins; it is of malloc.
struct rondo_latest {
  struct rondo_latest *next;
};

// Zeroed memory.
struct rondo_latest_list {
  struct rondo_latest *first; // the newest
  uint32_t count;
};

// Frees the oldest where these are more than `most`.
static inline void rondo_latest_keep(struct rondo_latest_list *list, struct rondo_latest *fresh,
                                     uint32_t most) {
  struct rondo_latest **last = &list->first;
  fresh->next = list->first;
  list->first = fresh;
  if (list->count++ < most)
    return;
  while ((*last)->next)
    last = &(*last)->next;
  free(*last);
  *last = NULL;
  list->count--;
}

// Takes out the one that `*at`, a link of the list, leads to.
static inline struct rondo_latest *rondo_latest_take(struct rondo_latest_list *list,
                                                     struct rondo_latest **at) {
  struct rondo_latest *taken = *at;
  *at = taken->next;
  list->count--;
  return taken;
}

static inline void rondo_latest_free(struct rondo_latest_list *list) {
  while (list->first)
    free(rondo_latest_take(list, &list->first));
}

#endif // RONDO_RUNTIME_ORDER_LATEST_H
