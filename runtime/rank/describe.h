// What a collective is and why it fails, and which ranks of the job are there.
#ifndef RONDO_RUNTIME_RANK_DESCRIBE_H
#define RONDO_RUNTIME_RANK_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_rank;

// Memory of the caller for ranks. `count` may exceed `capacity`: the rest is not stored.
struct rondo_rank_list {
  uint32_t *ranks;
  uint32_t capacity, count;
};

static inline void rondo_rank_list_add(struct rondo_rank_list *list, uint32_t rank) {
  if (list->count < list->capacity)
    list->ranks[list->count] = rank;
  list->count++;
}

// As rondo_describe. `desc` may be null.
int rondo_coll_describe(struct rondo_rank *rank, struct rondo_collective handle,
                        struct rondo_collective_desc *desc, struct rondo_rank_list *list);
// As rondo_reason.
int rondo_coll_get_reason(struct rondo_rank *rank, struct rondo_collective handle, char *text,
                          size_t text_bytes);

// Until when rondo_rank_await waits for the other ranks of the job. JOINED is as READY, but a rank
// that has joined and is gone again counts: all processes of the job agree on who has joined.
enum rondo_await { RONDO_AWAIT_READY, RONDO_AWAIT_JOINED, RONDO_AWAIT_GONE };

// As rondo_wait_ready and rondo_wait_gone. `list` gets the ranks that are missing or still there.
int rondo_rank_await(struct rondo_rank *self, enum rondo_await what, struct rondo_rank_list *list,
                     int64_t timeout_ns);

#endif // RONDO_RUNTIME_RANK_DESCRIBE_H
