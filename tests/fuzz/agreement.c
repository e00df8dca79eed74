// Processes that know the secret and send anything to a core of the agreement on registrations: it
// takes what is sound and refuses the rest, and lives on.
//
// An input is a list of happenings: what a rank here does, or a message, made from the last fields
// that were sent and spoilt.
#include "runtime/job/agreement.h"
#include "runtime/job/message.h"
#include "tests/support/fuzz.h"

#define RANKS 6u
#define PROCESSES 4u
#define IDS 2u
#define MOST_HAPPENINGS 64u

static const uint32_t homes[RANKS] = {0, 1, 2, 3, 0, 1};
static const uint32_t groups[][RANKS] = {{0, 1, 2, 3, 4, 5}, {0, 1}, {3, 0}};
static const uint32_t sizes[] = {RANKS, 2, 2};

struct world {
  struct rondo_member_lists lists;
  struct rondo_agreement core;
  struct rondo_agreement_actions actions;
  struct rondo_agreement_key keys[RANKS][IDS];
  uint8_t is_registered[RANKS][IDS];
};

static int step(struct world *w, struct rondo_agreement_event *event) {
  int status = rondo_agreement_step(&w->core, event, &w->actions);
  for (uint32_t i = 0; i < w->actions.count; i++) {
    const struct rondo_agreement_action *action = &w->actions.list[i];
    struct rondo_entry_message m;
    if (action->type != RONDO_AGREEMENT_SEND)
      continue;
    RONDO_FUZZ_CHECK(action->process < PROCESSES && action->process != 0);
    RONDO_FUZZ_CHECK(action->message_type == RONDO_MESSAGE_ENTRY);
    RONDO_FUZZ_CHECK(
        rondo_message_entry_decode(w->actions.bytes + action->at, action->size, RANKS, &m));
  }
  rondo_agreement_actions_clear(&w->actions);
  return status;
}

static struct rondo_descriptor describe(uint32_t group) {
  return (struct rondo_descriptor){.count = 8,
                                   .kind = RONDO_ALL_REDUCE,
                                   .dtype = RONDO_INT32,
                                   .redop = RONDO_SUM,
                                   .nranks = sizes[group],
                                   .first_rank = groups[group][0],
                                   .last_rank = groups[group][sizes[group] - 1],
                                   .blocks = 1,
                                   .chunk_elems = 8,
                                   .slot_count = 2};
}

// A rank here registers or deregisters an id.
static void act(struct world *w, struct rondo_fuzz_input *in) {
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t rank = how & 1 ? 4 : 0;
  uint32_t id = how >> 1 & 1;
  uint32_t group = rank ? 0 : (how >> 2) % 3;
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_REGISTER,
                                        .rank = rank,
                                        .members = groups[group],
                                        .nranks = sizes[group],
                                        .descriptor = describe(group)};
  event.key.id.number = id;
  if (w->is_registered[rank][id]) {
    event.type = how & 128 ? RONDO_AGREEMENT_FAIL : RONDO_AGREEMENT_DEREGISTER;
    event.key = w->keys[rank][id];
    event.failure = (struct rondo_agreement_failure){RONDO_ERR_ABORTED, rank, UINT32_MAX, ""};
  }
  RONDO_FUZZ_CHECK(step(w, &event) == RONDO_SUCCESS);
  if (event.type != RONDO_AGREEMENT_FAIL)
    w->is_registered[rank][id] ^= 1;
  w->keys[rank][id] = event.key;
}

static void go(struct world *w, struct rondo_fuzz_input *in) {
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t rank = 1 + how % 3;
  struct rondo_agreement_event event = {.type =
                                            how & 128 ? RONDO_AGREEMENT_LOST : RONDO_AGREEMENT_LEFT,
                                        .ranks = &rank,
                                        .rank_count = 1,
                                        .process = homes[rank]};
  RONDO_FUZZ_CHECK(step(w, &event) == RONDO_SUCCESS);
}

// A message that could be sound, with some of its bytes changed.
static void say(struct world *w, struct rondo_fuzz_input *in) {
  struct {
    struct rondo_message_entry head;
    char rest[256];
  } m = {.head = {.limit = UINT64_MAX, .limit_culprit = UINT32_MAX, .other = UINT32_MAX}};
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t group = how % 3;
  struct rondo_member_range ranges[RANKS];
  uint32_t at = 0;
  const struct rondo_member_list *list =
      rondo_member_lists_get(&w->lists, groups[group], sizes[group]);
  RONDO_FUZZ_CHECK(list != NULL);
  m.head.key.id.number = how >> 2 & 1;
  m.head.key.generation = 1 + (how >> 3 & 1);
  m.head.key.group = list->digest;
  m.head.rank = groups[group][1];
  m.head.facts = (uint32_t)rondo_fuzz_take(in, 1) & RONDO_ENTRY_FACTS;
  m.head.status = RONDO_ERR_ABORTED;
  m.head.descriptor = describe(group);
  m.head.range_count = rondo_member_list_ranges(list, &at, ranges, RANKS);
  size_t size = sizeof m.head + m.head.range_count * sizeof *ranges;
  memcpy(m.rest, ranges, m.head.range_count * sizeof *ranges);
  for (uint32_t n = (uint32_t)rondo_fuzz_take(in, 1) % 4; n; n--) {
    size_t place = rondo_fuzz_take(in, 1) % size;
    ((uint8_t *)&m)[place] = (uint8_t)rondo_fuzz_take(in, 1);
  }
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_RECEIVE,
                                        .process = how >> 4 & 3,
                                        .message_type = RONDO_MESSAGE_ENTRY,
                                        .bytes = &m,
                                        .size = how & 128 ? size - 1 : size};
  int status = step(w, &event);
  RONDO_FUZZ_CHECK(status == RONDO_SUCCESS || status == RONDO_ERR_INVALID);
}

// Parts of a member list.
static void list(struct world *w, struct rondo_fuzz_input *in) {
  struct {
    struct rondo_message_members head;
    struct rondo_member_range ranges[2];
  } m;
  for (size_t i = 0; i < sizeof m; i++)
    ((uint8_t *)&m)[i] = (uint8_t)rondo_fuzz_take(in, 1);
  m.head.range_count %= 4;
  m.head.nranks %= 2 * RANKS;
  m.head.reserved &= 1;
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_RECEIVE,
                                        .process = 1 + m.head.at % 2,
                                        .message_type = RONDO_MESSAGE_MEMBERS,
                                        .bytes = &m,
                                        .size = sizeof m.head +
                                                (m.head.range_count % 3) * sizeof *m.ranges};
  int status = step(w, &event);
  RONDO_FUZZ_CHECK(status == RONDO_SUCCESS || status == RONDO_ERR_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  struct world w = {.core = {.lists = NULL}};
  struct rondo_agreement_event located = {.type = RONDO_AGREEMENT_LOCATED, .process_of = homes};
  rondo_member_lists_init(&w.lists, RANKS);
  rondo_agreement_init(&w.core, &w.lists);
  RONDO_FUZZ_CHECK(step(&w, &located) == RONDO_SUCCESS);
  for (uint32_t n = 0; n < MOST_HAPPENINGS && in.size; n++) {
    static void (*const happenings[])(struct world *, struct rondo_fuzz_input *) = {act, say, say,
                                                                                    list, go};
    happenings[rondo_fuzz_take(&in, 1) % 5](&w, &in);
  }
  rondo_agreement_fini(&w.core);
  rondo_agreement_actions_free(&w.actions);
  rondo_member_lists_fini(&w.lists);
  return 0;
}
