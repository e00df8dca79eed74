#include "tools/info/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <rondo/rondo.h>

#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "daemon/plan/cost_file.h"
#include "daemon/plan/verify.h"
#include "daemon/plan/verify_shape.h"
#include "tools/kit/clock.h"
#include "tools/kit/options.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2
#define BUILDS 1000u // timed
#define LOOPS 2u     // that the verifier executes, so that it sees one loop follow another
#define WHY_BYTES 160
#define MAX_PARTS                                                                                  \
  1024u // the most ranks if a loop has several chunks: each pair may have a connector

// What a plan costs, from the plans of all ranks of the group. A run is taken as one loop, as in
// docs/algorithms.md.
struct info_plan_cost {
  // Messages of the longest chain in which each waits for the one before. A message waits for those
  // that its sender has sent or received before, and for those that its receiver has received
  // before: a rank sends one message at a time, and receives one at a time.
  uint32_t dependent_hops;
  uint32_t sends;         // messages of this rank
  uint64_t bytes;         // in those messages
  uint32_t state_bytes;   // memory of the plan: its ops and its peers
  uint64_t scratch_bytes; // of a block
  double build_us;        // time to build the plan, the least of many
  double choose_us;       // time to choose its algorithm, the least of many
};

// By which algorithms are chosen.
static const struct rondo_cost_model *model = &rondo_cost_defaults;

struct info_plan {
  struct rondo_plan_request request; // whose plan
  struct rondo_cost_query query;     // what the choice is made for
  uint64_t bytes;                    // that the descriptor counts
  struct rondo_plan_choice choice;
  struct rondo_plan *plans; // of all ranks
  struct info_plan_cost cost;
  int verified; // enum rondo_status of the verifier; RONDO_ERR_UNSUPPORTED: too large for it
  struct rondo_plan_verify_report report; // the first fault, if there is one
};

// Chunk `k` of those that execution `i` of an op handles.
static uint32_t op_chunk(const struct rondo_plan *plan, const struct rondo_plan_op *op, uint32_t i,
                         uint32_t k) {
  uint64_t at = op->first_chunk + (uint64_t)i * op->chunk_stride + k;
  return (uint32_t)(at % plan->chunk_count);
}

// ------------------------------------------------------------- dependent hops ---

// The messages from one rank to another: the place of each in its chain. Taken in their order.
struct connector {
  uint32_t *places;
  uint32_t sent, taken;
};

struct rank {
  uint32_t op, execution;  // where it stands
  uint32_t sent, received; // place of the last message that it has sent, received
  struct connector *from;  // by the index of the recv peer
};

// The plans of a group, executed on nothing but the places of messages.
struct simulation {
  const struct rondo_plan *plans;
  uint32_t n;
  struct rank *ranks;
};

static uint32_t later_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Null: the peer does not receive from `rank`.
static struct connector *connector_to(const struct simulation *s, uint32_t rank, uint32_t to) {
  const struct rondo_plan *peer = &s->plans[to];
  uint32_t index = rondo_plan_verify_peer_find(peer, &peer->recv, peer->recv.count, rank);
  return index < peer->recv.count ? &s->ranks[to].from[index] : NULL;
}

// Adds one message. Returns false if there is no memory.
static bool message_send(struct connector *c, uint32_t place) {
  if (!(c->sent & (c->sent + 1))) {
    uint32_t *places = realloc(c->places, 2 * (c->sent + (size_t)1) * sizeof *places);
    if (!places)
      return false;
    c->places = places;
  }
  c->places[c->sent++] = place;
  return true;
}

// Executes the next repeat of an op, unless it waits for a message. Returns 1 if it did, 0 if it
// waits or the plan has ended, -1 if there is no memory.
static int rank_step(struct simulation *s, uint32_t rank) {
  struct rank *r = &s->ranks[rank];
  const struct rondo_plan *plan = &s->plans[rank];
  if (r->op == plan->op_count)
    return 0;
  const struct rondo_plan_op *op = &plan->ops[r->op];
  uint32_t walked = r->execution * op->peer_stride;
  if (op->primitive & RONDO_PRIM_RECV) {
    struct connector *c = &r->from[op->recv_peer + walked];
    if (c->taken == c->sent)
      return 0;
    r->received = later_of(c->places[c->taken++], r->received + 1);
  }
  if (op->primitive & RONDO_PRIM_SEND) {
    struct connector *c =
        connector_to(s, rank, rondo_plan_peer(plan, &plan->send, op->send_peer + walked));
    r->sent = later_of(r->sent, r->received) + 1;
    if (c && !message_send(c, r->sent))
      return -1;
  }
  if (++r->execution == op->repeat) {
    r->execution = 0;
    r->op++;
  }
  return 1;
}

// Returns the last place in any chain, or -1 if there is no memory.
static int64_t simulation_run(struct simulation *s) {
  uint32_t last = 0;
  bool progressed = true;
  while (progressed) {
    progressed = false;
    for (uint32_t r = 0; r < s->n; r++) {
      int step = rank_step(s, r);
      for (; step > 0; step = rank_step(s, r))
        progressed = true;
      if (step < 0)
        return -1;
      last = later_of(last, s->ranks[r].received);
    }
  }
  return last;
}

static bool simulation_init(struct simulation *s) {
  s->ranks = calloc(s->n, sizeof *s->ranks);
  bool has_memory = s->ranks != NULL;
  for (uint32_t r = 0; r < s->n && has_memory; r++) {
    s->ranks[r].from = calloc(s->plans[r].recv.count + 1, sizeof *s->ranks[r].from);
    has_memory = s->ranks[r].from != NULL;
  }
  return has_memory;
}

static void simulation_fini(struct simulation *s) {
  for (uint32_t r = 0; s->ranks && r < s->n; r++) {
    for (uint32_t i = 0; s->ranks[r].from && i < s->plans[r].recv.count; i++)
      free(s->ranks[r].from[i].places);
    free(s->ranks[r].from);
  }
  free(s->ranks);
}

static int64_t hops_count(const struct rondo_plan *plans, uint32_t n) {
  struct simulation s = {.plans = plans, .n = n};
  int64_t hops = simulation_init(&s) ? simulation_run(&s) : -1;
  simulation_fini(&s);
  return hops;
}

// ---------------------------------------------------------------- one rank -----

// Bytes of chunk `k`: all chunks have what the descriptor counts, except that some plans of an
// all-reduce part it among the ranks.
static uint64_t chunk_bytes(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                            uint64_t bytes, uint32_t k) {
  if (q->kind == RONDO_BARRIER)
    return 0;
  if (q->kind != RONDO_ALL_REDUCE || plan->chunk_count == 1)
    return bytes;
  uint64_t share = bytes / plan->chunk_count + (bytes % plan->chunk_count > 0);
  uint64_t before = share * k;
  uint64_t left = bytes > before ? bytes - before : 0;
  return left < share ? left : share;
}

static void sends_count(const struct rondo_plan_request *q, const struct rondo_plan *plan,
                        uint64_t bytes, struct info_plan_cost *cost) {
  for (uint32_t i = 0; i < plan->op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    if (!(op->primitive & RONDO_PRIM_SEND))
      continue;
    cost->sends += op->repeat;
    for (uint32_t k = 0; k < op->repeat * op->width; k++)
      cost->bytes += chunk_bytes(q, plan, bytes, op_chunk(plan, op, k / op->width, k % op->width));
  }
}

static uint32_t peers_bytes(const struct rondo_plan_peers *peers) {
  uint32_t listed = peers->stride ? 2 : peers->count;
  return (uint32_t)(offsetof(struct rondo_plan_peers, listed) + listed * sizeof peers->listed[0]);
}

static double build_time_us(const struct rondo_plan_request *request) {
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t i = 0; i < BUILDS; i++) {
    struct rondo_plan plan;
    uint64_t start_ns = rondo_kit_now_ns();
    (void)rondo_plan_build(request, &plan);
    uint64_t duration_ns = rondo_kit_now_ns() - start_ns;
    least_ns = duration_ns < least_ns ? duration_ns : least_ns;
  }
  return (double)least_ns / 1e3;
}

static double choose_time_us(const struct rondo_cost_query *query) {
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t i = 0; i < BUILDS; i++) {
    uint64_t start_ns = rondo_kit_now_ns();
    (void)rondo_cost_choose(model, query);
    uint64_t duration_ns = rondo_kit_now_ns() - start_ns;
    least_ns = duration_ns < least_ns ? duration_ns : least_ns;
  }
  return (double)least_ns / 1e3;
}

// The cost of the plan of `request`, a member of `plans`, for a descriptor that counts `bytes`.
// Returns false if there is no memory.
static bool cost_count(const struct rondo_plan_request *request, const struct rondo_plan *plans,
                       uint64_t bytes, struct info_plan_cost *cost) {
  const struct rondo_plan *plan = &plans[request->rank];
  int64_t hops = hops_count(plans, request->nranks);
  *cost = (struct info_plan_cost){0};
  if (hops < 0)
    return false;
  cost->dependent_hops = (uint32_t)hops;
  sends_count(request, plan, bytes, cost);
  cost->state_bytes = (uint32_t)(offsetof(struct rondo_plan, send) + peers_bytes(&plan->send) +
                                 peers_bytes(&plan->recv) + plan->op_count * sizeof plan->ops[0]);
  cost->scratch_bytes = plan->scratch_count * chunk_bytes(request, plan, bytes, 0);
  cost->build_us = build_time_us(request);
  return true;
}

// --------------------------------------------------------- why the algorithm -----

static const char *const link_names[RONDO_COST_LINKS] = {
    [RONDO_COST_THREAD] = "threads of one process",
    [RONDO_COST_SHARED_MEMORY] = "processes of one machine",
    [RONDO_COST_NVLINK] = "on GPUs with NVLink",
    [RONDO_COST_NETWORK] = "on several machines"};

static const struct {
  uint32_t flag;
  const char *name;
} primitive_names[] = {{RONDO_PRIM_RECV, "recv"},
                       {RONDO_PRIM_REDUCE, "reduce"},
                       {RONDO_PRIM_COPY, "copy"},
                       {RONDO_PRIM_SEND, "send"},
                       {RONDO_PRIM_FINAL, "final"},
                       {RONDO_PRIM_RESULT, "result"},
                       {RONDO_PRIM_IN_BASE, "in_base"},
                       {RONDO_PRIM_OUT_BASE, "out_base"},
                       {RONDO_PRIM_IN_SCRATCH, "in_scratch"},
                       {RONDO_PRIM_OUT_SCRATCH, "out_scratch"}};
#define PRIMITIVES (sizeof primitive_names / sizeof *primitive_names)

static bool is_shared(const struct info_plan *p) { return p->query.cores < p->query.nranks; }

static void why_write(const struct info_plan *p, char *text) {
  char cores[64];
  switch (p->choice.rule) {
  case RONDO_PLAN_RULE_FORCED:
    snprintf(text, WHY_BYTES, "--algo names it");
    break;
  case RONDO_PLAN_RULE_ALONE:
    snprintf(text, WHY_BYTES, "a group of one rank copies at most");
    break;
  case RONDO_PLAN_RULE_LEAST:
    snprintf(cores, sizeof cores, "if all ranks share %" PRIu32 " core%s", p->query.cores,
             p->query.cores > 1 ? "s" : "");
    snprintf(text, WHY_BYTES, "the least predicted time %s; ranks are %s",
             is_shared(p) ? cores : "if each rank has a core (--cores)", link_names[p->query.link]);
    break;
  default:
    snprintf(text, WHY_BYTES, "%s has no other algorithm", rondo_kind_name(p->request.kind));
  }
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
    json_array_append_new(chunks, json_integer(op_chunk(plan, op, i, 0)));
  return json_pack("{s:o, s:i, s:o, s:i, s:o, s:o}", "primitive", primitive, "repeat", op->repeat,
                   "chunks", chunks, "width", op->width, "from",
                   peers_json(plan, &plan->recv, op->recv_peer, op), "to",
                   peers_json(plan, &plan->send, op->send_peer, op));
}

static json_t *ops_json(const struct rondo_plan *plan) {
  json_t *ops = json_array();
  for (uint32_t i = 0; i < plan->op_count; i++)
    json_array_append_new(ops, op_json(plan, &plan->ops[i]));
  return ops;
}

static bool is_faulty(const struct info_plan *p) {
  return p->verified != RONDO_SUCCESS && p->verified != RONDO_ERR_UNSUPPORTED;
}

static json_t *cost_json(const struct info_plan *p) {
  const struct info_plan_cost *c = &p->cost;
  if (is_faulty(p))
    return json_null();
  return json_pack("{s:i, s:i, s:I, s:i, s:I, s:f, s:f}", "dependent_hops", c->dependent_hops,
                   "sends", c->sends, "bytes", (json_int_t)c->bytes, "state_bytes", c->state_bytes,
                   "scratch_bytes", (json_int_t)c->scratch_bytes, "build_us", c->build_us,
                   "choose_us", c->choose_us);
}

static json_t *why_json(const struct info_plan *p) {
  char text[WHY_BYTES];
  why_write(p, text);
  return json_pack("{s:s, s:s}", "rule", rondo_plan_rule_name(p->choice.rule), "text", text);
}

// All algorithms that have a plan, the fastest first. One that needs too many connectors is no
// candidate: only --algo and RONDO_ALGO choose it.
static json_t *candidates_json(const struct info_plan *p) {
  json_t *all = json_array();
  for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++) {
    struct rondo_plan_form form;
    double time_ns = rondo_cost_predict(model, &p->query, algorithm);
    if (!rondo_plan_form_of(&p->query, algorithm, &form))
      continue;
    size_t at = 0;
    while (at < json_array_size(all) &&
           json_real_value(json_object_get(json_array_get(all, at), "predicted_us")) <=
               time_ns / 1e3)
      at++;
    json_array_insert_new(all, at,
                          json_pack("{s:s, s:f, s:i, s:I, s:b, s:b}", "algorithm",
                                    rondo_plan_algorithm_name(algorithm), "predicted_us",
                                    time_ns / 1e3, "dependent_hops", (int)form.hops, "messages",
                                    (json_int_t)form.messages, "may_be_chosen",
                                    rondo_cost_is_candidate(&p->query, algorithm), "is_chosen",
                                    algorithm == p->choice.algorithm));
  }
  return all;
}

// Null if there is no memory.
static json_t *plan_json(const struct info_plan *p) {
  const struct rondo_plan_request *q = &p->request;
  const struct rondo_plan *plan = &p->plans[q->rank];
  json_t *verified = p->verified == RONDO_ERR_UNSUPPORTED
                         ? json_null()
                         : json_boolean(p->verified == RONDO_SUCCESS);
  json_t *connectors =
      json_pack("{s:i, s:i, s:i}", "send", plan->send.count, "recv", plan->recv.count,
                "least_slots", rondo_plan_least_slots(q->kind, q->algorithm, q->nranks));
  return json_pack("{s:s, s:I, s:i, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s*}",
                   "kind", rondo_kind_name(q->kind), "bytes", (json_int_t)p->bytes, "ranks",
                   q->nranks, "rank", q->rank, "root", q->root, "cores", (int)p->query.cores,
                   "algorithm", rondo_plan_algorithm_name(q->algorithm), "why", why_json(p),
                   "candidates", candidates_json(p), "ops", ops_json(plan), "connectors",
                   connectors, "cost", cost_json(p), "verified", verified, "fault",
                   is_faulty(p) ? p->report.message : NULL);
}

// ------------------------------------------------------------------------ text ---

// One number, or the first and the last of several.
static void range_print(const char *what, const json_t *numbers) {
  size_t count = json_array_size(numbers);
  if (count == 0)
    return;
  json_int_t first = json_integer_value(json_array_get(numbers, 0));
  json_int_t last = json_integer_value(json_array_get(numbers, count - 1));
  if (first == last)
    printf(", %s %" JSON_INTEGER_FORMAT, what, first);
  else
    printf(", %ss %" JSON_INTEGER_FORMAT " -> %" JSON_INTEGER_FORMAT, what, first, last);
}

static void op_print(size_t index, const json_t *op) {
  const json_t *names = json_object_get(op, "primitive");
  json_int_t repeat = json_integer_value(json_object_get(op, "repeat"));
  json_int_t width = json_integer_value(json_object_get(op, "width"));
  printf("  op %-15zu", index);
  for (size_t i = 0; i < json_array_size(names); i++)
    printf(" %s", json_string_value(json_array_get(names, i)));
  if (repeat > 1)
    printf(" x %" JSON_INTEGER_FORMAT, repeat);
  range_print("chunk", json_object_get(op, "chunks"));
  if (width > 1)
    printf(" and the next %" JSON_INTEGER_FORMAT, width - 1);
  range_print("from rank", json_object_get(op, "from"));
  range_print("to rank", json_object_get(op, "to"));
  printf("\n");
}

static void cost_print(json_t *cost) {
  const char *name;
  json_t *figure;
  json_object_foreach(cost, name, figure) {
    if (json_is_integer(figure))
      printf("  %-18s %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(figure));
    else
      printf("  %-18s %.3f\n", name, json_real_value(figure));
  }
}

static void candidates_print(const json_t *candidates) {
  size_t i;
  json_t *c;
  json_array_foreach(candidates, i, c) {
    printf("  %-18s %-14s %10.3f us%s\n", i == 0 ? "candidates" : "",
           json_string_value(json_object_get(c, "algorithm")),
           json_real_value(json_object_get(c, "predicted_us")),
           json_is_true(json_object_get(c, "is_chosen"))       ? "  chosen"
           : json_is_true(json_object_get(c, "may_be_chosen")) ? ""
                                                               : "  only if forced: connectors");
  }
}

// `root`: the plan as JSON.
static void plan_print(const struct info_plan *p, const json_t *root) {
  const struct rondo_plan_request *q = &p->request;
  const struct rondo_plan *plan = &p->plans[q->rank];
  const json_t *ops = json_object_get(root, "ops");
  char size[RONDO_KIT_SIZE_TEXT_BYTES];
  printf("%s of %s, rank %" PRIu32 " of %" PRIu32, rondo_kind_name(q->kind),
         rondo_kit_size_text((double)p->bytes, size), q->rank, q->nranks);
  if (rondo_plan_is_rooted(q->kind))
    printf(", root %" PRIu32, q->root);
  printf(": %s\n", rondo_plan_algorithm_name(q->algorithm));
  printf("  %-18s %s\n", "why",
         json_string_value(json_object_get(json_object_get(root, "why"), "text")));
  candidates_print(json_object_get(root, "candidates"));
  for (uint32_t i = 0; i < plan->op_count; i++)
    op_print(i, json_array_get(ops, i));
  if (plan->op_count == 0)
    printf("  no ops\n");
  printf("  %-18s %" PRIu32 " to send, %" PRIu32 " to receive, in each block\n", "connectors",
         plan->send.count, plan->recv.count);
  printf("  %-18s %" PRIu32 "\n", "least_slots",
         rondo_plan_least_slots(q->kind, q->algorithm, q->nranks));
  cost_print(json_object_get(root, "cost"));
  const char *verdict = p->verified == RONDO_ERR_UNSUPPORTED ? "too many ranks and chunks to verify"
                        : is_faulty(p)                       ? p->report.message
                                                             : "the plans of all ranks are right";
  printf("  %-18s %s\n", "verifier", verdict);
}

// Returns an enum rondo_status.
static int plan_show(const struct info_plan *p, bool as_json) {
  json_t *root = plan_json(p);
  int status = root ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  if (root && !as_json)
    plan_print(p, root);
  if (root && as_json) {
    if (json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0)
      status = RONDO_ERR_NO_MEMORY;
    printf("\n");
  }
  json_decref(root);
  return status;
}

// ----------------------------------------------------------------- the command -----

enum { ARGUMENT_KIND, ARGUMENT_RANKS, ARGUMENT_BYTES, ARGUMENT_COUNT };

struct options {
  const char *arguments[ARGUMENT_COUNT];
  const char *rank, *root; // null: 0
  const char *algorithm;   // null: the choice
  uint32_t cores;          // 0: one a rank
  int link;                // enum rondo_cost_link
  bool json;
};

// Ends the program.
static void __attribute__((format(printf, 1, 2), noreturn)) usage_refuse(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "rondo-info plan: ");
  (void)vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
  exit(EXIT_USAGE);
}

static bool argument_read(const char *text, unsigned number, void *values) {
  struct options *o = values;
  if (number >= ARGUMENT_COUNT)
    usage_refuse("one argument too many: '%s'", text);
  o->arguments[number] = text;
  return true;
}

static void kind_read(const char *text, struct info_plan *plan) {
  if (rondo_kit_read_name(RONDO_KIT_KIND, text, &plan->request.kind))
    return;
  char *names = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&names, &bytes);
  for (int kind = 0; out && kind < RONDO_KIND_COUNT; kind++)
    fprintf(out, "%s%s", kind > 0 ? ", " : "", rondo_kind_name(kind));
  if (out)
    (void)fclose(out);
  usage_refuse("'%s' is no kind of collective: %s", text, names ? names : "?");
}

static void position_read(const char *text, const char *what, uint32_t ranks, uint32_t *position) {
  if (text && !rondo_kit_read_u32(text, 0, ranks - 1, position))
    usage_refuse("--%s '%s' is not from 0 to %" PRIu32, what, text, ranks - 1);
}

static void arguments_read(const struct options *o, struct info_plan *plan) {
  struct rondo_plan_request *q = &plan->request;
  const char *const *a = o->arguments;
  if (!a[ARGUMENT_BYTES])
    usage_refuse("three arguments are needed: KIND RANKS BYTES");
  kind_read(a[ARGUMENT_KIND], plan);
  const char *kind = rondo_kind_name(q->kind);
  uint32_t most = q->kind == RONDO_SEND_RECV ? 2 : RONDO_PLAN_VERIFY_MAX_RANKS;
  if (!rondo_kit_read_u32(a[ARGUMENT_RANKS], 1, most, &q->nranks))
    usage_refuse("RANKS of %s is a number from 1 to %" PRIu32 ", not '%s'", kind, most,
                 a[ARGUMENT_RANKS]);
  if (!rondo_kit_read_size(a[ARGUMENT_BYTES], &plan->bytes))
    usage_refuse("BYTES is a size such as 8, 64K or 1.5M, not '%s'", a[ARGUMENT_BYTES]);
  if (q->kind == RONDO_BARRIER && plan->bytes > 0)
    usage_refuse("BYTES of barrier is 0, not '%s'", a[ARGUMENT_BYTES]);
  if (o->root && !rondo_plan_is_rooted(q->kind))
    usage_refuse("%s has no root", kind);
  position_read(o->rank, "rank", q->nranks, &q->rank);
  position_read(o->root, "root", q->nranks, &q->root);
  plan->query = (struct rondo_cost_query){.kind = q->kind,
                                          .nranks = q->nranks,
                                          .bytes = plan->bytes,
                                          .link = o->link,
                                          .cores = o->cores ? o->cores : q->nranks};
  plan->choice = rondo_cost_choose(model, &plan->query);
  if (o->algorithm)
    plan->choice = (struct rondo_plan_choice){rondo_plan_algorithm_find(o->algorithm),
                                              RONDO_PLAN_RULE_FORCED, 0};
  q->algorithm = plan->choice.algorithm;
  if (!rondo_plan_exists(q->kind, q->algorithm, q->nranks))
    usage_refuse("%s has no algorithm '%s'", kind, o->algorithm);
  struct rondo_plan plan_of_rank;
  if (q->nranks > MAX_PARTS && rondo_plan_build(q, &plan_of_rank) == RONDO_SUCCESS &&
      plan_of_rank.chunk_count > 1)
    usage_refuse("RANKS of %s by %s is a number from 1 to %u, not '%s'", kind,
                 rondo_plan_algorithm_name(q->algorithm), MAX_PARTS, a[ARGUMENT_RANKS]);
}

// With the fewest slots, out of place and where the kind allows it in place.
static void plans_verify(struct info_plan *plan) {
  const struct rondo_plan_request *q = &plan->request;
  bool is_exchange = q->kind == RONDO_ALL_TO_ALL || q->kind == RONDO_ALL_TO_ALL_V;
  struct rondo_plan_verify_case what = {
      .kind = q->kind,
      .nranks = q->nranks,
      .root = q->root,
      .slots = rondo_plan_least_slots(q->kind, q->algorithm, q->nranks),
      .loops = LOOPS,
      .plans = plan->plans};
  bool is_large = q->nranks > RONDO_PLAN_VERIFY_MAX_PARTS && plan->plans[0].chunk_count > 1;
  plan->verified = is_large ? RONDO_ERR_UNSUPPORTED : RONDO_SUCCESS;
  for (; what.in_place <= !is_exchange && plan->verified == RONDO_SUCCESS; what.in_place++)
    plan->verified = rondo_plan_verify(&what, &plan->report);
}

// Returns an enum rondo_status.
static int plan_make(struct info_plan *plan) {
  const struct rondo_plan_request *q = &plan->request;
  plan->plans = calloc(q->nranks, sizeof *plan->plans);
  int status = plan->plans ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  for (uint32_t r = 0; r < q->nranks && status == RONDO_SUCCESS; r++) {
    struct rondo_plan_request of_rank = *q;
    of_rank.rank = r;
    status = rondo_plan_build(&of_rank, &plan->plans[r]);
  }
  if (status != RONDO_SUCCESS)
    return status;
  plans_verify(plan);
  // A plan that is wrong may never end.
  if (!is_faulty(plan) && !cost_count(q, plan->plans, plan->bytes, &plan->cost))
    return RONDO_ERR_NO_MEMORY;
  plan->cost.choose_us = choose_time_us(&plan->query);
  return RONDO_SUCCESS;
}

static bool model_read(const char *path, void *values) {
  static struct rondo_cost_file file;
  static char text[RONDO_COST_FILE_BYTES];
  char why[RONDO_COST_WHY_BYTES];
  (void)values;
  FILE *in = fopen(path, "re");
  size_t length = in ? fread(text, 1, sizeof text - 1, in) : 0;
  if (!in || ferror(in))
    usage_refuse("%s: %s", path, strerror(errno));
  (void)fclose(in);
  text[length] = '\0';
  if (!rondo_cost_file_parse(&file, text, why))
    usage_refuse("%s %s", path, why);
  model = &file.model;
  return true;
}

static bool link_read(const char *text, void *values) {
  struct options *o = values;
  o->link = rondo_cost_link_find(text);
  return o->link < RONDO_COST_LINKS;
}

static void options_read(struct options *options, int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"rank", 'r', "R", "Whose plan is printed (default 0)", .value = RONDO_KIT_TEXT,
       .offset = offsetof(struct options, rank)},
      {"root", 0, "R", "Root of a kind that has one (default 0)", .value = RONDO_KIT_TEXT,
       .offset = offsetof(struct options, root)},
      {"algo", 'a', "NAME", "Show this algorithm instead of the one that would be chosen",
       .value = RONDO_KIT_TEXT, .offset = offsetof(struct options, algorithm)},
      {"cores", 'c', "N",
       "Cores that all ranks share, for the choice (default: each rank has one). A job takes those "
       "that the process may use",
       .value = RONDO_KIT_U32, .offset = offsetof(struct options, cores), .low = 1,
       .high = UINT32_MAX},
      {"link", 'l', "thread|shared_memory|nvlink|network",
       "How ranks reach each other, for the choice (default thread)", .read = link_read},
      {"model", 'm', "FILE", "Choose by this cost model, a file of rondo-info tune",
       .read = model_read},
      {"json", 'j', NULL, "Print JSON", .value = RONDO_KIT_FLAG,
       .offset = offsetof(struct options, json)},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = argument_read,
      .args_doc = "KIND RANKS BYTES",
      .doc =
          "Prints the plan of a rank: its ops, what they cost, all algorithms with their predicted "
          "times, why one was chosen, and "
          "what the verifier says of the plans of all ranks. BYTES is what the descriptor counts: "
          "its count times the size of an element.\v"
          "Exit status: 0 the plans are right; 1 they are not; 2 usage."};
  rondo_kit_command_read(&command, argc, argv, options);
}

int info_plan_main(int argc, char **argv) {
  struct options options = {.json = false};
  struct info_plan plan = {.bytes = 0};
  static char name[] = "rondo-info plan";
  argv[0] = name;
  options_read(&options, argc, argv);
  arguments_read(&options, &plan);
  int status = plan_make(&plan);
  if (status == RONDO_SUCCESS)
    status = plan_show(&plan, options.json);
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rondo-info plan: %s\n", rondo_status_string(status));
  free(plan.plans);
  return status == RONDO_SUCCESS && !is_faulty(&plan) ? 0 : EXIT_BAD;
}
