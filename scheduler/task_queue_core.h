// The task queue of one block: the list of collectives that the block has to execute, in order, and
// a cursor that moves through the list again and again (the paper, 4.2 and 4.3). It uses no clock
// and allocates nothing.
//
// An entry is the collective's index in the daemon's table, with its priority in the top byte. It
// has four bytes, so 1,000 queued collectives take 4 KB of a block's fast memory. Only the block's
// owner uses the queue.
#ifndef RONDO_SCHEDULER_TASK_QUEUE_CORE_H
#define RONDO_SCHEDULER_TASK_QUEUE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"

#define RONDO_TASK_INDEX_MAX 0xffffffu

struct rondo_task_queue {
  uint64_t entries; // address of capacity × uint32_t
  uint32_t capacity;
  uint32_t count;
  uint32_t cursor; // position of the scheduled entry; below count unless count is 0
  uint32_t reserved;
};

RONDO_FN uint32_t *rondo_task_entries(const struct rondo_task_queue *q) {
  return (uint32_t *)(uintptr_t)q->entries;
}

// `urgency`: the priority + 128.
RONDO_FN uint32_t rondo_task_make(uint32_t index, uint32_t urgency) {
  return urgency << 24 | index;
}

RONDO_FN uint32_t rondo_task_index(uint32_t task) { return task & RONDO_TASK_INDEX_MAX; }
RONDO_FN uint32_t rondo_task_urgency(uint32_t task) { return task >> 24; }

RONDO_FN void rondo_task_queue_init(struct rondo_task_queue *q, uint32_t *entries,
                                    uint32_t capacity) {
  q->entries = (uint64_t)(uintptr_t)entries;
  q->capacity = capacity;
  q->count = q->cursor = 0;
  q->reserved = 0;
}

// The scheduled task. The queue must not be empty.
RONDO_FN uint32_t rondo_task_queue_current(const struct rondo_task_queue *q) {
  return rondo_task_entries(q)[q->cursor];
}

// Inserts a task after all tasks of its urgency or higher (`sorted`), or at the end. The scheduled
// task stays scheduled. Returns false when the queue is full; its capacity is the size of the
// daemon's table, so a caller that queues a collective once never sees that.
RONDO_FN bool rondo_task_queue_try_push(struct rondo_task_queue *q, uint32_t task, bool sorted) {
  uint32_t *entries = rondo_task_entries(q);
  if (q->count == q->capacity)
    return false;
  uint32_t at = q->count;
  if (sorted)
    for (; at > 0 && rondo_task_urgency(entries[at - 1]) < rondo_task_urgency(task); at--)
      entries[at] = entries[at - 1];
  entries[at] = task;
  if (q->count > 0 && at <= q->cursor)
    q->cursor++;
  q->count++;
  return true;
}

// Removes the scheduled task and schedules the next one. Returns true if the cursor went back to
// the front.
RONDO_FN bool rondo_task_queue_remove(struct rondo_task_queue *q) {
  uint32_t *entries = rondo_task_entries(q);
  const uint32_t count = --q->count; // a copy: the loop cannot change it, so compilers vectorize it
  for (uint32_t i = q->cursor; i < count; i++)
    entries[i] = entries[i + 1];
  if (q->cursor < count)
    return false;
  q->cursor = 0;
  return true;
}

// Schedules the next task; the preempted one keeps its place. Returns true if the cursor went back
// to the front: a pass over the queue is complete.
RONDO_FN bool rondo_task_queue_next(struct rondo_task_queue *q) {
  if (++q->cursor < q->count)
    return false;
  q->cursor = 0;
  return true;
}

// Schedules the front of the queue.
RONDO_FN void rondo_task_queue_rewind(struct rondo_task_queue *q) { q->cursor = 0; }

#endif // RONDO_SCHEDULER_TASK_QUEUE_CORE_H
