#include "runtime/rank/inline_run.h"

#include "runtime/rank/retry.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"

#define SMALL_BYTES 8192u // of both buffers

bool rondo_submission_is_small(const struct rondo_coll *coll, const struct rondo_submission *s) {
  const struct rondo_exchange *x = s->exchange;
  uint64_t bytes = x ? x->send_bytes + x->recv_bytes : coll->send_bytes + coll->recv_bytes;
  return bytes <= SMALL_BYTES;
}

bool rondo_inline_can_submit(const struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_submission *s) {
  return rank->member.daemon->driver->submit_inline && !rank->member.is_manual && !s->tie.words &&
         rondo_submission_is_small(coll, s) && (!coll->retries || rondo_retry_is_idle(coll)) &&
         rondo_load_relaxed_u64(&rank->member.daemon->outstanding) ==
             (uint64_t)rondo_cq_has_entry(&rank->member.daemon->cq);
}

uint64_t rondo_inline_submit(struct rondo_rank *rank, struct rondo_coll *coll) {
  const struct rondo_sqe entry = rondo_coll_sqe(coll, coll->unpushed);
  // The daemon keeps the end time of one run and is about to overwrite it.
  if (rondo_cq_has_entry(&rank->member.daemon->cq))
    rank->inline_ended_ns = rondo_load_relaxed_u64(&rank->member.daemon->ended_ns);
  uint64_t now_ns =
      rank->member.daemon->driver->submit_inline(rank->member.daemon, &entry, &rank->flight.clock);
  if (!now_ns)
    return 0;
  coll->on_device++;
  coll->unpushed = NULL;
  if (coll->retries)
    rondo_retry_note_push(coll);
  return now_ns;
}

uint64_t rondo_inline_poll(struct rondo_rank *rank, struct rondo_coll *coll,
                           const struct rondo_run_record *record) {
  rank->member.daemon->driver->poll_inline(rank->member.daemon);
  if (rondo_rank_has_changes(rank)) // the block could not add them: this thread holds the lock
    rondo_rank_add_changes(rank);
  uint64_t ended = rondo_cq_has_entry(&rank->member.daemon->cq) ? rondo_rank_accept(rank) : 0;
  // The previous inline run's CQE is no longer in the CQ.
  rondo_store_release_u64(&coll->inline_run,
                          record->args.callback || coll->retries ? 0 : record->number);
  return ended;
}

bool rondo_inline_is_posted(struct rondo_awaited *a) {
  struct rondo_cqe cqe;
  if (rondo_load_acquire_u64(&a->coll->inline_run) != a->run ||
      rondo_load_acquire_u32(&a->rank->wants_events) ||
      !rondo_cq_try_peek(&a->rank->member.daemon->cq, &cqe) || cqe.collective != a->coll->index ||
      cqe.run != (uint16_t)a->run || cqe.status != RONDO_SUCCESS ||
      rondo_load_relaxed_u32(&a->coll->generation) != a->generation)
    return false;
  a->is_posted = 1;
  return true;
}
