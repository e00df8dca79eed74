#include "daemon/plan/verify_shape.h"

#include <stdarg.h>
#include <stdio.h>

#include "rondo/types.h"

enum {
  PRIM_ALL = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY | RONDO_PRIM_SEND |
             RONDO_PRIM_FINAL | RONDO_PRIM_IN_BASE | RONDO_PRIM_OUT_BASE
};

// Appends " <what> <number>" to the line unless the number does not apply.
static size_t number_print(char *line, size_t size, size_t at, const char *what, uint32_t number) {
  if (number == RONDO_PLAN_NOWHERE || at >= size)
    return at;
  return at + (size_t)snprintf(line + at, size - at, "%s%s %u", at ? ", " : "", what, number);
}

bool rondo_plan_verify_fault(struct rondo_plan_verify_report *report, struct rondo_plan_where where,
                             const char *format, ...) {
  char *line = report->message;
  size_t size = sizeof(report->message);
  report->rank = where.rank;
  report->op = where.op;
  report->chunk = where.chunk;
  size_t at = number_print(line, size, 0, "rank", where.rank);
  at = number_print(line, size, at, "op", where.op);
  at = number_print(line, size, at, "chunk", where.chunk);
  at += (size_t)snprintf(line + at, size - at, "%s", at ? ": " : "");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + at, size - at, format, arguments);
  va_end(arguments);
  return false;
}

uint32_t rondo_plan_verify_peer_find(const uint32_t *peers, uint32_t count, uint32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    if (peers[i] == rank)
      return i;
  }
  return RONDO_PLAN_NOWHERE;
}

bool rondo_plan_verify_reduces(int kind) {
  return kind == RONDO_ALL_REDUCE || kind == RONDO_REDUCE_SCATTER || kind == RONDO_REDUCE;
}

// What is wrong with an op's primitive for this kind, or null.
static const char *primitive_fault(int kind, unsigned primitive) {
  bool recv = primitive & RONDO_PRIM_RECV, reduce = primitive & RONDO_PRIM_REDUCE;
  if (primitive & ~(unsigned)PRIM_ALL)
    return "has unknown primitive bits";
  if (!(primitive & (RONDO_PRIM_COPY | RONDO_PRIM_SEND)))
    return "neither copies nor sends its value";
  if (reduce && !recv)
    return "reduces without receiving";
  if (reduce && !rondo_plan_verify_reduces(kind))
    return "reduces in a kind that does not";
  if ((primitive & RONDO_PRIM_FINAL) && !rondo_plan_verify_reduces(kind))
    return "is FINAL in a kind that does not reduce";
  if ((primitive & RONDO_PRIM_IN_BASE) && (kind != RONDO_ALL_GATHER || recv))
    return "has IN_BASE but reads no send buffer of one chunk";
  if ((primitive & RONDO_PRIM_OUT_BASE) &&
      (kind != RONDO_REDUCE_SCATTER || !(primitive & RONDO_PRIM_COPY)))
    return "has OUT_BASE but writes no receive buffer of one chunk";
  return NULL;
}

static const char *peer_fault(bool wanted, uint16_t peer, uint32_t peer_count) {
  if (wanted)
    return peer < peer_count ? NULL : "has a peer index that is out of range";
  return peer == RONDO_PLAN_NO_PEER ? NULL : "has a peer that its primitive does not use";
}

static const char *op_fault(int kind, const struct rondo_plan *plan,
                            const struct rondo_plan_op *op) {
  if (op->chunk_count != plan->chunk_count)
    return "has another chunk count than its plan";
  if (op->repeat == 0)
    return "repeats 0 times";
  if (op->first_chunk >= op->chunk_count)
    return "begins beyond the last chunk";
  if (op->chunk_stride >= op->chunk_count)
    return "has a stride that is not below the chunk count";
  if (op->reserved != 0)
    return "has a reserved field that is not zero";
  const char *fault = primitive_fault(kind, op->primitive);
  if (fault == NULL)
    fault = peer_fault(op->primitive & RONDO_PRIM_SEND, op->send_peer, plan->send_peer_count);
  if (fault == NULL)
    fault = peer_fault(op->primitive & RONDO_PRIM_RECV, op->recv_peer, plan->recv_peer_count);
  return fault;
}

// What is wrong with one list of peers, or null.
static const char *peers_fault(const uint32_t *peers, uint32_t count, uint32_t rank, uint32_t n) {
  if (count > RONDO_PLAN_MAX_PEERS)
    return "has too many peers";
  for (uint32_t i = 0; i < count; i++) {
    if (peers[i] >= n)
      return "has a peer outside the group";
    if (peers[i] == rank)
      return "has itself as a peer";
    if (rondo_plan_verify_peer_find(peers, i, peers[i]) != RONDO_PLAN_NOWHERE)
      return "has a peer twice";
  }
  return NULL;
}

static const char *plan_fault(const struct rondo_plan_verify_case *what, uint32_t rank) {
  const struct rondo_plan *plan = &what->plans[rank];
  bool by_rank = what->kind == RONDO_ALL_GATHER || what->kind == RONDO_REDUCE_SCATTER;
  if (plan->op_count == 0 || plan->op_count > RONDO_PLAN_MAX_OPS)
    return "has no ops, or too many";
  if (plan->chunk_count == 0 || plan->chunk_count != what->plans[0].chunk_count)
    return "has another chunk count than rank 0, or none";
  if (by_rank && plan->chunk_count != what->nranks)
    return "does not have one chunk a rank";
  const char *fault = peers_fault(plan->send_peers, plan->send_peer_count, rank, what->nranks);
  if (fault == NULL)
    fault = peers_fault(plan->recv_peers, plan->recv_peer_count, rank, what->nranks);
  return fault;
}

static bool plan_check(const struct rondo_plan_verify_case *what, uint32_t rank,
                       struct rondo_plan_verify_report *report) {
  const struct rondo_plan *plan = &what->plans[rank];
  struct rondo_plan_where where = {rank, RONDO_PLAN_NOWHERE, RONDO_PLAN_NOWHERE};
  const char *fault = plan_fault(what, rank);
  for (uint32_t i = 0; fault == NULL && i < plan->op_count; i++) {
    fault = op_fault(what->kind, plan, &plan->ops[i]);
    where.op = i;
  }
  if (fault == NULL)
    return true;
  return rondo_plan_verify_fault(report, where, "%s", fault);
}

// How often a loop of `plan` sends through (or receives from) its peer `index`.
static uint64_t uses_count(const struct rondo_plan *plan, uint32_t index, bool send) {
  uint64_t uses = 0;
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    if ((send ? op->send_peer : op->recv_peer) == index)
      uses += op->repeat;
  }
  return uses;
}

// The connector from `rank` to its send peer `index`: known to both ends, and fed as
// often as it is emptied. A connector that nothing uses would cost memory for nothing.
static bool connector_check(const struct rondo_plan_verify_case *what, uint32_t rank,
                            uint32_t index, struct rondo_plan_verify_report *report) {
  const struct rondo_plan *plan = &what->plans[rank];
  uint32_t to = plan->send_peers[index];
  const struct rondo_plan *peer = &what->plans[to];
  struct rondo_plan_where where = {rank, RONDO_PLAN_NOWHERE, RONDO_PLAN_NOWHERE};
  uint32_t back = rondo_plan_verify_peer_find(peer->recv_peers, peer->recv_peer_count, rank);
  if (back == RONDO_PLAN_NOWHERE)
    return rondo_plan_verify_fault(report, where,
                                   "sends to rank %u, which does not receive from it", to);
  uint64_t sends = uses_count(plan, index, true), receives = uses_count(peer, back, false);
  if (sends != receives || sends == 0)
    return rondo_plan_verify_fault(report, where,
                                   "sends %llu chunks a loop to rank %u, which receives %llu",
                                   (unsigned long long)sends, to, (unsigned long long)receives);
  return true;
}

static bool peers_check(const struct rondo_plan_verify_case *what, uint32_t rank,
                        struct rondo_plan_verify_report *report) {
  const struct rondo_plan *plan = &what->plans[rank];
  struct rondo_plan_where where = {rank, RONDO_PLAN_NOWHERE, RONDO_PLAN_NOWHERE};
  for (uint32_t i = 0; i < plan->send_peer_count; i++) {
    if (!connector_check(what, rank, i, report))
      return false;
  }
  for (uint32_t i = 0; i < plan->recv_peer_count; i++) {
    const struct rondo_plan *peer = &what->plans[plan->recv_peers[i]];
    if (rondo_plan_verify_peer_find(peer->send_peers, peer->send_peer_count, rank) ==
        RONDO_PLAN_NOWHERE)
      return rondo_plan_verify_fault(
          report, where, "receives from rank %u, which does not send to it", plan->recv_peers[i]);
  }
  return true;
}

bool rondo_plan_verify_shape(const struct rondo_plan_verify_case *what,
                             struct rondo_plan_verify_report *report) {
  for (uint32_t rank = 0; rank < what->nranks; rank++) {
    if (!plan_check(what, rank, report))
      return false;
  }
  for (uint32_t rank = 0; rank < what->nranks; rank++) {
    if (!peers_check(what, rank, report))
      return false;
  }
  return true;
}
