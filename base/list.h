// Lists of structures that are linked through one of their members.
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

// For lists whose nodes have the members `next` and `link`; `link` is the pointer that points to
// the node. Both take the same time in a long list.
#define RONDO_LINK_ADD(first, node)                                                                \
  do {                                                                                             \
    (node)->next = (first);                                                                        \
    (node)->link = &(first);                                                                       \
    if (first)                                                                                     \
      (first)->link = &(node)->next;                                                               \
    (first) = (node);                                                                              \
  } while (0)
#define RONDO_LINK_REMOVE(node)                                                                    \
  do {                                                                                             \
    *(node)->link = (node)->next;                                                                  \
    if ((node)->next)                                                                              \
      (node)->next->link = (node)->link;                                                           \
  } while (0)

#endif // RONDO_BASE_LIST_H
