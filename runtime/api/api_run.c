// Running, also in the order of a stream, and waiting.
#include "base/clock.h"
#include "base/log.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/stream.h"
#include "runtime/rank/wait.h"

int rondo_run(struct rondo_context ctx, struct rondo_collective coll, const void *send, void *recv,
              rondo_callback callback, void *arg) {
  struct rondo_submission s = {{send, recv, callback, arg}, {NULL, 0}, false, NULL};
  RONDO_RETURN_PINNED(ctx, "run", rank, rondo_rank_run(rank, coll, &s, NULL));
}

int rondo_run_on_stream(struct rondo_context ctx, struct rondo_collective coll, const void *send,
                        void *recv, void *stream) {
  struct rondo_submission s = {{send, recv, NULL, NULL}, {NULL, 0}, false, NULL};
  RONDO_RETURN_PINNED(ctx, "run_on_stream", rank,
                      rondo_rank_run_on_stream(rank, coll, &s, stream, NULL));
}

int rondo_streams_hold(void) { return rondo_held_streams_begin(); }

int rondo_streams_release(void) { return rondo_held_streams_end(); }

int rondo_run_numbered(struct rondo_context ctx, struct rondo_collective coll,
                       const struct rondo_run_args *args, uint64_t *run) {
  if (!args || !run)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run_numbered: a null argument");
  RONDO_RETURN_PINNED(
      ctx, "run_numbered", rank,
      rondo_rank_run(rank, coll, &(struct rondo_submission){*args, {NULL, 0}, false, NULL}, run));
}

int rondo_wait(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
               int64_t timeout_ns) {
  RONDO_RETURN_PINNED(ctx, "wait", rank, rondo_rank_wait(rank, coll, run, "wait", timeout_ns));
}

int rondo_test(struct rondo_context ctx, struct rondo_collective coll, uint64_t run) {
  RONDO_RETURN_PINNED(ctx, "test", rank, rondo_rank_test(rank, coll, run, "test"));
}

static int run_notify(struct rondo_rank *rank, struct rondo_collective coll, uint64_t run,
                      rondo_callback callback, void *arg) {
  struct rondo_awaited a = {0};
  int status = rondo_awaited_find(rank, coll, run, "notify", &a);
  if (status == RONDO_SUCCESS && !a.run)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "notify: no run was ever submitted");
  return status == RONDO_SUCCESS ? rondo_rank_notify(rank, coll, a.run, callback, arg) : status;
}

int rondo_notify(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                 rondo_callback callback, void *arg) {
  if (!callback)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "notify: the callback is null");
  RONDO_RETURN_PINNED(ctx, "notify", rank, run_notify(rank, coll, run, callback, arg));
}

int rondo_event_fd(struct rondo_context ctx, int *fd) {
  if (!fd)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "event_fd: `fd` is null");
  RONDO_RETURN_PINNED(ctx, "event_fd", rank, rondo_rank_open_event_fd(rank, fd));
}

// Meanwhile the flight record says that the rank synchronises.
static int rank_synchronize(struct rondo_rank *rank, uint64_t now_ns, uint64_t end_ns) {
  if (rondo_fetch_add_seq_cst_u32(&rank->synchronisers, 1) == 0)
    rondo_store_release_u64(&rank->synchronises_since_ns, now_ns);
  int status = rank->member.daemon->driver->synchronize(rank->member.daemon, end_ns);
  rondo_fetch_add_seq_cst_u32(&rank->synchronisers, (uint32_t)-1);
  return status;
}

int rondo_device_synchronize(struct rondo_context ctx, int64_t timeout_ns) {
  uint64_t now_ns = rondo_now_ns(), end_ns = rondo_deadline_ns(now_ns, timeout_ns);
  RONDO_RETURN_PINNED(ctx, "device_synchronize", rank, rank_synchronize(rank, now_ns, end_ns));
}
