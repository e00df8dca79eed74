// GOAL programs of the schedule simulator against end times that LogGOPSim printed.
#include <string.h>

#include "sim/schedule/goal.h"
#include "sim/schedule/machine.h"
#include "tests/support/named.h"

#define MOST_EVENTS 1000000u

static struct rondo_schedule_goal *goal_open(const char *text) {
  struct rondo_sim_error error;
  struct rondo_schedule_goal *g =
      rondo_schedule_goal_parse(text, strlen(text), "program.goal", &error);
  if (!g)
    fail_msg("%s", error.text);
  return g;
}

// Runs the program to its end. The caller destroys what is returned.
static struct rondo_schedule_goal *play(const char *text,
                                        const struct rondo_schedule_goal_costs *costs) {
  struct rondo_schedule_goal *g = goal_open(text);
  rondo_schedule_goal_begin(g, costs);
  (void)rondo_schedule_goal_run(g, MOST_EVENTS);
  return g;
}

static uint64_t makespan_of(const char *text, const struct rondo_schedule_goal_costs *costs) {
  struct rondo_schedule_goal *g = play(text, costs);
  struct rondo_schedule_goal_totals t = rondo_schedule_goal_totals(g);
  assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
  assert_int_equal(t.unreceived, 0);
  rondo_schedule_goal_destroy(g);
  return t.makespan_ns;
}

// binary_tree_32.goal of LogGOPSim: a binomial broadcast of a byte. It prints 27500.
static void a_tree_takes_as_long_as_in_loggopsim(void **state) {
  (void)state;
  struct rondo_sim_text t = {0};
  const struct rondo_schedule_goal_costs costs = rondo_schedule_goal_costs_default();
  rondo_sim_text_add(&t, "num_ranks 32\n");
  for (unsigned rank = 0; rank < 32; rank++) {
    unsigned high = rank ? 1u << (31 - __builtin_clz(rank)) : 0;
    rondo_sim_text_add(&t, "\nrank %u {\n", rank);
    if (rank)
      rondo_sim_text_add(&t, "l1: recv 1b from %u tag 0\n", rank - high);
    for (unsigned k = rank ? 2 * high : 1; k < 32; k *= 2) {
      rondo_sim_text_add(&t, "s%u: send 1b to %u tag 0\n", k, rank + k);
      if (rank)
        rondo_sim_text_add(&t, "s%u requires l1\n", k);
    }
    rondo_sim_text_add(&t, "}\n");
  }
  assert_int_equal(makespan_of(rondo_sim_text_str(&t), &costs), 27500);
  rondo_sim_text_fini(&t);
}

// Ring all-reduce of four ranks, 4,096 B a step. A published audit of LogGOPSim has 39,486 ns:
// there an eager message ends after L + 2o + g + (s - 1)G. In LogGOPSim itself g is not part of
// that.
static void a_ring_has_the_published_times(void **state) {
  (void)state;
  struct rondo_sim_text t = {0};
  struct rondo_schedule_goal_costs costs = rondo_schedule_goal_costs_default();
  costs.gap_byte_ns = 0.02;
  rondo_sim_text_add(&t, "num_ranks 4\n");
  for (int rank = 0; rank < 4; rank++) {
    rondo_sim_text_add(&t, "rank %d {", rank);
    for (int step = 0; step < 6; step++) {
      rondo_sim_text_add(&t, "s%d: send 4096b to %d tag %d; r%d: recv 4096b from %d tag %d;", step,
                         (rank + 1) % 4, step, step, (rank + 3) % 4, step);
      if (step)
        rondo_sim_text_add(&t, "s%d requires r%d;", step, step - 1);
    }
    rondo_sim_text_add(&t, "}\n");
  }
  assert_int_equal(makespan_of(rondo_sim_text_str(&t), &costs), 39486 - 6 * 1000);
  costs.messages_take_gap = true;
  assert_int_equal(makespan_of(rondo_sim_text_str(&t), &costs), 39486);
  rondo_sim_text_fini(&t);
}

// All that a program can have: calculations, both kinds of dependencies, a message to oneself, a
// rendezvous, messages that come too early, receives that match all.
static const char mixed[] = "num_ranks 3\n"
                            "rank 0 {\n"
                            "a: calc 700\n"
                            "b: send 100b to 1 tag 7\n"
                            "b requires a\n"
                            "c: send 70000b to 2 tag 1\n"
                            "d: calc 50\n"
                            "d requires c\n"
                            "e: recv 8b from 1 tag 3\n"
                            "f: send 8b to 0 tag 5\n"
                            "f irequires e\n"
                            "g: recv 8b from 0 tag 5\n"
                            "g requires f\n"
                            "}\n"
                            "rank 1 {\n"
                            "a: recv 100b from 0 tag 7\n"
                            "b: send 8b to 0 tag 3\n"
                            "b requires a\n"
                            "c: send 10b to 2 tag 1\n"
                            "d: send 20b to 2 tag 2\n"
                            "}\n"
                            "rank 2 {\n"
                            "a: calc 90000\n"
                            "b: recv 70000b from 0 tag 1\n"
                            "b requires a\n"
                            "c: recv 10b from -1 tag 1\n"
                            "c requires b\n"
                            "d: recv 20b from 1 tag -1\n"
                            "d requires c\n"
                            "}\n";

static void each_rank_ends_as_in_loggopsim(void **state) {
  (void)state;
  static const struct {
    struct rondo_schedule_goal_costs costs;
    uint64_t end_ns[3], unexpected;
  } cells[] = {
      {{2500, 1500, 1000, 6, 0, 65535, false}, {434130, 430088, 514662}, 3},
      {{2500, 1500, 1000, 1, 3, 65535, false}, {225086, 221086, 304581}, 3},
      {{100, 10, 2000, 2, 0, 50, false}, {144464, 144340, 234064}, 1},
      {{0, 0, 0, 0, 0, 65535, false}, {90050, 700, 90000}, 4},
  };
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    struct rondo_schedule_goal *g = play(mixed, &cells[i].costs);
    struct rondo_schedule_goal_totals t = rondo_schedule_goal_totals(g);
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
    assert_int_equal(t.events, 21); // of LogGOPSim, too
    assert_int_equal(t.unexpected, cells[i].unexpected);
    for (uint32_t rank = 0; rank < 3; rank++)
      assert_int_equal(rondo_schedule_goal_end_ns(g, rank), cells[i].end_ns[rank]);
    rondo_schedule_goal_destroy(g);
  }
}

// Sends that are free together keep their order; each takes the link for g, so the last of 1,000
// leaves after 999 g. LogGOPSim retries each of them at each of these times.
static void sends_of_a_rank_take_turns(void **state) {
  (void)state;
  struct rondo_sim_text t = {0};
  const struct rondo_schedule_goal_costs costs = {
      .latency_ns = 100, .overhead_ns = 10, .gap_ns = 1000, .eager_bytes = 65535};
  rondo_sim_text_add(&t, "num_ranks 2\nrank 0 {\n");
  for (int i = 0; i < 1000; i++)
    rondo_sim_text_add(&t, "send 8b to 1 tag %d\n", i);
  rondo_sim_text_add(&t, "}\nrank 1 {\n");
  for (int i = 999; i >= 0; i--)
    rondo_sim_text_add(&t, "recv 8b from 0 tag %d\n", i);
  rondo_sim_text_add(&t, "}\n");
  struct rondo_schedule_goal *g = play(rondo_sim_text_str(&t), &costs);
  assert_int_equal(rondo_schedule_goal_end_ns(g, 0), 999 * 1000 + 10);
  assert_int_equal(rondo_schedule_goal_end_ns(g, 1), 999 * 1000 + 10 + 100 + 10);
  rondo_schedule_goal_destroy(g);
  rondo_sim_text_fini(&t);
}

// A calculation on another CPU ends before what requires it begins.
static void what_another_cpu_does_is_waited_for(void **state) {
  (void)state;
  const struct rondo_schedule_goal_costs costs = rondo_schedule_goal_costs_default();
  assert_int_equal(makespan_of("num_ranks 1 rank 0 { a: calc 500 cpu 1; b: calc 70 cpu 0\n"
                               "c: calc 200; c requires a; c requires b }",
                               &costs),
                   700);
  assert_int_equal(
      makespan_of("num_ranks 1 rank 0 { a: calc 500 cpu 1; b: calc 200; b irequires a }", &costs),
      500);
}

static void a_receive_without_message_is_a_deadlock(void **state) {
  (void)state;
  const struct rondo_schedule_goal_costs costs = rondo_schedule_goal_costs_default();
  struct rondo_schedule_goal *g = play("num_ranks 2\nrank 0 {\nsend 1b to 1 tag 1\n}\nrank 1 {\n"
                                       "a: recv 1b from 0 tag 1\nb: recv 1b from 0 tag 2\n"
                                       "c: calc 5\nc requires b\n}\n",
                                       &costs);
  struct rondo_schedule_goal_totals t = rondo_schedule_goal_totals(g);
  assert_int_equal(t.outcome, RONDO_SCHEDULE_DEADLOCK);
  assert_int_equal(t.ops_done, 2);
  assert_null(rondo_schedule_goal_posted(g, 0, NULL));
  const struct rondo_schedule_goal_op *op = rondo_schedule_goal_posted(g, 1, NULL);
  assert_non_null(op);
  assert_int_equal(op->line, 7);
  assert_int_equal(op->tag, 2);
  assert_null(rondo_schedule_goal_posted(g, 1, op));
  rondo_schedule_goal_destroy(g);
}

static void wrong_files_are_refused_with_their_line(void **state) {
  (void)state;
  static const struct {
    const char *text, *why;
  } cells[] = {
      {"", "1: \"num_ranks\" expected, and the file ends"},
      {"num_ranks 0", "1: num_ranks is 0"},
      {"num_ranks 16777217", "1: num_ranks is 16777217, above 16777216"},
      {"num_ranks 2\nrank 2 {\n}", "2: rank 2 is none of 2 ranks"},
      {"num_ranks 2\nrank 1 {\n}\nrank 0 {\n}", "4: rank 0 comes after rank 1"},
      {"num_ranks 2\nrank 1 {\n}\nrank 1 {\n}", "4: rank 1 comes after rank 1"},
      {"num_ranks 2\nrank 0 {\ncalc 1\n", "4: \"}\" expected, and the file ends"},
      {"num_ranks 2\nrank 0 {\nwait 1\n}", "3: \":\", requires or irequires expected in place of"},
      {"num_ranks 2\nrank 0 {\na: wait 1\n}",
       "3: send, recv or calc expected in place of \"wait\""},
      {"num_ranks 2\nrank 0 {\nsend 8 to 1\n}", "3: \"b\" expected in place of \"to\""},
      {"num_ranks 2\nrank 0 {\nsend 8b from 1\n}", "3: \"to\" expected in place of \"from\""},
      {"num_ranks 2\nrank 0 {\n/*\n*/send 8b to 2\n}", "4: rank 2 is none of 2 ranks"},
      {"num_ranks 2\nrank 0 {\nsend 8b to -1\n}", "3: a rank expected in place of \"-1\""},
      {"num_ranks 2\nrank 0 {\nsend 8b to 1 tag\n}", "3: a tag expected, and the statement ends"},
      {"num_ranks 2\nrank 0 {\nsend 8b to 1 tag 1 tag 2\n}",
       "3: the end of the statement expected"},
      {"num_ranks 2\nrank 0 {\ncalc 1 nic 1\n}",
       "3: the end of the statement expected in place of"},
      {"num_ranks 2\nrank 0 {\ncalc 1 cpu 256\n}", "3: a CPU is 256, above 255"},
      {"num_ranks 2\nrank 0 {\ncalc 1125899906842625\n}", "3: a number is greater than 2^50"},
      {"num_ranks 2\nrank 0 {\na: calc 1\na: calc 1\n}", "4: the rank has another label \"a\""},
      {"num_ranks 2\nrank 0 {\na: calc 1\n}\nrank 1 {\nb: calc 1\nb requires a\n}",
       "7: the rank has no label \"a\" so far"},
      {"num_ranks 2\nrank 0 {\n/* a\nb", "3: the comment has no end"},
      {"num_ranks 2\nrank 0 {\n\001\n}",
       "3: a statement or \"}\" expected in place of the character 1"},
      {"{\"program\": []}", "1: \"num_ranks\" expected in place of \"{\""},
  };
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    struct rondo_sim_error error = {""};
    assert_null(
        rondo_schedule_goal_parse(cells[i].text, strlen(cells[i].text), "program.goal", &error));
    assert_ptr_equal(strstr(error.text, "program.goal:"), error.text);
    if (strncmp(error.text + 13, cells[i].why, strlen(cells[i].why)) != 0)
      fail_msg("\"%s\" in place of \"%s\"", error.text, cells[i].why);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("schedule_goal", a_tree_takes_as_long_as_in_loggopsim),
      RONDO_NAMED_TEST("schedule_goal", a_ring_has_the_published_times),
      RONDO_NAMED_TEST("schedule_goal", each_rank_ends_as_in_loggopsim),
      RONDO_NAMED_TEST("schedule_goal", sends_of_a_rank_take_turns),
      RONDO_NAMED_TEST("schedule_goal", what_another_cpu_does_is_waited_for),
      RONDO_NAMED_TEST("schedule_goal", a_receive_without_message_is_a_deadlock),
      RONDO_NAMED_TEST("schedule_goal", wrong_files_are_refused_with_their_line),
  };
  return cmocka_run_group_tests_name("schedule_goal", tests, NULL, NULL);
}
