// The agreement on registrations: several cores, their messages carried by hand.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan.h"
#include "runtime/job/agreement.h"
#include "runtime/job/message.h"
#include "tests/support/named.h"

#define MOST 1024u

// A process with one rank of the same number, and what it was told.
struct process {
  struct rondo_member_lists lists;
  struct rondo_agreement core;
  struct rondo_agreement_actions actions;
  uint32_t agreed, failed, limited;
  struct rondo_agreement_action last; // that was no message
  char text[RONDO_REASON_BYTES];
};

// On its way; in one queue, so in order between two processes.
struct letter {
  struct letter *next;
  uint32_t from, to, type;
  size_t size;
  uint64_t bytes[];
};

static struct process *processes;
static uint32_t count;
static uint32_t homes[MOST], ranks[MOST];
static struct letter *first, **end = &first;
static uint64_t carried, carried_most; // messages, and bytes of the longest

// ------------------------------------------------------------------- network -

static void take(uint32_t at) {
  struct process *p = &processes[at];
  for (uint32_t i = 0; i < p->actions.count; i++) {
    const struct rondo_agreement_action *action = &p->actions.list[i];
    if (action->type != RONDO_AGREEMENT_SEND) {
      p->last = *action;
      p->agreed += action->type == RONDO_AGREEMENT_AGREED;
      p->failed += action->type == RONDO_AGREEMENT_FAILED;
      p->limited += action->type == RONDO_AGREEMENT_LIMIT;
      if (action->type == RONDO_AGREEMENT_FAILED)
        (void)snprintf(p->text, sizeof p->text, "%s", p->actions.bytes + action->at);
      continue;
    }
    struct letter *l = malloc(sizeof *l + action->size);
    assert_non_null(l);
    *l = (struct letter){NULL, at, action->process, action->message_type, action->size};
    memcpy(l->bytes, p->actions.bytes + action->at, action->size);
    *end = l;
    end = &l->next;
  }
  rondo_agreement_actions_clear(&p->actions);
}

static int step(uint32_t at, struct rondo_agreement_event *event) {
  int status = rondo_agreement_step(&processes[at].core, event, &processes[at].actions);
  take(at);
  return status;
}

static struct letter *letter_pop(void) {
  struct letter *l = first;
  if (!l)
    return NULL;
  first = l->next;
  if (!first)
    end = &first;
  return l;
}

static int letter_deliver(const struct letter *l) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_RECEIVE,
                                        .process = l->from,
                                        .message_type = l->type,
                                        .bytes = l->bytes,
                                        .size = l->size};
  carried++;
  carried_most = l->size > carried_most ? l->size : carried_most;
  return step(l->to, &event);
}

static void carry(void) {
  struct letter *l;
  while ((l = letter_pop())) {
    assert_int_equal(letter_deliver(l), RONDO_SUCCESS);
    free(l);
  }
}

static void locate(uint32_t at) {
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_LOCATED, .process = at, .process_of = homes};
  assert_int_equal(step(at, &event), RONDO_SUCCESS);
}

// Processes that do not have the roster yet.
static void open_unlocated(uint32_t process_count) {
  count = process_count;
  carried = carried_most = 0;
  processes = calloc(count, sizeof *processes);
  assert_non_null(processes);
  for (uint32_t i = 0; i < count; i++) {
    homes[i] = ranks[i] = i;
    rondo_member_lists_init(&processes[i].lists, count);
    rondo_agreement_init(&processes[i].core, &processes[i].lists);
  }
}

static void open_processes(uint32_t process_count) {
  open_unlocated(process_count);
  for (uint32_t i = 0; i < count; i++)
    locate(i);
}

// Every test ends without an entry.
static void close_processes(void) {
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(processes[i].core.entry_count, 0);
    rondo_agreement_fini(&processes[i].core);
    rondo_agreement_actions_free(&processes[i].actions);
    rondo_member_lists_fini(&processes[i].lists);
  }
  assert_null(first);
  free(processes);
}

// -------------------------------------------------------------------- events -

static struct rondo_descriptor describe(const uint32_t *members, uint32_t nranks) {
  return (struct rondo_descriptor){.count = 100,
                                   .kind = RONDO_ALL_REDUCE,
                                   .dtype = RONDO_FLOAT32,
                                   .redop = RONDO_SUM,
                                   .nranks = nranks,
                                   .first_rank = members[0],
                                   .last_rank = members[nranks - 1],
                                   .blocks = 1,
                                   .chunk_elems = 16,
                                   .slot_count = 4};
}

static struct rondo_agreement_key register_as(uint32_t rank, uint64_t id, const uint32_t *members,
                                              uint32_t nranks,
                                              const struct rondo_descriptor *descriptor) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_REGISTER,
                                        .key.id.number = id,
                                        .rank = rank,
                                        .members = members,
                                        .nranks = nranks,
                                        .descriptor = *descriptor};
  assert_int_equal(step(rank, &event), RONDO_SUCCESS);
  return event.key;
}

static struct rondo_agreement_key enter(uint32_t rank, uint64_t id, const uint32_t *members,
                                        uint32_t nranks) {
  const struct rondo_descriptor d = describe(members, nranks);
  return register_as(rank, id, members, nranks, &d);
}

static void deregister(uint32_t rank, struct rondo_agreement_key key, uint64_t completed) {
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_DEREGISTER, .key = key, .rank = rank, .completed = completed};
  assert_int_equal(step(rank, &event), RONDO_SUCCESS);
}

static void deregister_all(struct rondo_agreement_key key) {
  for (uint32_t i = 0; i < count; i++)
    deregister(i, key, 1);
  carry();
}

static void leave(uint32_t rank) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_LEAVE, .rank = rank};
  assert_int_equal(step(rank, &event), RONDO_SUCCESS);
}

static void tell_gone(uint32_t at, uint32_t rank, int type) {
  struct rondo_agreement_event event = {
      .type = type, .ranks = &rank, .rank_count = 1, .process = rank};
  assert_int_equal(step(at, &event), RONDO_SUCCESS);
}

static uint32_t count_agreed(void) {
  uint32_t agreed = 0;
  for (uint32_t i = 0; i < count; i++)
    agreed += processes[i].agreed;
  return agreed;
}

// --------------------------------------------------------------------- tests -

static void costs_at_most_four_messages_a_process(void **state) {
  (void)state;
  static const uint32_t counts[] = {2, 3, 9, 10, 73, 1024};
  for (uint32_t k = 0; k < sizeof counts / sizeof *counts; k++) {
    struct rondo_agreement_key key = {0};
    open_processes(counts[k]);
    for (uint32_t i = 0; i < count; i++) // the leaves last, the worst order
      key = enter(i, 1, ranks, count);
    carry();
    assert_int_equal(count_agreed(), count);
    assert_true(carried <= UINT64_C(4) * (count - 1));
    assert_true(carried >= UINT64_C(2) * (count - 1));
    assert_true(carried_most <= 1024);
    deregister_all(key);
    close_processes();
  }
}

static void nobody_agrees_before_the_last_has_registered(void **state) {
  (void)state;
  struct rondo_agreement_key key = {0};
  for (uint32_t late = 0; late < 20; late++) {
    open_processes(20);
    for (uint32_t i = 0; i < count; i++)
      if (i != late)
        key = enter(i, 1, ranks, count);
    carry();
    assert_int_equal(count_agreed(), 0);
    (void)enter(late, 1, ranks, count);
    carry();
    assert_int_equal(count_agreed(), count);
    deregister_all(key);
    close_processes();
  }
}

static void a_rank_registers_before_the_roster_is_known(void **state) {
  (void)state;
  open_processes(2);
  // Another core in place of the one of process 1.
  rondo_agreement_fini(&processes[1].core);
  rondo_member_lists_fini(&processes[1].lists);
  rondo_member_lists_init(&processes[1].lists, count);
  rondo_agreement_init(&processes[1].core, &processes[1].lists);
  struct rondo_agreement_key key = enter(1, 1, ranks, count);
  deregister(1, key, 0);
  assert_null(first);
  key = enter(1, 1, ranks, count);
  assert_int_equal(key.generation, 2);
  locate(1);
  key = enter(0, 1, ranks, count);
  carry();
  // The registration that has ended counts: the group agrees, and no run is possible.
  assert_int_equal(processes[0].agreed, 1);
  assert_int_equal(processes[0].limited, 1);
  assert_int_equal(processes[0].last.completed, 0);
  assert_int_equal(processes[1].agreed, 0);
  deregister(0, key, 0);
  key = enter(0, 1, ranks, count);
  carry();
  assert_int_equal(processes[1].agreed, 1);
  deregister_all(key);
  close_processes();
}

// The roster comes when the only rank of the only process of a group has left.
static void a_process_whose_ranks_have_left_learns_the_roster(void **state) {
  (void)state;
  open_unlocated(1);
  struct rondo_agreement_key key = enter(0, 1, ranks, 1);
  leave(0);
  locate(0);
  carry();
  deregister(0, key, 0);
  carry();
  close_processes();
}

static void an_id_is_used_again(void **state) {
  (void)state;
  open_processes(11);
  for (uint32_t times = 1; times <= 3; times++) {
    struct rondo_agreement_key key = {0};
    for (uint32_t i = 0; i < count; i++)
      key = enter(count - 1 - i, 7, ranks, count);
    assert_int_equal(key.generation, times);
    carry();
    assert_int_equal(count_agreed(), times * count);
    deregister_all(key);
    assert_int_equal(processes[0].core.entry_count, 0);
  }
  close_processes();
}

static void generations_do_not_meet(void **state) {
  (void)state;
  open_processes(2);
  struct rondo_agreement_key one = enter(0, 7, ranks, count);
  deregister(0, one, 0);
  (void)enter(0, 7, ranks, count);
  carry();
  assert_int_equal(count_agreed(), 0);
  one = enter(1, 7, ranks, count);
  carry();
  assert_int_equal(processes[1].agreed, 1); // the first one, which rank 0 has ended
  assert_int_equal(processes[0].agreed, 0);
  deregister(1, one, 0);
  struct rondo_agreement_key two = enter(1, 7, ranks, count);
  carry();
  assert_int_equal(processes[0].agreed, 1);
  deregister_all(two);
  close_processes();
}

// Rank 3 differs in one field.
static void expect_mismatch(const struct rondo_descriptor *other, const char *what) {
  struct rondo_agreement_key key = {0};
  for (uint32_t first_rank = 0; first_rank < 12; first_rank++) {
    open_processes(12);
    for (uint32_t k = 0; k < count; k++) {
      uint32_t i = (first_rank + k) % count;
      if (i == 3)
        key = register_as(i, 9, ranks, count, other);
      else
        key = enter(i, 9, ranks, count);
      if (first_rank % 2)
        carry();
    }
    carry();
    assert_int_equal(count_agreed(), 0);
    for (uint32_t i = 0; i < count; i++) {
      const struct process *p = &processes[i];
      uint32_t culprit = p->last.culprit == i ? p->last.other : p->last.culprit;
      assert_int_equal(p->failed, 1);
      assert_int_equal(p->last.status, RONDO_ERR_MISMATCH);
      assert_true(culprit != i && (i == 3 || p->last.culprit == 3 || p->last.other == 3));
      assert_non_null(strstr(p->text, "rank 3: "));
      assert_non_null(strstr(p->text, what));
      const char *side = strstr(p->text, ": rank ");
      assert_non_null(side);
      assert_non_null(strstr(side + 1, "; rank ")); // both sides
    }
    deregister_all(key);
    close_processes();
  }
}

static void every_difference_is_named_with_both_sides(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 12; i++)
    ranks[i] = i;
  struct rondo_descriptor d = describe(ranks, 12);
  d.kind = RONDO_ALL_GATHER;
  expect_mismatch(&d, "in its kind");
  d = describe(ranks, 12);
  d.count = 99;
  expect_mismatch(&d, "in its count");
  d = describe(ranks, 12);
  d.dtype = RONDO_INT8;
  expect_mismatch(&d, "in its type");
  d = describe(ranks, 12);
  d.redop = RONDO_MAX;
  expect_mismatch(&d, "in its reduction");
  d = describe(ranks, 12);
  d.root = 5;
  expect_mismatch(&d, "in its root");
  d = describe(ranks, 12);
  d.topology = UINT64_C(0x1234567890abcdef);
  expect_mismatch(&d, "in its topology");
  expect_mismatch(&d, "by ring, topology 1234567890abcdef");
  expect_mismatch(&d, "by ring, topology 0000000000000000");
  d = describe(ranks, 12);
  d.algorithm = RONDO_ALGORITHM_DIRECT;
  expect_mismatch(&d, "in its algorithm");
  d = describe(ranks, 12);
  d.blocks = 2;
  expect_mismatch(&d, "in its daemon blocks or slot size");
  d = describe(ranks, 12);
  d.chunk_elems = 8;
  expect_mismatch(&d, "in its daemon blocks or slot size");
  d = describe(ranks, 12);
  d.slot_count = 2;
  expect_mismatch(&d, "in its daemon blocks or slot size");
  d = describe(ranks, 12);
  d.first_sequence = 1;
  expect_mismatch(&d, "in its daemon blocks or slot size");
}

// What a rank registers before the roster has come.
static struct rondo_descriptor describe_unplanned(const uint32_t *members, uint32_t nranks) {
  struct rondo_descriptor d = describe(members, nranks);
  d.chunk_elems = d.slot_count = 0;
  return d;
}

static void plan(uint32_t at, uint32_t rank, struct rondo_agreement_key key,
                 const struct rondo_descriptor *descriptor) {
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_PLANNED, .key = key, .rank = rank, .descriptor = *descriptor};
  assert_int_equal(step(at, &event), RONDO_SUCCESS);
}

// Nothing is said of a registration before its plan is known; then its plan is compared.
static void plans_are_compared_once_they_are_known(void **state) {
  (void)state;
  for (uint32_t odd = 0; odd < 3; odd++) { // 2: all plan the same
    open_unlocated(2);
    const struct rondo_descriptor unplanned = describe_unplanned(ranks, 2);
    struct rondo_agreement_key key = {0};
    for (uint32_t i = 0; i < 2; i++)
      key = register_as(i, 5, ranks, 2, &unplanned);
    for (uint32_t i = 0; i < 2; i++) {
      struct rondo_descriptor d = describe(ranks, 2);
      d.topology = 7 + (i == odd);
      plan(i, i, key, &d);
      locate(i);
    }
    carry();
    for (uint32_t i = 0; i < 2; i++) {
      assert_int_equal(processes[i].agreed, odd == 2);
      assert_int_equal(processes[i].failed, odd < 2);
      if (odd < 2)
        assert_non_null(strstr(processes[i].text, "in its topology"));
    }
    deregister_all(key);
    close_processes();
  }
}

// Two ranks of a process whose plans differ, in both orders.
static void plans_of_one_process_are_compared(void **state) {
  (void)state;
  for (uint32_t first_rank = 0; first_rank < 2; first_rank++) {
    open_unlocated(1);
    static const uint32_t members[] = {0, 1}, here[] = {0, 0};
    const struct rondo_descriptor unplanned = describe_unplanned(members, 2);
    struct rondo_agreement_key key = {0};
    struct rondo_member_lists *lists = &processes[0].lists;
    rondo_agreement_fini(&processes[0].core);
    rondo_member_lists_fini(lists);
    rondo_member_lists_init(lists, 2);
    rondo_agreement_init(&processes[0].core, lists);
    for (uint32_t r = 0; r < 2; r++) {
      struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_REGISTER,
                                            .key.id.number = 5,
                                            .rank = r,
                                            .members = members,
                                            .nranks = 2,
                                            .descriptor = unplanned};
      assert_int_equal(step(0, &event), RONDO_SUCCESS);
      key = event.key;
    }
    for (uint32_t k = 0; k < 2; k++) {
      struct rondo_descriptor d = describe(members, 2);
      d.algorithm = k ? RONDO_ALGORITHM_RING : RONDO_ALGORITHM_DIRECT;
      assert_int_equal(processes[0].failed, 0);
      plan(0, k ^ first_rank, key, &d);
    }
    assert_int_equal(processes[0].failed, 1);
    assert_non_null(strstr(processes[0].text, "in its algorithm"));
    struct rondo_agreement_event event = {
        .type = RONDO_AGREEMENT_LOCATED, .process = 0, .process_of = here};
    assert_int_equal(step(0, &event), RONDO_SUCCESS);
    for (uint32_t r = 0; r < 2; r++) {
      struct rondo_agreement_event end_event = {
          .type = RONDO_AGREEMENT_DEREGISTER, .key = key, .rank = r};
      assert_int_equal(step(0, &end_event), RONDO_SUCCESS);
    }
    close_processes();
  }
}

// A rank that deregisters before the roster has come has no plan: the others' runs end.
static void who_deregisters_without_a_plan_ends_the_runs_of_others(void **state) {
  (void)state;
  open_unlocated(2);
  const struct rondo_descriptor unplanned = describe_unplanned(ranks, 2);
  struct rondo_agreement_key key = register_as(0, 5, ranks, 2, &unplanned);
  deregister(0, key, 0);
  locate(0);
  locate(1);
  key = enter(1, 5, ranks, 2);
  carry();
  assert_int_equal(processes[1].agreed, 0);
  assert_int_equal(processes[1].failed, 1);
  assert_int_equal(processes[1].last.status, RONDO_ERR_PEER);
  assert_int_equal(processes[1].last.culprit, 0);
  deregister(1, key, 0);
  struct rondo_agreement_key again = {0};
  for (uint32_t i = 0; i < 2; i++)
    again = enter(i, 5, ranks, 2);
  carry();
  assert_int_equal(count_agreed(), 2);
  deregister_all(again);
  close_processes();
}

static void groups_that_overlap_may_not_share_an_id(void **state) {
  (void)state;
  const uint32_t left[] = {0, 1};
  const uint32_t right[] = {1, 2};
  open_processes(3);
  struct rondo_agreement_key a = enter(0, 1, left, 2);
  struct rondo_agreement_key c = enter(2, 1, right, 2);
  carry();
  assert_int_equal(processes[0].failed + processes[2].failed, 0); // nobody is in both yet
  struct rondo_agreement_key b = enter(1, 1, left, 2);
  carry();
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(processes[i].failed, 1);
    assert_int_equal(processes[i].last.status, RONDO_ERR_MISMATCH);
    assert_non_null(strstr(processes[i].text, "in its group"));
    assert_non_null(strstr(processes[i].text, "rank 2:"));
  }
  deregister(0, a, 0);
  deregister(1, b, 0);
  deregister(2, c, 0);
  carry();
  close_processes();
}

// Rank 1 has used the id with rank 0 and has ended that, so it can never use it with rank 2.
static void an_id_that_a_member_has_used_elsewhere_fails(void **state) {
  (void)state;
  const uint32_t left[] = {0, 1};
  const uint32_t right[] = {1, 2};
  open_processes(3);
  struct rondo_agreement_key key = enter(0, 1, left, 2);
  (void)enter(1, 1, left, 2);
  carry();
  deregister(0, key, 1);
  deregister(1, key, 1);
  carry();
  key = enter(2, 1, right, 2);
  carry();
  assert_int_equal(processes[2].failed, 1);
  assert_int_equal(processes[2].last.status, RONDO_ERR_MISMATCH);
  assert_int_equal(processes[2].last.culprit, 1);
  deregister(2, key, 0);
  carry();
  close_processes();
}

static void disjoint_groups_share_an_id(void **state) {
  (void)state;
  const uint32_t even[] = {0, 2};
  const uint32_t odd[] = {3, 1};
  open_processes(4);
  struct rondo_agreement_key keys[4];
  for (uint32_t i = 0; i < count; i++)
    keys[i] = enter(i, 1, i % 2 ? odd : even, 2);
  carry();
  assert_int_equal(count_agreed(), 4);
  for (uint32_t i = 0; i < count; i++)
    deregister(i, keys[i], 3);
  carry();
  close_processes();
}

static void a_failure_reaches_all_whoever_registers_later_too(void **state) {
  (void)state;
  open_processes(30);
  struct rondo_agreement_key key = {0};
  for (uint32_t i = 0; i < count - 1; i++)
    key = enter(i, 1, ranks, count);
  carry();
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_FAIL,
                                        .key = key,
                                        .failure = {RONDO_ERR_ABORTED, 20, UINT32_MAX, "so"}};
  assert_int_equal(step(20, &event), RONDO_SUCCESS);
  carry();
  (void)enter(count - 1, 1, ranks, count);
  carry();
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(processes[i].failed, 1);
    assert_int_equal(processes[i].last.culprit, 20);
    assert_string_equal(processes[i].text, "so");
  }
  deregister_all(key);
  close_processes();
}

static void nobody_runs_past_the_first_that_deregisters(void **state) {
  (void)state;
  open_processes(30);
  struct rondo_agreement_key key = {0};
  for (uint32_t i = 0; i < count; i++)
    key = enter(i, 1, ranks, count);
  carry();
  deregister(17, key, 5);
  carry();
  deregister(3, key, 4);
  carry();
  for (uint32_t i = 0; i < count; i++) {
    if (i == 17 || i == 3)
      continue;
    assert_int_equal(processes[i].limited, 2);
    assert_int_equal(processes[i].last.completed, 4);
    assert_int_equal(processes[i].last.culprit, 3);
  }
  for (uint32_t i = 0; i < count; i++)
    if (i != 17 && i != 3)
      deregister(i, key, 4);
  carry();
  close_processes();
}

static void the_end_costs_at_most_three_messages_a_process(void **state) {
  (void)state;
  struct rondo_agreement_key key = {0};
  open_processes(1024);
  for (uint32_t i = 0; i < count; i++)
    key = enter(i, 1, ranks, count);
  carry();
  carried = 0;
  deregister(1000, key, 5);
  carry();
  for (uint32_t i = 0; i < count; i++)
    if (i != 1000)
      deregister(i, key, 5);
  carry();
  assert_true(carried <= UINT64_C(3) * (count - 1));
  close_processes();
}

static void a_rank_that_leaves_without_registering_fails_it(void **state) {
  (void)state;
  open_processes(30);
  struct rondo_agreement_key key = {0};
  for (uint32_t i = 0; i < count; i++)
    if (i != 2)
      key = enter(i, 1, ranks, count);
  carry();
  leave(2);
  carry();
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(processes[i].failed, i != 2);
  assert_int_equal(processes[9].last.status, RONDO_ERR_PEER);
  assert_int_equal(processes[9].last.culprit, 2);
  for (uint32_t i = 0; i < count; i++)
    if (i != 2)
      deregister(i, key, 0);
  carry();
  close_processes();
}

// Process 0, the root, and process 1, which has children, leave when they have done their part. The
// others still end together.
static void processes_in_the_tree_leave(void **state) {
  (void)state;
  open_processes(30);
  struct rondo_agreement_key key = {0};
  for (uint32_t i = 0; i < count; i++)
    key = enter(i, 1, ranks, count);
  carry();
  for (uint32_t gone = 0; gone < 2; gone++) {
    deregister(gone, key, 5);
    leave(gone);
    carry();
    for (uint32_t i = gone + 1; i < count; i++)
      tell_gone(i, gone, RONDO_AGREEMENT_LEFT);
    carry();
  }
  deregister(2, key, 5);
  deregister(29, key, 4);
  carry();
  assert_int_equal(processes[12].last.completed, 4); // a child of process 1 before
  assert_int_equal(processes[28].last.completed, 4);
  for (uint32_t i = 3; i < 29; i++)
    deregister(i, key, 4);
  carry();
  assert_int_equal(processes[0].core.entry_count, 1); // it was gone before the end
  for (uint32_t i = 2; i < count; i++) {
    assert_int_equal(processes[i].failed, 0);
    assert_int_equal(processes[i].core.entry_count, 0);
  }
  processes[0].core.entry_count = processes[1].core.entry_count = 0; // freed with the core
  close_processes();
}

static void a_loss_fails_everywhere_without_a_message(void **state) {
  (void)state;
  open_processes(30);
  struct rondo_agreement_key key = {0};
  for (uint32_t i = 0; i < count; i++)
    key = enter(i, 1, ranks, count);
  for (uint64_t id = 2; id < 100; id++)
    for (uint32_t i = 0; i < count; i++)
      key.id.number = enter(i, id, ranks, count).id.number;
  carry();
  carried = 0;
  for (uint32_t i = 0; i < count; i++)
    if (i != 1)
      tell_gone(i, 1, RONDO_AGREEMENT_LOST);
  carry();
  assert_int_equal(carried, 0);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(processes[i].failed, i == 1 ? 0 : 99);
  for (uint32_t i = 0; i < count; i++)
    for (key.id.number = 1; key.id.number < 100; key.id.number++)
      deregister(i, key, 0);
  carry();
  processes[1].core.entry_count = 0; // the lost one
  close_processes();
}

static void comm_fail(uint32_t at, uint64_t key) {
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_FAIL,
                                        .key.id = {key, RONDO_SPACE_KEY, 0},
                                        .members = ranks,
                                        .nranks = count,
                                        .failure = {RONDO_ERR_MISMATCH, at, UINT32_MAX, "so"}};
  assert_int_equal(step(at, &event), RONDO_SUCCESS);
}

// All processes find it at the same time, or one tells the others. Nobody has registered anything.
static void a_communicator_fails_with_two_messages_an_edge(void **state) {
  (void)state;
  static const uint32_t counts[] = {1, 2, 3, 9, 10, 73, 1024};
  for (uint32_t k = 0; k < 2 * sizeof counts / sizeof *counts; k++) {
    bool is_alone = k % 2;
    open_processes(counts[k / 2]);
    for (uint32_t i = is_alone ? count - 1 : 0; i < count; i++)
      comm_fail(i, 7);
    carry();
    assert_int_equal(carried, 2 * (count - 1));
    for (uint32_t i = 0; i + 1 < count && is_alone; i++) {
      assert_int_equal(processes[i].failed, 1);
      assert_int_equal(processes[i].last.key.id.number, 7);
      assert_int_equal(processes[i].last.status, RONDO_ERR_MISMATCH);
      assert_int_equal(processes[i].last.culprit, count - 1);
      assert_string_equal(processes[i].text, "so");
    }
    close_processes();
  }
}

// The root and an inner process leave before they can pass the failure on, or have left before.
static void a_communicator_fails_though_processes_leave(void **state) {
  (void)state;
  for (uint32_t is_late = 0; is_late < 2; is_late++) {
    open_processes(30);
    for (uint32_t gone = 0; gone < 2 && !is_late; gone++)
      for (uint32_t i = 2; i < count; i++)
        tell_gone(i, gone, RONDO_AGREEMENT_LEFT);
    comm_fail(12, 7); // a child of process 1
    if (is_late) {
      struct letter *lost = letter_pop();
      assert_int_equal(lost->to, 1);
      free(lost);
    }
    for (uint32_t gone = 0; gone < 2 && is_late; gone++)
      for (uint32_t i = 2; i < count; i++)
        tell_gone(i, gone, RONDO_AGREEMENT_LEFT);
    carry();
    assert_int_equal(carried, 2 * (28 - 1));
    for (uint32_t i = 0; i < count; i++)
      assert_int_equal(processes[i].failed, i >= 2 && i != 12);
    close_processes();
  }
}

static void a_communicator_with_a_lost_member_fails_without_a_message(void **state) {
  (void)state;
  open_processes(30);
  for (uint32_t i = 0; i < 29; i++)
    tell_gone(i, 29, RONDO_AGREEMENT_LOST);
  comm_fail(12, 7);
  assert_null(first);
  close_processes();
}

// The roster comes when the failure is known.
static void a_communicator_fails_before_the_roster_is_known(void **state) {
  (void)state;
  open_processes(2);
  struct rondo_agreement *core = &processes[1].core;
  core->is_located = false;
  comm_fail(1, 7);
  assert_null(first);
  locate(1);
  carry();
  assert_int_equal(processes[0].failed, 1);
  close_processes();
}

static void a_member_list_goes_once(void **state) {
  (void)state;
  // An order that takes many ranges.
  uint32_t mixed[600];
  open_processes(600);
  for (uint32_t i = 0; i < count; i++)
    mixed[i] = i % 2 ? i / 2 : 300 + (i / 2) * 7 % 300;
  for (uint64_t id = 1; id <= 3; id++) {
    struct rondo_agreement_key key = {0};
    for (uint32_t i = 0; i < count; i++)
      key = enter(i, id, mixed, count);
    carry();
    deregister_all(key);
  }
  uint64_t lists = 0;
  for (uint32_t i = 0; i < count; i++)
    lists += processes[i].core.counters.sent[RONDO_AGREEMENT_KIND_MEMBERS];
  assert_true(lists >= count - 1);
  assert_true(lists <= UINT64_C(2) * (count - 1)); // both sides may send it before they know
  close_processes();
}

static void expect_refused(const struct letter *l) {
  assert_int_equal(letter_deliver(l), RONDO_ERR_INVALID);
  assert_int_equal(processes[0].core.entry_count, 0);
}

// What no sound process sends.
static void invalid_messages_change_nothing(void **state) {
  (void)state;
  open_processes(3);
  struct rondo_agreement_key key = enter(1, 1, ranks, count);
  struct letter *l = letter_pop();
  struct letter *bad = malloc(sizeof *l + l->size);
  assert_non_null(bad);
  struct rondo_message_entry *h = (struct rondo_message_entry *)bad->bytes;
#define REFUSED(change) (memcpy(bad, l, sizeof *l + l->size), (change), expect_refused(bad))
  REFUSED(bad->size--);
  REFUSED(bad->size = sizeof *h - 1);
  REFUSED(bad->type = RONDO_MESSAGE_LOOK);
  REFUSED(bad->from = 0);
  REFUSED(bad->from = 7);
  REFUSED(h->facts = 0);
  REFUSED(h->facts |= 64);
  REFUSED(h->facts = RONDO_ENTRY_COMPLETE);
  REFUSED(h->facts |= RONDO_ENTRY_AGREED);
  REFUSED(h->facts |= RONDO_ENTRY_FAILED);
  REFUSED(h->key.generation = 0);
  REFUSED(h->key.group++);
  REFUSED(h->key.id.space = RONDO_SPACE_KEY);
  REFUSED(h->key.id.reserved = 1);
  REFUSED(h->rank = 3);
  REFUSED(h->limit = 3);
  REFUSED(h->limit_culprit = 1);
  REFUSED(h->range_count++);
  REFUSED(h->text_bytes = 1);
  REFUSED(h->descriptor.kind = -1);
  REFUSED(h->descriptor.dtype = 99);
  REFUSED(h->descriptor.has_counts = 1); // not an all-to-all-v
  REFUSED(h->descriptor.on_loss = RONDO_ON_LOSS_COUNT);
  REFUSED(h->descriptor.algorithm = UINT8_MAX);
  REFUSED(h->descriptor.algorithm = RONDO_ALGORITHM_COUNT);
  REFUSED(h->descriptor.quantisation = RONDO_QUANTISATION_COUNT);
  REFUSED(h->descriptor.nranks = 2);
  REFUSED(h->descriptor.first_rank = 2);
  REFUSED(h->descriptor.blocks = 0);
  REFUSED(h->descriptor.slot_count = 0);
  REFUSED(((struct rondo_member_range *)(h + 1))->count = UINT32_MAX);
  REFUSED(((struct rondo_member_range *)(h + 1))->first = 1);
  REFUSED(((struct rondo_member_range *)(h + 1))->stride = 0);
#undef REFUSED
  assert_int_equal(letter_deliver(l), RONDO_SUCCESS);
  assert_int_equal(processes[0].core.entry_count, 1);
  free(bad);
  free(l);
  (void)enter(0, 1, ranks, count);
  (void)enter(2, 1, ranks, count);
  carry();
  assert_int_equal(count_agreed(), 3);
  deregister_all(key);
  close_processes();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("agreement", costs_at_most_four_messages_a_process),
      RONDO_NAMED_TEST("agreement", nobody_agrees_before_the_last_has_registered),
      RONDO_NAMED_TEST("agreement", a_rank_registers_before_the_roster_is_known),
      RONDO_NAMED_TEST("agreement", a_process_whose_ranks_have_left_learns_the_roster),
      RONDO_NAMED_TEST("agreement", an_id_is_used_again),
      RONDO_NAMED_TEST("agreement", generations_do_not_meet),
      RONDO_NAMED_TEST("agreement", every_difference_is_named_with_both_sides),
      RONDO_NAMED_TEST("agreement", plans_are_compared_once_they_are_known),
      RONDO_NAMED_TEST("agreement", plans_of_one_process_are_compared),
      RONDO_NAMED_TEST("agreement", who_deregisters_without_a_plan_ends_the_runs_of_others),
      RONDO_NAMED_TEST("agreement", groups_that_overlap_may_not_share_an_id),
      RONDO_NAMED_TEST("agreement", an_id_that_a_member_has_used_elsewhere_fails),
      RONDO_NAMED_TEST("agreement", disjoint_groups_share_an_id),
      RONDO_NAMED_TEST("agreement", a_failure_reaches_all_whoever_registers_later_too),
      RONDO_NAMED_TEST("agreement", nobody_runs_past_the_first_that_deregisters),
      RONDO_NAMED_TEST("agreement", the_end_costs_at_most_three_messages_a_process),
      RONDO_NAMED_TEST("agreement", a_rank_that_leaves_without_registering_fails_it),
      RONDO_NAMED_TEST("agreement", processes_in_the_tree_leave),
      RONDO_NAMED_TEST("agreement", a_loss_fails_everywhere_without_a_message),
      RONDO_NAMED_TEST("agreement", a_communicator_fails_with_two_messages_an_edge),
      RONDO_NAMED_TEST("agreement", a_communicator_fails_though_processes_leave),
      RONDO_NAMED_TEST("agreement", a_communicator_with_a_lost_member_fails_without_a_message),
      RONDO_NAMED_TEST("agreement", a_communicator_fails_before_the_roster_is_known),
      RONDO_NAMED_TEST("agreement", a_member_list_goes_once),
      RONDO_NAMED_TEST("agreement", invalid_messages_change_nothing),
  };
  return cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
}
