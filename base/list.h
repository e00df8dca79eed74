// Removal from a short list whose nodes have one pointer. For long lists: sys/queue.h.
#ifndef RONDO_BASE_LIST_H
#define RONDO_BASE_LIST_H

// NOLINTBEGIN(bugprone-macro-parentheses): `next` names a member
// Removes `node` from the list that begins at the pointer `first`, if it is in the list.
#define RONDO_LIST_REMOVE(first, node, next)                                                       \
  do {                                                                                             \
    __typeof__(first) *at_ = &(first);                                                             \
    while (*at_ && *at_ != (node))                                                                 \
      at_ = &(*at_)->next;                                                                         \
    if (*at_)                                                                                      \
      *at_ = (*at_)->next;                                                                         \
  } while (0)
// NOLINTEND(bugprone-macro-parentheses)

#endif // RONDO_BASE_LIST_H
