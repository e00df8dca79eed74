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
#include "tools/info/plan_cost.h"
#include "tools/kit/clock.h"
#include "tools/kit/options.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2
#define CHOICES 1000u // timed
#define LOOPS 2u      // that the verifier executes, so that it sees one loop follow another
#define WHY_BYTES 224
#define MAX_PARTS                                                                                  \
  1024u // the most ranks if a loop has several chunks: each pair may have a connector

// By which algorithms are chosen.
static const struct rondo_cost_model *model = &rondo_cost_defaults;

struct info_plan {
  struct rondo_plan_request request; // whose plan; the topology is null for one machine
  struct rondo_plan_topology *topology;
  struct rondo_cost_query query; // what the choice is made for
  uint64_t bytes;                // that the descriptor counts
  struct rondo_plan_choice choice;
  struct rondo_plan *plans; // of all ranks
  struct info_plan_cost cost;
  int verified; // enum rondo_status of the verifier; RONDO_ERR_UNSUPPORTED: too large for it
  struct rondo_plan_verify_report report; // the first fault, if there is one
};

static double choose_time_us(const struct rondo_cost_query *query) {
  uint64_t least_ns = UINT64_MAX;
  for (uint32_t i = 0; i < CHOICES; i++) {
    uint64_t start_ns = rondo_kit_now_ns();
    (void)rondo_cost_choose(model, query);
    uint64_t duration_ns = rondo_kit_now_ns() - start_ns;
    least_ns = duration_ns < least_ns ? duration_ns : least_ns;
  }
  return (double)least_ns / 1e3;
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
                       {RONDO_PRIM_OUT_SCRATCH, "out_scratch"},
                       {RONDO_PRIM_RUNS, "runs"},
                       {RONDO_PRIM_MIRROR, "mirror"},
                       {RONDO_PRIM_INT8, "int8"},
                       {RONDO_PRIM_FLOAT8_E4M3, "float8_e4m3"}};
#define PRIMITIVES (sizeof primitive_names / sizeof *primitive_names)

// The most ranks of a machine.
static uint32_t machine_ranks(const struct info_plan *p) {
  return p->query.machine_ranks ? p->query.machine_ranks : p->query.nranks;
}

static bool is_shared(const struct info_plan *p) { return p->query.cores < machine_ranks(p); }

static void why_write(const struct info_plan *p, char *text) {
  char cores[64], places[80];
  switch (p->choice.rule) {
  case RONDO_PLAN_RULE_FORCED:
    snprintf(text, WHY_BYTES, "--algo names it");
    break;
  case RONDO_PLAN_RULE_ALONE:
    snprintf(text, WHY_BYTES, "a group of one rank copies at most");
    break;
  case RONDO_PLAN_RULE_LEAST:
    snprintf(cores, sizeof cores, "if all ranks%s share %" PRIu32 " core%s",
             p->topology ? " of a machine" : "", p->query.cores, p->query.cores > 1 ? "s" : "");
    snprintf(places, sizeof places, "%s", link_names[p->query.link]);
    if (p->topology)
      snprintf(places, sizeof places, "on %" PRIu32 " machines, and there %s", p->query.machines,
               link_names[p->query.inner]);
    snprintf(text, WHY_BYTES, "the least predicted time %s; ranks are %s",
             is_shared(p) ? cores : "if each rank has a core (--cores)", places);
    break;
  default:
    snprintf(text, WHY_BYTES, "no other algorithm of %s is a candidate",
             rondo_kind_name(p->request.kind));
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

static json_t *op_json(const struct rondo_plan *plan, uint32_t index) {
  const struct rondo_plan_op *op = &plan->ops[index];
  json_t *primitive = json_array(), *chunks = json_array();
  for (size_t i = 0; i < PRIMITIVES; i++)
    if (op->primitive & primitive_names[i].flag)
      json_array_append_new(primitive, json_string(primitive_names[i].name));
  for (uint32_t i = 0; i < op->repeat; i++)
    json_array_append_new(chunks, json_integer(info_plan_op_chunk(plan, index, i, 0)));
  return json_pack("{s:o, s:i, s:i, s:o, s:i, s:i, s:o, s:o}", "primitive", primitive, "repeat",
                   op->repeat, "round_ops", op->round_ops, "chunks", chunks, "width", op->width,
                   "run", op->primitive & RONDO_PRIM_RUNS ? op->chunk_stride : op->width, "from",
                   peers_json(plan, &plan->recv, op->recv_peer, op), "to",
                   peers_json(plan, &plan->send, op->send_peer, op));
}

static json_t *ops_json(const struct rondo_plan *plan) {
  json_t *ops = json_array();
  for (uint32_t i = 0; i < plan->op_count; i++)
    json_array_append_new(ops, op_json(plan, i));
  return ops;
}

static bool is_faulty(const struct info_plan *p) {
  return p->verified != RONDO_SUCCESS && p->verified != RONDO_ERR_UNSUPPORTED;
}

static json_t *cost_json(const struct info_plan *p) {
  const struct info_plan_cost *c = &p->cost;
  if (is_faulty(p))
    return json_null();
  return json_pack(
      "{s:i, s:i, s:I, s:I, s:I, s:i, s:I, s:f, s:f}", "dependent_hops", c->dependent_hops, "sends",
      c->sends, "bytes", (json_int_t)c->bytes, "machine_bytes", (json_int_t)c->sent.machine_bytes,
      "port_bytes", (json_int_t)c->sent.port_bytes, "state_bytes", c->state_bytes, "scratch_bytes",
      (json_int_t)c->scratch_bytes, "build_us", c->build_us, "choose_us", c->choose_us);
}

static json_t *why_json(const struct info_plan *p) {
  char text[WHY_BYTES];
  why_write(p, text);
  return json_pack("{s:s, s:s}", "rule", rondo_plan_rule_name(p->choice.rule), "text", text);
}

// Null if there is no memory.
static json_t *candidate_json(const struct info_plan *p, int algorithm, double time_ns) {
  struct rondo_plan_form form;
  struct rondo_plan_request request = p->request;
  struct info_plan_sent sent;
  request.algorithm = algorithm;
  if (!rondo_plan_form_of(&p->query, algorithm, &form) ||
      info_plan_machine_bytes(&request, p->bytes, &sent) != RONDO_SUCCESS)
    return NULL;
  return json_pack(
      "{s:s, s:f, s:i, s:I, s:I, s:b, s:b}", "algorithm", rondo_plan_algorithm_name(algorithm),
      "predicted_us", time_ns / 1e3, "dependent_hops", (int)form.hops, "messages",
      (json_int_t)form.messages, "machine_bytes", (json_int_t)sent.machine_bytes, "may_be_chosen",
      rondo_cost_is_candidate(&p->query, algorithm), "is_chosen", algorithm == p->choice.algorithm);
}

// All algorithms that have a plan, the fastest first. One that needs too many connectors is no
// candidate: only --algo and RONDO_ALGO choose it.
static json_t *candidates_json(const struct info_plan *p) {
  json_t *all = json_array();
  for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++) {
    double time_ns = rondo_cost_predict(model, &p->query, algorithm);
    size_t at = 0;
    if (time_ns < 0)
      continue;
    while (at < json_array_size(all) &&
           json_real_value(json_object_get(json_array_get(all, at), "predicted_us")) <=
               time_ns / 1e3)
      at++;
    json_array_insert_new(all, at, candidate_json(p, algorithm, time_ns));
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
  return json_pack(
      "{s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:s*}",
      "kind", rondo_kind_name(q->kind), "bytes", (json_int_t)p->bytes, "ranks", q->nranks, "rank",
      q->rank, "root", q->root, "machines", p->query.machines, "cores", (int)p->query.cores,
      "algorithm", rondo_plan_algorithm_name(q->algorithm), "quantisation",
      rondo_quantisation_name(q->quantisation), "why", why_json(p), "candidates",
      candidates_json(p), "ops", ops_json(plan), "first_pass", plan->first_pass, "round_chunks",
      plan->round_chunks, "connectors", connectors, "cost", cost_json(p), "verified", verified,
      "fault", is_faulty(p) ? p->report.message : NULL);
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
  json_int_t run = json_integer_value(json_object_get(op, "run"));
  printf("  op %-15zu", index);
  for (size_t i = 0; i < json_array_size(names); i++)
    printf(" %s", json_string_value(json_array_get(names, i)));
  if (repeat > 1)
    printf(" x %" JSON_INTEGER_FORMAT, repeat);
  range_print("chunk", json_object_get(op, "chunks"));
  if (run < width)
    printf(" and %" JSON_INTEGER_FORMAT " more in runs of %" JSON_INTEGER_FORMAT, width - 1, run);
  else if (width > 1)
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

static void candidates_print(const json_t *candidates, bool has_machines) {
  size_t i;
  json_t *c;
  json_array_foreach(candidates, i, c) {
    char sent[64] = "", size[RONDO_KIT_SIZE_TEXT_BYTES];
    double bytes = (double)json_integer_value(json_object_get(c, "machine_bytes"));
    if (has_machines)
      snprintf(sent, sizeof sent, "  a machine sends %-5s", rondo_kit_size_text(bytes, size));
    printf("  %-18s %-17s %10.3f us%s%s\n", i == 0 ? "candidates" : "",
           json_string_value(json_object_get(c, "algorithm")),
           json_real_value(json_object_get(c, "predicted_us")), sent,
           json_is_true(json_object_get(c, "is_chosen"))       ? "  chosen"
           : json_is_true(json_object_get(c, "may_be_chosen")) ? ""
                                                               : "  only if forced");
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
  if (q->quantisation)
    printf("  %-18s quantised to %s\n", "messages", rondo_quantisation_name(q->quantisation));
  printf("  %-18s %s\n", "why",
         json_string_value(json_object_get(json_object_get(root, "why"), "text")));
  candidates_print(json_object_get(root, "candidates"), p->topology != NULL);
  for (uint32_t i = 0; i < plan->op_count; i++) {
    if (i > 0 && i == plan->first_pass)
      printf("  %-18s after the ops above for all loops\n", "second pass");
    op_print(i, json_array_get(ops, i));
    if (plan->ops[i].round_ops)
      printf("  %-18s the last %d op%s, for each %" PRIu32 " of %" PRIu32 " chunks\n", "round",
             plan->ops[i].round_ops, plan->ops[i].round_ops > 1 ? "s" : "", plan->round_chunks,
             plan->chunk_count);
  }
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
  uint32_t cores;          // of a machine; 0: one a rank
  uint32_t machines, ports;
  int link; // enum rondo_cost_link; inside machines if there are several
  int quantisation;
  bool in_turn, json;
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

// Places the ranks on several machines.
static void machines_place(const struct options *o, struct info_plan *plan) {
  struct rondo_cost_query *q = &plan->query;
  struct rondo_plan_location *locations = calloc(q->nranks, sizeof *locations);
  if (o->machines > q->nranks)
    usage_refuse("--machines '%" PRIu32 "' is more than RANKS", o->machines);
  if (o->link == RONDO_COST_NETWORK)
    usage_refuse("--link says how ranks of one machine reach each other: not network with "
                 "--machines");
  for (uint32_t r = 0; locations && r < q->nranks; r++) {
    uint32_t machine =
        o->in_turn ? r % o->machines : (uint32_t)((uint64_t)r * o->machines / q->nranks);
    uint32_t process = o->link == RONDO_COST_THREAD ? machine : r;
    locations[r] = (struct rondo_plan_location){machine, process, q->cores, o->ports};
  }
  if (locations)
    plan->topology = rondo_plan_topology_create(locations, q->nranks);
  free(locations);
  if (!plan->topology)
    usage_refuse("no memory for %" PRIu32 " ranks", q->nranks);
  rondo_cost_query_place(q, plan->topology);
  q->inner = o->link;
  plan->request.topology = plan->topology;
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
                                          .machines = 1,
                                          .cores = o->cores ? o->cores : q->nranks,
                                          .quantisation = o->quantisation};
  q->quantisation = o->quantisation;
  if (o->machines > 1)
    machines_place(o, plan);
  plan->choice = rondo_cost_choose(model, &plan->query);
  if (o->algorithm)
    plan->choice = (struct rondo_plan_choice){rondo_plan_algorithm_find(o->algorithm),
                                              RONDO_PLAN_RULE_FORCED, 0};
  q->algorithm = plan->choice.algorithm;
  if (!rondo_plan_exists(q->kind, q->algorithm, q->nranks))
    usage_refuse("%s has no algorithm '%s'", kind, o->algorithm);
  if (q->quantisation && !rondo_plan_can_quantise(q->kind, q->algorithm))
    usage_refuse("--quantise is for all_reduce by ring, not for %s by %s", kind,
                 rondo_plan_algorithm_name(q->algorithm));
  struct rondo_plan plan_of_rank;
  if (q->nranks > MAX_PARTS && rondo_plan_build(q, &plan_of_rank) == RONDO_SUCCESS &&
      plan_of_rank.chunk_count > RONDO_PLAN_VERIFY_FEW_PARTS)
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
      .topology = q->topology,
      .plans = plan->plans};
  bool is_large = q->nranks > RONDO_PLAN_VERIFY_MAX_PARTS &&
                  plan->plans[0].chunk_count > RONDO_PLAN_VERIFY_FEW_PARTS;
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
  if (!is_faulty(plan) && !info_plan_cost_count(q, plan->plans, plan->bytes, &plan->cost))
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
      {"quantise", 0, "none|int8|float8_e4m3",
       "What messages hold of an all_reduce of float32 (default none)", .value = RONDO_KIT_NAME,
       .names = RONDO_KIT_QUANTISATION, .offset = offsetof(struct options, quantisation)},
      {"cores", 'c', "N",
       "Cores that all ranks of a machine share, for the choice (default: each rank has one). A "
       "job "
       "takes those that the process may use",
       .value = RONDO_KIT_U32, .offset = offsetof(struct options, cores), .low = 1,
       .high = UINT32_MAX},
      {"link", 'l', "thread|shared_memory|nvlink|network",
       "How ranks of one machine reach each other, for the choice (default thread); network: each "
       "is "
       "on a machine of its own",
       .read = link_read},
      {"machines", 'M', "N",
       "Machines on which the ranks are, one machine after the other (default 1)",
       .value = RONDO_KIT_U32, .offset = offsetof(struct options, machines), .low = 1,
       .high = RONDO_PLAN_VERIFY_MAX_RANKS},
      {"ports", 'p', "N", "InfiniBand or RoCE ports of each machine: its leaders (default 1)",
       .value = RONDO_KIT_U32, .offset = offsetof(struct options, ports), .low = 1,
       .high = RONDO_PLAN_MAX_LEADERS},
      {"in-turn", 't', NULL, "Ranks are placed on the machines in turn", .value = RONDO_KIT_FLAG,
       .offset = offsetof(struct options, in_turn)},
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
  struct options options = {.ports = 1};
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
  rondo_plan_topology_destroy(plan.topology);
  return status == RONDO_SUCCESS && !is_faulty(&plan) ? 0 : EXIT_BAD;
}
