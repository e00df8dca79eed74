#include "runtime/state/state_meeting.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/text.h"
#include "runtime/observe/report.h"
#include "runtime/order/comm_end.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/group.h"
#include "runtime/rank/rank.h"

#define LOSS_NS UINT64_C(2000000000) // from the error of a run to the news of the loss behind it

// ------------------------------------------------------------- communicators ---

static uint64_t meeting_key(const struct rondo_state_comm *own, uint64_t exchange) {
  uint64_t key = UINT64_C(0x6d656574696e67); // a number that names this use
  key = rondo_digest_bytes(key, &own->view, sizeof own->view);
  key = rondo_digest_bytes(key, &own->failures, sizeof own->failures);
  return rondo_digest_bytes(key, &exchange, sizeof exchange);
}

// Makes a communicator of all members, and pins it.
static int end_create(const struct rondo_meeting *m, uint64_t key, struct rondo_comm_end **end) {
  struct rondo_rank *rank = m->rank;
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm;
  cfg.key = key;
  int status = rondo_group_make(rank, m->voters.ranks, m->voters.count, &cfg.group);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_comm_end_create(rank, &cfg, &comm);
  (void)rondo_group_forget(rank, cfg.group); // the communicator has a group of its own
  return status == RONDO_SUCCESS ? rondo_comm_pin(rank, comm, "state_sync", end) : status;
}

// Destroys a communicator that is pinned. Returns false if runs are left. `mode`: DRAIN, if all its
// calls have ended on all members, spares them the news of a failure.
static bool end_destroy(struct rondo_comm_end *end, int mode) {
  int status = rondo_comm_end_destroy(end, mode, 0);
  if (status == RONDO_SUCCESS || status == RONDO_ERR_TIMEOUT)
    return true;
  rondo_comm_unpin(end);
  return false;
}

// Takes the communicator of the last call, if it is of this view and has not failed.
static int control_take(struct rondo_meeting *m) {
  struct rondo_state_comm *own = &m->rank->state_comm;
  bool is_same_view = own->view == m->voters.view;
  if (own->handle) {
    int status =
        rondo_comm_pin(m->rank, (struct rondo_comm){own->handle}, "state_sync", &m->control);
    if (status != RONDO_SUCCESS)
      return status;
    if (is_same_view && rondo_comm_end_state(m->control) == RONDO_SUCCESS)
      return RONDO_SUCCESS;
    (void)end_destroy(m->control, RONDO_DESTROY_ABORT);
    m->control = NULL;
    own->handle = 0;
    own->failures += is_same_view;
  }
  if (!is_same_view)
    own->failures = 0;
  own->view = m->voters.view;
  own->exchanges = 0;
  return RONDO_SUCCESS;
}

int rondo_meeting_open(struct rondo_meeting *m) {
  struct rondo_state_comm *own = &m->rank->state_comm;
  if (rondo_exchange_acq_rel_u32(&own->is_in_use, 1)) {
    (void)snprintf(m->why, RONDO_REASON_BYTES, "another thread synchronises rank %u",
                   m->rank->cfg.rank);
    return RONDO_ERR_EXISTS;
  }
  int status = rondo_voters_list(m->rank, NULL, 0, &m->voters);
  if (status == RONDO_SUCCESS)
    status = control_take(m);
  if (status == RONDO_SUCCESS && !m->control)
    status = end_create(m, meeting_key(own, 0), &m->control);
  if (m->control)
    own->handle = m->control->handle;
  if (status == RONDO_SUCCESS)
    return status;
  (void)snprintf(m->why, RONDO_REASON_BYTES, "%s", rondo_status_string(status));
  rondo_voters_free(&m->voters);
  rondo_store_release_u32(&own->is_in_use, 0);
  return status;
}

int rondo_meeting_open_exchange(struct rondo_meeting *m) {
  struct rondo_state_comm *own = &m->rank->state_comm;
  uint64_t key = m->control ? meeting_key(own, ++own->exchanges) : m->exchange_key;
  return end_create(m, key, &m->exchange);
}

void rondo_meeting_name_rank(const struct rondo_meeting *m) {
  char why[RONDO_REASON_BYTES];
  struct rondo_text t = {why, sizeof why};
  rondo_text_add(&t, "rank %u: %s", m->rank->cfg.rank, m->why);
  (void)snprintf(m->why, RONDO_REASON_BYTES, "%s", why);
}

// Fails a communicator because of `why`.
static void end_fail(const struct rondo_meeting *m, struct rondo_comm_end *end, int status) {
  rondo_comm_end_fail(end, status == RONDO_ERR_TIMEOUT ? RONDO_ERR_ABORTED : status, m->why);
}

void rondo_meeting_fail_exchange(const struct rondo_meeting *m, int status) {
  if (!m->exchange)
    return;
  if (rondo_comm_end_state(m->exchange)) {
    (void)snprintf(m->why, RONDO_REASON_BYTES, "%s", m->exchange->owner.why);
    return;
  }
  rondo_meeting_name_rank(m);
  end_fail(m, m->exchange, status);
}

bool rondo_meeting_close_exchange(struct rondo_meeting *m, int status) {
  bool is_over =
      !m->exchange ||
      end_destroy(m->exchange, status == RONDO_SUCCESS ? RONDO_DESTROY_DRAIN : RONDO_DESTROY_ABORT);
  m->exchange = NULL;
  return is_over;
}

// Fails the communicators that have not failed yet: all members get the status and one reason.
static void meeting_fail(const struct rondo_meeting *m, int status) {
  rondo_meeting_fail_exchange(m, status);
  if (rondo_comm_end_state(m->control))
    return;
  if (!m->exchange)
    rondo_meeting_name_rank(m);
  end_fail(m, m->control, status);
}

bool rondo_meeting_close(struct rondo_meeting *m, int status) {
  struct rondo_state_comm *own = &m->rank->state_comm;
  if (status != RONDO_SUCCESS)
    meeting_fail(m, status);
  bool is_over = rondo_meeting_close_exchange(m, status);
  if (rondo_comm_end_state(m->control) == RONDO_SUCCESS) {
    rondo_comm_unpin(m->control);
  } else {
    is_over &= end_destroy(m->control, RONDO_DESTROY_ABORT);
    own->handle = 0;
    own->failures++;
  }
  // Without this the next call would wait for the ranks that are lost.
  if (status == RONDO_ERR_PEER)
    (void)rondo_voters_await_change(m->rank, &m->voters, rondo_now_ns() + LOSS_NS);
  rondo_voters_free(&m->voters);
  rondo_store_release_u32(&own->is_in_use, 0);
  return is_over;
}

// ------------------------------------------------------------------------- calls ---

// Writes why a communicator has failed. Returns the status of its first failure, which all members
// get, or `status` if the communicator has not failed.
static int failure_describe(const struct rondo_meeting *m, const struct rondo_comm_end *end,
                            int status) {
  int state = rondo_comm_end_state(end);
  (void)snprintf(m->why, RONDO_REASON_BYTES, "%s",
                 state == RONDO_SUCCESS ? rondo_status_string(status) : end->owner.why);
  return state == RONDO_SUCCESS ? status : state;
}

int64_t rondo_meeting_left_ns(const struct rondo_meeting *m) {
  uint64_t now_ns = rondo_now_ns();
  return now_ns < m->end_ns ? (int64_t)(m->end_ns - now_ns) : 0;
}

int rondo_meeting_call(const struct rondo_meeting *m, struct rondo_comm_end *end,
                       const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                       struct rondo_ticket *ticket) {
  const struct rondo_comm_call_request request = {.desc = what, .args = args};
  int status = rondo_comm_end_call(end, &request, ticket);
  return status == RONDO_SUCCESS ? status : failure_describe(m, end, status);
}

int rondo_meeting_wait(const struct rondo_meeting *m, struct rondo_comm_end *end,
                       const struct rondo_ticket *ticket) {
  struct rondo_text t = {m->why, RONDO_REASON_BYTES};
  int status = rondo_comm_end_wait(end, ticket, rondo_meeting_left_ns(m));
  if (status != RONDO_ERR_TIMEOUT)
    return status == RONDO_SUCCESS ? status : failure_describe(m, end, status);
  rondo_text_add(&t, "not all members have called in time");
  rondo_missing_describe(m->rank, ticket->coll, ticket->run, &t);
  return status;
}

int rondo_meeting_run(const struct rondo_meeting *m, struct rondo_comm_end *end,
                      const struct rondo_collective_desc *what, const void *send, void *recv) {
  const struct rondo_run_args args = {send, recv, NULL, NULL};
  struct rondo_ticket ticket;
  int status = rondo_meeting_call(m, end, what, &args, &ticket);
  return status == RONDO_SUCCESS ? rondo_meeting_wait(m, end, &ticket) : status;
}
