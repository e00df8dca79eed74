#include "daemon/plan/verify_shape.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/plan/build.h"
#include "rondo/types.h"

enum {
  PRIM_ALL = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY | RONDO_PRIM_SEND |
             RONDO_PRIM_FINAL | RONDO_PRIM_IN_BASE | RONDO_PRIM_OUT_BASE | RONDO_PRIM_RESULT |
             RONDO_PRIM_SCRATCH | RONDO_PRIM_RUNS | RONDO_PRIM_MIRROR | RONDO_PRIM_QUANTISED |
             RONDO_PRIM_PACKETS,
  PRIM_ADDS = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY
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

uint32_t rondo_plan_verify_peer_find(const struct rondo_plan *plan,
                                     const struct rondo_plan_peers *peers, uint32_t count,
                                     uint32_t rank) {
  // Of a walk upwards or downwards the index follows from the distance.
  uint32_t n = plan->nranks, stride = peers->stride;
  if (stride > 0 && stride < n) {
    uint32_t distance = (rank + n - peers->listed[1] % n) % n;
    uint32_t up = distance / stride + 1, down = (n - distance) % n / (n - stride) + 1;
    if (up < count && rondo_plan_peer(plan, peers, up) == rank)
      return up;
    if (down < count && rondo_plan_peer(plan, peers, down) == rank)
      return down;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (rondo_plan_peer(plan, peers, i) == rank)
      return i;
  }
  return RONDO_PLAN_NOWHERE;
}

// Whether an op may take what the receive buffer holds: to add to it there, or to pass it on.
static bool may_take_result(unsigned primitive) {
  unsigned moves = primitive & (PRIM_ADDS | RONDO_PRIM_SEND);
  if (primitive & RONDO_PRIM_SCRATCH)
    return false;
  return (moves & PRIM_ADDS) == PRIM_ADDS || moves == RONDO_PRIM_SEND;
}

// What is wrong with the use of scratch, or null.
static const char *scratch_fault(int kind, unsigned primitive) {
  bool recv = primitive & RONDO_PRIM_RECV, reduce = primitive & RONDO_PRIM_REDUCE;
  bool has_buffer_too = primitive & (RONDO_PRIM_IN_BASE | RONDO_PRIM_RESULT);
  if ((primitive & RONDO_PRIM_IN_SCRATCH) &&
      (kind == RONDO_BARRIER || (recv && !reduce) || has_buffer_too))
    return "has IN_SCRATCH but reads no scratch";
  if ((primitive & RONDO_PRIM_OUT_SCRATCH) &&
      (kind == RONDO_BARRIER || !(primitive & RONDO_PRIM_COPY) ||
       (primitive & RONDO_PRIM_OUT_BASE)))
    return "has OUT_SCRATCH but writes no scratch";
  return NULL;
}

// What is wrong with the order of an op's chunks in scratch, or null.
static const char *order_fault(int kind, const struct rondo_plan_op *op) {
  const unsigned order = RONDO_PRIM_RUNS | RONDO_PRIM_MIRROR;
  unsigned moves = op->primitive & ~order;
  uint32_t run = op->chunk_stride;
  bool is_message = moves == (RONDO_PRIM_SEND | RONDO_PRIM_IN_SCRATCH) ||
                    moves == (RONDO_PRIM_RECV | RONDO_PRIM_COPY | RONDO_PRIM_OUT_SCRATCH);
  if ((op->primitive & order) && kind != RONDO_ALL_TO_ALL)
    return "has RUNS or MIRROR, and is no all-to-all";
  if ((op->primitive & RONDO_PRIM_RUNS) &&
      (!is_message || op->repeat != 1 || run == 0 || (run & (run - 1)) || run >= op->width))
    return "has RUNS but no message of several";
  if ((op->primitive & RONDO_PRIM_MIRROR) && moves != (RONDO_PRIM_COPY | RONDO_PRIM_IN_SCRATCH))
    return "has MIRROR but copies nothing out of scratch";
  return NULL;
}

// What is wrong with the messages of an op if they are quantised, or null.
static const char *quantisation_fault(int kind, const struct rondo_plan *plan,
                                      const struct rondo_plan_op *op) {
  const unsigned messages = RONDO_PRIM_RECV | RONDO_PRIM_SEND;
  unsigned quantised = op->primitive & RONDO_PRIM_QUANTISED;
  if (!quantised)
    return NULL;
  if (quantised == RONDO_PRIM_QUANTISED)
    return "has two quantisations";
  if (kind != RONDO_ALL_REDUCE || !(op->primitive & messages))
    return "is quantised, and has no message of an all-reduce";
  if (op->width != 1 || (op->primitive & RONDO_PRIM_SCRATCH))
    return "is quantised, and has several chunks or scratch";
  if (!(op->primitive & RONDO_PRIM_SEND) && (op->primitive & RONDO_PRIM_REDUCE))
    return "is quantised, and adds what it does not send";
  return plan->by_value ? NULL : "is quantised, and may send references";
}

// What is wrong with the packets of an op, or null: movers take a message of one piece into one
// place, and write one that is not kept anywhere.
static const char *packets_fault(int kind, const struct rondo_plan *plan,
                                 const struct rondo_plan_op *op) {
  const unsigned messages = RONDO_PRIM_RECV | RONDO_PRIM_SEND;
  unsigned way = op->primitive & messages;
  if (!(op->primitive & RONDO_PRIM_PACKETS))
    return NULL;
  if (kind == RONDO_BARRIER || way == 0 || way == messages || op->width != 1)
    return "has packets, and does not send or receive one chunk";
  if ((way == RONDO_PRIM_SEND) == ((op->primitive & RONDO_PRIM_COPY) != 0))
    return "has packets, and sends what it copies, or receives what it does not";
  if (op->primitive & RONDO_PRIM_QUANTISED)
    return "has packets, and is quantised";
  return plan->by_value ? NULL : "has packets, and may send references";
}

// What is wrong with an op's primitive for this kind, or null.
static const char *primitive_fault(int kind, unsigned primitive) {
  bool recv = primitive & RONDO_PRIM_RECV, reduce = primitive & RONDO_PRIM_REDUCE;
  bool takes_signal = kind == RONDO_BARRIER && recv;
  if (primitive & ~(unsigned)PRIM_ALL)
    return "has unknown primitive bits";
  if (!(primitive & (RONDO_PRIM_COPY | RONDO_PRIM_SEND)) && !takes_signal)
    return "neither copies nor sends its value";
  if (reduce && !recv && !(primitive & RONDO_PRIM_IN_SCRATCH))
    return "reduces without receiving";
  if (reduce && !rondo_plan_reduces(kind))
    return "reduces in a kind that does not";
  if ((primitive & RONDO_PRIM_FINAL) && !rondo_plan_reduces(kind))
    return "is FINAL in a kind that does not reduce";
  if ((primitive & RONDO_PRIM_RESULT) && (kind == RONDO_BARRIER || !may_take_result(primitive)))
    return "has RESULT but neither adds to a result nor passes one on";
  if ((primitive & RONDO_PRIM_IN_BASE) &&
      (rondo_plan_base(kind) != RONDO_PRIM_IN_BASE || recv || (primitive & RONDO_PRIM_RESULT)))
    return "has IN_BASE but reads no send buffer of one chunk";
  if ((primitive & RONDO_PRIM_OUT_BASE) &&
      (rondo_plan_base(kind) != RONDO_PRIM_OUT_BASE || !(primitive & RONDO_PRIM_COPY)))
    return "has OUT_BASE but writes no receive buffer of one chunk";
  return scratch_fault(kind, primitive);
}

static const char *peer_fault(const struct rondo_plan_op *op, bool wanted, uint16_t peer,
                              uint32_t peer_count) {
  uint64_t last = peer + (uint64_t)(op->repeat - 1) * op->peer_stride;
  if (wanted)
    return last < peer_count ? NULL : "has a peer index that is out of range";
  return peer == RONDO_PLAN_NO_PEER ? NULL : "has a peer that its primitive does not use";
}

static const char *op_fault(int kind, const struct rondo_plan *plan,
                            const struct rondo_plan_op *op) {
  if (op->repeat == 0)
    return "repeats 0 times";
  if (op->first_chunk >= plan->chunk_count)
    return "begins beyond the last chunk";
  if (op->width == 0 || op->width > plan->chunk_count)
    return "has no chunks, or more than a loop";
  if (op->width > 1 && (op->primitive & (RONDO_PRIM_IN_BASE | RONDO_PRIM_OUT_BASE)))
    return "has several chunks where the buffer holds one";
  if (op->chunk_stride >= plan->chunk_count)
    return "has a stride that is not below the chunk count";
  if (op->peer_stride > 1)
    return "has a peer stride that is neither 0 nor 1";
  const char *fault = order_fault(kind, op);
  if (fault == NULL)
    fault = primitive_fault(kind, op->primitive);
  if (fault == NULL)
    fault = quantisation_fault(kind, plan, op);
  if (fault == NULL)
    fault = packets_fault(kind, plan, op);
  if (fault == NULL)
    fault = peer_fault(op, op->primitive & RONDO_PRIM_SEND, op->send_peer, plan->send.count);
  if (fault == NULL)
    fault = peer_fault(op, op->primitive & RONDO_PRIM_RECV, op->recv_peer, plan->recv.count);
  return fault;
}

// What is wrong with the peers of one direction, or null.
static const char *peers_fault(const struct rondo_plan *plan, const struct rondo_plan_peers *peers,
                               uint32_t rank) {
  if (peers->count > (peers->stride ? plan->nranks : RONDO_PLAN_LISTED_PEERS))
    return "has too many peers";
  for (uint32_t i = 0; i < peers->count; i++) {
    uint32_t peer = rondo_plan_peer(plan, peers, i);
    if (peer >= plan->nranks)
      return "has a peer outside the group";
    if (peer == rank)
      return "has itself as a peer";
    if (rondo_plan_verify_peer_find(plan, peers, i, peer) != RONDO_PLAN_NOWHERE)
      return "has a peer twice";
  }
  return NULL;
}

// What is wrong with the rounds of a plan, or null.
static const char *rounds_fault(int kind, const struct rondo_plan *plan) {
  uint32_t free = 0; // ops since the last round, in this pass
  bool has_rounds = false;
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    free = i == plan->first_pass ? 1 : free + 1;
    if (op->round_ops > free)
      return "has a round that begins before the pass, or in another round";
    if (op->round_ops)
      free = 0;
    has_rounds |= op->round_ops;
  }
  if (!has_rounds)
    return plan->round_chunks ? "has chunks of rounds, and no rounds" : NULL;
  if (plan->round_chunks == 0 || plan->chunk_count % plan->round_chunks ||
      plan->chunk_count > RONDO_PLAN_ROUNDS_MOST_CHUNKS)
    return "has rounds that do not divide a loop";
  return kind == RONDO_ALL_REDUCE ? NULL : "has rounds in a kind that has none";
}

// What is wrong with the passes of a plan, or null.
static const char *passes_fault(int kind, const struct rondo_plan *plan) {
  if (plan->first_pass && plan->first_pass >= plan->op_count)
    return "has no ops in its second pass";
  if (plan->first_pass && (rondo_plan_has_parts(kind) || kind == RONDO_BARRIER))
    return "has two passes in a kind that has one";
  if (plan->first_pass && plan->scratch_count)
    return "has two passes and scratch, which holds one loop";
  return NULL;
}

static const char *plan_fault(const struct rondo_plan_verify_case *what, uint32_t rank) {
  const struct rondo_plan *plan = &what->plans[rank];
  bool nothing_to_do = what->kind == RONDO_BARRIER && what->nranks == 1;
  if (plan->nranks != what->nranks)
    return "is of another number of ranks";
  if ((plan->op_count == 0 && !nothing_to_do) || plan->op_count > RONDO_PLAN_MAX_OPS)
    return "has no ops, or too many";
  if (plan->chunk_count == 0 || plan->chunk_count != what->plans[0].chunk_count)
    return "has another chunk count than rank 0, or none";
  if (rondo_plan_has_parts(what->kind) && plan->chunk_count != what->nranks)
    return "does not have one chunk a rank";
  if (plan->by_place &&
      (!rondo_plan_has_parts(what->kind) || !what->topology || plan->by_place > plan->nranks))
    return "takes chunks by places that it does not have";
  if (plan->scratch_count > plan->chunk_count || plan->scratch_first >= plan->chunk_count)
    return "has scratch for more than a loop";
  for (uint32_t i = 0; i < plan->op_count && plan->by_place; i++)
    if (plan->ops[i].width > 1)
      return "takes chunks by places, and several at once";
  const char *fault = passes_fault(what->kind, plan);
  if (fault == NULL)
    fault = rounds_fault(what->kind, plan);
  if (fault == NULL)
    fault = peers_fault(plan, &plan->send, rank);
  if (fault == NULL)
    fault = peers_fault(plan, &plan->recv, rank);
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
    uint32_t first = send ? op->send_peer : op->recv_peer, rounds = rondo_plan_rounds(plan, i);
    if (op->peer_stride)
      uses += index >= first && index - first < op->repeat ? rounds : 0;
    else if (first == index)
      uses += (uint64_t)op->repeat * rounds;
  }
  return uses;
}

// The connector from `rank` to its send peer `index`: known to both ends, and fed as
// often as it is emptied. A connector that nothing uses would cost memory for nothing.
static bool connector_check(const struct rondo_plan_verify_case *what, uint32_t rank,
                            uint32_t index, struct rondo_plan_verify_report *report) {
  const struct rondo_plan *plan = &what->plans[rank];
  uint32_t to = rondo_plan_peer(plan, &plan->send, index);
  const struct rondo_plan *peer = &what->plans[to];
  struct rondo_plan_where where = {rank, RONDO_PLAN_NOWHERE, RONDO_PLAN_NOWHERE};
  uint32_t back = rondo_plan_verify_peer_find(peer, &peer->recv, peer->recv.count, rank);
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
  for (uint32_t i = 0; i < plan->send.count; i++) {
    if (!connector_check(what, rank, i, report))
      return false;
  }
  for (uint32_t i = 0; i < plan->recv.count; i++) {
    uint32_t from = rondo_plan_peer(plan, &plan->recv, i);
    const struct rondo_plan *peer = &what->plans[from];
    if (rondo_plan_verify_peer_find(peer, &peer->send, peer->send.count, rank) ==
        RONDO_PLAN_NOWHERE)
      return rondo_plan_verify_fault(report, where,
                                     "receives from rank %u, which does not send to it", from);
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
