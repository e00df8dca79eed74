// What a rank is doing and has done: report, stuck runs, counters, flight record.
#include "base/log.h"
#include "runtime/observe/flight_write.h"
#include "runtime/observe/report.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

int rondo_report(struct rondo_context ctx, FILE *stream, uint32_t *cycle_ranks) {
  if (!stream)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "report: the stream is null");
  RONDO_RETURN_PINNED(ctx, "report", rank, rondo_report_print(rank->job, stream, cycle_ranks));
}

int rondo_stuck(struct rondo_context ctx, struct rondo_stuck *entries, size_t capacity,
                size_t *count) {
  if (!count || (!entries && capacity))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "stuck: a null argument");
  RONDO_RETURN_PINNED(ctx, "stuck", rank, rondo_stuck_list(rank, entries, capacity, count));
}

int rondo_counters(struct rondo_context ctx, struct rondo_counters *out) {
  if (!out)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "counters: `out` is null");
  RONDO_RETURN_PINNED(ctx, "counters", rank, rondo_counters_read(rank, out));
}

int rondo_collective_counters(struct rondo_context ctx, struct rondo_collective coll,
                              struct rondo_collective_counters *out) {
  if (!out || out->size != sizeof *out || out->version != RONDO_COLLECTIVE_COUNTERS_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "collective_counters: `out` is null, or of another size or version");
  RONDO_RETURN_PINNED(ctx, "collective_counters", rank, rondo_coll_counters_read(rank, coll, out));
}

int rondo_flight_write(struct rondo_context ctx, FILE *stream) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "flight_write", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = stream ? rondo_flight_print(rank, stream) : RONDO_ERR_INVALID;
  if (status != RONDO_SUCCESS)
    rondo_log(RONDO_LOG_ERROR, "flight_write: rank %u: %s", rank->cfg.rank,
              !stream                         ? "the stream is null"
              : status == RONDO_ERR_NO_MEMORY ? "no memory"
                                              : "the stream cannot be written");
  rondo_rank_unpin(ctx);
  return status;
}
