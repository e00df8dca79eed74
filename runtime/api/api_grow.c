// Jobs whose members change: include/rondo/elastic.h. Checks arguments; api_grow_change.c does the
// members' part.
#include <stdio.h>
#include <stdlib.h>

#include <rondo/elastic.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/api/api_grow.h"
#include "runtime/api/api_model.h"
#include "runtime/job/admission_root.h"
#include "runtime/observe/report.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

// A reason that goes to the log and, if the caller wants it, to the caller.
static int explain(const char *call, int status, const char *text, char *why) {
  if (why)
    (void)snprintf(why, RONDO_REASON_BYTES, "%s", text);
  if (status != RONDO_SUCCESS && status != RONDO_IN_PROGRESS && *text)
    rondo_log(RONDO_LOG_ERROR, "%s: %s", call, text);
  return status;
}

// ---------------------------------------------------------------- newcomers ---

int rondo_grow_listen(struct rondo_unique_id *id, const struct rondo_config *cfg) {
  struct rondo_config completed;
  if (!id)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "grow_listen: `id` is null");
  int status = rondo_config_for_listening(cfg, &completed);
  return status == RONDO_SUCCESS ? rondo_admission_listen(&completed, id) : status;
}

int rondo_grow_close(const struct rondo_unique_id *id) {
  struct rondo_job_key key;
  uint32_t count;
  if (!id || rondo_id_read_key(id, &key) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "grow_close: no id of rondo_grow_listen");
  if (!rondo_admission_root_pending(&key, &count))
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN,
                            "grow_close: the id is not of this process, or has expired");
  rondo_admission_close(&key);
  return RONDO_SUCCESS;
}

int rondo_pending(const struct rondo_unique_id *id, uint32_t *count) {
  struct rondo_job_key key;
  uint32_t waiting;
  if (!id || !count || rondo_id_read_key(id, &key) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "pending: a null argument, or no id of rondo_grow_listen");
  if (!rondo_admission_root_pending(&key, &waiting))
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN,
                            "pending: the id is not of this process, or has expired");
  *count = waiting;
  return RONDO_SUCCESS;
}

// Joins the job to which the newcomer was admitted.
static int newcomer_join(const struct rondo_newcomer *n, const struct rondo_config *cfg,
                         const struct rondo_admitted *admitted, uint64_t end_ns,
                         struct rondo_context *ctx) {
  struct rondo_unique_id id;
  struct rondo_config limited = *cfg;
  limited.least_ranks = admitted->least_ranks;
  limited.most_ranks = admitted->most_ranks;
  const struct rondo_joining joining = {.cfg = &limited,
                                        .id = &id,
                                        .rank = admitted->rank,
                                        .rank_count = admitted->rank_count,
                                        .end_ns = end_ns};
  if (!rondo_unique_id_unseal(rondo_newcomer_key(n), admitted->id, &id))
    return RONDO_LOG_REFUSE(RONDO_ERR_INTERNAL, "join: the id of the new job cannot be read");
  return rondo_joining_make(&joining, ctx);
}

// Waits until an admission leads into a job. `text` has RONDO_MEMBERSHIP_TEXT_BYTES.
static int newcomer_await(struct rondo_newcomer *n, const struct rondo_config *cfg, uint64_t end_ns,
                          struct rondo_context *ctx, char *text) {
  struct rondo_admitted admitted;
  int status;
  do {
    status = rondo_newcomer_await(n, end_ns, &admitted, text);
    if (status != RONDO_SUCCESS)
      return status;
    status = newcomer_join(n, cfg, &admitted, end_ns, ctx);
    *text = '\0';
  } while (status == RONDO_ERR_PEER);
  if (status == RONDO_ERR_TIMEOUT)
    (void)snprintf(text, RONDO_MEMBERSHIP_TEXT_BYTES,
                   "the members did not all join the new job in time");
  return status;
}

int rondo_join(struct rondo_context *ctx, const struct rondo_config *cfg, int64_t timeout_ns,
               char *why) {
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  char text[RONDO_MEMBERSHIP_TEXT_BYTES] = "";
  struct rondo_newcomer *n = NULL;
  if (!ctx || !cfg || cfg->size != sizeof *cfg || !rondo_job_address_is_shared(&cfg->id))
    return explain("join", RONDO_ERR_INVALID,
                   "a null argument, a configuration of another version, or no id of "
                   "rondo_grow_listen",
                   why);
  if (rondo_callbacks_is_inside())
    return explain("join", RONDO_ERR_INVALID, "a callback may not wait", why);
  struct rondo_config completed = *cfg;
  completed.rank = 1; // the numbers are given later; this rank makes no root
  completed.rank_count = 2;
  completed.least_ranks = completed.most_ranks = 0;
  int status = rondo_config_complete(&completed);
  if (status == RONDO_SUCCESS)
    status = rondo_newcomer_start(&completed, &n);
  if (status != RONDO_SUCCESS)
    return explain("join", status, "", why);
  status = newcomer_await(n, &completed, end_ns, ctx, text);
  rondo_newcomer_stop(n);
  if (status == RONDO_SUCCESS)
    rondo_report_on_signal();
  return explain("join", status, text, why);
}

// -------------------------------------------------------------------- members ---

static int change_make(struct rondo_context ctx, struct rondo_change *c, int64_t timeout_ns,
                       struct rondo_context *next, char *why) {
  char text[RONDO_REASON_BYTES] = "";
  struct rondo_context made = {0};
  c->begin_ns = rondo_now_ns();
  c->end_ns = rondo_deadline_ns(c->begin_ns, timeout_ns);
  if (!next)
    return explain(c->call, RONDO_ERR_INVALID, "`next` is null", why);
  if (rondo_callbacks_is_inside())
    return explain(c->call, RONDO_ERR_INVALID, "a callback may not wait", why);
  int status = rondo_rank_pin(ctx, c->call, &c->rank);
  if (status != RONDO_SUCCESS)
    return explain(c->call, status, "", why);
  status = rondo_change_make(c, &made, text);
  rondo_rank_unpin(ctx);
  if (status == RONDO_SUCCESS)
    *next = made;
  return explain(c->call, status, text, why);
}

int rondo_grow(struct rondo_context ctx, const struct rondo_unique_id *id, uint32_t newcomers,
               int64_t timeout_ns, struct rondo_context *next, char *why) {
  struct rondo_job_key key;
  struct rondo_change c = {.call = "grow", .is_grow = true, .newcomers = newcomers};
  if (!newcomers)
    return explain("grow", RONDO_ERR_INVALID, "`newcomers` is 0", why);
  if (id) {
    int status = rondo_id_read_key(id, &key);
    if (status != RONDO_SUCCESS)
      return explain("grow", status, "`id` is none of rondo_grow_listen", why);
    c.id = &key;
  }
  return change_make(ctx, &c, timeout_ns, next, why);
}

int rondo_shrink(struct rondo_context ctx, const uint32_t *excluded, uint32_t count,
                 int64_t timeout_ns, struct rondo_context *next, char *why) {
  struct rondo_change c = {.call = "shrink", .excluded = excluded, .excluded_count = count};
  if (count && !excluded)
    return explain("shrink", RONDO_ERR_INVALID, "`excluded` is null", why);
  return change_make(ctx, &c, timeout_ns, next, why);
}
