// The cost model: its forms against the plans, its predictions, its choices and its file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "daemon/plan/cost_file.h"
#include "daemon/plan/two_level.h"
#include "rondo/status.h"
#include "rondo/types.h"

// What the plans of all ranks send, and to how many peers.
static void plans_count(int kind, int algorithm, uint32_t n,
                        const struct rondo_plan_topology *topology, struct rondo_plan_form *sum) {
  *sum = (struct rondo_plan_form){0};
  for (uint32_t rank = 0; rank < n; rank++) {
    struct rondo_plan_request request = {
        .kind = kind, .algorithm = algorithm, .rank = rank, .nranks = n, .topology = topology};
    struct rondo_plan plan;
    assert_int_equal(rondo_plan_build(&request, &plan), RONDO_SUCCESS);
    sum->connectors += plan.send.count;
    if (plan.scratch_count > sum->scratch)
      sum->scratch = plan.scratch_count; // in chunks
    for (uint32_t i = 0; i < plan.op_count; i++)
      if (plan.ops[i].primitive & RONDO_PRIM_SEND)
        sum->messages += plan.ops[i].repeat * rondo_plan_rounds(&plan, i);
  }
}

// `q` says where the ranks are, as `topology` (null: on one machine).
static void form_check(const struct rondo_cost_query *q, int algorithm,
                       const struct rondo_plan_topology *topology) {
  struct rondo_plan_form form, sum;
  assert_true(rondo_plan_form_of(q, algorithm, &form));
  plans_count(q->kind, algorithm, q->nranks, topology, &sum);
  assert_int_equal(form.messages, sum.messages);
  assert_int_equal(form.connectors, sum.connectors);
  if (algorithm == RONDO_ALGORITHM_BINOMIAL)
    assert_int_equal(form.scratch, q->bytes * sum.scratch);
  if (algorithm == RONDO_ALGORITHM_DOUBLE_TREE)
    assert_int_equal(form.scratch, q->bytes / 2 * sum.scratch);
  if (rondo_plan_has_two_levels(algorithm) && sum.scratch)
    assert_int_equal(form.scratch, form.bytes * sum.scratch);
  assert_in_range(form.steps, 1, form.hops);
}

// Also of an algorithm that is new. tests/integration/info_plan.py compares the hops.
static void forms_agree_with_the_plans(void **state) {
  (void)state;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++)
    for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++)
      for (uint32_t n = 2; n <= (kind == RONDO_SEND_RECV ? 2 : 70); n++) {
        const struct rondo_cost_query q = {.kind = kind, .nranks = n, .bytes = 1000};
        struct rondo_plan_form form;
        bool exists =
            rondo_plan_exists(kind, algorithm, n) && !rondo_plan_has_two_levels(algorithm);
        assert_int_equal(rondo_plan_form_of(&q, algorithm, &form), exists);
        if (exists)
          form_check(&q, algorithm, NULL);
      }
}

// Each kind and algorithm over two levels, of the ranks of a query.
static void forms_of_levels_check(struct rondo_cost_query q, const struct rondo_plan_topology *t) {
  for (q.kind = 0; q.kind < RONDO_KIND_COUNT; q.kind++)
    for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++)
      if (rondo_plan_has_two_levels(algorithm) && rondo_plan_exists(q.kind, algorithm, q.nranks))
        form_check(&q, algorithm, t);
}

// Several leaders a machine, if all have as many ranks.
static void forms_of_several_leaders_agree_with_the_plans(void **state) {
  (void)state;
  struct rondo_plan_location locations[48];
  for (uint32_t each = 2; each <= 8; each++)
    for (uint32_t machines = 2; machines <= 6; machines++)
      for (uint32_t leaders = 2; leaders <= each; leaders++) {
        uint32_t n = machines * each;
        for (uint32_t i = 0; i < n; i++)
          locations[i] = (struct rondo_plan_location){i / each, i, 1, leaders};
        struct rondo_plan_topology *t = rondo_plan_topology_create(locations, n);
        assert_non_null(t);
        struct rondo_cost_query q = {.nranks = n, .bytes = 100000};
        rondo_cost_query_place(&q, t);
        assert_int_equal(q.leaders, leaders);
        forms_of_levels_check(q, t);
        rondo_plan_topology_destroy(t);
      }
}

// Machines with as many ranks, and with one more or less.
static void forms_of_two_levels_agree_with_the_plans(void **state) {
  (void)state;
  struct rondo_plan_location locations[40];
  for (uint32_t n = 2; n <= 40; n++)
    for (uint32_t machines = 1; machines <= n; machines++) {
      for (uint32_t i = 0; i < n; i++)
        locations[i] = (struct rondo_plan_location){.machine = i % machines, .process = i};
      struct rondo_plan_topology *t = rondo_plan_topology_create(locations, n);
      assert_non_null(t);
      struct rondo_cost_query q = {.nranks = n, .bytes = 1000};
      rondo_cost_query_place(&q, t);
      for (int i = 0; i < RONDO_KIND_COUNT * RONDO_ALGORITHM_COUNT; i++) {
        struct rondo_plan_form form;
        int algorithm = i % RONDO_ALGORITHM_COUNT;
        q.kind = i / RONDO_ALGORITHM_COUNT;
        if (!rondo_plan_has_two_levels(algorithm) || !rondo_plan_exists(q.kind, algorithm, n))
          continue;
        bool exists = machines > 1 && machines < n;
        assert_int_equal(rondo_plan_form_of(&q, algorithm, &form), exists);
        assert_int_equal(rondo_cost_is_candidate(&q, algorithm), exists);
        if (exists)
          form_check(&q, algorithm, t);
      }
      rondo_plan_topology_destroy(t);
    }
}

// Measured at 2 ranks, which have a core each, and at 4 and 8, which share two.
static const struct rondo_cost_row rows[] = {
    {RONDO_COST_THREAD,
     RONDO_ALL_REDUCE,
     RONDO_ALGORITHM_DOUBLING,
     {{100, 200, 1200}, {1000, 1000, 9000}, {2000, 4000, 16000}}},
    {RONDO_COST_THREAD,
     RONDO_ALL_REDUCE,
     RONDO_ALGORITHM_BINOMIAL,
     {{100, 200, 1200}, {1500, 1500, 2000}, {3000, 3000, 9000}}}};
static const struct rondo_cost_model measured = {.cores = 2,
                                                 .rank_points = 3,
                                                 .size_points = 3,
                                                 .row_count = 2,
                                                 .ranks = {2, 4, 8},
                                                 .sizes = {10, 100, 1100},
                                                 .alone = {{1e6f, 1, 0}},
                                                 .shared = {{1e6f, 0}},
                                                 .rows = rows};

static struct rondo_cost_query query(uint32_t nranks, uint64_t bytes, uint32_t cores) {
  return (struct rondo_cost_query){
      .kind = RONDO_ALL_REDUCE, .nranks = nranks, .bytes = bytes, .cores = cores};
}

static double doubling_of(uint32_t nranks, uint64_t bytes, uint32_t cores) {
  struct rondo_cost_query q = query(nranks, bytes, cores);
  return rondo_cost_predict(&measured, &q, RONDO_ALGORITHM_DOUBLING);
}

static void assert_near(double a, double b) { assert_true(a > b * 0.9999 && a < b * 1.0001); }

static void time_is_the_chain_where_each_rank_has_a_core(void **state) {
  (void)state;
  assert_near(doubling_of(2, 10, 2), 100);
  assert_near(doubling_of(2, 10, 0), 100); // the cores of the model
  assert_near(doubling_of(2, 55, 2), 150);
  assert_near(doubling_of(2, 0, 2), 100);
  assert_near(doubling_of(2, 2100, 2), 2200);
  assert_near(doubling_of(64, 10, 64), 6 * 100);
  assert_near(doubling_of(63, 10, 99), 7 * 100);
}

// Four ranks send 8 messages, 8 ranks 24; two cores have them done in half the time.
static void time_is_the_work_where_ranks_share_cores(void **state) {
  (void)state;
  assert_near(doubling_of(4, 10, 2), 8 * 1000 / 2.0);
  assert_near(doubling_of(8, 100, 2), 24 * 4000 / 2.0);
  assert_near(doubling_of(8, 100, 4), 24 * 4000 / 4.0);
  assert_near(doubling_of(3, 10, 2), 4 * 1000 / 2.0);   // as at 4
  assert_near(doubling_of(16, 10, 2), 64 * 2000 / 2.0); // as at 8
  assert_near(doubling_of(6, 100, 2), 12 * 2500 / 2.0);
  struct rondo_cost_query q = query(16, 10, 2);
  q.machines = 2; // each has 8 ranks and half of the messages; rows are of one machine
  assert_near(rondo_cost_predict(&measured, &q, RONDO_ALGORITHM_DOUBLING), 64 * 1e6 / 4.0);
}

// The slowest link, the fewest cores and the most ranks of a machine count.
static void the_topology_says_what_ranks_share(void **state) {
  (void)state;
  static const struct rondo_plan_location here[] = {{1, 0, 8, 0}, {1, 0, 8, 0}, {1, 0, 8, 0}};
  static const struct rondo_plan_location processes[] = {{1, 0, 8, 0}, {1, 1, 8, 0}, {1, 2, 8, 0}};
  static const struct rondo_plan_location machines[] = {{1, 0, 8, 0}, {2, 1, 4, 0}, {1, 2, 8, 0}};
  static const struct rondo_plan_location threads[] = {{1, 0, 8, 0}, {2, 1, 4, 0}, {1, 0, 8, 0}};
  static const struct {
    const struct rondo_plan_location *locations;
    int link, inner;
    uint32_t machines, cores, machine_ranks;
  } cases[] = {{here, RONDO_COST_THREAD, RONDO_COST_THREAD, 1, 8, 3},
               {processes, RONDO_COST_SHARED_MEMORY, RONDO_COST_SHARED_MEMORY, 1, 8, 3},
               {machines, RONDO_COST_NETWORK, RONDO_COST_SHARED_MEMORY, 2, 4, 2},
               {threads, RONDO_COST_NETWORK, RONDO_COST_THREAD, 2, 4, 2}};
  struct rondo_cost_query q = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rondo_plan_topology *t = rondo_plan_topology_create(cases[i].locations, 3);
    assert_non_null(t);
    rondo_cost_query_place(&q, t);
    assert_int_equal(q.link, cases[i].link);
    assert_int_equal(q.inner, cases[i].inner);
    assert_int_equal(q.machines, cases[i].machines);
    assert_int_equal(q.cores, cases[i].cores);
    assert_int_equal(q.machine_ranks, cases[i].machine_ranks);
    assert_int_equal(q.scattered, cases[i].machines > 1); // 0 and 2, 1
    rondo_plan_topology_destroy(t);
  }
  rondo_cost_query_place(&q, NULL);
  assert_int_equal(q.link, RONDO_COST_THREAD);
  assert_int_equal(q.cores, 0);
}

// Inside machines by the rows of a binomial all-reduce, or of a reduce and a broadcast along a
// line; between them by the line of the network.
static void two_levels_take_the_sum_of_both(void **state) {
  (void)state;
  struct rondo_cost_model m = measured;
  m.alone[RONDO_COST_NETWORK] = (struct rondo_cost_terms){5000, 0, 2};
  struct rondo_cost_query q = query(32, 100, 8);
  q.link = RONDO_COST_NETWORK;
  q.machines = 4;
  q.machine_ranks = 8;
  struct rondo_cost_query inner = query(8, 100, 8);
  double up_and_down = rondo_cost_predict(&m, &inner, RONDO_ALGORITHM_BINOMIAL);
  assert_near(up_and_down, 6 * 200);
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_BINOMIAL_DOUBLING),
              up_and_down + 2 * 5200);
  // A ring parts the elements among the machines: 4 messages of 25 bytes in each round of the tree.
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_BINOMIAL_RING),
              6 * 4 * (100 + 100 * 15.0 / 90) + 6 * 5050);
  m.alone[RONDO_COST_THREAD] = (struct rondo_cost_terms){0, 70, 0};
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_CHAIN_DOUBLING), 2 * 7 * 70 + 2 * 5200);
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_CHAIN_RING), 2 * (7 + 3) * 70 + 6 * 5050);
  q.leaders = 2; // each with half of the elements, at the same time
  // The line of the 6 others; two messages go through it, in the ring eight.
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_CHAIN_DOUBLING),
              2 * (6 + 1 + 1) * 70 + 2 * 5100);
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_CHAIN_RING),
              2 * (6 + 1 + 7) * 70 + 6 * 5026);
  q.leaders = 1;
  q.cores = 2; // the ranks of a machine share them, the leaders do not
  inner.cores = 2;
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_BINOMIAL_DOUBLING),
              rondo_cost_predict(&m, &inner, RONDO_ALGORITHM_BINOMIAL) + 2 * 5200);
}

// Without rows: 1,000 ns of latency, 20 ns a message and 1 ns a byte inside a machine; five times
// as much between machines.
static struct rondo_cost_model links_model(void) {
  struct rondo_cost_model m = {.cores = 64};
  m.alone[RONDO_COST_THREAD] = (struct rondo_cost_terms){1000, 20, 1};
  m.alone[RONDO_COST_NETWORK] = (struct rondo_cost_terms){5000, 100, 5};
  return m;
}

static double links_time(int kind, int algorithm, uint32_t machines, uint32_t each,
                         uint32_t ports) {
  const struct rondo_cost_model m = links_model();
  const struct rondo_cost_query q = {.kind = kind,
                                     .nranks = machines * each,
                                     .bytes = 100,
                                     .link = machines > 1 ? RONDO_COST_NETWORK : RONDO_COST_THREAD,
                                     .machines = machines,
                                     .machine_ranks = each,
                                     .leaders = ports};
  return rondo_cost_predict(&m, &q, algorithm);
}

// Of a chain each hop counts; messages of one rank to others are on their way at the same time.
static void latencies_overlap(void **state) {
  (void)state;
  assert_near(links_time(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 1, 9, 1), 8 * 1120);
  assert_near(links_time(RONDO_BROADCAST, RONDO_ALGORITHM_DIRECT, 1, 9, 1), 1000 + 8 * 120);
  assert_near(links_time(RONDO_REDUCE, RONDO_ALGORITHM_DIRECT, 1, 9, 1), 1000 + 8 * 120);
  assert_near(links_time(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT, 1, 9, 1), 1000 + 8 * 120);
  assert_near(links_time(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 1, 9, 1), 1000 + 8 * 120);
  assert_near(links_time(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DIRECT, 1, 9, 1), 2 * (1000 + 8 * 120));
  assert_near(links_time(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 1, 8, 1), 3 * 1120);
}

// A hop is of the link that it takes: three of 11 between machines.
static void hops_are_of_their_links(void **state) {
  (void)state;
  assert_near(links_time(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 4, 3, 1), 8 * 1120 + 3 * 5600);
  assert_near(links_time(RONDO_BROADCAST, RONDO_ALGORITHM_BINOMIAL, 4, 4, 1), 2 * 1120 + 2 * 5600);
  assert_near(links_time(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 4, 4, 4), 2 * 1120 + 2 * 5600);
}

// All four ranks of a machine send in a round of doubling that leaves it: one after the other
// through one port, two at a time through two. A root sends through one.
static void ranks_of_a_machine_share_its_ports(void **state) {
  (void)state;
  for (uint32_t ports = 1; ports <= 4; ports *= 2) {
    assert_near(links_time(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 4, 4, ports),
                2 * 1120 + 2 * (5000 + 4.0 / ports * 600));
    assert_near(links_time(RONDO_BROADCAST, RONDO_ALGORITHM_DIRECT, 2, 4, ports), 5000 + 4 * 600);
  }
  assert_near(links_time(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 16, 1, 1), 4 * 5600);
}

// If positions do not follow machines, each round of doubling leaves the machine. A ring does not
// follow positions.
static void scattered_ranks_leave_their_machine(void **state) {
  (void)state;
  const struct rondo_cost_model m = links_model();
  struct rondo_cost_query q = {.kind = RONDO_ALL_REDUCE,
                               .nranks = 16,
                               .bytes = 100,
                               .link = RONDO_COST_NETWORK,
                               .machines = 4,
                               .machine_ranks = 4,
                               .leaders = 2,
                               .scattered = true};
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_DOUBLING), 4 * (5000 + 2 * 600));
  double ring = rondo_cost_predict(&m, &q, RONDO_ALGORITHM_RING);
  q.scattered = false;
  assert_near(ring, rondo_cost_predict(&m, &q, RONDO_ALGORITHM_RING));
}

// Loops of 256 KiB follow each other down a line: as fast as its link takes them, or, if that is
// faster than credits come back, four in each round trip.
static void loops_wait_for_slots(void **state) {
  (void)state;
  struct rondo_cost_model m = links_model();
  struct rondo_cost_query q = {.kind = RONDO_BROADCAST, .nranks = 9, .bytes = 41u << 18};
  double busy = 20 + (1 << 18);
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_RING), 8 * (1000 + busy) + 40 * busy);
  m.alone[RONDO_COST_THREAD].byte_ns = 0;
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_RING), 8 * 1020 + 10 * 2020);
}

// Of a broadcast over two levels, too: the first loop goes through both, 3 hops between machines
// and 2 inside, and the others follow as the links between machines take them. In an all-gather 8
// further chunks come to a machine, four in each round trip, after 2 hops inside, and go through
// it.
static void loops_go_through_both_levels(void **state) {
  (void)state;
  const struct rondo_cost_model m = links_model();
  struct rondo_cost_query q = {.kind = RONDO_BROADCAST,
                               .nranks = 12,
                               .bytes = 41u << 18,
                               .link = RONDO_COST_NETWORK,
                               .machines = 4,
                               .machine_ranks = 3};
  double inner = 20 + (1 << 18), outer = 100 + 5.0 * (1 << 18);
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_CHAIN_RING),
              2 * (1000 + inner) + 3 * (5000 + outer) + 40 * outer);
  assert_near(links_time(RONDO_BROADCAST, RONDO_ALGORITHM_CHAIN_DOUBLING, 4, 3, 1),
              2 * 1120 + 2 * 5600);
  assert_near(links_time(RONDO_REDUCE, RONDO_ALGORITHM_CHAIN_RING, 4, 3, 1), 2 * 1120 + 3 * 5600);
  assert_near(links_time(RONDO_ALL_GATHER, RONDO_ALGORITHM_CHAIN_RING, 4, 3, 1),
              2 * 1120 + 5600 + 2 * 10600 + 2 * 1120);
}

// Small all-reduces go between machines in log2 N hops, large ones with the least bytes.
static void several_machines_are_chosen_two_levels(void **state) {
  (void)state;
  struct rondo_cost_query q = {
      RONDO_ALL_REDUCE, 64, 8, RONDO_COST_NETWORK, 8, 8, 8, 0, 1, false, 0};
  for (q.inner = RONDO_COST_THREAD; q.inner <= RONDO_COST_SHARED_MEMORY; q.inner++) {
    q.bytes = 8;
    assert_true(rondo_plan_doubles_between(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm));
    q.bytes = 64u << 20;
    assert_true(rondo_plan_rings_between(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm));
    for (q.kind = RONDO_ALL_GATHER; q.kind <= RONDO_REDUCE_SCATTER; q.kind++)
      assert_int_equal(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm,
                       RONDO_ALGORITHM_CHAIN_RING);
    q.kind = RONDO_BROADCAST;
    q.bytes = 8;
    q.scattered = true; // else the binomial tree has the same messages
    assert_true(rondo_plan_has_two_levels(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm));
    q.kind = RONDO_ALL_REDUCE;
    q.scattered = false;
  }
}

// With eight ports a machine, and links between machines as slow as one port of a DGX H100: leaders
// have 8 connectors each, which take more memory than plans of one port may.
static void several_ports_are_chosen_two_levels(void **state) {
  (void)state;
  struct rondo_cost_model m = rondo_cost_defaults;
  struct rondo_cost_query q = {
      RONDO_ALL_REDUCE, 64, 64 << 20, RONDO_COST_NETWORK, 8, 8, 8, RONDO_COST_NVLINK, 8, false, 0};
  m.alone[RONDO_COST_NVLINK] = (struct rondo_cost_terms){3400, 0, 1 / 450.0f};
  m.alone[RONDO_COST_NETWORK] = (struct rondo_cost_terms){5000, 0, 1 / 50.0f};
  for (q.machines = 2; q.machines <= 8; q.machines *= 2) {
    q.nranks = 8 * q.machines;
    assert_int_equal(rondo_cost_choose(&m, &q).algorithm, RONDO_ALGORITHM_CHAIN_RING);
  }
}

// With many cores, and not one for each rank, the chain may take longer than the work.
static void time_is_no_less_than_the_chain(void **state) {
  (void)state;
  struct rondo_cost_query q = query(1024, 10, 1023);
  struct rondo_cost_model m = measured;
  struct rondo_cost_row cheap = rows[0];
  for (uint32_t i = 1; i < 3; i++)
    cheap.message_ns[i][0] = 1;
  m.rows = &cheap;
  m.row_count = 1;
  assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_DOUBLING), 10 * 100);
}

static void a_cost_follows_from_the_time(void **state) {
  (void)state;
  for (uint32_t n = 2; n < 40; n++)
    for (uint64_t bytes = 10; bytes < 10000000; bytes *= 7) {
      const struct rondo_cost_query q = query(n, bytes, 2);
      struct rondo_cost_row same = rows[0];
      double time_ns = doubling_of(n, bytes, 2);
      float ns = (float)rondo_cost_of_message(&q, RONDO_ALGORITHM_DOUBLING, time_ns);
      for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 3; k++)
          same.message_ns[i][k] = n > 2 && i == 0 ? 1e-3f : ns; // the work decides, not the chain
      struct rondo_cost_model m = measured;
      m.rows = &same;
      m.row_count = 1;
      assert_near(rondo_cost_predict(&m, &q, RONDO_ALGORITHM_DOUBLING), time_ns);
    }
}

static void choice_check(const struct rondo_cost_query *q) {
  struct rondo_plan_choice choice = rondo_cost_choose(&rondo_cost_defaults, q);
  assert_true(rondo_plan_exists(q->kind, choice.algorithm, q->nranks) && choice.time_ns > 0);
  for (int other = 0; other < RONDO_ALGORITHM_COUNT; other++)
    if (rondo_cost_is_candidate(q, other))
      assert_true(rondo_cost_predict(&rondo_cost_defaults, q, other) >= choice.time_ns);
}

static void the_choice_is_the_least_of_the_candidates(void **state) {
  (void)state;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++)
    for (uint32_t n = 2; n <= (kind == RONDO_SEND_RECV ? 2 : 5000); n += 1 + n / 3)
      for (uint64_t bytes = 1; bytes < UINT64_MAX / 50; bytes *= 37)
        for (int link = 0; link < RONDO_COST_LINKS; link++)
          choice_check(&(struct rondo_cost_query){kind, n, bytes, link,
                                                  link == RONDO_COST_NETWORK ? n / 2 : 1,
                                                  n % 2 ? 2 : n, 0, 0, 1, n % 3 == 0, 0});
  struct rondo_cost_query q = query(8, 1100, 2);
  struct rondo_plan_choice choice = rondo_cost_choose(&measured, &q);
  assert_int_equal(choice.algorithm, RONDO_ALGORITHM_BINOMIAL);
  assert_int_equal(choice.rule, RONDO_PLAN_RULE_LEAST);
  assert_near(choice.time_ns, 14 * 9000 / 2.0);
}

static void the_rule_says_why(void **state) {
  (void)state;
  struct rondo_cost_query q = query(1, 8, 2);
  assert_int_equal(rondo_cost_choose(&rondo_cost_defaults, &q).rule, RONDO_PLAN_RULE_ALONE);
  q.kind = RONDO_BARRIER;
  q.nranks = 9;
  struct rondo_plan_choice choice = rondo_cost_choose(&rondo_cost_defaults, &q);
  assert_int_equal(choice.rule, RONDO_PLAN_RULE_ONLY);
  assert_int_equal(choice.algorithm, RONDO_ALGORITHM_DISSEMINATION);
  assert_string_equal(rondo_plan_rule_name(RONDO_PLAN_RULE_FORCED), "forced");
}

// Only the ring has such plans, and its messages hold 260 bytes of 1,024.
static void quantised_messages_count_as_what_they_hold(void **state) {
  (void)state;
  struct rondo_cost_query q = query(4, 1u << 20, 2);
  struct rondo_plan_form plain, quantised;
  assert_true(rondo_plan_form_of(&q, RONDO_ALGORITHM_RING, &plain));
  double plain_ns = rondo_cost_predict(&rondo_cost_defaults, &q, RONDO_ALGORITHM_RING);
  q.quantisation = RONDO_QUANTISE_INT8;
  for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++) {
    bool is_ring = algorithm == RONDO_ALGORITHM_RING;
    assert_int_equal(rondo_plan_form_of(&q, algorithm, &quantised), is_ring);
    assert_int_equal(rondo_cost_is_candidate(&q, algorithm), is_ring);
    assert_int_equal(rondo_cost_predict(&rondo_cost_defaults, &q, algorithm) > 0, is_ring);
  }
  assert_true(rondo_plan_form_of(&q, RONDO_ALGORITHM_RING, &quantised));
  assert_int_equal(plain.bytes, 1u << 18);
  assert_int_equal(quantised.bytes, (1u << 18) / 1024 * 260);
  assert_int_equal(quantised.messages, plain.messages);
  struct rondo_plan_choice choice = rondo_cost_choose(&rondo_cost_defaults, &q);
  assert_int_equal(choice.algorithm, RONDO_ALGORITHM_RING);
  assert_int_equal(choice.rule, RONDO_PLAN_RULE_ONLY);
  assert_true(choice.time_ns < plain_ns);
  // Between machines, by the terms of links: a large one takes as long as its bytes.
  q.bytes = 1u << 30;
  q.link = RONDO_COST_NETWORK;
  q.machines = 4;
  double quarter_ns = rondo_cost_predict(&rondo_cost_defaults, &q, RONDO_ALGORITHM_RING);
  q.quantisation = RONDO_QUANTISE_NONE;
  double whole_ns = rondo_cost_predict(&rondo_cost_defaults, &q, RONDO_ALGORITHM_RING);
  assert_true(whole_ns > 3.5 * quarter_ns && whole_ns < 4 * quarter_ns);
}

// The goals of small all-reduces, where each rank has a core.
static void chains_are_short_where_each_rank_has_a_core(void **state) {
  (void)state;
  for (int link = 0; link < RONDO_COST_LINKS; link++)
    for (uint32_t n = 2; n <= 4096; n++) {
      struct rondo_cost_query q = {RONDO_ALL_REDUCE, n, 8, link, 1, n, 0, 0, 1, false, 0};
      struct rondo_plan_form form;
      int algorithm = rondo_cost_choose(&rondo_cost_defaults, &q).algorithm;
      assert_true(rondo_plan_form_of(&q, algorithm, &form));
      if (!rondo_plan_has_packets(algorithm)) // whose messages are on their way at the same time
        assert_in_range(form.hops, 1, n <= 64 ? 14 : n <= 1024 ? 22 : 26);
    }
}

static bool is_candidate(int kind, int algorithm, uint32_t n, uint64_t bytes) {
  const struct rondo_cost_query q = {.kind = kind, .nranks = n, .bytes = bytes};
  return rondo_cost_is_candidate(&q, algorithm);
}

static void scratch_is_for_small_sizes(void **state) {
  (void)state;
  const int a2a = RONDO_ALL_TO_ALL, bruck = RONDO_ALGORITHM_BRUCK, shot = RONDO_ALGORITHM_ONE_SHOT;
  const int rs = RONDO_REDUCE_SCATTER, halving = RONDO_ALGORITHM_HALVING;
  assert_true(is_candidate(a2a, bruck, 4, 256));
  assert_true(is_candidate(a2a, bruck, 64, 256));
  assert_false(is_candidate(a2a, bruck, 64, 257));
  assert_false(is_candidate(a2a, bruck, 3, 8));
  assert_true(is_candidate(RONDO_ALL_REDUCE, shot, 18, 8));
  assert_false(is_candidate(RONDO_ALL_REDUCE, shot, 19, 8)); // connectors
  assert_false(is_candidate(RONDO_ALL_REDUCE, shot, 2, 8));  // as doubling
  struct rondo_cost_query q = {.kind = RONDO_ALL_REDUCE, .nranks = 8, .bytes = 8, .cores = 8};
  assert_true(rondo_cost_is_candidate(&q, shot));
  q.cores = 7; // too many messages for ranks that share cores
  assert_false(rondo_cost_is_candidate(&q, shot));
  assert_true(rondo_cost_is_candidate(&q, RONDO_ALGORITHM_DOUBLE_TREE));
  q.bytes = 65537; // too many connectors for large ones
  assert_false(rondo_cost_is_candidate(&q, RONDO_ALGORITHM_DOUBLE_TREE));
  assert_true(rondo_cost_is_candidate(&q, RONDO_ALGORITHM_RING));
  for (uint64_t bytes = 1; bytes <= UINT64_C(1) << 60; bytes *= 2) {
    assert_true(is_candidate(rs, halving, 4, bytes) == (bytes <= 262144));
    assert_true(is_candidate(RONDO_ALL_REDUCE, shot, 4, bytes) == (bytes <= 262144));
  }
}

// On the GPUs of a machine small all-reduces take packets: in one hop, and larger ones in two.
static void gpus_choose_packets_for_small_sizes(void **state) {
  (void)state;
  const int one = RONDO_ALGORITHM_ONE_SHOT_PACKETS, two = RONDO_ALGORITHM_TWO_SHOT_PACKETS;
  struct rondo_cost_query q = {.kind = RONDO_ALL_REDUCE, .link = RONDO_COST_NVLINK, .machines = 1};
  q.cores = UINT32_MAX;
  for (q.nranks = 2; q.nranks <= 8; q.nranks *= 2) {
    q.machine_ranks = q.nranks;
    for (q.bytes = 8; q.bytes <= 16384; q.bytes *= 2)
      assert_int_equal(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm, one);
    q.bytes = UINT64_C(1) << 30;
    assert_false(rondo_plan_has_packets(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm));
  }
  q.nranks = q.machine_ranks = 8;
  for (q.bytes = 65536; q.bytes <= 1048576; q.bytes *= 2)
    assert_int_equal(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm, two);
  q.bytes = 8;
  q.quantisation = RONDO_QUANTISE_INT8;
  assert_false(rondo_cost_is_candidate(&q, one));
  q.quantisation = RONDO_QUANTISE_NONE;
  q.machines = 2; // a proxy forwards no packets
  assert_false(rondo_cost_is_candidate(&q, one));
  q.machines = 1;
  for (q.link = 0; q.link < RONDO_COST_LINKS; q.link++)
    assert_true(rondo_cost_is_candidate(&q, two) == (q.link == RONDO_COST_NVLINK));
}

// So do small all-gathers and reduce-scatters, in one hop. On the host they never do.
static void gpus_choose_packets_for_small_parts(void **state) {
  (void)state;
  const int kinds[] = {RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER};
  const int packets = RONDO_ALGORITHM_DIRECT_PACKETS;
  for (int k = 0; k < 2; k++) {
    struct rondo_cost_query q = {.kind = kinds[k], .link = RONDO_COST_NVLINK, .machines = 1};
    q.cores = UINT32_MAX;
    for (q.nranks = 2; q.nranks <= 8; q.nranks *= 2) {
      q.machine_ranks = q.nranks;
      for (q.bytes = 8; q.bytes <= 32768; q.bytes *= 2)
        assert_int_equal(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm, packets);
      q.bytes = UINT64_C(1) << 27;
      assert_int_not_equal(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm, packets);
    }
    q.nranks = q.machine_ranks = 8;
    q.bytes = 8;
    for (q.link = 0; q.link < RONDO_COST_LINKS; q.link++)
      assert_true(rondo_cost_is_candidate(&q, packets) == (q.link == RONDO_COST_NVLINK));
    q.link = RONDO_COST_NVLINK;
    q.machines = 2;
    assert_false(rondo_cost_is_candidate(&q, packets));
  }
}

// A connector for each pair of many ranks is only made if it is asked for, or if there is no other
// way.
static void many_connectors_are_no_candidate(void **state) {
  (void)state;
  assert_true(is_candidate(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT, 16, 8));
  assert_false(is_candidate(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT, 19, 8));
  assert_false(is_candidate(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT, 16, 262144));
  assert_true(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT, 16, 1u << 20));
  assert_false(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT, 19, 8));
  assert_false(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT, 16, 1u << 21));
  assert_true(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 4, 1u << 16));
  assert_false(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 4, 1u << 20)); // scratch
  assert_true(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DIRECT, 64, 1u << 30));
  assert_false(is_candidate(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DIRECT, 65, 8));
  assert_false(is_candidate(RONDO_BROADCAST, RONDO_ALGORITHM_DIRECT, 65, 8));
  assert_true(is_candidate(RONDO_REDUCE, RONDO_ALGORITHM_DIRECT, 4096, 1u << 30));
  struct rondo_cost_query q = {
      RONDO_ALL_TO_ALL, 4096, 1u << 20, RONDO_COST_THREAD, 1, 4096, 0, 0, 1, false, 0};
  assert_int_equal(rondo_cost_choose(&rondo_cost_defaults, &q).algorithm, RONDO_ALGORITHM_DIRECT);
}

// ----------------------------------------------------------------------- the file ---

struct texts {
  struct rondo_cost_file file, again;
  char text[RONDO_COST_FILE_BYTES], other[RONDO_COST_FILE_BYTES];
  char why[RONDO_COST_WHY_BYTES];
  size_t length;
};

static int texts_make(void **state) {
  struct texts *t = calloc(1, sizeof *t);
  if (!t)
    return -1;
  t->file.model = measured;
  memcpy(t->file.rows, rows, sizeof rows);
  for (int link = 0; link < RONDO_COST_LINKS; link++) {
    t->file.model.alone[link] = (struct rondo_cost_terms){2.5f, 1.5f, 0.25f};
    t->file.model.shared[link] = (struct rondo_cost_line){1.5f, 0.25f};
  }
  strcpy(t->file.tuning, "front_budget_ns=7200");
  t->length = rondo_cost_file_print(&t->file, t->text);
  *state = t;
  return 0;
}

static int texts_free(void **state) {
  free(*state);
  return 0;
}

static void a_file_is_read_as_it_was_written(void **state) {
  struct texts *t = *state;
  assert_true(rondo_cost_file_parse(&t->again, t->text, t->why));
  assert_int_equal(rondo_cost_file_print(&t->again, t->other), t->length);
  assert_string_equal(t->other, t->text);
  assert_string_equal(t->again.tuning, "front_budget_ns=7200");
  assert_ptr_equal(t->again.model.rows, t->again.rows);
  assert_int_not_equal(t->again.model.digest, 0);
  struct rondo_cost_query q = query(6, 700, 2);
  for (int algorithm = RONDO_ALGORITHM_DOUBLING; algorithm <= RONDO_ALGORITHM_BINOMIAL; algorithm++)
    assert_near(rondo_cost_predict(&t->again.model, &q, algorithm),
                rondo_cost_predict(&measured, &q, algorithm));
}

static void the_digest_tells_files_apart(void **state) {
  struct texts *t = *state;
  assert_true(rondo_cost_file_parse(&t->again, t->text, t->why));
  uint64_t digest = t->again.model.digest;
  t->file.rows[1].message_ns[2][2] += 1;
  rondo_cost_file_print(&t->file, t->other);
  assert_true(rondo_cost_file_parse(&t->again, t->other, t->why));
  assert_int_not_equal(t->again.model.digest, digest);
}

static void a_torn_file_is_refused(void **state) {
  struct texts *t = *state;
  for (size_t length = 0; length < t->length; length++) {
    memcpy(t->other, t->text, length);
    t->other[length] = '\0';
    assert_false(rondo_cost_file_parse(&t->again, t->other, t->why));
    assert_non_null(strstr(t->why, length < 18 ? "is no cost model" : "is torn"));
  }
}

static void a_changed_file_is_refused(void **state) {
  struct texts *t = *state;
  for (size_t at = 0; at < t->length; at++) {
    memcpy(t->other, t->text, t->length + 1);
    t->other[at] ^= 1;
    assert_false(rondo_cost_file_parse(&t->again, t->other, t->why));
  }
}

static void a_file_of_another_version_is_refused(void **state) {
  struct texts *t = *state;
  assert_false(rondo_cost_file_parse(&t->again, "rondo cost model 7\ncores 2\n", t->why));
  assert_string_equal(t->why, "has version 7, this library reads version 2: measure it again with "
                              "rondo-info tune");
  assert_false(rondo_cost_file_parse(&t->again, "rondo cost model 1\ncores 2\n", t->why));
  assert_string_equal(t->why, "has version 1, this library reads version 2: measure it again with "
                              "rondo-info tune");
  assert_false(rondo_cost_file_parse(&t->again, "{\"model\": 1}\n", t->why));
  assert_string_equal(t->why, "is no cost model of Rondo");
}

// Prints a model that makes no sense, so that the checksum is right.
static void assert_refused(struct texts *t, const char *why) {
  rondo_cost_file_print(&t->file, t->other);
  assert_false(rondo_cost_file_parse(&t->again, t->other, t->why));
  assert_string_equal(t->why, why);
}

static void numbers_that_make_no_sense_are_refused(void **state) {
  struct texts *t = *state;
  t->file.rows[0].message_ns[0][1] = 0;
  assert_refused(t, "line 10 has no number that makes sense");
  t->file.rows[0].message_ns[0][1] = 200;
  t->file.model.sizes[2] = t->file.model.sizes[1];
  assert_refused(t, "line 5 has no number that makes sense");
  t->file.model.sizes[2] = 1100;
  t->file.rows[1].kind = RONDO_REDUCE; // has no doubling
  t->file.rows[1].algorithm = RONDO_ALGORITHM_DOUBLING;
  assert_refused(t, "line 11 has no link, kind and algorithm of this library");
  t->file.rows[1].kind = RONDO_ALL_REDUCE;
  t->file.model.cores = 0;
  assert_refused(t, "line 2 has no number that makes sense");
  t->file.model.cores = 2;
  t->file.model.alone[1].latency_ns = 0;
  assert_refused(t, "line 7 has no number that makes sense");
  t->file.model.alone[1].latency_ns = 1;
  rondo_cost_file_print(&t->file, t->other);
  assert_true(rondo_cost_file_parse(&t->again, t->other, t->why));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forms_agree_with_the_plans),
      cmocka_unit_test(forms_of_two_levels_agree_with_the_plans),
      cmocka_unit_test(forms_of_several_leaders_agree_with_the_plans),
      cmocka_unit_test(two_levels_take_the_sum_of_both),
      cmocka_unit_test(latencies_overlap),
      cmocka_unit_test(hops_are_of_their_links),
      cmocka_unit_test(ranks_of_a_machine_share_its_ports),
      cmocka_unit_test(scattered_ranks_leave_their_machine),
      cmocka_unit_test(loops_wait_for_slots),
      cmocka_unit_test(loops_go_through_both_levels),
      cmocka_unit_test(several_machines_are_chosen_two_levels),
      cmocka_unit_test(several_ports_are_chosen_two_levels),
      cmocka_unit_test(time_is_the_chain_where_each_rank_has_a_core),
      cmocka_unit_test(time_is_the_work_where_ranks_share_cores),
      cmocka_unit_test(the_topology_says_what_ranks_share),
      cmocka_unit_test(time_is_no_less_than_the_chain),
      cmocka_unit_test(a_cost_follows_from_the_time),
      cmocka_unit_test(the_choice_is_the_least_of_the_candidates),
      cmocka_unit_test(the_rule_says_why),
      cmocka_unit_test(quantised_messages_count_as_what_they_hold),
      cmocka_unit_test(chains_are_short_where_each_rank_has_a_core),
      cmocka_unit_test(many_connectors_are_no_candidate),
      cmocka_unit_test(gpus_choose_packets_for_small_sizes),
      cmocka_unit_test(gpus_choose_packets_for_small_parts),
      cmocka_unit_test(scratch_is_for_small_sizes),
      cmocka_unit_test_setup_teardown(a_file_is_read_as_it_was_written, texts_make, texts_free),
      cmocka_unit_test_setup_teardown(the_digest_tells_files_apart, texts_make, texts_free),
      cmocka_unit_test_setup_teardown(a_torn_file_is_refused, texts_make, texts_free),
      cmocka_unit_test_setup_teardown(a_changed_file_is_refused, texts_make, texts_free),
      cmocka_unit_test_setup_teardown(a_file_of_another_version_is_refused, texts_make, texts_free),
      cmocka_unit_test_setup_teardown(numbers_that_make_no_sense_are_refused, texts_make,
                                      texts_free)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
