// Creating and destroying contexts, and waiting for the other ranks of a job.
#include <stdlib.h>

#include "base/log.h"
#include "runtime/api/api_algorithms.h"
#include "runtime/api/api_context.h"
#include "runtime/api/api_model.h"
#include "runtime/net/mesh.h"
#include "runtime/observe/report.h"
#include "runtime/observe/remote_views.h"
#include "runtime/order/comms.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/retry.h"
#include <rondo/elastic.h>

int rondo_version(void) {
  return RONDO_VERSION_MAJOR * 10000 + RONDO_VERSION_MINOR * 100 + RONDO_VERSION_PATCH;
}

// Checks the number of ranks that a job begins with.
static int ranks_check(const struct rondo_config *c) {
  if ((c->least_ranks || c->most_ranks) && rondo_mesh_missing())
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "init: least_ranks %u, most_ranks %u, but the members of a job cannot "
                            "change: %s",
                            c->least_ranks, c->most_ranks, rondo_mesh_missing());
  if (c->rank_count < c->least_ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: rank_count %u is below least_ranks %u",
                            c->rank_count, c->least_ranks);
  if (c->most_ranks && c->rank_count > c->most_ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: rank_count %u is above most_ranks %u",
                            c->rank_count, c->most_ranks);
  return RONDO_SUCCESS;
}

int rondo_context_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                         const struct rondo_manual *manual) {
  static const struct rondo_job_extension *const extensions[] = {
      &rondo_order_extension, &rondo_views_extension, &rondo_retry_extension, NULL};
  if (!ctx || !cfg)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: a null argument");
  struct rondo_config completed = *cfg;
  struct rondo_forced forced = {0};
  struct rondo_cost_file *model = NULL;
  int status = rondo_algorithms_read(&forced);
  if (status == RONDO_SUCCESS)
    status = rondo_config_complete_with_model(&completed, &model);
  if (status == RONDO_SUCCESS)
    status = ranks_check(&completed);
  if (status != RONDO_SUCCESS)
    return status;
  const struct rondo_rank_request request = {.cfg = &completed,
                                             .manual = manual,
                                             .forced = &forced,
                                             .model = &model,
                                             .job_extensions = extensions,
                                             .extension = &rondo_order_rank_extension,
                                             .on_timeout = rondo_report_timeout};
  status = rondo_rank_create(ctx, &request);
  free(model);
  return status;
}

int rondo_init(struct rondo_context *ctx, const struct rondo_config *cfg) {
  int status = rondo_context_create(ctx, cfg, NULL);
  if (status == RONDO_SUCCESS)
    rondo_report_on_signal();
  return status;
}

static int rank_describe(const struct rondo_rank *self, uint32_t *rank, uint32_t *rank_count) {
  if (rank)
    *rank = self->cfg.rank;
  if (rank_count)
    *rank_count = self->cfg.rank_count;
  return RONDO_SUCCESS;
}

int rondo_describe_rank(struct rondo_context ctx, uint32_t *rank, uint32_t *rank_count) {
  RONDO_RETURN_PINNED(ctx, "describe_rank", self, rank_describe(self, rank, rank_count));
}

static int list_await(struct rondo_context ctx, bool gone, struct rondo_rank_list *list,
                      int64_t timeout_ns) {
  const char *call = gone ? "wait_gone" : "wait_ready";
  if (list->capacity && !list->ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: `ranks` is null", call);
  if (timeout_ns > 0 && rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: a callback may not wait", call);
  RONDO_RETURN_PINNED(
      ctx, call, rank,
      rondo_rank_await(rank, gone ? RONDO_AWAIT_GONE : RONDO_AWAIT_READY, list, timeout_ns));
}

static int ranks_await(struct rondo_context ctx, bool gone, int64_t timeout_ns,
                       struct rondo_rank_list list, uint32_t *count) {
  int status = list_await(ctx, gone, &list, timeout_ns);
  if (count)
    *count = list.count;
  return status;
}

int rondo_wait_ready(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                     uint32_t capacity, uint32_t *count) {
  return ranks_await(ctx, false, timeout_ns, (struct rondo_rank_list){ranks, capacity, 0}, count);
}

int rondo_wait_gone(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                    uint32_t capacity, uint32_t *count) {
  return ranks_await(ctx, true, timeout_ns, (struct rondo_rank_list){ranks, capacity, 0}, count);
}

int rondo_abort(struct rondo_context ctx) {
  RONDO_RETURN_PINNED(ctx, "abort", rank, (rondo_rank_abort(rank), RONDO_SUCCESS));
}

int rondo_destroy(struct rondo_context ctx, int mode, int64_t timeout_ns) {
  if (mode != RONDO_DESTROY_DRAIN && mode != RONDO_DESTROY_ABORT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "destroy: mode %d does not exist", mode);
  if (rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "destroy: a callback may not destroy a context");
  return rondo_rank_destroy(ctx, mode, timeout_ns);
}
