#include "tools/info/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#include "tools/kit/options.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2
#define LOOPS 2u // that the verifier executes, so that it sees one loop follow another

enum { ARGUMENT_KIND, ARGUMENT_RANKS, ARGUMENT_BYTES, ARGUMENT_COUNT };

struct options {
  const char *arguments[ARGUMENT_COUNT];
  const char *rank, *root; // null: 0
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
  plan->verified = RONDO_SUCCESS;
  for (; what.in_place <= !is_exchange && plan->verified == RONDO_SUCCESS; what.in_place++)
    plan->verified = rondo_plan_verify(&what, &plan->report);
}

// Returns an enum rondo_status.
static int plan_make(struct info_plan *plan) {
  struct rondo_plan_request *q = &plan->request;
  plan->choice = rondo_plan_choice_make(q->kind, plan->bytes, q->nranks);
  q->algorithm = plan->choice.algorithm;
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
  if (plan->verified == RONDO_SUCCESS && !info_plan_cost(q, plan->plans, plan->bytes, &plan->cost))
    return RONDO_ERR_NO_MEMORY;
  return RONDO_SUCCESS;
}

static void options_read(struct options *options, int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"rank", 'r', "R", "Whose plan is printed (default 0)", .value = RONDO_KIT_TEXT,
       .offset = offsetof(struct options, rank)},
      {"root", 0, "R", "Root of a kind that has one (default 0)", .value = RONDO_KIT_TEXT,
       .offset = offsetof(struct options, root)},
      {"json", 'j', NULL, "Print JSON", .value = RONDO_KIT_FLAG,
       .offset = offsetof(struct options, json)},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = argument_read,
      .args_doc = "KIND RANKS BYTES",
      .doc =
          "Prints the plan of a rank: its ops, what they cost, why the algorithm was chosen, and "
          "what the verifier says of the plans of all ranks. BYTES is what the descriptor counts: "
          "its count times the size of an element.\v"
          "Exit status: 0 the plans are right; 1 they are not; 2 usage."};
  rondo_kit_command_read(&command, argc, argv, options);
}

int info_plan_main(int argc, char **argv) {
  struct options options = {{NULL}, NULL, NULL, false};
  struct info_plan plan = {.bytes = 0};
  static char name[] = "rondo-info plan";
  argv[0] = name;
  options_read(&options, argc, argv);
  arguments_read(&options, &plan);
  int status = plan_make(&plan);
  if (status == RONDO_SUCCESS && !options.json)
    info_plan_print(&plan);
  if (status == RONDO_SUCCESS && options.json && !info_plan_print_json(&plan))
    status = RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rondo-info plan: %s\n", rondo_status_string(status));
  free(plan.plans);
  return status == RONDO_SUCCESS && plan.verified == RONDO_SUCCESS ? 0 : EXIT_BAD;
}
