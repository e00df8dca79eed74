// The input of the deadlock simulator (configurations, sweeps, groupings), the input that it
// refuses, and the output of the drawing helper.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/common/graph.h"
#include "sim/deadlock/config.h"
#include "sim/deadlock/grouping.h"
#include "sim/deadlock/json_line.h"
#include "sim/deadlock/sweep.h"

struct refusal {
  const char *text, *error;
};

static const struct refusal refusals[] = {
    {"", "x:1: '[' or '{' expected near end of file"},
    {"[1]", "x:1: must be a JSON object"},
    {"{\n\"modle\": 1}", "x:2: modle: unknown key"},
    {"{\"model\": 3}", "x:1: model: must be a word in double quotes"},
    {"{\"model\": \"fifo\"}",
     "x:1: model: \"fifo\" is not one of single-queue, synchronisation, resource-limited"},
    {"{\"disorder\":\n 1.5}", "x:1: disorder: \"1.5\" is not a probability from 0 to 1"},
    {"{\"disorder\": \"0.5\"}", "x:1: disorder: must be a number"},
    {"{\n\n\"rounds\": -1}",
     "x:3: rounds: \"-1\" is not a whole number from 0 to 9223372036854775807"},
    {"{\n\"rounds\": 0}", "x:2: rounds: at least one is needed"},
    {"{\"model\": \"resource-limited\"}",
     "x:1: resources: the resource-limited model needs a limit of at least 1"},
    {"{\"synchronisation\": 0.1}", "x:1: synchronisation: the single-queue model has none; choose "
                                   "the model \"synchronisation\" or "
                                   "\"resource-limited\""},
    {"{\"grouping\": 1}", "x:1: grouping: must be an object with a \"policy\": 3d, free or drawn"},
    {"{\"grouping\": {\n\"policy\": \"4d\"}}",
     "x:2: grouping.policy: \"4d\" is not one of 3d, free, drawn"},
    {"{\"grouping\": {\"policy\": \"3d\",\n\"tensor\": 0}}",
     "x:2: grouping.tensor: 0 is not from 1 to 1000000"},
    {"{\"grouping\": {\"policy\": \"3d\", \"tensor\": 1, \"data\": 1, \"pipeline\": 1,\n"
     "\"tensor_collectives\": -1, \"data_collectives\": 0}}",
     "x:2: grouping.tensor_collectives: -1 is not from 0 to 10000000"},
    {"{\"grouping\": {\"policy\": \"3d\", \"tensor\": 2, \"data\": 2}}",
     "x:1: grouping: \"pipeline\" is missing"},
    {"{\"grouping\": {\"policy\": \"free\", \"groups\": [\n{\"gpus\": [0, 1],\n\"collectives\": "
     "1},\n"
     "{\"gpus\": [0,\n0], \"collectives\": 1}]}}",
     "x:5: grouping.groups.1.gpus.1: GPU 0 is in the group twice"},
    {"{\"grouping\": {\"policy\": \"drawn\", \"gpus\": 9, \"groups\": [{\"count\": 1, \"gpus\": "
     "3}], "
     "\"collectives\": [1]}}",
     "x:1: grouping: no such grouping: each GPU must be in 1 to 5 groups"},
    {"{\"grouping\":\n {\"policy\": \"3d\", \"tensor\": 1000, \"data\": 1000, \"pipeline\": 100, "
     "\"tensor_collectives\": 20000, \"data_collectives\": 10000}}",
     "x:1: grouping: more than 2147483647 collectives, or places in groups"},
    {"{\"total_rounds\": 1}", "x:1: \"num_process\" is missing"},
    {"{\"total_rounds\": 1, \"num_process\": 1,\n\"disorder_prob\": 0, \"sync_prob\": 0, "
     "\"model\": "
     "\"Double\", \"grouping_policy\": \"Megatron\"}",
     "x:2: model: must be \"Single\" or \"StreamWithSync\""},
};

static void bad_files_are_refused_by_key_and_line(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(refusals) / sizeof(refusals[0]); k++) {
    struct rondo_sim_config c;
    struct rondo_sim_error error;
    rondo_sim_config_init(&c);
    assert_false(rondo_sim_config_parse(&c, refusals[k].text, "x", &error));
    assert_string_equal(error.text, refusals[k].error);
    rondo_sim_config_fini(&c);
  }
}

static void own_files_set_every_option(void **state) {
  (void)state;
  struct rondo_sim_config c;
  struct rondo_sim_error error;
  rondo_sim_config_init(&c);
  assert_true(rondo_sim_config_parse(
      &c,
      "{\"model\": \"resource-limited\", \"disorder\": 0.25, \"synchronisation\": 1e-3, "
      "\"resources\": 7, \"order\": \"sequential\", \"skipped\": \"next\", \"turns\": \"random\", "
      "\"engine\": \"naive\", \"compat\": \"dfccl\", \"rounds\": 12, \"seed\": 34, \"threads\": 2, "
      "\"grouping\": {\"policy\": \"3d\", \"tensor\": 4, \"data\": 2, \"pipeline\": 4, "
      "\"tensor_collectives\": 5, \"data_collectives\": 6}}",
      "x", &error));
  assert_true(c.model == RONDO_SIM_RESOURCES && c.resources == 7 && c.disorder == 0.25);
  assert_true(c.synchronisation == 1e-3 && c.order == RONDO_SIM_SEQUENTIAL);
  assert_true(c.skipped == RONDO_SIM_SKIPPED_NEXT && c.turns == RONDO_SIM_RANDOM_TURNS);
  assert_true(c.engine == RONDO_SIM_NAIVE_ENGINE && c.compat_dfccl);
  assert_true(c.rounds == 12 && c.seed == 34 && c.threads == 2);
  rondo_sim_config_fini(&c);
}

static void published_files_are_read_unchanged(void **state) {
  (void)state;
  struct rondo_sim_config c;
  struct rondo_sim_error error;
  rondo_sim_config_init(&c);
  assert_true(rondo_sim_config_parse(
      &c,
      "{\"total_rounds\": 100, \"fix_seed\": 1, \"gpu_num\": 8, \"disorder_prob\": 0.1, "
      "\"sync_prob\": 0.2, \"model\": \"StreamWithSync\", \"grouping_policy\": \"Arbitrary\", "
      "\"resource_limit\": 50, \"group_num\": 2, \"gpu_per_group\": [[0, 1, 2, 7], [2, 3, 5, 4, "
      "6]], \"coll_cnt_per_group\": [10, 9], \"num_process\": 2}",
      "x", &error));
  assert_true(c.rounds == 100 && c.processes == 2 && c.published_stream && c.compat_dfccl);
  assert_true(c.model == RONDO_SIM_RESOURCES && c.resources == 50);
  assert_true(c.disorder == 0.1 && c.synchronisation == 0.2);
  assert_true(c.group_count == 2 && c.gpu_count == 8 && c.groups[1].gpu_count == 5);
  assert_true(c.groups[0].collective_count == 10 && c.groups[1].gpus[2] == 5);
  rondo_sim_config_fini(&c);
}

// Figure 3 of the DFCCL paper: 4-way tensor, 2-way data, 4-way pipeline.
static void grouping_3d_is_the_papers(void **state) {
  (void)state;
  struct rondo_sim_config c;
  struct rondo_sim_groups g;
  rondo_sim_config_init(&c);
  c.tensor = 4;
  c.data = 2;
  c.pipeline = 4;
  rondo_sim_groups_3d(&g, &c);
  assert_int_equal(g.gpu_count, 32);
  assert_int_equal(g.group_count, 24);
  const uint32_t tensor[4] = {12, 13, 14, 15}, data[2] = {9, 13};
  assert_memory_equal(g.groups[7].gpus, tensor, sizeof(tensor)); // stage 1, second tensor group
  assert_int_equal(g.groups[7].gpu_count, 4);
  assert_memory_equal(g.groups[9].gpus, data, sizeof(data)); // stage 1, second data group
  assert_int_equal(g.groups[9].gpu_count, 2);
  rondo_sim_groups_fini(&g);
  rondo_sim_config_fini(&c);
}

static void draw_config(struct rondo_sim_config *c) {
  struct rondo_sim_error error;
  rondo_sim_config_init(c);
  assert_true(rondo_sim_config_parse(
      c,
      "{\"grouping\": {\"policy\": \"drawn\", \"gpus\": 64, \"groups\": [{\"count\": 28, \"gpus\": "
      "3}, {\"count\": 4, \"gpus\": 8}], \"collectives\": [400, 1200], \"seed\": 9}}",
      "x", &error));
}

// Counts in how many groups each GPU is; none may be in a group twice.
static void count_joined(const struct rondo_sim_groups *g, uint32_t *joined) {
  for (uint32_t k = 0; k < g->group_count; k++) {
    uint64_t seen = 0;
    for (uint32_t m = 0; m < g->groups[k].gpu_count; m++) {
      joined[g->groups[k].gpus[m]]++;
      assert_false(seen >> g->groups[k].gpus[m] & 1);
      seen |= UINT64_C(1) << g->groups[k].gpus[m];
    }
  }
}

static void drawn_groupings_keep_the_papers_sizes(void **state) {
  (void)state;
  struct rondo_sim_config c;
  draw_config(&c);
  for (uint32_t number = 0; number < 20; number++) {
    struct rondo_sim_groups g;
    uint32_t joined[64] = {0}, sizes[9] = {0}, small = 0;
    assert_true(rondo_sim_groups_draw(&g, &c, number));
    for (uint32_t k = 0; k < g.group_count; k++) {
      sizes[g.groups[k].gpu_count]++;
      small += g.groups[k].collective_count == 400;
    }
    assert_true(sizes[3] == 28 && sizes[8] == 4 && small == 16);
    count_joined(&g, joined);
    for (int i = 0; i < 64; i++) {
      assert_in_range(joined[i], 1, 5);
    }
    rondo_sim_groups_fini(&g);
  }
  rondo_sim_config_fini(&c);
}

static void drawn_groupings_follow_their_seed(void **state) {
  (void)state;
  struct rondo_sim_config c;
  struct rondo_sim_groups a = {0}, b = {0}, other = {0};
  draw_config(&c);
  bool drawn = rondo_sim_groups_draw(&a, &c, 3);
  drawn &= rondo_sim_groups_draw(&b, &c, 3);
  drawn &= rondo_sim_groups_draw(&other, &c, 4);
  assert_true(drawn);
  assert_memory_equal(a.gpus, b.gpus, sizeof(uint32_t) * 116);
  assert_true(memcmp(a.gpus, other.gpus, sizeof(uint32_t) * 116) != 0);
  rondo_sim_groups_fini(&a);
  rondo_sim_groups_fini(&b);
  rondo_sim_groups_fini(&other);
  rondo_sim_config_fini(&c);
}

static void keys_are_found_where_they_stand(void **state) {
  (void)state;
  const char *text = "{ \"a\": [1,\n {\"b\": \"x{,\\\"\",\n  \"c\": 4}],\n \"d\":\n 5 }";
  assert_int_equal(rondo_sim_json_line(text, "a"), 1);
  assert_int_equal(rondo_sim_json_line(text, "a.1"), 2);
  assert_int_equal(rondo_sim_json_line(text, "a.1.c"), 3);
  assert_int_equal(rondo_sim_json_line(text, "d"), 4);
  assert_int_equal(rondo_sim_json_line(text, "a.1.nothing"), 2);
  assert_int_equal(rondo_sim_json_line(text, "nothing"), 1);
}

static void sweeps_take_even_or_geometric_steps(void **state) {
  (void)state;
  struct rondo_sim_sweep s;
  struct rondo_sim_error error;
  assert_true(rondo_sim_sweep_parse(&s, "disorder=1e-9..1e-5:log:9", &error));
  assert_int_equal(s.count, 9);
  assert_true(fabs(rondo_sim_sweep_value(&s, 4) / 1e-7 - 1) < 1e-9);
  assert_true(rondo_sim_sweep_value(&s, 8) == 1e-5);
  assert_true(rondo_sim_sweep_parse(&s, "resources=1..4:lin:4", &error));
  assert_true(fabs(rondo_sim_sweep_value(&s, 2) - 3) < 1e-9);
}

static void bad_sweeps_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "disorder",     "colour=1..2",         "disorder=1",         "disorder=..2",
      "disorder=1..", "disorder=0..1:log:3", "disorder=1..2:cube", "disorder=1..2:lin:0"};
  struct rondo_sim_sweep s;
  for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
    struct rondo_sim_error error = {""};
    assert_false(rondo_sim_sweep_parse(&s, bad[k], &error));
    assert_non_null(strstr(error.text, bad[k]));
  }
}

static void graphs_are_written_with_their_labels_escaped(void **state) {
  (void)state;
  struct rondo_sim_graph g;
  struct rondo_sim_text t = {0};
  rondo_sim_graph_init(&g, "a <b> & \"c\"");
  int a = rondo_sim_graph_add_node(&g, "one\n\"1\"", RONDO_SIM_NODE_HOLDS);
  int b = rondo_sim_graph_add_node(&g, "two<2>", RONDO_SIM_NODE_WAITS);
  rondo_sim_graph_add_node(&g, "alone", RONDO_SIM_NODE_PLAIN);
  rondo_sim_graph_add_edge(&g, a, b, "needs", true);
  rondo_sim_graph_add_edge(&g, b, a, NULL, true);
  rondo_sim_graph_dot(&g, &t);
  assert_non_null(strstr(rondo_sim_text_str(&t), "label=\"one\\n\\\"1\\\"\""));
  assert_non_null(strstr(rondo_sim_text_str(&t), "n0 -> n1 [label=\"needs\", color="));
  rondo_sim_text_clear(&t);
  rondo_sim_graph_svg(&g, &t);
  assert_non_null(strstr(rondo_sim_text_str(&t), "a &lt;b&gt; &amp; &quot;c&quot;"));
  assert_non_null(strstr(rondo_sim_text_str(&t), "two&lt;2&gt;"));
  assert_non_null(strstr(rondo_sim_text_str(&t), "</svg>"));
  rondo_sim_text_fini(&t);
  rondo_sim_graph_fini(&g);
}

// Where the label of an edge is drawn.
static double label_y(const char *svg, const char *label) {
  char tag[64];
  const char *at = svg, *y = svg;
  (void)snprintf(tag, sizeof tag, ">%s</text>", label);
  const char *end = strstr(svg, tag);
  assert_non_null(end);
  while ((at = strstr(at, " y=\"")) && at < end)
    y = at++;
  assert_ptr_not_equal(y, svg);
  return strtod(y + 4, NULL);
}

// Two nodes that wait for each other are drawn one above the other. Their labels are wider than the
// distance of the two lines.
static void labels_of_both_directions_do_not_meet(void **state) {
  (void)state;
  struct rondo_sim_graph g;
  struct rondo_sim_text t = {0};
  rondo_sim_graph_init(&g, "two");
  int a = rondo_sim_graph_add_node(&g, "rank 0", RONDO_SIM_NODE_WAITS);
  int b = rondo_sim_graph_add_node(&g, "rank 1", RONDO_SIM_NODE_WAITS);
  rondo_sim_graph_add_edge(&g, a, b, "waits for all_reduce 17", true);
  rondo_sim_graph_add_edge(&g, b, a, "waits for all_reduce 18", true);
  rondo_sim_graph_svg(&g, &t);
  double apart = label_y(rondo_sim_text_str(&t), "waits for all_reduce 17") -
                 label_y(rondo_sim_text_str(&t), "waits for all_reduce 18");
  assert_true(apart > 12 || apart < -12); // a line of text and something
  rondo_sim_text_fini(&t);
  rondo_sim_graph_fini(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_files_are_refused_by_key_and_line),
      cmocka_unit_test(own_files_set_every_option),
      cmocka_unit_test(published_files_are_read_unchanged),
      cmocka_unit_test(grouping_3d_is_the_papers),
      cmocka_unit_test(drawn_groupings_keep_the_papers_sizes),
      cmocka_unit_test(drawn_groupings_follow_their_seed),
      cmocka_unit_test(keys_are_found_where_they_stand),
      cmocka_unit_test(sweeps_take_even_or_geometric_steps),
      cmocka_unit_test(bad_sweeps_are_refused),
      cmocka_unit_test(graphs_are_written_with_their_labels_escaped),
      cmocka_unit_test(labels_of_both_directions_do_not_meet),
  };
  return cmocka_run_group_tests_name("sim.config", tests, NULL, NULL);
}
