#include "sim/schedule/goal_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "sim/common/json.h"
#include "sim/schedule/report.h"

#define MOST_LISTED 20u // receives in the text

static void count_add(struct rondo_sim_text *t, const char *what, uint64_t count) {
  rondo_sim_text_add(t, "  %-28s %14" PRIu64 "\n", what, count);
}

static uint32_t last_rank(const struct rondo_schedule_goal *g, uint64_t makespan_ns) {
  uint32_t rank = 0;
  while (rondo_schedule_goal_end_ns(g, rank) != makespan_ns) {
    rank++;
  }
  return rank;
}

// "any" or the number.
static void number_name(uint32_t number, char name[16]) {
  if (number == RONDO_SCHEDULE_GOAL_ANY) {
    (void)snprintf(name, 16, "any");
  } else {
    (void)snprintf(name, 16, "%" PRIu32, number);
  }
}

// Lists receives whose message has not come.
static void posted_add(struct rondo_sim_text *t, const struct rondo_schedule_goal *g,
                       const char *path) {
  uint32_t listed = 0;
  for (uint32_t rank = 0; rank < rondo_schedule_goal_ranks(g); rank++) {
    const struct rondo_schedule_goal_op *op = rondo_schedule_goal_posted(g, rank, NULL);
    for (; op; op = rondo_schedule_goal_posted(g, rank, op)) {
      char peer[16], tag[16];
      if (listed++ == MOST_LISTED) {
        rondo_sim_text_add(t, "  ... (--json has all)\n");
        return;
      }
      number_name(op->peer, peer);
      number_name(op->tag, tag);
      rondo_sim_text_add(t, "  %s:%" PRIu32 ": rank %" PRIu32 " waits for %s, tag %s\n", path,
                         op->line, rank, peer, tag);
    }
  }
  if (listed == 0) {
    rondo_sim_text_add(t, "  no receive is posted: operations require each other in a circle, or "
                          "wait for the receive of a rendezvous\n");
  }
}

void rondo_schedule_goal_report_text(struct rondo_sim_text *t, const struct rondo_schedule_goal *g,
                                     const char *path) {
  const struct rondo_schedule_goal_totals x = rondo_schedule_goal_totals(g);
  rondo_sim_text_add(t, "%s: %" PRIu32 " ranks\n", path, rondo_schedule_goal_ranks(g));
  rondo_sim_text_add(t, "outcome: %s\n", rondo_schedule_outcome_name(x.outcome));
  rondo_sim_text_add(t, "  %-28s %14.3f us (rank %" PRIu32 ")\n", "makespan",
                     (double)x.makespan_ns / 1e3, last_rank(g, x.makespan_ns));
  rondo_sim_text_add(t, "  %-28s %14" PRIu64 " of %" PRIu64 "\n", "operations that ended",
                     x.ops_done, x.ops);
  rondo_sim_text_add(t, "  %-28s %14" PRIu64 " (%" PRIu64 " B)\n", "messages", x.messages, x.bytes);
  count_add(t, "came before their receive", x.unexpected);
  count_add(t, "were not received", x.unreceived);
  count_add(t, "events", x.events);
  if (x.outcome == RONDO_SCHEDULE_DEADLOCK) {
    rondo_sim_text_add(t, "receives whose message does not come\n");
    posted_add(t, g, path);
  }
}

static json_t *posted_json(const struct rondo_schedule_goal *g, uint32_t rank, json_t *to) {
  const struct rondo_schedule_goal_op *op = rondo_schedule_goal_posted(g, rank, NULL);
  for (; op; op = rondo_schedule_goal_posted(g, rank, op)) {
    json_array_append_new(
        to, json_pack(
                "{s:I, s:I, s:I, s:I}", "rank", (json_int_t)rank, "line", (json_int_t)op->line,
                "from", op->peer == RONDO_SCHEDULE_GOAL_ANY ? (json_int_t)-1 : (json_int_t)op->peer,
                "tag", op->tag == RONDO_SCHEDULE_GOAL_ANY ? (json_int_t)-1 : (json_int_t)op->tag));
  }
  return to;
}

void rondo_schedule_goal_report_json(struct rondo_sim_text *t, const struct rondo_schedule_goal *g,
                                     const char *path) {
  const struct rondo_schedule_goal_totals x = rondo_schedule_goal_totals(g);
  json_t *ends = json_array(), *posted = json_array();
  for (uint32_t rank = 0; rank < rondo_schedule_goal_ranks(g); rank++) {
    json_array_append_new(ends, json_real((double)rondo_schedule_goal_end_ns(g, rank) / 1e3));
    if (x.outcome == RONDO_SCHEDULE_DEADLOCK) {
      posted_json(g, rank, posted);
    }
  }
  json_t *root = json_pack(
      "{s:s, s:s, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "schema", "rondo-goal-1",
      "program", path, "outcome", rondo_schedule_outcome_name(x.outcome), "makespan_us",
      (double)x.makespan_ns / 1e3, "operations", (json_int_t)x.ops, "operations_ended",
      (json_int_t)x.ops_done, "messages", (json_int_t)x.messages, "bytes", (json_int_t)x.bytes,
      "unexpected", (json_int_t)x.unexpected, "unreceived", (json_int_t)x.unreceived, "events",
      (json_int_t)x.events, "end_us", ends, "waiting", posted);
  rondo_sim_text_add_json(t, root, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
}
