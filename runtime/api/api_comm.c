// Communicators whose calls match by order: include/rondo/comm.h. Checks arguments; runtime/order
// does the work.
#include <stdio.h>

#include "base/log.h"
#include "runtime/order/comm_end.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/wait.h"

// Pins the context and the communicator.
static int comm_pin(struct rondo_context ctx, struct rondo_comm comm, const char *call,
                    struct rondo_comm_end **end) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, call, &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_comm_pin(rank, comm, call, end);
  if (status != RONDO_SUCCESS)
    rondo_rank_unpin(ctx);
  return status;
}

// NOLINTBEGIN(bugprone-macro-parentheses): `end` is declared
// Body of a public call: pins the communicator's `end`, evaluates `call`, unpins, and returns the
// status. `name` is that of the call in the log.
#define RETURN_PINNED_COMM(ctx, comm, name, end, call)                                             \
  do {                                                                                             \
    struct rondo_comm_end *end;                                                                    \
    int pin_status = comm_pin(ctx, comm, name, &end);                                              \
    if (pin_status != RONDO_SUCCESS)                                                               \
      return pin_status;                                                                           \
    pin_status = (call);                                                                           \
    rondo_comm_unpin(end);                                                                         \
    rondo_rank_unpin(ctx);                                                                         \
    return pin_status;                                                                             \
  } while (0)
// NOLINTEND(bugprone-macro-parentheses)

// -------------------------------------------------------- creating, destroying ---

static int config_check(const struct rondo_comm_config *cfg) {
  if (!cfg || cfg->size != sizeof *cfg || cfg->version != RONDO_COMM_CONFIG_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_create: the configuration is null or of another version");
  if (cfg->priority < RONDO_PRIORITY_MIN || cfg->priority > RONDO_PRIORITY_MAX)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_create: priority %d is out of range",
                            cfg->priority);
  if (cfg->cached_collectives > RONDO_COMM_MAX_CACHED || cfg->cached_pairs > RONDO_COMM_MAX_CACHED)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_create: %u cached collectives and %u of a pair, at most %u",
                            cfg->cached_collectives, cfg->cached_pairs, RONDO_COMM_MAX_CACHED);
  return RONDO_SUCCESS;
}

int rondo_comm_create(struct rondo_context ctx, const struct rondo_comm_config *cfg,
                      struct rondo_comm *comm) {
  int status = config_check(cfg);
  if (status != RONDO_SUCCESS)
    return status;
  if (!comm)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_create: the place for the handle is null");
  RONDO_RETURN_PINNED(ctx, "comm_create", rank, rondo_comm_end_create(rank, cfg, comm));
}

int rondo_comm_destroy(struct rondo_context ctx, struct rondo_comm comm, int mode,
                       int64_t timeout_ns) {
  struct rondo_comm_end *end;
  if (mode != RONDO_DESTROY_DRAIN && mode != RONDO_DESTROY_ABORT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_destroy: mode %d does not exist", mode);
  if (rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_destroy: a callback may not destroy a communicator");
  int status = comm_pin(ctx, comm, "comm_destroy", &end);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_comm_end_destroy(end, mode, timeout_ns);
  if (status != RONDO_SUCCESS && status != RONDO_ERR_TIMEOUT)
    rondo_comm_unpin(end);
  rondo_rank_unpin(ctx);
  return status;
}

// --------------------------------------------------------------------- calling ---

static int call_check(const struct rondo_comm_end *end, const struct rondo_collective_desc *what,
                      const struct rondo_run_args *args) {
  if (!what || !args || what->size != sizeof *what ||
      what->version != RONDO_COLLECTIVE_DESC_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: a null argument, or a descriptor of another version");
  if (what->id || what->group.handle || what->priority || what->on_loss || what->quantisation)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: key %llu: id, group, priority, on_loss and quantisation "
                            "belong to a registration and must be 0 in the descriptor",
                            (unsigned long long)end->key);
  if (what->kind < 0 || what->kind >= RONDO_KIND_COUNT || !rondo_dtype_bytes(what->dtype) ||
      what->redop < 0 || what->redop >= RONDO_REDOP_COUNT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: key %llu: kind %d, type %d or reduction %d does not exist",
                            (unsigned long long)end->key, what->kind, what->dtype, what->redop);
  return RONDO_SUCCESS;
}

static int end_call(struct rondo_comm_end *end, const struct rondo_comm_call_request *request,
                    struct rondo_ticket *ticket) {
  int status = call_check(end, request->desc, request->args);
  return status == RONDO_SUCCESS ? rondo_comm_end_call(end, request, ticket) : status;
}

int rondo_comm_call(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                    struct rondo_ticket *ticket) {
  const struct rondo_comm_call_request request = {.desc = what, .args = args};
  RETURN_PINNED_COMM(ctx, comm, "comm_call", end, end_call(end, &request, ticket));
}

int rondo_comm_call_on_stream(struct rondo_context ctx, struct rondo_comm comm,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, void *stream,
                              struct rondo_ticket *ticket) {
  const struct rondo_comm_call_request request = {
      .desc = what, .args = args, .stream = stream, .is_on_stream = true};
  RETURN_PINNED_COMM(ctx, comm, "comm_call", end, end_call(end, &request, ticket));
}

// --------------------------------------------------------------------- waiting ---

// `ticket` may be null: then the call is about all calls so far.
static int ticket_check(const struct rondo_ticket *ticket, const char *call) {
  if (!ticket || (ticket->coll.handle && ticket->run))
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: the ticket is of no call, or of a captured one",
                          call);
}

int rondo_comm_wait(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket, int64_t timeout_ns) {
  int status = ticket_check(ticket, "comm_wait");
  if (status != RONDO_SUCCESS)
    return status;
  if (timeout_ns > 0 && rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_wait: a callback may not wait");
  RETURN_PINNED_COMM(ctx, comm, "comm_wait", end, rondo_comm_end_wait(end, ticket, timeout_ns));
}

int rondo_comm_test(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket) {
  int status = ticket_check(ticket, "comm_test");
  if (status != RONDO_SUCCESS)
    return status;
  RETURN_PINNED_COMM(ctx, comm, "comm_test", end, rondo_comm_end_test(end, ticket));
}

int rondo_comm_notify(struct rondo_context ctx, struct rondo_comm comm,
                      const struct rondo_ticket *ticket, rondo_callback callback, void *arg) {
  if (!ticket || !callback)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_notify: a null argument");
  int status = ticket_check(ticket, "comm_notify");
  if (status != RONDO_SUCCESS)
    return status;
  RETURN_PINNED_COMM(ctx, comm, "comm_notify", end,
                     rondo_comm_end_notify(end, ticket, callback, arg));
}

int rondo_comm_probe(struct rondo_context ctx, struct rondo_comm comm, uint32_t from,
                     struct rondo_collective_desc *what) {
  if (!what)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_probe: the place for the descriptor is null");
  RETURN_PINNED_COMM(ctx, comm, "comm_probe", end, rondo_comm_end_probe(end, from, what));
}

// --------------------------------------------------------- failing, observation ---

static int end_abort(struct rondo_comm_end *end) {
  char why[RONDO_REASON_BYTES];
  (void)snprintf(why, sizeof why, "rank %u aborted it", end->rank->cfg.rank);
  rondo_comm_end_fail(end, RONDO_ERR_ABORTED, why);
  return RONDO_SUCCESS;
}

int rondo_comm_abort(struct rondo_context ctx, struct rondo_comm comm) {
  RETURN_PINNED_COMM(ctx, comm, "comm_abort", end, end_abort(end));
}

static int end_read_status(struct rondo_comm_end *end, int *state, char *why, size_t why_bytes) {
  rondo_comm_compare_pending(end);
  rondo_rank_poll(end->rank);
  *state = rondo_comm_end_state(end);
  if (why && why_bytes)
    (void)snprintf(why, why_bytes, "%s", *state ? end->owner.why : "");
  return RONDO_SUCCESS;
}

int rondo_comm_status(struct rondo_context ctx, struct rondo_comm comm, int *state, char *why,
                      size_t why_bytes) {
  if (!state)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_status: the place for the state is null");
  RETURN_PINNED_COMM(ctx, comm, "comm_status", end, end_read_status(end, state, why, why_bytes));
}

int rondo_comm_counters(struct rondo_context ctx, struct rondo_comm comm,
                        struct rondo_comm_counters *out) {
  if (!out)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_counters: the place for the counters is null");
  RETURN_PINNED_COMM(ctx, comm, "comm_counters", end,
                     (rondo_comm_end_counters(end, out), RONDO_SUCCESS));
}
