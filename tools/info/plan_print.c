#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <rondo/rondo.h>

#include "tools/info/plan.h"
#include "tools/kit/options.h"

#define WHY_BYTES 160

static const char *const algorithm_names[RONDO_ALGORITHM_COUNT] = {
    [RONDO_ALGORITHM_RING] = "ring",
    [RONDO_ALGORITHM_TREE] = "tree",
    [RONDO_ALGORITHM_DIRECT] = "direct",
    [RONDO_ALGORITHM_DISSEMINATION] = "dissemination"};

static const char *const rule_names[] = {
    [RONDO_PLAN_RULE_ONLY] = "only",   [RONDO_PLAN_RULE_ALONE] = "alone",
    [RONDO_PLAN_RULE_LARGE] = "large", [RONDO_PLAN_RULE_PAIR] = "pair",
    [RONDO_PLAN_RULE_FEW] = "few",     [RONDO_PLAN_RULE_MANY] = "many"};

static const struct {
  uint32_t flag;
  const char *name;
} primitive_names[] = {{RONDO_PRIM_RECV, "recv"},       {RONDO_PRIM_REDUCE, "reduce"},
                       {RONDO_PRIM_COPY, "copy"},       {RONDO_PRIM_SEND, "send"},
                       {RONDO_PRIM_FINAL, "final"},     {RONDO_PRIM_RESULT, "result"},
                       {RONDO_PRIM_IN_BASE, "in_base"}, {RONDO_PRIM_OUT_BASE, "out_base"}};
#define PRIMITIVES (sizeof primitive_names / sizeof *primitive_names)

// The constant of daemon/plan/build.h that decided; null: none did.
static const char *constant_name(const struct info_plan *p) {
  int kind = p->request.kind;
  if (p->choice.limit == 0)
    return NULL;
  if (p->choice.rule == RONDO_PLAN_RULE_LARGE)
    return "RONDO_PLAN_SMALL_BYTES";
  if (kind == RONDO_REDUCE)
    return "RONDO_PLAN_DIRECT_REDUCE_MAX_RANKS";
  return kind == RONDO_ALL_REDUCE || kind == RONDO_BROADCAST ? "RONDO_PLAN_DIRECT_MAX_RANKS"
                                                             : "RONDO_PLAN_DIRECT_PAIRS_MAX_RANKS";
}

static void why_write(const struct info_plan *p, char *text) {
  const char *kind = rondo_kind_name(p->request.kind);
  const char *constant = constant_name(p);
  uint64_t bytes = p->bytes, limit = p->choice.limit;
  uint32_t n = p->request.nranks;
  switch (p->choice.rule) {
  case RONDO_PLAN_RULE_ALONE:
    snprintf(text, WHY_BYTES, "a group of one rank copies at most");
    break;
  case RONDO_PLAN_RULE_LARGE:
    snprintf(text, WHY_BYTES, "%" PRIu64 " bytes are more than %s = %" PRIu64, bytes, constant,
             limit);
    break;
  case RONDO_PLAN_RULE_PAIR:
    snprintf(text, WHY_BYTES, "%" PRIu64 " bytes are small (at most %u), and there are two ranks",
             bytes, RONDO_PLAN_SMALL_BYTES);
    break;
  case RONDO_PLAN_RULE_FEW:
  case RONDO_PLAN_RULE_MANY:
    snprintf(text, WHY_BYTES,
             "%" PRIu64 " bytes are small (at most %u), and %" PRIu32
             " ranks are %s than %s = %" PRIu64,
             bytes, RONDO_PLAN_SMALL_BYTES, n,
             p->choice.rule == RONDO_PLAN_RULE_FEW ? "no more" : "more", constant, limit);
    break;
  default:
    snprintf(text, WHY_BYTES, "%s has no other algorithm", kind);
  }
}

// ------------------------------------------------------------------------ text ---

static void primitive_print(uint32_t primitive) {
  const char *gap = "";
  for (size_t i = 0; i < PRIMITIVES; i++)
    if (primitive & primitive_names[i].flag) {
      printf("%s%s", gap, primitive_names[i].name);
      gap = " ";
    }
}

// One number, or the first and the last of several.
static void range_print(const char *one, const char *many, uint32_t first, uint32_t last) {
  if (first == last)
    printf(", %s %" PRIu32, one, first);
  else
    printf(", %s %" PRIu32 " -> %" PRIu32, many, first, last);
}

static void peers_print(const char *one, const char *many, const struct rondo_plan *plan,
                        const struct rondo_plan_peers *peers, uint32_t index,
                        const struct rondo_plan_op *op) {
  if (index == RONDO_PLAN_NO_PEER)
    return;
  uint32_t last = index + (op->repeat - 1) * op->peer_stride;
  range_print(one, many, rondo_plan_peer(plan, peers, index), rondo_plan_peer(plan, peers, last));
}

static void op_print(const struct rondo_plan *plan, uint32_t index) {
  const struct rondo_plan_op *op = &plan->ops[index];
  printf("  op %-15" PRIu32 " ", index);
  primitive_print(op->primitive);
  if (op->repeat > 1)
    printf(" x %" PRIu32, op->repeat);
  range_print("chunk", "chunks", info_op_chunk(op, 0), info_op_chunk(op, op->repeat - 1));
  peers_print("from rank", "from ranks", plan, &plan->recv, op->recv_peer, op);
  peers_print("to rank", "to ranks", plan, &plan->send, op->send_peer, op);
  printf("\n");
}

static void cost_print(const struct info_plan *p) {
  const struct info_plan_cost *c = &p->cost;
  printf("  %-18s %" PRIu32 "\n", "dependent_hops", c->dependent_hops);
  printf("  %-18s %" PRIu32 "\n", "sends", c->sends);
  printf("  %-18s %" PRIu64 "\n", "bytes", c->bytes);
  printf("  %-18s %" PRIu32 "\n", "state_bytes", c->state_bytes);
  printf("  %-18s %.3f\n", "build_us", c->build_us);
}

void info_plan_print(const struct info_plan *p) {
  const struct rondo_plan_request *q = &p->request;
  const struct rondo_plan *plan = &p->plans[q->rank];
  char why[WHY_BYTES], size[RONDO_KIT_SIZE_TEXT_BYTES];
  why_write(p, why);
  printf("%s of %s, rank %" PRIu32 " of %" PRIu32, rondo_kind_name(q->kind),
         rondo_kit_size_text((double)p->bytes, size), q->rank, q->nranks);
  if (rondo_plan_is_rooted(q->kind))
    printf(", root %" PRIu32, q->root);
  printf(": %s\n", algorithm_names[q->algorithm]);
  printf("  %-18s %s\n", "why", why);
  for (uint32_t i = 0; i < plan->op_count; i++)
    op_print(plan, i);
  if (plan->op_count == 0)
    printf("  no ops\n");
  printf("  %-18s %" PRIu32 " to send, %" PRIu32 " to receive, in each block\n", "connectors",
         plan->send.count, plan->recv.count);
  printf("  %-18s %" PRIu32 "\n", "least_slots",
         rondo_plan_least_slots(q->kind, q->algorithm, q->nranks));
  if (p->verified == RONDO_SUCCESS)
    cost_print(p);
  printf("  %-18s %s\n", "verifier",
         p->verified == RONDO_SUCCESS ? "the plans of all ranks are right" : p->report.message);
}

// ------------------------------------------------------------------------ JSON ---

static json_t *peers_json(const struct rondo_plan *plan, const struct rondo_plan_peers *peers,
                          uint32_t index, const struct rondo_plan_op *op) {
  json_t *ranks = json_array();
  for (uint32_t i = 0; index != RONDO_PLAN_NO_PEER && i < (op->peer_stride ? op->repeat : 1); i++)
    json_array_append_new(ranks,
                          json_integer(rondo_plan_peer(plan, peers, index + i * op->peer_stride)));
  return ranks;
}

static json_t *op_json(const struct rondo_plan *plan, const struct rondo_plan_op *op) {
  json_t *primitive = json_array(), *chunks = json_array();
  for (size_t i = 0; i < PRIMITIVES; i++)
    if (op->primitive & primitive_names[i].flag)
      json_array_append_new(primitive, json_string(primitive_names[i].name));
  for (uint32_t i = 0; i < op->repeat; i++)
    json_array_append_new(chunks, json_integer(info_op_chunk(op, i)));
  return json_pack("{s:o, s:i, s:o, s:o, s:o}", "primitive", primitive, "repeat", op->repeat,
                   "chunks", chunks, "from", peers_json(plan, &plan->recv, op->recv_peer, op), "to",
                   peers_json(plan, &plan->send, op->send_peer, op));
}

static json_t *ops_json(const struct rondo_plan *plan) {
  json_t *ops = json_array();
  for (uint32_t i = 0; i < plan->op_count; i++)
    json_array_append_new(ops, op_json(plan, &plan->ops[i]));
  return ops;
}

static json_t *cost_json(const struct info_plan *p) {
  const struct info_plan_cost *c = &p->cost;
  if (p->verified != RONDO_SUCCESS)
    return json_null();
  return json_pack("{s:i, s:i, s:I, s:i, s:f}", "dependent_hops", c->dependent_hops, "sends",
                   c->sends, "bytes", (json_int_t)c->bytes, "state_bytes", c->state_bytes,
                   "build_us", c->build_us);
}

static json_t *why_json(const struct info_plan *p) {
  char text[WHY_BYTES];
  why_write(p, text);
  json_t *why = json_pack("{s:s, s:s}", "rule", rule_names[p->choice.rule], "text", text);
  if (constant_name(p))
    json_object_update_new(why, json_pack("{s:s, s:I}", "constant", constant_name(p), "limit",
                                          (json_int_t)p->choice.limit));
  return why;
}

bool info_plan_print_json(const struct info_plan *p) {
  const struct rondo_plan_request *q = &p->request;
  const struct rondo_plan *plan = &p->plans[q->rank];
  bool is_right = p->verified == RONDO_SUCCESS;
  json_t *connectors =
      json_pack("{s:i, s:i, s:i}", "send", plan->send.count, "recv", plan->recv.count,
                "least_slots", rondo_plan_least_slots(q->kind, q->algorithm, q->nranks));
  json_t *root =
      json_pack("{s:s, s:I, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:b, s:s*}", "kind",
                rondo_kind_name(q->kind), "bytes", (json_int_t)p->bytes, "ranks", q->nranks, "rank",
                q->rank, "root", q->root, "algorithm", algorithm_names[q->algorithm], "why",
                why_json(p), "ops", ops_json(plan), "connectors", connectors, "cost", cost_json(p),
                "verified", is_right, "fault", is_right ? NULL : p->report.message);
  bool printed = root && json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;
  printf("\n");
  json_decref(root);
  return printed;
}
