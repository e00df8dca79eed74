// State that all members hold: what moves between them and what does not, who decides, what they
// get that cannot agree, and what is left if one of them dies in the middle. With ranks that are
// threads, and with ranks that are processes.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rondo/elastic.h>
#include <rondo/state.h>

#include "base/atomic.h"
#include "runtime/rank/rank.h"
#include "runtime/state/state_roll.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define MIB RONDO_STATE_BLOCK_BYTES
#define NEWCOMERS 1u // the place of their id in a family

// The words of a family.
enum { READY = 0, DYING = 1, DEAD = 2, DONE = 3, TEXTS = 32 };

// Called before a rank waits for a parcel, with the number of the parcel. Set before a family runs.
static void (*at_parcel)(uint32_t rank, uint32_t parcel);
static uint32_t parcels[8]; // that each rank has waited for
// Called before a rank tells its outcome.
static void (*at_outcome)(uint32_t rank);

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
int __real_rondo_meeting_wait(const struct rondo_meeting *m, struct rondo_comm_end *end,
                              const struct rondo_ticket *ticket);
int __wrap_rondo_meeting_wait(const struct rondo_meeting *m, struct rondo_comm_end *end,
                              const struct rondo_ticket *ticket);
int __wrap_rondo_meeting_wait(const struct rondo_meeting *m, struct rondo_comm_end *end,
                              const struct rondo_ticket *ticket) {
  uint32_t rank = m->rank->cfg.rank;
  if (at_parcel)
    at_parcel(rank, ++parcels[rank]);
  return __real_rondo_meeting_wait(m, end, ticket);
}
int __real_rondo_roll_call(struct rondo_meeting *m, const uint8_t *own, uint8_t *of_all,
                           bool is_first);
int __wrap_rondo_roll_call(struct rondo_meeting *m, const uint8_t *own, uint8_t *of_all,
                           bool is_first);
int __wrap_rondo_roll_call(struct rondo_meeting *m, const uint8_t *own, uint8_t *of_all,
                           bool is_first) {
  if (at_outcome && !is_first)
    at_outcome(m->rank->cfg.rank);
  return __real_rondo_roll_call(m, own, of_all, is_first);
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

// --------------------------------------------------------------------- helpers ---

static void pause_briefly(void) {
  const struct timespec brief = {0, 1000000};
  nanosleep(&brief, NULL);
}

// Fills memory with numbers that a seed chooses.
static void fill(void *memory, uint64_t bytes, uint32_t seed) {
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint64_t word = ((i + seed) * 0x9e3779b97f4a7c15u ^ i >> 20) * (2 * seed + 1);
    memcpy((uint8_t *)memory + i, &word, bytes - i < 8 ? bytes - i : 8);
  }
}

static bool is_filled(const void *memory, uint64_t bytes, uint32_t seed) {
  uint8_t *expected = malloc(bytes + 1);
  fill(expected, bytes, seed);
  bool is_same = !bytes || !memcmp(memory, expected, bytes);
  free(expected);
  return is_same;
}

// A state of one tensor of `blocks` blocks.
struct model {
  struct rondo_state state;
  struct rondo_state_tensor tensor;
  uint64_t bytes;
  struct rondo_state_report report;
  char why[RONDO_REASON_BYTES];
};

static struct model *model_create(uint32_t blocks, uint32_t seed) {
  struct model *m = calloc(1, sizeof *m);
  RONDO_MEMBER_TRUE(m != NULL);
  m->state = (struct rondo_state)RONDO_STATE_INIT;
  m->bytes = blocks * MIB;
  m->tensor = (struct rondo_state_tensor){"weights", malloc(m->bytes + 1), m->bytes, RONDO_UINT8};
  RONDO_MEMBER_TRUE(m->tensor.memory != NULL);
  fill(m->tensor.memory, m->bytes, seed);
  m->state.tensors = &m->tensor;
  m->state.tensor_count = 1;
  return m;
}

static void model_destroy(struct model *m) {
  free(m->tensor.memory);
  free(m);
}

static int model_sync(struct rondo_context ctx, struct model *m) {
  int status = rondo_state_sync(ctx, &m->state, LONG_NS, &m->report, m->why);
  RONDO_MEMBER_TRUE((status == RONDO_SUCCESS) == !*m->why);
  return status;
}

static uint8_t *model_block(const struct model *m, uint32_t block) {
  return (uint8_t *)m->tensor.memory + block * MIB;
}

static void expect_revision(const struct model *m, uint64_t revision) {
  RONDO_MEMBER_TRUE(m->state.revision == revision && m->report.revision == revision);
  RONDO_MEMBER_TRUE(!m->state.is_partial && m->state.digest);
}

static void expect_text(const char *why, const char *part) {
  if (!strstr(why, part))
    fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, why);
  RONDO_MEMBER_TRUE(strstr(why, part) != NULL);
}

static void run_family(uint32_t processes, uint32_t ranks,
                       void (*member)(struct rondo_family *f, uint32_t rank),
                       void (*watch)(struct rondo_family *f)) {
  struct rondo_family *f = rondo_family_create(processes, ranks);
  rondo_family_run(f, member, watch);
  rondo_family_destroy(f);
}

// As threads of one process, then as processes.
static void run_both(void (*member)(struct rondo_family *f, uint32_t rank)) {
  run_family(1, 4, member, NULL);
  run_family(4, 4, member, NULL);
}

// ------------------------------------------------------------------ what moves ---

// Rank 2 is damaged in three blocks of a hundred.
static void damage(struct rondo_family *f, uint32_t rank) {
  const uint32_t blocks = (uint32_t)rondo_test_load(100, 20);
  const uint32_t damaged[3] = {0, blocks / 2, blocks - 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(blocks, 1);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_TRUE(m->report.compared_blocks == blocks && m->report.source == 0);
  RONDO_MEMBER_TRUE(!m->report.received_bytes && !m->report.sent_bytes && !m->report.senders);
  for (uint32_t i = 0; i < 3 && rank == 2; i++)
    model_block(m, damaged[i])[i * 1000] ^= 1;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_TRUE(m->report.received_bytes == (rank == 2 ? 3 * MIB : 0));
  RONDO_MEMBER_TRUE(m->report.sent_bytes == (rank == 2 ? 0 : MIB));
  RONDO_MEMBER_TRUE(m->report.senders == (rank == 2 ? 3 : 0));
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 1));
  model_destroy(m);
  rondo_family_close(ctx);
}

static void only_damaged_blocks_move_and_from_all_that_have_them(void **state) {
  (void)state;
  run_both(damage);
}

// All change alike, then not at all, then rank 3 alone.
static void change(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(2, 1);
  for (uint32_t step = 1; step <= 3; step++) {
    fill(m->tensor.memory, m->bytes, step);
    for (uint32_t again = 0; again < 2; again++) {
      RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
      expect_revision(m, step);
    }
  }
  if (rank == 3)
    fill(m->tensor.memory, m->bytes, 9);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 3);
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 3));
  m->state.strategy = rank == 3 ? RONDO_STATE_SEND_ONLY : RONDO_STATE_MOST_FREQUENT;
  if (rank == 3)
    fill(m->tensor.memory, m->bytes, 9);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 4);
  RONDO_MEMBER_TRUE(m->report.source == 3 && is_filled(m->tensor.memory, m->bytes, 9));
  model_destroy(m);
  rondo_family_close(ctx);
}

static void the_revision_rises_by_one_for_each_change(void **state) {
  (void)state;
  run_both(change);
}

// Every type, with no element, one, an odd number, and one more than fits a block. Rank 1 is the
// only one that differs, and differs everywhere.
#define SIZES 4u

static void move_types(struct rondo_family *f, uint32_t rank) {
  struct rondo_state_tensor tensors[RONDO_DTYPE_COUNT * SIZES];
  struct rondo_state state = RONDO_STATE_INIT;
  struct rondo_state_report report;
  uint64_t all = 0;
  uint32_t count = 0;
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++) {
    uint64_t elem = rondo_dtype_bytes(dtype);
    const uint64_t counts[SIZES] = {0, 1, 12345, MIB / elem + 1};
    for (uint32_t i = 0; i < SIZES; i++) {
      char *memory = counts[i] ? malloc(counts[i] * elem + 1) : NULL;
      if (memory)
        fill(memory + 1, counts[i] * elem, rank == 1 ? 99 : count);
      tensors[count++] =
          (struct rondo_state_tensor){"t", memory ? memory + 1 : NULL, counts[i], dtype};
      all += counts[i] * elem;
    }
  }
  state.tensors = tensors;
  state.tensor_count = count;
  RONDO_MEMBER_STATUS(rondo_state_sync(ctx, &state, LONG_NS, &report, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(report.received_bytes == (rank == 1 ? all : 0));
  for (uint32_t i = 0; i < count; i++) {
    const struct rondo_state_tensor *t = &tensors[i];
    RONDO_MEMBER_TRUE(is_filled(t->memory, t->count * rondo_dtype_bytes(t->dtype), i));
    free(t->memory ? (char *)t->memory - 1 : NULL);
  }
  rondo_family_close(ctx);
}

static void every_type_and_any_size_is_moved(void **state) {
  (void)state;
  run_both(move_types);
}

static void sync_alone(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 1);
  struct model *m = model_create(1, 1);
  struct rondo_state empty = RONDO_STATE_INIT;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_STATUS(rondo_state_sync(ctx, &empty, LONG_NS, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(empty.revision == 1);
  model_destroy(m);
  rondo_family_close(ctx);
}

static void a_member_alone_and_a_list_of_no_tensor_are_in_order(void **state) {
  (void)state;
  run_family(1, 1, sync_alone, NULL);
}

// Three members have a state; the fourth process joins and has nothing.
static void catch_up(struct rondo_family *f, uint32_t rank) {
  const uint32_t blocks = 30;
  struct rondo_context ctx;
  struct model *m = model_create(blocks, rank == 3 ? 77 : 5);
  if (rank == 3) {
    struct rondo_config cfg = f->cfg;
    rondo_family_await(&f->has_id[NEWCOMERS], 1);
    cfg.id = f->ids[NEWCOMERS];
    RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, NULL), RONDO_SUCCESS);
  } else {
    struct rondo_context old = rondo_family_open(f, 0, rank, 3);
    for (uint32_t i = 0; i < 3; i++) {
      fill(m->tensor.memory, m->bytes, 5 + i);
      RONDO_MEMBER_STATUS(model_sync(old, m), RONDO_SUCCESS);
    }
    if (rank == 0) {
      RONDO_MEMBER_STATUS(rondo_grow_listen(&f->ids[NEWCOMERS], &f->cfg), RONDO_SUCCESS);
      rondo_store_release_u32(&f->has_id[NEWCOMERS], 1);
    }
    RONDO_MEMBER_STATUS(
        rondo_grow(old, rank == 0 ? &f->ids[NEWCOMERS] : NULL, 1, LONG_NS, &ctx, NULL),
        RONDO_SUCCESS);
    rondo_family_close(old);
  }
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 3);
  RONDO_MEMBER_TRUE(m->report.received_bytes == (rank == 3 ? m->bytes : 0));
  RONDO_MEMBER_TRUE(m->report.sent_bytes == (rank == 3 ? 0 : m->bytes / 3));
  RONDO_MEMBER_TRUE(m->report.senders == (rank == 3 ? 3 : 0));
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 7));
  model_destroy(m);
  rondo_family_close(ctx);
}

static void a_newcomer_gets_all_from_all_members(void **state) {
  (void)state;
  run_family(4, 4, catch_up, NULL);
}

// ---------------------------------------------------------------- disagreement ---

// The reasons of all members, as numbers, must be equal.
static void expect_same_text(struct rondo_family *f, uint32_t rank, const char *why) {
  uint32_t number = 1;
  for (const char *c = why; *c; c++)
    number = number * 31 + (uint8_t)*c;
  rondo_store_release_u32(&f->words[TEXTS + rank], number);
  rondo_family_add(&f->words[DONE]);
  uint32_t round = (rondo_load_acquire_u32(&f->words[DONE]) - 1) / 4 + 1;
  rondo_family_await(&f->words[DONE], 4 * round);
  for (uint32_t i = 0; i < 4; i++)
    RONDO_MEMBER_TRUE(rondo_load_acquire_u32(&f->words[TEXTS + i]) == number);
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 4 * round);
}

static void expect_refusal(struct rondo_family *f, struct rondo_context ctx, struct model *m,
                           const char *why) {
  uint32_t rank = 0;
  uint32_t ranks;
  const struct rondo_state before = m->state;
  RONDO_MEMBER_STATUS(rondo_describe_rank(ctx, &rank, &ranks), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_MISMATCH);
  expect_text(m->why, why);
  RONDO_MEMBER_TRUE(!memcmp(&before, &m->state, sizeof before));
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, rank));
  expect_same_text(f, rank, m->why);
}

static void disagree(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(3, rank);
  m->state.strategy = RONDO_STATE_RECEIVE_ONLY;
  expect_refusal(f, ctx, m, "ranks 0, 1, 2, 3 ask to receive only");
  m->state.strategy = rank % 2 ? RONDO_STATE_SEND_ONLY : RONDO_STATE_MOST_FREQUENT;
  expect_refusal(f, ctx, m, "ranks 1, 3 ask to send only, but their contents differ");
  m->state.strategy = rank == 2 ? RONDO_STATE_SEND_ONLY : RONDO_STATE_MOST_FREQUENT;
  m->state.revision = rank == 0 ? 6 : 5;
  expect_refusal(f, ctx, m, "rank 2 asks to send only and has revision 5; rank 0 has revision 6");
  m->state.strategy = RONDO_STATE_MOST_FREQUENT;
  m->state.revision = 0;
  m->tensor.name = rank == 1 ? "heights" : "weights";
  expect_refusal(f, ctx, m,
                 "tensor 0: ranks 0, 2, 3 have 'weights' of 3145728 uint8; rank 1 has "
                 "'heights' of 3145728 uint8");
  m->tensor.name = "weights";
  m->tensor.dtype = rank == 1 ? RONDO_FLOAT8_E5M2 : RONDO_FLOAT8_E4M3;
  expect_refusal(f, ctx, m, "float8");
  m->tensor.dtype = RONDO_INT8;
  m->tensor.count -= rank == 3;
  expect_refusal(f, ctx, m, "rank 3 has 'weights' of 3145727 int8");
  m->tensor.count = m->bytes;
  // The members are in step: the next call succeeds.
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_TRUE(m->report.source == 0 && is_filled(m->tensor.memory, m->bytes, 0));
  model_destroy(m);
  rondo_family_close(ctx);
}

static void who_cannot_agree_gets_one_reason_and_keeps_its_content(void **state) {
  (void)state;
  run_both(disagree);
}

// Lists of many tensors that differ in one place, or in length. The place is found by bisection.
#define TENSORS 37u

static void list_many(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct rondo_state_tensor tensors[TENSORS];
  struct rondo_state state = RONDO_STATE_INIT;
  float value = 1;
  char why[RONDO_REASON_BYTES];
  char expected[64];
  state.tensors = tensors;
  for (uint32_t odd = 0; odd < TENSORS; odd += 4) {
    for (uint32_t i = 0; i < TENSORS; i++)
      tensors[i] = (struct rondo_state_tensor){"t", &value, 1, RONDO_FLOAT32};
    tensors[odd].dtype = rank == 2 ? RONDO_INT32 : RONDO_FLOAT32;
    state.tensor_count = TENSORS;
    RONDO_MEMBER_STATUS(rondo_state_sync(ctx, &state, LONG_NS, NULL, why), RONDO_ERR_MISMATCH);
    (void)snprintf(expected, sizeof expected, "in tensor %u: ranks 0, 1, 3 have", odd);
    expect_text(why, expected);
    tensors[odd].dtype = RONDO_FLOAT32;
    state.tensor_count = rank == 1 ? odd : TENSORS;
    RONDO_MEMBER_STATUS(rondo_state_sync(ctx, &state, LONG_NS, NULL, why), RONDO_ERR_MISMATCH);
    (void)snprintf(expected, sizeof expected, "in tensor %u: ranks 0, 2, 3 have", odd);
    expect_text(why, expected);
    expect_text(why, "rank 1 has no such tensor");
  }
  rondo_family_close(ctx);
}

static void the_first_tensor_that_differs_is_named(void **state) {
  (void)state;
  run_family(1, 4, list_many, NULL);
}

enum { STATE_FAULTS = 12 };

// Makes one field of a good state wrong. `longest`: a name of one character too many.
static void model_break(struct model *m, uint32_t fault, const char *longest) {
  switch (fault) {
  case 0:
    m->state.size--;
    break;
  case 1:
    m->state.version++;
    break;
  case 2:
    m->state.strategy = 3;
    break;
  case 3:
    m->state.strategy = -1;
    break;
  case 4:
    m->state.tensors = NULL;
    break;
  case 5:
    m->state.is_partial = 2;
    break;
  case 6:
    m->state.revision = UINT64_MAX;
    break;
  case 7:
    m->tensor.name = "";
    break;
  case 8:
    m->tensor.name = "two\nlines";
    break;
  case 9:
    m->tensor.name = longest;
    break;
  case 10:
    m->tensor.memory = NULL;
    break;
  default:
    m->tensor.dtype = RONDO_DTYPE_COUNT;
    break;
  }
}

// Each member calls with every kind of fault: none of them takes part.
static void refuse_arguments(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 1);
  struct model *m = model_create(1, 1);
  const struct model good = *m;
  char longest[RONDO_STATE_NAME_BYTES + 1];
  memset(longest, 'n', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  RONDO_MEMBER_STATUS(rondo_state_sync(ctx, NULL, LONG_NS, NULL, NULL), RONDO_ERR_INVALID);
  for (uint32_t fault = 0; fault < STATE_FAULTS; fault++) {
    m->state = good.state;
    m->tensor = good.tensor;
    model_break(m, fault, longest);
    RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_INVALID);
  }
  m->tensor = good.tensor;
  m->tensor.count = UINT64_MAX / 2;
  m->tensor.dtype = RONDO_FLOAT64;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_INVALID);
  m->tensor = good.tensor;
  longest[RONDO_STATE_NAME_BYTES - 1] = '\0';
  m->tensor.name = longest;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  m->tensor = good.tensor;
  model_destroy(m);
  rondo_family_close(ctx);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  run_family(1, 1, refuse_arguments, NULL);
}

// --------------------------------------------------------------- who does not come ---

// Rank 3 calls when the others have given up. Then all are in step again.
static void come_late(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(1, rank);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  if (rank != 3) {
    int early = rondo_state_sync(ctx, &m->state, rank == 0 ? 100000000 : LONG_NS, NULL, m->why);
    RONDO_MEMBER_STATUS(early, rank == 0 ? RONDO_ERR_TIMEOUT : RONDO_ERR_ABORTED);
    expect_text(m->why, "rank 0: not all members have called in time; missing: rank 3");
    rondo_family_add(&f->words[DONE]);
  } else {
    rondo_family_await(&f->words[DONE], 3);
  }
  int status = model_sync(ctx, m);
  if (rank == 3 && status != RONDO_SUCCESS) { // it has not heard yet that the others have given up
    RONDO_MEMBER_STATUS(status, RONDO_ERR_ABORTED);
    expect_text(m->why, "rank 0: not all members have called in time");
    status = model_sync(ctx, m);
  }
  RONDO_MEMBER_STATUS(status, RONDO_SUCCESS);
  expect_revision(m, 1);
  model_destroy(m);
  rondo_family_close(ctx);
}

static void a_call_ends_in_time_and_the_next_one_succeeds(void **state) {
  (void)state;
  run_both(come_late);
}

struct second_thread {
  struct rondo_family *f;
  struct rondo_context ctx;
  struct model *model;
};

static void *call_again(void *arg) {
  const struct second_thread *t = arg;
  for (size_t runs = 0; runs == 0; pause_briefly())
    RONDO_MEMBER_STATUS(rondo_stuck(t->ctx, NULL, 0, &runs), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(model_sync(t->ctx, t->model), RONDO_ERR_EXISTS);
  rondo_family_add(&t->f->words[READY]);
  return NULL;
}

static void call_twice(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  struct model *m = model_create(1, 1);
  struct second_thread second = {f, ctx, model_create(1, 1)};
  pthread_t thread;
  if (rank == 0)
    RONDO_MEMBER_TRUE(pthread_create(&thread, NULL, call_again, &second) == 0);
  else
    rondo_family_await(&f->words[READY], 1);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  if (rank == 0)
    pthread_join(thread, NULL);
  model_destroy(second.model);
  model_destroy(m);
  rondo_family_close(ctx);
}

static void one_thread_of_a_context_synchronises_at_a_time(void **state) {
  (void)state;
  run_family(2, 2, call_twice, NULL);
}

// --------------------------------------------------------------------- the middle ---

#define BLOCKS 48u
#define MIDDLE 20u // the parcel at which something happens to the receiver, rank 3

static struct rondo_family *family; // of this process
static struct model *models[4];

static void await_death(uint32_t rank, uint32_t parcel) {
  if (rank != 3 || parcel != MIDDLE)
    return;
  rondo_family_add(&family->words[DYING]);
  rondo_family_await(&family->words[DEAD], 1);
}

static void kill_rank(struct rondo_family *f, uint32_t rank) {
  rondo_family_await(&f->words[DYING], 1);
  kill(f->pids[rank], SIGKILL);
  rondo_family_add(&f->words[DEAD]);
}

static void kill_a_sender(struct rondo_family *f) { kill_rank(f, 1); }
static void kill_the_receiver(struct rondo_family *f) { kill_rank(f, 3); }

// Each block has its old or its new content. Returns how many are new.
static uint32_t count_new_blocks(const struct model *m, uint32_t before, uint32_t after) {
  uint8_t *contents = malloc(2 * m->bytes);
  uint32_t count = 0;
  RONDO_MEMBER_TRUE(contents != NULL);
  fill(contents, m->bytes, before);
  fill(contents + m->bytes, m->bytes, after);
  for (uint32_t b = 0; b < BLOCKS; b++) {
    bool is_new = !memcmp(model_block(m, b), contents + m->bytes + b * MIB, MIB);
    RONDO_MEMBER_TRUE(is_new || !memcmp(model_block(m, b), contents + b * MIB, MIB));
    count += is_new;
  }
  free(contents);
  return count;
}

// Rank 3 lacks everything. A process is killed while rank 3 waits for a parcel in the middle.
static void lose_one(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(BLOCKS, rank == 3 ? 50 : 1);
  family = f;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_PEER);
  RONDO_MEMBER_TRUE(m->state.revision == 0 && m->state.is_partial == (rank == 3));
  if (rank == 3) {
    uint32_t count = count_new_blocks(m, 50, 1);
    RONDO_MEMBER_TRUE(count >= MIDDLE - 1 && count < BLOCKS);
  } else {
    RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 1));
  }
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 1));
  model_destroy(m);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void the_death_of_a_sender_in_the_middle_is_mended_by_the_next_call(void **state) {
  (void)state;
  at_parcel = await_death;
  run_family(4, 4, lose_one, kill_a_sender);
  at_parcel = NULL;
}

static void the_death_of_the_receiver_in_the_middle_changes_nothing(void **state) {
  (void)state;
  at_parcel = await_death;
  run_family(4, 4, lose_one, kill_the_receiver);
  at_parcel = NULL;
}

// Only rank 0 has the content, and dies in the middle: nobody has all of it, and none of the parts
// is chosen. With a content from elsewhere the members go on.
static void kill_the_source(struct rondo_family *f) { kill_rank(f, 0); }

static void lose_the_source(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(BLOCKS, rank == 0 ? 1 : 50);
  family = f;
  m->state.strategy = rank == 0 ? RONDO_STATE_SEND_ONLY : RONDO_STATE_MOST_FREQUENT;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_PEER);
  RONDO_MEMBER_TRUE(m->state.is_partial == 1);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_MISMATCH);
  expect_text(m->why, "ranks 1, 2, 3 have only a part, of a call that failed");
  if (rank == 2) {
    fill(m->tensor.memory, m->bytes, 3);
    m->state.is_partial = 0;
  }
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_TRUE(m->report.source == 2 && is_filled(m->tensor.memory, m->bytes, 3));
  model_destroy(m);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void a_part_of_a_lost_content_is_never_chosen(void **state) {
  (void)state;
  at_parcel = await_death;
  run_family(4, 4, lose_the_source, kill_the_source);
  at_parcel = NULL;
}

// The application of the senders changes a block that has not been sent yet.
static void change_the_end(uint32_t rank, uint32_t parcel) {
  if (rank != 3 || parcel != MIDDLE)
    return;
  for (uint32_t i = 0; i < 3; i++)
    model_block(models[i], BLOCKS - 1)[0] ^= 1;
}

static void change_meanwhile(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(BLOCKS, rank == 3 ? 50 : 1);
  models[rank] = m;
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 4);
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_ERR_MISMATCH);
  expect_text(m->why, "rank 3: tensor 'weights' of rank ");
  expect_text(m->why, " has changed during the call");
  rondo_family_add(&f->words[DONE]);
  rondo_family_await(&f->words[DONE], 4);
  if (rank == 3)
    RONDO_MEMBER_TRUE(count_new_blocks(m, 50, 1) == BLOCKS - 1);
  else
    model_block(m, BLOCKS - 1)[0] ^= 1;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 1));
  RONDO_MEMBER_TRUE(rank != 3 || m->report.received_bytes == MIB);
  model_destroy(m);
  rondo_family_close(ctx);
}

static void a_tensor_that_changes_during_the_call_is_noticed(void **state) {
  (void)state;
  at_parcel = change_the_end;
  run_family(1, 4, change_meanwhile, NULL);
  at_parcel = NULL;
}

// ------------------------------------------------------------------- one outcome ---

// Ranks 0 and 1 are in their call when rank 3 goes, rank 2 calls when it knows of that: all have
// the same outcome.
static void *tell_when_waiting(void *arg) {
  const struct second_thread *t = arg;
  for (size_t runs = 0; runs == 0; pause_briefly())
    RONDO_MEMBER_STATUS(rondo_stuck(t->ctx, NULL, 0, &runs), RONDO_SUCCESS);
  rondo_family_add(&t->f->words[READY]);
  return NULL;
}

static void await_gone(struct rondo_context ctx) {
  for (uint32_t left = 3; left == 3; pause_briefly())
    (void)rondo_wait_gone(ctx, 0, NULL, 0, &left);
}

static void sync_beside_one_that_goes(struct rondo_family *f, uint32_t rank, bool dies) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(2, 1);
  struct second_thread second = {f, ctx, NULL};
  pthread_t thread;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  for (uint32_t step = 2; step <= 3 && rank != 3; step++) {
    fill(m->tensor.memory, m->bytes, rank == 1 ? 99 : step);
    if (step == 2 && rank < 2)
      RONDO_MEMBER_TRUE(pthread_create(&thread, NULL, tell_when_waiting, &second) == 0);
    else if (step == 2)
      await_gone(ctx);
    RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
    expect_revision(m, step);
    RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, step));
    if (step == 2 && rank < 2)
      pthread_join(thread, NULL);
  }
  if (rank == 3) {
    rondo_family_await(&f->words[READY], 2);
    rondo_family_add(&f->words[DYING]);
    if (dies)
      for (;;)
        pause_briefly();
  }
  model_destroy(m);
  if (rank != 3 && dies)
    RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  else
    rondo_family_close(ctx);
}

static void sync_beside_a_death(struct rondo_family *f, uint32_t rank) {
  sync_beside_one_that_goes(f, rank, true);
}
static void sync_beside_a_leave(struct rondo_family *f, uint32_t rank) {
  sync_beside_one_that_goes(f, rank, false);
}

static void who_knows_of_a_loss_meets_who_does_not(void **state) {
  (void)state;
  run_family(4, 4, sync_beside_a_death, kill_the_receiver);
  run_family(4, 4, sync_beside_a_leave, NULL);
}

// Rank 1 dies when some have told their outcome and some have not: all have the content by then, so
// all succeed.
static void await_death_before_the_end(uint32_t rank) {
  if (rank == 1) {
    rondo_family_add(&family->words[DYING]);
    rondo_family_await(&family->words[DONE], 1); // never
  }
  if (rank == 2)
    rondo_family_await(&family->words[DEAD], 1);
}

static void lose_one_at_the_end(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct model *m = model_create(2, rank == 3 ? 50 : 1);
  family = f;
  RONDO_MEMBER_STATUS(model_sync(ctx, m), RONDO_SUCCESS);
  expect_revision(m, 1);
  RONDO_MEMBER_TRUE(is_filled(m->tensor.memory, m->bytes, 1));
  model_destroy(m);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void a_death_at_the_end_has_one_outcome_for_all(void **state) {
  (void)state;
  at_outcome = await_death_before_the_end;
  run_family(4, 4, lose_one_at_the_end, kill_a_sender);
  at_outcome = NULL;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("state_sync", only_damaged_blocks_move_and_from_all_that_have_them),
      RONDO_NAMED_TEST("state_sync", the_revision_rises_by_one_for_each_change),
      RONDO_NAMED_TEST("state_sync", every_type_and_any_size_is_moved),
      RONDO_NAMED_TEST("state_sync", a_member_alone_and_a_list_of_no_tensor_are_in_order),
      RONDO_NAMED_TEST("state_sync", a_newcomer_gets_all_from_all_members),
      RONDO_NAMED_TEST("state_sync", who_cannot_agree_gets_one_reason_and_keeps_its_content),
      RONDO_NAMED_TEST("state_sync", the_first_tensor_that_differs_is_named),
      RONDO_NAMED_TEST("state_sync", bad_arguments_are_refused),
      RONDO_NAMED_TEST("state_sync", a_call_ends_in_time_and_the_next_one_succeeds),
      RONDO_NAMED_TEST("state_sync", one_thread_of_a_context_synchronises_at_a_time),
      RONDO_NAMED_TEST("state_sync",
                       the_death_of_a_sender_in_the_middle_is_mended_by_the_next_call),
      RONDO_NAMED_TEST("state_sync", the_death_of_the_receiver_in_the_middle_changes_nothing),
      RONDO_NAMED_TEST("state_sync", a_part_of_a_lost_content_is_never_chosen),
      RONDO_NAMED_TEST("state_sync", a_tensor_that_changes_during_the_call_is_noticed),
      RONDO_NAMED_TEST("state_sync", who_knows_of_a_loss_meets_who_does_not),
      RONDO_NAMED_TEST("state_sync", a_death_at_the_end_has_one_outcome_for_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
