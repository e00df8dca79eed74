// What a rank is doing and has done: report, stuck runs, counters, flight record.
#include "base/log.h"
#include "runtime/observe/flight_write.h"
#include "runtime/observe/report.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

int rondo_report(struct rondo_context ctx, FILE *stream, uint32_t *cycle_ranks) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "report", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!stream)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "report: the stream is null");
  else
    status = rondo_report_print(rank->job, stream, cycle_ranks);
  return rondo_rank_unpin_with(ctx, status);
}

int rondo_stuck(struct rondo_context ctx, struct rondo_stuck *entries, size_t capacity,
                size_t *count) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "stuck", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!count || (!entries && capacity))
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "stuck: a null argument");
  else
    status = rondo_stuck_list(rank, entries, capacity, count);
  return rondo_rank_unpin_with(ctx, status);
}

int rondo_counters(struct rondo_context ctx, struct rondo_counters *out) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "counters", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!out)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "counters: `out` is null");
  else
    rondo_counters_read(rank, out);
  return rondo_rank_unpin_with(ctx, status);
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
  return rondo_rank_unpin_with(ctx, status);
}
