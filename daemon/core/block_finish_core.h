// The end of a run on a block: its completion, and the next run.
#ifndef RONDO_DAEMON_CORE_BLOCK_FINISH_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_FINISH_CORE_H

#include "daemon/core/block_ready_core.h"
#include <rondo/status.h>

// An ended run, as its completion describes it.
struct rondo_ended_run {
  struct rondo_task_run run;
  uint64_t started_ns;
  uint8_t status;
};

// Counts this block's part of a run as ended, unless it is the last one: only the last block posts,
// after it has claimed a place, and until then it is not counted. Returns true if it was counted.
// Bounded: a swap fails only if another block was counted.
RONDO_FN bool rondo_block_try_count(struct rondo_device_collective *entry, uint32_t parity) {
  uint32_t before = rondo_load_acquire_device_u32(&entry->finished[parity]); // B2
  while (before + 1 < entry->block_count) {
    if (rondo_try_swap_acq_rel_device_u32(&entry->finished[parity], before, before + 1)) // B1
      return true;
    before = rondo_load_acquire_device_u32(&entry->finished[parity]); // B2
  }
  return false;
}

// Counts this block's part of a run of table entry `index` as ended; the last block posts the
// completion. Returns false, and counts nothing, if the completion queue has no room.
RONDO_FN bool rondo_block_try_post(struct rondo_block *b, uint32_t index,
                                   const struct rondo_ended_run *ended, uint64_t now_ns) {
  struct rondo_device_collective *entry = rondo_table_entry(b->daemon->table, index);
  uint32_t parity = (uint32_t)(ended->run.number % RONDO_DEVICE_RUNS);
  if (RONDO_FAULT(STREAM_EARLY))
    rondo_run_release_stream(&ended->run);
  if (ended->status != RONDO_SUCCESS)
    (void)rondo_try_swap_acq_rel_device_u32(&entry->status[parity], RONDO_SUCCESS, ended->status);
  if (entry->block_count > 1 && !RONDO_FAULT(CQE_EARLY) && rondo_block_try_count(entry, parity))
    return true;
  uint32_t place = 0;
  RONDO_TIMED_BEGIN(began);
  if (!rondo_cq_try_claim(b->daemon->cq, b->daemon->block_count == 1, &place))
    return false;
  uint64_t duration_ns = now_ns - ended->started_ns;
  struct rondo_cqe cqe;
  cqe.mark = cqe.second_mark = 0;
  cqe.collective = (uint16_t)index;
  cqe.duration_ns = duration_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ns;
  cqe.status = (uint16_t)rondo_load_relaxed_u32(&entry->status[parity]);
  cqe.run = (uint16_t)ended->run.number;
  // First: once the entry is visible, the next run of this parity may come.
  rondo_store_relaxed_u32(&entry->status[parity], RONDO_SUCCESS);
  rondo_store_relaxed_u32(&entry->finished[parity], 0);
  if (b->daemon->copies)
    rondo_store_relaxed_u64(&rondo_mirror_copy_at(b->daemon->copies, index)->ended,
                            ended->run.number);
  // Also first: the words may be reused once the entry is visible.
  rondo_run_release_stream(&ended->run);
  rondo_cq_publish(b->daemon->cq, place, &cqe);
  RONDO_TIMED_END(CQE_WRITE, began);
  return true;
}

// Removes the scheduled collective, whose run has ended, from the queue; or moves it to the end, if
// it has another run.
RONDO_FN void rondo_block_retire(struct rondo_block *b, struct rondo_active_slot *slot) {
  uint32_t task = rondo_task_queue_current(&b->queue);
  bool sorted = b->daemon->policy.order == RONDO_ORDER_PRIORITY;
  rondo_counter_add(&b->counters.ended, 1);
  b->scheduled = 0;
  if (rondo_task_queue_remove(&b->queue))
    b->passed = 1;
  if (slot->context.state.phase != RONDO_PHASE_IDLE) {
    (void)rondo_task_queue_try_push(&b->queue, task, sorted);
    rondo_block_set_ready(b, rondo_task_index(task));
  }
  slot->blocked_since_ns = 0;
}

// Ends the scheduled collective's run on this block. Returns false if that must be tried again.
//
// The collective may be deregistered, and its contexts freed, as soon as the completion is visible.
// So the context is saved before that, and not written after it.
RONDO_FN bool rondo_block_try_finish(struct rondo_block *b, struct rondo_active_slot *slot,
                                     uint64_t now_ns) {
  RONDO_TIMED_BEGIN(began);
  struct rondo_task_context *c = &slot->context;
  const struct rondo_ended_run ended = {c->state.run, c->state.started_ns, c->state.status};
  const struct rondo_task_run next = c->state.queued;
  const uint8_t flags = c->state.flags;
  if (!RONDO_FAULT(MOVES_UNFINISHED))
    rondo_move_finish(); // all data is in place before anyone is told
  c->state.queued.number = 0;
  c->state.phase = RONDO_PHASE_IDLE;
  if (next.number)
    rondo_context_begin(c, &next, flags >> RONDO_RUN_NEXT_SHIFT, now_ns);
  slot->dirty = 1;
  rondo_slot_save(b, slot);
  if (!rondo_block_try_post(b, c->fixed.index, &ended, now_ns)) {
    c->state.run = ended.run;
    c->state.started_ns = ended.started_ns;
    c->state.status = ended.status;
    c->state.queued = next;
    c->state.flags = flags;
    c->state.phase = RONDO_PHASE_ENDED;
    slot->dirty = 1;
    return false;
  }
  b->tied -= ended.run.stream != 0;
  RONDO_POINT("block.posted");
  rondo_block_retire(b, slot);
  if (RONDO_FAULT(SAVE_AFTER_POST)) {
    slot->dirty = 1;
    rondo_slot_save(b, slot);
  }
  RONDO_TIMED_END(FINISH, began);
  return true;
}

#endif // RONDO_DAEMON_CORE_BLOCK_FINISH_CORE_H
